"""A rocpd database being written: from options and rows to one finished file, or no file at all.

It knows tables, columns and ids, and nothing of what the rows mean; that is rocpd_writer.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from rocktools import __version__
from rocktools.demo.rocpd_schema import Schema, build_schema, metadata_rows
from rocktools.demo.rocpd_views import view_statements
from rocktools.errors import RocktoolsError, UsageError, nearest_names

# A mapping is written as JSON text. An integer beyond 64 bits signed becomes a REAL, as in the tool's own files.
Value = int | float | str | bytes | Mapping[str, object] | np.generic | None

SIMULATED_TAG = "rocktools_simulated"

# Rows per INSERT in bulk: one statement per row makes SQLite update its AUTOINCREMENT table for every row, which takes
# half of the time; beyond 50 the gain is small.
_ROWS_PER_INSERT = 50
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """What kind of rocpd file to write.

    Attributes:
        version: schema version, one of rocpd_schema.VERSIONS.
        has_replay_pass: whether dispatches have the column `replay_pass` (independent of the version).
        has_views: whether the views are created.
        left_out_tables: base names (`region`, `info_pmc`, ...) of tables that are not created.
        guid: dashed, 36 characters; table suffix and metadata follow it. None derives one from the absolute path.
        creation_time: UTC, `YYYY-MM-DD HH:MM:SS`, written by versions since 3.0.0.
        is_simulated: whether the file says that no hardware produced it. Only the stand-ins of the test-suite turn it
            off, because a real tool's file does not say so.
    """

    version: str = "3"
    has_replay_pass: bool = False
    has_views: bool = True
    left_out_tables: frozenset[str] = frozenset()
    guid: str | None = None
    creation_time: str = "2026-09-01 00:00:00"
    is_simulated: bool = True


def make_guid(text: str, *, start_ns: int) -> str:
    """A guid of the tool's shape: 48 bits of `start_ns` (trace clock) in milliseconds, then a hash of `text`."""
    digits = hashlib.blake2b(text.encode(), digest_size=10).hexdigest()
    head = f"{start_ns // 1_000_000:012x}"[-12:]
    return f"{head[:8]}-{head[8:]}-7{digits[:3]}-b{digits[3:6]}-{digits[6:18]}"


