"""Recorded launches of simulated devices -> DISPATCHES, and the truth about each of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from rocktools.demo.launch_rows import LaunchRows, Origin
from rocktools.demo.launch_schedule import Schedule
from rocktools.demo.library_kernels import KernelLaunch
from rocktools.demo.rocpd_file import make_guid
from rocktools.demo.scenario import Lanes, Scenario
from rocktools.demo.simulated_timing import LaunchTimes
from rocktools.frames import DISPATCHES, GRID, WORKGROUP, nullable_int64, require_frame

RUN = "simulated"
FIRST_AGENT = 2  # behind two CPUs
VGPR_COUNT, AGPR_COUNT, SGPR_COUNT = 32, 0, 32  # of every simulated kernel symbol
_ORIGINS = ("program", "warm-up", "other executable", "foreign")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceTrace:
    """Dispatches of one device in the order of launch; no waits.

    Attributes:
        device: number of the device, from 0.
        rows, times: as they were launched and ran.
        dispatch_id: of each row.
    """

    device: int
    rows: LaunchRows
    times: LaunchTimes
    dispatch_id: np.ndarray

    def taken(self, rows: np.ndarray) -> DeviceTrace:
        """The rows of these numbers, or where a mask is true."""
        times = LaunchTimes(**{one.name: getattr(self.times, one.name)[rows] for one in fields(self.times)})
        return DeviceTrace(
            device=self.device, rows=self.rows.taken(rows), times=times, dispatch_id=self.dispatch_id[rows]
        )


def process_guid(scenario: Scenario) -> str:
    """The guid of the simulated process, which is its label too."""
    return make_guid(f"simulated program {scenario.seed} {scenario.pid}", start_ns=scenario.start_ns)


def raw_kernel_names(kernels: Sequence[KernelLaunch]) -> tuple[str, ...]:
    """Names with their endings, each once, in the order of their symbols."""
    return tuple(dict.fromkeys(kernel.name + kernel.ending for kernel in kernels))


def build_dispatches(
    devices: Sequence[DeviceTrace], kernels: Sequence[KernelLaunch], scenario: Scenario
) -> tuple[pd.DataFrame, np.ndarray]:
    """DISPATCHES of all devices; and the order of its rows in the devices' rows, put one after the other."""
    device = np.concatenate([np.full(len(one.rows), one.device) for one in devices])
    kernel = np.concatenate([one.rows.kernel for one in devices])
    stream = np.concatenate([one.rows.stream for one in devices])
    streams_count = 1 + int(max((one.rows.stream.max() for one in devices if len(one.rows)), default=0))
    start, end = (np.concatenate([getattr(one.times, name) for one in devices]) for name in ("start_ns", "end_ns"))
    dispatch_id = np.concatenate([one.dispatch_id for one in devices])
    order = np.lexsort((dispatch_id, start))
    place = 1 + device * streams_count + stream
    symbols = raw_kernel_names(kernels)
    symbol = np.array([symbols.index(each.name + each.ending) for each in kernels], dtype=np.int64)[kernel]
    queue = 1 + device if scenario.lanes is Lanes.MERGED_QUEUE else place
    sizes = {
        **dict(zip(GRID, np.array([each.grid_workitems for each in kernels]).T, strict=True)),
        **dict(zip(WORKGROUP, np.array([each.workgroup_workitems for each in kernels]).T, strict=True)),
        "lds_bytes": np.array([each.lds_bytes for each in kernels]),
    }
    nullable = {
        "queue_id": queue,
        "stream_id": place if scenario.has_stream_ids else np.zeros_like(place),
        "thread_id": scenario.pid + 1 + device,
        **{name: column[kernel] for name, column in sizes.items()},
        "scratch_bytes": np.zeros_like(kernel),
        "vgpr_count": np.full_like(kernel, VGPR_COUNT),
        "agpr_count": np.full_like(kernel, AGPR_COUNT),
        "sgpr_count": np.full_like(kernel, SGPR_COUNT),
    }
    absent = np.ones(len(kernel), dtype=bool)
    has_call = np.full(len(kernel), scenario.has_host_calls)
    columns = {
        "run": _constant(RUN, len(kernel)),
        "process": _constant(process_guid(scenario), len(kernel)),
        "dispatch_id": dispatch_id[order],
        "agent_id": FIRST_AGENT + device[order],
        "kernel_id": 1 + device[order] * len(symbols) + symbol[order],
        "kernel_name": _labels(kernel[order], [each.name for each in kernels]),
        "raw_kernel_name": _labels(symbol[order], symbols),
        "start_ns": start[order],
        "end_ns": end[order],
        **{name: nullable_int64(column[order], ~absent) for name, column in nullable.items()},
        "range": _constant(None, len(kernel)),
        "host_call_id": nullable_int64(np.where(has_call, dispatch_id, 0)[order], ~has_call),
        "graph_exec_id": nullable_int64(np.zeros_like(kernel), absent),
        "graph_node_id": nullable_int64(np.zeros_like(kernel), absent),
    }
    frame = pd.DataFrame({name: columns[name] for name in DISPATCHES.names})
    return require_frame(frame, DISPATCHES), order


