"""A table as plain text for people: aligned, scaled, cut with a count of what was cut. No colours, no control codes.

Drawn here and not by rich's Table, which takes some 85 µs per cell (half a minute for a trace of 20,000 dispatches) and
wraps numbers or silently drops columns when the terminal is narrow; of rich we need only how wide a character is.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from rocktools.render.cells import SIMULATED, column_headers, column_texts, evidence_line, printable
from rocktools.render.table import ColumnKind, Table, TableColumn
from rocktools.render.values import is_number_dtype
from rocktools.units import format_count

ELLIPSIS = "…"

_GAP = "  "
_SHORTEST_NAME_CELLS = 24  # below this, kernel names of one family look alike
# Of what is left of a name, the part that stands before the ellipsis. Names of one family differ in other places: HLO
# fusions at the end, GEMMs in the middle of the beginning, collectives before a long list of arguments.
_HEAD_SHARES = (0.5, 0.75, 0.25, 1.0, 0.0)


def render_text(table: Table, *, width: int, is_whole: bool = False, other_format: str = "csv") -> str:
    """The table in lines of at most `width` cells where that is possible.

    First columns of kind `name` are shortened, as far as values that differ still do; then `table.optional_columns` are
    left out, and named below. If that is not enough the lines are longer than `width`: nothing is wrapped or cut.

    Args:
        is_whole: whether to leave no column out.
        other_format: the format in which readers find the columns that are left out.
    """
    headers = column_headers(table.columns)
    described = zip(table.columns, headers, strict=True)
    blocks = {column.name: _block(table.frame[column.name], column, header) for column, header in described}
    blocks = _fit(blocks, width, () if is_whole else table.optional_columns)
    lines = [printable(table.title)]
    if table.is_simulated:
        lines.insert(0, SIMULATED)
    lines += ["", *_joined([block.lines() for block in blocks.values()])]
    if table.frame.empty:
        lines.append("no rows")
    lines += ["", *_footer(table, shown=[column for column in table.columns if column.name in blocks])]
    hidden = [column.name for column in table.columns if column.name not in blocks]
    if hidden:
        lines.append(f"hidden for width {width}: {', '.join(hidden)}; --format {other_format} has all")
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
        cells = shorten_distinct(self.cells, width) or self.cells
        return _Block(header=self.header, cells=cells, is_right=self.is_right, is_name=self.is_name)

    def least_width(self) -> int:
        """The width below which names would be too short, or two that differ would look alike."""
        width = self.width
        least = max(_SHORTEST_NAME_CELLS, _cells_count(self.header))
        if not self.is_name or width <= least:
            return width
        # A wider text never loses what told two apart, so one width parts those that do from those that do not.
        return least + bisect_left(
            range(least, width), True, key=lambda tried: shorten_distinct(self.cells, tried) is not None
        )

    def lines(self) -> list[str]:
        """Header, rule and cells, all of one width."""
        width = self.width
        padded = []
        for text in (self.header, "─" * width, *self.cells):
            padding = " " * (width - _cells_count(text))
            padded.append(padding + text if self.is_right else text + padding)
        return padded


def shorten_middle(text: str, width: int, *, head_share: float = 0.5) -> str:
    """`text` in at most `width` cells, the middle replaced by an ellipsis where it is longer.

    Args:
        head_share: how much of what is left stands before the ellipsis; 1: all, 0: nothing.
    """
    if _cells_count(text) <= width:
        return text
    room = width - 1
    head_room = math.ceil(room * head_share)
    head = _prefix(text, head_room)
    tail = text[-(room - head_room) :] if room > head_room else ""
    # Counted together: some characters change the width of the one before them.
    while tail and _cells_count(head + ELLIPSIS + tail) > width:
        tail = tail[1:]
    return head + ELLIPSIS + tail


def shorten_distinct(texts: Sequence[str], width: int) -> list[str] | None:
    """The texts in at most `width` cells, cut in the same place; None where two that differ would look alike."""
    for head_share in _HEAD_SHARES:
        short = {text: shorten_middle(text, width, head_share=head_share) for text in dict.fromkeys(texts)}
        if len(set(short.values())) == len(short):
            return [short[text] for text in texts]
    return None


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


def _block(series: pd.Series, column: TableColumn, header: str) -> _Block:
    cells = column_texts(series, column)
    return _Block(
        header=header, cells=cells, is_right=is_number_dtype(series.dtype), is_name=column.kind is ColumnKind.NAME
    )


def _fit(blocks: Mapping[str, _Block], width: int, optional: Sequence[str]) -> dict[str, _Block]:
    """The blocks in lines of at most `width` cells, if they can: names shortened, then optional columns left out."""
    wanted = {name: block.width for name, block in blocks.items()}
    if _line_width(wanted.values()) <= width:
        return dict(blocks)
    least = {name: block.least_width() for name, block in blocks.items()}
    shown = _chosen(least, width, optional)
    excess = _line_width(wanted[name] for name in shown) - width
    for _ in range(excess):
        givers = [name for name in shown if wanted[name] > least[name]]
        if not givers:
            break
        wanted[max(givers, key=wanted.__getitem__)] -= 1
    return {name: blocks[name].shortened(wanted[name]) if blocks[name].is_name else blocks[name] for name in shown}


def _chosen(least: Mapping[str, int], width: int, optional: Sequence[str]) -> list[str]:
    """The columns without the least important ones that have no room: no column stays where a better one had to go."""
    hidden: set[str] = set()
    for name in reversed(optional):
        if _line_width(cells for other, cells in least.items() if other not in hidden) <= width:
            break
        hidden.add(name)
    return [name for name in least if name not in hidden]


def _line_width(widths: Iterable[int]) -> int:
    columns = list(widths)
    return sum(columns) + len(_GAP) * (len(columns) - 1)


def _joined(columns: Sequence[Sequence[str]]) -> list[str]:
    return [_GAP.join(cells) for cells in zip(*columns, strict=True)]


def _footer(table: Table, *, shown: Sequence[TableColumn]) -> list[str]:
    lines = [evidence_line(shown) + (", in a simulation" if table.is_simulated else "")]
    if table.cut_rows_count:
        rows, total = format_count(len(table.frame)), format_count(table.rows_count)
        lines.append(f"cut: showing {rows} of {total} rows; --top 0 shows all")
    return lines + [f"note: {printable(note)}" for note in table.notes]
