"""What can be wrong with the rows of a workload, each under a name of its own. Pure: rows in, findings out.

Launches are those of the wanted kernel that have a number. Where all passes shared one run (multiplexing), every launch
counts for one pass only; otherwise every pass must have all of them, under the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rocktools.capture.compute_rows import KernelRows, Launch, PlannedPass, ResultFile, WorkloadRows
from rocktools.capture.compute_versions import Layout
from rocktools.errors import nearest_names
from rocktools.findings import Finding, Number, Severity
from rocktools.units import count_noun

_SHOWN = 3
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PassVerdict:
    """One planned pass.

    Attributes:
        name: as in `perfmon/`.
        counters_count: planned.
        has_result: whether anything of it is there, of any kernel.
        launches_count: of the wanted kernel, with a number of at least one of its counters.
        empty_launches_count: of the wanted kernel, with a row in which a counter has no number.
        missing_counters: planned, and without a number for this kernel, while others of the pass have some.
    """

    name: str
    counters_count: int
    has_result: bool
    launches_count: int
    empty_launches_count: int = 0
    missing_counters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the rows should be.

    Attributes:
        kernel_name: the wanted kernel.
        launches_count: of it; None where nobody knows.
        multiplexes: whether all passes shared one run.
        exit_code: of the run, for messages.
    """

    kernel_name: str
    launches_count: int | None = None
    multiplexes: bool = False
    exit_code: int | None = None


def judge_pass(planned: PlannedPass, rows: WorkloadRows, expected: Expected) -> PassVerdict:
    """What one pass has of the wanted kernel."""
    own = rows.of_pass.get(planned.name)
    if expected.multiplexes:
        files: Sequence[ResultFile] = rows.files
    elif own is not None:
        files = [own]
    else:
        files = [] if rows.layout is Layout.PASSES or rows.merged is None else [rows.merged]
    counters = planned.counters or frozenset(_counters(files))
    has_result = any(
        counters & (kernel.counted.keys() | kernel.empty.keys()) for file in files for kernel in file.kernels.values()
    )
    wanted = [file.kernels[expected.kernel_name] for file in files if expected.kernel_name in file.kernels]
    launches = _launches(wanted, counters)
    empty = {launch for kernel in wanted for counter in counters for launch in kernel.empty.get(counter, ())}
    counted = {counter for kernel in wanted for counter in kernel.counted}
    return PassVerdict(
        name=planned.name,
        counters_count=len(planned.counters),
        has_result=has_result,
        launches_count=len(launches),
        empty_launches_count=len(empty),
        missing_counters=tuple(sorted(planned.counters - counted)) if launches else (),
    )


def find_launches(rows: WorkloadRows, kernel_name: str) -> frozenset[Launch]:
    """Launches of a kernel that have a number anywhere."""
    wanted = [file.kernels[kernel_name] for file in rows.files if kernel_name in file.kernels]
    return frozenset(launch for kernel in wanted for launches in kernel.counted.values() for launch in launches)


def check_kernel(rows: WorkloadRows, launches: frozenset[Launch], expected: Expected) -> list[Finding]:
    """Whether the wanted kernel has rows at all, and kept them when passes were joined."""
    where, name = str(rows.results), expected.kernel_name
    if not rows.kernels:
        if rows.damaged:
            return []  # said already
        code = "" if expected.exit_code is None else f", though it ended with exit code {expected.exit_code}"
        return [
            _fault(
                "compute-no-data",
                where,
                f"no kernel has a row of a counter{code}: none that was launched matched its filter, or none was "
                "launched in the process that it watches",
                "run the replay alone, and compare the name of its kernel",
            )
        ]
    if name not in rows.kernels:
        near = nearest_names(name, rows.kernels) or rows.kernels[:_SHOWN]
        return [
            _fault(
                "compute-kernel-missing",
                where,
                f"{name} has no row in any pass; {count_noun(len(rows.kernels), 'other kernel')} have: {_some(near)}",
                "compare the name with the one in the trace",
                other_kernels_count=len(rows.kernels),
            )
        ]
    if not launches:
        return [_fault("compute-nan-rows", where, f"{name} has rows, and no number in any of them", "run it once more")]
    if rows.layout is not Layout.WIDE or rows.merged is None or name in rows.merged.kernels:
        return []
    having = sum(name in file.kernels for file in rows.of_pass.values())
    return [
        _fault(
            "compute-kernel-dropped",
            str(rows.merged.path),
            f"{name} has rows in {count_noun(having, 'pass file')} and none here: some pass lacks it, and what one "
            "pass lacks is dropped from all of them when they are joined",
            "let the replay do the same in every run; then run it once more",
            passes_with_kernel_count=having,
        )
    ]


def check_passes(passes: Sequence[PassVerdict], rows: WorkloadRows, expected: Expected) -> list[Finding]:
    """Whether every planned pass is there, and has the kernel."""
    findings = []
    missing = [each.name for each in passes if not each.has_result]
    if missing:
        findings.append(
            _fault(
                "compute-pass-missing",
                str(rows.results),
                f"{count_noun(len(missing), 'pass')} of {len(passes)} left nothing: {_some(missing)}",
                "let the replay launch the kernel more often" if expected.multiplexes else "run it once more",
                missing_passes_count=len(missing),
                passes_count=len(passes),
            )
        )
    without = [each.name for each in passes if each.has_result and not each.launches_count]
    if without:
        findings.append(
            _fault(
                "compute-kernel-missing-in-pass",
                str(rows.results),
                f"{expected.kernel_name} has no row in {count_noun(len(without), 'pass')} of {len(passes)}: "
                f"{_some(without)}",
                "run it once more; a replay must do the same in every run",
                passes_without_kernel_count=len(without),
                passes_count=len(passes),
            )
        )
    return findings


