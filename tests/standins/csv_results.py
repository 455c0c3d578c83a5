"""A process's records as CSV files, with the columns that rocprofv3's own CSV has (its documentation's samples)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from standins.timeline import Dispatch, dispatch_values
from standins.tool import Records, Run

_CPUS_COUNT = 2
_KERNEL_TRACE = (
    "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,"
    "End_Timestamp,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,Workgroup_Size_X,"
    "Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z"
)
_COUNTER_COLLECTION = (
    "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,Kernel_Name,Workgroup_Size,"
    "LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,Counter_Name,Counter_Value,Start_Timestamp,"
    "End_Timestamp"
)
_AGENTS = "Node_Id,Logical_Node_Id,Agent_Type,Name,Product_Name"


def write_csv(prefix: Path, run: Run, records: Records) -> list[Path]:
    """Write one file per kind of record that there is. Returns their paths."""
    written = [_write(prefix, "agent_info", _AGENTS, _agent_rows(run))]
    if "KERNEL" in run.config.traces and records.dispatches:
        written.append(_write(prefix, "kernel_trace", _KERNEL_TRACE, _trace_rows(run, records.dispatches)))
    if records.counted:
        written.append(_write(prefix, "counter_collection", _COUNTER_COLLECTION, _counter_rows(run, records)))
    return written


def _write(prefix: Path, what: str, header: str, rows: Iterable[Sequence[object]]) -> Path:
    path = prefix.with_name(f"{prefix.name}_{what}.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(header.split(","))
        writer.writerows(rows)
    return path


def _agent_rows(run: Run) -> Iterable[Sequence[object]]:
    for number in range(_CPUS_COUNT):
        yield number, number, "CPU", "CPU", "CPU"
    for number in range(run.scenario.agents_count):
        name = run.scenario.architecture
        yield _CPUS_COUNT + number, _CPUS_COUNT + number, "GPU", name, name


def _trace_rows(run: Run, dispatches: Iterable[Dispatch]) -> Iterable[Sequence[object]]:
    for each in dispatches:
        yield (
            "KERNEL_DISPATCH",
            f"Agent {_CPUS_COUNT + each.agent_index}",
            1 + each.agent_index,
            1 + each.agent_index,
            run.facts.pid,
            each.number,
            1 + each.kernel_index,
            run.config.format_name(each.kernel),
            each.number,
            each.start_ns,
            each.end_ns,
            each.kernel.lds_bytes,
            *(0, 32, 0, 32),
            *each.workgroup,
            *each.grid,
        )


def _counter_rows(run: Run, records: Records) -> Iterable[Sequence[object]]:
    """A value is the sum over instances here; the replay pass has no column."""
    for each in records.counted:
        dispatch = each.dispatch
        for counter in each.counters:
            yield (
                dispatch.number,
                dispatch.number,
                f"Agent {_CPUS_COUNT + dispatch.agent_index}",
                1 + dispatch.agent_index,
                run.facts.pid,
                run.facts.pid,
                dispatch.grid[0] * dispatch.grid[1] * dispatch.grid[2],
                1 + dispatch.kernel_index,
                run.config.format_name(dispatch.kernel),
                dispatch.workgroup[0] * dispatch.workgroup[1] * dispatch.workgroup[2],
                dispatch.kernel.lds_bytes,
                *(0, 32, 0, 32),
                counter.name,
                sum(dispatch_values(counter, dispatch, run.scenario, run.faults)),
                dispatch.start_ns,
                dispatch.end_ns,
            )
