"""Our schema and views against those of a real rocprofv3 file: same objects, same columns, same rows.

The stock SQL is read from the real file at run time and evaluated on the same rows as ours.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_schema import Schema, build_schema
from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.demo.rocpd_views import view_statements
from rocktools.demo.rocpd_writer import RocpdWriter

REFERENCE = "data/rocpd/rocprofv3-mi300x.db"
REAL_FILES = (REFERENCE, "data/rocpd/rocprofsys-mi350x.db")


def open_real(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)


def suffix_of(connection: sqlite3.Connection) -> str:
    [(suffix,)] = connection.execute("SELECT value FROM rocpd_metadata WHERE tag = 'uuid'").fetchall()
    return str(suffix)


@pytest.fixture
def reference(shared: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_real(shared / REFERENCE)) as connection:
        yield connection


@pytest.fixture
def schema(reference: sqlite3.Connection) -> Schema:
    """Ours, with the real file's suffix and guid."""
    suffix = suffix_of(reference)
    return build_schema("3", suffix=suffix, guid=suffix[1:].replace("_", "-"))


def stock_views(reference: sqlite3.Connection, suffix: str) -> dict[str, str]:
    """CREATE VIEW texts of the real file for another suffix, by name."""
    found = reference.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'").fetchall()
    return {name: sql.replace(suffix_of(reference), suffix) for name, sql in found}


def read_view(connection: sqlite3.Connection, name: str) -> tuple[list[str], list[str]]:
    cursor = connection.execute(f'SELECT * FROM "{name}"')
    return [column[0] for column in cursor.description], sorted(map(repr, cursor.fetchall()))


def make_tables(connection: sqlite3.Connection, schema: Schema) -> None:
    for base in schema.table_names:
        connection.execute(schema.table_sql(base))


def copy_rows(source: sqlite3.Connection, target: sqlite3.Connection, schema: Schema) -> None:
    for base in schema.table_names:
        names = ", ".join(f'"{name}"' for name in schema.column_names(base))
        marks = ", ".join("?" for _ in schema.column_names(base))
        found = source.execute(f'SELECT {names} FROM "rocpd_{base}{suffix_of(source)}"')
        target.executemany(f"INSERT INTO {schema.full_name(base)} ({names}) VALUES ({marks})", found)


def assert_views_agree(ours: sqlite3.Connection, stock: sqlite3.Connection, names: list[str]) -> dict[str, int]:
    """Same columns and rows in every view; returns how many rows each has."""
    counts = {}
    for name in names:
        our_columns, our_rows = read_view(ours, name)
        stock_columns, stock_rows = read_view(stock, name)
        assert our_columns == stock_columns, name
        assert our_rows == stock_rows, name
        counts[name] = len(our_rows)
    return counts


def compare_with_stock(reference: sqlite3.Connection, path: Path) -> dict[str, int]:
    """Compare a file of ours with a copy whose views are the stock ones; returns how many rows each view has."""
    with closing(sqlite3.connect(path)) as ours, closing(sqlite3.connect(":memory:")) as stock:
        ours.backup(stock)
        texts = stock_views(reference, suffix_of(ours))
        for name, text in texts.items():
            stock.execute(f'DROP VIEW "{name}"')
            stock.execute(text)
        return assert_views_agree(ours, stock, list(texts))


def test_objects_columns_and_foreign_keys_are_those_of_the_real_file(
    reference: sqlite3.Connection, schema: Schema
) -> None:
    objects = "SELECT type, name FROM sqlite_master ORDER BY type, name"
    with closing(sqlite3.connect(":memory:")) as ours:
        make_tables(ours, schema)
        for statement in view_statements(schema):
            ours.execute(statement)
        names = ours.execute(objects).fetchall()
        assert names == reference.execute(objects).fetchall()
        assert len([name for kind, name in names if kind == "view"]) == 41
        for kind, name in names:
            if kind == "index":
                continue
            info = f'PRAGMA table_info("{name}")'
            assert ours.execute(info).fetchall() == reference.execute(info).fetchall(), name
            keys = f'PRAGMA foreign_key_list("{name}")'
            both = [{row[2:] for row in each.execute(keys)} for each in (ours, reference)]
            assert both[0] == both[1], name


