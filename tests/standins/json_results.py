"""A process's records as `_results.json`: the shape that rocprofv3 writes, as far as counters and dispatches go.

The nesting and the names of counter records follow ROCm/rocprofiler-sdk (generateJSON.cpp, counter_info.hpp and the
tests that read such files). Where `replay_pass` stands (in each counter record, beside `thread_id`) follows what pull
request 10439 of ROCm/rocm-systems says about it; no file with it was seen. Records of other domains are left empty.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from standins.timeline import Dispatch, dispatch_values
from standins.tool import Counted, Records, Run

_CPUS_COUNT = 2
_EMPTY_DOMAINS = ("hip_api", "hsa_api", "marker_api", "rccl_api", "memory_copy", "memory_allocation", "scratch_memory")


def write_json(path: Path, run: Run, records: Records) -> None:
    """Write the file over whatever is there."""
    process = _JsonProcess(run, records)
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process.build()]}), encoding="utf-8")


class _JsonProcess:
    """Builds the one element of the file's list."""

    def __init__(self, run: Run, records: Records) -> None:
        self._run = run
        self._records = records
        kernels = list(enumerate(run.scenario.kernels))
        # A symbol's id is its place in the list; number 0 is no kernel.
        keys = [(index, agent) for agent in records.agents for index, _ in kernels]
        self._kernel_ids = {key: number for number, key in enumerate(keys, start=1)}
        self._handles = {
            (agent, name): (agent << 32) + number
            for agent in records.agents
            for number, name in enumerate(records.known, start=1)
        }

    def build(self) -> dict[str, Any]:
        """The element."""
        run, records = self._run, self._records
        return {
            "metadata": {
                "pid": run.facts.pid,
                "init_time": run.start_ns,
                "fini_time": run.end_ns,
                "config": {"kernel_replay": run.config.is_replay},
                "command": list(run.facts.command),
            },
            "agents": self._agents(),
            "counters": self._counters(),
            "strings": {
                "callback_records": [],
                "buffer_records": [],
                "marker_api": [],
                "correlation_id": {"external": []},
                "counters": {"dimension_ids": []},
            },
            "code_objects": [],
            "kernel_symbols": self._symbols(),
            "host_functions": [],
            "summary": [],
            "callback_records": {"counter_collection": [self._counted(each) for each in records.counted]},
            "buffer_records": {
                "kernel_dispatch": [self._traced(each) for each in records.dispatches]
                if "KERNEL" in run.config.traces
                else [],
                **{domain: [] for domain in _EMPTY_DOMAINS},
            },
        }

    def _agents(self) -> list[dict[str, Any]]:
        cpus = [{"id": {"handle": n}, "type": 1, "name": "CPU", "node_id": n} for n in range(_CPUS_COUNT)]
        gpus = [
            {
                "id": {"handle": _CPUS_COUNT + number},
                "type": 2,
                "name": self._run.scenario.architecture,
                "node_id": _CPUS_COUNT + number,
                "logical_node_type_id": number,
                "num_xcc": 8,
            }
            for number in range(self._run.scenario.agents_count)
        ]
        return cpus + gpus

    def _counters(self) -> list[dict[str, Any]]:
        return [
            {
                "agent_id": {"handle": _CPUS_COUNT + agent},
                "id": {"handle": handle},
                "is_constant": int(self._records.known[name].is_constant),
                "is_derived": int(not self._records.known[name].block),
                "name": name,
                "description": f"{name} of a stand-in",
                "block": self._records.known[name].block,
                "expression": self._records.known[name].expression,
                "dimension_ids": [],
            }
            for (agent, name), handle in self._handles.items()
        ]

    def _symbols(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [{"kernel_id": 0, "code_object_id": 0, "formatted_kernel_name": ""}]
        for (index, agent), kernel_id in self._kernel_ids.items():
            kernel = self._run.scenario.kernels[index]
            rows.append(
                {
                    "size": 80,
                    "kernel_id": kernel_id,
                    "code_object_id": agent + 1,
                    "kernel_name": f"{kernel.symbol}.kd",
                    "formatted_kernel_name": self._run.config.format_name(kernel),
                    "demangled_kernel_name": kernel.name,
                    "truncated_kernel_name": kernel.name.partition("(")[0],
                    "group_segment_size": kernel.lds_bytes,
                    "private_segment_size": 0,
                }
            )
        return rows

    def _counted(self, each: Counted) -> dict[str, Any]:
        agent = each.dispatch.agent_index
        record: dict[str, Any] = {
            "thread_id": self._run.facts.pid,
            "dispatch_data": {
                "size": 120,
                "correlation_id": _correlation(each.dispatch),
                "start_timestamp": each.dispatch.start_ns,
                "end_timestamp": each.dispatch.end_ns,
                "dispatch_info": self._dispatch_info(each.dispatch),
            },
            "records": [
                {"counter_id": {"handle": self._handles[agent, counter.name]}, "value": value}
                for counter in each.counters
                for value in dispatch_values(counter, each.dispatch, self._run.scenario, self._run.faults)
            ],
            "kernel_rename_val": 0,
        }
        if each.replay_pass is not None:
            record["replay_pass"] = each.replay_pass
        return record

    def _traced(self, each: Dispatch) -> dict[str, Any]:
        return {
            "size": 136,
            "kind": 11,
            "operation": 2,
            "thread_id": self._run.facts.pid,
            "correlation_id": _correlation(each),
            "start_timestamp": each.start_ns,
            "end_timestamp": each.end_ns,
            "dispatch_info": self._dispatch_info(each),
            "stream_id": {"handle": 1},
        }

    def _dispatch_info(self, each: Dispatch) -> dict[str, Any]:
        return {
            "size": 88,
            "agent_id": {"handle": _CPUS_COUNT + each.agent_index},
            "queue_id": {"handle": 1 + each.agent_index},
            "kernel_id": self._kernel_ids[each.kernel_index, each.agent_index],
            "dispatch_id": each.number,
            "private_segment_size": 0,
            "group_segment_size": each.kernel.lds_bytes,
            "workgroup_size": dict(zip("xyz", each.workgroup, strict=True)),
            "grid_size": dict(zip("xyz", each.grid, strict=True)),
        }


def _correlation(each: Dispatch) -> dict[str, int]:
    return {"internal": each.number, "external": 0}
