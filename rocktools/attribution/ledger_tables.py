"""BookedRows and a component map -> the tables of a ledger: phases, components of three phases, cross-cutting rows.

Each table is a partition of its rows: every row of a timeline is in exactly one line of the phase table, and every
compute row of a phase in exactly one line of that phase's table. A number is the mean over devices and steps of summed
durations; beside it stand the mean of the unions, the spread over devices, and the device with most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.analytic.occurrences import Occurrence
from rocktools.attribution.components import UNATTRIBUTED, ComponentMap, RowState, TableRow
from rocktools.attribution.gradients import Gradient
from rocktools.attribution.ledger import BookedRows, BucketKey, BucketSet, BucketSums, sum_buckets, unite_buckets
from rocktools.attribution.phases import BookedPhase
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.timeline.activities import Activity, labels_column
from rocktools.timeline.grouping import IntArray

_NO_NUMBER = "the row has a state instead"

LEDGER_ROWS = FrameSpec(
    name="LEDGER_ROWS",
    meaning="One row per line of a table of the ledger: means over devices and steps, and their spread over devices.",
    key=("table", "row_index"),
    sort=("table", "row_index"),
    columns=(
        Column("table", "category", "phases, forward, backward, rematerialized, model, gradients or cross_cutting"),
        Column("row_index", "int64", "place in the table, from 0"),
        Column("row", "category", "title of the line"),
        Column("components", "category", "components that it adds up", "it is not made of components"),
        Column("mean_ns", "float64", "summed durations per device and step", _NO_NUMBER),
        Column("share_ratio", "float64", "of the table's total; of all time in `cross_cutting`", _NO_NUMBER),
        Column("union_ns", "float64", "time covered per device and step, overlaps counted once", _NO_NUMBER),
        Column("lowest_ns", "float64", "`mean_ns` of the device with least", _NO_NUMBER),
        Column("highest_ns", "float64", "`mean_ns` of the device with most", _NO_NUMBER),
        Column("critical_device", "category", "the device with most", _NO_NUMBER),
        Column("sum_ns", "Int64", "durations of all devices and steps added up", _NO_NUMBER),
        Column("mixed_ns", "Int64", "part of `sum_ns` in fusions that hold another phase too", _NO_NUMBER),
        Column("inferred_ns", "Int64", "part of `sum_ns` that is booked by inference", _NO_NUMBER),
        Column("rows_count", "Int64", "kernels and copies of all devices and steps", _NO_NUMBER),
        Column("expected_count", "Int64", "what the workload expects of those it counts", "nothing is expected"),
        Column("found_count", "Int64", "what was found of those", "nothing is expected"),
        Column("state", "category", "why there is no number; `failed` where a count misses", "a number, no doubt"),
        Column("note", "category", "what it includes, or where it is anchored", "nothing to say"),
    ),
)

FAILED = "failed"
PHASES_TABLE, MODEL_TABLE, GRADIENTS_TABLE, CROSS_TABLE = "phases", "model", "gradients", "cross_cutting"
TOTAL = "Total"
_COMPONENT_TABLES = (BookedPhase.FORWARD, BookedPhase.BACKWARD, BookedPhase.REMATERIALIZED)
_TABLES = (PHASES_TABLE, *(phase.value for phase in _COMPONENT_TABLES), MODEL_TABLE, GRADIENTS_TABLE, CROSS_TABLE)
_OUTSIDE = (BookedPhase.LOSS, BookedPhase.ACCUMULATION, BookedPhase.OPTIMIZER)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One line: which buckets it takes (None: words only), and what is said about it."""

    title: str
    takes: Callable[[BucketKey], bool] | None
    components: tuple[str, ...] = ()
    absent: RowState | None = None
    state: RowState | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """A table, and the buckets of each of its lines."""

    name: str
    lines: Sequence[_Line]
    sets: Sequence[BucketSet]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Measured:
    """The rows, and what was measured of them."""

    booked: BookedRows
    sums: BucketSums
    unions: Mapping[BucketSet, IntArray]


