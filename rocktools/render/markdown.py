"""A table as GitHub-flavoured Markdown, for issues and reports: titled, every column, values as people read them.

The cells are those of the text table, never shortened, since a page has no width. What would be markup in Markdown or
HTML is spelled so that it shows as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rocktools.render.cells import SIMULATED, column_headers, column_texts, evidence_line, printable
from rocktools.render.table import Table
from rocktools.render.values import is_number_dtype
from rocktools.units import format_count

# Within a cell: the bar ends it, backticks and asterisks style, < and & are HTML, $ is mathematics on some sites.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|~$#&])")


def render_markdown(table: Table, *, is_stamped: bool = True) -> str:
    """The table with its title, what it is made of, and what was cut.

    Args:
        is_stamped: whether a simulated table says so above its title; below it always does.
    """
    lines = [f"> {escape_markdown(SIMULATED)}", ""] if table.is_simulated and is_stamped else []
    lines += [f"**{escape_markdown(table.title)}**", "", _line(map(escape_markdown, column_headers(table.columns)))]
    series = [table.frame[column.name] for column in table.columns]
    lines.append(_line("---:" if is_number_dtype(each.dtype) else "---" for each in series))
    cells = [column_texts(each, column) for each, column in zip(series, table.columns, strict=True)]
    lines += [_line(map(escape_markdown, row)) for row in zip(*cells, strict=True)]
    if table.frame.empty:
        lines += ["", "No rows."]
    lines += ["", escape_markdown(evidence_line(table.columns)) + (", in a simulation" if table.is_simulated else "")]
    if table.cut_rows_count:
        lines += ["", f"Cut: {format_count(len(table.frame))} of {format_count(table.rows_count)} rows are shown."]
    for text in (*table.notes, *(str(finding) for finding in table.findings or ())):
        lines += ["", f"- {escape_markdown(text)}"]
    return "\n".join(lines) + "\n"


def escape_markdown(text: str) -> str:
    """The text so that Markdown shows it as it is, on one line."""
    return _MARKUP.sub(r"\\\1", printable(text)).strip()


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
