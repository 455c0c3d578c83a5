"""`rocktools query`: a question to a summary, answered with numbers, their evidence and where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_document, emit_table, emit_tables
from rocktools.errors import EXIT_FAILURE, EXIT_GOOD, UsageError

if TYPE_CHECKING:
    from rocktools.render.table import Table


@click.command("query")
@click.argument("summary", metavar="SUMMARY")
@click.argument("question", metavar="QUESTION")
@click.option("--json", "is_json", is_flag=True, help="As one document (rocktools.answer/1); short for --format json.")
@click.option(
    "--top",
    "top_count",
    metavar="N",
    type=click.IntRange(min=0),
    help="Rows of each table; 0: all.  [default: as many as are read at a glance]",
)
@click.option(
    "--table", "table_name", metavar="NAME", help="Only this table of the answer, as CSV and Parquet need it."
)
@table_options()
def command(
    summary: str,
    question: str,
    is_json: bool,
    top_count: int | None,
    table_name: str | None,
    output: TableOutput,
) -> int:
    """Ask a summary: what takes the time, what bounds it, why a step is slow, what to try.

    SUMMARY is what `rocktools summarize -o FILE.json` wrote, or a run directory, a trace or a profile. Where a question
    is not understood, it is said what can be asked (exit code 2). Where the summary lacks what a question needs, the
    answer says what to capture, and the exit code is 1.

    \b
        rocktools query run.json "what are the top 10 ops by exclusive time?"
        rocktools query run.json "is wi_0 forward memory-bound?"
        rocktools query run.json "why is step 12 slow?" --json
    """
    from rocktools.cli.answer_tables import answer_text, tables_of_answer
    from rocktools.cli.summaries import load_summary
    from rocktools.summary.query import answer_question
    from rocktools.summary.query_answer import SCHEMA, answer_json
    from rocktools.summary.query_grammar import parse_question

    parse_question(question)  # before anything is read that takes long
    document = answer_question(load_summary(summary), question, top_count=top_count)
    code = EXIT_GOOD if all(each.is_answered for each in document.answers) else EXIT_FAILURE
    if (is_json or output.table_format is TableFormat.JSON) and table_name is None:
        emit_document(answer_json(document), TableOutput(table_format=TableFormat.JSON, path=output.path))
        return code
    tables = [table for answer in document.answers for table in tables_of_answer(document, answer)]
    if table_name is not None or output.table_format in (TableFormat.CSV, TableFormat.PARQUET):
        chosen = [table for table in tables if table_name in (None, table.name)]
        if not chosen:
            raise UsageError("no-such-table", f"the answer has no table {table_name!r}", hint=_named(tables))
        if len(chosen) > 1:
            raise UsageError("several-tables", f"the answer has {len(chosen)} tables", hint=f"--table {_named(tables)}")
        emit_table(chosen[0], output)
        return code
    preface = "\n".join(answer_text(document, answer) for answer in document.answers)
    emit_tables(tables, output, schema=SCHEMA, head={}, preface=f"{preface}\n" if tables else preface)
    return code


def _named(tables: Sequence[Table]) -> str:
    return " | ".join(dict.fromkeys(table.name for table in tables)) or "it has none"
