"""DEVICE_EVENTS of a JAX profile -> DISPATCHES and AGENTS, so that one set of tables serves both kinds of trace.

A profile has no processes and no agents: a host stands for its process, the number in the name of a device plane for
the agent. Kernels only: copies and memory events are no dispatches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.frames import AGENTS, DISPATCHES, GRID, WORKGROUP, FrameSpec, nullable_int64

_SAME = ("run", "kernel_name", "raw_kernel_name", "start_ns", "end_ns", "stream_id", *GRID, *WORKGROUP)
_FIRST_OF_NUMBERLESS = 1_000_000
EVENT_COLUMNS = (
    *("run", "host", "device", "line", "event_index", "kind", "correlation_id"),
    *_SAME[1:],
    *("lds_bytes", "scratch_bytes"),
)
"""The columns of DEVICE_EVENTS that `dispatches_of_profile` reads."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProfileDispatches:
    """Kernels of a profile in the frames of a trace.

    Attributes:
        dispatches: DISPATCHES; `process` is the host, `dispatch_id` numbers the kernels of a host in order of start.
        agents: AGENTS; one for each device plane.
        event_rows: position in DEVICE_EVENTS of each row of `dispatches`.
    """

    dispatches: pd.DataFrame
    agents: pd.DataFrame
    event_rows: npt.NDArray[np.int64]


def dispatches_of_profile(events: pd.DataFrame, devices: pd.DataFrame) -> ProfileDispatches:
    """The kernels among the events.

    Args:
        events: DEVICE_EVENTS with `EVENT_COLUMNS`.
        devices: PROFILED_DEVICES.
    """
    is_kernel = (events["kind"] == "kernel").to_numpy()
    rows = np.flatnonzero(is_kernel)
    keys = [events[name].iloc[rows] for name in ("run", "host", "start_ns", "device", "line", "event_index")]
    order = np.lexsort([_codes(key) for key in reversed(keys)])
    rows = rows[order]
    kernels = events.iloc[rows].reset_index(drop=True)
    owner = kernels["run"].astype(str) + "\0" + kernels["host"].astype(str)
    numbered = {
        "process": kernels["host"],
        "dispatch_id": owner.groupby(owner).cumcount().astype("int64"),
        "agent_id": kernels["device"].astype(str).map(_plane_numbers(devices)).astype("int64"),
        "kernel_id": pd.Series(kernels["kernel_name"].cat.codes.astype("int64")),
        "lds_bytes": kernels["lds_bytes"],
        "scratch_bytes": kernels["scratch_bytes"],
        "host_call_id": kernels["correlation_id"],
    }
    given = {**{name: kernels[name] for name in _SAME}, **numbered}
    return ProfileDispatches(
        dispatches=_frame(DISPATCHES, given, len(kernels)), agents=_agents(devices), event_rows=rows
    )


def _codes(values: pd.Series) -> npt.NDArray[np.int64]:
    """Integers in the order of the values."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        ranks = np.argsort(np.argsort(values.cat.categories.astype(str).to_numpy(), kind="stable"), kind="stable")
        of_row: npt.NDArray[np.int64] = ranks[values.cat.codes.to_numpy()].astype(np.int64)
        return of_row
    numbers: npt.NDArray[np.int64] = values.to_numpy(dtype=np.int64)
    return numbers


def _plane_numbers(devices: pd.DataFrame) -> dict[str, int]:
    """Plane -> the number at the end of its name; a plane without one gets a number that none is likely to have."""
    planes = sorted({str(name) for name in devices["device"]})
    ends = {plane: plane.rpartition(":")[2] for plane in planes}
    return {
        plane: int(end) if end.isdecimal() else _FIRST_OF_NUMBERLESS + position
        for position, (plane, end) in enumerate(ends.items())
    }


def _agents(devices: pd.DataFrame) -> pd.DataFrame:
    by_plane = _plane_numbers(devices)
    numbers = [by_plane[str(name)] for name in devices["device"]]
    # Labels of a rocpd trace have the same form, so that a device has one name in both.
    labels = [f"{host}:gpu{number}" for host, number in zip(devices["host"], numbers, strict=True)]
    given = {
        "run": devices["run"],
        "process": devices["host"],
        "agent_id": pd.Series(np.array(numbers, dtype=np.int64)),
        "device": pd.Series(labels, dtype="category"),
        "kind": pd.Series(["GPU"] * len(devices), dtype="category"),
        "type_index": pd.Series(numbers, dtype="Int64"),
        "arch": devices["arch"],
        "cu_count": devices["cu_count"],
        "max_engine_hz": devices["clock_hz"],
    }
    return _frame(AGENTS, given, len(devices))


def _frame(spec: FrameSpec, given: dict[str, pd.Series], rows_count: int) -> pd.DataFrame:
    """A frame of the spec: what is given, and what a profile does not record as missing."""
    columns: dict[str, object] = {}
    for column in spec.columns:
        if column.name in given:
            columns[column.name] = given[column.name].reset_index(drop=True)
        elif column.dtype == "Int64":
            columns[column.name] = nullable_int64(np.zeros(rows_count, np.int64), np.ones(rows_count, bool))
        elif column.dtype == "category":
            columns[column.name] = pd.Series([None] * rows_count, dtype=pd.CategoricalDtype([]))
        else:
            columns[column.name] = pd.Series(np.full(rows_count, np.nan))
    return pd.DataFrame(columns)
