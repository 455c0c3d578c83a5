"""`rocktools ledger`: where the time of a step went, by phase and component, so that it adds up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.attribution_options import (
    LedgerRequest,
    attribution_options,
    ledger_options,
    select_rows,
    select_steps,
    worker_options,
)
from rocktools.cli.options import table_options
from rocktools.cli.output import (
    TableFormat,
    TableOutput,
    emit_document,
    emit_findings,
    emit_table,
    emit_tables,
    exit_code_of,
)
from rocktools.cli.progress import tell_files_done, working

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.analytic.occurrences import Workload
    from rocktools.attribution.ledger_document import Ledger
    from rocktools.render.table import Table
    from rocktools.workspace.many_ranks import Workers

_SCHEMA = "rocktools.ledger/1"
_PARTS = ("tables", "buckets", "reconciliation", "steps")
_TITLES = {
    "forward": "forward, by component",
    "backward": "backward, by component",
    "rematerialized": "rematerialized forward work, by component",
    "model": "forward, backward and rematerialized together, by part of the model",
    "gradients": "backward matrix products, by what they are the gradient of",
    "cross_cutting": "across all phases",
}
_SHOWN = (
    *("row", "mean_ns", "share_ratio", "union_ns", "lowest_ns", "highest_ns", "critical_device"),
    *("rows_count", "expected_count", "found_count", "state"),
)
_IF_ANY = {"expected_count", "found_count", "state"}
_OF_DEVICES = {"lowest_ns", "highest_ns", "critical_device"}
_OPTIONAL = (
    *("state", "found_count", "expected_count", "union_ns", "rows_count", "critical_device"),
    *("highest_ns", "lowest_ns"),
)
_RECONCILED_ROWS = 24  # for people; `rocktools overlap` and the other formats have all


@click.command("ledger")
@ledger_options
@click.option(
    "--workload",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="YAML with layers, microsteps and devices: components must then occur as often as they say, or a row fails.",
)
@worker_options
@click.option(
    "--part",
    type=click.Choice(_PARTS),
    help="One part only, as a table of its own.  [default: all; buckets for csv and parquet]",
)
@table_options()
def command(
    request: LedgerRequest, workload: Path | None, workers: Workers, part: str | None, output: TableOutput
) -> int:
    """Where the time of a step went: every kernel and copy in exactly one phase and component, with a sum that closes.

    Numbers of the tables are means per device and step; summed and union time stand side by side, with the spread over
    devices and the device with most. Warm-up steps, and steps that the trace cuts, do not count. JSON is one document
    with everything (rocktools.ledger/1). Several files are measured one by one, so that ranks need not fit into memory
    together; one that cannot be read is named, and the others are counted. Exit code 3 if a count misses what
    --workload expects.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns or run directories.
    """
    from rocktools import __version__
    from rocktools.analytic.occurrences import read_workload
    from rocktools.attribution.ledger_document import ledger_document
    from rocktools.errors import EXIT_GATE
    from rocktools.workspace.rank_files import list_rank_sources

    expected = None if workload is None else read_workload(workload)
    if workers.is_elsewhere or len(list_rank_sources(request.paths)) > 1:
        ledger = _ledger_of_ranks(request, expected, workers)
    else:
        ledger = _ledger_of_one(request, expected)
    is_flat = output.table_format in (TableFormat.CSV, TableFormat.PARQUET)
    if part is not None or is_flat:
        emit_table(_part(ledger, part or "buckets"), output, findings=ledger.findings)
    elif output.table_format is TableFormat.JSON:
        emit_document(ledger_document(ledger, rocktools_version=__version__), output)
    else:
        emit_tables(_tables(ledger), output, schema=_SCHEMA, head={})
    emit_findings(ledger.findings)
    return EXIT_GATE if ledger.has_failed else exit_code_of(ledger.findings)


def _ledger_of_one(request: LedgerRequest, workload: Workload | None) -> Ledger:
    from rocktools.workspace.attributed import attribute_workspace
    from rocktools.workspace.ledger import build_run_ledger
    from rocktools.workspace.workspace import Workspace

    options = attribution_options(request)
    with Workspace.open(request.paths) as workspace:
        with working("linking and attributing"):
            runs = attribute_workspace(workspace, options)
        rows, steps = select_rows(request, runs)
        return build_run_ledger(
            rows,
            steps,
            component_map=options.component_map,
            workload=workload,
            findings=[*workspace.findings, *runs.findings],
            is_simulated=workspace.is_simulated,
        )


def _ledger_of_ranks(request: LedgerRequest, workload: Workload | None, workers: Workers) -> Ledger:
    from rocktools.frames import STEPS
    from rocktools.timeline.overlap import RECONCILIATION
    from rocktools.workspace.ledger import build_ranks_ledger
    from rocktools.workspace.rank_files import measure_ledger_file, measure_rank_files

    options = attribution_options(request)
    measured = measure_rank_files(
        request.paths, options, workers, tell_files_done, work=measure_ledger_file, workload=workload
    )
    devices = measured.partial[RECONCILIATION]["device"].unique()
    return build_ranks_ledger(
        measured.partial,
        select_steps(request, measured.partial[STEPS], devices),
        component_map=options.component_map,
        workload=workload,
        findings=measured.findings,
    )


def _tables(ledger: Ledger) -> list[Table]:
    """The tables that say something, for people: without lines that have neither time nor a state."""
    from rocktools.render.table import top_rows

    shown = []
    for name, rows in ledger.tables.groupby("table", observed=True, sort=False):
        says = (rows["rows_count"].fillna(0) > 0) | rows["state"].notna()
        if name == "phases" or (rows["rows_count"].fillna(0) > 0).any():
            shown.append(_ledger_table(ledger, rows[says if name != "phases" else rows.index >= 0], str(name)))
    reconciliation = _part(ledger, "reconciliation", is_for_people=True)
    return [*shown, top_rows(reconciliation, _RECONCILED_ROWS)]


def _ledger_table(ledger: Ledger, rows: pd.DataFrame, name: str) -> Table:
    from rocktools.attribution.ledger_tables import LEDGER_ROWS

    hidden = set() if ledger.reconciliation["device"].nunique() > 1 else _OF_DEVICES
    hidden = hidden | {column for column in _SHOWN if column in _IF_ANY and not rows[column].notna().any()}
    names = [name for name in _SHOWN if name not in hidden]
    title = _TITLES.get(name, name)
    return _table(ledger, rows[names], LEDGER_ROWS, ledger.title if name == "phases" else title)


def _part(ledger: Ledger, part: str, *, is_for_people: bool = False) -> Table:
    from rocktools.attribution.ledger_tables import LEDGER_ROWS
    from rocktools.frames import LEDGER, STEPS
    from rocktools.timeline.overlap import RECONCILIATION

    frames = {
        "tables": (ledger.tables, LEDGER_ROWS),
        "buckets": (ledger.buckets, LEDGER),
        "reconciliation": (ledger.reconciliation, RECONCILIATION),
        "steps": (STEPS.empty() if ledger.steps is None else ledger.steps, STEPS),
    }
    frame, spec = frames[part]
    if is_for_people:
        from rocktools.cli.overlap import shown_columns

        frame = frame[shown_columns(frame)]
    return _table(ledger, frame, spec, "reconciliation with the timeline" if is_for_people else part)


def _table(ledger: Ledger, frame: pd.DataFrame, spec: object, title: str) -> Table:
    from rocktools.cli.overlap import OPTIONAL_COLUMNS
    from rocktools.evidence import Evidence
    from rocktools.frames import FrameSpec
    from rocktools.render.table import table_from_spec

    assert isinstance(spec, FrameSpec)
    has_inference = bool((ledger.buckets["inferred_ns"] > 0).any())
    return table_from_spec(
        frame,
        spec,
        evidence=Evidence.INFERRED if has_inference and spec.name != "RECONCILIATION" else Evidence.MEASURED,
        title=title,
        is_simulated=ledger.is_simulated,
        optional_columns=(*_OPTIONAL, *OPTIONAL_COLUMNS),
    )
