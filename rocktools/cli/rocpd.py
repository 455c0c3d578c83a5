"""`rocktools rocpd recover|scrub`: repaired and shareable copies of a rocpd database."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.output import emit_findings, new_file
from rocktools.errors import UsageError

if TYPE_CHECKING:
    from rocktools.sources.rocpd.repair import DatabaseCopy

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

    _require_no_folder(source)
    with new_file(target) as partial:
        copy = recover_database(source, partial)
    _report(copy, target)
    return 0


@command.command("scrub")
@_source
@_target
@click.option(
    "--identity",
    is_flag=True,
    help="Also take out host names, machine ids, command lines, file paths, call stacks, the tool's configuration, and "
    "text arguments of API calls.",
)
def scrub(source: Path, target: Path, identity: bool) -> int:
    """Copy FILE without the environment of the job.

    rocprofv3 stores the environment variables of the profiled process, which may include secrets; `rocktools info` says
    how many are in a file. Times, names of kernels, ranges and API calls stay as they are.
    """
    from rocktools.sources.rocpd.repair import scrub_database

    _require_no_folder(source)
    with new_file(target) as partial:
        copy = scrub_database(source, partial, hides_identity=identity)
    _report(copy, target)
    return 0


def _require_no_folder(source: Path) -> None:
    """Refuse a folder: a copy has one original.

    Raises:
        UsageError: it is one.
    """
    if source.is_dir():
        raise UsageError(
            "source-is-folder",
            "a database file is needed, and this is a folder",
            where=str(source),
            hint=f"one file at a time; rocktools info {shlex.quote(str(source))} --part processes names them",
        )


def _report(copy: DatabaseCopy, target: Path) -> None:
    tables_count = sum(table.is_complete or table.rows_count > 0 for table in copy.tables)
    click.echo(f"{target}: {copy.rows_count:,} rows in {tables_count} tables")
    emit_findings(copy.findings, at_most=len(copy.findings))
