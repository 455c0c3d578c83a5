"""What is known of a job's kernel, and of its replay -> whether the replay stands in for it, and why.

Levels, best first:

    identical         the machine code is the same, and so are launch and shared memory where both sides say them
    equivalent        name, launch, registers, private and shared memory are the same
    similar           the name is the same, and so is the duration, within max(5 %, 2 x IQR) of the job's median
    not-a-stand-in    both sides are known, and differ
    unproven          nothing contradicts it, and nothing proves it (a library picks its kernel when it runs)

Only like is compared with like: an executable with an executable, a trace with a trace. A trace rounds registers to
what the hardware hands out, and has no machine code. Pure functions on records: no file, no process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rocktools.findings import Finding, Severity

DURATION_RATIO = 0.05
DURATION_IQRS = 2.0
# Of the same kernel on the same data these are the same in every pass; others depend on caches and clocks.
STEADY_COUNTERS = ("SQ_WAVES", "SQ_INSTS_")
UNSTEADY_RATIO = 0.10


class Level(str, Enum):
    """How well a replay stands in for a kernel of the job, best first."""

    IDENTICAL = "identical"
    EQUIVALENT = "equivalent"
    SIMILAR = "similar"
    NOT_A_STAND_IN = "not-a-stand-in"
    UNPROVEN = "unproven"

    def __str__(self) -> str:
        return self.value

    @property
    def is_stand_in(self) -> bool:
        """Whether counters of the replay may be told as the job's."""
        return self in (Level.IDENTICAL, Level.EQUIVALENT, Level.SIMILAR)


class EvidenceKind(str, Enum):
    """What both sides of a comparison were read from."""

    EXECUTABLE = "executable"  # serialized executables, ahead of time
    TRACE = "trace"  # rocpd: dispatches that ran
    COUNTERS = "counters"  # counter passes

    def __str__(self) -> str:
        return self.value


class Verdict(str, Enum):
    """What a comparison came to."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"  # one side says nothing

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """What one side says of one kernel, or of one library call. None, "" and () mean: not said.

    Attributes:
        name: of the kernel, clean.
        kind: of the thunk that launches it; "" from a trace.
        grid: x, y, z: workgroups in an executable, work-items in a trace.
        workgroup_workitems: x, y, z.
        lds_bytes: shared memory of a workgroup, all of it.
        scratch_bytes: private memory of a work-item.
        vgpr_count, agpr_count, sgpr_count: registers.
        spills_count: registers that did not fit, vector and scalar.
        code_sha256: of the machine code.
        configuration_sha256: of what decides which code a library call runs, or how much is copied.
    """

    name: str
    kind: str = ""
    grid: tuple[int, ...] = ()
    workgroup_workitems: tuple[int, ...] = ()
    lds_bytes: int | None = None
    scratch_bytes: int | None = None
    vgpr_count: int | None = None
    agpr_count: int | None = None
    sgpr_count: int | None = None
    spills_count: int | None = None
    code_sha256: str = ""
    configuration_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """How long a kernel took, over its dispatches.

    Attributes:
        median_ns: of them.
        iqr_ns: third quartile less the first.
        dispatches_count: how many.
    """

    median_ns: float
    iqr_ns: float
    dispatches_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedKernel:
    """What a trace says of a kernel.

    Attributes:
        facts: launch and resources.
        durations: of its dispatches, without those that warm up.
    """

    facts: KernelFacts
    durations: Durations


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One quantity, both sides.

    Attributes:
        evidence: what both sides were read from.
        kernel: of the job.
        quantity: what is compared.
        job, replay: both values; None where a side says nothing.
        verdict: what it came to.
        note: what difference is allowed; "" for none.
    """

    evidence: EvidenceKind
    kernel: str
    quantity: str
    job: Any
    replay: Any
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one kind of evidence says.

    Attributes:
        evidence: its kind.
        level: of the worst kernel of the instruction.
        comparisons: all of them.
        findings: doubts.
    """

    evidence: EvidenceKind
    level: Level
    comparisons: tuple[Comparison, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether a replay stands in for a kernel of the job.

    Attributes:
        level: all evidence together.
        parts: one for each kind of evidence.
        subject: what was compared with what: names, files, versions; goes into the file as it is.
    """

    level: Level
    parts: tuple[Part, ...]
    subject: Mapping[str, Any] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for part in self.parts for finding in part.findings)


