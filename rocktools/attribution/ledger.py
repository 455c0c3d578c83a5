"""ATTRIBUTED -> LEDGER: how long each bucket took on each device in each step, as a sum and as a union.

Everything is an integer, and everything is counted once: the sums of a device and step add up to the durations of its
rows. Which buckets make a row of a table is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding
from rocktools.frames import LEDGER, nullable_int64, require_frame
from rocktools.intervals import union_length_by
from rocktools.timeline.activities import labels_column, time_rows
from rocktools.timeline.grouping import IntArray, codes_of, group_rows

ROW_COLUMNS = (
    *("run", "device", "start_ns", "end_ns", "activity", "phase", "component", "gradient"),
    *("is_mixed", "is_inferred", "step_index"),
)
"""The columns of ATTRIBUTED that the ledger reads."""

BUCKET = ("activity", "phase", "component")
BucketKey = tuple[str, str, str, str]
"""Activity, phase, component, gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One device in one step; the step is None where the whole trace is one."""

    run: str
    device: str
    step_index: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BookedRows:
    """The rows of a ledger as arrays.

    Attributes:
        start_ns, end_ns: of each row.
        place: for each row its position in `places`.
        places: devices and steps, sorted by run, step and device.
        bucket: for each row its position in `buckets`.
        buckets: the different activities, phases, components and gradients ("" for none).
        is_mixed, is_inferred: of each row.
        kept: position of each row in ATTRIBUTED.
        findings: about rows that were left out.
    """

    start_ns: IntArray
    end_ns: IntArray
    place: IntArray
    places: tuple[Place, ...]
    bucket: IntArray
    buckets: tuple[BucketKey, ...]
    is_mixed: npt.NDArray[np.bool_]
    is_inferred: npt.NDArray[np.bool_]
    kept: npt.NDArray[np.intp]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lengths:
    """Sums and unions; every array has one line per group and one column per place."""

    sum_ns: IntArray
    union_ns: IntArray
    mixed_ns: IntArray
    inferred_ns: IntArray
    rows_count: IntArray


def book_rows(rows: pd.DataFrame, *, is_by_step: bool = True) -> BookedRows:
    """The rows of a ledger.

    Args:
        rows: ATTRIBUTED, at least `ROW_COLUMNS` (without step_index where the whole trace is asked for).
        is_by_step: False to take the whole trace as one step. By step, rows outside of every step are left out.
    """
    by = ("run", "device", "step_index") if is_by_step else ("run", "device")
    timed = time_rows(rows, by, is_wanted=rows["step_index"].notna().to_numpy() if is_by_step else None)
    examples = rows.iloc[timed.kept[timed.groups.example]]
    steps = examples["step_index"].tolist() if is_by_step else [None] * len(examples)
    found = [
        Place(run=str(run), device=str(device), step_index=None if step is None else int(step))
        for run, device, step in zip(examples["run"], examples["device"], steps, strict=True)
    ]
    order = sorted(range(len(found)), key=lambda i: (found[i].run, found[i].step_index or 0, found[i].device))
    rank = np.empty(len(found), dtype=np.int64)
    rank[order] = np.arange(len(found))
    groups = group_rows([codes_of(rows[name])[timed.kept] for name in (*BUCKET, "gradient")])
    shown = rows.iloc[timed.kept[groups.example]]
    gradients = shown["gradient"].astype(object).where(shown["gradient"].notna(), "")
    return BookedRows(
        start_ns=timed.start_ns,
        end_ns=timed.end_ns,
        place=rank[timed.groups.of],
        places=tuple(found[i] for i in order),
        bucket=groups.of,
        buckets=tuple(zip(*(shown[name].astype(str) for name in BUCKET), gradients, strict=True)),
        is_mixed=rows["is_mixed"].to_numpy(dtype=np.bool_)[timed.kept],
        is_inferred=rows["is_inferred"].to_numpy(dtype=np.bool_)[timed.kept],
        kept=timed.kept,
        findings=timed.findings,
    )


def measure_groups(booked: BookedRows, group: IntArray, groups_count: int) -> Lengths:
    """Sums and unions of groups of rows on each place.

    Args:
        booked: the rows.
        group: of each row, 0..groups_count-1; -1 for rows that are in none.
    """
    is_in = group >= 0
    places = len(booked.places)
    codes = group[is_in] * places + booked.place[is_in]
    starts, ends = booked.start_ns[is_in], booked.end_ns[is_in]
    durations = ends - starts
    size = groups_count * places

    def added(values: IntArray) -> IntArray:
        totals = np.zeros(size, dtype=np.int64)
        np.add.at(totals, codes, values)  # not bincount: its weights are float64
        return totals.reshape(groups_count, places)

    return Lengths(
        sum_ns=added(durations),
        union_ns=union_length_by(starts, ends, codes, size).reshape(groups_count, places),
        mixed_ns=added(np.where(booked.is_mixed[is_in], durations, 0)),
        inferred_ns=added(np.where(booked.is_inferred[is_in], durations, 0)),
        rows_count=added(np.ones(codes.size, dtype=np.int64)),
    )


def build_ledger(booked: BookedRows) -> pd.DataFrame:
    """LEDGER of the rows; buckets that a device and step has no row of are left out."""
    distinct = list(dict.fromkeys(key[:3] for key in booked.buckets))
    of_bucket = np.array([distinct.index(key[:3]) for key in booked.buckets], dtype=np.int64)
    group = of_bucket[booked.bucket] if distinct else booked.bucket
    lengths = measure_groups(booked, group, len(distinct))
    bucket, place = np.nonzero(lengths.rows_count)
    places = [booked.places[i] for i in place]
    names = [distinct[i] for i in bucket]
    steps = [each.step_index for each in places]
    inferred = lengths.inferred_ns[bucket, place]
    evidence = [(Evidence.INFERRED if ns else Evidence.MEASURED).value for ns in inferred.tolist()]
    frame = pd.DataFrame(
        {
            "run": labels_column([each.run for each in places]),
            "device": labels_column([each.device for each in places]),
            "step_index": _integers(steps),
            **{name: labels_column([each[i] for each in names]) for i, name in enumerate(BUCKET)},
            "sum_ns": lengths.sum_ns[bucket, place],
            "union_ns": lengths.union_ns[bucket, place],
            "mixed_ns": lengths.mixed_ns[bucket, place],
            "inferred_ns": inferred,
            "rows_count": lengths.rows_count[bucket, place],
            "evidence": labels_column(evidence),
        }
    )
    frame = frame.sort_values(list(LEDGER.sort), ignore_index=True)
    return require_frame(frame, LEDGER)


def _integers(values: Sequence[int | None]) -> pd.api.extensions.ExtensionArray:
    is_missing = np.array([value is None for value in values], dtype=np.bool_)
    return nullable_int64(np.array([value or 0 for value in values], dtype=np.int64), is_missing)
