"""Columns of tables: all ways of reading give what a plain loop over SQLite's values gives, digit for digit."""

from __future__ import annotations

import math
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocktools.errors import DamagedFile
from rocktools.findings import Severity
from rocktools.sources.rocpd import columns
from rocktools.sources.rocpd.columns import Field, IntColumn, TableReader, absent_column, exact_integer
from rocktools.sources.rocpd.opening import make_readable

WAYS = pytest.mark.parametrize("accelerate", [False, None], ids=["standard", "accelerated"])
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

int64s = st.one_of(
    st.integers(INT64_MIN, INT64_MAX),
    st.sampled_from(
        [INT64_MIN, INT64_MIN + 1, -1, 0, 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 13 * 10**15 + 1, INT64_MAX]
    ),
)
texts = st.one_of(
    st.integers(-(2**70), 2**70).map(str), st.sampled_from(["", " 7 ", "0x10", "1.5", "1e3", "abc", "1_0", "9" * 5_000])
)
reals = st.one_of(
    st.floats(allow_nan=False),
    st.integers(-(2**60), 2**60).map(float),
    st.sampled_from([0.5, 2.0**53, 2.0**63, 1.8446744073709552e19, -(2.0**63), math.inf, -math.inf]),
)
anything = st.one_of(int64s, st.none(), reals, texts, st.binary(max_size=4))
tables = st.one_of(
    st.lists(st.tuples(int64s, int64s), max_size=20),
    st.lists(st.tuples(int64s, st.one_of(int64s, st.none())), max_size=20),
    st.lists(st.tuples(anything, anything), max_size=20),
)


