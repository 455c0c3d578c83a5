"""Facts of a component in a phase -> the cells of its row, one at least for each question and column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rocktools.analytic.component_rates import ComponentRate
from rocktools.attribution.components import RowState
from rocktools.evidence import Absence, Evidence, weakest
from rocktools.roofline.verdict import IMPOSSIBLE_RATIO
from rocktools.summary.document import Collective, CounterQuantity, Operation, Value
from rocktools.summary.worksheet_document import Column, Field, WorksheetCell
from rocktools.summary.worksheet_facts import ComponentFacts, Work
from rocktools.units import NS_PER_S, format_ratio, unit_of

_NEEDS_RUN = "a summary does not keep it: rocktools worksheet RUN"
_NO_PROFILE = "no JAX profile was read: times and counts are those of the ROCm trace"
_NO_TRACE = "no trace of rocprofv3 was read: times and counts are those of the JAX profile"
_NO_MODEL = "no model was named (--model)"
_NOT_COUNTED = "not counted by convention"
_AT_MOST_NAMES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What all rows share.

    Attributes:
        has_profile, has_trace: whether times are of a JAX profile, or of a trace of rocprofv3.
        is_run: whether the run was at hand.
        places_count: devices and steps that means are over.
        place_text: the step and device of dispatch ids; "" where only a summary was at hand.
        has_model: whether a model was named.
        devices_count: that share an update.
        collectives: instruction -> what is known of it.
        replayed: kernel -> counted quantities of replays.
        step_time_is: how the time is called.
    """

    has_profile: bool
    has_trace: bool
    is_run: bool
    places_count: int
    place_text: str
    has_model: bool
    devices_count: int
    collectives: Mapping[tuple[str, str | None], Collective]
    replayed: Mapping[str, Sequence[CounterQuantity]]

    @property
    def time_column(self) -> Column:
        """Where times and counts of the trace belong."""
        return Column.ROCM if self.has_trace else Column.HLO