def build_truth(devices: Sequence[DeviceTrace], schedule: Schedule, program_id: str, order: np.ndarray) -> pd.DataFrame:
    """What really launched each dispatch, in the rows' `order`.

    Returns:
        `dispatch_id`; `origin` (`program`, `warm-up`, `other executable`, `foreign`); `launch_ns`, the host's call.
        Missing where the program did not launch it: `program_id`, `instruction` (also where the thunk has none),
        `thunk_id`, `kernel_index` (which of the thunk's kernels, from 0), `execution_index`, and `iterations` (as
        `0/17`, also missing outside of loops).
    """
    names = ("site", "kernel_index", "step", "origin", "iterations")
    columns = {name: np.concatenate([getattr(one.rows, name) for one in devices])[order] for name in names}
    site, is_strange = columns["site"], columns["origin"] != Origin.PROGRAM
    known = np.where(is_strange, 0, site)
    instructions = [thunk.instruction for thunk in schedule.sites] or [""]
    thunk_ids = np.array([thunk.thunk_id for thunk in schedule.sites] or [0], dtype=np.int64)
    return pd.DataFrame(
        {
            "dispatch_id": np.concatenate([one.dispatch_id for one in devices])[order],
            "origin": _labels(columns["origin"], _ORIGINS),
            "launch_ns": np.concatenate([one.times.launch_ns for one in devices])[order],
            "program_id": _labels(np.where(is_strange, -1, 0), [program_id]),
            "instruction": _labels(np.where(is_strange, -1, site), instructions),
            "thunk_id": nullable_int64(thunk_ids[known], is_strange),
            "kernel_index": nullable_int64(columns["kernel_index"], is_strange),
            "execution_index": nullable_int64(columns["step"], is_strange),
            "iterations": iteration_labels(columns["iterations"]),
        }
    )


def _constant(value: str | None, count: int) -> pd.Categorical:
    categories = pd.Index([] if value is None else [value], dtype="object" if value is None else None)
    return pd.Categorical.from_codes(np.full(count, -1 if value is None else 0), categories=categories)


def _labels(codes: np.ndarray, names: Sequence[str]) -> pd.Categorical:
    """The name of each code; "" and -1 are missing. Equal names are one category."""
    distinct = sorted({name for name in names if name})
    numbers = {name: number for number, name in enumerate(distinct)}
    table = np.array([*(numbers.get(name, -1) for name in names), -1], dtype=np.int64)
    return pd.Categorical.from_codes(table[codes], categories=distinct)


def iteration_labels(iterations: np.ndarray) -> pd.Categorical:
    """`0/17` of each row of iterations; missing where there is none."""
    if iterations.shape[1] == 0 or not len(iterations):
        return pd.Categorical.from_codes(np.full(len(iterations), -1), categories=[])
    widths = iterations.max(axis=0) + 2
    code = np.ravel_multi_index(tuple((iterations + 1).T), tuple(widths))
    distinct, inverse = np.unique(code, return_inverse=True)
    places = np.array(np.unravel_index(distinct, tuple(widths))).T - 1
    texts = ["/".join(str(one) for one in place if one >= 0) for place in places.tolist()]
    return _labels(inverse, texts)