_ORDER = (Level.NOT_A_STAND_IN, Level.UNPROVEN, Level.SIMILAR, Level.EQUIVALENT, Level.IDENTICAL)
_LAUNCH = ("grid", "workgroup_workitems", "lds_bytes")
_RESOURCES = ("vgpr_count", "agpr_count", "sgpr_count", "scratch_bytes")


def prove_executables(job: Sequence[KernelFacts], replay: Sequence[KernelFacts], *, where: str = "") -> Part:
    """Compare what the job's executable has for an instruction with what the replay's executable has.

    Args:
        job: of the instruction, in launch order; empty where nobody knows.
        replay: of the whole replay, in launch order. Copies that it has more than the job are told and left out: a
            replay that must not spoil its inputs copies them.
        where: of the findings, such as the name of the instruction.
    """
    pairs, extra, missing = _paired(job, replay)
    comparisons: list[Comparison] = []
    findings: list[Finding] = []
    levels = [Level.NOT_A_STAND_IN] if missing else []
    for ours, theirs in pairs:
        made = _compared(EvidenceKind.EXECUTABLE, ours, theirs)
        comparisons += made
        levels.append(_level_of_executables(ours, theirs, made))
        if ours.kind == theirs.kind and ours.name != theirs.name:
            findings.append(_name_differs(ours, theirs, where))
        if levels[-1] is Level.UNPROVEN:
            findings.append(_open(ours, where))
    for each in missing:
        comparisons.append(_one_sided(each, None))
    copies = [each for each in extra if each.kind == "kCopy"]
    others = [each for each in extra if each.kind != "kCopy"]
    for each in others:
        comparisons.append(_one_sided(None, each))
        levels.append(Level.NOT_A_STAND_IN if job else Level.UNPROVEN)
    if copies:
        findings.append(
            Finding(
                rule="replay-copies-too",
                severity=Severity.NOTE,
                where=where,
                message=f"the replay launches {len(copies)} copies that the job does not",
                numbers={"copies_count": len(copies)},
                advice="look at the kernel by its name only",
            )
        )
    return Part(
        evidence=EvidenceKind.EXECUTABLE,
        level=_worst(levels),
        comparisons=_telling(comparisons),
        findings=tuple(findings),
    )


def prove_traces(job: TracedKernel, replay: TracedKernel, *, where: str = "") -> Part:
    """Compare what a trace of the job says of a kernel with what a trace of the replay says."""
    comparisons = _compared(EvidenceKind.TRACE, job.facts, replay.facts)
    duration = _compare_durations(job, replay)
    by_name = {each.quantity: each.verdict for each in comparisons}
    is_same_name = by_name["name"] is Verdict.EQUAL
    decisive = [by_name[name] for name in (*_LAUNCH, *_RESOURCES)]
    findings: tuple[Finding, ...] = ()
    if is_same_name and all(verdict is Verdict.EQUAL for verdict in decisive):
        level = Level.EQUIVALENT
        if duration.verdict is Verdict.DIFFERENT:
            findings = (_duration_differs(job, replay, where),)
    elif is_same_name and duration.verdict is Verdict.EQUAL:
        level = Level.SIMILAR
    else:
        level = Level.NOT_A_STAND_IN
    return Part(
        evidence=EvidenceKind.TRACE, level=level, comparisons=_telling([*comparisons, duration]), findings=findings
    )


def prove_counters(
    kernel: str,
    passes: Mapping[str, Sequence[float]],
    *,
    job: Mapping[str, float] | None = None,
    where: str = "",
) -> Part:
    """Look whether the passes of a replay counted the same thing, and what the job counted.

    Counters say whether the work was the same, not whether the kernel was: data decides them too. So they give doubts
    and no level.

    Args:
        kernel: of the job.
        passes: counter -> its value in each pass of the replay, the median of the dispatches of a pass.
        job: counter -> its value in the job, where the job was counted.
    """
    comparisons: list[Comparison] = []
    findings: list[Finding] = []
    for counter, values in sorted(passes.items()):
        is_steady = counter.startswith(STEADY_COUNTERS)
        if len(values) > 1:
            spread = _spread(values)
            is_same = spread == 0 if is_steady else spread <= UNSTEADY_RATIO
            comparisons.append(_counted(kernel, f"{counter}, passes", min(values), max(values), is_same, is_steady))
            if not is_same:
                findings.append(_unsteady(counter, values, spread, where))
        if job is not None and counter in job:
            pair = (job[counter], values[0])
            is_same = pair[0] == pair[1] if is_steady else _spread(pair) <= UNSTEADY_RATIO
            comparisons.append(_counted(kernel, counter, *pair, is_same, is_steady))
            if not is_same:
                findings.append(_counted_otherwise(counter, pair, where))
    return Part(
        evidence=EvidenceKind.COUNTERS,
        level=Level.UNPROVEN,
        comparisons=tuple(comparisons),
        findings=tuple(findings),
    )


