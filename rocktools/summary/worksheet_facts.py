"""A summary -> what is known of each component in each phase, before it is put into cells.

Figures are per place: one device in one step. What a summary does not keep (unions by device, dispatches, geometry,
counters of each kernel) is None here, and filled in where the run is at hand (worksheet_run.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rocktools.attribution.phases import BookedPhase
from rocktools.evidence import Evidence
from rocktools.summary.document import LedgerBlock, LedgerBucket, Missing, Operation, RooflineTable, Summary
from rocktools.summary.query_bound import sum_points

Key = tuple[str, str]
"""Phase and component."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """FLOPs and bytes of the compute kernels of a component in a phase, per place, and what follows.

    Attributes:
        flop, moved_bytes: of executions whose cost is known; None where none is.
        union_ns: time that these cover.
        covered_ratio: their part of all compute time.
        intensity, roof_ratio, peak_ratio, bandwidth_ratio: as in `rocktools roofline`; None without a point.
        peak_flop_per_s, bandwidth_bytes_per_s, ridge: of the device, for this mix of formats.
        bound, mix: as there.
        label: what the bytes are, for people.
        flop_evidence, bytes_evidence: how they were obtained.
        is_exact_union: whether overlaps between its instructions are counted once.
        refusal: why there is no point; "" where there is one.
    """

    flop: float | None
    moved_bytes: float | None
    union_ns: float
    covered_ratio: float | None
    intensity: float | None
    roof_ratio: float | None
    peak_ratio: float | None
    bandwidth_ratio: float | None
    peak_flop_per_s: float | None
    bandwidth_bytes_per_s: float | None
    ridge: float | None
    bound: str | None
    mix: str | None
    label: str
    flop_evidence: Evidence
    bytes_evidence: Evidence
    is_exact_union: bool
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
    """What the trace has of a component in one step on one device.

    Attributes:
        union_ns, sum_ns: of its dispatches and copies there.
        union_mean_ns: mean over the steps of that device.
        dispatch_ids: in order; first_start_ns, last_end_ns: trace clock.
        kernels: name -> executions there.
        geometry: kernel with grid and workgroup in work-items, LDS, scratch and registers: one text each.
    """

    union_ns: int
    sum_ns: int
    union_mean_ns: float
    dispatch_ids: tuple[int, ...]
    first_start_ns: int | None
    last_end_ns: int | None
    kernels: Mapping[str, int]
    geometry: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One expectation of a workload about the component: per device and step.

    Attributes:
        title: of the expectation; expected_count, found_count: mean of devices and steps.
        is_met: on every device.
    """

    title: str
    expected_count: int
    found_count: float
    is_met: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentFacts:
    """What is known of one component in one phase.

    Attributes:
        state: of a row without time of its own; "" otherwise.
        buckets: of the ledger, by activity.
        operations: of it, the longest first.
        operands: shapes of operands and the sharding of the longest compute instruction; None where not at hand.
        loop_count: executions of its instructions in one run of the program; None where not at hand or unknown.
        estimated, counted: work by the compiler, and by counters.
        sent_bytes: by its collectives per place, at least; None where not known.
        read_bytes, written_bytes: counted, per place.
        launches: of one step on one device; None where not at hand.
        expected: by a workload; () where none says anything of it.
        has_workload: whether one was given.
    """

    phase: str
    component: str
    state: str
    buckets: Mapping[str, LedgerBucket]
    operations: tuple[Operation, ...]
    operands: str | None = None
    loop_count: int | None = None
    estimated: Work | None = None
    counted: Work | None = None
    sent_bytes: float | None = None
    read_bytes: float | None = None
    written_bytes: float | None = None
    launches: LaunchFacts | None = None
    expected: tuple[Expected, ...] = ()
    has_workload: bool = False

    def of(self, activity: str) -> tuple[Operation, ...]:
        """Its operations of one class."""
        return tuple(each for each in self.operations if each.activity == activity)

    @property
    def sum_per_step_ns(self) -> float:
        return sum(each.sum_per_step_ns for each in self.buckets.values())


def facts_of_summary(summary: Summary, ledger: LedgerBlock) -> dict[Key, ComponentFacts]:
    """Every component in every phase: those with time, and those that the component map gives words."""
    buckets: defaultdict[Key, dict[str, LedgerBucket]] = defaultdict(dict)
    for bucket in ledger.buckets:
        buckets[bucket.phase, bucket.component][bucket.activity] = bucket
    operations: defaultdict[Key, list[Operation]] = defaultdict(list)
    if not isinstance(summary.operations, Missing):
        for each in sorted(summary.operations.operations, key=lambda each: -each.sum_ns):
            operations[each.phase, each.component].append(each)
    facts = {
        key: ComponentFacts(
            phase=key[0],
            component=key[1],
            state="",
            buckets=found,
            operations=tuple(operations[key]),
        )
        for key, found in buckets.items()
    }
    for key, state in _worded(ledger, set(facts)).items():
        facts[key] = ComponentFacts(phase=key[0], component=key[1], state=state, buckets={}, operations=())
    places = ledger.places_count or 1
    with_work = {key: _with_work(each, summary, places) for key, each in facts.items()}
    return dict(sorted(with_work.items(), key=_order))


