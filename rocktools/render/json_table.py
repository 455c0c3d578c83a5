"""A table as a JSON document of schema `rocktools.table/1` (table.schema.json), written row by row.

Integers are exact, floats are the shortest text that reads back equal, missing is null. An infinite float is written as
1e999: JSON has no infinity, every reader of doubles turns that into one, and null would mean missing.

`findings` is there where the command looked for any.

History: 1 is the first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TextIO

import pandas as pd

from rocktools.render.table import Table
from rocktools.render.values import python_values

SCHEMA = "rocktools.table/1"

_encode = json.JSONEncoder(ensure_ascii=False).encode

_CHUNK_ROWS = 50_000  # bounds the memory that Python objects take


def write_json(table: Table, stream: TextIO) -> None:
    """Write the document; what describes the rows comes before them."""
    head = {
        "schema": SCHEMA,
        "name": table.name,
        "title": table.title,
        "is_simulated": table.is_simulated,
        "columns": [
            {
                "name": column.name,
                "unit": column.unit,
                "meaning": column.meaning,
                "evidence": column.evidence.value,
            }
            for column in table.columns
        ],
        "rows_count": table.rows_count,
        "cut_rows_count": table.cut_rows_count,
        "notes": list(table.notes),
    }
    if table.findings is not None:
        head["findings"] = [finding.as_dict() for finding in table.findings]
    stream.write(json.dumps(head, ensure_ascii=False, indent=1).removesuffix("\n}"))
    stream.write(',\n "rows": [')
    # One template for all rows: a dictionary per row, encoded by json, takes three times as long.
    names = [column.name for column in table.columns]
    template = "{" + ", ".join(f"{_token(name)}: ".replace("%", "%%") + "%s" for name in names) + "}"
    for first in range(0, len(table.frame), _CHUNK_ROWS):
        chunk = table.frame.iloc[first : first + _CHUNK_ROWS]
        rows = zip(*(_tokens(chunk[name]) for name in names), strict=True)
        stream.write("\n" if first == 0 else ",\n")
        stream.write(",\n".join([template % row for row in rows]))
    stream.write("\n ]\n}\n")


def write_json_tables(tables: Sequence[Table], stream: TextIO, *, schema: str, head: Mapping[str, object]) -> None:
    """Write one document of several tables: its schema, whether it is simulated, `head`, then the tables."""
    is_simulated = any(table.is_simulated for table in tables)
    document = {"schema": schema, "is_simulated": is_simulated, **head}
    stream.write(json.dumps(document, ensure_ascii=False, indent=1).removesuffix("\n}"))
    stream.write(',\n "tables": [\n')
    for position, table in enumerate(tables):
        if position:
            stream.write(",\n")
        write_json(table, stream)
    stream.write(" ]\n}\n")


def _tokens(series: pd.Series) -> list[str]:
    """The JSON text of each value."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        # A category is encoded once, however many rows it has; -1, missing, picks the last.
        tokens = [*map(_token, python_values(pd.Series(series.cat.categories))), "null"]
        return [tokens[code] for code in series.cat.codes]
    return [_token(value) for value in python_values(series)]


def _token(value: object) -> str:
    if value is None:
        return "null"
    if type(value) is int:
        return str(value)
    if type(value) is float:
        if math.isinf(value):
            return "1e999" if value > 0 else "-1e999"
        return repr(value)
    return _encode(value)
