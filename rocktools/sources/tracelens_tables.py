"""Sheets that TraceLens's report of a JAX profile wrote as CSV -> rows by the names of their columns.

Read are `gpu_timeline.csv` and `gpu_events_averages.csv` (type, time ms, percent) and
`kernel_launchers_summary.csv` and `kernel_launchers_summary_by_category.csv` (name or op category, Count,
total_direct_kernel_time_ms, Percentage (%)); columns that are not needed may be missing. Its other sheets hold what it
estimates for single operations, and are named only.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rocktools.errors import DamagedFile, InputError, NothingToRead

SHEETS: Mapping[str, tuple[str, ...]] = {
    "gpu_timeline": ("type", "time ms"),
    "gpu_events_averages": ("type", "time ms"),
    "kernel_launchers_summary": ("name", "Count", "total_direct_kernel_time_ms"),
    "kernel_launchers_summary_by_category": ("op category", "Count", "total_direct_kernel_time_ms"),
}
"""Sheet -> the columns that it must have."""

_LONGEST_CELL = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLensTables:
    """What lies in a folder.

    Attributes:
        sheets: name -> rows.
        others: sheets that are not compared.
    """

    sheets: Mapping[str, tuple[Mapping[str, str], ...]]
    others: tuple[str, ...] = ()


def read_tracelens_tables(folder: Path) -> TraceLensTables:
    """The sheets in a folder.

    Raises:
        InputError: the folder, or a sheet, cannot be read.
        NothingToRead: there is none.
        DamagedFile: a sheet lacks a column, or a number is none.
    """
    if not folder.is_dir():
        raise InputError("no-such-folder", "there is no such folder", where=str(folder))
    found = {name: folder / f"{name}.csv" for name in SHEETS if (folder / f"{name}.csv").is_file()}
    if not found:
        raise NothingToRead(
            "no-tracelens-tables",
            f"there is no sheet of TraceLens here: none of {', '.join(f'{name}.csv' for name in SHEETS)}",
            where=str(folder),
            hint="TraceLens writes them with --output_csvs_dir",
        )
    others = tuple(sorted(path.name for path in folder.glob("*.csv") if path.stem not in SHEETS))
    return TraceLensTables(sheets={name: _read(path, SHEETS[name]) for name, path in found.items()}, others=others)


def _read(path: Path, columns: tuple[str, ...]) -> tuple[Mapping[str, str], ...]:
    csv.field_size_limit(_LONGEST_CELL)
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise DamagedFile("tracelens-sheet", f"the sheet lacks the column {missing[0]!r}", where=str(path))
            rows = tuple(reader)
    except OSError as error:
        raise InputError("cannot-read", f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DamagedFile("tracelens-sheet", f"this is no CSV: {error}", where=str(path)) from error
    for line, row in enumerate(rows, start=2):
        for name in columns[1:]:
            try:
                float(row[name])
            except (TypeError, ValueError) as error:
                raise DamagedFile(
                    "tracelens-sheet", f"{row[name]!r} under {name!r} is no number", where=f"{path}: line {line}"
                ) from error
    return rows
