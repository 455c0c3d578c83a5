"""Rows of a device timeline and the calls that launched them -> the times in which a device did nothing, and why.

A gap is idle time of a whole device: no row of any class on any stream. The row that ends it is often not the work that
was waited for, but a tiny one in front of it (an iota, a fill); so a gap has a marker, the row that ends it where it is
like that, and a payload, the first row behind it that is not, before the next gap.

Causes, by the call that launched the row that ends the gap:

    host_wait    the call began after the device had run dry: the host was late
    kernel_wait  the call began before: the row was there and waited, for another stream, a device, or the queue
    unknown      no call is recorded for the row, or its call began after the row did (clocks that do not fit)

A graph launch counts as the call of all its rows. Nothing here knows phases or components.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.timeline.activities import (
    Names,
    labels_column,
    labels_from_codes,
    operation_names,
    require_columns,
    time_rows,
)
from rocktools.timeline.grouping import IntArray
from rocktools.timeline.launches import LaunchTimes, find_launch_times

BoolArray = npt.NDArray[np.bool_]


class GapCause(str, Enum):
    """Why a device was idle."""

    HOST_WAIT = "host_wait"
    KERNEL_WAIT = "kernel_wait"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


_TINY = "iota|broadcast|constant|bitcast|get-tuple-element|parameter|tuple|after-all|copy-start|copy-done|fill|memset"
MARKER = re.compile(
    rf"(?i)^(?:wrapped_|loop_|input_)?(?:{_TINY})(?:_(?:{_TINY}))*(?:_fusion)?(?:[._][0-9]+)*$|fillBuffer|memset"
)
"""Names of rows that may end a gap without being what was waited for."""

MARKER_LONGEST_NS = 20_000
"""A row that takes longer is no marker, whatever its name: a broadcast may be real work."""

LOOK_AHEAD_COUNT = 8
"""Rows behind a gap among which its payload is looked for."""

ROW_COLUMNS = ("run", "process", "device", "name", "instruction", "start_ns", "end_ns", "step_index")
"""The columns of ATTRIBUTED that `find_gaps` reads, beside host_call_id."""

_GAP_KEY = (
    Column("run", "category", "label of the run"),
    Column("device", "category", "label of the device, as in AGENTS"),
)
_STEP = Column("step_index", "Int64", "step of the row that ends the gap", "that row is outside of every step")
_WHERE = Column(
    "is_between_steps", "bool", "whether the last row before the gap is in another step than the one that ends it"
)
_CAUSE = Column("cause", "category", "`host_wait`, `kernel_wait` or `unknown`")

GAPS = FrameSpec(
    name="GAPS",
    meaning="One row per time in which a device did nothing, from the end of all before it to the next start.",
    key=("run", "device", "start_ns"),
    sort=("run", "device", "start_ns"),
    columns=(
        *_GAP_KEY,
        _STEP,
        Column("start_ns", "int64", "end of the last row before it, trace clock"),
        Column("end_ns", "int64", "start of the first row behind it, trace clock"),
        Column("duration_ns", "int64", "how long nothing ran"),
        _WHERE,
        _CAUSE,
        Column(
            "launch_lead_ns",
            "Int64",
            "how long before the gap ended the call began that launched the row behind it",
            "no call is recorded for the row",
        ),
        Column("previous_name", "category", "instruction, or else kernel, that ran last before the gap"),
        Column(
            "marker_name",
            "category",
            "instruction or kernel that ends the gap, where it is a tiny one in front of the payload",
            "the row that ends the gap is the payload itself",
        ),
        Column(
            "payload_name",
            "category",
            "instruction or kernel with which useful work begins",
            f"only markers ran before the next gap, or among the next {LOOK_AHEAD_COUNT} rows",
        ),
    ),
)

GAP_TOTALS = FrameSpec(
    name="GAP_TOTALS",
    meaning="One row per device, step, place and cause: idle time added up. Gaps do not overlap, so sums are exact.",
    key=("run", "device", "step_index", "is_between_steps", "cause"),
    sort=("run", "device", "step_index", "is_between_steps", "cause"),
    columns=(
        *_GAP_KEY,
        _STEP,
        _WHERE,
        _CAUSE,
        Column("gaps_count", "int64", "gaps"),
        Column("total_ns", "int64", "their durations added up"),
        Column("longest_ns", "int64", "the longest of them"),
    ),
)

GAPS_BEFORE = FrameSpec(
    name="GAPS_BEFORE",
    meaning="One row per payload, marker and cause: the idle time before it, added up over steps and devices.",
    key=("run", "payload_name", "marker_name", "cause"),
    sort=("total_ns", "run", "payload_name", "marker_name", "cause"),
    columns=(
        _GAP_KEY[0],
        *(GAPS.column(name) for name in ("payload_name", "marker_name", "cause")),
        Column("gaps_count", "int64", "gaps"),
        Column("total_ns", "int64", "their durations added up, over all devices"),
        Column("mean_ns", "float64", "mean duration"),
        Column("longest_ns", "int64", "the longest of them"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gaps:
    """The gaps and doubts about them: `frame` is GAPS."""

    frame: pd.DataFrame
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ordered:
    """Rows that take time, in the order of device and start.

    Attributes:
        position: of each in the frame.
        start_ns, end_ns, device: of each.
        last: place of the row that ends last among it and all before it on its device.
        ends_gap: whether its device was idle before it; of several that start at once, the first one ends the gap.
    """

    position: npt.NDArray[np.intp]
    start_ns: IntArray
    end_ns: IntArray
    device: IntArray
    last: npt.NDArray[np.intp]
    ends_gap: BoolArray


def find_gaps(rows: pd.DataFrame, launches: pd.DataFrame | None = None, *, at_least_ns: int = 1) -> Gaps:
    """GAPS of each device over the whole trace.

    Args:
        rows: ATTRIBUTED, at least `ROW_COLUMNS`; with a column host_call_id where calls were recorded.
        launches: LAUNCHES; None: no host calls were recorded.
        at_least_ns: shortest gap to list.

    Raises:
        ContractError: a column is missing.
    """
    require_columns(rows, ROW_COLUMNS)
    takes_time = (rows["end_ns"] != rows["start_ns"]).to_numpy()
    timed = time_rows(rows, ("run", "device"), is_wanted=takes_time)
    if timed.kept.size == 0:
        return Gaps(frame=GAPS.empty(), findings=timed.findings)
    ordered = _order(timed.start_ns, timed.end_ns, timed.groups.of, timed.kept)
    at = np.flatnonzero(ordered.ends_gap)
    before = ordered.last[at - 1]
    long_enough = ordered.start_ns[at] - ordered.end_ns[before] >= at_least_ns
    at, before = at[long_enough], before[long_enough]
    start_ns, end_ns = ordered.end_ns[before], ordered.start_ns[at]
    behind = rows.iloc[ordered.position[at]]
    launched = find_launch_times(behind, launches)
    cause, is_odd = _causes(start_ns, end_ns, launched)
    step, step_before = (_steps(rows, ordered.position[places]) for places in (at, before))
    names = operation_names(rows)
    marker, payload = _first_work(rows, ordered, at, names)
    lead_ns = np.where(launched.is_known, end_ns - launched.start_ns, 0)
    values: dict[str, Any] = {
        "run": labels_column(behind["run"]),
        "device": labels_column(behind["device"]),
        "step_index": nullable_int64(np.maximum(step, 0), step < 0),
        "start_ns": start_ns,
        "end_ns": end_ns,
        "duration_ns": end_ns - start_ns,
        "is_between_steps": step != step_before,
        "cause": labels_from_codes(cause, [member.value for member in GapCause]),
        "launch_lead_ns": nullable_int64(lead_ns, ~launched.is_known),
        "previous_name": labels_from_codes(names.codes[ordered.position[before]], names.texts),
        "marker_name": labels_from_codes(marker, names.texts),
        "payload_name": labels_from_codes(payload, names.texts),
    }
    frame = pd.DataFrame({name: values[name] for name in GAPS.names}).sort_values(list(GAPS.sort), ignore_index=True)
    return Gaps(frame=require_frame(frame, GAPS), findings=(*timed.findings, *_clock_findings(is_odd)))


def total_gaps(gaps: pd.DataFrame) -> pd.DataFrame:
    """GAP_TOTALS of GAPS. Within steps that do not overlap, what is not between steps is the idle time of the step."""
    keys = list(GAP_TOTALS.key)
    if gaps.empty:
        return GAP_TOTALS.empty()
    grouped = gaps.groupby(keys, observed=True, dropna=False)["duration_ns"]
    totals = grouped.agg(gaps_count="size", total_ns="sum", longest_ns="max").reset_index()
    totals = totals.astype({"step_index": "Int64", **dict.fromkeys(("gaps_count", "total_ns", "longest_ns"), "int64")})
    totals = totals.sort_values(list(GAP_TOTALS.sort), ignore_index=True)
    return require_frame(totals[list(GAP_TOTALS.names)], GAP_TOTALS)


def gaps_before(gaps: pd.DataFrame) -> pd.DataFrame:
    """GAPS_BEFORE of GAPS, the largest total first."""
    if gaps.empty:
        return GAPS_BEFORE.empty()
    grouped = gaps.groupby(list(GAPS_BEFORE.key), observed=True, dropna=False)["duration_ns"]
    totals = grouped.agg(gaps_count="size", total_ns="sum", mean_ns="mean", longest_ns="max").reset_index()
    totals = totals.astype({"mean_ns": "float64", **dict.fromkeys(("gaps_count", "total_ns", "longest_ns"), "int64")})
    ascending = [name != "total_ns" for name in GAPS_BEFORE.sort]
    totals = totals.sort_values(list(GAPS_BEFORE.sort), ascending=ascending, ignore_index=True)
    return require_frame(totals[list(GAPS_BEFORE.names)], GAPS_BEFORE)


def _order(start_ns: IntArray, end_ns: IntArray, device: IntArray, kept: npt.NDArray[np.intp]) -> _Ordered:
    order = np.lexsort((start_ns, device))
    start_ns, end_ns, device = start_ns[order], end_ns[order], device[order]
    last = np.zeros(start_ns.size, dtype=np.intp)
    edges = [0, *(np.flatnonzero(device[1:] != device[:-1]) + 1).tolist(), device.size]
    for begin, end in itertools.pairwise(edges):
        reach = np.maximum.accumulate(end_ns[begin:end])
        is_last = end_ns[begin:end] == reach
        last[begin:end] = begin + np.maximum.accumulate(np.where(is_last, np.arange(end - begin), 0))
    ends_gap = np.append(False, start_ns[1:] > end_ns[last[:-1]])
    ends_gap[edges[:-1]] = False
    return _Ordered(position=kept[order], start_ns=start_ns, end_ns=end_ns, device=device, last=last, ends_gap=ends_gap)


def _causes(start_ns: IntArray, end_ns: IntArray, launched: LaunchTimes) -> tuple[IntArray, BoolArray]:
    """Position in `GapCause` of each gap's cause, and which calls began after the row that they launched."""
    host_wait, kernel_wait, unknown = range(len(GapCause))
    is_odd = launched.is_known & (launched.start_ns > end_ns)
    cause = np.where(launched.start_ns >= start_ns, host_wait, kernel_wait)
    return np.where(launched.is_known & ~is_odd, cause, unknown).astype(np.int64), is_odd


