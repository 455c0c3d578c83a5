"""Copies of rocpd databases: repaired as far as their pages can be read, or without what should not be shared.

Both write a new database table by table, so that nothing of the old pages (deleted rows, torn pages, the environment)
travels along. The original is only ever read, through a private copy where it was left in the middle of a write.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from rocktools import __version__
from rocktools.errors import DamagedFile, UnknownFormat
from rocktools.sources.rocpd.opening import (
    check_writer,
    copy_with_sidecars,
    find_sidecar,
    make_readable,
    promised_size_bytes,
    read_header,
    translate_sqlite_errors,
)
from rocktools.sources.rocpd.schema import RECOVERED_TAG, quote_name, split_table_name

_LARGEST_GAP = 2**40
_CREATE = re.compile(r"\s*CREATE\s+(TABLE|VIEW)\b", re.IGNORECASE)

# (base table, column) -> SQL over the old row. The environment goes always.
_ENVIRONMENT = {("info_process", "environment"): "'{}'"}
_IDENTITY = {
    ("info_node", "machine_id"): "'scrubbed-' || id",
    ("info_node", "hostname"): "'scrubbed-' || id",
    ("info_node", "domain_name"): "NULL",
    ("info_process", "command"): "NULL",
    ("info_process", "extdata"): "'{}'",
    # What follows '#' (offset, size) tells code objects apart; the path before it tells about the user.
    ("info_code_object", "uri"): "CASE WHEN instr(uri, '#') > 0 THEN 'scrubbed' || substr(uri, instr(uri, '#')) END",
    ("info_code_object", "extdata"): "'{}'",
    # The pool repeats paths and uris; it wants them unique.
    ("string", "string"): "CASE WHEN string LIKE 'file:%' OR string LIKE '/%' THEN 'scrubbed-' || id ELSE string END",
    # Text arguments are file names and kernel sources; numbers and handles say nothing about anybody.
    ("arg", "value"): "CASE WHEN instr(type, 'char') = 0 THEN value END",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCopy:
    """How one table came over.

    Attributes:
        table: its full name.
        rows_count: rows in the copy.
        is_complete: whether every row could be read.
    """

    table: str
    rows_count: int
    is_complete: bool


def recover_database(source: Path, target: Path) -> tuple[TableCopy, ...]:
    """Write to `target` (not there yet) every row of `source` that can still be read, with its tables and views.

    A journal or write-ahead log beside the source is applied first, in a private copy. The result says in its metadata
    that it was recovered.

    Raises:
        InputError: the source cannot be read at all.
        UnknownFormat: it is no SQLite database, or no rocpd database.
        DamagedFile: it is being written, or nothing could be saved.
    """
    read_header(source)
    check_writer(source)
    with tempfile.TemporaryDirectory(prefix="rocktools-") as folder:
        copy = copy_with_sidecars(source, Path(folder))
        if find_sidecar(source) is None:
            _pad_to_promise(copy)
        else:
            with contextlib.suppress(sqlite3.DatabaseError), contextlib.closing(sqlite3.connect(copy)) as connection:
                connection.execute("PRAGMA journal_mode=DELETE").fetchone()
        with _connect(f"file:{quote(str(copy))}?mode=ro&immutable=1") as old, _new_database(target) as new:
            # Read what is left of a damaged schema instead of refusing all of it.
            old.execute("PRAGMA writable_schema=ON")
            copies = _copy_tables(old, new, source, {}, salvages=True)
            if not any(table.rows_count for table in copies):
                raise DamagedFile("nothing-recovered", "no row of any table could be read", where=str(source))
            _mark_recovered(new)
    return copies


def scrub_database(source: Path, target: Path, *, hides_identity: bool = False) -> tuple[TableCopy, ...]:
    """Write to `target` (not there yet) a copy of `source` without the environment of the job.

    Args:
        hides_identity: also take out host names, machine ids, command lines, paths of code objects, the tool's
            configuration, and text arguments of API calls. Names of kernels, ranges and API calls stay.

    Raises:
        InputError, UnknownFormat, DamagedFile: the source cannot be read to its end.
    """
    replaced = {**_ENVIRONMENT, **_IDENTITY} if hides_identity else _ENVIRONMENT
    with make_readable(source) as database, _connect(database.uri) as old, _new_database(target) as new:
        return _copy_tables(old, new, source, replaced, salvages=False)


def _pad_to_promise(copy: Path) -> None:
    """Give a file that was cut short its promised length again, in zeros, so that SQLite reads what is left."""
    with copy.open("rb") as stream:
        promised = promised_size_bytes(stream.read(100))
    if promised is not None and promised > copy.stat().st_size:
        with copy.open("r+b") as stream:
            stream.truncate(promised)


@contextlib.contextmanager
def _connect(uri: str) -> Iterator[sqlite3.Connection]:
    """A connection without transactions of its own; damaged text is read as it is."""
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    connection.text_factory = _text
    try:
        yield connection
    finally:
        connection.close()


def _text(stored: bytes) -> str | bytes:
    """TEXT as a string; what is not UTF-8 comes over as the bytes that it is."""
    try:
        return stored.decode("utf-8")
    except UnicodeDecodeError:
        return stored


@contextlib.contextmanager
def _new_database(target: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a new database; an error leaves no file behind."""
    try:
        with _connect(f"file:{quote(str(target.absolute()))}") as connection:
            # Nobody sees this file before it is whole, so it need not survive a crash in between.
            connection.execute("PRAGMA journal_mode=MEMORY")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _copy_tables(
    old: sqlite3.Connection,
    new: sqlite3.Connection,
    source: Path,
    replaced: Mapping[tuple[str, str], str],
    *,
    salvages: bool,
) -> tuple[TableCopy, ...]:
    with translate_sqlite_errors(source, "sqlite_master"):
        if salvages:
            # The first statement fails if any part of the schema is damaged; the next ones see the parts that are not.
            with contextlib.suppress(sqlite3.DatabaseError):
                old.execute("SELECT 1 FROM sqlite_master").fetchone()
        objects = [row for row in _Rows(old, "sqlite_master", ["type", "name", "sql"], salvages=salvages) if row[2]]
    tables = [(str(name), str(sql)) for kind, name, sql in objects if kind == "table"]
    if not any(split_table_name(name) for name, _ in tables):
        raise UnknownFormat("not-rocpd", "an SQLite database without any readable table of rocpd", where=str(source))
    copies = []
    for name, table_sql in tables:
        if name.startswith("sqlite_") or not _CREATE.match(table_sql):
            continue  # a virtual table would run code of others
        if not _create(new, table_sql, salvages=salvages):
            copies.append(TableCopy(table=name, rows_count=0, is_complete=False))
            continue
        with translate_sqlite_errors(source, name):
            copies.append(_copy_table(old, new, name, replaced, salvages=salvages))
    for kind, _, sql in objects:
        if kind == "view" and _CREATE.match(str(sql)):
            _create(new, str(sql), salvages=salvages)
    return tuple(copies)


