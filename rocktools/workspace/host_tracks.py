"""Host calls, ranges and profiler events -> tracks of each process; which call launched what.

An arrow has a number; the call that it leaves and the dispatch at which it arrives carry it.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.timeline.activities import labels_column
from rocktools.timeline.grouping import IntArray, match_rows
from rocktools.timeline.launches import CALL_KEY
from rocktools.timeline.tracks import SliceRows, TrackBuilder
from rocktools.workspace.workspace import Workspace

_EVENT_KEY = ("run", "host", "correlation_id")
_MARKS_NS = 1  # what has no length would not be seen


class HostCalls(str, Enum):
    """Which calls of the host are shown."""

    ALL = "all"
    LAUNCHES = "launches"
    NONE = "none"

    def __str__(self) -> str:
        return self.value


def number_flows(rows: pd.DataFrame) -> IntArray:
    """The arrow that arrives at each row: one for each call, at the first row that names it; 0 for none.

    Args:
        rows: run, process, host_call_id, start_ns.
    """
    flows = np.zeros(len(rows), dtype=np.int64)
    known = rows["host_call_id"].notna().to_numpy()
    order = np.flatnonzero(known)[np.argsort(rows["start_ns"].to_numpy()[known], kind="stable")]
    firsts = ~rows.iloc[order].duplicated(list(CALL_KEY)).to_numpy()
    flows[order[firsts]] = np.arange(1, int(firsts.sum()) + 1)
    return flows


def add_hosts(
    builder: TrackBuilder,
    workspace: Workspace,
    rows: pd.DataFrame,
    flows: IntArray,
    *,
    calls: HostCalls,
    window_ns: tuple[int, int] | None,
    prefix: str,
) -> None:
    """A group for each process, with its ranges, and its calls by thread.

    Args:
        rows: what ran on the devices, with `host_call_id`; flows: of `number_flows`.
        window_ns: only what overlaps it; None: everything.
        prefix: before the name of each group.
    """
    if calls is HostCalls.NONE:
        return
    launched = rows[flows > 0].reset_index(drop=True)
    arrows = flows[flows > 0]
    groups: dict[tuple[str, str], int] = {}
    titles = _titles(workspace.processes())
    for name, frame, key, lines in (
        ("ranges", workspace.ranges(), None, "thread_id"),
        ("calls", workspace.host_calls(), CALL_KEY, "thread_id"),
        ("host events", workspace.host_events(), _EVENT_KEY, "line"),
    ):
        kept = _within(frame, window_ns)
        out = _departures(kept, key, launched, arrows)
        if calls is HostCalls.LAUNCHES and key is not None:
            kept, out = kept[out > 0].reset_index(drop=True), out[out > 0]
        owner = "host" if "host" in kept.columns else "process"
        for (run, process), at in kept.groupby(["run", owner], observed=True, sort=True).indices.items():
            place = (str(run), str(process))
            if place not in groups:
                groups[place] = builder.add_track(f"{prefix}{titles.get(place, f'host {process}')}")
            _add_lines(builder, groups[place], name, kept.iloc[at], out[at], lines)


def _add_lines(builder: TrackBuilder, group: int, name: str, frame: pd.DataFrame, flows: IntArray, lines: str) -> None:
    for line, at in frame.groupby(lines, observed=True, sort=True, dropna=False).indices.items():
        picked = frame.iloc[at]
        ends = np.maximum(picked["end_ns"].to_numpy(dtype=np.int64), picked["start_ns"].to_numpy() + _MARKS_NS)
        event_name = "event_name" if "event_name" in picked.columns else "name"
        rows = SliceRows(
            category=name.replace(" ", "_"),
            names=labels_column(picked[event_name].astype(object).fillna("(no name)")),
            start_ns=picked["start_ns"].to_numpy(dtype=np.int64),
            end_ns=ends,
            flow_out=flows[at],
        )
        title = f"{name}, thread {line}" if lines == "thread_id" else f"{name}, {line}"
        builder.add_slices(title, group, rows, is_nested=True)


def _departures(frame: pd.DataFrame, key: tuple[str, ...] | None, launched: pd.DataFrame, arrows: IntArray) -> IntArray:
    """The arrow that leaves each row; 0 for none. Of events that share an id, the first to begin is the call."""
    out = np.zeros(len(frame), dtype=np.int64)
    if key is None or frame.empty or launched.empty:
        return out
    is_call: npt.NDArray[np.bool_] = frame[key[-1]].notna().to_numpy()
    order = np.flatnonzero(is_call)[np.argsort(frame["start_ns"].to_numpy()[is_call], kind="stable")]
    first = order[~frame.iloc[order].duplicated(list(key)).to_numpy()]
    keys = frame.iloc[first][list(key)].set_axis(list(CALL_KEY), axis=1).reset_index(drop=True)
    at = match_rows(keys, launched, CALL_KEY)
    out[first[at >= 0]] = arrows[at[at >= 0]]
    return out


def _within(frame: pd.DataFrame, window_ns: tuple[int, int] | None) -> pd.DataFrame:
    if window_ns is None:
        return frame.reset_index(drop=True)
    overlaps = (frame["end_ns"] > window_ns[0]) & (frame["start_ns"] < window_ns[1])
    return frame[overlaps.to_numpy()].reset_index(drop=True)


def _titles(processes: pd.DataFrame) -> dict[tuple[str, str], str]:
    """What each process is called: by host, rank and pid where they are known."""
    found = {}
    for row in processes.itertuples(index=False):
        words = [f"host {row.host}"] if isinstance(row.host, str) else ["host"]
        words += [] if pd.isna(row.rank) else [f"rank {row.rank}"]
        words += [] if pd.isna(row.pid) else [f"pid {row.pid}"]
        found[str(row.run), str(row.process)] = ", ".join(words)
    return found
