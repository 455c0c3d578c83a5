"""What the host did: API calls, roctx ranges and marks -> HOST_CALLS, RANGES.

Regions are host intervals of every kind; their event's category tells which. Categories of roctx: MARKER_CORE_RANGE_API
(push to pop, start to stop) and MARKER_CORE_API (single calls and marks) of rocprofv3, whose text is in the event's
extdata; `rocm_marker_api` of rocprof-sys, whose text is the region's name. Where rocprofv3 records a range, its
single push call would say the same text twice, so calls count as ranges only in files without ranges.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rocktools.frames import HOST_CALLS, RANGES
from rocktools.sources.rocpd.columns import IntColumn, TableReader, absent_column
from rocktools.sources.rocpd.dispatches import count_rows, drop_unusable_rows, read_recorded_columns
from rocktools.sources.rocpd.events import has_category, read_event_columns, roctx_categories
from rocktools.sources.rocpd.parts import (
    LabelColumn,
    Part,
    filter_part,
    identity_columns,
    label_constant,
    label_ids,
    label_values,
    sort_part,
)
from rocktools.sources.rocpd.samples import read_sample_columns
from rocktools.sources.rocpd.schema import ProcessTables, parse_extdata
from rocktools.sources.rocpd.strings import read_strings

_REGION_COLUMNS = {
    "region_id": "id",
    "start_ns": "start",
    "end_ns": "end",
    "name_id": "name_id",
    "thread_id": "tid",
}
_REGION_REQUIRED = ("region_id", "start_ns", "end_ns", "name_id")
_EVENT_COLUMNS = {"category_id": "category_id", "stack_id": "stack_id", "parent_stack_id": "parent_stack_id"}


def read_host_calls(
    reader: TableReader, process: ProcessTables, run: str, columns: Iterable[str] | None = None
) -> Part:
    """The HOST_CALLS rows of a process with a region table: every region that is no roctx range.

    Raises:
        DamagedFile: SQLite cannot read the tables, or they lack a column that no region can do without.
    """
    selected = HOST_CALLS.select(columns)
    regions = _read_regions(reader, process)
    part = dict(filter_part(regions, ~has_category(regions, roctx_categories(reader, process))))
    part["host_call_id"] = part.pop("region_id")
    name_ids, categories, parents = (part.pop(name) for name in ("name_id", "category_id", "parent_stack_id"))
    part["name"] = _name_or_number(reader, process, name_ids, "call")
    part["domain"] = label_ids(categories, read_strings(reader, process, categories))
    part["parent_stack_id"] = IntColumn(parents.values, parents.missing | (parents.values == 0))
    part.update(identity_columns(process.label, run, len(part["host_call_id"])))
    return sort_part({name: part[name] for name in selected}, ("start_ns", "host_call_id"))


def read_ranges(reader: TableReader, process: ProcessTables, run: str) -> Part:
    """The RANGES rows of a process: roctx ranges from regions, roctx marks from samples.

    Raises: as `read_host_calls`.
    """
    pieces = []
    categories = roctx_categories(reader, process)
    if "region" in process.tables:
        regions = _read_regions(reader, process)
        pieces.append(_ranges_from(reader, process, filter_part(regions, has_category(regions, categories)), "range"))
    if "sample" in process.tables:
        samples = read_sample_columns(reader, process)
        marks = dict(filter_part(samples, has_category(samples, categories)))
        marks = {
            "region_id": marks["sample_id"],
            "start_ns": marks["time_ns"],
            "end_ns": marks["time_ns"],
            "name_id": marks["name_id"],
            "thread_id": marks["thread_id"],
        }
        pieces.append(_ranges_from(reader, process, marks, "mark"))
    part = _stack_pieces(pieces)
    part.update(identity_columns(process.label, run, len(part["range_id"])))
    return sort_part({name: part[name] for name in RANGES.names}, ("start_ns", "range_id"))


def _read_regions(reader: TableReader, process: ProcessTables) -> Part:
    table = process.tables["region"]
    rows_count = count_rows(reader, table)
    part: dict[str, Any] = read_recorded_columns(reader, table, _REGION_COLUMNS, _REGION_REQUIRED, rows_count)
    part.update(read_event_columns(reader, process, "region", _EVENT_COLUMNS, rows_count))
    return drop_unusable_rows(reader, part, _REGION_REQUIRED, table)


def _ranges_from(reader: TableReader, process: ProcessTables, rows: Part, kind: str) -> dict[str, Any]:
    ids, name_ids = rows["region_id"], rows["name_id"]
    messages = _read_messages(reader, process, "region" if kind == "range" else "sample", ids)
    pool = read_strings(reader, process, name_ids)
    names = [
        messages.get(row_id) or pool.get(name_id) or f"{kind}_{row_id}"
        for row_id, name_id in zip(ids.values.tolist(), name_ids.where_missing(-1).tolist(), strict=True)
    ]
    return {
        "kind": label_constant(kind, len(ids)),
        "range_id": ids,
        "name": label_values(names),
        "thread_id": rows["thread_id"],
        "start_ns": rows["start_ns"],
        "end_ns": rows["end_ns"],
    }


def _read_messages(reader: TableReader, process: ProcessTables, base: str, ids: IntColumn) -> dict[int, str]:
    """Row id -> the text that the job gave to roctx; only rows of markers are read, for extdata is long elsewhere."""
    table, event = process.tables[base], process.tables.get("event")
    categories = roctx_categories(reader, process)
    if event is None or not categories or not process.has("event", "id", "category_id", "extdata"):
        return {}
    if not process.has(base, "id", "event_id"):
        return {}
    rows = reader.rows(
        f"SELECT main.id, event.extdata FROM {table.quoted} AS main JOIN {event.quoted} AS event"
        f" ON event.id = main.event_id WHERE event.category_id IN ({', '.join(map(str, categories))})"
        " AND event.extdata LIKE '%message%'"
    )
    wanted = set(ids.values.tolist())
    texts = {key: parse_extdata(text).get("message") for key, text in rows if key in wanted}
    return {key: text for key, text in texts.items() if isinstance(text, str) and text}


def _stack_pieces(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """Ranges and marks of one process as one part."""
    if not pieces:
        pieces = [
            {
                **dict.fromkeys(("kind", "name"), label_constant(None, 0)),
                **dict.fromkeys(("range_id", "thread_id", "start_ns", "end_ns"), absent_column(0)),
            }
        ]
    stacked: dict[str, Any] = {}
    for name in pieces[0]:
        columns = [piece[name] for piece in pieces]
        if isinstance(columns[0], LabelColumn):
            labels = [column.names[code] if code >= 0 else None for column in columns for code in column.codes.tolist()]
            stacked[name] = label_values(labels)
        else:
            values = np.concatenate([column.values for column in columns])
            stacked[name] = IntColumn(values, np.concatenate([column.missing for column in columns]))
    return stacked


def _name_or_number(reader: TableReader, process: ProcessTables, name_ids: IntColumn, kind: str) -> LabelColumn:
    names = read_strings(reader, process, name_ids)
    numbered: dict[int, str | None] = {
        key: names.get(key) or f"{kind}_{key}" for key in np.unique(name_ids.values).tolist()
    }
    return label_ids(name_ids, numbered)
