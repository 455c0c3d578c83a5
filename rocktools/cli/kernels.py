"""`rocktools kernels`: which kernels took the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.options import (
    columns_option,
    hlo_option,
    match_option,
    optional_paths_argument,
    split_hlo,
    table_options,
)
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, exit_code_of
from rocktools.cli.progress import working

if TYPE_CHECKING:
    from rocktools.evidence import Evidence
    from rocktools.timeline.kernel_stats import By, KernelStats

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
_OF_INSTRUCTION = {"phase", "scope", "custom_call_target"}
# What a narrow terminal may lose, the most important first. What the rows are split by comes before their times.
_OPTIONAL = (
    *("share_ratio", "scope", "phase", "method", "confidence", "custom_call_target"),
    "grid_workitems",
    "mean_ns",
    "workgroup_workitems",
    "lds_bytes",
    "vgpr_count",
    "median_ns",
    "union_ns",
    "max_ns",
    "min_ns",
    "variants_count",
    "devices_count",
    "critical_device",
    "scratch_bytes",
    "agpr_count",
    "sgpr_count",
    "program_id",
)


@click.command("kernels")
@optional_paths_argument
@click.option(
    "--by",
    type=click.Choice(["kernel", "device", "stream", "shape", "instruction"]),
    help="Split the rows of a kernel by device, by device and stream, by grid, workgroup, LDS and registers, or by HLO "
    "instruction (as --hlo does).  [default: kernel]",
)
@hlo_option
@match_option("kernels whose clean name has")
@columns_option
@table_options(top_count=20)
def command(
    paths: tuple[str, ...],
    by: str | None,
    hlo: str | None,
    match: str | None,
    columns: tuple[str, ...] | None,
    output: TableOutput,
) -> int:
    """Which kernels took the time.

    One row per kernel, the largest total first: dispatches, summed and union time, mean, median, shortest and longest
    dispatch, share of all kernel time, launch geometry and registers. Times of counter passes are left out: those runs
    are serialised. A table that is too wide for the terminal names the columns that it leaves out.

    With --hlo, one row per kernel and the HLO instruction that launched it, with scope, phase and custom-call target;
    method and confidence are those of the least sure dispatch of the row.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns, .rpdb folders or run
    directories.
    """
    from rocktools.render.table import table_from_spec
    from rocktools.timeline.kernel_stats import DISPATCH_COLUMNS, KERNEL_STATS, By, kernel_stats
    from rocktools.workspace.links import link_dispatches_of
    from rocktools.workspace.workspace import Workspace

    paths, programs = split_hlo(paths, hlo)
    split = _split(by, programs)
    chosen = None if columns is None else KERNEL_STATS[split].select(columns)
    with Workspace.open(paths) as workspace:
        evidence: Evidence | None = None
        if split is By.INSTRUCTION:
            with working("linking"):
                linked = link_dispatches_of(workspace, programs or ())
            dispatches, raised, evidence = linked.dispatches, linked.findings, linked.evidence
        else:
            dispatches, raised = workspace.require_dispatches(DISPATCH_COLUMNS), ()
        stats = kernel_stats(dispatches, workspace.agents(), by=split, match=match)
        names = chosen or (_for_people(stats) if output.table_format is TableFormat.TABLE else stats.spec.names)
        table = table_from_spec(
            stats.frame[list(names)],
            stats.spec,
            evidence=evidence or stats.evidence,
            title=_title(stats, match),
            is_simulated=workspace.is_simulated,
            optional_columns=() if chosen else _OPTIONAL,
        )
        findings = [*workspace.findings, *raised, *stats.findings]
        emit_table(table, output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)


def _split(by: str | None, programs: tuple[str, ...] | None) -> By:
    """What rows are split by.

    Raises:
        UsageError: --hlo, and another split than that by instruction.
    """
    from rocktools.errors import UsageError
    from rocktools.timeline.kernel_stats import By

    if programs is None:
        return By(by or "kernel")
    if by not in (None, "instruction"):
        raise UsageError("two-splits", f"--hlo splits rows by instruction, and --by {by} by something else")
    return By.INSTRUCTION


def _for_people(stats: KernelStats) -> list[str]:
    """The columns that say something about these rows."""
    from rocktools.timeline.kernel_stats import By

    hidden = set() if stats.by is By.SHAPE else _OF_ONE_VARIANT
    if "devices_count" in stats.frame and not (stats.frame["devices_count"] > 1).any():
        hidden = hidden | _OF_DEVICES
    if stats.by is By.INSTRUCTION:
        hidden = hidden | {name for name in _OF_INSTRUCTION if stats.frame[name].isna().all()}
        hidden = hidden | {name for name in ("program_id",) if stats.frame[name].nunique() < 2}
    return [name for name in stats.spec.names if name not in hidden]


def _title(stats: KernelStats, match: str | None) -> str:
    from rocktools.units import count_noun, format_count, format_duration

    total = format_duration(stats.total_ns)
    if match is None:
        rows = f"{count_noun(stats.dispatches_count, 'dispatch')}, {total} in all"
    else:
        rows = (
            f"{format_count(stats.matched_count)} of {count_noun(stats.dispatches_count, 'dispatch')} match {match!r}, "
            f"{format_duration(stats.matched_ns)} of {total}"
        )
    return (
        f"kernels: {rows}; {stats.critical_device} is busy longest: {format_duration(stats.union_ns)} "
        f"of {format_duration(stats.window_ns)}"
    )
