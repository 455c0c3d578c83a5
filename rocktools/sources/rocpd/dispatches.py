"""rocpd_kernel_dispatch -> DISPATCHES (of a trace) or COUNTED_DISPATCHES (of a counter pass), a column at a time.

Only what the wanted columns need is read: names come through codes, launches through one join, and both are left out
where nobody asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rocktools.errors import DamagedFile
from rocktools.findings import Finding, Severity
from rocktools.frames import COUNTED_DISPATCHES, DISPATCHES
from rocktools.sources.rocpd.columns import Field, IntColumn, TableReader, absent_column
from rocktools.sources.rocpd.events import find_launches, read_event_columns
from rocktools.sources.rocpd.facts import KernelSymbols, name_tool, read_kernel_symbols
from rocktools.sources.rocpd.parts import (
    LabelColumn,
    Part,
    filter_part,
    identity_columns,
    label_constant,
    label_ids,
    lookup,
    part_length,
    sort_part,
)
from rocktools.sources.rocpd.schema import ProcessTables, Table, quote_name
from rocktools.sources.rocpd.strings import read_strings

_RECORDED = {
    "dispatch_id": "dispatch_id",
    "agent_id": "agent_id",
    "kernel_id": "kernel_id",
    "start_ns": "start",
    "end_ns": "end",
    "queue_id": "queue_id",
    "stream_id": "stream_id",
    "thread_id": "tid",
    "grid_workitems_x": "grid_size_x",
    "grid_workitems_y": "grid_size_y",
    "grid_workitems_z": "grid_size_z",
    "workgroup_workitems_x": "workgroup_size_x",
    "workgroup_workitems_y": "workgroup_size_y",
    "workgroup_workitems_z": "workgroup_size_z",
    "lds_bytes": "group_segment_size",
    "scratch_bytes": "private_segment_size",
    "graph_exec_id": "graph_exec_id",
    "graph_node_id": "graph_node_id",
    "replay_pass": "replay_pass",
}
_REQUIRED = ("dispatch_id", "agent_id", "kernel_id", "start_ns", "end_ns")
_ZERO_IS_NONE = ("graph_exec_id", "graph_node_id")
_SYMBOL_FACTS = ("vgpr_count", "agpr_count", "sgpr_count")
_NAMES = ("kernel_name", "raw_kernel_name")


def read_dispatches(
    reader: TableReader, process: ProcessTables, run: str, columns: Iterable[str] | None = None
) -> Part:
    """The DISPATCHES rows of a traced process that has a dispatch table, in the order of the frame.

    Args:
        columns: columns wanted beside the key; None for all.

    Raises:
        DamagedFile: SQLite cannot read the tables, or they lack a column that no dispatch can do without.
    """
    selected = DISPATCHES.select(columns)
    part = sort_part(_read(reader, process, run, set(selected)), ("start_ns", "dispatch_id"))
    return {name: part[name] for name in selected}


def read_counted_dispatches(
    reader: TableReader, process: ProcessTables, run: str, pass_label: str, columns: Iterable[str] | None = None
) -> Part:
    """The COUNTED_DISPATCHES rows of a counter pass; its times go by other names, so that none is taken for a time.

    Raises: as `read_dispatches`.
    """
    renamed = {"pass_start_ns": "start_ns", "pass_end_ns": "end_ns"}
    selected = COUNTED_DISPATCHES.select(columns)
    part = _read(reader, process, run, {renamed.get(name, name) for name in selected} - {"pass"})
    part = dict(sort_part(part, ("start_ns", "dispatch_id", "replay_pass")))
    for counted, traced in renamed.items():
        part[counted] = part.pop(traced)
    part["pass"] = label_constant(pass_label, part_length(part))
    return {name: part[name] for name in selected}


def count_rows(reader: TableReader, table: Table) -> int:
    """Rows of a table.

    Raises:
        DamagedFile: SQLite cannot read it.
    """
    return int(reader.scalar(f"SELECT count(*) FROM {table.quoted}"))


def _read(reader: TableReader, process: ProcessTables, run: str, selected: set[str]) -> Part:
    """The selected columns and those that decide which rows there are, and in which order."""
    table = process.tables["kernel_dispatch"]
    rows_count = count_rows(reader, table)
    part: dict[str, Any] = _read_recorded(reader, table, (selected | {*_REQUIRED}) & set(_RECORDED), rows_count)
    if selected & {*_NAMES, *_SYMBOL_FACTS}:
        _add_symbol_columns(part, read_kernel_symbols(reader, process, run), selected)
    if "range" in selected:
        part["range"] = read_range_names(reader, process, table, rows_count)
    if "host_call_id" in selected:
        stacks = {"stack": "stack_id", "parent": "parent_stack_id"}
        events = read_event_columns(reader, process, "kernel_dispatch", stacks, rows_count)
        part["host_call_id"] = find_launches(reader, process, events["stack"], events["parent"])
    part.update(identity_columns(process.label, run, rows_count))
    return drop_unusable_rows(reader, part, _REQUIRED, table)


def _read_recorded(reader: TableReader, table: Table, wanted: set[str], rows_count: int) -> dict[str, IntColumn]:
    recorded = {name: _RECORDED[name] for name in wanted}
    if recorded.get("dispatch_id") == "dispatch_id" and "dispatch_id" not in table.columns:
        recorded["dispatch_id"] = "id"
    return read_recorded_columns(reader, table, recorded, _REQUIRED, rows_count, zero_is_none=_ZERO_IS_NONE)


def read_recorded_columns(
    reader: TableReader,
    table: Table,
    recorded: dict[str, str],
    required: Iterable[str],
    rows_count: int,
    *,
    zero_is_none: Iterable[str] = (),
) -> dict[str, IntColumn]:
    """Columns of a table under the names of a frame; those that the table lacks are all missing.

    Args:
        recorded: frame column -> table column.
        required: frame columns that no row can do without.
        zero_is_none: frame columns in which the writer's 0 means "none".

    Raises:
        DamagedFile: SQLite cannot read it, or a required column is not there.
    """
    for name in required:
        if name in recorded and recorded[name] not in table.columns:
            raise DamagedFile(
                "rocpd-columns",
                f"the table has no column {recorded[name]!r}",
                where=f"{reader.path}, table {table.name}",
            )
    present = {name: column for name, column in recorded.items() if column in table.columns}
    fields = [Field(name, quote_name(column), table.columns[column].is_nullable) for name, column in present.items()]
    columns = reader.ints(table.in_order, fields, rows_count=rows_count) if fields else {}
    for name in zero_is_none:
        if name in columns:
            values = columns[name].values
            columns[name] = IntColumn(values, columns[name].missing | (values == 0))
    return {name: columns[name] if name in columns else absent_column(rows_count) for name in recorded}


def drop_unusable_rows(reader: TableReader, part: Part, required: Iterable[str], table: Table) -> Part:
    """The rows that have every required value; what is left out becomes a finding."""
    is_unusable: np.ndarray | None = None
    for name in required:
        column = part.get(name)
        if isinstance(column, IntColumn) and column.is_missing is not None:
            is_unusable = column.is_missing if is_unusable is None else is_unusable | column.is_missing
    if is_unusable is None or not is_unusable.any():
        return part
    lost = int(is_unusable.sum())
    reader.findings.append(
        Finding(
            rule="rows-without-times-or-ids",
            severity=Severity.FAULT,
            where=f"{reader.path}, table {table.name}",
            message=f"{lost:,} of {len(is_unusable):,} rows lack an id or a time and are left out",
            numbers={"lost_count": lost, "rows_count": len(is_unusable)},
        )
    )
    return filter_part(part, ~is_unusable)


def _add_symbol_columns(part: dict[str, Any], symbols: KernelSymbols, selected: set[str]) -> None:
    kernel_ids: IntColumn = part["kernel_id"]
    if "kernel_name" in selected:
        names: dict[int, str | None] = dict(symbols.clean_names)
        names.update({key: f"kernel_{key}" for key in np.unique(kernel_ids.values).tolist() if key not in names})
        part["kernel_name"] = label_ids(kernel_ids, names)
    if "raw_kernel_name" in selected:
        part["raw_kernel_name"] = label_ids(kernel_ids, symbols.raw_names)
    for name in selected & set(_SYMBOL_FACTS):
        part[name] = lookup(symbols.ids, symbols.part[name], kernel_ids)


def read_range_names(reader: TableReader, process: ProcessTables, table: Table, rows_count: int) -> LabelColumn:
    """The roctx range around each row; rocprof-sys keeps another name there, so its files give none."""
    if "region_name_id" not in table.columns or name_tool(process) == "rocprof-sys":
        return label_constant(None, rows_count)
    field = Field("range", "region_name_id", is_nullable=True)
    ids = reader.ints(table.in_order, [field], rows_count=rows_count)["range"]
    return label_ids(ids, read_strings(reader, process, ids))
