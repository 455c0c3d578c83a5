"""The measures of a ledger and a component map -> its tables: phases, components of three phases, cross-cutting rows.

A number is the mean over devices and steps of summed durations; beside it stand the mean of the unions, the spread over
devices, and the device with most. What was measured of parts of a trace and put together gives the same tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rocktools.analytic.occurrences import Occurrence
from rocktools.attribution.components import ComponentMap
from rocktools.attribution.ledger import BucketSet, Place
from rocktools.attribution.ledger_lines import CROSS_TABLE, GRADIENTS_TABLE, TABLES, LinedTable, TableLine, build_lines
from rocktools.attribution.ledger_measures import LedgerArrays, LedgerMeasures, arrays_of
from rocktools.attribution.phases import BookedPhase
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.timeline.activities import labels_column
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


def build_tables(
    measures: LedgerMeasures, component_map: ComponentMap, occurrences: Sequence[Occurrence] = ()
) -> pd.DataFrame:
    """LEDGER_ROWS of all tables.

    Args:
        measures: of the rows of the ledger.
        component_map: the one that they were classified by.
        occurrences: what a workload expects; each is put beside the line of its phase and component.
    """
    arrays = arrays_of(measures)
    tables = build_lines(arrays.buckets, component_map)
    if not any(gradient for _, phase, _, gradient in arrays.buckets if phase == BookedPhase.BACKWARD.value):
        tables = [table for table in tables if table.name != GRADIENTS_TABLE]  # it would repeat the backward table
    rows = [row for table in tables for row in _rows_of(table, arrays, occurrences)]
    texts = ("row", "components", "critical_device", "state", "note")
    columns: dict[str, object] = {}
    for column in LEDGER_ROWS.columns:
        values = [row.get(column.name) for row in rows]
        if column.name == "table":
            columns[column.name] = pd.Categorical(values, categories=list(TABLES))
        elif column.name in texts:
            columns[column.name] = labels_column(values)
        elif column.dtype == "Int64":
            columns[column.name] = _integers(values)
        elif column.dtype == "int64":
            columns[column.name] = np.array(values, dtype=np.int64)
        else:
            columns[column.name] = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return require_frame(pd.DataFrame(columns), LEDGER_ROWS)


def _rows_of(
    table: LinedTable, measured: LedgerArrays, occurrences: Sequence[Occurrence]
) -> list[Mapping[str, object]]:
    """The rows of one table, its total last."""
    whole = table.sets[-1]
    everything = list(range(len(measured.buckets))) if table.name == CROSS_TABLE else list(whole)
    total_ns = int(measured.sums.sum_ns[everything].sum())
    rows: list[Mapping[str, object]] = []
    for index, (line, buckets) in enumerate(zip(table.lines, table.sets, strict=True)):
        row: dict[str, object] = {
            "table": table.name,
            "row_index": index,
            "row": line.title,
            "components": line.label or None,
            "note": line.note or None,
        }
        row |= _numbers(table.name, line, buckets, measured, total_ns)
        rows.append(row | _expected(table.name, line, occurrences))
    return rows


def _numbers(
    table: str, line: TableLine, buckets: BucketSet, measured: LedgerArrays, total_ns: int
) -> dict[str, object]:
    """The numbers of a line, or its state."""
    chosen = list(buckets)
    rows_count = int(measured.sums.rows_count[chosen].sum())
    if line.takes is None or (rows_count == 0 and line.absent is not None):
        state = line.state or line.absent
        return {"state": state.value if state else None}
    places = max(len(measured.places), 1)
    sums = measured.sums.sum_ns[chosen].sum(axis=0)
    sum_ns = int(sums.sum())
    by_device = _by_device(measured.places, sums)
    critical = max(sorted(by_device), key=by_device.__getitem__) if by_device else None
    return {
        "mean_ns": sum_ns / places,
        "share_ratio": sum_ns / total_ns if total_ns else None,
        "union_ns": measured.union_ns.get((table, line.title, line.label), 0) / places,
        "lowest_ns": min(by_device.values(), default=0.0),
        "highest_ns": max(by_device.values(), default=0.0),
        "critical_device": critical if sum_ns else None,
        "sum_ns": sum_ns,
        "mixed_ns": int(measured.sums.mixed_ns[chosen].sum()),
        "inferred_ns": int(measured.sums.inferred_ns[chosen].sum()),
        "rows_count": rows_count,
    }


def _by_device(places: Sequence[Place], sums: IntArray) -> dict[str, float]:
    """Device -> its mean over its steps."""
    totals: dict[str, list[int]] = {}
    for place, value in zip(places, sums.tolist(), strict=True):
        totals.setdefault(place.device, []).append(value)
    return {device: sum(values) / len(values) for device, values in totals.items()}


def _expected(table: str, line: TableLine, occurrences: Sequence[Occurrence]) -> dict[str, object]:
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