class RocpdFile:
    """One database under construction; a context manager.

    The rows go to a temporary name beside the target, which gets its real name when the block ends well. When it ends
    with an exception nothing is left. Foreign keys are not enforced, as in the tool's files.

    Args:
        path: target; must not exist, its folder must.
        options: kind of file.
    """

    def __init__(self, path: Path | str, options: WriterOptions) -> None:
        self.path = Path(path)
        self.options = options
        guid = options.guid or make_guid(str(self.path.absolute()), start_ns=150_000_000_000_000)
        self.schema: Schema = build_schema(
            options.version, guid=guid, suffix="_" + guid.replace("-", "_"), has_replay_pass=options.has_replay_pass
        )
        self._partial = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.partial")
        self._open: sqlite3.Connection | None = None
        self._strings: dict[str, int] = {}

    def __enter__(self) -> RocpdFile:
        """Create the tables, views and metadata.

        Raises:
            UsageError: the target exists, its folder does not, or the options ask for something impossible.
            RocktoolsError: the file cannot be written.
        """
        self._require_target()
        unknown = self.options.left_out_tables - set(self.schema.table_names)
        if unknown:
            raise UsageError(
                "rocpd-no-such-table",
                f"tables to leave out that rocpd {self.schema.version} does not have: {', '.join(sorted(unknown))}",
                hint=f"tables: {', '.join(self.schema.table_names)}",
            )
        if self.options.is_simulated and not self.has_table("metadata"):
            raise UsageError(
                "rocpd-simulated-unsaid",
                "a simulated database without its metadata table could not say that it is simulated",
                where=str(self.path),
                hint="keep the table, or pass is_simulated=False in a stand-in for the tool",
            )
        try:
            self._create()
        except BaseException:
            self._abandon()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abandon()
            return
        try:
            self.execute("COMMIT")
            self._connection.close()
            self._open = None
            # Again, because the block may have taken minutes.
            self._require_target()
            self._partial.rename(self.path)
        except BaseException:
            self._abandon()
            raise

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            raise UsageError("rocpd-not-open", "rows can be written inside the `with` block only", where=str(self.path))
        return self._open

    def _require_target(self) -> None:
        if self.path.exists():
            raise UsageError(
                "file-exists",
                "the file exists, and is not overwritten",
                where=str(self.path),
                hint="choose another name, or move the file away",
            )
        if not self.path.parent.is_dir():
            raise UsageError(
                "no-such-folder", "the folder of the file to write does not exist", where=str(self.path.parent)
            )

    def _create(self) -> None:
        try:
            self._open = sqlite3.connect(self._partial, isolation_level=None)
        except sqlite3.Error as error:
            raise RocktoolsError("rocpd-cannot-write", f"SQLite: {error}", where=str(self.path)) from error
        # Nobody else sees the file before it is finished, so a journal would protect nothing.
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "cache_size=-65536"):
            self.execute(f"PRAGMA {pragma}")
        self.execute("BEGIN")
        for base in self.schema.table_names:
            if self.has_table(base):
                self.execute(self.schema.table_sql(base))
        if self.options.has_views:
            for statement in view_statements(self.schema, left_out_tables=self.options.left_out_tables):
                self.execute(statement)
        if self.has_table("metadata"):
            rows = metadata_rows(self.schema, creation_time=self.options.creation_time)
            if self.options.is_simulated:
                rows = (*rows, (SIMULATED_TAG, __version__))
            for tag, value in rows:
                self.insert("metadata", {"tag": tag, "value": value})
        if self.has_table("string"):
            # The empty text comes first in the tool's files: it is what `region_name_id` points to without a range.
            self.string_id("")

    def _abandon(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
        self._partial.unlink(missing_ok=True)

    def has_table(self, base: str) -> bool:
        """Whether the file has the table `base` (without prefix and suffix)."""
        return base in self.schema.table_names and base not in self.options.left_out_tables

    def execute(self, sql: str, values: Sequence[Value] = ()) -> sqlite3.Cursor:
        """Run one SQL statement, for what no other method does.

        Raises:
            RocktoolsError: SQLite refuses it; its own words are in the message.
        """
        try:
            return self._connection.execute(sql, [_stored(value) for value in values])
        except sqlite3.Error as error:
            raise RocktoolsError("rocpd-cannot-write", f"SQLite: {error}", where=str(self.path)) from error

    def insert(self, base: str, columns: Mapping[str, Value]) -> int:
        """Write one row and return its id. Any value goes, as long as the schema takes it: NULL, ids without a row.

        Args:
            base: table, without `rocpd_` and suffix.
            columns: values by column; others get the schema's default.

        Raises:
            UsageError: no such table or column, or a NOT NULL, CHECK or UNIQUE rule of the schema refuses the row.
        """
        names = self._require_columns(base, columns)
        marks = f"({names}) VALUES ({', '.join('?' * len(columns))})" if columns else "DEFAULT VALUES"
        values = [_stored(value) for value in columns.values()]
        try:
            cursor = self._connection.execute(f"INSERT INTO {self.schema.full_name(base)} {marks}", values)
        except sqlite3.IntegrityError as error:
            raise UsageError(
                "rocpd-row-refused",
                f"the schema refuses the row: {error}",
                where=f"{self.path}, table rocpd_{base}",
            ) from error
        except sqlite3.Error as error:
            raise RocktoolsError("rocpd-cannot-write", f"SQLite: {error}", where=str(self.path)) from error
        row_id = int(cursor.lastrowid or 0)
        if base == "string":
            self._strings[str(columns.get("string"))] = row_id
        return row_id

    def string_id(self, text: str) -> int:
        """Id of `text` in the string pool; it is added on first use."""
        known = self._strings.get(text)
        return self.insert("string", {"string": text}) if known is None else known

    def insert_many(self, base: str, columns: Mapping[str, np.ndarray | list[str] | int | float | str | None]) -> None:
        """Write many rows quickly.

        Args:
            base: table, without `rocpd_` and suffix.
            columns: per column an array or list of one value per row, all of one length (at least one column must be
                such), or one value for all rows.

        Raises:
            UsageError: no such table or column, or the schema refuses a row.
            RocktoolsError: SQLite cannot write.
        """
        varying = {name: each for name, each in columns.items() if isinstance(each, (np.ndarray, list))}
        names = self._require_columns(base, {**varying, **columns})
        row = ["?"] * len(varying) + [_literal(each) for name, each in columns.items() if name not in varying]
        head = f"INSERT INTO {self.schema.full_name(base)} ({names}) VALUES "
        lists = [each.tolist() if isinstance(each, np.ndarray) else each for each in varying.values()]
        flat = list(itertools.chain.from_iterable(zip(*lists, strict=True)))
        width = len(varying)
        whole = len(flat) // (width * _ROWS_PER_INSERT) * width * _ROWS_PER_INSERT
        one = f"({', '.join(row)})"
        try:
            self._connection.executemany(
                head + ", ".join([one] * _ROWS_PER_INSERT), _slices(flat[:whole], width * _ROWS_PER_INSERT)
            )
            self._connection.executemany(head + one, _slices(flat[whole:], width))
        except sqlite3.IntegrityError as error:
            raise UsageError(
                "rocpd-row-refused", f"the schema refuses a row: {error}", where=f"{self.path}, table rocpd_{base}"
            ) from error
        except sqlite3.Error as error:
            raise RocktoolsError("rocpd-cannot-write", f"SQLite: {error}", where=str(self.path)) from error

    def _require_columns(self, base: str, wanted: Iterable[str]) -> str:
        """The names of the wanted columns as SQL."""
        known = self.schema.column_names(base)
        if base in self.options.left_out_tables:
            raise UsageError("rocpd-no-such-table", f"the table {base!r} was left out of this file")
        names = list(wanted)
        for name in names:
            if name not in known:
                near = nearest_names(name, known)
                raise UsageError(
                    "rocpd-no-such-column",
                    f"rocpd_{base} of version {self.schema.version} has no column {name!r}",
                    hint=f"{', '.join(near)}" if near else f"one of {', '.join(known)}",
                )
        return ", ".join(f'"{name}"' for name in names)


def _stored(value: Value) -> int | float | str | bytes | None:
    if isinstance(value, np.generic):
        # SQLite would take its bytes for a BLOB.
        return _stored(value.item())
    if isinstance(value, Mapping):
        return json.dumps(dict(value), separators=(",", ":"))
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _INT64_MAX:
        return float(value)
    return value


def _literal(value: int | float | str | np.ndarray | list[str] | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("'", "''")
        return f"'{escaped}'"
    return repr(value)


def _slices(values: list[object], width: int) -> Iterator[list[object]]:
    return (values[first : first + width] for first in range(0, len(values), width))
