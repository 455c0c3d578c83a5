"""Integer columns of big tables -> numpy: fast where the values are what the schema says, exact where they are not.

Three ways, the first that fits is taken; all give the same arrays:

1. the optional accelerator (adbc-driver-sqlite), which makes no Python object per value;
2. `numpy.fromiter` over the flattened cursor: the fastest of the standard library's ways we measured;
3. value by value, when a column holds something else than integers. Schema 3 writers store integers above 2**63-1 as
   REAL, which has lost their low digits: those become missing and are counted. A REAL that still holds an exact
   integer, and digits stored as TEXT, are recovered.

Rows are read in blocks into preallocated columns, so that the peak is the result and one block.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rocktools.findings import Finding, Severity
from rocktools.sources.rocpd.opening import ReadableDatabase, translate_sqlite_errors

BLOCK_ROWS = 65_536
# The one int64 that is no id, size or time. SQLite would read its literal as a REAL, hence the subtraction.
_MISSING = -(2**63)
_MISSING_SQL = "-9223372036854775807 - 1"
_EXACT_REAL_BELOW = float(2**53)


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
        DamagedFile: SQLite cannot open the file.
    """

    def __init__(
        self, database: ReadableDatabase, *, findings: list[Finding] | None = None, accelerate: bool | None = None
    ) -> None:
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
        with translate_sqlite_errors(self.path):
            if rows_count is None:
                rows_count = int(self._connection.execute(f"SELECT count(*) FROM {from_sql}").fetchone()[0])
            if self._accelerator is not None:
                sql = f"SELECT {', '.join(field.sql for field in fields)} FROM {from_sql}"
                fetched = _fetch_batches(self._accelerator, sql, ["int64"] * len(fields), rows_count)
                if fetched is not None:
                    return {field.name: column for field, column in zip(fields, fetched, strict=True)}
            try:
                return _read_from_cursor(self._connection, from_sql, fields, rows_count)
            except (TypeError, ValueError, OverflowError):
                columns, doubts = _read_value_by_value(self._connection, from_sql, fields, rows_count)
        self.findings.extend(self._describe(from_sql, doubts))
        return columns

    def keyed_values(
        self, from_sql: str, first_key: str, second_key: str, value: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Read two integer keys and one number of each row.

        Returns:
            Three arrays of equal length, int64, int64 and float64, in stored order. A NULL key is -1, a NULL value NaN.

        Raises:
            DamagedFile: SQLite cannot read it.
        """
        with translate_sqlite_errors(self.path):
            rows_count = int(self._connection.execute(f"SELECT count(*) FROM {from_sql}").fetchone()[0])
            sql = f"SELECT {first_key}, {second_key}, {value} FROM {from_sql}"
            if self._accelerator is not None:
                fetched = _fetch_batches(self._accelerator, sql, ("int64", "int64", "double"), rows_count)
                if fetched is not None:
                    return fetched[0].where_missing(-1), fetched[1].where_missing(-1), fetched[2].values
            first, second, values = _read_as_floats(self._connection, sql, rows_count)
            keys = [np.where(np.isnan(key), -1.0, key) for key in (first, second)]
            if max(np.abs(key).max(initial=0) for key in keys) < _EXACT_REAL_BELOW:
                return keys[0].astype(np.int64), keys[1].astype(np.int64), values
            # Pseudo-counters have ids near 2**63, which a float64 cannot tell apart: read again as records, slower.
            sql = f"SELECT ifnull({first_key}, -1), ifnull({second_key}, -1), {value} FROM {from_sql}"
            fields = [("first", np.int64), ("second", np.int64), ("value", np.float64)]
            records = np.fromiter(self._connection.execute(sql), dtype=fields, count=rows_count)
            return records["first"].copy(), records["second"].copy(), records["value"].copy()

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
        return findings


@dataclass(slots=True)
class _Doubt:
    recovered_count: int = 0
    lost_count: int = 0


def _connect_accelerator(database: ReadableDatabase) -> Any:
    try:
        import adbc_driver_sqlite.dbapi
        import pyarrow  # noqa: F401  (adbc hands its batches over through it)
    except ImportError:
        return None
    return adbc_driver_sqlite.dbapi.connect(database.uri)


def _fetch_batches(accelerator: Any, sql: str, types: Sequence[str], rows_count: int) -> list[IntColumn] | None:
    """Read through Arrow batches; None when any column is of another type.

    ADBC tells another type by the type of the first batch, or by an error in a later one, so no value is ever rounded.
    A column of NULLs alone is an int64 to ADBC, whatever was expected, and fits all the same.
    """
    import adbc_driver_manager

    values = [np.empty(rows_count, dtype=np.int64 if kind == "int64" else np.float64) for kind in types]
    masks: list[np.ndarray | None] = [None] * len(types)
    done = 0
    try:
        with accelerator.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BLOCK_ROWS)})
            cursor.execute(sql)
            for batch in cursor.fetch_record_batch():
                end = done + batch.num_rows
                for position, column in enumerate(batch.columns):
                    if end > rows_count or (str(column.type) != types[position] and column.null_count != len(column)):
                        return None
                    if column.null_count:
                        mask = masks[position]
                        if mask is None:
                            mask = masks[position] = np.zeros(rows_count, dtype=np.bool_)
                        mask[done:end] = column.is_null().to_numpy(zero_copy_only=False)
                        column = column.fill_null(0)
                    values[position][done:end] = column.to_numpy()
                done = end
    except adbc_driver_manager.Error:
        return None
    if done != rows_count:
        return None
    for position, kind in enumerate(types):
        if kind == "double" and masks[position] is not None:
            values[position][masks[position]] = np.nan
    return [IntColumn(column, mask) for column, mask in zip(values, masks, strict=True)]


def _read_as_floats(connection: sqlite3.Connection, sql: str, rows_count: int) -> tuple[np.ndarray, ...]:
    """Read three number columns as float64 (twice as fast as records of mixed types)."""
    flat = itertools.chain.from_iterable(connection.execute(sql))
    values = [np.empty(rows_count) for _ in range(3)]
    for start in range(0, rows_count, BLOCK_ROWS):
        end = min(start + BLOCK_ROWS, rows_count)
        block = np.fromiter(flat, np.float64, (end - start) * 3).reshape(-1, 3)
        for position in range(3):
            values[position][start:end] = block[:, position]
    return tuple(values)


def _read_from_cursor(
    connection: sqlite3.Connection, from_sql: str, fields: Sequence[Field], rows_count: int
) -> dict[str, IntColumn]:
    """Read through `numpy.fromiter`.

    Raises:
        TypeError, ValueError, OverflowError: a value is no int64.
    """
    expressions = [f"ifnull({field.sql}, {_MISSING_SQL})" if field.is_nullable else field.sql for field in fields]
    cursor = connection.execute(f"SELECT {', '.join(expressions)} FROM {from_sql}")
    flat = itertools.chain.from_iterable(cursor)
    width = len(fields)
    values = [np.empty(rows_count, dtype=np.int64) for _ in fields]
    for start in range(0, rows_count, BLOCK_ROWS):
        end = min(start + BLOCK_ROWS, rows_count)
        block = np.fromiter(flat, np.int64, (end - start) * width).reshape(-1, width)
        for position in range(width):
            values[position][start:end] = block[:, position]
    return {
        field.name: _mask_sentinel(column) if field.is_nullable else IntColumn(column)
        for field, column in zip(fields, values, strict=True)
    }


def _mask_sentinel(values: np.ndarray) -> IntColumn:
    is_missing = values == _MISSING
    return IntColumn(values, is_missing if is_missing.any() else None)


def _read_value_by_value(
    connection: sqlite3.Connection, from_sql: str, fields: Sequence[Field], rows_count: int
) -> tuple[dict[str, IntColumn], dict[str, _Doubt]]:
    values = [np.zeros(rows_count, dtype=np.int64) for _ in fields]
    masks = [np.zeros(rows_count, dtype=np.bool_) for _ in fields]
    doubts = {field.name: _Doubt() for field in fields}
    cursor = connection.execute(f"SELECT {', '.join(field.sql for field in fields)} FROM {from_sql}")
    for row_number, row in enumerate(cursor):
        for position, value in enumerate(row):
            if type(value) is int:
                values[position][row_number] = value
                continue
            exact = exact_integer(value)
            doubt = doubts[fields[position].name]
            if exact is None:
                masks[position][row_number] = True
                doubt.lost_count += value is not None
            else:
                values[position][row_number] = exact
                doubt.recovered_count += 1
    columns = {field.name: IntColumn(values[k], masks[k] if masks[k].any() else None) for k, field in enumerate(fields)}
    return columns, doubts


def exact_integer(value: object) -> int | None:
    """The int64 that an SQLite value stands for, or None where it stands for none or has lost digits."""
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return None
    if isinstance(value, float):
        if not value.is_integer() or abs(value) >= _EXACT_REAL_BELOW:
            return None
        value = int(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    return None
