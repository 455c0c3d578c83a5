"""`rocktools dispatches`: every kernel execution, one row each."""

from __future__ import annotations

import click

from rocktools.cli.options import paths_argument, table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, exit_code_of

_SHOWN = (
    "dispatch_id",
    "device",
    "queue_id",
    "stream_id",
    "kernel_name",
    "offset_ns",
    "duration_ns",
    "grid_workitems",
    "workgroup_workitems",
    "lds_bytes",
    "vgpr_count",
    "range",
)
_SHOWN_COUNTED = (
    "pass",
    "replay_pass",
    "dispatch_id",
    "device",
    "kernel_name",
    "grid_workitems",
    "workgroup_workitems",
    "lds_bytes",
    "vgpr_count",
)


@click.command("dispatches")
@paths_argument
@click.option("--match", metavar="REGEX", help="Only kernels whose clean name has a match of this Python regex.")
@click.option("--device", metavar="LABEL", help="Only this device, as `rocktools info` labels it (host0:gpu3).")
@click.option(
    "--sort",
    type=click.Choice(["start", "duration"]),
    default="start",
    show_default=True,
    help="Order of the rows: by start, or the longest first.",
)
@click.option("--counted", is_flag=True, help="The dispatches of counter passes instead of those of traces.")
@table_options(top_count=20)
def command(
    paths: tuple[str, ...], match: str | None, device: str | None, sort: str, counted: bool, output: TableOutput
) -> int:
    """Every kernel execution, one row each, in the order of their start.

    The table shows the start as an offset from the first dispatch of its process; the other formats have every column,
    start and end exactly. Dispatches of counter passes (--counted) are shown without times: those runs are serialised.

    PATHS are rocpd databases (*_results.db), folders, patterns, .rpdb folders or run directories.
    """
    from rocktools.errors import UsageError
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.timeline import dispatch_list
    from rocktools.units import count_noun
    from rocktools.workspace.workspace import Workspace

    if counted and sort == "duration":
        raise UsageError(
            "counted-durations", "durations in a counter pass mean nothing; its dispatches cannot be sorted by them"
        )
    with Workspace.open(paths) as workspace:
        if counted:
            rows, spec = workspace.require_counted_dispatches(), dispatch_list.COUNTED_DISPATCH_LIST
            listed = dispatch_list.list_counted_dispatches(rows, workspace.agents())
        else:
            rows, spec = workspace.require_dispatches(), dispatch_list.DISPATCH_LIST
            listed = dispatch_list.list_dispatches(rows, workspace.agents())
        listed = dispatch_list.select_dispatches(listed, match=match, device=device)
        if sort == "duration":
            listed = listed.sort_values(["duration_ns", "dispatch_id"], ascending=[False, True], kind="stable")
        if output.table_format is TableFormat.TABLE:
            shown = _SHOWN_COUNTED if counted else _SHOWN
            listed = listed[[name for name in shown if listed.empty or listed[name].notna().any()]]
        kind = "counter passes" if counted else "traces"
        title = f"dispatches: {count_noun(len(rows), 'dispatch')} in {kind}, {len(listed):,} selected"
        table = table_from_spec(
            listed, spec, evidence=Evidence.MEASURED, title=title, is_simulated=workspace.is_simulated
        )
        emit_table(table, output)
        findings = workspace.findings
    emit_findings(findings)
    return exit_code_of(findings)
