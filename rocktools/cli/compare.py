"""`rocktools compare`: what changed between two runs, and whether it is more than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_document, emit_table, emit_tables
from rocktools.errors import EXIT_GATE, EXIT_GOOD, UsageError, nearest_names

if TYPE_CHECKING:
    from rocktools.compare.comparison import Comparison

_PARTS = ("parity", "steps", "shares", "components", "scopes", "operations", "families")
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
@table_options(top_count=10)
def command(
    before: str, after: str, allowed: tuple[str, ...], is_strict: bool, part: str | None, output: TableOutput
) -> int:
    """What changed between two runs: steps, shares, components, scopes, operations; by count, work or time.

    First the parity gate: runs of other work (batch, sequence, mesh, dtype, device, ...) are not compared, and the exit
    code is 3. Differences are judged on the series of steps, by a permutation test on ranks; with fewer than five steps
    on a side nothing is said. Operations are matched by what they compute, so that renumbered fusions still match.

    BEFORE and AFTER are summaries (`rocktools summarize -o FILE.json`), run directories, traces or profiles.
    """
    from rocktools.cli.summaries import load_summary
    from rocktools.compare.compare import compare_summaries
    from rocktools.render.comparison_tables import comparison_tables

    check_facts(allowed)
    comparison = compare_summaries(load_summary(before), load_summary(after), allowed=allowed, is_strict=is_strict)
    if output.table_format is TableFormat.JSON and part is None:
        emit_document(plain_comparison(comparison), output)
    else:
        tables = comparison_tables(comparison, rows_count=output.top_count)
        chosen = [table for table in tables if part in (None, table.name)]
        if part is not None and not chosen:
            raise UsageError("empty-part", f"the comparison has nothing under {part!r}", hint="rocktools compare A B")
        if len(chosen) == 1 and part is not None:
            emit_table(chosen[0], output)
        else:
            emit_tables(chosen, output, schema="rocktools.comparison-tables/1", head={})
    return say_gate(comparison)


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
    for reason in comparison.reasons:
        click.echo(f"mind: {reason}", err=True)
    if comparison.parity.gate is Gate.CLOSED:
        click.echo("rocktools: not comparable; --allow FACT lets a fact differ", err=True)
        return EXIT_GATE
    return EXIT_GOOD
