"""`rocktools perfetto`: the whole trace as one picture to open in ui.perfetto.dev."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.attribution_options import LedgerRequest, attribution_options, ledger_options, select_rows
from rocktools.cli.output import emit_findings, exit_code_of, new_file, require_new_path
from rocktools.cli.progress import working
from rocktools.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.workspace.attributed import AttributedRuns
    from rocktools.workspace.workspace import Workspace


@click.command("perfetto")
@ledger_options
@click.option(
    "--host",
    "calls",
    type=click.Choice(["all", "launches", "none"]),
    default="all",
    show_default=True,
    help="Which calls of the host are shown: all that were recorded, those that launched what is shown, or none.",
)
@click.option(
    "--counters",
    metavar="PATH",
    multiple=True,
    help="Where the counter passes are, if not among PATHS; anything that `rocktools metrics` reads.",
)
@click.option(
    "-o",
    "--output",
    "path",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="The new trace: FILE.pftrace.",
)
def command(request: LedgerRequest, calls: str, counters: tuple[str, ...], path: Path) -> int:
    """Write a trace for ui.perfetto.dev: devices, streams, steps, exposed time, host calls, and what links them.

    A slice carries the HLO instruction, scope, phase and component of its kernel, how they were found, how it was
    launched, and what counters and roofline say of the kernel; those two are means of the kernel. Arrows lead from the
    host call to the dispatch it launched. Open the file with "Open trace file" at ui.perfetto.dev: it stays in your
    browser.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns or run directories.
    """
    from rocktools.render.perfetto import packet_counts, write_perfetto
    from rocktools.units import format_count
    from rocktools.workspace.attributed import attribute_workspace
    from rocktools.workspace.host_tracks import HostCalls
    from rocktools.workspace.tracks import TrackOptions, build_tracks
    from rocktools.workspace.workspace import Workspace

    require_new_path(path)
    with Workspace.open(request.paths) as workspace:
        with working("linking and attributing"):
            runs = attribute_workspace(workspace, attribution_options(request))
        rows, steps, window = _shown(request, runs)
        options = TrackOptions(
            calls=HostCalls(calls), counters=counters or _own_counters(workspace, request), window_ns=window
        )
        with working("making tracks"):
            built = build_tracks(workspace, runs, rows, steps, options)
        findings = [*workspace.findings, *runs.findings, *built.findings]
        with new_file(path) as temporary, temporary.open("wb") as stream, working("writing"):
            write_perfetto(built.tracks, stream)
    counts = ", ".join(f"{format_count(count)} {name}" for name, count in packet_counts(built.tracks).items() if count)
    stamp = "SIMULATED: no hardware produced these times; " if built.is_simulated else ""
    click.echo(f"{path}: {stamp}{counts}; open it at ui.perfetto.dev")
    emit_findings(findings)
    return exit_code_of(findings)


def _shown(request: LedgerRequest, runs: AttributedRuns) -> tuple[pd.DataFrame, pd.DataFrame, tuple[int, int] | None]:
    """Rows, steps and the window of the host: everything, unless steps or a device were asked for."""
    if not request.steps and request.device is None and request.window is None:
        return runs.rows, runs.steps.frame, None
    rows, steps = select_rows(request, runs)
    if rows.empty:
        raise UsageError("nothing-to-show", "nothing ran there", hint="rocktools overlap PATH lists steps and devices")
    return rows, steps, (int(steps["start_ns"].min()), int(steps["end_ns"].max()))


def _own_counters(workspace: Workspace, request: LedgerRequest) -> tuple[str, ...]:
    return tuple(request.paths) if len(workspace.counted_dispatches(["kernel_name"])) else ()