def test_rules_of_the_tables_are_those_of_the_real_file(reference: sqlite3.Connection, schema: Schema) -> None:
    """CHECK lists, UNIQUE columns and AUTOINCREMENT, read out of both CREATE TABLE texts."""

    def rules(sql: str) -> tuple[list[tuple[str, list[str]]], int, bool]:
        checks = re.findall(r'CHECK \("(\w+)" IN \(([^)]*)\)\)', sql)
        listed = sorted((column, re.findall(r"'(\w+)'", choices)) for column, choices in checks)
        return listed, len(re.findall(r"\bUNIQUE\b", sql)), "PRIMARY KEY AUTOINCREMENT" in sql

    for base in schema.table_names:
        [(stock,)] = reference.execute(
            "SELECT sql FROM sqlite_master WHERE name = ?", (schema.full_name(base).strip('"'),)
        ).fetchall()
        assert rules(schema.table_sql(base)) == rules(stock), base


@pytest.mark.parametrize("file", REAL_FILES)
def test_views_have_the_stock_rows_on_real_files(
    shared: Path, reference: sqlite3.Connection, schema: Schema, file: str
) -> None:
    stock_texts = stock_views(reference, schema.suffix)
    with (
        closing(open_real(shared / file)) as source,
        closing(sqlite3.connect(":memory:")) as ours,
        closing(sqlite3.connect(":memory:")) as stock,
    ):
        for connection in (ours, stock):
            make_tables(connection, schema)
            copy_rows(source, connection, schema)
        for statement in view_statements(schema):
            ours.execute(statement)
        for text in stock_texts.values():
            stock.execute(text)
        counts = assert_views_agree(ours, stock, list(stock_texts))
    assert counts["kernels"] > 0
    if file != REFERENCE:
        # 880 samples on tracks without a thread: the stock view loses all of them, and so must ours.
        assert (counts["rocpd_sample"], counts["samples"]) == (880, 0)


def write_odd_rows(writer: RocpdWriter) -> None:
    """Rows that views drop, keep or mistake: dangling and NULL ids, foreign guids, equal names, counters, scratch."""
    kernels = [writer.kernel_symbol(name) for name in ("gemm", "gemm", "", "reduce(float*)")]
    second_gpu = writer.agent("GPU")
    call = writer.region("hipLaunchKernel", 10, 20)
    writer.roctx_range("step", 5, 500)
    writer.roctx_mark("mark", 6)
    writer.sample(writer.track("lost", tid=None), 7, event_id=1)
    writer.sample(writer.track("unnamed", name_id=None), 8, event_id=1)
    writer.sample(99, 9)
    dispatches = [writer.dispatch(kernels[i % 4], 100 * i, 100 * i + 90 + i, call_id=call) for i in range(1, 9)]
    for odd in (
        {"tid": None},
        {"event_id": None},
        {"event_id": 999},
        {"region_name_id": None},
        {"kernel_id": 0},
        {"queue_id": 999},
        {"stream_id": 999},
        {"agent_id": second_gpu},
        {"agent_id": 999},
        {"pid": 1},
        {"guid": "another"},
        {"start": 50, "end": 40},
        {"dispatch_id": 3, "id": 300},
    ):
        dispatches.append(writer.dispatch(**{"kernel_id": kernels[0], "start_ns": 1000, "end_ns": 1100, **odd}))
    write_odd_counters(writer, dispatches, second_gpu)
    write_odd_memory(writer)
    writer.thread(7, pid=1)
    writer.thread(8, nid=1)
    writer.thread(9, guid="another")
    writer.code_object(agent_id=None)
    writer.code_object(extdata="{}")
    writer.kernel_symbol("orphan", pid=1)
    writer.region("nameless", 30, 40, name_id=999)
    writer.region("threadless", 30, 40, tid=999)
    writer.region("eventless", 30, 40, event_id=None)
    writer.region("uncategorised", 30, 40, event_id=writer.event("X", category_id=None))
    for event_id in (1, 2, 999):
        writer.arg(event_id, "stream", "0x1", extdata={"stream_id": 0})
        writer.arg(event_id, "stream", "0x1", extdata={"stream_id": 5}, position=1)
        writer.arg(event_id, "size", "64", position=2)