@contextmanager
def database_of(rows: Sequence[tuple[object, ...]], declared: str = "a, b") -> Iterator[Path]:
    """A database with one table `t` of these rows; columns without a type keep values as they are."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(f"CREATE TABLE t ({declared})")
            if rows:
                connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
            connection.commit()
        yield path


@contextmanager
def reader_of(path: Path, accelerate: bool | None, block_rows: int | None = None) -> Iterator[TableReader]:
    with (
        pytest.MonkeyPatch.context() as patch,
        make_readable(path) as database,
        TableReader(database, accelerate=accelerate) as reader,
    ):
        if block_rows is not None:
            patch.setattr(columns, "BLOCK_ROWS", block_rows)
        yield reader


def as_list(column: IntColumn) -> list[int | None]:
    pairs = zip(column.values.tolist(), column.missing.tolist(), strict=True)
    return [None if is_missing else value for value, is_missing in pairs]


def integer_in(value: object) -> int | None:
    """The rule, said once more: an integer, or what stands for exactly one."""
    if isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value) and value == int(value) and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str):
        digits = value[1:] if value[:1] in ("+", "-") else value
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
            return None
        number = int(value)
        return number if INT64_MIN <= number <= INT64_MAX else None
    return None


def stored(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM t").fetchall()


# Integers


@WAYS
@given(rows=tables, nullable=st.tuples(st.booleans(), st.booleans()), block_rows=st.integers(1, 7))
@settings(max_examples=150)
def test_columns_are_those_of_a_loop_over_the_values(
    accelerate: bool | None, rows: list[tuple[object, object]], nullable: tuple[bool, bool], block_rows: int
) -> None:
    fields = [Field(name, name, is_nullable) for name, is_nullable in zip("ab", nullable, strict=True)]
    with database_of(rows) as path, reader_of(path, accelerate, block_rows) as reader:
        found = reader.ints("t", fields)
        kept = stored(path)
        assert [as_list(found[name]) for name in "ab"] == [[integer_in(row[k]) for row in kept] for k in (0, 1)]
        counts = {(finding.where.split()[-1], finding.rule): finding.numbers for finding in reader.findings}
    for position, name in enumerate("ab"):
        others = [row[position] for row in kept if row[position] is not None and not isinstance(row[position], int)]
        recovered = sum(integer_in(value) is not None for value in others)
        lost = len(others) - recovered
        assert counts.get((name, "integer-stored-otherwise"), {"recovered_count": 0}) == {"recovered_count": recovered}
        assert counts.get((name, "integer-lost-digits"), {"lost_count": 0}) == {"lost_count": lost}


@WAYS
def test_digits_survive_where_a_float_would_lose_them(accelerate: bool | None) -> None:
    values = [13_000_000_000_000_001, 2**53 + 1, 2**62 + 1, INT64_MAX, INT64_MIN + 1]
    with (
        database_of([(value,) for value in values], "a BIGINT NOT NULL") as path,
        reader_of(path, accelerate) as reader,
    ):
        assert reader.ints("t", [Field("a", "a")])["a"].values.tolist() == values


@WAYS
@pytest.mark.parametrize("is_nullable", [False, True])
def test_smallest_integer_is_a_value_and_not_a_missing_one(accelerate: bool | None, is_nullable: bool) -> None:
    """-2**63 stands for NULL on the way through numpy; a table that really holds it is read value by value."""
    rows = [(INT64_MIN,), (5,), (None,) if is_nullable else (6,), (INT64_MIN,)]
    with database_of(rows, "a BIGINT") as path, reader_of(path, accelerate) as reader:
        found = reader.ints("t", [Field("a", "a", is_nullable)])["a"]
        assert as_list(found) == [value for (value,) in rows]
        assert reader.findings == []


@WAYS
def test_null_where_the_schema_forbids_it_is_missing(accelerate: bool | None) -> None:
    with database_of([(1,), (None,)], "a") as path, reader_of(path, accelerate) as reader:
        assert as_list(reader.ints("t", [Field("a", "a")])["a"]) == [1, None]
        assert reader.findings == []


@WAYS
def test_fraction_in_an_integer_column_is_missing_and_not_cut_off(accelerate: bool | None) -> None:
    with database_of([(100,), (100.5,), (102,)], "a INTEGER NOT NULL") as path, reader_of(path, accelerate) as reader:
        assert as_list(reader.ints("t", [Field("a", "a")])["a"]) == [100, None, 102]
        [finding] = reader.findings
    assert (finding.rule, finding.severity) == ("integer-lost-digits", Severity.WARNING)
    assert finding.where == f"{path}, t, column a"


@WAYS
def test_address_above_2_to_the_63_is_missing_and_counted(accelerate: bool | None) -> None:
    """Schema 3 writers store it as a REAL, whose low digits are gone."""
    rows = [(4096,), (2**64 - 4096,), (float(2**63),)]
    rows = [(float(value),) if value > INT64_MAX else (value,) for (value,) in rows]
    with database_of(rows, "address INTEGER") as path, reader_of(path, accelerate) as reader:
        assert as_list(reader.ints("t", [Field("address", "address", True)])["address"]) == [4096, None, None]
        assert [finding.numbers for finding in reader.findings] == [{"lost_count": 2}]


@WAYS
def test_column_that_is_null_for_a_whole_block_and_text_afterwards(accelerate: bool | None) -> None:
    """The accelerator tells a column's type from its first block."""
    for later, expected in (("7", 7), ("x", None), (2**60 + 1, 2**60 + 1), (0.5, None)):
        rows = [(None,)] * 5 + [(later,)]
        with database_of(rows, "a") as path, reader_of(path, accelerate, 5) as reader:
            assert as_list(reader.ints("t", [Field("a", "a", True)])["a"]) == [None] * 5 + [expected]


@WAYS
@pytest.mark.parametrize("later", [0.5, 1.8446744073709552e19, "x", b"x"])
def test_column_of_another_type_after_the_first_block(accelerate: bool | None, later: object) -> None:
    """Addresses above 2**63, which are REAL, may come late. The accelerator fails on them with an error of its own."""
    with database_of([(number,) for number in range(5)] + [(later,)], "a") as path:
        for is_nullable in (False, True):
            with reader_of(path, accelerate, 5) as reader:
                found = reader.ints("t", [Field("a", "a", is_nullable)])["a"]
            assert as_list(found) == [0, 1, 2, 3, 4, None]
            assert [finding.rule for finding in reader.findings] == ["integer-lost-digits"]


