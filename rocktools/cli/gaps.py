"""`rocktools gaps`: when devices did nothing, before what, and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from rocktools.cli.attribution_options import LedgerRequest, attribution_options, ledger_options, select_rows
from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, exit_code_of
from rocktools.cli.progress import working
from rocktools.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.frames import FrameSpec

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)?")
_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_OPTIONAL = (
    *("total_ns", "duration_ns", "gaps_count", "cause", "marker_name", "mean_ns", "longest_ns", "previous_name"),
    *("launch_lead_ns", "is_between_steps", "step_index", "start_ns", "end_ns", "device"),
)


def _parse_duration(_context: click.Context, _parameter: click.Parameter, value: str) -> int:
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise UsageError(
            "bad-duration", f"--at-least {value!r} is no duration", hint="a number and a unit: 500ns, 20us, 1.5ms"
        )
    return max(1, round(float(found[1]) * _NS[found[2] or "ns"]))


@click.command("gaps")
@ledger_options
@click.option(
    "--by",
    type=click.Choice(["payload", "gap", "cause"]),
    default="payload",
    show_default=True,
    help="Rows: all gaps before one payload together; every gap, the longest first; or device, step and cause.",
)
@click.option(
    "--at-least",
    "at_least_ns",
    metavar="TIME",
    default="1ns",
    show_default=True,
    callback=_parse_duration,
    help="Leave out shorter gaps: 500ns, 20us, 1.5ms.",
)
@table_options(top_count=20)
def command(request: LedgerRequest, by: str, at_least_ns: int, output: TableOutput) -> int:
    """When the devices did nothing, before what, and why.

    A gap is time in which neither a kernel nor a copy ran. The payload is what useful work began with behind it; a
    marker is a tiny operation in front of that, such as an iota. Causes: host wait (the call that launched the next
    kernel began after the device had gone idle), kernel wait (it was launched in time, and started late), other.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns or run directories.
    """
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.timeline.gaps import find_gaps
    from rocktools.units import count_noun, format_duration
    from rocktools.workspace.attributed import attribute_workspace
    from rocktools.workspace.workspace import Workspace

    with Workspace.open(request.paths) as workspace:
        with working("linking and attributing"):
            runs = attribute_workspace(workspace, attribution_options(request))
        rows, _ = select_rows(request, runs)
        gaps = find_gaps(runs.with_host_calls(rows), runs.launches, at_least_ns=at_least_ns)
        findings = [*workspace.findings, *runs.findings, *gaps.findings]
        is_simulated = workspace.is_simulated
    spec, frame = _view(gaps.frame, by)
    names = _for_people(frame) if output.table_format is TableFormat.TABLE else list(spec.names)
    total = format_duration(int(gaps.frame["duration_ns"].sum()))
    devices = count_noun(rows["device"].nunique(), "device")
    title = f"gaps: {count_noun(len(gaps.frame), 'gap')} on {devices}, {total} idle in all"
    table = table_from_spec(
        frame[names],
        spec,
        evidence=Evidence.MEASURED,
        title=title,
        is_simulated=is_simulated,
        optional_columns=_OPTIONAL,
    )
    emit_table(table, output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)


def _view(gaps: pd.DataFrame, by: str) -> tuple[FrameSpec, pd.DataFrame]:
    from rocktools.timeline.gaps import GAP_TOTALS, GAPS, GAPS_BEFORE, gaps_before, total_gaps

    if by == "cause":
        return GAP_TOTALS, total_gaps(gaps)
    if by == "payload":
        return GAPS_BEFORE, gaps_before(gaps)
    return GAPS, gaps.sort_values(["duration_ns", "start_ns"], ascending=[False, True], ignore_index=True)


def _for_people(frame: pd.DataFrame) -> list[str]:
    hidden = {name for name in ("run", "device") if name in frame and frame[name].nunique() < 2}
    return [name for name in frame.columns if name not in hidden and (frame.empty or frame[name].notna().any())]