def _first_work(
    rows: pd.DataFrame, ordered: _Ordered, at: npt.NDArray[np.intp], names: Names
) -> tuple[IntArray, IntArray]:
    """Codes of the marker (-1: none) and of the payload (-1: none found) behind each gap."""
    is_tiny = np.array([MARKER.search(text) is not None for text in names.texts], dtype=np.bool_)
    codes = names.codes[ordered.position]
    is_marker = is_tiny[codes] & (ordered.end_ns - ordered.start_ns <= MARKER_LONGEST_NS)
    work = np.flatnonzero(~is_marker)
    begins = ordered.ends_gap | np.append(True, ordered.device[1:] != ordered.device[:-1])
    limits = np.append(np.flatnonzero(begins), begins.size)
    stop = np.minimum(limits[np.searchsorted(limits, at, side="right")], at + LOOK_AHEAD_COUNT)
    found = np.append(work, begins.size)[np.searchsorted(work, at)]
    payload = np.where(found < stop, codes[np.minimum(found, begins.size - 1)], -1)
    return np.where(is_marker[at], codes[at], -1), payload


def _steps(rows: pd.DataFrame, positions: npt.NDArray[np.intp]) -> IntArray:
    """The step of each row, -1 outside of all."""
    steps: IntArray = rows["step_index"].iloc[positions].fillna(-1).to_numpy(dtype=np.int64)
    return steps


def _clock_findings(is_odd: BoolArray) -> tuple[Finding, ...]:
    count = int(is_odd.sum())
    if count == 0:
        return ()
    return (
        Finding(
            rule="launch-after-start",
            severity=Severity.WARNING,
            where="device timeline",
            message=f"{count} rows behind a gap started before the call began that is said to have launched them: the "
            "clocks of host and device do not fit, and the cause of these gaps is unknown",
            numbers={"odd_gaps_count": count, "gaps_count": int(is_odd.size)},
        ),
    )
