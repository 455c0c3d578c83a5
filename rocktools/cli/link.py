"""`rocktools link`: how much of a run is linked to the compiled program, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.options import paths_argument, table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, emit_tables, exit_code_of

if TYPE_CHECKING:
    from rocktools.render.table import Table
    from rocktools.workspace.links import LinkedRun

_SCHEMA = "rocktools.link/1"
_PARTS = ("coverage", "unlinked", "edges")
_OPTIONAL = (
    *("dispatches_count", "total_ns", "time_ratio", "reason", "dispatches_ratio", "family", "confidence", "candidates"),
    *("iterations", "execution_index", "thunk_id", "probability_ratio", "candidates_count"),
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
    from rocktools.workspace.links import link_runs
    from rocktools.workspace.workspace import Workspace

    with Workspace.open(paths) as workspace:
        runs = link_runs(workspace, hlo)
        findings = [*workspace.findings, *(finding for run in runs for finding in run.findings)]
        is_simulated = workspace.is_simulated
    is_one_table = part is not None or output.table_format in (TableFormat.CSV, TableFormat.PARQUET)
    if is_one_table:
        emit_table(_table(runs, part or "edges", is_simulated=is_simulated), output, findings=findings)
    else:
        tables = [_table(runs, name, is_simulated=is_simulated) for name in ("coverage", "unlinked")]
        head = {"findings": [finding.as_dict() for finding in findings]}
        emit_tables([top_rows(table, output.top_count) for table in tables], output, schema=_SCHEMA, head=head)
    emit_findings(findings)
    return exit_code_of(findings)


def _table(runs: list[LinkedRun], part: str, *, is_simulated: bool) -> Table:
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.units import count_noun, format_duration, format_ratio
    from rocktools.workspace.link_coverage import LINK_COVERAGE, LINK_UNLINKED, collect_edges, cover_runs

    if part == "edges":
        spec, frame = collect_edges(runs)
        title = f"edges: {count_noun(len(frame), 'row')}"
    else:
        covered = cover_runs(runs)
        share = format_ratio(covered.linked_count / max(covered.rows_count, 1))
        of_time = format_ratio(covered.linked_ns / max(covered.total_ns, 1))
        if part == "coverage":
            spec, frame = LINK_COVERAGE, covered.coverage
            programs = ", ".join(dict.fromkeys(program.name for run in runs for program in run.programs[:3]))
            title = (
                f"links to {programs}: {share} of {count_noun(covered.rows_count, 'row')} have an instruction, "
                f"{of_time} of {format_duration(covered.total_ns)}"
            )
        else:
            spec, frame = LINK_UNLINKED, covered.unlinked
            title = f"without an instruction: {count_noun(covered.rows_count - covered.linked_count, 'row')}"
        hidden = [name for name in ("run", "rows") if frame[name].nunique() < 2]
        frame = frame.drop(columns=hidden)
    return table_from_spec(
        frame,
        spec,
        evidence=Evidence.INFERRED,
        title=title,
        is_simulated=is_simulated,
        optional_columns=_OPTIONAL,
    )
