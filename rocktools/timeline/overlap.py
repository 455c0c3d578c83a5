"""Rows of a device timeline -> per device and step: how long each class of work was active, alone and together.

Everything is an exact integer, made from one table: how long exactly this set of classes was active. Two conventions
say whom the time belongs to in which two classes ran at once; both divide the same busy time, and both are given by
name. `compute_first` is what "exposed communication" means in most reports: what compute does not cover.
`communication_first` is what a report means whose compute is "what communication does not cover". A copy is exposed
where neither of the others runs, in both.

    busy = compute + exposed communication + exposed copy          (compute_first)
    busy = communication + exposed compute + exposed copy          (communication_first)
    communication = hidden + exposed        span = busy + idle

Devices are never merged: one busy device would hide the waiting of all others. A row belongs to the step in which it
starts, with all of its time. Phases, components and kernels are not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.intervals import ArrayLike, mask_lengths_by
from rocktools.timeline.activities import (
    ACTIVITIES,
    Activity,
    activity_labels,
    labels_column,
    require_columns,
    time_rows,
)
from rocktools.timeline.grouping import IntArray


class Convention(str, Enum):
    """Whom the time is booked to in which two classes of work ran at once."""

    COMPUTE_FIRST = "compute_first"
    COMMUNICATION_FIRST = "communication_first"

    def __str__(self) -> str:
        return self.value


ROW_COLUMNS = ("run", "device", "start_ns", "end_ns", "activity", "step_index")
"""The columns of ATTRIBUTED that `reconcile` reads."""

_RUN = Column("run", "category", "label of the run")
_DEVICE = Column("device", "category", "label of the device, as in AGENTS")
_STEP = Column("step_index", "Int64", "step, as in STEPS", "the whole trace is one row")
_KEY = (_RUN, _DEVICE, _STEP)
_NO_WINDOW = "the whole trace, or STEPS has no such step"

_LENGTHS = (
    Column("compute_ns", "int64", "time in which a compute kernel ran, overlaps counted once"),
    Column("communication_ns", "int64", "time in which a communication kernel ran, overlaps counted once"),
    Column("copy_ns", "int64", "time in which a copy ran, overlaps counted once"),
    Column("hidden_communication_ns", "int64", "part of `communication_ns` under compute: their intersection"),
    Column("exposed_communication_ns", "int64", "part of `communication_ns` without compute (compute_first)"),
    Column("exposed_compute_ns", "int64", "part of `compute_ns` without communication (communication_first)"),
    Column("hidden_copy_ns", "int64", "part of `copy_ns` under compute or communication"),
    Column("exposed_copy_ns", "int64", "part of `copy_ns` without either (both conventions)"),
    Column("all_three_ns", "int64", "time in which compute, communication and copy ran at once"),
    Column("busy_ns", "int64", "time in which anything ran"),
    Column("idle_ns", "int64", "`span_ns` without `busy_ns`"),
    Column("span_ns", "int64", "from the first start to the last end"),
)

RECONCILIATION = FrameSpec(
    name="RECONCILIATION",
    meaning="One row per device and step: unions, intersections and what they leave, in integers that add up exactly.",
    key=("run", "device", "step_index"),
    sort=("run", "step_index", "device"),
    columns=(
        *_KEY,
        Column("rows_count", "int64", "kernels and copies that start in the step"),
        Column("start_ns", "int64", "first start among them, trace clock"),
        Column("compute_sum_ns", "int64", "durations of compute kernels added up"),
        Column("communication_sum_ns", "int64", "durations of communication kernels added up"),
        Column("copy_sum_ns", "int64", "durations of copies added up"),
        *_LENGTHS,
        Column("step_ns", "Int64", "length of the step's window", _NO_WINDOW),
        Column(
            "distance_ns",
            "Int64",
            "`span_ns` minus `step_ns`: negative where the window begins before the first row or ends after the last",
            _NO_WINDOW,
        ),
    ),
)

BUSY_TIME = FrameSpec(
    name="BUSY_TIME",
    meaning="One row per device, step and convention: the span divided into parts that do not overlap.",
    key=("run", "device", "step_index", "convention"),
    sort=("run", "step_index", "device", "convention"),
    columns=(
        *_KEY,
        Column("convention", "category", "`compute_first` or `communication_first`: whom shared time belongs to"),
        Column("compute_ns", "int64", "time booked to compute"),
        Column("communication_ns", "int64", "time booked to communication"),
        Column("copy_ns", "int64", "time booked to copies"),
        Column("idle_ns", "int64", "time in which nothing ran"),
        Column("span_ns", "int64", "the four together"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reconciliation:
    """What ran together with what.

    Attributes:
        frame: RECONCILIATION.
        findings: doubts about the rows.
        evidence: of every value but `step_ns`, which has that of its step.
    """

    frame: pd.DataFrame
    findings: tuple[Finding, ...]
    evidence: Evidence = Evidence.MEASURED


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OverlapLengths:
    """Exact lengths per group, in the unit of the intervals; the attributes are the columns of RECONCILIATION."""

    compute: IntArray
    communication: IntArray
    copy: IntArray
    hidden_communication: IntArray
    exposed_communication: IntArray
    exposed_compute: IntArray
    hidden_copy: IntArray
    exposed_copy: IntArray
    all_three: IntArray
    busy: IntArray


def overlap_lengths(
    start: ArrayLike, end: ArrayLike, labels: ArrayLike, codes: ArrayLike, groups_count: int
) -> OverlapLengths:
    """What ran together with what in each group.

    Args:
        start, end: integer arrays of equal length, in any order and one unit.
        labels: class of each interval, its position in `ACTIVITIES`.
        codes: group of each interval, 0..groups_count-1.
        groups_count: length of every result.

    Raises:
        ContractError: an interval ends before it starts, or a label or code is out of range.
    """
    by_mask = mask_lengths_by(start, end, labels, codes, labels_count=len(ACTIVITIES), groups_count=groups_count)
    compute, communication, copy = (ACTIVITIES.index(activity) for activity in Activity)

    def together(
        *, with_any: Sequence[int] = (), with_all: Sequence[int] = (), without: Sequence[int] = ()
    ) -> IntArray:
        wanted = [
            mask
            for mask in range(1, by_mask.shape[1])
            if all(mask >> label & 1 for label in with_all)
            and not any(mask >> label & 1 for label in without)
            and (not with_any or any(mask >> label & 1 for label in with_any))
        ]
        lengths: IntArray = by_mask[:, wanted].sum(axis=1)
        return lengths

    return OverlapLengths(
        compute=together(with_all=[compute]),
        communication=together(with_all=[communication]),
        copy=together(with_all=[copy]),
        hidden_communication=together(with_all=[compute, communication]),
        exposed_communication=together(with_all=[communication], without=[compute]),
        exposed_compute=together(with_all=[compute], without=[communication]),
        hidden_copy=together(with_all=[copy], with_any=[compute, communication]),
        exposed_copy=together(with_all=[copy], without=[compute, communication]),
        all_three=together(with_all=[compute, communication, copy]),
        busy=together(),
    )


def reconcile(rows: pd.DataFrame, steps: pd.DataFrame | None = None, *, is_by_step: bool = True) -> Reconciliation:
    """RECONCILIATION of each device and step, or of each device over the whole trace.

    Args:
        rows: ATTRIBUTED, at least `ROW_COLUMNS` (without step_index where the whole trace is asked for).
        steps: STEPS, whose windows are compared with what ran in them; None: they are not known.
        is_by_step: False for one row per device with everything in the trace. By step, rows outside of every step are
            left out.

    Raises:
        ContractError: a column is missing, or a row is in no class.
    """
    by = ("run", "device", "step_index") if is_by_step else ("run", "device")
    require_columns(rows, (*by, "activity"))
    timed = time_rows(rows, by, is_wanted=rows["step_index"].notna().to_numpy() if is_by_step else None)
    count = len(timed.groups)
    if count == 0:
        return Reconciliation(frame=RECONCILIATION.empty(), findings=timed.findings)
    labels, group = activity_labels(rows["activity"])[timed.kept], timed.groups.of
    lengths = overlap_lengths(timed.start_ns, timed.end_ns, labels, group, count)
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, group, timed.start_ns)
    np.maximum.at(last, group, timed.end_ns)
    span = last - first
    flat = np.zeros(count * len(ACTIVITIES), dtype=np.int64)  # numpy adds at two indices far more slowly
    np.add.at(flat, group * len(ACTIVITIES) + labels, timed.end_ns - timed.start_ns)
    sums = flat.reshape(count, len(ACTIVITIES))
    examples = rows.iloc[timed.kept[timed.groups.example]]
    no_step = nullable_int64(np.zeros(count, np.int64), np.ones(count, np.bool_))
    values: dict[str, Any] = {
        "run": labels_column(examples["run"]),
        "device": labels_column(examples["device"]),
        "step_index": pd.array(examples["step_index"].to_numpy(dtype=np.int64), dtype="Int64")
        if is_by_step
        else no_step,
        "rows_count": np.bincount(group, minlength=count).astype(np.int64),
        "start_ns": first,
        **{f"{activity}_sum_ns": sums[:, label] for label, activity in enumerate(ACTIVITIES)},
        **{f"{name}_ns": getattr(lengths, name) for name in OverlapLengths.__dataclass_fields__},
        "idle_ns": span - lengths.busy,
        "span_ns": span,
    }
    frame = pd.DataFrame({name: values[name] for name in RECONCILIATION.names if name in values})
    frame = _with_windows(frame, steps if is_by_step else None)
    frame = frame.sort_values(list(RECONCILIATION.sort), ignore_index=True)
    return Reconciliation(frame=require_frame(frame, RECONCILIATION), findings=timed.findings)


def divide_busy_time(reconciliation: pd.DataFrame) -> pd.DataFrame:
    """BUSY_TIME: the span of each row of RECONCILIATION, divided by both conventions."""
    parts = {
        Convention.COMPUTE_FIRST: ("compute_ns", "exposed_communication_ns"),
        Convention.COMMUNICATION_FIRST: ("exposed_compute_ns", "communication_ns"),
    }
    tables = [
        pd.DataFrame(
            {
                **{name: reconciliation[name] for name in ("run", "device", "step_index")},
                "convention": pd.Categorical(
                    [convention.value] * len(reconciliation), categories=sorted(member.value for member in Convention)
                ),
                "compute_ns": reconciliation[compute],
                "communication_ns": reconciliation[communication],
                "copy_ns": reconciliation["exposed_copy_ns"],
                "idle_ns": reconciliation["idle_ns"],
                "span_ns": reconciliation["span_ns"],
            }
        )
        for convention, (compute, communication) in parts.items()
    ]
    frame = pd.concat(tables, ignore_index=True).sort_values(list(BUSY_TIME.sort), ignore_index=True)
    return require_frame(frame, BUSY_TIME)


def _with_windows(frame: pd.DataFrame, steps: pd.DataFrame | None) -> pd.DataFrame:
    """The frame with the length of each step's window, and by how much the span misses it."""
    window = np.zeros(len(frame), dtype=np.int64)
    is_missing = np.ones(len(frame), dtype=np.bool_)
    if steps is not None:
        lengths = (steps["end_ns"] - steps["start_ns"]).to_numpy()
        keys = zip(steps["run"].astype(str), steps["device"].astype(str), steps["step_index"], strict=True)
        known = dict(zip(keys, lengths.tolist(), strict=True))
        keys = zip(frame["run"].astype(str), frame["device"].astype(str), frame["step_index"], strict=True)
        for row, key in enumerate(keys):
            if key in known:
                window[row], is_missing[row] = known[key], False
    distance = np.where(is_missing, 0, frame["span_ns"].to_numpy() - window)
    return frame.assign(step_ns=nullable_int64(window, is_missing), distance_ns=nullable_int64(distance, is_missing))
