"""Counters in rocprofv3's JSON output -> COUNTED_DISPATCHES, COUNTER_VALUES, AGENTS, PROCESSES.

Only in-process kernel replay needs it: its rocpd databases add the passes of a dispatch up, the JSON tells them apart.
The shape is the documented one of the tool (`rocprofiler-sdk-tool`: a list of processes, each with `metadata`,
`agents`, `counters`, `kernel_symbols` and `callback_records.counter_collection`); we had no file of a real replay to
try it on. Where `replay_pass` stands is not documented: it is looked for in the record, its dispatch data and its
dispatch info. Where it is nowhere, records of one dispatch are taken for its passes, in their order.

Several records of one counter in one replay pass are its hardware instances, and are reduced as in rocpd.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rocktools.errors import DamagedFile, InputError, UnknownFormat
from rocktools.frames import AGENTS, COUNTED_DISPATCHES, COUNTER_VALUES, PROCESSES, FrameSpec
from rocktools.sources.rocpd.columns import exact_integer
from rocktools.sources.rocpd.facts import int_column
from rocktools.sources.rocpd.labels import choose_kernel_name, clean_kernel_name, device_label, rank_in_path
from rocktools.sources.rocpd.parts import (
    Part,
    assemble_frame,
    identity_columns,
    label_constant,
    label_values,
    sort_part,
)

_TOOL_KEY = "rocprofiler-sdk-tool"
_CPU_TYPE = 1
_HZ_PER_MHZ = 1_000_000
_BYTES_PER_KB = 1024

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JsonCounters:
    """Frames of the readers' contracts, of all processes in one file."""

    counted: pd.DataFrame
    values: pd.DataFrame
    agents: pd.DataFrame
    processes: pd.DataFrame


def read_counter_json(path: Path, *, run: str, pass_label: str) -> JsonCounters:
    """The counters of a `*_results.json`.

    Raises:
        InputError: the file cannot be read.
        DamagedFile: it is not JSON, or lacks what its dispatches need.
        UnknownFormat: it is JSON of something else.
    """
    processes = _load(path)
    parts: dict[str, list[Part]] = {"counted": [], "values": [], "agents": [], "processes": []}
    for number, process in enumerate(processes):
        try:
            label = f"{path.stem}:{process.get('metadata', {}).get('pid', number)}"
            reader = _Process(process, path, run, pass_label, label)
            parts["counted"].append(reader.counted())
            parts["values"].append(reader.values())
            parts["agents"].append(reader.agents())
            parts["processes"].append(reader.process())
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise DamagedFile(
                "rocprofv3-json-shape", f"the record of process {number} lacks or mangles {error}", where=str(path)
            ) from error
    return JsonCounters(
        counted=assemble_frame(parts["counted"], COUNTED_DISPATCHES),
        values=assemble_frame(parts["values"], COUNTER_VALUES),
        agents=assemble_frame(parts["agents"], AGENTS),
        processes=assemble_frame(parts["processes"], PROCESSES),
    )


def _load(path: Path) -> Sequence[Record]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError("unreadable-file", f"cannot read it: {error.strerror}", where=str(path)) from error
    except (ValueError, RecursionError) as error:  # ValueError: broken, no UTF-8, or a number of thousands of digits
        raise DamagedFile("rocprofv3-json-damaged", f"it is not whole JSON: {error}", where=str(path)) from error
    processes = document.get(_TOOL_KEY) if isinstance(document, dict) else None
    if isinstance(processes, dict):
        processes = [processes]
    if not isinstance(processes, list) or not all(isinstance(process, dict) for process in processes):
        raise UnknownFormat("not-rocprofv3-json", f"it has no {_TOOL_KEY!r}: not JSON of rocprofv3", where=str(path))
    return processes


