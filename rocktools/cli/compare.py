"""`rocktools compare`: what changed between two runs, and whether it is more than chance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.options import table_options
from rocktools.cli.output import (
    TableFormat,
    TableOutput,
    emit_document,
    emit_table,
    emit_tables,
    new_file,
    require_new_path,
)
from rocktools.errors import EXIT_GATE, EXIT_GOOD, UsageError, nearest_names

if TYPE_CHECKING:
    from rocktools.compare.comparison import Comparison

_PARTS = ("steps", "components", "scopes", "operations", "shares", "families", "parity")
allow_option = click.option(
    "--allow",
    "allowed",
    metavar="FACT",
    multiple=True,
    help="This fact may differ; may be repeated. The table `parity` has their names.",
)
strict_option = click.option(
    "--strict-provenance",
    "is_strict",
    is_flag=True,
    help="Stop at any difference of versions, flags, options or device, and at what only one side knows.",
)


@click.command("compare")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@allow_option
@strict_option
@click.option("--part", type=click.Choice(_PARTS), help="One part only, as a table of its own.  [default: all]")
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path), help="Also write a page to this new file.")
@table_options(top_count=10)
def command(
    before: str,
    after: str,
    allowed: tuple[str, ...],
    is_strict: bool,
    part: str | None,
    html: Path | None,
    output: TableOutput,
) -> int:
    """What changed between two runs: steps, shares, components, scopes, operations; by count, work or time.

    The first line says which way the step went, and where most of it is. Runs of other work (batch, sequence, mesh,
    dtype, device, ...) are not compared: the exit code is 3. Differences are judged on the series of steps, by a
    permutation test on ranks; with fewer than five steps on a side nothing is said. Chance is that of steps: repeat
    both runs to learn how much runs differ. Operations are matched by what they compute, so that renumbered fusions
    still match.

    BEFORE and AFTER are summaries (`rocktools summarize -o FILE.json`), run directories, traces or profiles.
    """
    from rocktools.cli.summaries import load_summary
    from rocktools.compare.compare import compare_summaries

    check_facts(allowed)
    if html is not None:
        require_new_path(html)
    comparison = compare_summaries(load_summary(before), load_summary(after), allowed=allowed, is_strict=is_strict)
    if part is not None:
        _emit_part(comparison, part, output)
    elif output.table_format is TableFormat.JSON:
        emit_document(plain_comparison(comparison), output)
    else:
        _emit_whole(comparison, output)
    if html is not None:
        _write_page(comparison, html)
    return say_gate(comparison)


def _emit_part(comparison: Comparison, part: str, output: TableOutput) -> None:
    from rocktools.render.comparison_tables import comparison_tables

    is_brief = output.table_format in (TableFormat.TABLE, TableFormat.MARKDOWN)
    chosen = [table for table in comparison_tables(comparison, is_brief=is_brief) if table.name == part]
    if not chosen:
        raise UsageError("empty-part", f"the comparison has nothing under {part!r}", hint="rocktools compare A B")
    emit_table(chosen[0], output)


def _emit_whole(comparison: Comparison, output: TableOutput) -> None:
    from rocktools.render.cells import printable
    from rocktools.render.comparison_tables import comparison_tables
    from rocktools.render.markdown import escape_markdown

    is_markdown = output.table_format is TableFormat.MARKDOWN
    verdict = escape_markdown(comparison.verdict) if is_markdown else printable(comparison.verdict)
    tables = comparison_tables(comparison, rows_count=output.top_count)
    emit_tables(tables, output, schema="rocktools.comparison-tables/1", head={}, preface=f"{verdict}\n\n")


def _write_page(comparison: Comparison, path: Path) -> None:
    from rocktools.render.comparison_tables import comparison_report
    from rocktools.render.report_html import render_html

    with new_file(path) as temporary:
        temporary.write_text(render_html(comparison_report(comparison)), encoding="utf-8")
    click.echo(f"wrote {path}: one page", err=True)


def check_facts(allowed: tuple[str, ...]) -> None:
    """That every fact that may differ exists.

    Raises:
        UsageError: one does not.
    """
    from rocktools.compare.parity import FACT_NAMES

    for name in allowed:
        if name not in FACT_NAMES:
            near = nearest_names(name, FACT_NAMES) or FACT_NAMES
            raise UsageError("unknown-fact", f"there is no fact {name!r}", hint=f"one of: {', '.join(near)}")


def plain_comparison(comparison: Comparison) -> dict[str, object]:
    """The document."""
    import json

    from rocktools.compare.comparison import render_comparison

    document: dict[str, object] = json.loads(render_comparison(comparison))
    return document


def say_gate(comparison: Comparison) -> int:
    """Say on standard error what the gate says; the exit code that follows from it."""
    from rocktools.compare.parity import Gate

    for reason in comparison.parity.reasons:
        click.echo(f"parity: {reason}", err=True)
    if len(comparison.parity.changes) > 1:
        names = ", ".join(comparison.parity.changes)
        click.echo(f"parity: several changes at once, whose effects cannot be told apart: {names}", err=True)
    if comparison.parity.is_same_input:
        click.echo("parity: both sides are made from the very same files", err=True)
    for reason in (*comparison.reasons, *comparison.uncovered):
        click.echo(f"mind: {reason}", err=True)
    if comparison.parity.gate is Gate.CLOSED:
        click.echo("rocktools: not comparable; --allow FACT lets a fact differ", err=True)
        return EXIT_GATE
    return EXIT_GOOD