def build_proof(parts: Iterable[Part], subject: Mapping[str, Any]) -> Proof:
    """All evidence together.

    A trace shows what ran. Where it says equivalent, machine code may say more; where it says less, that stands,
    whatever was compiled ahead of time.
    """
    parts = tuple(parts)
    levels = {part.evidence: part.level for part in parts if part.level is not Level.UNPROVEN}
    traced, compiled = levels.get(EvidenceKind.TRACE), levels.get(EvidenceKind.EXECUTABLE)
    if traced is None:
        level = compiled or Level.UNPROVEN
    elif traced is Level.EQUIVALENT and compiled is Level.IDENTICAL:
        level = compiled
    else:
        level = traced
    return Proof(level=level, parts=parts, subject=subject)


def _paired(
    job: Sequence[KernelFacts], replay: Sequence[KernelFacts]
) -> tuple[list[tuple[KernelFacts, KernelFacts]], list[KernelFacts], list[KernelFacts]]:
    """Each of the job's with the replay's of its kind: of its name first, else the next; what is left of both."""
    left = list(replay)
    found: dict[int, KernelFacts] = {}
    for is_by_name in (True, False):
        for place, ours in enumerate(job):
            if place in found:
                continue
            fitting = [each for each in left if each.kind == ours.kind and (each.name == ours.name or not is_by_name)]
            if fitting:
                found[place] = fitting[0]
                del left[next(i for i, each in enumerate(left) if each is fitting[0])]
    pairs = [(ours, found[place]) for place, ours in enumerate(job) if place in found]
    return pairs, left, [ours for place, ours in enumerate(job) if place not in found]


def _level_of_executables(job: KernelFacts, replay: KernelFacts, comparisons: Sequence[Comparison]) -> Level:
    by_name = {each.quantity: each.verdict for each in comparisons}
    if not job.name and not replay.name:  # a library call or a copy: what it runs is not in the executable
        is_other_call = Verdict.DIFFERENT in (by_name["kind"], by_name["configuration_sha256"])
        return Level.NOT_A_STAND_IN if is_other_call else Level.UNPROVEN
    # Executables up to 0.9 do not say how their kernels are launched.
    is_other_launch = any(by_name[name] is Verdict.DIFFERENT for name in _LAUNCH)
    if not is_other_launch and by_name["code_sha256"] is Verdict.EQUAL:
        return Level.IDENTICAL
    if any(by_name[name] is Verdict.DIFFERENT for name in ("name", *_LAUNCH, *_RESOURCES)):
        return Level.NOT_A_STAND_IN
    is_known = all(by_name[name] is Verdict.EQUAL for name in ("name", *_LAUNCH, *_RESOURCES))
    return Level.EQUIVALENT if is_known else Level.UNPROVEN


def _compared(evidence: EvidenceKind, job: KernelFacts, replay: KernelFacts) -> list[Comparison]:
    quantities = ["name", *_LAUNCH, *_RESOURCES]
    if evidence is EvidenceKind.EXECUTABLE:
        quantities += ["kind", "spills_count", "code_sha256", "configuration_sha256"]
    return [
        Comparison(
            evidence=evidence,
            kernel=job.name or job.kind,
            quantity=quantity,
            job=_said(ours := getattr(job, quantity)),
            replay=_said(theirs := getattr(replay, quantity)),
            verdict=_verdict(ours, theirs),
        )
        for quantity in quantities
    ]


