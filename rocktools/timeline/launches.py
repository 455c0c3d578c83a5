"""Host calls of either kind of trace -> the calls that may have launched device work, and the call of each row.

A rocpd trace has them in HOST_CALLS, a JAX profile in HOST_EVENTS with a correlation id; a dispatch names its call in
`host_call_id` in both. Nothing here knows what a launch is used for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.frames import HOST_CALLS, Column, FrameSpec, require_frame
from rocktools.timeline.grouping import IntArray, match_rows

LAUNCHES = FrameSpec(
    name="LAUNCHES",
    meaning="One row per host call that a dispatch may name as the one that launched it.",
    key=("run", "process", "host_call_id"),
    sort=("run", "process", "start_ns", "host_call_id"),
    columns=(
        *HOST_CALLS.columns[:3],
        Column("name", "category", "function name"),
        Column("start_ns", "int64", "entry, trace clock"),
        Column("end_ns", "int64", "return, trace clock"),
    ),
)

CALL_KEY = ("run", "process", "host_call_id")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaunchTimes:
    """When each row was launched.

    Attributes:
        start_ns: entry of the call; 0 where it is not known.
        is_known: whether the call is recorded.
    """

    start_ns: IntArray
    is_known: npt.NDArray[np.bool_]


def launches_of_calls(host_calls: pd.DataFrame) -> pd.DataFrame:
    """LAUNCHES from HOST_CALLS of a rocpd trace: all of them, since a dispatch names the one that launched it."""
    return _require(host_calls[list(LAUNCHES.names)])


def launches_of_profile(host_events: pd.DataFrame) -> pd.DataFrame:
    """LAUNCHES from HOST_EVENTS of a JAX profile: those with a correlation id; the host stands for its process.

    One id may be on several events of a host, nested in one another; the first to begin is the call.
    """
    calls = host_events[host_events["correlation_id"].notna().to_numpy()]
    calls = calls.sort_values("start_ns", kind="stable")
    frame = pd.DataFrame(
        {
            "run": calls["run"].array,
            "process": calls["host"].array,
            "host_call_id": calls["correlation_id"].to_numpy(dtype=np.int64),
            "name": calls["event_name"].array,
            "start_ns": calls["start_ns"].to_numpy(),
            "end_ns": calls["end_ns"].to_numpy(),
        }
    )
    return _require(frame.drop_duplicates(list(CALL_KEY)))


def find_launch_times(rows: pd.DataFrame, launches: pd.DataFrame | None) -> LaunchTimes:
    """When each row was launched, where that is recorded.

    Args:
        rows: at least run, process, host_call_id.
        launches: LAUNCHES, or None where no host calls were recorded.
    """
    if launches is None or launches.empty or "host_call_id" not in rows.columns:
        return LaunchTimes(start_ns=np.zeros(len(rows), np.int64), is_known=np.zeros(len(rows), np.bool_))
    at = match_rows(rows, launches, CALL_KEY)
    return LaunchTimes(start_ns=np.where(at < 0, 0, launches["start_ns"].to_numpy()[at]), is_known=at >= 0)


def _require(frame: pd.DataFrame) -> pd.DataFrame:
    by_label = frame.assign(**{name: _by_label(frame[name]) for name in ("run", "process")})
    return require_frame(by_label.sort_values(list(LAUNCHES.sort), ignore_index=True), LAUNCHES)


def _by_label(column: pd.Series) -> pd.Series:
    return column.cat.set_categories(sorted(column.cat.categories))