def build_tables(
    booked: BookedRows,
    component_map: ComponentMap,
    occurrences: Sequence[Occurrence] = (),
    sums: BucketSums | None = None,
    unions: Mapping[BucketSet, IntArray] | None = None,
) -> pd.DataFrame:
    """LEDGER_ROWS of all tables.

    Args:
        booked: rows of a ledger.
        component_map: the one that they were classified by.
        occurrences: what a workload expects; each is put beside the line of its phase and component.
        sums, unions: where they were measured already; None: they are measured here.
    """
    lines = {
        PHASES_TABLE: _phase_lines(booked.buckets),
        **{phase.value: _component_lines(phase, booked.buckets, component_map) for phase in _COMPONENT_TABLES},
        MODEL_TABLE: _model_lines(booked.buckets, component_map),
        GRADIENTS_TABLE: _gradient_lines(booked.buckets, component_map),
        CROSS_TABLE: _cross_lines(booked.buckets),
    }
    tables = [
        _Table(name=name, lines=lines[name], sets=_sets_of(name, lines[name], booked))
        for name in _TABLES
        if lines[name]
    ]
    wanted = [buckets for table in tables for buckets in (*table.sets, frozenset[int]().union(*table.sets))]
    measured = _Measured(
        booked=booked,
        sums=sum_buckets(booked) if sums is None else sums,
        unions=dict(unions or {}) | unite_buckets(booked, (each for each in wanted if each not in (unions or {}))),
    )
    rows = [row for table in tables for row in _rows_of(table, measured, occurrences)]
    texts = ("table", "row", "components", "critical_device", "state", "note")
    columns: dict[str, object] = {}
    for column in LEDGER_ROWS.columns:
        values = [row.get(column.name) for row in rows]
        if column.name == "table":
            columns[column.name] = pd.Categorical(values, categories=list(_TABLES))
        elif column.name in texts:
            columns[column.name] = labels_column(values)
        elif column.dtype == "Int64":
            columns[column.name] = _integers(values)
        elif column.dtype == "int64":
            columns[column.name] = np.array(values, dtype=np.int64)
        else:
            columns[column.name] = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return require_frame(pd.DataFrame(columns), LEDGER_ROWS)


def _phase_lines(buckets: Sequence[BucketKey]) -> list[_Line]:
    def computes(*phases: BookedPhase) -> Callable[[BucketKey], bool]:
        wanted = {phase.value for phase in phases}
        return lambda key: key[0] == Activity.COMPUTE.value and key[1] in wanted

    lines = [
        _Line(title="Forward model compute", takes=computes(BookedPhase.FORWARD)),
        _Line(title="Backward gradient compute", takes=computes(BookedPhase.BACKWARD)),
        _Line(title="Rematerialized forward replay", takes=computes(BookedPhase.REMATERIALIZED)),
        _Line(title="Loss, gradient accumulation and optimizer", takes=computes(*_OUTSIDE)),
        _Line(title="Input", takes=computes(BookedPhase.INPUT)),
        _Line(title="Communication", takes=lambda key: key[0] == Activity.COMMUNICATION.value),
        _Line(title="Copies", takes=lambda key: key[0] == Activity.COPY.value),
        _Line(title="Unattributed work", takes=computes(BookedPhase.UNATTRIBUTED)),
    ]
    optional = ("Input", "Copies")
    return [line for line in lines if line.title not in optional or _has_any(line, buckets)]


def _has_any(line: _Line, buckets: Sequence[BucketKey]) -> bool:
    return line.takes is not None and any(line.takes(bucket) for bucket in buckets)


def _component_lines(phase: BookedPhase, buckets: Sequence[BucketKey], component_map: ComponentMap) -> list[_Line]:
    """The rows of the map, then a row for every component that has time and no row in it."""
    rows = component_map.tables.get(phase, ())
    named = {component for row in rows for component in row.components}
    present = {
        component
        for activity, theirs, component, _ in buckets
        if activity == Activity.COMPUTE.value and theirs == phase.value
    }
    order = [*component_map.components, UNATTRIBUTED]
    rest = sorted(present - named, key=lambda name: (order.index(name) if name in order else len(order), name))
    lines = [_map_line(phase, row, row.components) for row in rows]
    # A row of the map that says nothing about a model without that part is left out; one with a state is a statement.
    lines = [
        line for line in lines if line.state or line.absent is not RowState.NO_OPERATION or _has_any(line, buckets)
    ]
    for name in rest:
        title = "No component" if name == UNATTRIBUTED else component_map.title_of(name)
        lines.append(_map_line(phase, TableRow(title=title, components=(name,)), (name,)))
    return lines


