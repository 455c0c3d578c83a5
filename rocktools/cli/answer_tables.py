"""An answer as people read it: its sentences, its numbers, its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocktools.units import format_count, format_duration, format_ratio, format_si, unit_of

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.render.table import Table
    from rocktools.summary.document import Value
    from rocktools.summary.query_answer import Answer, AnswerDocument, AnswerTable


def answer_text(document: AnswerDocument, answer: Answer) -> str:
    """The sentences of an answer, and what to run for more; with the end of its last line."""
    lines = [*document.caveats, *answer.sentences]
    lines += [f"  try: {command}" for command in answer.commands]
    return "\n".join([f"# {document.question}" if len(document.answers) > 1 else document.title, "", *lines]) + "\n"


def tables_of_answer(document: AnswerDocument, answer: Answer) -> list[Table]:
    """Its numbers with the place that each is from, then its tables."""
    tables = [_numbers(document, answer)] if answer.facts else []
    return [*tables, *(_table(document, each) for each in answer.tables)]


def _numbers(document: AnswerDocument, answer: Answer) -> Table:
    import pandas as pd

    from rocktools.evidence import Evidence, weakest
    from rocktools.render.table import ColumnKind, Table, table_column

    known = [each.evidence for each in answer.facts if each.evidence is not None]
    of_values = weakest(*known) if known else Evidence.DECLARED
    meanings = {
        "number": "what it is, with its unit",
        "value": "the value, scaled for people; --format json has it whole",
        "evidence": "how it was obtained",
        "threshold": "what it was held against",
        "source": "where it stands in the summary, or what it was calculated from",
    }
    rows = [
        {
            "number": each.name,
            "value": format_fact(each.name, each.value),
            "evidence": None if each.evidence is None else each.evidence.value,
            "threshold": None if each.threshold is None else format_fact(each.name, each.threshold),
            "source": each.source or each.reason,
        }
        for each in answer.facts
    ]
    columns = [
        table_column(
            name,
            meaning,
            evidence=of_values,
            dtype=object,
            kind=ColumnKind.NAME if name == "source" else ColumnKind.TEXT,
        )
        for name, meaning in meanings.items()
    ]
    return Table(
        name="numbers",
        title=f"numbers of the answer: {answer.intent.replace('_', ' ')}",
        columns=tuple(columns),
        frame=pd.DataFrame(rows, columns=list(meanings), dtype=object),
        is_simulated=document.is_simulated,
    )


def format_fact(name: str, value: Value) -> str | None:
    """A value for people, by the unit in its name."""
    if value is None or isinstance(value, (str, bool)):
        return value if isinstance(value, str) else None if value is None else "yes" if value else "no"
    unit = unit_of(name)
    if unit == "ns":
        return format_duration(value)
    if unit == "ratio":
        return format_ratio(value)
    if unit in ("B", "FLOP", "FLOP/s", "B/s", "FLOP/B"):
        return format_si(value, unit)
    return format_count(value) if isinstance(value, int) else f"{value:.6g}"


def _table(document: AnswerDocument, found: AnswerTable) -> Table:
    import pandas as pd

    from rocktools.render.table import Table, table_column

    values = {column.name: [row[at] for row in found.rows] for at, column in enumerate(found.columns)}
    frame = pd.DataFrame({name: _series(cells) for name, cells in values.items()})
    columns = [
        table_column(column.name, column.meaning, evidence=column.evidence, dtype=frame[column.name].dtype)
        for column in found.columns
    ]
    return Table(
        name=found.name,
        title=found.title,
        columns=tuple(columns),
        frame=frame,
        is_simulated=document.is_simulated,
        cut_rows_count=found.cut_rows_count,
        optional_columns=tuple(column.name for column in found.columns[2:]),
    )


def _series(cells: Sequence[Value]) -> pd.Series:
    """A column with the one type that its values have."""
    import pandas as pd

    known = [each for each in cells if each is not None]
    if known and all(isinstance(each, bool) for each in known):
        return pd.Series(list(cells), dtype="boolean" if len(known) < len(cells) else "bool")
    if known and all(isinstance(each, int) and not isinstance(each, bool) for each in known):
        return pd.Series(list(cells), dtype="Int64")
    if known and all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in known):
        return pd.Series([float("nan") if each is None else float(each) for each in cells], dtype="float64")
    return pd.Series([None if each is None else str(each) for each in cells], dtype=object)
