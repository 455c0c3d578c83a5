"""The small tables of a process: agents, kernel symbols, the process itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rocktools.sources.rocpd.columns import IntColumn, TableReader, exact_integer
from rocktools.sources.rocpd.labels import choose_kernel_name, clean_kernel_name, device_label, rank_in_path
from rocktools.sources.rocpd.parts import Part, identity_columns, label_constant, label_values
from rocktools.sources.rocpd.schema import ProcessTables, parse_extdata, quote_name

_ROCPROFV3_SUFFIX = re.compile(r"_[0-9a-f]{8}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{12}", re.IGNORECASE)
_HZ_PER_MHZ = 1_000_000
_BYTES_PER_KB = 1024

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSymbols:
    """The kernel symbols of a process as columns, by ascending id.

    Attributes:
        ids: symbol ids, ascending.
        clean_names, raw_names: as in KERNEL_SYMBOLS; a nameless kernel is `kernel_<id>` and has no raw name.
        part: the columns of KERNEL_SYMBOLS.
    """

    ids: np.ndarray
    clean_names: Mapping[int, str]
    raw_names: Mapping[int, str | None]
    part: Part


def read_kernel_symbols(reader: TableReader, process: ProcessTables, run: str) -> KernelSymbols:
    """Kernel names by the order of trust: display name, formatted name, symbol name, `kernel_<id>`.

    Raises:
        DamagedFile: SQLite cannot read the table.
    """
    wanted = [
        "id",
        "kernel_name",
        "display_name",
        "code_object_id",
        "group_segment_size",
        "private_segment_size",
        "kernarg_segment_size",
        "sgpr_count",
        "arch_vgpr_count",
        "accum_vgpr_count",
    ]
    rows = read_info_rows(reader, process, "info_kernel_symbol", wanted)
    nameless = [row["id"] for row in rows if choose_kernel_name(row["display_name"]) is None]
    formatted = _read_formatted_names(reader, process, nameless)
    agents = {
        row["id"]: exact_integer(row["agent_id"])
        for row in read_info_rows(reader, process, "info_code_object", ["id", "agent_id"])
    }
    raw = {
        row["id"]: choose_kernel_name(row["display_name"], formatted.get(row["id"]), row["kernel_name"]) for row in rows
    }
    clean = {key: f"kernel_{key}" if name is None else clean_kernel_name(name) for key, name in raw.items()}
    mangled = [text_or_none(row["kernel_name"]) for row in rows]
    part: dict[str, Any] = {
        **identity_columns(process.label, run, len(rows)),
        "kernel_id": int_column([row["id"] for row in rows]),
        "kernel_name": label_values(clean[row["id"]] for row in rows),
        "raw_kernel_name": label_values(raw[row["id"]] for row in rows),
        "mangled_name": label_values(clean_kernel_name(name) if name else None for name in mangled),
        "agent_id": int_column([agents.get(row["code_object_id"]) for row in rows]),
    }
    for column, recorded in (
        ("code_object_id", "code_object_id"),
        ("vgpr_count", "arch_vgpr_count"),
        ("agpr_count", "accum_vgpr_count"),
        ("sgpr_count", "sgpr_count"),
        ("static_lds_bytes", "group_segment_size"),
        ("static_scratch_bytes", "private_segment_size"),
        ("kernarg_bytes", "kernarg_segment_size"),
    ):
        part[column] = int_column([row[recorded] for row in rows])
    ids = np.array([row["id"] for row in rows], dtype=np.int64)
    return KernelSymbols(ids=ids, clean_names=clean, raw_names=raw, part=part)


def _read_formatted_names(reader: TableReader, process: ProcessTables, ids: Sequence[int]) -> dict[int, Any]:
    if not ids or not process.has("info_kernel_symbol", "extdata"):
        return {}
    table = process.tables["info_kernel_symbol"]
    rows = reader.rows(f"SELECT id, extdata FROM {table.quoted} WHERE id IN ({', '.join(map(str, ids))})")
    return {key: parse_extdata(text).get("formatted_kernel_name") for key, text in rows}


def read_agents(reader: TableReader, process: ProcessTables, run: str) -> Part:
    """The AGENTS rows of a process; hardware facts are those that the tool recorded in extdata (rocprof-sys: none).

    Raises:
        DamagedFile: SQLite cannot read the table.
    """
    wanted = ["id", "nid", "type", "absolute_index", "type_index", "name", "product_name", "extdata"]
    rows = read_info_rows(reader, process, "info_agent", wanted)
    hosts = read_hosts(reader, process)
    kinds = [text_or_none(row["type"]) for row in rows]
    extdata = [parse_extdata(row["extdata"]) if row["type"] == "GPU" else {} for row in rows]
    type_indices = [
        row["type_index"] if row["type_index"] is not None else extra.get("logical_node_type_id")
        for row, extra in zip(rows, extdata, strict=True)
    ]
    devices = [
        device_label(
            hosts.get(exact_integer(row["nid"])), exact_integer(row["nid"]), kind, exact_integer(index), row["id"]
        )
        for row, kind, index in zip(rows, kinds, type_indices, strict=True)
    ]
    part: dict[str, Any] = {
        **identity_columns(process.label, run, len(rows)),
        "agent_id": int_column([row["id"] for row in rows]),
        "device": label_values(devices),
        "node_id": int_column([row["nid"] for row in rows]),
        "kind": label_values(kinds),
        "absolute_index": int_column([row["absolute_index"] for row in rows]),
        "type_index": int_column(type_indices),
        "arch": label_values(text_or_none(row["name"]) for row in rows),
        "product": label_values(text_or_none(row["product_name"]) for row in rows),
    }
    for column, recorded, factor in (
        ("xcc_count", "num_xcc", 1),
        ("cu_count", "cu_count", 1),
        ("simd_per_cu_count", "simd_per_cu", 1),
        ("wave_workitems", "wave_front_size", 1),
        ("lds_per_cu_bytes", "lds_size_in_kb", _BYTES_PER_KB),
        ("max_engine_hz", "max_engine_clk_fcompute", _HZ_PER_MHZ),
    ):
        # A fact of 0 in a GPU's record (no SIMDs, no clock) is a fact the tool did not get.
        values = [exact_integer(extra.get(recorded)) or None for extra in extdata]
        part[column] = int_column([None if value is None else value * factor for value in values])
    return part


def read_process(reader: TableReader, process: ProcessTables, run: str, content: str) -> Part:
    """The PROCESSES row of a process. Its environment is never read.

    Raises:
        DamagedFile: SQLite cannot read the table.
    """
    wanted = ["id", "nid", "ppid", "pid", "init", "fini", "start", "end", "command"]
    rows = read_info_rows(reader, process, "info_process", wanted)
    row: Row = rows[0] if rows else dict.fromkeys(wanted)
    host = read_hosts(reader, process).get(exact_integer(row["nid"]))
    return {
        **identity_columns(process.label, run, 1),
        "path": label_constant(str(process.path), 1),
        "tool": label_constant(name_tool(process), 1),
        "schema_version": label_constant(process.schema_version, 1),
        "content": label_constant(content, 1),
        "is_simulated": np.array([process.is_simulated]),
        "pid": int_column([row["pid"]]),
        "ppid": int_column([row["ppid"]]),
        "rank": int_column([rank_in_path(process.path)]),
        "node_id": int_column([row["nid"]]),
        "host": label_constant(host, 1),
        "command": label_constant(text_or_none(row["command"]), 1),
        # 0 is what rocprof-sys writes for "not known"; no process starts at boot.
        "start_ns": int_column([row["start"] or row["init"] or None]),
        "end_ns": int_column([row["end"] or row["fini"] or None]),
    }


def name_tool(process: ProcessTables) -> str:
    """Which tool wrote the tables of a process, as far as they show."""
    if process.is_simulated:
        return "rocktools (simulated)"
    if "upid" in process.metadata:
        return "rocprof-sys"
    return "rocprofv3" if _ROCPROFV3_SUFFIX.fullmatch(process.suffix) else "unknown"


def read_hosts(reader: TableReader, process: ProcessTables) -> dict[int | None, str | None]:
    """Node id -> host name."""
    return {
        row["id"]: text_or_none(row["hostname"])
        for row in read_info_rows(reader, process, "info_node", ["id", "hostname"])
    }


def read_info_rows(reader: TableReader, process: ProcessTables, base: str, columns: Sequence[str]) -> list[Row]:
    """Rows of a small table by ascending id, with these columns; a column or table that is not there gives None or [].

    Hand-made tables may have ids that are no integers or repeat: such rows are left out, the first one of an id stays.
    Never select more than is needed: one agent's extdata is 116 KB, and rocprofv3 repeats it in every counter's row.
    """
    table = process.tables.get(base)
    if table is None or "id" not in table.columns:
        return []
    present = ["id", *(name for name in columns if name in table.columns and name != "id")]
    selected = ", ".join(quote_name(name) for name in present)
    rows = reader.rows(f"SELECT {selected} FROM {table.quoted} ORDER BY id")
    by_id: dict[int, Row] = {}
    for row in rows:
        key = exact_integer(row[0])
        if key is not None:
            by_id.setdefault(key, {**dict.fromkeys(columns), **dict(zip(present, row, strict=True)), "id": key})
    return [by_id[key] for key in sorted(by_id)]


def text_or_none(value: object) -> str | None:
    """A text with something in it; None for NULL and for what is no text, such as a BLOB."""
    return value if isinstance(value, str) and value else None


def int_column(values: Sequence[object]) -> IntColumn:
    """An integer column from SQLite values; what is no exact int64 is missing."""
    exact = [exact_integer(value) for value in values]
    is_missing = np.array([value is None for value in exact], dtype=np.bool_)
    filled = np.array([0 if value is None else value for value in exact], dtype=np.int64)
    return IntColumn(filled, is_missing if is_missing.any() else None)