@WAYS
def test_rows_are_read_in_blocks_of_any_size(accelerate: bool | None) -> None:
    values = list(range(0, 70_000, 7))
    with database_of([(value, -value) for value in values]) as path:
        for block_rows in (1_000, len(values) - 1, len(values), len(values) + 1):
            with reader_of(path, accelerate, block_rows) as reader:
                found = reader.ints("t", [Field("a", "a"), Field("b", "b", True)])
                assert found["a"].values.tolist() == values
                assert found["b"].values.tolist() == [-value for value in values]


@WAYS
def test_more_rows_than_one_block(accelerate: bool | None) -> None:
    count = columns.BLOCK_ROWS + 3
    with (
        database_of([(2**53 + number, None) for number in range(count)]) as path,
        reader_of(path, accelerate) as reader,
    ):
        found = reader.ints("t", [Field("a", "a"), Field("b", "b", True)])
    assert (found["a"].values == 2**53 + np.arange(count)).all()
    assert found["b"].missing.all()


@WAYS
@pytest.mark.parametrize("counted", [0, 2, 4])
def test_other_number_of_rows_than_counted_is_damage(accelerate: bool | None, counted: int) -> None:
    """Silently, the columns of one table would have rows of different places."""
    for rows in ([(1, 2), (3, 4), (5, 6)], [("x", 2), (3, 4), (5, 6)]):
        with database_of(rows) as path, reader_of(path, accelerate) as reader:
            with pytest.raises(DamagedFile) as caught:
                reader.ints("t", [Field("a", "a"), Field("b", "b")], rows_count=counted)
            assert caught.value.reference == "rocpd-malformed"
            assert caught.value.where == f"{path}, table t"


@WAYS
def test_query_that_sqlite_refuses_is_an_error_of_ours(accelerate: bool | None) -> None:
    with database_of([(1, 2)]) as path, reader_of(path, accelerate) as reader:
        with pytest.raises(DamagedFile):
            reader.ints("nowhere", [Field("a", "a")])
        with pytest.raises(DamagedFile):
            reader.ints("t", [Field("c", "c")])
        with pytest.raises(DamagedFile):
            reader.ints("t", [Field("c", "c")], rows_count=1)
        with pytest.raises(DamagedFile):
            reader.keyed_values("t", "a", "c", "b")


# Keys and values


@WAYS
@given(
    rows=st.one_of(
        st.lists(st.tuples(int64s, int64s, st.floats(allow_nan=False, allow_infinity=False)), max_size=20),
        st.lists(st.tuples(st.one_of(int64s, st.none()), int64s, st.one_of(reals, st.none())), max_size=20),
        st.lists(st.tuples(anything, anything, anything), max_size=20),
    ),
    block_rows=st.integers(1, 7),
)
@settings(max_examples=150)
def test_keyed_values_are_those_of_a_loop_over_the_values(
    accelerate: bool | None, rows: list[tuple[object, object, object]], block_rows: int
) -> None:
    with database_of(rows, "a, b, v REAL") as path, reader_of(path, accelerate, block_rows) as reader:
        first, second, values = reader.keyed_values("t", "a", "b", "v")
        kept = stored(path)
    for position, found in enumerate((first, second)):
        expected = [integer_in(row[position]) for row in kept]
        assert found.tolist() == [-1 if key is None else key for key in expected]
    numbers = [row[2] if isinstance(row[2], float) else math.nan for row in kept]
    # An infinity below zero stands for NULL on the way through numpy.
    assert [math.isnan(found) for found in values.tolist()] == [
        math.isnan(number) or (number == -math.inf and math.isnan(found))
        for number, found in zip(numbers, values.tolist(), strict=True)
    ]
    assert [found for found in values.tolist() if not math.isnan(found)] == [
        number for number, found in zip(numbers, values.tolist(), strict=True) if not math.isnan(found)
    ]