def _map_line(phase: BookedPhase, row: TableRow, components: tuple[str, ...]) -> _Line:
    def takes(key: BucketKey) -> bool:
        return key[0] == Activity.COMPUTE.value and key[1] == phase.value and key[2] in components

    return _Line(
        title=row.title,
        takes=None if row.state else takes,
        components=components,
        absent=row.absent,
        state=row.state,
        note=row.note,
    )


def _model_lines(buckets: Sequence[BucketKey], component_map: ComponentMap) -> list[_Line]:
    """The compute of all three phases of the model by groups of components; a component without a group is one."""
    groups: dict[str, list[str]] = {}
    for component in component_map.components.values():
        groups.setdefault(component.group, []).append(component.name)
    for _, _, name, _ in buckets:
        if name not in component_map.components:
            groups.setdefault("no component" if name == UNATTRIBUTED else name, []).append(name)
    titles = {group: component_map.title_of(names[0]) if len(names) == 1 else group for group, names in groups.items()}
    titles["no component"] = "No component"
    lines = [
        _Line(title=titles[group], takes=_of_model(frozenset(names)), components=tuple(dict.fromkeys(names)))
        for group, names in groups.items()
    ]
    return [line for line in lines if _has_any(line, buckets)]


def _of_model(components: frozenset[str]) -> Callable[[BucketKey], bool]:
    phases = {phase.value for phase in _COMPONENT_TABLES}
    return lambda key: key[0] == Activity.COMPUTE.value and key[1] in phases and key[2] in components


def _gradient_lines(buckets: Sequence[BucketKey], component_map: ComponentMap) -> list[_Line]:
    """The rows of the backward table by what their products are the gradient of; none where no product is split."""
    if not any(gradient for *_, gradient in buckets):
        return []
    kinds = ((Gradient.ACTIVATION.value, "Dgrad"), (Gradient.WEIGHT.value, "Wgrad"), ("", "neither, or not told apart"))
    lines = [
        _Line(
            title=f"{line.title}: {title}",
            takes=_of_gradient(line.takes, gradient),
            components=line.components,
        )
        for line in _component_lines(BookedPhase.BACKWARD, buckets, component_map)
        if line.takes is not None
        for gradient, title in kinds
    ]
    return [line for line in lines if _has_any(line, buckets)]


def _of_gradient(takes: Callable[[BucketKey], bool], gradient: str) -> Callable[[BucketKey], bool]:
    return lambda key: key[3] == gradient and takes(key)


def _cross_lines(buckets: Sequence[BucketKey]) -> list[_Line]:
    def at(activity: Activity, *phases: BookedPhase) -> Callable[[BucketKey], bool]:
        wanted = {phase.value for phase in phases}
        return lambda key: key[0] == activity.value and key[1] in wanted

    others = [phase for phase in BookedPhase if phase not in _COMPONENT_TABLES]
    communication, compute = Activity.COMMUNICATION, Activity.COMPUTE
    lines = [
        _Line(
            title="Forward collectives",
            takes=at(communication, BookedPhase.FORWARD),
            note="launched from forward name stacks",
        ),
        _Line(
            title="Backward collectives",
            takes=at(communication, BookedPhase.BACKWARD),
            note="attached to gradient work",
        ),
        _Line(
            title="Rematerialized collectives",
            takes=at(communication, BookedPhase.REMATERIALIZED),
            note="replayed inside of the checkpointed region",
        ),
        _Line(
            title="Optimizer or unscoped collectives",
            takes=at(communication, *others),
            note="no phase of the model in their metadata",
        ),
        _Line(title="Loss and metrics", takes=at(compute, BookedPhase.LOSS), note="outside of the model's VJP"),
        _Line(
            title="Gradient accumulation, clipping and optimizer",
            takes=at(compute, BookedPhase.ACCUMULATION, BookedPhase.OPTIMIZER),
        ),
        _Line(title="Input", takes=at(compute, BookedPhase.INPUT)),
        _Line(title="Copies", takes=at(Activity.COPY, *BookedPhase)),
        _Line(
            title="Other unattributed work",
            takes=at(compute, BookedPhase.UNATTRIBUTED),
            note="kept without forcing it into a component",
        ),
    ]
    return [line for line in lines if line.title not in ("Input", "Copies") or _has_any(line, buckets)]


