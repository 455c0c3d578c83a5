"""The string pool of a process: only the strings that are asked for are read."""

from __future__ import annotations

import numpy as np

from rocktools.sources.rocpd.columns import IntColumn, TableReader
from rocktools.sources.rocpd.schema import ProcessTables

# SQLite's default limit on variables and expression size is far above this.
_IDS_PER_QUERY = 5_000


def read_strings(reader: TableReader, process: ProcessTables, ids: IntColumn) -> dict[int, str | None]:
    """The strings behind string ids; the empty string counts as missing, as rocprofv3 writes it for "none".

    Args:
        ids: any number of ids, repeated or missing ones too.

    Returns:
        id -> string for each id that the pool has.

    Raises:
        DamagedFile: SQLite cannot read the pool.
    """
    table = process.tables.get("string")
    if table is None or not process.has("string", "id", "string"):
        return {}
    wanted = np.unique(ids.values if ids.is_missing is None else ids.values[~ids.is_missing]).tolist()
    found: dict[int, str | None] = {}
    for start in range(0, len(wanted), _IDS_PER_QUERY):
        listed = ", ".join(map(str, wanted[start : start + _IDS_PER_QUERY]))
        rows = reader.rows(f"SELECT id, string FROM {table.quoted} WHERE id IN ({listed})")
        found.update((int(key), text if isinstance(text, str) and text else None) for key, text in rows)
    return found


def find_string_ids(reader: TableReader, process: ProcessTables, pattern: str) -> list[int]:
    """Ids of the strings that contain `pattern` (SQL LIKE, letters of either case), for small sets such as categories.

    Raises:
        DamagedFile: SQLite cannot read the pool.
    """
    table = process.tables.get("string")
    if table is None or not process.has("string", "id", "string"):
        return []
    quoted = pattern.replace("'", "''")
    rows = reader.rows(f"SELECT id FROM {table.quoted} WHERE string LIKE '%{quoted}%'")
    return [key for (key,) in rows if isinstance(key, int)]