def check_launches(
    passes: Sequence[PassVerdict], launches: frozenset[Launch], rows: WorkloadRows, expected: Expected
) -> list[Finding]:
    """Whether all passes have the same launches, and as many as there should be."""
    where, name = str(rows.results), expected.kernel_name
    counts = [each.launches_count for each in passes if each.launches_count]
    if expected.multiplexes:
        return _check_count(len(launches), where, expected, "all passes together have")
    if not counts:
        return []
    fewest, most = min(counts), max(counts)
    findings = []
    if fewest != most:
        short = [each.name for each in passes if each.launches_count == fewest]
        findings.append(
            _fault(
                "compute-launches-differ",
                where,
                f"passes have between {fewest} and {count_noun(most, 'launch')} of {name}; fewest has {_some(short)}",
                "run it once more; a replay must do the same in every run",
                fewest_launches_count=fewest,
                most_launches_count=most,
            )
        )
    else:
        findings += _check_count(most, where, expected, "every pass has")
    is_joined_by_id = rows.layout in (Layout.LONG, Layout.PASSES)
    if is_joined_by_id and len(launches) > most:
        findings.append(
            _fault(
                "compute-partial-rows",
                where,
                f"{name} has {len(launches)} ids of launches in all passes, and {most} in one: ids are shifted, and "
                "rocprof-compute takes the parts of one launch for several",
                "run it once more",
                ids_count=len(launches),
                most_launches_count=most,
            )
        )
    return findings


def check_numbers(passes: Sequence[PassVerdict], rows: WorkloadRows, expected: Expected) -> list[Finding]:
    """Whether the rows have numbers, and all counters rows."""
    findings = []
    empty = [each for each in passes if each.empty_launches_count]
    if empty:
        launches_count = sum(each.empty_launches_count for each in empty)
        findings.append(
            _fault(
                "compute-nan-rows",
                str(rows.results),
                f"{count_noun(launches_count, 'launch')} of {expected.kernel_name} in "
                f"{count_noun(len(empty), 'pass')} have no number for a counter: "
                f"{_some([each.name for each in empty])}",
                "ask for fewer blocks, or run it once more",
                empty_launches_count=launches_count,
                passes_count=len(empty),
            )
        )
    missing = [counter for each in passes for counter in each.missing_counters]
    if missing:
        findings.append(
            Finding(
                rule="compute-counters-missing",
                severity=Severity.WARNING,
                where=str(rows.results),
                message=f"{count_noun(len(missing), 'planned counter')} have no number: {_some(missing)}",
                numbers={"missing_counters_count": len(missing)},
                advice="quantities that need them have no value",
            )
        )
    return findings


def check_other_kernels(rows: WorkloadRows, expected: Expected) -> list[Finding]:
    """Whether other kernels were counted beside the wanted one."""
    others = [name for name in rows.kernels if name != expected.kernel_name]
    if not others or expected.kernel_name not in rows.kernels:
        return []
    what = f"{count_noun(len(others), 'other kernel')} beside {expected.kernel_name}: {_some(others)}"
    is_wide = rows.layout is Layout.WIDE
    return [
        Finding(
            rule="compute-levels-by-row" if is_wide else "compute-other-kernels",
            severity=Severity.WARNING,
            where=str(rows.results),
            message=f"{what}; numbers of the whole workload are means over all of them"
            + (
                ", and levels of waves are joined to launches by row, so they may be another kernel's"
                if is_wide
                else ""
            ),
            numbers={"other_kernels_count": len(others)},
            advice="believe no occupancy and no latency of it" if is_wide else "take its numbers by its name",
        )
    ]


def _check_count(found: int, where: str, expected: Expected, who: str) -> list[Finding]:
    wanted = expected.launches_count
    if wanted is None or found == wanted:
        return []
    launches = count_noun(found, "launch")
    numbers = {"launches_count": found, "expected_launches_count": wanted}
    message = f"{who} {launches} of {expected.kernel_name}, and {wanted} were asked for"
    if found < wanted:
        advice = "passes that had more were cut to the fewest, or the replay launches it less often than it says"
        return [_fault("compute-launches-fewer", where, message, advice, **numbers)]
    return [
        Finding(
            rule="compute-launches-more",
            severity=Severity.WARNING,
            where=where,
            message=message,
            numbers=numbers,
            advice="launches that should not count (warm-up, another instruction with the same kernel) are among them",
        )
    ]


def _counters(files: Sequence[ResultFile]) -> set[str]:
    return {counter for file in files for kernel in file.kernels.values() for counter in kernel.counted}


def _launches(kernels: Iterable[KernelRows], counters: frozenset[str]) -> set[Launch]:
    return {launch for kernel in kernels for counter in counters for launch in kernel.counted.get(counter, ())}


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    shown = [name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}..." for name in names[:_SHOWN]]
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def _fault(rule: str, where: str, message: str, advice: str = "", **numbers: Number) -> Finding:
    return Finding(rule=rule, severity=Severity.FAULT, where=where, message=message, numbers=numbers, advice=advice)
