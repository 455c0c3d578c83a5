"""`rocktools link`: how much of a run is linked to the compiled program, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rocktools.cli.options import paths_argument, table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, emit_tables, exit_code_of
from rocktools.cli.progress import working

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.frames import FrameSpec
    from rocktools.render.table import Table
    from rocktools.workspace.link_coverage import LinkCoverage
    from rocktools.workspace.links import LinkedRun

_SCHEMA = "rocktools.link/1"
_PARTS = ("coverage", "unlinked", "edges")
_NAMED = 3
_WHOSE = ("run", "process", "host", "rows")
# What a narrow terminal may lose, the most important first.
_OPTIONAL = (
    *("run", "rows", "method", "dispatches_count", "total_ns", "time_ratio", "confidence", "count_ratio", "candidates"),
    *("family", "program_id", "iterations", "thunk_id", "candidates_count", "execution_index", "probability_ratio"),
    *("is_iteration_sure", "process", "host", "line"),
)


@click.command("link")
@paths_argument
@click.option(
    "--hlo",
    "hlo",
    metavar="FILE",
    multiple=True,
    type=str,
    help="The compiled program: what XLA dumped (file or folder; HLO text or proto, the thunk sequence beside it) "
    "or a JAX profile; may be repeated.  [default: hlo/ of the run directory, HLO in the profile]",
)
@click.option(
    "--part",
    type=click.Choice(_PARTS),
    help="One part only, as a table of its own.  [default: coverage and unlinked; edges for csv and parquet]",
)
@table_options(top_count=20)
def command(paths: tuple[str, ...], hlo: tuple[str, ...], part: str | None, output: TableOutput) -> int:
    """Which HLO instruction launched each dispatch: how many are linked, by which method, and what stayed unlinked.

    Methods, the most reliable first: annotation (a JAX profile says it), thunk (kernel and geometry belong to one
    instruction), schedule (the order of the launches decides), name (the kernel is called like the instruction; never
    certain). Ambiguous dispatches list their candidates in --part edges.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns or run directories.
    """
    from rocktools.render.table import top_rows
    from rocktools.workspace.link_coverage import cover_runs
    from rocktools.workspace.links import findings_of, link_runs
    from rocktools.workspace.workspace import Workspace

    with Workspace.open(paths) as workspace:
        with working("linking"):
            runs = link_runs(workspace, hlo)
        findings = [*workspace.findings, *findings_of(runs)]
        is_simulated = workspace.is_simulated
    if part == "edges" or (part is None and output.table_format in (TableFormat.CSV, TableFormat.PARQUET)):
        emit_table(_edges_table(runs, output, is_simulated=is_simulated), output, findings=findings)
    else:
        covered = cover_runs(runs)
        tables = {
            "coverage": _coverage_table(covered, output, is_simulated=is_simulated),
            "unlinked": _unlinked_table(covered, output, is_simulated=is_simulated),
        }
        if part is not None:
            emit_table(tables[part], output, findings=findings)
        else:
            shown = [top_rows(table, output.top_count) for table in tables.values()]
            if output.table_format is TableFormat.TABLE:  # where everything is linked, the rest needs no table
                shown = [table for table in shown if len(table.frame)] or shown[:1]
            head = {"findings": [finding.as_dict() for finding in findings]}
            emit_tables(shown, output, schema=_SCHEMA, head=head)
    emit_findings(findings)
    return exit_code_of(findings)


def _edges_table(runs: list[LinkedRun], output: TableOutput, *, is_simulated: bool) -> Table:
    from rocktools.units import count_noun
    from rocktools.workspace.link_coverage import collect_edges

    spec, frame = collect_edges(runs)
    title = f"edges: {count_noun(len(frame), 'row')}"
    return _table(_for_people(frame, output), spec, title, is_simulated=is_simulated)


def _coverage_table(covered: LinkCoverage, output: TableOutput, *, is_simulated: bool) -> Table:
    from rocktools.units import format_count, format_duration, format_ratio
    from rocktools.workspace.link_coverage import LINK_COVERAGE

    share = format_ratio(covered.linked_count / max(covered.rows_count, 1))
    of_time = format_ratio(covered.linked_ns / max(covered.total_ns, 1))
    title = (
        f"links: {format_count(covered.linked_count)} of {_rows(covered)} ({share}) have an HLO instruction, "
        f"{format_duration(covered.linked_ns)} of {format_duration(covered.total_ns)} ({of_time})"
    )
    if covered.programs:
        more = f" and {len(covered.programs) - _NAMED} more" if len(covered.programs) > _NAMED else ""
        title = f"{title}; of {', '.join(covered.programs[:_NAMED])}{more}"
    frame = _for_people(covered.coverage, output)
    return _table(frame, LINK_COVERAGE, title, is_simulated=is_simulated)


def _unlinked_table(covered: LinkCoverage, output: TableOutput, *, is_simulated: bool) -> Table:
    """For people the reasons stand below, by number: they are sentences, and few."""
    from rocktools.units import count_noun, format_duration
    from rocktools.workspace.link_coverage import LINK_UNLINKED

    unlinked = covered.unlinked
    title = f"without an instruction: {covered.rows_count - covered.linked_count:,} of {_rows(covered)}"
    noun = "row" if covered.host_events_count else "dispatch"
    notes = []
    frame = _for_people(unlinked, output)
    if output.table_format is TableFormat.TABLE:
        numbers = {reason: f"[{number}]" for number, reason in enumerate(dict.fromkeys(unlinked["reason"]), start=1)}
        frame = frame.assign(reason=[numbers[reason] for reason in unlinked["reason"]])
        for reason, number in numbers.items():
            rows = unlinked[unlinked["reason"] == reason]
            count, total = count_noun(int(rows["dispatches_count"].sum()), noun), int(rows["total_ns"].sum())
            notes.append(f"{number} {reason}: {count}, {format_duration(total)}")
    return _table(frame, LINK_UNLINKED, title, is_simulated=is_simulated, notes=notes)


def _rows(covered: LinkCoverage) -> str:
    from rocktools.units import count_noun

    counts = ((covered.dispatches_count, "dispatch"), (covered.host_events_count, "host event"))
    return " and ".join(count_noun(count, noun) for count, noun in counts if count) or "0 dispatches"


def _for_people(frame: pd.DataFrame, output: TableOutput) -> pd.DataFrame:
    """In a table without the columns that say nothing, or the same in every row."""
    if output.table_format is not TableFormat.TABLE:
        return frame
    says_nothing = [name for name in _WHOSE if name in frame and frame[name].nunique() < 2]
    if len(frame):
        says_nothing += [name for name in frame.columns if frame[name].isna().all()]
    return frame.drop(columns=says_nothing)


def _table(frame: pd.DataFrame, spec: FrameSpec, title: str, *, is_simulated: bool, notes: Sequence[str] = ()) -> Table:
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec

    return table_from_spec(
        frame,
        spec,
        evidence=Evidence.INFERRED,
        title=title,
        is_simulated=is_simulated,
        notes=notes,
        optional_columns=_OPTIONAL,
    )
