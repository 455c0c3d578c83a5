"""Integer columns of big tables -> numpy: fast where the values are what the schema says, exact where they are not.

Three ways, the first that fits is taken; all give the same arrays:

1. the optional accelerator (adbc-driver-sqlite), which makes no Python object per value;
2. `struct.pack` over the flattened cursor: as fast as the fastest of the standard library's ways we measured, and it
   refuses what is no integer (`numpy.fromiter`, equally fast, cuts fractions off and reads digits out of texts);
3. value by value, when a column holds something else than integers. Schema 3 writers store integers above 2**63-1 as
   REAL, which has lost their low digits: those become missing and are counted. A REAL that still holds an exact
   integer, and digits stored as TEXT, are recovered.

Rows are read in blocks into preallocated columns, so that the peak is the result and one block.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rocktools.errors import DamagedFile
from rocktools.findings import Finding, Severity
from rocktools.sources.rocpd.opening import ReadableDatabase, translate_sqlite_errors

BLOCK_ROWS = 65_536
# Cursors are read in smaller blocks: the objects of one must fit into the processor's cache.
CURSOR_BLOCK_ROWS = 4_096
# The one int64 that is no id, size or time; a column that has it nevertheless is read value by value. SQLite would read
# its literal as a REAL, hence the subtraction.
_MISSING = -(2**63)
_MISSING_SQL = "-9223372036854775807 - 1"
# SQLite cannot hand over a NaN; no counter and no telemetry gives an infinity.
_MISSING_REAL_SQL = "-9e999"
_KEYED = np.dtype([("first", np.int64), ("second", np.int64), ("value", np.float64)])
_EXACT_REAL_BELOW = float(2**53)
_DIGITS = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Field:
    """One column to read: its name in the result, the SQL for it, and whether it can be NULL."""

    name: str
    sql: str
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class IntColumn:
    """int64 values and, where some are missing, a mask of the same length (the values under it mean nothing)."""

    values: np.ndarray
    is_missing: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def missing(self) -> np.ndarray:
        """The mask, all False where nothing is missing."""
        return np.zeros(len(self.values), dtype=np.bool_) if self.is_missing is None else self.is_missing

    def take(self, order: np.ndarray) -> IntColumn:
        """The rows at `order`."""
        return IntColumn(self.values[order], None if self.is_missing is None else self.is_missing[order])

    def where_missing(self, value: int) -> np.ndarray:
        """The values with `value` in place of the missing ones."""
        return self.values if self.is_missing is None else np.where(self.is_missing, np.int64(value), self.values)


def absent_column(rows_count: int) -> IntColumn:
    """A column that the database does not have: every value missing."""
    return IntColumn(np.zeros(rows_count, dtype=np.int64), np.ones(rows_count, dtype=np.bool_))


class TableReader:
    """Reads columns from one database through a connection of its own; use it as a context, or close it.

    Args:
        database: as `make_readable` gave it.
        findings: where doubts about values are added; a list of the reader's own if None.
        accelerate: False for the standard library alone, None to use the accelerator where it is installed.

    Raises:
        DamagedFile: SQLite cannot open the file; at the end of the context also when it was written to meanwhile.
    """

    def __init__(
        self, database: ReadableDatabase, *, findings: list[Finding] | None = None, accelerate: bool | None = None
    ) -> None:
        self._database = database
        self.path: Path = database.path
        self.findings: list[Finding] = [] if findings is None else findings
        self._connection = database.connect()
        self._accelerator = None if accelerate is False else _connect_accelerator(database)

    def close(self) -> None:
        self._connection.close()
        if self._accelerator is not None:
            self._accelerator.close()
            self._accelerator = None

    def __enter__(self) -> TableReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if kind is None:
            self._database.require_unchanged()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query on a small table.

        Raises:
            DamagedFile: SQLite cannot read it.
        """
        with translate_sqlite_errors(self.path):
            return self._connection.execute(sql).fetchall()

    def scalar(self, sql: str) -> Any:
        """The first column of the first row of a query, or None without a row."""
        rows = self.rows(sql)
        return rows[0][0] if rows else None

    def ints(self, from_sql: str, fields: Sequence[Field], *, rows_count: int | None = None) -> dict[str, IntColumn]:
        """Read integer columns.

        Args:
            from_sql: what follows FROM, WHERE and GROUP BY included.
            fields: what to read; at least one.
            rows_count: number of rows, if the caller knows it (saves a scan).

        Returns:
            One column of equal length for each field, in the order in which the rows are stored.

        Raises:
            DamagedFile: SQLite cannot read it.
        """
        with self._reading(from_sql):
            if rows_count is None:
                rows_count = int(self._connection.execute(f"SELECT count(*) FROM {from_sql}").fetchone()[0])
            if self._accelerator is not None:
                sql = f"SELECT {', '.join(field.sql for field in fields)} FROM {from_sql}"
                fetched = _fetch_batches(self._accelerator, sql, ["int64"] * len(fields), rows_count)
                if fetched is not None:
                    return {field.name: column for field, column in zip(fields, fetched, strict=True)}
            columns = _read_from_cursor(self._connection, from_sql, fields, rows_count)
            if columns is None:
                columns, doubts = _read_value_by_value(self._connection, from_sql, fields, rows_count)
                self.findings.extend(self._describe(from_sql, doubts))
        return columns

    def keyed_values(
        self, from_sql: str, first_key: str, second_key: str, value: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Read two integer keys and one number of each row.

        Returns:
            Three arrays of equal length, int64, int64 and float64, in stored order. A key that is NULL or no integer
            is -1, a value that is NULL or no number NaN.

        Raises:
            DamagedFile: SQLite cannot read it.
        """
        names = (first_key, second_key, value)
        with self._reading(from_sql):
            rows_count = int(self._connection.execute(f"SELECT count(*) FROM {from_sql}").fetchone()[0])
            if self._accelerator is not None:
                sql = f"SELECT {', '.join(names)} FROM {from_sql}"
                fetched = _fetch_batches(self._accelerator, sql, ("int64", "int64", "double"), rows_count)
                if fetched is not None:
                    return fetched[0].where_missing(-1), fetched[1].where_missing(-1), fetched[2].values
            records = _read_keyed_from_cursor(self._connection, from_sql, names, rows_count)
            if records is None:
                records, doubts = _read_keyed_by_value(self._connection, from_sql, names, rows_count)
                self.findings.extend(self._describe(from_sql, doubts))
        return records["first"].copy(), records["second"].copy(), records["value"].copy()

    @contextlib.contextmanager
    def _reading(self, from_sql: str) -> Iterator[None]:
        table = from_sql.split()[0]
        try:
            with translate_sqlite_errors(self.path, table):
                yield
        except _OtherCountError as error:
            raise DamagedFile(
                "rocpd-malformed",
                "the database is damaged: a table has another number of rows when read than when counted",
                where=f"{self.path}, table {table}",
                hint=f"save what is left: rocktools rocpd recover {shlex.quote(str(self.path))} -o recovered.db",
            ) from error

    def _describe(self, from_sql: str, doubts: Mapping[str, _Doubt]) -> list[Finding]:
        findings = []
        for name, doubt in doubts.items():
            if doubt.recovered_count:
                findings.append(
                    Finding(
                        rule="integer-stored-otherwise",
                        severity=Severity.NOTE,
                        where=f"{self.path}, {from_sql.split()[0]}, column {name}",
                        message=f"{doubt.recovered_count:,} integers are stored as REAL or TEXT; recovered exactly",
                        numbers={"recovered_count": doubt.recovered_count},
                    )
                )
            if doubt.lost_count:
                findings.append(
                    Finding(
                        rule="integer-lost-digits",
                        severity=Severity.WARNING,
                        where=f"{self.path}, {from_sql.split()[0]}, column {name}",
                        message=(
                            f"{doubt.lost_count:,} values are not integers any more (above 2**63-1 the writer stores "
                            "rounded REALs); they are shown as missing"
                        ),
                        numbers={"lost_count": doubt.lost_count},
                    )
                )
            if doubt.wordy_count:
                findings.append(
                    Finding(
                        rule="value-not-a-number",
                        severity=Severity.WARNING,
                        where=f"{self.path}, {from_sql.split()[0]}, column {name}",
                        message=f"{doubt.wordy_count:,} values are no numbers; they are shown as missing",
                        numbers={"lost_count": doubt.wordy_count},
                    )
                )
        return findings


@dataclass(slots=True)
class _Doubt:
    recovered_count: int = 0
    lost_count: int = 0
    wordy_count: int = 0


class _OtherCountError(Exception):
    """A query gave more or fewer rows than were counted, which happens in damaged files only."""


def _connect_accelerator(database: ReadableDatabase) -> Any:
    try:
        import adbc_driver_manager
        import adbc_driver_sqlite.dbapi
        import pyarrow  # noqa: F401  (adbc hands its batches over through it)
    except ImportError:
        return None
    try:
        return adbc_driver_sqlite.dbapi.connect(database.uri)
    except adbc_driver_manager.Error:
        return None


def _fetch_batches(accelerator: Any, sql: str, types: Sequence[str], rows_count: int) -> list[IntColumn] | None:
    """Read through Arrow batches; None when any column is of another type.

    ADBC tells another type by the type of the first batch, or by an error in a later one, so no value is ever rounded.
    A column of NULLs alone is an int64 to ADBC, whatever was expected, and fits all the same.
    """
    import adbc_driver_manager
    import pyarrow

    values = [np.empty(rows_count, dtype=np.int64 if kind == "int64" else np.float64) for kind in types]
    masks: list[np.ndarray | None] = [None] * len(types)
    done = 0
    try:
        with accelerator.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BLOCK_ROWS)})
            cursor.execute(sql)
            # Closed before its cursor, as some versions need it.
            with contextlib.closing(cursor.fetch_record_batch()) as batches:
                for batch in batches:
                    end = done + batch.num_rows
                    for position, column in enumerate(batch.columns):
                        is_other = str(column.type) != types[position] and column.null_count != len(column)
                        if end > rows_count or is_other:
                            return None
                        if column.null_count:
                            mask = masks[position]
                            if mask is None:
                                mask = masks[position] = np.zeros(rows_count, dtype=np.bool_)
                            mask[done:end] = column.is_null().to_numpy(zero_copy_only=False)
                            column = column.fill_null(0)
                        values[position][done:end] = column.to_numpy()
                    done = end
    except (adbc_driver_manager.Error, pyarrow.ArrowException, OSError):
        # A later batch of another type raises any of the three, by version; what is damaged is told by the next way.
        return None
    if done != rows_count:
        return None
    for position, kind in enumerate(types):
        if kind == "double" and masks[position] is not None:
            values[position][masks[position]] = np.nan
    return [IntColumn(column, mask) for column, mask in zip(values, masks, strict=True)]


def _read_from_cursor(
    connection: sqlite3.Connection, from_sql: str, fields: Sequence[Field], rows_count: int
) -> dict[str, IntColumn] | None:
    """Read through `struct.pack`; None when a value is no int64, or is the one that stands for NULL."""
    expressions = [f"ifnull({field.sql}, {_MISSING_SQL})" if field.is_nullable else field.sql for field in fields]
    cells = itertools.chain.from_iterable(connection.execute(f"SELECT {', '.join(expressions)} FROM {from_sql}"))
    width = len(fields)
    values = [np.empty(rows_count, dtype=np.int64) for _ in fields]
    try:
        for start in range(0, rows_count, CURSOR_BLOCK_ROWS):
            count = min(CURSOR_BLOCK_ROWS, rows_count - start)
            packed = struct.pack(f"{count * width}q", *itertools.islice(cells, count * width))
            block = np.frombuffer(packed, dtype=np.int64).reshape(count, width)
            for position in range(width):
                values[position][start : start + count] = block[:, position]
    except struct.error:
        return None
    _require_end(cells)
    columns = {
        field.name: _mask_sentinel(column) if field.is_nullable else IntColumn(column)
        for field, column in zip(fields, values, strict=True)
    }
    suspects = [field for field in fields if columns[field.name].is_missing is not None]
    if suspects:
        counts = ", ".join(f"count({field.sql})" for field in suspects)
        there = connection.execute(f"SELECT {counts} FROM {from_sql}").fetchone()
        masked = [rows_count - int(columns[field.name].missing.sum()) for field in suspects]
        if list(there) != masked:
            return None
    return columns


def _mask_sentinel(values: np.ndarray) -> IntColumn:
    is_missing = values == _MISSING
    return IntColumn(values, is_missing if is_missing.any() else None)


def _read_value_by_value(
    connection: sqlite3.Connection, from_sql: str, fields: Sequence[Field], rows_count: int
) -> tuple[dict[str, IntColumn], dict[str, _Doubt]]:
    values = [np.zeros(rows_count, dtype=np.int64) for _ in fields]
    masks = [np.zeros(rows_count, dtype=np.bool_) for _ in fields]
    doubts = {field.name: _Doubt() for field in fields}
    rows = iter(connection.execute(f"SELECT {', '.join(field.sql for field in fields)} FROM {from_sql}"))
    for row_number in range(rows_count):
        for position, value in enumerate(_next_row(rows)):
            exact = _judge_integer(value, doubts[fields[position].name])
            if exact is None:
                masks[position][row_number] = True
            else:
                values[position][row_number] = exact
    _require_end(rows)
    columns = {field.name: IntColumn(values[k], masks[k] if masks[k].any() else None) for k, field in enumerate(fields)}
    return columns, doubts


def _read_keyed_from_cursor(
    connection: sqlite3.Connection, from_sql: str, names: Sequence[str], rows_count: int
) -> np.ndarray | None:
    """Two keys and a value of each row through `struct.pack`; None when a key is no int64 or a value no number."""
    first, second, value = names
    sql = f"SELECT ifnull({first}, -1), ifnull({second}, -1), ifnull({value}, {_MISSING_REAL_SQL}) FROM {from_sql}"
    cells = itertools.chain.from_iterable(connection.execute(sql))
    records = np.empty(rows_count, dtype=_KEYED)
    try:
        for start in range(0, rows_count, CURSOR_BLOCK_ROWS):
            count = min(CURSOR_BLOCK_ROWS, rows_count - start)
            packed = struct.pack("qqd" * count, *itertools.islice(cells, count * 3))
            records[start : start + count] = np.frombuffer(packed, dtype=_KEYED)
    except struct.error:
        return None
    _require_end(cells)
    records["value"][np.isneginf(records["value"])] = np.nan
    return records


def _read_keyed_by_value(
    connection: sqlite3.Connection, from_sql: str, names: Sequence[str], rows_count: int
) -> tuple[np.ndarray, dict[str, _Doubt]]:
    records = np.empty(rows_count, dtype=_KEYED)
    doubts = {name: _Doubt() for name in names}
    rows = iter(connection.execute(f"SELECT {', '.join(names)} FROM {from_sql}"))
    for row_number in range(rows_count):
        row = _next_row(rows)
        keys = [_judge_integer(key, doubts[name]) for key, name in zip(row[:2], names[:2], strict=True)]
        is_number = isinstance(row[2], int | float)
        doubts[names[2]].wordy_count += not is_number and row[2] is not None
        records[row_number] = (*(-1 if key is None else key for key in keys), row[2] if is_number else np.nan)
    _require_end(rows)
    return records, doubts


def _judge_integer(value: object, doubt: _Doubt) -> int | None:
    """As `exact_integer`, counting what was recovered and what was lost."""
    if type(value) is int:
        return value
    exact = exact_integer(value)
    if exact is not None:
        doubt.recovered_count += 1
    elif value is not None:
        doubt.lost_count += 1
    return exact


def _next_row(rows: Iterator[tuple[Any, ...]]) -> tuple[Any, ...]:
    try:
        return next(rows)
    except StopIteration:
        raise _OtherCountError from None


def _require_end(rows: Iterator[object]) -> None:
    for _ in rows:
        raise _OtherCountError


def exact_integer(value: object) -> int | None:
    """The int64 that an SQLite value stands for, or None where it stands for none or has lost digits."""
    if isinstance(value, str):
        if not _DIGITS.fullmatch(value):  # int() alone would take ' 7 ' and '1_000' too
            return None
        value = int(value)
    if isinstance(value, float):
        if not value.is_integer() or abs(value) >= _EXACT_REAL_BELOW:
            return None
        value = int(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    return None