def _sets_of(name: str, lines: Sequence[_Line], booked: BookedRows) -> list[BucketSet]:
    """The buckets of each line; a bucket is in one line at most."""
    sets = [
        frozenset(i for i, key in enumerate(booked.buckets) if line.takes is not None and line.takes(key))
        for line in lines
    ]
    assert len(frozenset[int]().union(*sets)) == sum(map(len, sets)), f"a bucket is in two lines of {name}"
    return sets


def _rows_of(table: _Table, measured: _Measured, occurrences: Sequence[Occurrence]) -> list[Mapping[str, object]]:
    """The rows of one table, its total last."""
    whole = frozenset[int]().union(*table.sets)
    everything = list(range(len(measured.booked.buckets))) if table.name == CROSS_TABLE else list(whole)
    total_ns = int(measured.sums.sum_ns[everything].sum())
    end = _Line(title=TOTAL, takes=lambda _: True)
    pairs = [*zip(table.lines, table.sets, strict=True), (end, whole)]
    rows: list[Mapping[str, object]] = []
    for index, (line, buckets) in enumerate(pairs):
        row: dict[str, object] = {
            "table": table.name,
            "row_index": index,
            "row": line.title,
            "components": ", ".join(line.components) or None,
            "note": line.note or None,
        }
        row |= _numbers(line, buckets, measured, total_ns)
        rows.append(row | (_expected(table.name, line, occurrences) if line is not end else {}))
    return rows


def _numbers(line: _Line, buckets: BucketSet, measured: _Measured, total_ns: int) -> dict[str, object]:
    """The numbers of a line, or its state."""
    chosen = list(buckets)
    rows_count = int(measured.sums.rows_count[chosen].sum())
    if line.takes is None or (rows_count == 0 and line.absent is not None):
        state = line.state or line.absent
        return {"state": state.value if state else None}
    places = max(len(measured.booked.places), 1)
    sums = measured.sums.sum_ns[chosen].sum(axis=0)
    sum_ns = int(sums.sum())
    by_device = _by_device(measured.booked, sums)
    critical = max(sorted(by_device), key=by_device.__getitem__) if by_device else None
    return {
        "mean_ns": sum_ns / places,
        "share_ratio": sum_ns / total_ns if total_ns else None,
        "union_ns": int(measured.unions[buckets].sum()) / places,
        "lowest_ns": min(by_device.values(), default=0.0),
        "highest_ns": max(by_device.values(), default=0.0),
        "critical_device": critical if sum_ns else None,
        "sum_ns": sum_ns,
        "mixed_ns": int(measured.sums.mixed_ns[chosen].sum()),
        "inferred_ns": int(measured.sums.inferred_ns[chosen].sum()),
        "rows_count": rows_count,
    }


def _by_device(booked: BookedRows, sums: npt.NDArray[np.int64]) -> dict[str, float]:
    """Device -> its mean over its steps."""
    totals: dict[str, list[int]] = {}
    for place, value in zip(booked.places, sums.tolist(), strict=True):
        totals.setdefault(place.device, []).append(value)
    return {device: sum(values) / len(values) for device, values in totals.items()}


def _expected(table: str, line: _Line, occurrences: Sequence[Occurrence]) -> dict[str, object]:
    """What is expected of a line of a component table, and whether it is there."""
    theirs = [
        each
        for each in occurrences
        if each.expectation.phase == table and each.expectation.component in line.components
    ]
    if not theirs:
        return {}
    expected: dict[str, object] = {
        "expected_count": sum(each.expected_count for each in theirs),
        "found_count": sum(each.found_count for each in theirs),
    }
    return expected if all(each.is_met for each in theirs) else {**expected, "state": FAILED}


def _integers(values: Sequence[object]) -> pd.api.extensions.ExtensionArray:
    is_missing = np.array([value is None for value in values], dtype=np.bool_)
    numbers = np.array([0 if value is None else value for value in values], dtype=np.int64)
    return nullable_int64(numbers, is_missing)
