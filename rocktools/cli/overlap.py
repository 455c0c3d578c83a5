"""`rocktools overlap`: what ran at once, and what communication costs that nothing hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.attribution_options import LedgerRequest, attribution_options, ledger_options, select_rows
from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, exit_code_of
from rocktools.cli.progress import working

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = (
    *("run", "device", "step_index", "compute_ns", "communication_ns", "copy_ns", "hidden_communication_ns"),
    *("exposed_communication_ns", "exposed_copy_ns", "busy_ns", "idle_ns", "span_ns", "step_ns", "distance_ns"),
)
OPTIONAL_COLUMNS = (
    *("exposed_communication_ns", "busy_ns", "idle_ns", "hidden_communication_ns", "span_ns", "communication_ns"),
    *("compute_ns", "step_ns", "distance_ns", "exposed_copy_ns", "copy_ns", "convention"),
)


@click.command("overlap")
@ledger_options
@click.option(
    "--convention",
    type=click.Choice(["compute_first", "communication_first"]),
    help="Divide the span into parts that do not overlap; time in which both ran is booked to the one named first.  "
    "[default: unions and intersections, undivided]",
)
@table_options(top_count=40)
def command(request: LedgerRequest, convention: str | None, output: TableOutput) -> int:
    """What ran at once on each device in each step: unions, intersections, and what they leave.

    Exposed communication is time in which a collective ran and no compute kernel did. In integers: busy = compute +
    exposed communication + exposed copies; communication = hidden + exposed; span = busy + idle; the distance is the
    span minus the window of the step.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns or run directories.
    """
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.timeline.overlap import BUSY_TIME, RECONCILIATION, divide_busy_time, reconcile
    from rocktools.units import count_noun
    from rocktools.workspace.attributed import attribute_workspace
    from rocktools.workspace.workspace import Workspace

    with Workspace.open(request.paths) as workspace:
        with working("linking and attributing"):
            runs = attribute_workspace(workspace, attribution_options(request))
        rows, steps = select_rows(request, runs)
        reconciled = reconcile(rows, steps)
        findings = [*workspace.findings, *runs.findings, *reconciled.findings]
        spec, frame = RECONCILIATION, reconciled.frame
        if convention is not None:
            spec, frame = BUSY_TIME, divide_busy_time(frame)
            frame = frame[frame["convention"] == convention].reset_index(drop=True)
        names = shown_columns(frame) if output.table_format is TableFormat.TABLE else list(spec.names)
        methods = ", ".join(sorted({str(name) for name in steps["method"]}))
        title = (
            f"overlap: {count_noun(frame['step_index'].nunique(), 'step')} ({methods}) on "
            f"{count_noun(frame['device'].nunique(), 'device')}"
        )
        table = table_from_spec(
            frame[names],
            spec,
            evidence=Evidence.MEASURED,
            title=title,
            is_simulated=workspace.is_simulated,
            optional_columns=OPTIONAL_COLUMNS,
        )
        emit_table(table, output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)


def shown_columns(frame: pd.DataFrame) -> list[str]:
    """Without the run where there is one only, and without copies where there are none."""
    if "convention" in frame:
        return [name for name in frame.columns if name != "run" or frame[name].nunique() > 1]
    hidden = {"run"} if frame["run"].nunique() < 2 else set()
    if not (frame["copy_ns"] > 0).any():
        hidden |= {"copy_ns", "exposed_copy_ns"}
    return [name for name in _SHOWN if name not in hidden]