def write_odd_counters(writer: RocpdWriter, dispatches: list[int], second_gpu: int) -> None:
    counters = [
        writer.counter_info("SQ_WAVES"),
        writer.counter_info("SQ_WAVES", agent_id=second_gpu),
        writer.counter_info("GRBM_COUNT"),
        writer.counter_info("TCC_HIT_sum"),
        writer.counter_info("LOST", agent_id=None),
        writer.counter_info("FOREIGN", guid="another"),
        999,
    ]
    for number, dispatch in enumerate(dispatches):
        for counter in counters:
            for instance in range(3):
                writer.counter_value(counter, float(number * 10 + instance), dispatch_id=dispatch)
    writer.counter_value(counters[0], 5.0, event_id=None)
    writer.counter_value(counters[0], None, dispatch_id=dispatches[0])  # type: ignore[arg-type]


def write_odd_memory(writer: RocpdWriter) -> None:
    for kind in ("HOST_TO_DEVICE", "DEVICE_TO_HOST", "DEVICE_TO_DEVICE"):
        writer.copy(kind, 50, 70, 4096)
    for odd in ({"dst_agent_id": None}, {"src_agent_id": 999}, {"name_id": 999}, {"queue_id": 1}, {"event_id": None}):
        writer.copy("HOST_TO_HOST", 50, 71, 64, **odd)
    writer.allocation("ALLOC", 1, 2, 64)
    writer.allocation("FREE", 3, 4, 64)
    for start in (9, 8):
        writer.allocation("ALLOC", start, 10, 64, level="SCRATCH", extdata={"flags": start})
    writer.allocation("RECLAIM", 5, 6, 64, level="SCRATCH", guid="another")
    for odd in ({"tid": 999}, {"event_id": None}, {"agent_id": 999}, {"pid": 1}, {"guid": "another"}):
        writer.allocation("ALLOC", 11, 12, 64, level="VIRTUAL", **odd)


def test_views_have_the_stock_rows_on_a_made_up_trace(reference: sqlite3.Connection, tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    shape = TraceShape(
        dispatches_count=300,
        agents_count=2,
        copies_count=20,
        allocations_count=5,
        ranges_count=3,
        counters=("SQ_WAVES", "GRBM_COUNT", "TCC_HIT_sum"),
    )
    write_trace(path, shape)
    counts = compare_with_stock(reference, path)
    assert counts["kernels"] == 300
    assert counts["counters_collection"] == 300 * 3


def test_views_drop_and_keep_what_the_stock_views_do_on_odd_rows(reference: sqlite3.Connection, tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    with RocpdWriter(path, options=WriterOptions()) as writer:
        write_odd_rows(writer)
    counts = compare_with_stock(reference, path)
    # Each kind of row is there and each kind of loss happens, so that agreement means something.
    assert all(counts.values()), [name for name, count in counts.items() if not count]
    for view, table in (
        ("kernels", "rocpd_kernel_dispatch"),
        ("samples", "rocpd_sample"),
        ("regions", "rocpd_region"),
        ("threads", "rocpd_info_thread"),
        ("memory_copies", "rocpd_memory_copy"),
        ("memory_allocations", "rocpd_memory_allocate"),
        ("pmc_events", "rocpd_pmc_event"),
        ("pmc_info", "rocpd_info_pmc"),
    ):
        assert 0 < counts[view] < counts[table], view
