"""`rocktools dispatches`: every kernel execution, one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.options import columns_option, match_option, paths_argument, table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, exit_code_of

if TYPE_CHECKING:
    import pandas as pd

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

# What a narrow terminal may lose, the most important first.
_OPTIONAL = (
    "device",
    "stream_id",
    "grid_workitems",
    "range",
    "workgroup_workitems",
    "queue_id",
    "vgpr_count",
    "lds_bytes",
)


@click.command("dispatches")
@paths_argument
@match_option("kernels whose clean name has")
@click.option("--device", metavar="LABEL", help="Only this device, as `rocktools info` labels it (host0:gpu3).")
@click.option(
    "--sort",
    type=click.Choice(["start", "duration"]),
    default="start",
    show_default=True,
    help="Order of the rows: by start, or the longest first.",
)
@click.option("--counted", is_flag=True, help="The dispatches of counter passes instead of those of traces.")
@columns_option
@table_options(top_count=20)
def command(
    paths: tuple[str, ...],
    match: str | None,
    device: str | None,
    sort: str,
    counted: bool,
    columns: tuple[str, ...] | None,
    output: TableOutput,
) -> int:
    """Every kernel execution, one row each, in the order of their start.

    The table shows the start as an offset from the first dispatch of its process; the other formats have every column,
    start and end exactly. Dispatches of counter passes (--counted) are shown without times: those runs are serialised.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns, .rpdb folders or run
    directories.
    """
    from rocktools.errors import UsageError
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.timeline import dispatch_list
    from rocktools.timeline.kernel_stats import nothing_matched
    from rocktools.units import count_noun
    from rocktools.workspace.workspace import Workspace

    if counted and sort == "duration":
        raise UsageError(
            "counted-durations", "durations in a counter pass mean nothing; its dispatches cannot be sorted by them"
        )
    spec = dispatch_list.COUNTED_DISPATCH_LIST if counted else dispatch_list.DISPATCH_LIST
    chosen = None if columns is None else spec.select(columns)
    with Workspace.open(paths) as workspace:
        if counted:
            rows = workspace.require_counted_dispatches()
            listed = dispatch_list.list_counted_dispatches(rows, workspace.agents())
        else:
            rows = workspace.require_dispatches()
            listed = dispatch_list.list_dispatches(rows, workspace.agents())
        listed = dispatch_list.select_dispatches(listed, match=match)
        findings = [*workspace.findings]
        if match is not None and listed.empty:
            findings += nothing_matched(rows, match)
        listed = dispatch_list.select_dispatches(listed, device=device)
        if sort == "duration":
            listed = listed.sort_values(["duration_ns", "dispatch_id"], ascending=[False, True], kind="stable")
        names = chosen or (_for_people(listed) if output.table_format is TableFormat.TABLE else spec.names)
        kind = "counter passes" if counted else "traces"
        title = f"dispatches: {count_noun(len(rows), 'dispatch')} in {kind}, {len(listed):,} selected"
        table = table_from_spec(
            listed[list(names)],
            spec,
            evidence=Evidence.MEASURED,
            title=title,
            is_simulated=workspace.is_simulated,
            optional_columns=() if chosen else _OPTIONAL,
        )
        emit_table(table, output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)


def _for_people(listed: pd.DataFrame) -> list[str]:
    """The columns that say something about these rows."""
    shown = _SHOWN if "duration_ns" in listed else _SHOWN_COUNTED
    return [name for name in shown if listed.empty or listed[name].notna().any()]