def _create(new: sqlite3.Connection, sql: str, *, salvages: bool) -> bool:
    """Make a table or view; False where its text is damaged and we are saving what can be saved."""
    try:
        new.execute(sql)
    except sqlite3.Error:
        if not salvages:
            raise
        return False
    return True


def _copy_table(
    old: sqlite3.Connection,
    new: sqlite3.Connection,
    name: str,
    replaced: Mapping[tuple[str, str], str],
    *,
    salvages: bool,
) -> TableCopy:
    split = split_table_name(name)
    columns = [row[1] for row in new.execute(f"PRAGMA table_info({quote_name(name)})")]
    values = [replaced.get((split[0] if split else "", column), quote_name(column)) for column in columns]
    listed = ", ".join(quote_name(column) for column in columns)
    # A damaged page can hold rows that break the schema (a second row of one id): those are left out too.
    insert = f"INSERT {'OR IGNORE ' if salvages else ''}INTO {quote_name(name)} ({listed})"
    insert += f" VALUES ({', '.join('?' * len(columns))})"
    rows = _Rows(old, name, values, salvages=salvages)
    new.executemany(insert, rows)
    count = int(new.execute(f"SELECT count(*) FROM {quote_name(name)}").fetchone()[0])
    return TableCopy(table=name, rows_count=count, is_complete=not rows.is_damaged and count == rows.read_count)


class _Rows:
    """The rows of a table by ascending rowid; when it salvages, it steps over what cannot be read."""

    def __init__(self, connection: sqlite3.Connection, name: str, values: Sequence[str], *, salvages: bool) -> None:
        self._connection = connection
        self._query = (
            f"SELECT rowid, {', '.join(values)} FROM {quote_name(name)} NOT INDEXED WHERE rowid > ? ORDER BY rowid"
        )
        self._salvages = salvages
        self.is_damaged = False
        self.read_count = 0

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        last = -(2**63)
        while True:
            try:
                for row in self._connection.execute(self._query, (last,)):
                    last = row[0]
                    self.read_count += 1
                    yield row[1:]
                return
            except sqlite3.DatabaseError:
                if not self._salvages:
                    raise
                self.is_damaged = True
                following = _next_readable(self._connection, self._query, max(last, 0))
                if following is None:
                    return
                last = following


def _next_readable(connection: sqlite3.Connection, query: str, last: int) -> int | None:
    """The least rowid above `last` from which the table can be read on; None where it cannot.

    A damaged page holds a run of rowids, so the gap is found by doubling and then closed by halving.
    """
    gap = 1
    while gap < _LARGEST_GAP and not _is_readable(connection, query, last + gap):
        gap *= 2
    if gap >= _LARGEST_GAP:
        return None
    low, high = gap // 2, gap
    while high - low > 1:
        middle = (low + high) // 2
        if _is_readable(connection, query, last + middle):
            high = middle
        else:
            low = middle
    return last + high


def _is_readable(connection: sqlite3.Connection, query: str, after: int) -> bool:
    try:
        connection.execute(query + " LIMIT 1", (after,)).fetchone()
    except sqlite3.DatabaseError:
        return False
    return True


def _mark_recovered(connection: sqlite3.Connection) -> None:
    names = connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall()
    for (name,) in names:
        split = split_table_name(name)
        if split is not None and split[0] == "metadata":
            connection.execute(
                f"INSERT INTO main.{quote_name(name)} (tag, value) VALUES (?, ?)", (RECOVERED_TAG, __version__)
            )