@WAYS
def test_keys_near_2_to_the_63_keep_apart(accelerate: bool | None) -> None:
    """Pseudo-counters of the kernel driver have ids from 0x7000000000000000 on."""
    keys = [0x7000000000000000 + number for number in range(4)] + [INT64_MAX, 3]
    rows = [(2**53 + 1, key, 0.5) for key in keys]
    with database_of(rows, "a, b, v REAL") as path, reader_of(path, accelerate) as reader:
        events, counters, _ = reader.keyed_values("t", "a", "b", "v")
    assert counters.tolist() == keys
    assert set(events.tolist()) == {2**53 + 1}


@WAYS
def test_null_keys_are_minus_one_and_null_values_nan_beside_huge_keys(accelerate: bool | None) -> None:
    rows = [(None, 2**60 + 1, 1.5), (7, None, None), (2**55 + 1, 8, 2.5)]
    with database_of(rows, "a, b, v REAL") as path, reader_of(path, accelerate) as reader:
        first, second, values = reader.keyed_values("t", "a", "b", "v")
    assert first.tolist() == [-1, 7, 2**55 + 1]
    assert second.tolist() == [2**60 + 1, -1, 8]
    assert np.isnan(values).tolist() == [False, True, False]


@WAYS
def test_value_that_is_no_number_is_missing_and_counted(accelerate: bool | None) -> None:
    rows = [(1, 2, "abc"), (1, 2, b"x"), (1, 2, 3.5)]
    with database_of(rows, "a, b, v REAL") as path, reader_of(path, accelerate) as reader:
        values = reader.keyed_values("t", "a", "b", "v")[2]
        found = [(finding.rule, finding.numbers) for finding in reader.findings]
    assert found == [("value-not-a-number", {"lost_count": 2})]
    assert np.isnan(values).tolist() == [True, True, False]


# One value, one column


@pytest.mark.parametrize(
    "value, expected",
    [
        (7, 7),
        (INT64_MIN, INT64_MIN),
        (2**63, None),
        (7.0, 7),
        (-0.0, 0),
        (7.5, None),
        (2.0**53, None),
        (2.0**53 - 1, 2**53 - 1),
        (math.nan, None),
        (math.inf, None),
        ("18446744073709551615", None),
        ("9223372036854775807", INT64_MAX),
        ("-5", -5),
        ("7.0", None),
        ("", None),
        (b"7", None),
        (None, None),
    ],
)
def test_value_stands_for_an_integer_or_for_none(value: object, expected: int | None) -> None:
    assert exact_integer(value) == expected


def test_absent_column_is_missing_throughout() -> None:
    column = absent_column(3)
    assert len(column) == 3
    assert as_list(column) == [None, None, None]
    assert column.where_missing(-1).tolist() == [-1, -1, -1]
    assert as_list(column.take(np.array([0]))) == [None]


def test_column_without_a_mask_misses_nothing() -> None:
    column = IntColumn(np.array([3, 1, 2]))
    assert column.missing.tolist() == [False] * 3
    assert column.where_missing(-1) is column.values
    assert column.take(np.array([1, 0])).values.tolist() == [1, 3]


# The reader


def test_both_connections_are_closed(tmp_path: Path) -> None:
    with database_of([(1, 2)]) as path, make_readable(path) as database:
        reader = TableReader(database)
        reader.close()
        reader.close()
        with pytest.raises(sqlite3.ProgrammingError):
            reader.rows("SELECT 1")


def test_scalar_is_the_first_value_or_none() -> None:
    with database_of([(1, 2), (3, 4)]) as path, reader_of(path, False) as reader:
        assert reader.scalar("SELECT a, b FROM t") == 1
        assert reader.scalar("SELECT a FROM t WHERE a > 5") is None


def test_findings_go_where_the_caller_wants_them() -> None:
    found: list[Any] = []
    with (
        database_of([(0.5, 2)]) as path,
        make_readable(path) as database,
        TableReader(database, findings=found, accelerate=False) as reader,
    ):
        reader.ints("t", [Field("a", "a")])
    assert [finding.rule for finding in found] == ["integer-lost-digits"]