class _Cells:
    """Cells of one field, as they are found."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self.found: list[WorksheetCell] = []

    def add(self, column: Column, name: str, value: Value, evidence: Evidence, note: str = "") -> None:
        self.found.append(
            WorksheetCell(
                field=self._field,
                column=column,
                name=name,
                value=value,
                unit=unit_of(name) or "",
                evidence=evidence,
                state="",
                note=note,
            )
        )

    def lacks(self, column: Column, state: str | Absence | RowState, note: str, name: str = "") -> None:
        self.found.append(
            WorksheetCell(
                field=self._field,
                column=column,
                name=name or self._field.value,
                value=None,
                unit="",
                evidence=None,
                state=str(state),
                note=note,
            )
        )


def cells_of(
    facts: ComponentFacts, context: Context, useful_flop: int | None, rate: ComponentRate | None
) -> tuple[WorksheetCell, ...]:
    """All cells of a row.

    Args:
        useful_flop: of one update, all devices; None where the convention counts none, or no model was named.
        rate: the useful rate, where the peak is known.
    """
    if facts.state:
        return tuple(_worded(facts.state))
    makers: Mapping[Field, Callable[[_Cells], None]] = {
        Field.SCOPE: lambda cells: _scope(cells, facts, context),
        Field.SHAPES: lambda cells: _shapes(cells, facts, context),
        Field.OCCURRENCES: lambda cells: _occurrences(cells, facts, context),
        Field.TIME: lambda cells: _time(cells, facts, context),
        Field.USEFUL_FLOP: lambda cells: _useful(cells, facts, context, useful_flop, rate),
        Field.EXECUTED_FLOP: lambda cells: _executed(cells, facts, context),
        Field.HBM_BYTES: lambda cells: _bytes(cells, facts, context),
        Field.COMMUNICATION_BYTES: lambda cells: _communication(cells, facts, context),
        Field.INTENSITY: lambda cells: _intensity(cells, facts),
        Field.EFFICIENCY: lambda cells: _efficiency(cells, facts),
    }
    found: list[WorksheetCell] = []
    for field, make in makers.items():
        cells = _Cells(field)
        make(cells)
        found += cells.found
    return tuple(found)


def _worded(state: str) -> Iterator[WorksheetCell]:
    for field in Field:
        cells = _Cells(field)
        for column in Column:
            cells.lacks(column, state, "no kernel of the step is booked under it")
        yield from cells.found


def _some(texts: Sequence[str]) -> str:
    """Different texts, the first of them, and how many more there are."""
    known = list(dict.fromkeys(text for text in texts if text))
    more = len(known) - _AT_MOST_NAMES
    return "; ".join(known[:_AT_MOST_NAMES]) + (f"; and {more} more" if more > 0 else "")


def _scope(cells: _Cells, facts: ComponentFacts, context: Context) -> None:
    scopes = _some([each.scope or "" for each in facts.operations])
    if scopes:
        cells.add(Column.HLO, "scope", scopes, Evidence.DECLARED, "named scopes, wrappers removed")
    instructions = [each for each in facts.operations if each.instruction is not None]
    if instructions:
        cells.add(
            Column.HLO, "instructions", _some([each.instruction or "" for each in instructions]), Evidence.DECLARED
        )
        cells.add(Column.HLO, "instructions_count", len(instructions), Evidence.DECLARED)
        targets = _some([each.custom_call_target or "" for each in instructions])
        if targets:
            cells.add(Column.HLO, "custom_call_targets", targets, Evidence.DECLARED)
    else:
        cells.lacks(Column.HLO, Absence.NOT_ATTRIBUTED, "no kernel of it is linked to an instruction")
    kernels = [name for each in facts.operations for name in each.kernel_names]
    if facts.launches is not None and facts.launches.kernels:
        kernels = sorted(facts.launches.kernels, key=lambda name: kernels.index(name) if name in kernels else 10**6)
    if kernels:
        cells.add(context.time_column, "kernels", _some(kernels), Evidence.MEASURED, "clean names")
    else:
        cells.lacks(context.time_column, RowState.NO_OPERATION, "it has copies only, or no kernel is in the summary")
    if not context.has_trace:
        cells.lacks(Column.ROCM, Absence.NOT_COLLECTED, _NO_TRACE)


def _shapes(cells: _Cells, facts: ComponentFacts, context: Context) -> None:
    shapes = [each.shape or "" for each in facts.of("compute") or facts.operations]
    if any(shapes):
        cells.add(Column.HLO, "results", _some(shapes), Evidence.DECLARED, "of one device, the longest first")
        dtypes = [shape.lstrip("(").split("[", 1)[0] for shape in shapes if "[" in shape]
        cells.add(Column.HLO, "dtype", _some(dtypes), Evidence.DECLARED)
        if facts.operands is not None:
            note = "operands of the longest; the optimized program is of one device, shardings are resolved"
            cells.add(Column.HLO, "operands", facts.operands, Evidence.DECLARED, note)
        elif not context.is_run:
            cells.lacks(Column.HLO, Absence.NOT_COLLECTED, _NEEDS_RUN, "operands")
    else:
        cells.lacks(Column.HLO, Absence.NOT_ATTRIBUTED, "no kernel of it is linked to an instruction")
    if facts.launches is not None and facts.launches.geometry:
        note = f"work-items; one entry for each kernel and shape in {context.place_text}"
        cells.add(context.time_column, "launches", "; ".join(facts.launches.geometry), Evidence.MEASURED, note)
    elif context.is_run:
        cells.lacks(
            context.time_column, RowState.NO_OPERATION, f"no dispatch of it is in {context.place_text}", "launches"
        )
    else:
        cells.lacks(context.time_column, Absence.NOT_COLLECTED, _NEEDS_RUN, "launches")
    if not context.has_trace:
        cells.lacks(Column.ROCM, Absence.NOT_COLLECTED, _NO_TRACE)


def _occurrences(cells: _Cells, facts: ComponentFacts, context: Context) -> None:
    column = context.time_column
    for activity, bucket in facts.buckets.items():
        note = "kernels and copies, mean of devices and steps"
        name = f"{activity}_found_per_step_count"
        cells.add(column, name, bucket.rows_count / context.places_count, Evidence.MEASURED, note)
    if facts.loop_count is not None:
        executions = [each.executions_count for each in facts.of("compute")]
        known = sum(each for each in executions if each is not None) / context.places_count
        partly = "" if all(each is not None for each in executions) else ", where costs are known"
        note = f"instructions of it by trip counts of loops, one run of the program; {known:g} executions found{partly}"
        cells.add(Column.HLO, "loop_body_executions_count", facts.loop_count, Evidence.COMPILER_ESTIMATE, note)
    elif column is Column.ROCM:
        why = "a trip count is unknown, or nothing of it calculates" if context.is_run else _NEEDS_RUN
        state = Absence.AMBIGUOUS if context.is_run else Absence.NOT_COLLECTED
        cells.lacks(Column.HLO, state, why, "loop_body_executions_count")
    for each in facts.expected:
        met = "met" if each.is_met else "NOT met on every device: a path is left out, or another program taken in"
        note = f"{each.title}: {each.found_count:g} found, {met}"
        cells.add(Column.HLO, "expected_per_step_count", each.expected_count, Evidence.DECLARED, note)
    if not facts.expected:
        why = "the workload expects nothing of it" if facts.has_workload else "no workload was given (--workload)"
        cells.lacks(Column.HLO, Absence.NOT_COLLECTED, why, "expected_per_step_count")
    _dispatches(cells, facts, context)


def _dispatches(cells: _Cells, facts: ComponentFacts, context: Context) -> None:
    if not context.has_trace:
        cells.lacks(Column.ROCM, Absence.NOT_COLLECTED, _NO_TRACE, "dispatch_ids")
    elif facts.launches is None:
        why = f"none in {context.place_text}" if context.is_run else _NEEDS_RUN
        state = RowState.NO_OPERATION if context.is_run else Absence.NOT_COLLECTED
        cells.lacks(Column.ROCM, state, why, "dispatch_ids")
    else:
        ids = facts.launches.dispatch_ids
        cells.add(Column.ROCM, "dispatches_count", len(ids), Evidence.MEASURED, f"in {context.place_text}")
        if ids:
            note = f"in {context.place_text}"
            cells.add(Column.ROCM, "dispatch_ids", ranges_of(ids), Evidence.MEASURED, note)


def ranges_of(numbers: Sequence[int]) -> str:
    """Numbers in order as ranges: `3, 7-9, 12`; many of them end with how many more there are."""
    parts: list[str] = []
    start = previous = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and number == previous + 1:
            previous = number
            continue
        parts.append(f"{start}" if start == previous else f"{start}-{previous}")
        if number is not None:
            start = previous = number
    if len(parts) <= 2 * _AT_MOST_NAMES:
        return ", ".join(parts)
    return f"{', '.join(parts[: 2 * _AT_MOST_NAMES])}, and {len(parts) - 2 * _AT_MOST_NAMES} more ranges"


def _time(cells: _Cells, facts: ComponentFacts, context: Context) -> None:
    column, other = context.time_column, Column.HLO if context.has_trace else Column.ROCM
    evidence = weakest(*(each.evidence for each in facts.buckets.values()))
    if facts.launches is not None:
        note = "union of its kernels and copies on the critical device, mean of the steps of that device"
        cells.add(column, "critical_union_per_step_ns", facts.launches.union_mean_ns, evidence, note)
        note = f"in {context.place_text}"
        cells.add(column, "step_union_ns", facts.launches.union_ns, evidence, note)
        cells.add(column, "step_sum_ns", facts.launches.sum_ns, evidence, note)
        if facts.launches.first_start_ns is not None:
            cells.add(column, "first_start_ns", facts.launches.first_start_ns, evidence, "clock of the trace")
            cells.add(column, "last_end_ns", facts.launches.last_end_ns, evidence, "clock of the trace")
    else:
        cells.lacks(column, Absence.NOT_COLLECTED, _NEEDS_RUN, "critical_union_per_step_ns")
    for activity, bucket in facts.buckets.items():
        spread = f"devices from {bucket.lowest_ns / 1e6:.4g} to {bucket.highest_ns / 1e6:.4g} ms"
        note = f"mean of devices and steps; {spread}, most on {bucket.critical_device}"
        cells.add(column, f"{activity}_union_per_step_ns", bucket.union_per_step_ns, bucket.evidence, note)
        cells.add(column, f"{activity}_sum_per_step_ns", bucket.sum_per_step_ns, bucket.evidence, note)
    cells.lacks(other, Absence.NOT_COLLECTED, _NO_PROFILE if context.has_trace else _NO_TRACE)


def _useful(
    cells: _Cells, facts: ComponentFacts, context: Context, flop: int | None, rate: ComponentRate | None
) -> None:
    for column in Column:
        if not context.has_model:
            cells.lacks(column, Absence.NOT_COLLECTED, _NO_MODEL)
        elif flop is None:
            cells.lacks(column, _NOT_COUNTED, "norms, movement, loss, optimizer and collectives have no useful FLOPs")
        else:
            note = "one update, all devices" if column is Column.HLO else "carried unchanged"
            if flop == 0:
                note = f"{note}; what is calculated again is useful once only"
            cells.add(column, "useful_flop", flop, Evidence.ANALYTIC, note)
    if flop:
        cells.add(Column.HLO, "useful_per_device_flop", flop / context.devices_count, Evidence.ANALYTIC)
    if rate is not None:
        note = f"of each device, over the sum of its compute; {format_ratio(rate.peak_ratio)} of the dense peak"
        if rate.peak_ratio > IMPOSSIBLE_RATIO:
            note = f"{note}: impossible, so model, tokens or devices are not those of this run"
        cells.add(Column.HLO, "useful_flop_per_s", rate.flop_per_s, rate.evidence, note)
        cells.add(Column.HLO, "useful_of_peak_ratio", rate.peak_ratio, rate.evidence)


def _no_work(facts: ComponentFacts, column: Column, context: Context | None = None) -> tuple[str, str]:
    """State and note where FLOPs and bytes are not known."""
    if "compute" not in facts.buckets:
        return str(RowState.NO_OPERATION), "nothing of it calculates: communication or copies only"
    if column is Column.ROCM:
        return str(Absence.NOT_COLLECTED), "no counter of its kernels: rocktools pmc --metrics fabric_bytes,total_flop"
    return str(
        Absence.NOT_COLLECTED
    ), "the compiler has no estimate of its kernels (library or custom call), or no program"


def _works(facts: ComponentFacts) -> Iterator[tuple[Column, Work | None]]:
    yield Column.HLO, facts.estimated
    yield Column.ROCM, facts.counted


def _of_part(work: Work) -> str:
    if work.covered_ratio is None or work.covered_ratio > 0.9995:
        return ""
    return f"; known for {format_ratio(work.covered_ratio)} of its compute time"


def _executed(cells: _Cells, facts: ComponentFacts, context: Context) -> None:
    for column, work in _works(facts):
        if work is None or work.flop is None:
            state, note = _no_work(facts, column)
            cells.lacks(column, state, note)
            continue
        how = "optimized shapes" if column is Column.HLO else "counted"
        note = f"{how}, mean of devices and steps{_of_part(work)}"
        cells.add(column, "executed_per_step_flop", work.flop, work.flop_evidence, note)
        if work.mix:
            cells.add(column, "formats", work.mix, work.flop_evidence)
    _replays(cells, facts, context, "total_flop")


def _bytes(cells: _Cells, facts: ComponentFacts, context: Context) -> None:
    for column, work in _works(facts):
        if work is None or work.moved_bytes is None:
            state, note = _no_work(facts, column)
            cells.lacks(column, state, note)
            continue
        note = f"{work.label}; mean of devices and steps{_of_part(work)}"
        cells.add(column, "moved_per_step_bytes", work.moved_bytes, work.bytes_evidence, note)
    for name, value in (("read_per_step_bytes", facts.read_bytes), ("written_per_step_bytes", facts.written_bytes)):
        if value is not None:
            cells.add(
                Column.ROCM, name, value, Evidence.COUNTER, "at the fabric; the mean of each kernel times its runs"
            )
    _replays(cells, facts, context, "fabric_bytes")


def _replays(cells: _Cells, facts: ComponentFacts, context: Context, quantity: str) -> None:
    """What replays of its kernels counted: of one execution, and only as good as their proof."""
    for kernel in dict.fromkeys(name for each in facts.of("compute") for name in each.kernel_names):
        for each in context.replayed.get(kernel, ()):
            if each.quantity == quantity and each.value is not None and each.evidence is not None:
                unit = "bytes" if quantity.endswith("bytes") else "flop"
                note = f"{kernel}, one execution in {each.origin}, proof: {each.proof or 'unproven'}"
                cells.add(Column.ROCM, f"replayed_{unit}", each.value, each.evidence, note)


def _communication(cells: _Cells, facts: ComponentFacts, context: Context) -> None:
    collectives = facts.of("communication")
    if not collectives and "communication" not in facts.buckets:
        for column in Column:
            cells.lacks(column, RowState.NO_OPERATION, "it has no collective of its own")
        return
    payload = _payload(collectives, context)
    if payload is None:
        cells.lacks(
            Column.HLO, Absence.NOT_ATTRIBUTED, "the payload of a collective is not known", "payload_per_step_bytes"
        )
    else:
        note = "the larger of what goes in and out, each execution; mean of devices and steps"
        cells.add(Column.HLO, "payload_per_step_bytes", payload, Evidence.COMPILER_ESTIMATE, note)
    kinds = _some([_kind_text(each, context) for each in collectives])
    if kinds:
        cells.add(Column.HLO, "collectives", kinds, Evidence.DECLARED, "kind and devices that take part together")
    if facts.sent_bytes is not None:
        note = "sent by each device at least, by payload and group"
        cells.add(Column.HLO, "sent_per_step_bytes", facts.sent_bytes, Evidence.COMPILER_ESTIMATE, note)
    cells.lacks(
        Column.ROCM,
        Absence.NOT_COLLECTED,
        "payloads of RCCL calls are not read; its kernels and their times are under Occurrences and Device time",
    )


def _payload(collectives: Sequence[Operation], context: Context) -> float | None:
    if not collectives or any(each.payload_bytes is None for each in collectives):
        return None
    return sum((each.payload_bytes or 0) * each.rows_count for each in collectives) / context.places_count


def _kind_text(operation: Operation, context: Context) -> str:
    known = context.collectives.get((operation.run, operation.instruction))
    group = "" if known is None or known.group_count is None else f" of {known.group_count}"
    return f"{operation.collective}{group}" if operation.collective else ""


def _intensity(cells: _Cells, facts: ComponentFacts) -> None:
    for column, work in _works(facts):
        if work is None or work.intensity is None:
            state, note = _no_work(facts, column)
            if work is not None and work.moved_bytes == 0:
                state, note = str(Absence.UNDEFINED), "it moves no bytes"
            cells.lacks(column, state, note)
            continue
        evidence = weakest(work.flop_evidence, work.bytes_evidence)
        derived = "executed FLOPs over the compiler's bytes" if column is Column.HLO else "from the retained counters"
        cells.add(column, "intensity_flop_per_byte", work.intensity, evidence, f"{derived}{_of_part(work)}")


def _efficiency(cells: _Cells, facts: ComponentFacts) -> None:
    for column, work in _works(facts):
        if work is None or work.roof_ratio is None:
            state, note = _no_work(facts, column)
            cells.lacks(column, state, note if work is None else work.refusal or note)
            continue
        evidence = weakest(work.flop_evidence, work.bytes_evidence)
        union = "union of their intervals" if work.is_exact_union else "unions of its instructions added up"
        note = f"of its time that the roof explains; time: {union}, {work.union_ns / 1e6:.4g} ms a step{_of_part(work)}"
        cells.add(column, "roof_ratio", work.roof_ratio, evidence, note)
        cells.add(column, "bound", work.bound, evidence, "what explains at least 60 % of its time")
        for name, value in (("peak_ratio", work.peak_ratio), ("bandwidth_ratio", work.bandwidth_ratio)):
            if value is not None:
                cells.add(column, name, value, evidence)
        if work.peak_flop_per_s is not None:
            note = "dense, of its own mix of formats"
            cells.add(column, "peak_flop_per_s", work.peak_flop_per_s, Evidence.DECLARED, note)
        if work.bandwidth_bytes_per_s is not None:
            cells.add(column, "bandwidth_bytes_per_s", work.bandwidth_bytes_per_s, Evidence.DECLARED, "HBM")
        if work.flop is not None and work.union_ns:
            cells.add(column, "achieved_flop_per_s", work.flop / work.union_ns * NS_PER_S, work.flop_evidence)
