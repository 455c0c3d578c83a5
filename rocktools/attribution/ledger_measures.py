"""ATTRIBUTED of some devices and steps -> the few sums and unions that a ledger is made of, and back into arrays.

Everything that a ledger says about its rows is in these frames. They are small, and those of different devices or steps
lie one behind the other: what was measured of each rank is measured of all. Sums add up; unions of sets of buckets do
not, so that of every line of every table is measured where the rows are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rocktools.analytic.occurrences import COUNTED_ROWS, Workload, count_rows
from rocktools.attribution.components import ComponentMap
from rocktools.attribution.ledger import (
    BucketKey,
    BucketSums,
    Place,
    book_rows,
    build_ledger,
    ledger_sets,
    nullable_steps,
    sum_buckets,
    unite_buckets,
)
from rocktools.attribution.ledger_lines import LinedTable, build_lines
from rocktools.findings import Finding
from rocktools.frames import LEDGER, Column, FrameSpec, require_frame
from rocktools.timeline.activities import labels_column
from rocktools.timeline.grouping import IntArray, codes_of, group_rows

_KEY = ("run", "device", "step_index")
_BUCKET = ("activity", "phase", "component", "gradient")
_SUMS = ("sum_ns", "mixed_ns", "inferred_ns", "rows_count", "mixed_count", "inferred_count")
_KEY_COLUMNS = tuple(LEDGER.column(name) for name in _KEY)

BUCKET_SUMS = FrameSpec(
    name="BUCKET_SUMS",
    meaning="One row per device, step and bucket, gradients told apart: what durations add up to.",
    key=(*_KEY, *_BUCKET),
    sort=("run", "step_index", "device", *_BUCKET),
    columns=(
        *_KEY_COLUMNS,
        *(LEDGER.column(name) for name in _BUCKET[:-1]),
        Column("gradient", "category", "as in ATTRIBUTED; empty where it is none"),
        *(LEDGER.column(name) for name in _SUMS[:4]),
        Column("mixed_count", "int64", "part of `rows_count` in fusions that hold another phase too"),
        Column("inferred_count", "int64", "part of `rows_count` that is booked by inference"),
    ),
)

LINE_UNIONS = FrameSpec(
    name="LINE_UNIONS",
    meaning="One row per device, step and line of a table that has time there: how long it covers, overlaps once.",
    key=(*_KEY, "table", "row", "components"),
    sort=("run", "step_index", "device", "table", "row", "components"),
    columns=(
        *_KEY_COLUMNS,
        Column("table", "category", "as in LEDGER_ROWS"),
        Column("row", "category", "title of the line"),
        Column("components", "category", "components that it adds up; empty where it is not made of components"),
        Column("union_ns", "int64", "time covered by at least one of its rows, overlaps counted once"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LedgerMeasures:
    """What was measured of the rows of a ledger.

    Attributes:
        sums: BUCKET_SUMS.
        unions: LINE_UNIONS.
        buckets: LEDGER.
        counted: COUNTED_ROWS; without a row where no workload was given.
        findings: about rows that were left out.
    """

    sums: pd.DataFrame
    unions: pd.DataFrame
    buckets: pd.DataFrame
    counted: pd.DataFrame
    findings: tuple[Finding, ...] = ()

    def only(self, places: frozenset[Place]) -> LedgerMeasures:
        """The same of these devices and steps."""
        return replace(
            self,
            **{name: _only(getattr(self, name), places) for name in ("sums", "unions", "buckets", "counted")},
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LedgerArrays:
    """The measures of a ledger, laid out for its tables.

    Attributes:
        places: devices and steps, sorted by run, step and device.
        buckets: those that have a row.
        sums: one line per bucket, one column per place.
        union_ns: table, title and components of a line -> its unions of all places, added up.
    """

    places: tuple[Place, ...]
    buckets: tuple[BucketKey, ...]
    sums: BucketSums
    union_ns: Mapping[tuple[str, str, str], int]


def measure_ledger(
    rows: pd.DataFrame, component_map: ComponentMap, *, workload: Workload | None = None, is_by_step: bool = True
) -> LedgerMeasures:
    """The measures of these rows.

    Args:
        rows: ATTRIBUTED.
        component_map: the one that they were classified by.
        workload: what is to be counted; None: nothing.
        is_by_step: as in `book_rows`.
    """
    booked = book_rows(rows, is_by_step=is_by_step)
    tables = build_lines(booked.buckets, component_map)
    sums = sum_buckets(booked)
    wanted = [*ledger_sets(booked), *(each for table in tables for each in table.sets)]
    unions = unite_buckets(booked, wanted)
    counted = COUNTED_ROWS.empty()
    if workload is not None:
        kept = rows.iloc[booked.kept]
        counted = count_rows(kept if is_by_step else kept.drop(columns="step_index", errors="ignore"), workload)
    return LedgerMeasures(
        sums=_sums_frame(booked.places, booked.buckets, sums),
        unions=_unions_frame(booked.places, tables, sums, unions),
        buckets=build_ledger(booked, sums, unions),
        counted=counted,
        findings=booked.findings,
    )


def arrays_of(measures: LedgerMeasures) -> LedgerArrays:
    """The measures as arrays."""
    frame = measures.sums
    places, place = _places_of(frame)
    groups = group_rows([codes_of(frame[name]) for name in _BUCKET])
    shown = frame.iloc[groups.example]
    keys = list(zip(*(shown[name].astype(str) for name in _BUCKET), strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    number = np.empty(len(keys), dtype=np.int64)
    number[order] = np.arange(len(keys))
    arrays = {name: np.zeros((len(keys), len(places)), dtype=np.int64) for name in _SUMS}
    for name, array in arrays.items():
        np.add.at(array, (number[groups.of], place), frame[name].to_numpy())
    lines = measures.unions.groupby(["table", "row", "components"], observed=True)["union_ns"].sum()
    return LedgerArrays(
        places=places,
        buckets=tuple(keys[i] for i in order),
        sums=BucketSums(**arrays),
        union_ns={(str(table), str(row), str(label)): int(ns) for (table, row, label), ns in lines.items()},
    )


def _sums_frame(places: Sequence[Place], buckets: Sequence[BucketKey], sums: BucketSums) -> pd.DataFrame:
    bucket, place = np.nonzero(sums.rows_count)
    columns: dict[str, Any] = _place_columns(places, place)
    for i, name in enumerate(_BUCKET):
        columns[name] = _spread([key[i] for key in buckets], bucket)
    columns |= {name: getattr(sums, name)[bucket, place] for name in _SUMS}
    frame = pd.DataFrame(columns).sort_values(list(BUCKET_SUMS.sort), ignore_index=True)
    return require_frame(frame, BUCKET_SUMS)


def _unions_frame(
    places: Sequence[Place],
    tables: Sequence[LinedTable],
    sums: BucketSums,
    unions: Mapping[frozenset[int], IntArray],
) -> pd.DataFrame:
    lines = [
        (table.name, line.title, line.label, buckets)
        for table in tables
        for line, buckets in zip(table.lines, table.sets, strict=True)
        if buckets
    ]
    shape = (len(lines), len(places))
    counts = np.array([sums.rows_count[list(line[3])].sum(axis=0) for line in lines], dtype=np.int64).reshape(shape)
    union_ns = np.array([unions[line[3]] for line in lines], dtype=np.int64).reshape(shape)
    row, place = np.nonzero(counts)
    columns: dict[str, Any] = _place_columns(places, place)
    for i, name in enumerate(("table", "row", "components")):
        columns[name] = _spread([str(line[i]) for line in lines], row)
    frame = pd.DataFrame({**columns, "union_ns": union_ns[row, place]})
    return require_frame(frame.sort_values(list(LINE_UNIONS.sort), ignore_index=True), LINE_UNIONS)


def _place_columns(places: Sequence[Place], place: IntArray) -> dict[str, Any]:
    return {
        "run": _spread([each.run for each in places], place),
        "device": _spread([each.device for each in places], place),
        "step_index": nullable_steps([each.step_index for each in places])[place],
    }


def _spread(texts: Sequence[str], of: IntArray) -> pd.Categorical:
    """The text of each number, as labels."""
    return labels_column([texts[i] for i in of.tolist()])


def _places_of(frame: pd.DataFrame) -> tuple[tuple[Place, ...], IntArray]:
    """The devices and steps of a frame, sorted by run, step and device; and that of each row."""
    groups = group_rows([codes_of(frame[name]) for name in _KEY])
    found = [
        Place(run=str(run), device=str(device), step_index=None if pd.isna(step) else int(step))
        for run, device, step in zip(*(frame[name].iloc[groups.example] for name in _KEY), strict=True)
    ]
    order = sorted(range(len(found)), key=lambda i: found[i].sort_key)
    rank = np.empty(len(found), dtype=np.int64)
    rank[order] = np.arange(len(found))
    return tuple(found[i] for i in order), rank[groups.of] if len(found) else groups.of


def _only(frame: pd.DataFrame, wanted: frozenset[Place]) -> pd.DataFrame:
    places, place = _places_of(frame)
    is_wanted = np.array([each in wanted for each in places], dtype=np.bool_)
    return frame[is_wanted[place]].reset_index(drop=True) if len(frame) else frame
