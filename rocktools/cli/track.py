"""`rocktools track` and `rocktools history`: a comparison held against thresholds, and kept."""

from __future__ import annotations

from pathlib import Path

import click

from rocktools.cli.compare import allow_option, check_facts, say_gate, strict_option
from rocktools.cli.options import table_options
from rocktools.cli.output import (
    TableFormat,
    TableOutput,
    emit_document,
    emit_findings,
    emit_table,
    exit_code_of,
    new_file,
    require_new_path,
)
from rocktools.errors import EXIT_GATE, EXIT_GOOD

_path = click.Path(path_type=Path)


@click.command("track")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option(
    "--thresholds", metavar="FILE", type=_path, help="YAML file (rocktools.thresholds/1) with limits of yours."
)
@click.option("--label", metavar="TEXT", default="", help="What to call this comparison in the history.")
@click.option("--history", metavar="FILE", type=_path, help="Append one line of JSON to this file.")
@click.option("--junit", metavar="FILE", type=_path, help="Write the checks as JUnit XML to this new file.")
@allow_option
@strict_option
@table_options()
def command(
    before: str,
    after: str,
    thresholds: Path | None,
    label: str,
    history: Path | None,
    junit: Path | None,
    allowed: tuple[str, ...],
    is_strict: bool,
    output: TableOutput,
) -> int:
    """Hold the difference of two runs against thresholds: pass, warn or fail. The exit code is 3 where it fails.

    By default the median step may grow by 5 %, its 90th percentile by 10 %, time between steps by 5 % of a step, and
    each component by 5 % of its own time, where that is at least 0.2 % of the step and no chance. Warnings begin
    earlier, and where too few steps were recorded to tell.

    BEFORE and AFTER are as for `rocktools compare`.
    """
    import json
    from datetime import datetime, timezone

    from rocktools.cli.summaries import load_summary
    from rocktools.compare.compare import compare_summaries
    from rocktools.compare.history import append_entry, entry_of
    from rocktools.compare.thresholds_file import read_thresholds
    from rocktools.compare.track import State, Thresholds, assess, render_assessment
    from rocktools.render.comparison_tables import assessment_table
    from rocktools.render.junit import render_junit

    check_facts(allowed)
    if junit is not None:
        require_new_path(junit)
    limits = Thresholds() if thresholds is None else read_thresholds(thresholds)
    one, other = load_summary(before), load_summary(after)
    comparison = compare_summaries(one, other, allowed=allowed, is_strict=is_strict)
    assessment = assess(comparison, limits, label=label)
    if output.table_format is TableFormat.JSON:
        emit_document(json.loads(render_assessment(assessment)), output)
    else:
        emit_table(assessment_table(assessment), output)
    if junit is not None:
        with new_file(junit) as temporary:
            temporary.write_text(render_junit(assessment), encoding="utf-8")
    if history is not None:
        hashes = one.provenance.inputs_sha256, other.provenance.inputs_sha256
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        append_entry(history, entry_of(comparison, assessment, hashes, now))
    say_gate(comparison)
    return EXIT_GATE if assessment.state is State.FAIL else EXIT_GOOD


@click.command("history")
@click.argument("path", metavar="FILE", type=_path)
@click.option(
    "--tail", metavar="N", type=click.IntRange(min=0), default=20, show_default=True, help="The last N; 0: all."
)
@table_options()
def history_command(path: Path, tail: int, output: TableOutput) -> int:
    """The comparisons that `rocktools track --history FILE` kept: step times, verdicts, and the drift over time."""
    from rocktools.compare.history import read_history
    from rocktools.render.comparison_tables import history_table

    entries, findings = read_history(path)
    shown = entries[-tail:] if tail else entries
    emit_table(history_table(shown, cut_rows_count=len(entries) - len(shown)), output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)
