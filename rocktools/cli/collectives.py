"""`rocktools collectives`: what was communicated, how fast, and how much of it was waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.attribution_options import LedgerRequest, attribution_options, ledger_options, select_rows
from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, exit_code_of
from rocktools.cli.progress import working

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.findings import Finding
    from rocktools.frames import FrameSpec
    from rocktools.workspace.attributed import AttributedRuns

_OPTIONAL = (
    *("mean_ns", "payload_bytes", "bus_bytes_per_s", "wait_ns", "transfer_ns", "rows_count", "collective"),
    *("group_count", "sum_ns", "transfer_bus_bytes_per_s", "algorithm_bytes_per_s", "phase", "devices_count"),
    *("best_bus_bytes_per_s", "shortest_ns", "share_ratio", "moved_bytes", "instructions_count", "program_id"),
    *("occurrence_index", "start_ns", "end_ns"),
)
_BY_ESTIMATE = ("group_count", "payload_bytes", "moved_bytes")
_BY_MATCH = ("wait_ns", "transfer_ns", "is_last", "collective_id", "devices_count")


@click.command("collectives")
@ledger_options
@click.option(
    "--by",
    type=click.Choice(["operation", "kind", "device", "arrival"]),
    default="operation",
    show_default=True,
    help="Rows: a collective of a program with all its executions; kind and phase; a collective on each device; every "
    "single arrival of a device.",
)
@table_options(top_count=20)
def command(request: LedgerRequest, by: str, output: TableOutput) -> int:
    """What was communicated: kind, payload, group, time and bandwidth of each collective, and who waited for whom.

    The payload is the larger of what a device puts in and gets out, from the compiled program. Algorithm bandwidth is
    payload over time; bus bandwidth is that times a factor of kind and group, as in nccl-tests, and compares with the
    speed of a link. A duration is waiting for the last device to arrive, and the transfer: where the devices of a group
    are all there, on one clock, both are told, and the bandwidth of the transfer alone.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns or run directories.
    """
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.workspace.attributed import attribute_workspace
    from rocktools.workspace.workspace import Workspace

    with Workspace.open(request.paths) as workspace:
        with working("linking and attributing"):
            runs = attribute_workspace(workspace, attribution_options(request))
        rows, _ = select_rows(request, runs)
        findings: list[Finding] = [*workspace.findings, *runs.findings]
        is_simulated = workspace.is_simulated
    spec, frame, title, raised = _view(rows, runs, by)
    findings += [finding for finding in raised if finding not in findings]
    names = _for_people(frame) if output.table_format is TableFormat.TABLE else list(spec.names)
    evidence = {
        name: Evidence.INFERRED
        if name in _BY_MATCH or name.startswith("transfer_bus")
        else Evidence.COMPILER_ESTIMATE
        if name in _BY_ESTIMATE or name.endswith("_per_s")
        else Evidence.MEASURED
        for name in names
    }
    table = table_from_spec(
        frame[names], spec, evidence=evidence, title=title, is_simulated=is_simulated, optional_columns=_OPTIONAL
    )
    emit_table(table, output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)


def _view(
    rows: pd.DataFrame, runs: AttributedRuns, by: str
) -> tuple[FrameSpec, pd.DataFrame, str, tuple[Finding, ...]]:
    """The rows that were asked for, their contract and title, and what matching devices raised."""
    from rocktools.attribution.collective_rates import COLLECTIVE_RATES
    from rocktools.attribution.collective_summary import (
        COLLECTIVE_KINDS,
        COLLECTIVES,
        sum_by_kind,
        summarize_collectives,
    )
    from rocktools.timeline.skew import COLLECTIVE_ARRIVALS, match_collectives
    from rocktools.units import count_noun, format_duration

    rates, matched = runs.collective_rates(rows), match_collectives(runs.with_replica_groups(rows))
    devices, total_ns = rates["device"].nunique(), int(rates["sum_ns"].sum())
    executions = count_noun(int(rates["rows_count"].sum()), "execution")
    title = f"collectives: {executions} on {count_noun(devices, 'device')}, {format_duration(total_ns)} in all"
    if by == "device":
        frame = rates.sort_values("sum_ns", ascending=False, kind="stable", ignore_index=True)
        return COLLECTIVE_RATES, frame, title, matched.findings
    if by == "arrival":
        return COLLECTIVE_ARRIVALS, matched.frame, title, matched.findings
    summary = summarize_collectives(rates, matched.frame)
    if by == "kind":
        return COLLECTIVE_KINDS, sum_by_kind(summary), title, matched.findings
    return COLLECTIVES, summary, title, matched.findings


def _for_people(frame: pd.DataFrame) -> list[str]:
    """Without what is the same everywhere, or nowhere known."""
    same = {name for name in ("run", "program_id") if name in frame and frame[name].nunique(dropna=False) < 2}
    return [name for name in frame.columns if name not in same and (frame.empty or frame[name].notna().any())]
