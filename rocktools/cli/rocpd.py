"""`rocktools rocpd recover|scrub`: repaired and shareable copies of a rocpd database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.output import new_file

if TYPE_CHECKING:
    from rocktools.sources.rocpd.repair import TableCopy

_source = click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
_target = click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="The copy; a file that is there already is never overwritten.",
)


@click.group("rocpd")
def command() -> None:
    """Copies of rocpd databases: repaired, or fit to be shared. The original is never touched."""


@command.command("recover")
@_source
@_target
def recover(source: Path, target: Path) -> int:
    """Save what can still be read of FILE into a new database.

    For files that were cut short, that are damaged, or whose writer was killed (a journal or write-ahead log lies
    beside them). The copy says in its metadata that it was recovered. Exit code 0 also if rows were lost: which tables
    lost some is told.
    """
    from rocktools.sources.rocpd.repair import recover_database

    with new_file(target) as partial:
        copies = recover_database(source, partial)
    _report(copies, target)
    damaged = [copy for copy in copies if not copy.is_complete]
    for copy in damaged:
        click.echo(f"rows were lost from {copy.table}: {copy.rows_count:,} are left", err=True)
    return 0


@command.command("scrub")
@_source
@_target
@click.option(
    "--identity",
    is_flag=True,
    help="Also take out host names, machine ids, command lines, file paths, the tool's configuration, and text "
    "arguments of API calls.",
)
def scrub(source: Path, target: Path, identity: bool) -> int:
    """Copy FILE without the environment of the job.

    rocprofv3 stores every environment variable of the profiled process, secrets among them. Times, names of kernels,
    ranges and API calls stay as they are.
    """
    from rocktools.sources.rocpd.repair import scrub_database

    with new_file(target) as partial:
        copies = scrub_database(source, partial, hides_identity=identity)
    _report(copies, target)
    return 0


def _report(copies: Sequence[TableCopy], target: Path) -> None:
    rows = sum(copy.rows_count for copy in copies)
    click.echo(f"{target}: {rows:,} rows in {len(copies)} tables")
