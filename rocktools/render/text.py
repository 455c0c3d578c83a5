"""A table as plain text for people: aligned, scaled, cut with a count of what was cut. No colours, no control codes.

Drawn here and not by rich's Table, which takes some 85 µs per cell (half a minute for a trace of 20,000 dispatches) and
wraps numbers or drops columns when the terminal is narrow; of rich we need only how wide a character is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from rocktools.render.table import ColumnKind, Table, TableColumn
from rocktools.render.values import is_number_dtype, python_values
from rocktools.units import NS_PER_S, SUFFIXES, format_count, format_duration, format_ratio, format_si

MISSING = "—"
ELLIPSIS = "…"
SIMULATED = "SIMULATED: no hardware produced these numbers"

_GAP = "  "
_SHORTEST_NAME_CELLS = 24  # below this, kernel names of one family look alike
_SCALED = (ColumnKind.DURATION, ColumnKind.BYTES, ColumnKind.QUANTITY, ColumnKind.RATIO)
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def render_text(table: Table, *, width: int) -> str:
    """The table in lines of at most `width` cells where that is possible.

    Only columns of kind `name` are shortened, in the middle. If that is not enough the lines are longer than `width`:
    nothing is dropped, wrapped or cut instead.
    """
    headers = _headers(table.columns)
    described = zip(table.columns, headers, strict=True)
    blocks = [_block(table.frame[column.name], column, header) for column, header in described]
    blocks = _fit(blocks, width)
    lines = [_printable(table.title)]
    if table.is_simulated:
        lines.insert(0, SIMULATED)
    lines += ["", *_joined([block.lines() for block in blocks])]
    if table.frame.empty:
        lines.append("no rows")
    lines += ["", *_footer(table)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """One column as text: its header and its cells, not yet padded."""

    header: str
    cells: Sequence[str]
    is_right: bool
    is_name: bool

    @property
    def width(self) -> int:
        return max(map(_cells_count, (self.header, *self.cells)))

    def shortened(self, width: int) -> _Block:
        cells = [shorten_middle(cell, width) for cell in self.cells]
        return _Block(header=self.header, cells=cells, is_right=self.is_right, is_name=self.is_name)

    def lines(self) -> list[str]:
        """Header, rule and cells, all of one width."""
        width = self.width
        padded = []
        for text in (self.header, "─" * width, *self.cells):
            padding = " " * (width - _cells_count(text))
            padded.append(padding + text if self.is_right else text + padding)
        return padded


def shorten_middle(text: str, width: int) -> str:
    """`text` in at most `width` cells, the middle replaced by an ellipsis where it is longer."""
    if _cells_count(text) <= width:
        return text
    room = width - 1
    head = _prefix(text, (room + 1) // 2)
    tail = text[-(room // 2) :] if room > 1 else ""
    # Counted together: some characters change the width of the one before them.
    while tail and _cells_count(head + ELLIPSIS + tail) > width:
        tail = tail[1:]
    return head + ELLIPSIS + tail


def _prefix(text: str, width: int) -> str:
    """The longest beginning of `text` that takes at most `width` cells."""
    taken = text[:width]
    while _cells_count(taken) > width:
        taken = taken[:-1]
    return taken


def _cells_count(text: str) -> int:
    """Terminal cells that `text` takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # here, since most tables are ASCII and never need it

    return cell_len(text)


def _printable(text: str) -> str:
    """`text` in one line, control characters (that could move the cursor) spelled out."""
    return text if text.isprintable() else text.translate(_CONTROLS)


def _headers(columns: Sequence[TableColumn]) -> list[str]:
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


def _block(series: pd.Series, column: TableColumn, header: str) -> _Block:
    as_text = _formatter(column)
    cells = [MISSING if value is None else as_text(value) for value in python_values(series)]
    return _Block(
        header=header, cells=cells, is_right=is_number_dtype(series.dtype), is_name=column.kind is ColumnKind.NAME
    )


def _formatter(column: TableColumn) -> Callable[[object], str]:
    """How a value of this column is written; texts and infinities stay as they are."""
    scaled = _number_formatter(column)

    def as_text(value: object) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, (int, float)) and math.isfinite(value):
            return scaled(value)
        return _printable(str(value))

    return as_text


def _number_formatter(column: TableColumn) -> Callable[[int | float], str]:
    match column.kind:
        case ColumnKind.DURATION if column.unit == "s":
            return lambda value: format_duration(value * NS_PER_S)
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


def _fit(blocks: Sequence[_Block], width: int) -> list[_Block]:
    """The blocks, name columns shortened, the widest first, until a line has at most `width` cells or none can give."""
    wanted = {index: block.width for index, block in enumerate(blocks)}
    excess = sum(wanted.values()) + len(_GAP) * (len(blocks) - 1) - width
    least = {
        index: max(_SHORTEST_NAME_CELLS, _cells_count(block.header))
        for index, block in enumerate(blocks)
        if block.is_name
    }
    for _ in range(excess):
        givers = [index for index in least if wanted[index] > least[index]]
        if not givers:
            break
        wanted[max(givers, key=wanted.__getitem__)] -= 1
    return [block.shortened(wanted[index]) if block.is_name else block for index, block in enumerate(blocks)]


def _joined(columns: Sequence[Sequence[str]]) -> list[str]:
    return [_GAP.join(cells) for cells in zip(*columns, strict=True)]


def _footer(table: Table) -> list[str]:
    lines = [_evidence_line(table.columns) + (", in a simulation" if table.is_simulated else "")]
    if table.cut_rows_count:
        shown, total = format_count(len(table.frame)), format_count(table.rows_count)
        lines.append(f"cut: showing {shown} of {total} rows; --top 0 shows all")
    return lines + [f"note: {_printable(note)}" for note in table.notes]


def _evidence_line(columns: Sequence[TableColumn]) -> str:
    """`evidence: measured`, or the columns of each: `evidence: measured (sum_ns), analytic (bound_ns)`."""
    names: dict[str, list[str]] = {}
    for column in columns:
        names.setdefault(column.evidence.value, []).append(column.name)
    if len(names) == 1:
        return f"evidence: {next(iter(names))}"
    return "evidence: " + "; ".join(f"{evidence} ({', '.join(of)})" for evidence, of in names.items())
