"""`rocktools metrics`: what the counters say of each kernel or dispatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.options import match_option, paths_argument, table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, exit_code_of
from rocktools.cli.progress import working

if TYPE_CHECKING:
    from rocktools.workspace.metrics import Metrics


@click.command("metrics")
@paths_argument
@click.option(
    "--by",
    "level",
    type=click.Choice(["kernel", "dispatch"]),
    default="kernel",
    show_default=True,
    help="A row for each kernel (ratios are sum over sum, the rest is of a mean dispatch), or for each dispatch.",
)
@click.option(
    "--quantity",
    "quantities",
    metavar="A,B,...",
    help="Only these quantities; `rocktools counters show` lists them.",
)
@match_option("kernels whose clean name has")
@click.option(
    "--mix-passes",
    is_flag=True,
    help="Give ratios also where their counters come from different passes; they are marked, and may be far off.",
)
@click.option("--arch", "architecture", metavar="GFX", help="Architecture of devices of which no file tells it.")
@click.option("--absent", "shows_absent", is_flag=True, help="Show quantities without a value too, with the reason.")
@table_options(top_count=60)
def command(
    paths: tuple[str, ...],
    level: str,
    quantities: str | None,
    match: str | None,
    mix_passes: bool,
    architecture: str | None,
    shows_absent: bool,
    output: TableOutput,
) -> int:
    """What the counters say of each kernel or dispatch: bytes, FLOPs, hit rates, occupancy, utilisation.

    No quantity is a rate by time: counter passes are serialised, so times come from a trace (`rocktools roofline`).
    Every value says where it comes from, and what is missing says why.

    PATHS are rocpd databases of counter passes, run directories, folders, CSV files of counters (rocprofv3, rocpd), or
    workloads of rocprof-compute (their folder or pmc_perf.csv).
    """
    from rocktools.cli.quantity_tables import quantities_for_people, quantities_table
    from rocktools.counters.evaluate import Level, PassRule
    from rocktools.workspace.metrics import keep_kernels, read_metrics

    with working("evaluating"):
        metrics = read_metrics(
            paths,
            level=Level(level),
            pass_rule=PassRule.MIXED if mix_passes else PassRule.STRICT,
            quantities=None if quantities is None else [name.strip() for name in quantities.split(",")],
            architecture=architecture,
        )
    if match is not None:
        metrics = keep_kernels(metrics, match)
    is_for_people = output.table_format is TableFormat.TABLE
    title = _title(metrics)
    table = (
        quantities_for_people(metrics, title=title, shows_absent=shows_absent)
        if is_for_people
        else quantities_table(metrics, title=title)
    )
    emit_table(table, output, findings=metrics.findings)
    emit_findings(metrics.findings)
    return exit_code_of(metrics.findings)


def _title(metrics: Metrics) -> str:
    from rocktools.units import count_noun

    frame = metrics.frame
    values_count = int(frame["value"].notna().sum())
    kernels_count = int(frame["kernel_name"].nunique())
    passes_count = int(metrics.counted.numbered["pass"].nunique())
    return (
        f"quantities: {count_noun(kernels_count, 'kernel')}, {count_noun(passes_count, 'counter pass')}, "
        f"{count_noun(values_count, 'value')}"
    )
