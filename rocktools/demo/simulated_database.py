"""A simulated trace -> a rocpd database that says it is simulated, and the truth beside it where that is wanted.

The database holds what a kernel trace of rocprofv3 would: dispatches with their events, places, code objects and
symbols, and launch calls where the scenario has them. Read back, its DISPATCHES are those of the trace, but for the
label of the run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from rocktools.demo.rocpd_defaults import CALL_CATEGORY, NODE_ID
from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.demo.simulate import SimulatedTrace
from rocktools.demo.simulated_frames import AGPR_COUNT, FIRST_AGENT, SGPR_COUNT, VGPR_COUNT, process_guid
from rocktools.errors import RocktoolsError, UsageError

_CALL_NS = 2_000  # shorter than the time between any two launches of a thread
_TABLE_COLUMNS = {
    "id": "dispatch_id",
    "dispatch_id": "dispatch_id",
    "tid": "thread_id",
    "agent_id": "agent_id",
    "kernel_id": "kernel_id",
    "queue_id": "queue_id",
    "stream_id": "stream_id",
    "start": "start_ns",
    "end": "end_ns",
    "private_segment_size": "scratch_bytes",
    "group_segment_size": "lds_bytes",
    **{f"workgroup_size_{axis}": f"workgroup_workitems_{axis}" for axis in "xyz"},
    **{f"grid_size_{axis}": f"grid_workitems_{axis}" for axis in "xyz"},
}


def write_simulated_trace(
    trace: SimulatedTrace,
    path: Path | str,
    *,
    truth_path: Path | str | None = None,
    options: WriterOptions | None = None,
    hostname: str | None = None,
) -> None:
    """Write the trace as a rocpd database.

    Args:
        path: target; must not exist, its folder must.
        truth_path: where to write the truth as CSV; None keeps it hidden.
        options: kind of file; the guid is the trace's own.
        hostname: of the node, so that the devices of several traces are told apart; None: that of every simulated one.

    Raises:
        UsageError: a target exists, a folder does not, or options ask for something impossible.
        RocktoolsError: a file cannot be written.
    """
    given = options or WriterOptions()
    guid = process_guid(trace.scenario)
    chosen = WriterOptions(**{**{name: getattr(given, name) for name in given.__slots__}, "guid": guid})
    if truth_path is not None and Path(truth_path).exists():
        raise UsageError("file-exists", "the file exists, and is not overwritten", where=str(truth_path))
    with RocpdWriter(path, options=chosen) as writer:
        order = np.argsort(trace.dispatches["dispatch_id"].to_numpy(), kind="stable")
        in_launch_order = trace.dispatches.iloc[order]
        if hostname is not None:
            writer.node(hostname=hostname)
        _write_places(writer, trace)
        _write_symbols(writer, in_launch_order)
        _write_dispatches(writer, in_launch_order, trace.truth.iloc[order], trace.scenario.pid)
    if truth_path is not None:
        try:
            trace.truth.to_csv(truth_path, index=False)
        except OSError as error:
            raise RocktoolsError(
                "cannot-write", f"the truth cannot be written: {error}", where=str(truth_path)
            ) from error


def _write_places(writer: RocpdWriter, trace: SimulatedTrace) -> None:
    scenario, dispatches = trace.scenario, trace.dispatches
    end_ns = int(dispatches["end_ns"].max()) if len(dispatches) else scenario.start_ns
    writer.process(
        scenario.pid, init=scenario.start_ns, start=scenario.start_ns, fini=end_ns + 1_000_000, end=end_ns + 1_000_000
    )
    for thread in range(1 + scenario.devices_count):
        writer.thread(scenario.pid + thread)
    for kind in ["CPU"] * FIRST_AGENT + ["GPU"] * scenario.devices_count:
        writer.agent(kind)
    for _ in range(_largest(dispatches, "queue_id")):
        writer.queue()
    for _ in range(_largest(dispatches, "stream_id")):
        writer.stream()


def _largest(dispatches: pd.DataFrame, name: str) -> int:
    return int(dispatches[name].max()) if len(dispatches) else 0


def _write_symbols(writer: RocpdWriter, dispatches: pd.DataFrame) -> None:
    """A code object on every device that ran something, with the symbols that ran there."""
    symbols = dispatches[["agent_id", "kernel_id", "kernel_name", "raw_kernel_name"]].drop_duplicates("kernel_id")
    for agent_id, own in symbols.groupby("agent_id"):
        code_object = writer.code_object(agent_id=int(agent_id))
        for kernel_id, name, raw_name in zip(own["kernel_id"], own["kernel_name"], own["raw_kernel_name"], strict=True):
            writer.kernel_symbol(
                str(name),
                id=int(kernel_id),
                display_name=str(raw_name),
                code_object_id=code_object,
                arch_vgpr_count=VGPR_COUNT,
                accum_vgpr_count=AGPR_COUNT,
                sgpr_count=SGPR_COUNT,
            )


def _write_dispatches(writer: RocpdWriter, dispatches: pd.DataFrame, truth: pd.DataFrame, pid: int) -> None:
    """Calls if they are traced, dispatches in the order of their launch, as the tool does."""
    if dispatches.empty:
        return
    stack = dispatches["dispatch_id"].to_numpy()
    thread = dispatches["thread_id"].to_numpy(dtype=np.int64)
    events_count = 0
    if dispatches["host_call_id"].notna().all():
        end_ns = truth["launch_ns"].to_numpy()
        event = _write_events(writer, CALL_CATEGORY, stack, end_ns, first=1)
        calls = {"id": stack, "tid": thread, "start": end_ns - _CALL_NS, "end": end_ns, "event_id": event}
        name_id = writer.string("hipModuleLaunchKernel")
        writer.file.insert_many("region", {**calls, "name_id": name_id, "nid": NODE_ID, "pid": pid})
        events_count = len(event)
    event = _write_events(
        writer, "KERNEL_DISPATCH", stack, dispatches["end_ns"].to_numpy(), first=1 + events_count, has_parent=True
    )
    columns = {column: dispatches[name].to_numpy(dtype=np.int64) for column, name in _TABLE_COLUMNS.items()}
    writer.file.insert_many(
        "kernel_dispatch",
        {**columns, "event_id": event, "nid": NODE_ID, "pid": pid, "region_name_id": writer.string("")},
    )


def _write_events(
    writer: RocpdWriter, category: str, stack: np.ndarray, end_ns: np.ndarray, *, first: int, has_parent: bool = False
) -> np.ndarray:
    """One event per stack id, numbered from `first` in the order things ended. Returns their ids."""
    order = np.argsort(end_ns, kind="stable")
    rows = first + np.arange(len(stack))
    parent = stack[order] if has_parent else 0
    writer.file.insert_many(
        "event",
        {
            "id": rows,
            "stack_id": stack[order],
            "parent_stack_id": parent,
            "category_id": writer.string(category),
            "correlation_id": 0,
        },
    )
    event = np.empty(len(stack), dtype=np.int64)
    event[order] = rows
    return event
