"""`rocktools info`: what is in a run or a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.options import paths_argument, table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, emit_tables, exit_code_of
from rocktools.cli.progress import working

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.render.table import Table
    from rocktools.workspace.inventory import Inventory

_SCHEMA = "rocktools.info/1"
_PARTS = ("processes", "devices", "contents", "counters")
_SHOWN = {
    "processes": ("run", "process", "tool", "schema_version", "content", "pid", "rank", "host", "command", "path"),
    "devices": ("device", "arch", "product", "xcc_count", "cu_count", "processes_count", "dispatches_count"),
    "contents": ("run", "process", "subject", "rows_count", "start_ns", "span_ns"),
    "counters": ("run", "process", "counter", "rows_count"),
}

# What a narrow terminal may lose, the most important first.
_OPTIONAL = {
    "processes": ("content", "rank", "run", "pid", "host", "command", "tool", "schema_version"),
    "devices": ("dispatches_count", "arch", "product", "cu_count", "processes_count", "xcc_count"),
    "contents": ("span_ns", "start_ns"),
    "counters": (),
}


@click.command("info")
@paths_argument
@click.option(
    "--part",
    type=click.Choice(_PARTS),
    help="One part only, as a table of its own.  [default: everything; contents for csv and parquet]",
)
@table_options()
def command(paths: tuple[str, ...], part: str | None, output: TableOutput) -> int:
    """What is in a run, a trace or a JAX profile, and what of it cannot be trusted.

    Processes, GPUs, rows and time windows, counters, and the findings of every health check: dangling joins that stock
    views hide, negative and overlapping times, duplicate ids, missing tables, clocks that disagree. Reads much of the
    files. Exit code 1 if nothing in them can be trusted, or a file named here cannot be read. JSON is one document with
    all parts (rocktools.info/1).

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns, .rpdb folders or run
    directories.
    """
    from rocktools.errors import EXIT_FAILURE
    from rocktools.workspace.inventory import take_inventory
    from rocktools.workspace.workspace import Workspace

    with Workspace.open(paths) as workspace:
        opening = exit_code_of(workspace.findings)
        with working("reading"):
            inventory = take_inventory(workspace)
    if part is not None or output.table_format in (TableFormat.CSV, TableFormat.PARQUET):
        emit_table(_table(inventory, part or "contents", output), output, findings=inventory.findings)
    else:
        head = {
            "is_trustworthy": inventory.is_trustworthy,
            "findings": [finding.as_dict() for finding in inventory.findings],
        }
        tables = [_table(inventory, name, output) for name in _PARTS]
        if output.table_format is TableFormat.TABLE:  # a trace without counters has no table of them
            tables = [table for table in tables if len(table.frame)]
        emit_tables(tables, output, schema=_SCHEMA, head=head)
    emit_findings(inventory.findings)
    return opening if inventory.is_trustworthy and inventory.is_complete else EXIT_FAILURE


def _table(inventory: Inventory, name: str, output: TableOutput) -> Table:
    """One part as a table; for people without the columns that say nothing."""
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec

    spec, frame = inventory.frame(name)
    if output.table_format is TableFormat.TABLE:
        varies = {column: frame[column].nunique() > 1 for column in ("run", "process") if column in frame}
        shown = [column for column in _SHOWN[name] if name == "processes" or varies.get(column, True)]
        frame = _in_reading_order(frame, inventory)
        frame = frame[[column for column in shown if frame.empty or bool(frame[column].notna().any())]]
    return table_from_spec(
        frame,
        spec,
        evidence=Evidence.MEASURED,
        title=name,
        is_simulated=inventory.is_simulated,
        optional_columns=_OPTIONAL[name],
    )


def _in_reading_order(frame: pd.DataFrame, inventory: Inventory) -> pd.DataFrame:
    """Rows of traces before those of counter passes, and both by rank; `process` alone is an order of random ids."""
    if "process" not in frame:
        return frame
    known = inventory.processes
    known = known.assign(is_counting=known["content"] == "counters")
    ordered = known.sort_values(["run", "is_counting", "rank", "pid", "process"], kind="stable")
    position = {key: number for number, key in enumerate(zip(ordered["run"], ordered["process"], strict=True))}
    places = [position[key] for key in zip(frame["run"], frame["process"], strict=True)]
    return frame.iloc[sorted(range(len(frame)), key=places.__getitem__)]
