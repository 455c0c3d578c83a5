"""A report as one HTML file: nothing is loaded from anywhere, and what a table holds can be sorted and filtered.

Every row is in the file as data; the first ones stand in the document as well, for readers without scripts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocktools.render.cells import column_headers, column_texts, evidence_line
from rocktools.render.report import Report, Section
from rocktools.render.table import Table
from rocktools.render.values import is_number_dtype, python_values

_FOLDER = Path(__file__).resolve().parent / "page"
_FIRST_ROWS = 40
_LONG_TEXT = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    header: str
    meaning: str
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    text: str
    style: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _PageTable:
    """A table as the template takes it; `data` is everything as JSON."""

    name: str
    title: str
    columns: tuple[_Column, ...]
    first_rows: tuple[tuple[_Cell, ...], ...]
    evidence: str
    notes: tuple[str, ...]
    data: str


def render_html(report: Report) -> str:
    """The page. The same report gives the same text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    sections = [_section(section) for section in report.sections]
    return environment.get_template("report.html.jinja").render(
        report={**_plain(report), "sections": sections},
        css=_asset("report.css"),
        script=_asset("report.js"),
    )


def _asset(name: str) -> Any:
    from markupsafe import Markup

    # Ours, and so nothing to escape.
    return Markup((_FOLDER / name).read_text(encoding="utf-8"))


def _plain(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in Report.__slots__}


def _section(section: Section) -> Mapping[str, Any]:
    links = [detail.anchor for detail in section.details]
    tables = [_table(table, links if table.name == section.linked_table else []) for table in section.tables]
    return {**{name: getattr(section, name) for name in Section.__slots__}, "tables": tables}


def _table(table: Table, links: list[str]) -> _PageTable:
    headers = column_headers(table.columns)
    is_number = [is_number_dtype(table.frame[column.name].dtype) for column in table.columns]
    texts = [column_texts(table.frame[column.name], column) for column in table.columns]
    rows = list(zip(*texts, strict=True))
    keys = [
        [_key(value) for value in python_values(table.frame[column.name])] if number else None
        for column, number in zip(table.columns, is_number, strict=True)
    ]
    styles = ["number" if number else _style(column) for number, column in zip(is_number, texts, strict=True)]
    data = {"rows": rows, "keys": keys, "styles": styles, "links": links, "cut": table.cut_rows_count}
    first = tuple(
        tuple(
            _Cell(text=text, style=styles[place], href=links[number] if place == 0 and number < len(links) else "")
            for place, text in enumerate(row)
        )
        for number, row in enumerate(rows[:_FIRST_ROWS])
    )
    described = zip(table.columns, headers, styles, strict=True)
    return _PageTable(
        name=table.name,
        title=table.title,
        columns=tuple(
            _Column(header=header.replace("_", " "), meaning=column.meaning, style=style)
            for column, header, style in described
        ),
        first_rows=first,
        evidence=evidence_line(table.columns) + (", in a simulation" if table.is_simulated else ""),
        notes=table.notes,
        data=_script_json(data),
    )


def _style(texts: list[str]) -> str:
    """Long texts are wrapped, short ones are not."""
    return "long" if max(map(len, texts), default=0) > _LONG_TEXT else "text"


def _key(value: object) -> object:
    """What a number sorts by; JSON knows no infinity."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else math.copysign(1.7e308, value)
    return value


def _script_json(data: object) -> str:
    """JSON that can stand in a script element, whatever texts are in it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
