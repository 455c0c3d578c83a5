"""A CSV file, packed with gzip or not -> its header and rows as text; what is no whole table is refused or told."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rocktools.errors import DamagedFile
from rocktools.findings import Finding, Severity
from rocktools.sources.packed import read_unpacked

_LONGEST_CELL = 1 << 20  # kernel names of templates are long


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFile:
    """The cells of a file.

    Attributes:
        header: names of the columns, as written.
        rows: as many cells each.
        findings: about a last row that was cut off.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    findings: tuple[Finding, ...] = ()

    def records(self) -> list[Mapping[str, str]]:
        """The rows by the names of their columns; of several columns of one name the first."""
        places = {name: place for place, name in reversed(list(enumerate(self.header)))}
        return [{name: row[place] for name, place in places.items()} for row in self.rows]


def read_csv_file(path: Path) -> CsvFile:
    """The table in a file.

    Raises:
        InputError: the file cannot be read.
        DamagedFile: it is empty, no text, no table, or its gzip stream is damaged.
    """
    content = read_unpacked(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DamagedFile("csv-damaged", "it is no text in UTF-8", where=f"{path}, byte {error.start:,}") from error
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        rows = [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise DamagedFile("csv-damaged", f"it is no whole CSV table: {error}", where=str(path)) from error
    finally:
        csv.field_size_limit(before)
    if not rows:
        raise DamagedFile("csv-damaged", "it is empty", where=str(path))
    header, *body = rows
    findings: list[Finding] = []
    # A number at the end of a line that was cut off is a number, and a wrong one.
    if body and not text.endswith(("\n", "\r")):
        body = body[:-1]
        findings.append(
            Finding(
                rule="csv-cut-off",
                severity=Severity.WARNING,
                where=str(path),
                message="its last line has no end, and is left out",
                numbers={"left_out_rows_count": 1},
                advice="was the program killed, or the disk full? Other rows may be missing too",
            )
        )
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise DamagedFile(
                "csv-damaged", f"row {number} has {len(row)} cells, not {len(header)} as the header", where=str(path)
            )
    return CsvFile(header=tuple(name.strip() for name in header), rows=tuple(body), findings=tuple(findings))
