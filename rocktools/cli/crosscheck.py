"""`rocktools crosscheck`: our figures beside those of xprof or TraceLens, and why they differ."""

from __future__ import annotations

from pathlib import Path

import click

from rocktools.cli.options import paths_argument, table_options
from rocktools.cli.output import TableOutput, emit_findings, emit_table
from rocktools.errors import EXIT_GATE, EXIT_GOOD, UsageError

_OPTIONAL = ("ours_value", "theirs_value", "quantity", "table", "reason", "theirs_text", "ours_text", "row_index")


@click.command("crosscheck")
@paths_argument
@click.option("--xprof", metavar="DIR", type=click.Path(path_type=Path), help="Tables that xprof made of the profile.")
@click.option(
    "--tracelens",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Sheets of TraceLens, as CSV: its --output_csvs_dir.",
)
@click.option(
    "--part",
    type=click.Choice(["differences", "all", "reasons"]),
    default="differences",
    show_default=True,
    help="Figures that differ; all of them; or what the reasons mean, and how often each was one.",
)
@table_options(top_count=20)
def command(paths: tuple[str, ...], xprof: Path | None, tracelens: Path | None, part: str, output: TableOutput) -> int:
    """Compare our figures with those of xprof or TraceLens, row by row, and explain each difference.

    A difference is explained where what the other tool is known to do, done by rocktools, gives its very figure.
    Whatever else differs is unexplained: the exit code is 3.

    Of xprof are read kernel_stats, hlo_stats and framework_op_stats (JSON); of TraceLens gpu_timeline,
    gpu_events_averages, kernel_launchers_summary and ..._by_category (CSV). PATH is the JAX profile (*.xplane.pb) that
    they were made of, or its run directory.
    """
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.units import count_noun
    from rocktools.workspace.crosscheck import crosscheck
    from rocktools.workspace.crosscheck_rows import CROSSCHECK, CROSSCHECK_REASONS, Verdict

    if xprof is None and tracelens is None:
        raise UsageError(
            "nothing-to-compare", "no tables of another tool are named", hint="--xprof DIR or --tracelens DIR"
        )
    found = crosscheck(paths, xprof=xprof, tracelens=tracelens)
    equal, explained, unexplained = (
        found.count(each) for each in (Verdict.EQUAL, Verdict.EXPLAINED, Verdict.UNEXPLAINED)
    )
    frame, spec = (found.reasons, CROSSCHECK_REASONS) if part == "reasons" else (found.frame, CROSSCHECK)
    if part == "differences":
        frame = frame[(frame["verdict"] != Verdict.EQUAL.value).to_numpy()].reset_index(drop=True)
    title = (
        f"crosscheck: {count_noun(len(found.figures), 'figure')}, {equal} equal, {explained} explained, "
        f"{unexplained} unexplained"
    )
    theirs = {name for name in frame.columns if name.startswith("theirs")}
    evidence = {
        name: Evidence.DECLARED
        if name in theirs
        else Evidence.COMPILER_ESTIMATE
        if name == "ours_value"
        else Evidence.MEASURED
        for name in frame.columns
    }
    table = table_from_spec(
        frame,
        spec,
        evidence=evidence,
        title=title,
        is_simulated=found.is_simulated,
        optional_columns=_OPTIONAL,
    )
    emit_table(table, output, findings=found.findings)
    emit_findings(found.findings)
    return EXIT_GATE if unexplained else EXIT_GOOD
