"""rocpd_event: what ties a row of a big table to its category and to the host calls around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rocktools.sources.rocpd.columns import Field, IntColumn, TableReader, absent_column
from rocktools.sources.rocpd.parts import Part, find_positions
from rocktools.sources.rocpd.schema import ProcessTables
from rocktools.sources.rocpd.strings import find_string_ids

# No real nesting of host calls is as deep; it ends the climb in a file whose calls are each other's ancestors.
_MAX_CLIMB = 64


def read_event_columns(
    reader: TableReader, process: ProcessTables, base: str, wanted: dict[str, str], rows_count: int
) -> dict[str, IntColumn]:
    """Columns of the event behind each row of a table, in the order of the rows.

    Args:
        base: base name of the table that has `event_id`.
        wanted: result name -> column of rocpd_event.
        rows_count: rows of that table.

    Returns:
        The columns; all missing where the file has no such table or column.

    Raises:
        DamagedFile: SQLite cannot read the tables.
    """
    table, event = process.tables[base], process.tables.get("event")
    names = [name for name, column in wanted.items() if event is not None and column in event.columns]
    columns = {name: absent_column(rows_count) for name in wanted}
    if event is not None and "event_id" in table.columns and "id" in event.columns and names:
        from_sql = f"{table.quoted} AS main NOT INDEXED LEFT JOIN {event.quoted} AS event ON event.id = main.event_id"
        fields = [Field(name, f"event.{wanted[name]}", is_nullable=True) for name in names]
        columns.update(reader.ints(from_sql, fields, rows_count=rows_count))
    return columns


def roctx_categories(reader: TableReader, process: ProcessTables) -> list[int]:
    """Category ids of roctx ranges and marks.

    Where rocprofv3 records MARKER_CORE_RANGE_API, the single calls (MARKER_CORE_API) say the same once more, and are
    host calls like others.

    Raises:
        DamagedFile: SQLite cannot read the tables.
    """
    ranges = find_string_ids(reader, process, "MARKER_CORE_RANGE_API")
    if ranges and process.has("event", "category_id"):
        listed = ", ".join(map(str, ranges))
        query = f"SELECT 1 FROM {process.tables['event'].quoted} WHERE category_id IN ({listed}) LIMIT 1"
        if reader.scalar(query) is not None:
            return ranges
    return [
        *find_string_ids(reader, process, "MARKER_CORE_API"),
        *find_string_ids(reader, process, "rocm_marker_api"),
    ]


def has_category(part: Part, categories: Sequence[int]) -> np.ndarray:
    """For each row of a part with `category_id`: whether its category is one of these."""
    column: IntColumn = part["category_id"]
    return np.asarray(np.isin(column.values, categories) & ~column.missing)


def find_launches(
    reader: TableReader, process: ProcessTables, stack_ids: IntColumn, parent_ids: IntColumn
) -> IntColumn:
    """The HIP call that launched each dispatch: climb from the innermost traced call until a call of the HIP runtime.

    With HSA tracing on the innermost call is a doorbell (`hsa_signal_store_screlease`), not the launch. Several
    dispatches may share one call (a graph launch).

    Args:
        stack_ids, parent_ids: of the dispatches' own events.

    Returns:
        Region ids (HOST_CALLS.host_call_id); missing where no HIP call was traced above the dispatch.

    Raises:
        DamagedFile: SQLite cannot read the tables.
    """
    rows_count = len(stack_ids)
    calls = _read_calls(reader, process)
    if calls is None:
        return absent_column(rows_count)
    launches = np.zeros(rows_count, dtype=np.int64)
    is_missing = np.ones(rows_count, dtype=np.bool_)
    climbing = np.arange(rows_count)
    at, above = stack_ids.where_missing(0), parent_ids.where_missing(0)
    for _ in range(_MAX_CLIMB):
        positions = find_positions(calls.stack_ids, IntColumn(at))
        is_known = positions < len(calls.stack_ids)
        known = np.minimum(positions, len(calls.stack_ids) - 1)
        is_launch = is_known & calls.is_hip[known]
        launches[climbing[is_launch]] = calls.ids[known[is_launch]]
        is_missing[climbing[is_launch]] = False
        # A call that was not traced itself may still have a traced parent, named by the row we come from.
        following = np.where(is_known, calls.parent_ids[known], above)
        is_going_on = ~is_launch & (following > 0) & (following != at)
        if not is_going_on.any():
            break
        climbing, at = climbing[is_going_on], following[is_going_on]
        above = np.zeros(len(at), dtype=np.int64)
    return IntColumn(launches, is_missing if is_missing.any() else None)


@dataclass(frozen=True, slots=True)
class _Calls:
    """Host calls by ascending stack id, each once; the arrays are equally long and not empty."""

    stack_ids: np.ndarray
    parent_ids: np.ndarray
    ids: np.ndarray
    is_hip: np.ndarray


def _read_calls(reader: TableReader, process: ProcessTables) -> _Calls | None:
    """The calls with a stack id; None where there are none, or none of them can be of HIP."""
    hip_categories = [
        *find_string_ids(reader, process, "hip_runtime"),
        *find_string_ids(reader, process, "rocm_hip_api"),
    ]
    if not hip_categories or not process.has("region", "id", "event_id"):
        return None
    if not process.has("event", "id", "category_id", "stack_id", "parent_stack_id"):
        return None
    region, event = process.tables["region"], process.tables["event"]
    columns = reader.ints(
        f"{region.quoted} AS region JOIN {event.quoted} AS event ON event.id = region.event_id"
        " WHERE event.stack_id > 0",  # 0 is "no id": rocprof-sys writes it for all its markers
        [
            Field("id", "region.id"),
            Field("category", "event.category_id", is_nullable=True),
            Field("stack", "event.stack_id"),
            Field("parent", "event.parent_stack_id", is_nullable=True),
        ],
    )
    order = np.flatnonzero(~(columns["id"].missing | columns["stack"].missing))
    order = order[np.argsort(columns["stack"].values[order], kind="stable")]
    stack_ids, first = np.unique(columns["stack"].values[order], return_index=True)
    if len(stack_ids) == 0:
        return None
    order = order[first]
    return _Calls(
        stack_ids=stack_ids,
        parent_ids=columns["parent"].where_missing(0)[order],
        ids=columns["id"].values[order],
        is_hip=np.isin(columns["category"].where_missing(-1)[order], hip_categories),
    )
