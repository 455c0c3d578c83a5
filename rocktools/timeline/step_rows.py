"""What steps are found from, and what they are used for: the rows of a device timeline, and the step of each row.

`step_rows` makes the rows from DISPATCHES (of either kind of trace) and, where kernels are linked, DISPATCH_EDGES. A
row belongs to the step in whose window it starts. Which windows are steps is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.frames import DISPATCHES, nullable_int64
from rocktools.timeline.activities import require_columns
from rocktools.timeline.devices import index_devices
from rocktools.timeline.grouping import IntArray, codes_of, match_rows

STEP_ROW_COLUMNS = ("run", "process", "device", "kernel_name", "start_ns", "end_ns")
"""What rows must have for steps to be found."""

OPTIONAL_STEP_ROW_COLUMNS = ("stream_id", "host_call_id", "range", "program_id", "instruction", "execution_index")
"""What helps: how rows were launched, and the instruction and execution of the program that each belongs to."""

_FROM_DISPATCHES = ("run", "process", "kernel_name", "start_ns", "end_ns", "stream_id", "host_call_id", "range")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepSources:
    """Everything that may tell where steps begin and end; None where it was not recorded.

    Attributes:
        rows: of the device timeline: `STEP_ROW_COLUMNS`, and what is known of `OPTIONAL_STEP_ROW_COLUMNS`.
        launches: LAUNCHES.
        host_events: HOST_EVENTS of a JAX profile.
        ranges: RANGES.
    """

    rows: pd.DataFrame
    launches: pd.DataFrame | None = None
    host_events: pd.DataFrame | None = None
    ranges: pd.DataFrame | None = None


def step_rows(dispatches: pd.DataFrame, agents: pd.DataFrame, edges: pd.DataFrame | None = None) -> pd.DataFrame:
    """The rows that `find_steps` reads.

    Args:
        dispatches: DISPATCHES, of a rocpd trace or made from a JAX profile.
        agents: AGENTS.
        edges: DISPATCH_EDGES; None: kernels are not linked.
    """
    require_columns(dispatches, ("agent_id", *_FROM_DISPATCHES))
    values: dict[str, Any] = {name: dispatches[name].array for name in _FROM_DISPATCHES}
    values["device"] = index_devices(dispatches, agents).as_column()
    if edges is not None:
        at = match_rows(dispatches, edges, DISPATCHES.key)
        for name in ("program_id", "instruction", "execution_index"):
            values[name] = edges[name].array.take(at, allow_fill=True)
    return pd.DataFrame(values)


def assign_steps(rows: pd.DataFrame, steps: pd.DataFrame) -> pd.api.extensions.ExtensionArray:
    """The step of each row: the last window of its device that begins at or before its start, if the row starts in it.

    Args:
        rows: at least run, device, start_ns.
        steps: STEPS, or the steps of it that count.

    Returns:
        An `Int64` array of step_index, missing for rows outside of every step.
    """
    found, is_missing = np.zeros(len(rows), np.int64), np.ones(len(rows), np.bool_)
    at = windows_of_rows(rows, steps)
    inside = at >= 0
    found[inside] = steps["step_index"].to_numpy()[at[inside]]
    is_missing[inside] = False
    return nullable_int64(found, is_missing)


def windows_of_rows(rows: pd.DataFrame, windows: pd.DataFrame, owner: str = "device") -> IntArray:
    """Position in `windows` of the window each row starts in; -1 outside of all.

    Args:
        rows: at least run, `owner`, start_ns.
        windows: at least run, `owner`, start_ns, end_ns.
        owner: column whose value a row and its window share.
    """
    found = np.full(len(rows), -1, dtype=np.int64)
    if len(windows) == 0 or len(rows) == 0:
        return found
    owners = windows[["run", owner]].drop_duplicates(ignore_index=True)
    of_row, of_window = match_rows(rows, owners, ("run", owner)), match_rows(windows, owners, ("run", owner))
    starts = rows["start_ns"].to_numpy()
    for number in range(len(owners)):
        mine = np.flatnonzero(of_row == number)
        own = np.flatnonzero(of_window == number)
        found[mine] = _containing(starts[mine], windows.iloc[own], own)
    return found


def _containing(starts: IntArray, windows: pd.DataFrame, positions: npt.NDArray[np.intp]) -> IntArray:
    begins, ends = windows["start_ns"].to_numpy(), windows["end_ns"].to_numpy()
    order = np.argsort(begins, kind="stable")
    last = np.searchsorted(begins[order], starts, side="right") - 1
    window = order[np.maximum(last, 0)]
    return np.where((last >= 0) & (starts < ends[window]), positions[window], -1)


def device_order(rows: pd.DataFrame) -> npt.NDArray[np.intp]:
    """What brings rows into the order of run, device and start."""
    return np.lexsort((rows["start_ns"].to_numpy(), codes_of(rows["device"]), codes_of(rows["run"])))
