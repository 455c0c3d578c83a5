"""ATTRIBUTED -> LEDGER: how long each bucket took on each device in each step, as a sum and as a union.

Everything is an integer, and everything is counted once: the sums of a device and step add up to the durations of its
rows. Which buckets make a row of a table is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
BucketSet = frozenset[int]
"""Positions of buckets in `BookedRows.buckets`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One device in one step; the step is None where the whole trace is one."""

    run: str
    device: str
    step_index: int | None

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """The order of places: by run, step and device."""
        return self.run, -1 if self.step_index is None else self.step_index, self.device


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
class BucketSums:
    """What durations add up to; every array has one line per bucket and one column per place."""

    sum_ns: IntArray
    mixed_ns: IntArray
    inferred_ns: IntArray
    rows_count: IntArray
    mixed_count: IntArray
    inferred_count: IntArray


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
    order = sorted(range(len(found)), key=lambda i: found[i].sort_key)
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


def sum_buckets(booked: BookedRows) -> BucketSums:
    """The sums of every bucket on every place."""
    shape = len(booked.buckets), len(booked.places)
    codes = booked.bucket * shape[1] + booked.place
    durations = booked.end_ns - booked.start_ns

    def added(chosen: npt.NDArray[np.bool_] | None = None) -> IntArray:
        totals = np.zeros(shape[0] * shape[1], dtype=np.int64)
        # Not bincount: its weights are float64.
        np.add.at(
            totals, codes if chosen is None else codes[chosen], durations if chosen is None else durations[chosen]
        )
        return totals.reshape(shape)

    def counted(chosen: npt.NDArray[np.bool_] | None = None) -> IntArray:
        counts = np.bincount(codes if chosen is None else codes[chosen], minlength=shape[0] * shape[1])
        return counts.astype(np.int64).reshape(shape)

    return BucketSums(
        sum_ns=added(),
        mixed_ns=added(booked.is_mixed),
        inferred_ns=added(booked.is_inferred),
        rows_count=counted(),
        mixed_count=counted(booked.is_mixed),
        inferred_count=counted(booked.is_inferred),
    )


def unite_buckets(booked: BookedRows, wanted: Iterable[BucketSet]) -> dict[BucketSet, IntArray]:
    """The time that each set of buckets covers on every place, overlaps counted once.

    Sorting the rows is what costs; sets that share no bucket are measured in one go.
    """
    layers: list[dict[int, int]] = []
    members: list[list[BucketSet]] = []
    for buckets in dict.fromkeys(wanted):
        free = next((i for i, layer in enumerate(layers) if not any(bucket in layer for bucket in buckets)), None)
        if free is None:
            layers.append({})
            members.append([])
            free = len(layers) - 1
        layers[free].update(dict.fromkeys(buckets, len(members[free])))
        members[free].append(buckets)
    places = len(booked.places)
    found: dict[BucketSet, IntArray] = {}
    for layer, sets in zip(layers, members, strict=True):
        group_of = np.full(len(booked.buckets), -1, dtype=np.int64)
        group_of[list(layer)] = list(layer.values())
        group = group_of[booked.bucket] if len(group_of) else booked.bucket
        is_in = group >= 0
        codes = group[is_in] * places + booked.place[is_in]
        lengths = union_length_by(booked.start_ns[is_in], booked.end_ns[is_in], codes, len(sets) * places)
        found.update(zip(sets, lengths.reshape(len(sets), places), strict=True))
    return found


def ledger_sets(booked: BookedRows) -> list[BucketSet]:
    """The buckets that share a line of LEDGER: those that differ in their gradient only."""
    keys = list(dict.fromkeys(key[:3] for key in booked.buckets))
    return [frozenset(i for i, key in enumerate(booked.buckets) if key[:3] == line) for line in keys]


def build_ledger(
    booked: BookedRows, sums: BucketSums | None = None, unions: Mapping[BucketSet, IntArray] | None = None
) -> pd.DataFrame:
    """LEDGER of the rows; buckets that a device and step has no row of are left out.

    Args:
        sums, unions: where they were measured already; None: they are measured here.
    """
    sets = ledger_sets(booked)
    sums = sum_buckets(booked) if sums is None else sums
    unions = unite_buckets(booked, sets) if unions is None else unions
    shape = len(sets), len(booked.places)

    def together(values: IntArray) -> IntArray:
        return np.array([values[list(buckets)].sum(axis=0) for buckets in sets], dtype=np.int64).reshape(shape)

    sum_ns, mixed_ns, inferred_ns = together(sums.sum_ns), together(sums.mixed_ns), together(sums.inferred_ns)
    rows_count = together(sums.rows_count)
    union_ns = np.array([unions[buckets] for buckets in sets], dtype=np.int64).reshape(shape)
    bucket, place = np.nonzero(rows_count)
    places = [booked.places[i] for i in place]
    names = [booked.buckets[min(sets[i])] for i in bucket]
    steps = [each.step_index for each in places]
    inferred = inferred_ns[bucket, place]
    evidence = [(Evidence.INFERRED if ns else Evidence.MEASURED).value for ns in inferred.tolist()]
    frame = pd.DataFrame(
        {
            "run": labels_column([each.run for each in places]),
            "device": labels_column([each.device for each in places]),
            "step_index": nullable_steps(steps),
            **{name: labels_column([each[i] for each in names]) for i, name in enumerate(BUCKET)},
            "sum_ns": sum_ns[bucket, place],
            "union_ns": union_ns[bucket, place],
            "mixed_ns": mixed_ns[bucket, place],
            "inferred_ns": inferred,
            "rows_count": rows_count[bucket, place],
            "evidence": labels_column(evidence),
        }
    )
    frame = frame.sort_values(list(LEDGER.sort), ignore_index=True)
    return require_frame(frame, LEDGER)


def nullable_steps(values: Sequence[int | None]) -> pd.api.extensions.ExtensionArray:
    """Numbers of steps; missing where there is none."""
    is_missing = np.array([value is None for value in values], dtype=np.bool_)
    return nullable_int64(np.array([value or 0 for value in values], dtype=np.int64), is_missing)
