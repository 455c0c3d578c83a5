"""`rocktools kernels`: which kernels took the time."""

from __future__ import annotations

import click

from rocktools.cli.options import paths_argument, table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, exit_code_of

# The table for people leaves these out where each row may hold several variants; --by shape and the other formats have
# them.
_OF_ONE_VARIANT = {
    "grid_workitems",
    "workgroup_workitems",
    "lds_bytes",
    "scratch_bytes",
    "vgpr_count",
    "agpr_count",
    "sgpr_count",
}
_OF_DEVICES = {"devices_count", "critical_device"}


@click.command("kernels")
@paths_argument
@click.option(
    "--by",
    type=click.Choice(["kernel", "device", "stream", "shape"]),
    default="kernel",
    show_default=True,
    help="Split the rows of a kernel by device, by device and stream, or by grid, workgroup, LDS and registers.",
)
@click.option("--match", metavar="REGEX", help="Only kernels whose clean name has a match of this Python regex.")
@table_options(top_count=20)
def command(paths: tuple[str, ...], by: str, match: str | None, output: TableOutput) -> int:
    """Which kernels took the time.

    One row per kernel, the largest total first: dispatches, summed and union time, mean, median, shortest and longest
    dispatch, share of all kernel time, launch geometry and registers. Times of counter passes are left out: those runs
    are serialised.

    PATHS are rocpd databases (*_results.db), folders, patterns, .rpdb folders or run directories.
    """
    from rocktools.render.table import table_from_spec
    from rocktools.timeline.kernel_stats import DISPATCH_COLUMNS, By, kernel_stats
    from rocktools.units import count_noun, format_duration
    from rocktools.workspace.workspace import Workspace

    with Workspace.open(paths) as workspace:
        dispatches = workspace.require_dispatches(DISPATCH_COLUMNS)
        stats = kernel_stats(dispatches, workspace.agents(), by=By(by), match=match)
        frame = stats.frame
        if output.table_format is TableFormat.TABLE:
            hidden = set() if stats.by is By.SHAPE else _OF_ONE_VARIANT
            if "devices_count" in frame and not (frame["devices_count"] > 1).any():
                hidden = hidden | _OF_DEVICES
            frame = frame[[name for name in frame.columns if name not in hidden]]
        title = (
            f"kernels: {count_noun(stats.dispatches_count, 'dispatch')}, {format_duration(stats.total_ns)} in all; "
            f"{stats.critical_device} is busy longest: {format_duration(stats.union_ns)} "
            f"of {format_duration(stats.window_ns)}"
        )
        table = table_from_spec(
            frame, stats.spec, evidence=stats.evidence, title=title, is_simulated=workspace.is_simulated
        )
        emit_table(table, output)
        findings = [*workspace.findings, *stats.findings]
    emit_findings(findings)
    return exit_code_of(findings)
