"""Booked rows -> tracks of each device: its steps, what it did instead of computing, its streams.

What is known of a dispatch goes with its slice. What counters and roofline say is of the kernel, not of this dispatch,
and stands under `counted.` and `roofline.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from rocktools.frames import DISPATCH_EDGES, DISPATCHES
from rocktools.intervals import gaps, sweep
from rocktools.timeline.activities import ACTIVITIES, Activity, activity_labels, labels_column, labels_from_codes
from rocktools.timeline.grouping import IntArray, match_rows
from rocktools.timeline.tracks import SliceRows, TrackBuilder

_EVENT_KEY = ("run", "process", "event_id")
_LABELS = ("instruction", "program_id", "scope", "phase", "component", "activity", "collective", "gradient", "rule")
_FLAGS = ("is_inferred", "is_mixed")
_GEOMETRY = (
    *("grid_workitems_x", "grid_workitems_y", "grid_workitems_z"),
    *("workgroup_workitems_x", "workgroup_workitems_y", "workgroup_workitems_z"),
    *("lds_bytes", "scratch_bytes", "vgpr_count", "agpr_count", "sgpr_count", "queue_id"),
)
_LINK = ("method", "confidence", "candidates_count")
_IDLE, _EXPOSED_COMMUNICATION, _EXPOSED_COPY = "idle", "exposed communication", "exposed copy"
_NOT_COMPUTING = [_IDLE, _EXPOSED_COMMUNICATION, _EXPOSED_COPY]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceRows:
    """What ran on devices, and what is known of it.

    Attributes:
        rows: of ATTRIBUTED, those that are shown.
        dispatches: DISPATCHES they are made of.
        edges: DISPATCH_EDGES of those.
        steps: STEPS.
        flows: number of the arrow that arrives at each row; 0 for none.
        kernel_facts: name of an argument -> its value for each row, of the row's kernel or instruction.
    """

    rows: pd.DataFrame
    dispatches: pd.DataFrame
    edges: pd.DataFrame
    steps: pd.DataFrame
    flows: IntArray
    kernel_facts: Mapping[str, pd.Series] = field(default_factory=dict)


def add_devices(builder: TrackBuilder, devices: DeviceRows, *, prefix: str) -> None:
    """A group for each device, in the order of their labels.

    Args:
        prefix: before the name of each group.
    """
    arguments = _arguments(devices)
    has_runs = devices.rows["run"].nunique() > 1
    places = devices.rows.groupby(["run", "device"], observed=True, sort=True).indices
    for (run, device), at in places.items():
        title = f"{prefix}device {device} of {run}" if has_runs else f"{prefix}device {device}"
        group = builder.add_track(title)
        is_here = (devices.steps["run"] == run) & (devices.steps["device"] == device)
        _add_steps(builder, group, devices.steps[is_here.to_numpy()])
        _add_not_computing(builder, group, devices.rows.iloc[at])
        _add_streams(builder, group, devices, arguments, np.asarray(at))


def _add_steps(builder: TrackBuilder, group: int, steps: pd.DataFrame) -> None:
    if steps.empty:
        return
    numbers = steps["step_number"].fillna(steps["step_index"])
    rows = SliceRows(
        category="step",
        names=labels_column([f"step {number}" for number in numbers]),
        start_ns=steps["start_ns"].to_numpy(dtype=np.int64),
        end_ns=steps["end_ns"].to_numpy(dtype=np.int64),
        arguments={name: steps[name] for name in ("step_index", "method", "is_complete", "is_warmup")},
    )
    builder.add_slices("steps", group, rows)


def _add_not_computing(builder: TrackBuilder, group: int, rows: pd.DataFrame) -> None:
    """Where no compute kernel ran, from the first start to the last end: why not."""
    start, end = (rows[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns"))
    segments = sweep(start, end, activity_labels(rows["activity"]))
    compute, communication, copy = (
        ACTIVITIES.index(each) for each in (Activity.COMPUTE, Activity.COMMUNICATION, Activity.COPY)
    )
    exposed = segments.where(all_of=[communication], none_of=[compute])
    copied = segments.where(all_of=[copy], none_of=[compute, communication])
    idle = gaps(start, end)
    starts = np.concatenate([idle.start, exposed.start, copied.start])
    ends = np.concatenate([idle.end, exposed.end, copied.end])
    codes = np.repeat(np.arange(3), [len(idle), len(exposed), len(copied)])
    names = labels_from_codes(codes, _NOT_COMPUTING)
    builder.add_slices(
        "not computing", group, SliceRows(category="not_computing", names=names, start_ns=starts, end_ns=ends)
    )


def _add_streams(
    builder: TrackBuilder, group: int, devices: DeviceRows, arguments: Mapping[str, pd.Series], at: IntArray
) -> None:
    """A track for each stream; without streams, for each queue."""
    rows = devices.rows
    stream = rows["stream_id"].iloc[at]
    queue = arguments["queue_id"].iloc[at]
    lines = np.where(
        stream.notna().to_numpy(),
        "stream " + stream.astype("string").fillna("").astype(object).to_numpy(),
        np.where(
            queue.notna().to_numpy(),
            "queue " + queue.astype("string").fillna("").astype(object).to_numpy(),
            "copies without a stream",
        ),
    )
    order = sorted(set(lines.tolist()), key=_numbered)
    for line in order:
        here = at[lines == line]
        picked = SliceRows(
            category="device",
            names=labels_column(rows["name"].iloc[here]),
            start_ns=rows["start_ns"].to_numpy(dtype=np.int64)[here],
            end_ns=rows["end_ns"].to_numpy(dtype=np.int64)[here],
            arguments={name: column.iloc[here] for name, column in arguments.items()},
            flow_in=devices.flows[here],
        )
        builder.add_slices(line, group, picked)


def _numbered(line: str) -> tuple[str, int, str]:
    word, _, number = line.partition(" ")
    return (word, int(number), "") if number.isdigit() else ("~", 0, line)


def _arguments(devices: DeviceRows) -> dict[str, pd.Series]:
    """What each row carries beside its name; all of equal length."""
    rows = devices.rows
    found: dict[str, pd.Series] = {name: rows[name] for name in (*_LABELS, *_FLAGS)}
    found["payload_bytes"] = rows["payload_bytes"]
    found["step_index"] = rows["step_index"]
    keys = rows[list(_EVENT_KEY)].rename(columns={"event_id": "dispatch_id"})
    is_dispatch = (rows["kind"] == "dispatch").to_numpy()
    for frame, key, names in (
        (devices.dispatches, DISPATCHES.key, _GEOMETRY),
        (devices.edges, DISPATCH_EDGES.key, _LINK),
    ):
        at = np.where(is_dispatch, match_rows(keys, frame, key), -1)
        for name in names:
            found[name] = _taken(frame[name], at)
    return {**found, **devices.kernel_facts}


def _taken(column: pd.Series, at: IntArray) -> pd.Series:
    """The values at these places; missing at -1."""
    if column.dtype == np.int64:
        column = column.astype("Int64")
    return pd.Series(column.array.take(at, allow_fill=True))