class _Process:
    """One process's records, read into parts."""

    def __init__(self, process: Record, path: Path, run: str, pass_label: str, label: str) -> None:
        self._process = process
        self._path = path
        self._run = run
        self._pass_label = pass_label
        self._label = label
        self._records: Sequence[Record] = process["callback_records"]["counter_collection"]
        self._replay_passes = _replay_passes(self._records)
        self._symbols = {_handle(symbol["kernel_id"]): symbol for symbol in _listed(process.get("kernel_symbols"))}
        self._counters = {_handle(counter["id"]): str(counter["name"]) for counter in _listed(process["counters"])}
        self._agents = {_handle(agent["id"]): agent for agent in _listed(process.get("agents"))}

    def counted(self) -> Part:
        infos = [record["dispatch_data"]["dispatch_info"] for record in self._records]
        symbols = [self._symbols.get(_handle(info["kernel_id"]), {}) for info in infos]
        raw = [
            choose_kernel_name(
                symbol.get("formatted_kernel_name"), symbol.get("demangled_kernel_name"), symbol.get("kernel_name")
            )
            for symbol in symbols
        ]
        kernel_ids = [_required_int(_handle(info["kernel_id"]), "kernel_id") for info in infos]
        times = {
            name: int_column([_required_int(record["dispatch_data"][name], name) for record in self._records])
            for name in ("start_timestamp", "end_timestamp")
        }
        part = self._start(COUNTED_DISPATCHES, len(infos))
        part.update(
            {
                "dispatch_id": int_column([_dispatch_id(record) for record in self._records]),
                "replay_pass": int_column(self._replay_passes),
                "agent_id": int_column([self._agent_index(info["agent_id"]) for info in infos]),
                "kernel_id": int_column(kernel_ids),
                "kernel_name": label_values(
                    f"kernel_{key}" if name is None else clean_kernel_name(name)
                    for key, name in zip(kernel_ids, raw, strict=True)
                ),
                "raw_kernel_name": label_values(raw),
                "pass_start_ns": times["start_timestamp"],
                "pass_end_ns": times["end_timestamp"],
                "queue_id": int_column([_handle(info.get("queue_id")) for info in infos]),
                "thread_id": int_column([record.get("thread_id") for record in self._records]),
                "lds_bytes": int_column([info.get("group_segment_size") for info in infos]),
                "scratch_bytes": int_column([info.get("private_segment_size") for info in infos]),
                "vgpr_count": int_column([symbol.get("arch_vgpr_count") for symbol in symbols]),
                "agpr_count": int_column([symbol.get("accum_vgpr_count") for symbol in symbols]),
                "sgpr_count": int_column([symbol.get("sgpr_count") for symbol in symbols]),
            }
        )
        for axis in "xyz":
            part[f"grid_workitems_{axis}"] = int_column([info["grid_size"][axis] for info in infos])
            part[f"workgroup_workitems_{axis}"] = int_column([info["workgroup_size"][axis] for info in infos])
        return sort_part(part, ("pass_start_ns", "dispatch_id", "replay_pass"))

    def values(self) -> Part:
        rows = [
            (_dispatch_id(record), replay_pass, name, values)
            for record, replay_pass in zip(self._records, self._replay_passes, strict=True)
            for name, values in _values_by_counter(record, self._counters).items()
        ]
        rows.sort(key=lambda row: (row[0], -1 if row[1] is None else row[1], row[2]))
        part = self._start(COUNTER_VALUES, len(rows))
        part.update(
            {
                "dispatch_id": int_column([row[0] for row in rows]),
                "replay_pass": int_column([row[1] for row in rows]),
                "counter": label_values(row[2] for row in rows),
                "sum_value": np.array([sum(row[3]) for row in rows], dtype=np.float64),
                "min_value": np.array([min(row[3]) for row in rows], dtype=np.float64),
                "max_value": np.array([max(row[3]) for row in rows], dtype=np.float64),
                "instances_count": int_column([len(row[3]) for row in rows]),
            }
        )
        return part

    def agents(self) -> Part:
        agents = list(self._agents.values())
        kinds = ["CPU" if agent.get("type") == _CPU_TYPE else "GPU" for agent in agents]
        part = self._start(AGENTS, len(agents))
        part.update(
            {
                "agent_id": int_column([self._agent_index(agent["id"]) for agent in agents]),
                "device": label_values(
                    device_label(self._host, None, kind, agent.get("logical_node_type_id"), agent.get("node_id", 0))
                    for agent, kind in zip(agents, kinds, strict=True)
                ),
                "kind": label_values(kinds),
                "absolute_index": int_column([agent.get("node_id") for agent in agents]),
                "type_index": int_column([agent.get("logical_node_type_id") for agent in agents]),
                "arch": label_values(agent.get("name") or None for agent in agents),
                "product": label_values(agent.get("product_name") or None for agent in agents),
            }
        )
        for column, recorded, factor in (
            ("xcc_count", "num_xcc", 1),
            ("cu_count", "cu_count", 1),
            ("simd_per_cu_count", "simd_per_cu", 1),
            ("wave_workitems", "wave_front_size", 1),
            ("lds_per_cu_bytes", "lds_size_in_kb", _BYTES_PER_KB),
            ("max_engine_hz", "max_engine_clk_fcompute", _HZ_PER_MHZ),
        ):
            # 0 is a fact the tool did not get.
            known = [exact_integer(agent.get(recorded)) or None for agent in agents]
            part[column] = int_column([None if value is None else value * factor for value in known])
        return sort_part(part, ("agent_id",))

    def process(self) -> Part:
        metadata = self._process.get("metadata", {})
        command = metadata.get("command")
        part = self._start(PROCESSES, 1)
        part.update(
            {
                "path": label_constant(str(self._path), 1),
                "tool": label_constant("rocprofv3", 1),
                "content": label_constant("counters", 1),
                "is_simulated": np.array([False]),
                "pid": int_column([metadata.get("pid")]),
                "rank": int_column([rank_in_path(self._path)]),
                "host": label_constant(self._host, 1),
                "command": label_constant(_command_text(command), 1),
                "start_ns": int_column([metadata.get("init_time") or None]),
                "end_ns": int_column([metadata.get("fini_time") or None]),
            }
        )
        return part

    @property
    def _host(self) -> str | None:
        node = self._process.get("metadata", {}).get("node", {})
        return node.get("hostname") or None if isinstance(node, dict) else None

    def _agent_index(self, agent_id: Any) -> int:
        handle = _handle(agent_id)
        return _required_int(self._agents.get(handle, {}).get("node_id", handle), "node_id")

    def _start(self, spec: FrameSpec, rows_count: int) -> dict[str, Any]:
        """Every column of the frame, missing until it is filled."""
        part: dict[str, Any] = {}
        for column in spec.columns:
            if column.dtype == "category":
                part[column.name] = label_constant(None, rows_count)
            elif column.dtype in ("int64", "Int64"):
                part[column.name] = int_column([None] * rows_count)
        part.update(identity_columns(self._label, self._run, rows_count))
        if "pass" in spec.names:
            part["pass"] = label_constant(self._pass_label, rows_count)
        return part


