"""rocpd_memory_copy and rocpd_memory_allocate -> COPIES and ALLOCATIONS."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rocktools.frames import ALLOCATIONS, COPIES
from rocktools.sources.rocpd.columns import IntColumn, TableReader
from rocktools.sources.rocpd.dispatches import (
    count_rows,
    drop_unusable_rows,
    read_range_names,
    read_recorded_columns,
)
from rocktools.sources.rocpd.facts import text_or_none
from rocktools.sources.rocpd.parts import (
    LabelColumn,
    Part,
    identity_columns,
    label_constant,
    label_ids,
    label_values,
    sort_part,
)
from rocktools.sources.rocpd.schema import ProcessTables, quote_name
from rocktools.sources.rocpd.strings import read_strings

_COPY_COLUMNS = {
    "copy_id": "id",
    "start_ns": "start",
    "end_ns": "end",
    "size_bytes": "size",
    "name_id": "name_id",
    "src_agent_id": "src_agent_id",
    "dst_agent_id": "dst_agent_id",
    "queue_id": "queue_id",
    "stream_id": "stream_id",
    "thread_id": "tid",
    "graph_exec_id": "graph_exec_id",
    "graph_node_id": "graph_node_id",
}
_COPY_REQUIRED = ("copy_id", "start_ns", "end_ns", "size_bytes")
_ALLOCATION_COLUMNS = {
    "allocation_id": "id",
    "start_ns": "start",
    "end_ns": "end",
    "size_bytes": "size",
    "address": "address",
    "agent_id": "agent_id",
    "queue_id": "queue_id",
    "stream_id": "stream_id",
    "thread_id": "tid",
}
_ALLOCATION_REQUIRED = ("allocation_id", "start_ns", "end_ns")
_COPY_PREFIX = "MEMORY_COPY_"
_WORD_BREAK = re.compile(r"(?<=[a-z])(?=[A-Z])")


def read_copies(reader: TableReader, process: ProcessTables, run: str) -> Part:
    """The COPIES rows of a process that has a copy table, in the order of the frame.

    Raises:
        DamagedFile: SQLite cannot read the tables, or they lack a column that no copy can do without.
    """
    table = process.tables["memory_copy"]
    rows_count = count_rows(reader, table)
    part: dict[str, Any] = read_recorded_columns(
        reader, table, _COPY_COLUMNS, _COPY_REQUIRED, rows_count, zero_is_none=("graph_exec_id", "graph_node_id")
    )
    name_ids = part.pop("name_id")
    names = read_strings(reader, process, name_ids)
    known_ids = name_ids.where_missing(-1)
    kinds: dict[int, str | None] = {key: _direction(names.get(key)) for key in np.unique(known_ids).tolist()}
    part["kind"] = label_ids(IntColumn(known_ids), kinds)
    part["range"] = read_range_names(reader, process, table, rows_count)
    part.update(identity_columns(process.label, run, rows_count))
    part = dict(drop_unusable_rows(reader, part, _COPY_REQUIRED, table))
    return sort_part({name: part[name] for name in COPIES.names}, ("start_ns", "copy_id"))


def read_allocations(reader: TableReader, process: ProcessTables, run: str) -> Part:
    """The ALLOCATIONS rows of a process that has an allocation table, in the order of the frame.

    Raises: as `read_copies`.
    """
    table = process.tables["memory_allocate"]
    rows_count = count_rows(reader, table)
    part: dict[str, Any] = read_recorded_columns(reader, table, _ALLOCATION_COLUMNS, _ALLOCATION_REQUIRED, rows_count)
    for name, column in (("kind", "type"), ("level", "level")):
        if column in table.columns:
            rows = reader.rows(f"SELECT {quote_name(column)} FROM {table.in_order}")
            part[name] = label_values(text_or_none(text) for (text,) in rows)
        else:
            part[name] = label_constant(None, rows_count)
    kind: LabelColumn = part["kind"]
    is_free = np.array([*(name == "FREE" for name in kind.names), False])[kind.codes]  # the last one is for code -1
    sizes: IntColumn = part["size_bytes"]
    part["size_bytes"] = IntColumn(sizes.values, sizes.missing | ((sizes.values == 0) & is_free))
    part.update(identity_columns(process.label, run, rows_count))
    part = dict(drop_unusable_rows(reader, part, _ALLOCATION_REQUIRED, table))
    return sort_part({name: part[name] for name in ALLOCATIONS.names}, ("start_ns", "allocation_id"))


def _direction(name: str | None) -> str:
    """`MEMORY_COPY_HOST_TO_DEVICE` (rocprofv3) and `HostToDevice` (other writers) both name a direction."""
    if not name:
        return "UNKNOWN"
    return _WORD_BREAK.sub("_", name.removeprefix(_COPY_PREFIX)).upper()
