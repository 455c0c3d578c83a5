"""Tables that xprof wrote beside a profile (kernel_stats, hlo_stats, framework_op_stats) -> rows by column id.

xprof hands its tables to charts: `{"cols": [{"id": ...}], "rows": [{"c": [{"v": ...}]}]}`; of framework_op_stats there
are two in a list, with idle time and without. A file is recognised by its name, whatever stands before or behind:
`host.kernel_stats.json`. Values stay as xprof wrote them, in its units; nothing is interpreted here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocktools.errors import DamagedFile, InputError, NothingToRead

TABLE_NAMES = ("kernel_stats", "hlo_stats", "framework_op_stats")
XprofRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class XprofTables:
    """What lies in a folder.

    Attributes:
        tables: name of a table -> its parts, each a list of rows; of most tables there is one part.
        paths: name of a table -> its file.
        others: files of xprof's that are no table of `TABLE_NAMES`.
    """

    tables: Mapping[str, tuple[tuple[XprofRow, ...], ...]]
    paths: Mapping[str, Path]
    others: tuple[str, ...] = field(default=())


def read_xprof_tables(folder: Path) -> XprofTables:
    """The tables in a folder.

    Raises:
        InputError: the folder, or a table, cannot be read.
        NothingToRead: there is none.
        DamagedFile: a table is no table; or there are two of one name.
    """
    if not folder.is_dir():
        raise InputError("no-such-folder", "there is no such folder", where=str(folder))
    found: dict[str, Path] = {}
    others: list[str] = []
    for path in sorted(folder.iterdir()):
        name = next((name for name in TABLE_NAMES if name in path.name), None)
        if name is None or path.suffix != ".json":
            others += [path.name] if path.is_file() else []
            continue
        if name in found:
            raise DamagedFile(
                "two-tables", f"there are two tables {name}: {found[name].name} and {path.name}", where=str(folder)
            )
        found[name] = path
    if not found:
        raise NothingToRead(
            "no-xprof-tables",
            f"there is no table of xprof here: none of {', '.join(f'*{name}*.json' for name in TABLE_NAMES)}",
            where=str(folder),
            hint="xprof writes them as JSON from its web page, or by its converters",
        )
    return XprofTables(
        tables={name: _read_parts(path) for name, path in found.items()}, paths=found, others=tuple(others)
    )


def _read_parts(path: Path) -> tuple[tuple[XprofRow, ...], ...]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("cannot-read", f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise DamagedFile("xprof-table", f"this is no JSON: {error}", where=str(path)) from error
    parts = document if isinstance(document, list) else [document]
    return tuple(_rows_of(part, path) for part in parts)


def _rows_of(part: Any, path: Path) -> tuple[XprofRow, ...]:
    try:
        names = [str(column["id"]) for column in part["cols"]]
        rows = []
        for row in part["rows"]:
            cells = row["c"]
            if len(cells) != len(names):
                raise ValueError(f"a row has {len(cells)} cells, not {len(names)}")
            rows.append(
                {name: None if cell is None else cell.get("v") for name, cell in zip(names, cells, strict=True)}
            )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DamagedFile(
            "xprof-table", f"this is no table with `cols` and `rows` as xprof writes it: {error}", where=str(path)
        ) from error
    return tuple(rows)