def _listed(value: Any) -> list[Record]:
    """Records that are written as a list in some versions, and as a mapping by id in others."""
    if isinstance(value, dict):
        return list(value.values())
    return [] if value is None else [record for record in value if record]


def _handle(value: Any) -> Any:
    """Ids are numbers or `{"handle": number}`."""
    return value["handle"] if isinstance(value, dict) else value


def _command_text(command: Any) -> str | None:
    if not command:
        return None
    return command if isinstance(command, str) else " ".join(map(str, command))


def _required_int(value: Any, name: str) -> int:
    number = exact_integer(value)
    if number is None:
        raise ValueError(f"{name}, which is {value!r}")
    return number


def _dispatch_id(record: Record) -> int:
    return _required_int(record["dispatch_data"]["dispatch_info"]["dispatch_id"], "dispatch_id")


def _replay_passes(records: Sequence[Record]) -> list[int | None]:
    """The replay pass of each record: as recorded, or by the order of a dispatch's records; None without any replay."""
    ids = [_dispatch_id(record) for record in records]
    passes = [_recorded_replay_pass(record) for record in records]
    keys = list(zip(ids, passes, strict=True))
    if len(set(keys)) == len(keys):
        return passes
    if any(number is not None for number in passes):
        (twice, number), _ = Counter(keys).most_common(1)[0]
        raise ValueError(f"dispatch {twice}, which is there twice in replay pass {number}")
    seen: Counter[int] = Counter()
    numbered: list[int | None] = []
    for dispatch_id in ids:
        numbered.append(seen[dispatch_id])
        seen[dispatch_id] += 1
    return numbered


def _recorded_replay_pass(record: Record) -> int | None:
    places = (record, record["dispatch_data"], record["dispatch_data"]["dispatch_info"])
    found = [place["replay_pass"] for place in places if place.get("replay_pass") is not None]
    return _required_int(found[0], "replay_pass") if found else None


def _values_by_counter(record: Record, counters: Mapping[Any, str]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for item in record["records"]:
        handle = _handle(item["counter_id"])
        values.setdefault(counters.get(handle, f"counter_{handle}"), []).append(_finite(item["value"]))
    return values


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"value, which is {number}")
    return number