def _telling(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Those of which a side says something."""
    return tuple(each for each in comparisons if each.job is not None or each.replay is not None)


def _said(value: Any) -> Any:
    return None if value in ("", ()) else value


def _verdict(job: Any, replay: Any) -> Verdict:
    if _said(job) is None or _said(replay) is None:
        return Verdict.UNKNOWN
    return Verdict.EQUAL if job == replay else Verdict.DIFFERENT


def _one_sided(job: KernelFacts | None, replay: KernelFacts | None) -> Comparison:
    ours, theirs = (None if side is None else side.name or side.kind for side in (job, replay))
    return Comparison(
        evidence=EvidenceKind.EXECUTABLE,
        kernel=ours or theirs or "",
        quantity="launch",
        job=ours,
        replay=theirs,
        verdict=Verdict.DIFFERENT,
        note="one side only",
    )


def _compare_durations(job: TracedKernel, replay: TracedKernel) -> Comparison:
    median, iqr = job.durations.median_ns, job.durations.iqr_ns
    allowed = max(DURATION_RATIO * median, DURATION_IQRS * iqr)
    is_within = abs(replay.durations.median_ns - median) <= allowed
    return Comparison(
        evidence=EvidenceKind.TRACE,
        kernel=job.facts.name,
        quantity="median_ns",
        job=median,
        replay=replay.durations.median_ns,
        verdict=Verdict.EQUAL if is_within else Verdict.DIFFERENT,
        note=f"within {allowed:.0f} ns: max({DURATION_RATIO:.0%}, {DURATION_IQRS:g} x IQR of {iqr:.0f} ns)",
    )


def _counted(kernel: str, quantity: str, job: float, replay: float, is_same: bool, is_steady: bool) -> Comparison:
    return Comparison(
        evidence=EvidenceKind.COUNTERS,
        kernel=kernel,
        quantity=quantity,
        job=job,
        replay=replay,
        verdict=Verdict.EQUAL if is_same else Verdict.DIFFERENT,
        note="exactly" if is_steady else f"within {UNSTEADY_RATIO:.0%}",
    )


def _spread(values: Sequence[float]) -> float:
    """How far values lie apart, relative to the largest."""
    largest = max(abs(value) for value in values)
    return 0.0 if largest == 0 else (max(values) - min(values)) / largest


def _worst(levels: Iterable[Level]) -> Level:
    return min(levels, key=_ORDER.index, default=Level.UNPROVEN)


def _open(job: KernelFacts, where: str) -> Finding:
    reason = (
        "the job's side lacks registers and machine code" if job.name else "which code it runs is chosen at run time"
    )
    return Finding(
        rule="replay-not-decided",
        severity=Severity.NOTE,
        where=where,
        message=f"{job.name or job.kind} is launched the same way, and {reason}",
        advice="name the job's serialized executable, or traces of both" if job.name else "compare traces of both",
    )


def _name_differs(job: KernelFacts, replay: KernelFacts, where: str) -> Finding:
    return Finding(
        rule="replay-kernel-name-differs",
        severity=Severity.WARNING,
        where=where,
        message=f"the replay's kernel is called {replay.name!r}, and the job's {job.name!r}",
        advice="a profiler that filters by the job's name does not see it: extract with the job's thunk sequence",
    )


def _duration_differs(job: TracedKernel, replay: TracedKernel, where: str) -> Finding:
    ours, theirs = job.durations.median_ns, replay.durations.median_ns
    return Finding(
        rule="replay-duration-differs",
        severity=Severity.WARNING,
        where=where,
        message=f"the same kernel takes {theirs:.0f} ns in the replay and {ours:.0f} ns in the job (medians)",
        numbers={"job_median_ns": ours, "replay_median_ns": theirs, "job_iqr_ns": job.durations.iqr_ns},
        advice="caches are warm in a replay, clocks may be higher, and data may differ: --flush-cache, --inputs",
    )


def _unsteady(counter: str, values: Sequence[float], spread: float, where: str) -> Finding:
    return Finding(
        rule="replay-counter-unsteady",
        severity=Severity.WARNING,
        where=where,
        message=f"{counter} of the same replay is {min(values):g} in one pass and {max(values):g} in another",
        numbers={"smallest": min(values), "largest": max(values), "spread_ratio": spread},
        advice="do not combine counters of these passes; the data or the clock differ from pass to pass",
    )


def _counted_otherwise(counter: str, pair: tuple[float, float], where: str) -> Finding:
    return Finding(
        rule="replay-counter-differs",
        severity=Severity.WARNING,
        where=where,
        message=f"{counter} is {pair[0]:g} in the job and {pair[1]:g} in the replay",
        numbers={"job_value": pair[0], "replay_value": pair[1]},
        advice="the kernel does other work on other data: capture its operands (--inputs)",
    )
