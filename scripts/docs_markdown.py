"""Plain texts of the code as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

NOTICE = "<!-- Written by scripts/docs from the code; a change made here is lost. -->"

_CODE = re.compile(r"(`[^`]*`)")
_MARKS = re.compile(r"([<*|\\])")


def prose(text: str) -> str:
    """A text in one line, with what Markdown would read as marks made plain; `code` stays code."""
    pieces = _CODE.split(" ".join(text.split()))
    return "".join(piece if piece.startswith("`") else _MARKS.sub(r"\\\1", piece) for piece in pieces)


def code(text: str) -> str:
    """A text as code."""
    return f"`{text}`"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table, a blank line before and after it; the cells are Markdown already."""
    lines = ["", "| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
    for row in rows:
        cells = [re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def page(title: str, introduction: str, lines: Iterable[str]) -> str:
    """A whole page."""
    text = "\n".join([NOTICE, "", f"# {title}", "", introduction, *lines])
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"
