"""The shape of an answer: `rocktools.answer/1`, whose every number names the place in the summary that it is from.

A question may ask for several things: each has an answer of its own. `source` is a JSON pointer (RFC 6901) into the
summary that was asked, so that whoever doubts a number can look it up, and a program can follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from rocktools.evidence import Evidence
from rocktools.summary.document import Missing, Value
from rocktools.summary.document_json import to_plain

SCHEMA = "rocktools.answer/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFact:
    """One number, or name, that the answer rests on.

    Attributes:
        name: with its unit.
        value: None where it is not known; `reason` says why.
        evidence: how it was obtained; None where there is no value.
        source: where it stands in the summary, or what it was calculated from; "" for neither.
        threshold: that it was held against; None where it was not.
        reason: why there is no value, or what it was calculated from; "" otherwise.
    """

    name: str
    value: Value
    evidence: Evidence | None
    source: str
    threshold: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerColumn:
    """One column of a table of an answer.

    Attributes:
        name: with its unit.
        meaning: one sentence.
        evidence: of its values.
    """

    name: str
    meaning: str
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTable:
    """Rows that the answer rests on.

    Attributes:
        name: of the table; title: one line for people.
        columns: of `rows`, in order.
        rows: in the order in which they are to be read.
        sources: of each row.
        cut_rows_count: rows that were left out at the end.
    """

    name: str
    title: str
    columns: tuple[AnswerColumn, ...]
    rows: tuple[tuple[Value, ...], ...]
    sources: tuple[str, ...]
    cut_rows_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one part of a question.

    Attributes:
        intent: what was understood.
        slots: the names and numbers of the question.
        is_answered: whether the summary has what it takes.
        sentences: the answer, for people.
        facts: the numbers in it.
        tables: more of them.
        commands: what to run for more, or for what is not there.
    """

    intent: str
    slots: Mapping[str, str]
    is_answered: bool
    sentences: tuple[str, ...]
    facts: tuple[AnswerFact, ...] = ()
    tables: tuple[AnswerTable, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDocument:
    """All answers to one question.

    Attributes:
        schema: `SCHEMA`.
        question: as it was asked.
        title: of the summary; inputs_sha256: of the files that it was made of, which tells it from others.
        is_simulated: whether any of it was made without hardware.
        caveats: what holds against all answers, a sentence each.
        answers: one for each part of the question.
    """

    schema: str
    question: str
    title: str
    inputs_sha256: str | None
    is_simulated: bool
    caveats: tuple[str, ...]
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """How a column of an answer is taken from a record of the summary.

    Attributes:
        name: of the column; of the record's field, too, unless `get` is given.
        meaning: one sentence.
        get: what to take; None: the field of that name.
        evidence: of the column; None: that of the block.
    """

    name: str
    meaning: str
    get: Callable[[Any], Value] | None = None
    evidence: Evidence | None = None


def pointer(*parts: str | int) -> str:
    """The JSON pointer to a place in the summary: `pointer("gaps", "before", 3)`."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def answer_table(
    name: str,
    title: str,
    cells: Sequence[Cell],
    records: Iterable[tuple[str, Any]],
    *,
    evidence: Evidence,
    evidence_of: Mapping[str, Evidence] | None = None,
    top_count: int,
) -> AnswerTable:
    """A table of records of the summary.

    Args:
        records: with the pointer of each.
        evidence: of columns that say nothing else; evidence_of: by field.
        top_count: most rows; 0: all.
    """
    found = list(records)
    shown = found[:top_count] if top_count else found
    others = evidence_of or {}
    return AnswerTable(
        name=name,
        title=title,
        columns=tuple(
            AnswerColumn(
                name=cell.name, meaning=cell.meaning, evidence=cell.evidence or others.get(cell.name, evidence)
            )
            for cell in cells
        ),
        rows=tuple(tuple((cell.get or attrgetter(cell.name))(record) for cell in cells) for _, record in shown),
        sources=tuple(source for source, _ in shown),
        cut_rows_count=len(found) - len(shown),
    )


def cannot_answer(
    intent: str, block: Missing, slots: Mapping[str, str] | None = None, commands: Sequence[str] = ()
) -> Answer:
    """The answer where a block of the summary is not there."""
    return Answer(
        intent=intent,
        slots=slots or {},
        is_answered=False,
        sentences=(f"The summary cannot tell ({block.absence}): {block.reason}.",),
        commands=tuple(commands),
    )


def answer_json(document: AnswerDocument) -> dict[str, Any]:
    """The document as plain values."""
    plain: dict[str, Any] = to_plain(document)
    return plain
