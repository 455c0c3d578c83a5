"""Copies of rocpd databases: repaired as far as their pages can be read, or without what should not be shared.

Both write a new database table by table, so that nothing of the old pages (deleted rows, torn pages, the environment)
travels along. The original is only ever read, through a private copy where it was left in the middle of a write.

What a repaired copy has, the original had: a row is left out rather than filled up. SQLite has no checksums, so a value
that was altered in place is copied as it is.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import re
import shlex
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rocktools import __version__
from rocktools.errors import DamagedFile, InputError, RocktoolsError, UnknownFormat, UnsupportedVersion
from rocktools.findings import Finding, Severity
from rocktools.sources.rocpd.columns import TableReader
from rocktools.sources.rocpd.opening import (
    ReadableDatabase,
    check_writer,
    copy_with_sidecars,
    find_sidecar,
    make_readable,
    read_header,
    translate_sqlite_errors,
)
from rocktools.sources.rocpd.pages import LOST, drop_lost_schema_pages, mark_lost_pages, read_separators
from rocktools.sources.rocpd.schema import RECOVERED_TAG, quote_name, read_processes, split_table_name

_SCHEMA_TABLE = "sqlite_master"
_LARGEST_ROWID = 2**63 - 1
_CREATE = re.compile(r"\s*CREATE\s+(TABLE|VIEW)\b", re.IGNORECASE)
# What a damaged page makes Python's sqlite3 raise. Its messages quote the damage: they can fail to be decoded.
_UNREADABLE = (sqlite3.DatabaseError, ValueError)
# What SQL text of a damaged schema makes it raise (before Python 3.12, Warning for more than one statement).
_BAD_SQL = (sqlite3.Error, sqlite3.Warning, ValueError)

# The environment goes from every table that has one.
_ENVIRONMENT_COLUMN = "environment"
_NOTHING = "'{}'"
# (base table, column) -> SQL over the old row, for whoever hides more.
_IDENTITY = {
    ("info_node", "machine_id"): "'scrubbed-' || rowid",
    # The tool takes it from the machine's id, and numbers the node after it.
    ("info_node", "hash"): "rowid",
    ("info_node", "hostname"): "'scrubbed-' || rowid",
    ("info_node", "domain_name"): "NULL",
    ("info_process", "command"): "NULL",
    ("info_process", "extdata"): _NOTHING,
    ("info_thread", "extdata"): _NOTHING,
    # What follows '#' (offset, size) tells code objects apart; the path before it tells about the user.
    ("info_code_object", "uri"): "CASE WHEN instr(uri, '#') > 0 THEN 'scrubbed' || substr(uri, instr(uri, '#')) END",
    ("info_code_object", "extdata"): _NOTHING,
    # rocprof-sys writes the source files of the job here.
    ("event", "call_stack"): _NOTHING,
    ("event", "line_info"): _NOTHING,
    # The pool repeats paths and uris; it wants them unique.
    ("string", "string"): "CASE WHEN string LIKE 'file:%' OR string LIKE '/%' THEN 'scrubbed-' || rowid"
    " ELSE string END",
    # Text arguments are file names and kernel sources; numbers and handles say nothing about anybody.
    ("arg", "value"): "CASE WHEN type LIKE '%char%' OR type LIKE '%string%' OR instr(value, '/') > 0 THEN NULL"
    " ELSE value END",
    ("arg", "extdata"): _NOTHING,
}


# (base table, column) -> SQL over the old row that takes its place, or None.
_Replace = Callable[[str, str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCopy:
    """How one table came over.

    Attributes:
        table: its full name; `sqlite_master` where the list of tables itself is damaged.
        rows_count: rows in the copy.
        is_complete: whether every row could be read.
    """

    table: str
    rows_count: int
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCopy:
    """How a database came over.

    Attributes:
        tables: its tables, in the order in which they were created.
        findings: what is not as in the original.
    """

    tables: tuple[TableCopy, ...]
    findings: tuple[Finding, ...]

    @property
    def rows_count(self) -> int:
        return sum(table.rows_count for table in self.tables)


def recover_database(source: Path, target: Path) -> DatabaseCopy:
    """Write to `target` (not there yet) every row of `source` that can still be read, with its tables and views.

    A journal or write-ahead log beside the source is applied first, in a private copy. The result says in its metadata
    that it was recovered.

    Raises:
        InputError: the source cannot be read at all.
        UnknownFormat, UnsupportedVersion: it is no rocpd database of a version we read.
        DamagedFile: it is being written, or nothing could be saved.
        RocktoolsError: the copy cannot be written.
    """
    read_header(source)
    check_writer(source)
    _refuse_other_formats(source)
    with tempfile.TemporaryDirectory(prefix="rocktools-") as folder:
        copy = copy_with_sidecars(source, Path(folder))
        if find_sidecar(source) is not None:
            with contextlib.suppress(*_UNREADABLE), contextlib.closing(sqlite3.connect(copy)) as connection:
                connection.execute("PRAGMA journal_mode=DELETE").fetchone()
        has_lost_pages = mark_lost_pages(copy)
        has_lost_tables = drop_lost_schema_pages(copy)
        uri = f"file:{quote(os.fsencode(copy))}?mode=ro&immutable=1"
        with _connect(uri) as old, _new_database(target) as new:
            # Read what is left of a damaged schema instead of refusing all of it.
            old.execute("PRAGMA writable_schema=ON")
            salvaged = _Source(
                connection=old,
                path=source,
                salvaged_copy=copy,
                has_lost_pages=has_lost_pages,
                has_lost_tables=has_lost_tables,
            )
            tables = _copy_tables(salvaged, new, lambda base, column: None)
            if not any(table.rows_count for table in tables if _base_of(table.table) != "metadata"):
                raise _nothing_recovered("no row of any table can be read", source)
            _mark_recovered(new)
    _require_rocpd(target, source)
    lost = [_rows_lost(table, source) for table in tables if not table.is_complete]
    return DatabaseCopy(tables=tables, findings=tuple(lost))


def scrub_database(source: Path, target: Path, *, hides_identity: bool = False) -> DatabaseCopy:
    """Write to `target` (not there yet) a copy of `source` without the environment of the job.

    Args:
        hides_identity: also take out host names, machine ids, command lines, paths of code objects and source files,
            the tool's configuration, and text arguments of API calls. Names of kernels, ranges and API calls stay.

    Raises:
        InputError, DamagedFile: the source cannot be read to its end.
        UnknownFormat, UnsupportedVersion: it is no rocpd database of a version we read; what to take out of another
            one is not known.
        RocktoolsError: the copy cannot be written.
    """

    def replace(base: str, column: str) -> str | None:
        if column.lower() == _ENVIRONMENT_COLUMN:
            return _NOTHING
        return _IDENTITY.get((base, column)) if hides_identity else None

    with make_readable(source) as database:
        _require_processes(database)
        with _connect(database.uri) as old, _new_database(target) as new:
            tables = _copy_tables(_Source(connection=old, path=source), new, replace)
            database.require_unchanged()
    return DatabaseCopy(tables=tables, findings=database.findings)


def _nothing_recovered(what: str, source: Path) -> DamagedFile:
    return DamagedFile(
        "nothing-recovered",
        f"nothing is left in it to recover: {what}",
        where=str(source),
        hint="copy it again from where it was written; if it is no better there, record again",
    )


def _refuse_other_formats(source: Path) -> None:
    """Refuse a sound file that is no rocpd database we read, by name. Damage is what recovery is for."""
    try:
        with make_readable(source) as database:
            _require_processes(database)
    except (UnknownFormat, UnsupportedVersion):
        raise
    except InputError:
        return


def _require_processes(database: ReadableDatabase) -> None:
    with TableReader(database, accelerate=False) as reader:
        read_processes(reader)


def _require_rocpd(target: Path, source: Path) -> None:
    """Check that the copy is one that rocktools reads; remove it if it is not."""
    try:
        with make_readable(target) as database:
            _require_processes(database)
    except InputError as error:
        target.unlink(missing_ok=True)
        raise type(error)(error.reference, error.what, where=str(source), hint=error.hint) from error


def _rows_lost(table: TableCopy, source: Path) -> Finding:
    is_schema = table.table == _SCHEMA_TABLE
    return Finding(
        rule="tables-lost" if is_schema else "rows-lost",
        severity=Severity.WARNING,
        where=f"{source}, table {table.table}",
        message="whole tables can be missing, since their list is damaged"
        if is_schema
        else f"not all rows could be read; the copy has {table.rows_count:,}",
        numbers={} if is_schema else {"rows_count": table.rows_count},
    )


class _OddText(bytes):
    """TEXT that is not UTF-8."""


def _text(stored: bytes) -> str | _OddText:
    try:
        return stored.decode("utf-8")
    except UnicodeDecodeError:
        return _OddText(stored)


@contextlib.contextmanager
def _connect(database: str) -> Iterator[sqlite3.Connection]:
    """A connection without transactions of its own; damaged text is read as it is."""
    connection = sqlite3.connect(database, uri=True, isolation_level=None)
    connection.text_factory = _text
    try:
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def _new_database(target: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a new database; an error leaves no file behind.

    Raises:
        RocktoolsError: it cannot be written.
    """
    try:
        with _connect(f"file:{quote(os.fsencode(target.absolute()))}") as connection:
            # Nobody sees this file before it is whole, so it need not survive a crash in between.
            connection.execute("PRAGMA journal_mode=MEMORY")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
    except sqlite3.Error as error:  # those of the source are translated where they arise
        target.unlink(missing_ok=True)
        raise RocktoolsError("output-failed", f"could not write: {error}", where=str(target)) from error
    except BaseException:
        target.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What is copied from.

    Attributes:
        connection: to it, or to a private copy of it.
        path: the user's file, for messages.
        salvaged_copy: the private copy of a damaged file, of which what cannot be read is stepped over; None where that
            is an error.
        has_lost_pages: pages of it that were lost hold `LOST`.
        has_lost_tables: its list of tables was lost in part.
    """

    connection: sqlite3.Connection
    path: Path
    salvaged_copy: Path | None = None
    has_lost_pages: bool = False
    has_lost_tables: bool = False

    @property
    def salvages(self) -> bool:
        return self.salvaged_copy is not None


def _copy_tables(source: _Source, new: sqlite3.Connection, replace: _Replace) -> tuple[TableCopy, ...]:
    if source.salvages:
        # The first statement fails if any part of the schema is damaged; the next ones see the parts that are not.
        with contextlib.suppress(*_UNREADABLE):
            source.connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    rows = _Rows(source, _SCHEMA_TABLE, ["type", "name", "sql", "rootpage"], root=1)
    objects = [row for row in rows if isinstance(row[1], str) and isinstance(row[2], str)]
    tables = [(name, sql, root) for kind, name, sql, root in objects if kind == "table"]
    if source.salvages and not tables:
        raise _nothing_recovered("not one table of it can be found", source.path)
    if not any(split_table_name(name) for name, _, _ in tables):
        raise UnknownFormat(
            "not-rocpd", "an SQLite database without any readable table of rocpd", where=str(source.path)
        )
    copies = []
    if rows.is_damaged or source.has_lost_tables:
        copies.append(TableCopy(table=rows.name, rows_count=0, is_complete=False))
    for name, table_sql, root in tables:
        if name.startswith("sqlite_") or not _CREATE.match(table_sql):
            continue  # a virtual table would run code of others
        if _create(source, new, name, table_sql):
            copies.append(_copy_table(source, new, name, root, replace))
        else:
            copies.append(TableCopy(table=name, rows_count=0, is_complete=False))
    for kind, name, view_sql, _ in objects:
        if kind == "view" and _CREATE.match(view_sql):
            _create(source, new, name, view_sql)
    return tuple(copies)


def _create(source: _Source, new: sqlite3.Connection, name: str, sql: str) -> bool:
    """Make a table or view; False where its text is damaged and we are saving what can be saved."""
    try:
        new.execute(sql)
    except _BAD_SQL as error:
        if not source.salvages:
            raise DamagedFile(
                "rocpd-malformed", f"its definition cannot be used: {error}", where=f"{source.path}, table {name}"
            ) from error
        return False
    return True


def _copy_table(source: _Source, new: sqlite3.Connection, name: str, root: object, replace: _Replace) -> TableCopy:
    columns = [row[1] for row in new.execute(f"PRAGMA table_info({quote_name(name)})")]
    if not columns:  # its definition makes a table of another name
        return TableCopy(table=name, rows_count=0, is_complete=False)
    base = _base_of(name)
    values = [replace(base, column) or quote_name(column) for column in columns]
    rows = _Rows(source, name, values, root=root if isinstance(root, int) else 0)
    # A damaged page can hold rows that break the schema (a second row of one id): those are left out too.
    insert = f"INSERT {'OR IGNORE ' if source.salvages else ''}INTO {quote_name(name)}"
    insert += f" ({', '.join(quote_name(column) for column in columns)}) VALUES "
    try:
        new.executemany(f"{insert}({', '.join('?' * len(columns))})", _insert_odd_rows(new, insert, rows))
    except sqlite3.IntegrityError as error:
        if not source.salvages:
            raise DamagedFile(
                "rocpd-malformed",
                f"the database is damaged: a row breaks its own schema: {error}",
                where=f"{source.path}, table {name}",
                hint=f"save what is left: rocktools rocpd recover {shlex.quote(str(source.path))} -o recovered.db",
            ) from error
        rows.is_damaged = True
    count = int(new.execute(f"SELECT count(*) FROM {quote_name(name)}").fetchone()[0])
    return TableCopy(table=name, rows_count=count, is_complete=not rows.is_damaged and count == rows.read_count)


def _insert_odd_rows(new: sqlite3.Connection, insert: str, rows: _Rows) -> Iterator[tuple[object, ...]]:
    """Insert the rows whose TEXT is not all UTF-8, which Python can bind as a BLOB only; hand on the others."""
    for row in rows:
        is_odd = [isinstance(value, _OddText) for value in row]
        if any(is_odd):
            new.execute(f"{insert}({', '.join('CAST(? AS TEXT)' if odd else '?' for odd in is_odd)})", row)
        else:
            yield row


class _Rows:
    """The rows of a table by ascending rowid; when the source is salvaged, what cannot be read is stepped over."""

    def __init__(self, source: _Source, name: str, values: Sequence[str], *, root: int) -> None:
        self._source = source
        self.name = name
        self._root = root
        # From a rowid on and not above one: a search for the last rowid of a lost page would end in that page.
        self._from_rowid = f"FROM {quote_name(name)} NOT INDEXED WHERE rowid >= ? ORDER BY rowid"
        self._query = f"SELECT rowid, {', '.join(values)} {self._from_rowid}"
        self._separators: list[int] | None = None
        self.is_damaged = False
        self.read_count = 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for row in self._salvaged() if self._source.salvages else self._all():
            if self._source.has_lost_pages and _is_filled_up(row):
                self.is_damaged = True
                continue
            self.read_count += 1
            yield row[1:]

    def _all(self) -> Iterator[tuple[Any, ...]]:
        with translate_sqlite_errors(self._source.path, self.name):
            yield from self._source.connection.execute(self._query, (-_LARGEST_ROWID,))

    def _salvaged(self) -> Iterator[tuple[Any, ...]]:
        first = -_LARGEST_ROWID
        while first <= _LARGEST_ROWID:
            try:
                for row in self._source.connection.execute(self._query, (first,)):
                    if row[0] < first:
                        break  # in a damaged tree a search can end anywhere, again and again
                    first = row[0] + 1
                    yield row
                else:
                    return
            except _UNREADABLE:
                pass
            self.is_damaged = True
            # Python's sqlite3 looks one row ahead, and drops the last good row together with the bad one.
            found = self._find_first(self._query, first) if first <= _LARGEST_ROWID else []
            if found:
                first = found[0][0] + 1
                yield found[0]
            elif found is None:
                first = self._next_start(first)
            else:
                return

    def _next_start(self, first: int) -> int:
        """The rowid behind what cannot be read from `first` on: behind the row if its page can be read, else the page.

        A page with long rows can be read where the pages on which they go on cannot.
        """
        found = self._find_first(f"SELECT rowid {self._from_rowid}", first)
        if found is not None:
            return int(found[0][0]) + 1 if found else _LARGEST_ROWID + 1
        if self._separators is None:
            assert self._source.salvaged_copy is not None
            self._separators = read_separators(self._source.salvaged_copy, self._root)
        position = bisect.bisect_left(self._separators, first)
        return self._separators[position] + 1 if position < len(self._separators) else _LARGEST_ROWID + 1

    def _find_first(self, query: str, rowid: int) -> list[tuple[Any, ...]] | None:
        """The first row from `rowid` on, [] where there is none, None where it cannot be read."""
        try:
            rows = self._source.connection.execute(f"{query} LIMIT 1", (rowid,)).fetchall()
        except _UNREADABLE:
            return None
        return rows if not rows or rows[0][0] >= rowid else None


def _is_filled_up(row: Sequence[object]) -> bool:
    """Whether the end of a long value lies in a lost page (in the middle of one, SQLite notices)."""
    return any(isinstance(value, bytes) and value.endswith(LOST) for value in row)


def _mark_recovered(connection: sqlite3.Connection) -> None:
    """Say in the metadata of every process that it was recovered; where the metadata were lost, make the table."""
    bases: dict[str, set[str]] = {}
    for (name,) in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
        if split := split_table_name(name):
            bases.setdefault(split[1], set()).add(split[0])
    # As in the reader, a suffix that only one table shows is not believed.
    for suffix in (suffix for suffix, shown in bases.items() if "metadata" in shown or len(shown) > 1):
        table = quote_name(f"rocpd_metadata{suffix}")
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table}"
            ' ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "tag" TEXT NOT NULL, "value" TEXT NOT NULL)'
        )
        with contextlib.suppress(sqlite3.OperationalError):  # hand-made, with other columns
            connection.execute(f"INSERT INTO {table} (tag, value) VALUES (?, ?)", (RECOVERED_TAG, __version__))


def _base_of(name: str) -> str:
    split = split_table_name(name)
    return "" if split is None else split[0]
