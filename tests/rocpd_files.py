"""Databases for the tests of the rocpd readers: made with the demo writer, then edited, merged, or opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.findings import Finding
from rocktools.frames import FrameSpec
from rocktools.sources.rocpd.columns import TableReader
from rocktools.sources.rocpd.opening import make_readable
from rocktools.sources.rocpd.parts import Part, assemble_frame
from rocktools.sources.rocpd.schema import ProcessTables, read_processes

# CLOCK_BOOTTIME of a node that has been up for five months: beyond 2**53.
BOOT_NS = 13_000_000_000_000_000


def write_small_trace(path: Path, options: WriterOptions | None = None) -> Path:
    """Five dispatches of two kernels (10 + 20 + 30 + 40 + 50 ns), host calls, a range, a mark, copies, allocations."""
    with RocpdWriter(path, options=options) as writer:
        fusion, gemm = writer.kernel_symbol("loop_fusion_3"), writer.kernel_symbol("Cijk_Ailk_Bljk_BBS")
        outer = writer.region("hipModuleLaunchKernel", BOOT_NS, BOOT_NS + 90)
        inner = writer.region(
            "hsa_signal_store_screlease", BOOT_NS + 50, BOOT_NS + 60, category="HSA_CORE_API", parent_id=outer
        )
        writer.roctx_range("step 1", BOOT_NS - 10, BOOT_NS + 900)
        writer.roctx_mark("begin", BOOT_NS - 5)
        now_ns = BOOT_NS + 100
        for number, kernel in enumerate((fusion, gemm, fusion, gemm, fusion)):
            duration_ns = 10 * (number + 1)
            call_id = inner if number < 2 else None
            writer.dispatch(kernel, now_ns, now_ns + duration_ns, call_id=call_id, range_name="step 1")
            now_ns += duration_ns
        writer.copy("HOST_TO_DEVICE", BOOT_NS + 10, BOOT_NS + 20, 4096)
        writer.copy("DEVICE_TO_HOST", BOOT_NS + 400, BOOT_NS + 420, 8192)
        writer.allocation("ALLOC", BOOT_NS + 1, BOOT_NS + 2, 65536)
        writer.allocation("FREE", BOOT_NS + 800, BOOT_NS + 801, 65536)
    return path


def write_counter_pass(path: Path, options: WriterOptions | None = None) -> Path:
    """Two dispatches with SQ_WAVES (1, 2, 3, 4; 5, 6, 7, 8), GRBM_COUNT (10, 30; 20, 20), TCC_HIT_sum (100; 200)."""
    with RocpdWriter(path, options=options) as writer:
        kernel = writer.kernel_symbol("loop_fusion_3")
        waves, clocks, hits = (writer.counter_info(name) for name in ("SQ_WAVES", "GRBM_COUNT", "TCC_HIT_sum"))
        counted = (
            ((waves, (1.0, 2.0, 3.0, 4.0)), (clocks, (10.0, 30.0)), (hits, (100.0,))),
            ((waves, (5.0, 6.0, 7.0, 8.0)), (clocks, (20.0, 20.0)), (hits, (200.0,))),
        )
        for number, counters in enumerate(counted):
            start_ns = BOOT_NS + 1_000 * number
            dispatch = writer.dispatch(kernel, start_ns, start_ns + 100)
            for pmc_id, values in counters:
                for value in values:
                    writer.counter_value(pmc_id, value, dispatch_id=dispatch)
    return path


def read_sql(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query on a finished database."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def edit(path: Path, *statements: str) -> Path:
    """Run SQL on a database of one process; `{_}` in a statement is the suffix of its tables."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        suffixes = [name.removeprefix("rocpd_info_node") for name in names if name.startswith("rocpd_info_node")]
        suffix = suffixes[0] if suffixes else ""
        for statement in statements:
            connection.execute(statement.replace("{_}", suffix))
        connection.commit()
    return path


def drop_views(path: Path) -> Path:
    """Remove every view, so that tables can be altered freely."""
    names = [name for (name,) in read_sql(path, "SELECT name FROM sqlite_master WHERE type = 'view'")]
    return edit(path, *(f'DROP VIEW "{name}"' for name in names))


def rebuild_table(path: Path, base: str, columns: str = "*") -> Path:
    """Replace a table by a copy of some of its columns (SQL) without any constraint, as hand-made files have."""
    return edit(
        drop_views(path),
        f'CREATE TABLE "kept" AS SELECT {columns} FROM "rocpd_{base}{{_}}"',
        f'DROP TABLE "rocpd_{base}{{_}}"',
        f'ALTER TABLE "kept" RENAME TO "rocpd_{base}{{_}}"',
    )


def merge_databases(paths: Sequence[Path], target: Path) -> Path:
    """What AMD's merge writes: the tables of all files side by side, and views that unite those of one base name."""
    members: dict[str, list[str]] = {}
    with closing(sqlite3.connect(target)) as merged:
        merged.execute("PRAGMA synchronous=OFF")
        for path in paths:
            merged.execute("ATTACH DATABASE ? AS source", (str(path),))
            tables = merged.execute(
                "SELECT name, sql FROM source.sqlite_master WHERE type = 'table' AND name LIKE 'rocpd_%'"
            ).fetchall()
            views = merged.execute("SELECT name FROM source.sqlite_master WHERE type = 'view'").fetchall()
            for name, sql in tables:
                merged.execute(sql)
                merged.execute(f'INSERT INTO main."{name}" SELECT * FROM source."{name}"')
            for (view,) in views:
                members.setdefault(view, []).extend(name for name, _ in tables if name.startswith(f"{view}_"))
            merged.commit()
            merged.execute("DETACH DATABASE source")
        for view, names in members.items():
            if names:
                union = " UNION ALL ".join(f'SELECT * FROM "{name}"' for name in names)
                merged.execute(f'CREATE VIEW "{view}" AS {union}')
        merged.commit()
    return target


@contextmanager
def open_process(path: Path, *, accelerate: bool | None = False) -> Iterator[tuple[TableReader, ProcessTables]]:
    """A reader and the tables of the only process in a database."""
    with make_readable(path) as database, TableReader(database, accelerate=accelerate) as reader:
        [process] = read_processes(reader)
        yield reader, process


def as_rows(part: Part, spec: FrameSpec, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a part without run and process, missing values as None; the contract of the frame is checked."""
    frame = assemble_frame([part], spec, columns)
    wanted = [name for name in frame.columns if name not in ("run", "process")]
    values = {name: [None if is_missing else value for value, is_missing in _pairs(frame[name])] for name in wanted}
    return [dict(zip(wanted, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _pairs(column: Any) -> Iterator[tuple[Any, bool]]:
    return zip(column.tolist(), column.isna().tolist(), strict=True)


def rules(findings: Sequence[Finding]) -> list[str]:
    """The rules of findings, in their order."""
    return [finding.rule for finding in findings]
