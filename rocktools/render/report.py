"""A summary as a report: what is said, tables and pictures, section by section; Markdown and HTML are made of it.

Nothing is computed here that the summary has not: sections choose, order and name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from rocktools.evidence import Evidence
from rocktools.render.table import Table, table_column
from rocktools.summary.document import Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One picture.

    Attributes:
        svg: the drawing; its colours follow the page.
        caption: below it.
        description: what it shows, for those who cannot see it.
    """

    svg: str
    caption: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What stands behind one row, folded away: the text of an instruction, the command that shows more.

    Attributes:
        anchor: where links lead; unique in the report.
        title: shown while it is folded.
        lines: label and text; a text of several lines is shown as it is.
    """

    anchor: str
    title: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of a report.

    Attributes:
        anchor: kebab-case, unique.
        heading: its title.
        paragraphs: what is said.
        figures, tables: shown in this order, below what is said.
        details: folded, below the tables. The first column of the table `linked_table` links to them by row.
        linked_table: name of that table; "" for none.
        absence: why there is nothing; "" where there is something.
    """

    anchor: str
    heading: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    details: tuple[Detail, ...] = ()
    linked_table: str = ""
    absence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole report.

    Attributes:
        title: of the page.
        is_simulated: whether any of it was made without hardware.
        verdict: the first sentences: what the step costs, and where it goes.
        sections: in reading order.
        footer: what made it, from what.
    """

    title: str
    is_simulated: bool
    verdict: tuple[str, ...]
    sections: tuple[Section, ...]
    footer: str


@dataclass(frozen=True, slots=True)
class Shown:
    """One column of a table of records.

    Attributes:
        name: of the column, with its unit.
        meaning: one sentence.
        value: of a record; None: the attribute of that name.
        evidence: None: that of the table.
    """

    name: str
    meaning: str
    value: Callable[[Any], Any] | None = None
    evidence: Evidence | None = None


def record_table(
    name: str,
    title: str,
    records: Sequence[Any],
    columns: Sequence[Shown],
    *,
    evidence: Evidence,
    is_simulated: bool,
    notes: Sequence[str] = (),
    cut_rows_count: int = 0,
) -> Table:
    """A table of dataclass instances; columns without any value are left out."""
    made: dict[str, pd.Series] = {}
    described = []
    for column in columns:
        read = column.value or _attribute(column.name)
        series = _series([read(record) for record in records])
        if len(records) and not series.notna().any():
            continue
        made[column.name] = series
        described.append(
            table_column(column.name, column.meaning, evidence=column.evidence or evidence, dtype=series.dtype)
        )
    return Table(
        name=name,
        title=title,
        columns=tuple(described),
        frame=pd.DataFrame(made),
        is_simulated=is_simulated,
        notes=tuple(notes),
        cut_rows_count=cut_rows_count,
    )


def absent_section(anchor: str, heading: str, missing: Missing) -> Section:
    """The section of a block that is not there."""
    return Section(anchor=anchor, heading=heading, absence=missing.reason)


def _attribute(name: str) -> Callable[[Any], Any]:
    return lambda record: getattr(record, name)


def _series(values: Sequence[Any]) -> pd.Series:
    """Whole numbers stay whole where some are missing; texts are objects."""
    there = [value for value in values if value is not None]
    if there and all(isinstance(value, bool) for value in there):
        return pd.Series(list(values), dtype="boolean")
    if there and all(isinstance(value, int) for value in there):
        return pd.Series(list(values), dtype="Int64")
    if there and all(isinstance(value, (int, float)) for value in there):
        return pd.Series([float("nan") if value is None else float(value) for value in values], dtype="float64")
    texts = [None if value is None else value if isinstance(value, str) else str(value) for value in values]
    return pd.Series(texts, dtype="object")