def _order(item: tuple[Key, ComponentFacts]) -> tuple[int, bool, float, str]:
    phases = [each.value for each in BookedPhase]
    (phase, component), facts = item
    place = phases.index(phase) if phase in phases else len(phases)
    return place, bool(facts.state), -facts.sum_per_step_ns, component


def _worded(ledger: LedgerBlock, known: set[Key]) -> dict[Key, str]:
    """Rows of the component tables that have words instead of a number."""
    found: dict[Key, str] = {}
    for table in ledger.tables:
        if table.name not in ("forward", "backward", "rematerialized"):
            continue
        for row in table.rows:
            if row.state is None:
                continue
            for component in (row.components or row.row).split(", "):
                if (table.name, component) not in known:
                    found[table.name, component] = row.state
    return found


def _with_work(facts: ComponentFacts, summary: Summary, places: int) -> ComponentFacts:
    """FLOPs and bytes by what the summary has: its points by instruction, and the compiler's estimates."""
    compute = facts.of("compute")
    if not compute:
        return facts
    table = _instruction_table(summary)
    found = None if table is None else _work_of_points(table, compute, places)
    estimated = _work_of_operations(compute, places)
    counted = None
    if table is not None and found is not None:
        if table.flop_evidence is Evidence.COMPILER_ESTIMATE:
            estimated = found
        else:
            counted = found
    return replace(facts, estimated=estimated, counted=counted)


def _instruction_table(summary: Summary) -> RooflineTable | None:
    if isinstance(summary.roofline, Missing):
        return None
    for table in summary.roofline.tables:
        if (table.by, table.level) == ("instruction", "hbm"):
            return table
    return None


def _work_of_points(table: RooflineTable, compute: Iterable[Operation], places: int) -> Work | None:
    operations = list(compute)
    names = {(each.run, each.instruction) for each in operations}
    whole = sum_points([point for point in table.points if (point.run, point.name) in names])
    if whole is None:
        return None
    total = sum(each.sum_ns for each in operations)
    bandwidth = table.points[0].bandwidth_bytes_per_s
    peak = whole.compute_flop / whole.compute_ns * 1e9 if whole.compute_ns else None
    return Work(
        flop=whole.compute_flop / places,
        moved_bytes=whole.moved_bytes / places,
        union_ns=whole.union_ns / places,
        covered_ratio=min(1.0, whole.sum_ns / total) if total else None,
        intensity=whole.compute_flop / whole.moved_bytes if whole.moved_bytes else None,
        roof_ratio=whole.verdict.roof_ratio,
        peak_ratio=whole.compute_ns / whole.union_ns,
        bandwidth_ratio=whole.traffic_ns / whole.union_ns,
        peak_flop_per_s=peak,
        bandwidth_bytes_per_s=bandwidth,
        ridge=None if peak is None else peak / bandwidth,
        bound=str(whole.verdict.bound),
        mix=None,
        label=table.source,
        flop_evidence=table.flop_evidence,
        bytes_evidence=table.bytes_evidence,
        is_exact_union=False,
    )


def _work_of_operations(compute: Iterable[Operation], places: int) -> Work | None:
    """Estimates of the compiler without ceilings, where there are no points of them."""
    operations = list(compute)
    known = [each for each in operations if each.executed_flop is not None and each.moved_bytes is not None]
    if not known:
        return None
    flop = sum(each.executed_flop or 0 for each in known)
    moved = sum(each.moved_bytes or 0 for each in known)
    total, covered = sum(each.sum_ns for each in operations), sum(each.sum_ns for each in known)
    return Work(
        flop=flop / places,
        moved_bytes=moved / places,
        union_ns=sum(each.union_ns for each in known) / places,
        covered_ratio=covered / total if total else None,
        intensity=flop / moved if moved else None,
        roof_ratio=None,
        peak_ratio=None,
        bandwidth_ratio=None,
        peak_flop_per_s=None,
        bandwidth_bytes_per_s=None,
        ridge=None,
        bound=None,
        mix=None,
        label="operands and results once, what caches save not counted",
        flop_evidence=Evidence.COMPILER_ESTIMATE,
        bytes_evidence=Evidence.COMPILER_ESTIMATE,
        is_exact_union=False,
        refusal="the summary has no points of the compiler's estimates: its ceilings are held against counters",
    )
