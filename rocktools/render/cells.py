"""Values of a table as people read them: scaled, with units, in one line. Every rendering for people uses these."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import pandas as pd

from rocktools.render.table import ColumnKind, TableColumn
from rocktools.render.values import python_values
from rocktools.units import NS_PER_S, PS_PER_NS, SUFFIXES, format_count, format_duration, format_ratio, format_si

MISSING = "—"
SIMULATED = "SIMULATED: no hardware produced these numbers"

_SCALED = (ColumnKind.DURATION, ColumnKind.BYTES, ColumnKind.QUANTITY, ColumnKind.RATIO)
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def column_texts(series: pd.Series, column: TableColumn) -> list[str]:
    """The cells of a column."""
    as_text = _formatter(column)
    return [MISSING if value is None else as_text(value) for value in python_values(series)]


def column_headers(columns: Sequence[TableColumn]) -> list[str]:
    """Column names without the unit where every cell carries it; the full name where two would look alike."""
    short = [_header(column) for column in columns]
    uses = Counter(short)
    return [text if uses[text] == 1 else column.name for text, column in zip(short, columns, strict=True)]


def _header(column: TableColumn) -> str:
    if column.kind in _SCALED:
        suffixes = [suffix for suffix in SUFFIXES if column.name.endswith(suffix)]
    else:
        suffixes = ["_count"] if column.kind is ColumnKind.COUNT else []
    return column.name.removesuffix(max(suffixes, key=len, default="")) or column.name


def _formatter(column: TableColumn) -> Callable[[object], str]:
    """How a value of this column is written; texts and infinities stay as they are."""
    scaled = _number_formatter(column)

    def as_text(value: object) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, (int, float)) and math.isfinite(value):
            return scaled(value)
        return printable(str(value))

    return as_text


def _number_formatter(column: TableColumn) -> Callable[[int | float], str]:
    match column.kind:
        case ColumnKind.DURATION if column.unit == "s":
            return lambda value: format_duration(value * NS_PER_S)
        case ColumnKind.DURATION if column.unit == "ps":
            return lambda value: format_duration(value / PS_PER_NS)
        case ColumnKind.DURATION:
            return format_duration
        case ColumnKind.BYTES:
            return lambda value: format_si(value, "B")
        case ColumnKind.QUANTITY:
            return lambda value: format_si(value, column.unit or "").rstrip()
        case ColumnKind.RATIO:
            return format_ratio
        case ColumnKind.COUNT | ColumnKind.NUMBER:
            return _format_number
        case _:
            return str


def _format_number(value: int | float) -> str:
    """Exact with thousands separated if whole, else six significant digits."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 2**53):
        return format_count(int(value))
    return f"{value:.6g}"


def printable(text: str) -> str:
    """`text` in one line, control characters (that could move the cursor) spelled out."""
    return text if text.isprintable() else text.translate(_CONTROLS)


def evidence_line(columns: Sequence[TableColumn]) -> str:
    """`evidence: measured`, or the columns of each: `evidence: measured (sum_ns), analytic (bound_ns)`."""
    names: dict[str, list[str]] = {}
    for column in columns:
        names.setdefault(column.evidence.value, []).append(column.name)
    if len(names) == 1:
        return f"evidence: {next(iter(names))}"
    return "evidence: " + "; ".join(f"{evidence} ({', '.join(of)})" for evidence, of in names.items())
