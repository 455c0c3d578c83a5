"""A table as CSV (RFC 4180): full column names with their units, exact values, missing is an empty field.

Two columns are added at the end, `evidence` and `is_simulated`, so that a file says what it is when it travels alone; a
frame that has a column of that name keeps its own, which is finer.
"""

from __future__ import annotations

import csv
from itertools import repeat
from typing import TextIO

from rocktools.render.table import Table, table_evidence
from rocktools.render.values import python_values

_CHUNK_ROWS = 50_000  # bounds the memory that Python objects take


def write_csv(table: Table, stream: TextIO) -> None:
    """Write the rows, header first. The stream must not translate line ends (`newline=""`)."""
    names = [column.name for column in table.columns]
    labels = {"evidence": table_evidence(table).value, "is_simulated": table.is_simulated}
    labels = {name: value for name, value in labels.items() if name not in names}
    writer = csv.writer(stream)
    writer.writerow([*names, *labels])
    for first in range(0, len(table.frame), _CHUNK_ROWS):
        chunk = table.frame.iloc[first : first + _CHUNK_ROWS]
        columns = [python_values(chunk[name]) for name in names]
        constants = [repeat(value, len(chunk)) for value in labels.values()]
        writer.writerows(zip(*columns, *constants, strict=True))
