"""Whole made-up traces: totals, order of things, determinism, and the facts they imitate."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_kernels import make_kernels
from rocktools.demo.rocpd_schema import VERSIONS
from rocktools.demo.rocpd_trace import TraceShape, TraceTotals, write_trace
from rocktools.errors import UsageError

FULL = TraceShape(
    dispatches_count=5_003,
    kernels_count=25,
    agents_count=2,
    queues_count=3,
    streams_count=7,
    copies_count=31,
    allocations_count=5,
    ranges_count=4,
    seed=11,
)


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def columns(path: Path, sql: str) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*rows(path, sql), strict=True)]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TraceTotals]:
    path = tmp_path_factory.mktemp("trace") / "full.db"
    return path, write_trace(path, FULL)


def test_every_row_that_was_asked_for_is_there_and_visible(full: tuple[Path, TraceTotals]) -> None:
    path, totals = full
    assert rows(path, "PRAGMA foreign_key_check") == []
    for view, count in (
        ("kernels", 5_003),
        ("memory_copies", 31),
        ("memory_allocations", 5),
        ("regions", 5_003 + 31 + 5 + 4),
        ("kernel_symbols", 25 * 2),
        ("rocpd_info_queue", 1 + 2 * 3),
        ("rocpd_info_stream", 1 + 7),
        ("rocpd_event", 2 * (5_003 + 31 + 5) + 4),
    ):
        assert rows(path, f"SELECT COUNT(*) FROM {view}") == [(count,)], view
    assert (totals.dispatches_count, totals.copies_count, totals.allocations_count) == (5_003, 31, 5)
    assert (totals.host_calls_count, totals.ranges_count, totals.counter_rows_count) == (5_003 + 31 + 5, 4, 0)


def test_totals_are_the_sums_in_the_file(full: tuple[Path, TraceTotals]) -> None:
    path, totals = full
    assert rows(path, 'SELECT SUM("end" - start) FROM rocpd_kernel_dispatch') == [(totals.dispatches_ns,)]
    assert rows(path, "SELECT SUM(size) FROM rocpd_memory_copy") == [(totals.copies_bytes,)]
    assert rows(path, "SELECT init, fini FROM rocpd_info_process") == [(totals.start_ns, totals.end_ns)]
    [(first, last)] = rows(path, 'SELECT MIN(start), MAX("end") FROM rocpd_region')
    assert totals.start_ns < first < last < totals.end_ns
    assert totals.start_ns == 150_000_000_000_000


def test_a_queue_runs_in_order_with_few_and_short_overlaps(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    write_trace(path, TraceShape(dispatches_count=20_000, queues_count=2))
    queue, start, end = columns(
        path, 'SELECT queue_id, start, "end" FROM rocpd_kernel_dispatch ORDER BY queue_id, start'
    )
    is_same = queue[1:] == queue[:-1]
    gap = (start[1:] - end[:-1])[is_same]
    assert (np.diff(end)[is_same] > 0).all()
    assert gap.min() >= -600
    # 3 % of 20,000 draws: the standard deviation is 0.12 %.
    assert (gap < 0).mean() == pytest.approx(0.03, abs=0.006)
    assert (gap == 0).mean() == pytest.approx(0.28, abs=0.02)


def test_queues_overlap_and_ids_are_not_in_order_of_start(full: tuple[Path, TraceTotals]) -> None:
    path, _ = full
    agent, start, end = columns(path, 'SELECT agent_id, start, "end" FROM rocpd_kernel_dispatch')
    assert (np.diff(start) < 0).any()
    one = agent == 2
    order = np.argsort(start[one])
    assert (start[one][order][1:] < end[one][order][:-1] - 600).any()


def test_events_are_numbered_in_order_of_completion(full: tuple[Path, TraceTotals]) -> None:
    path, _ = full
    [end] = columns(path, 'SELECT "end" FROM rocpd_kernel_dispatch ORDER BY event_id')
    assert (np.diff(end) >= 0).all()
    [event] = columns(path, "SELECT event_id FROM rocpd_kernel_dispatch")
    assert (np.diff(event) < 0).any()


def test_a_launch_call_ends_before_its_kernel_starts(full: tuple[Path, TraceTotals]) -> None:
    path, _ = full
    launches = (
        'SELECT R.name, COUNT(*), MIN(K.start - R."end") > 0, SUM(R.tid != K.tid)'
        " FROM kernels K JOIN regions R ON R.stack_id = K.stack_id GROUP BY R.name"
    )
    assert rows(path, launches) == [("hipModuleLaunchKernel", 5_003, 1, 0)]


def test_calls_of_a_thread_do_not_overlap(full: tuple[Path, TraceTotals]) -> None:
    path, _ = full
    sql = "SELECT tid, start, \"end\" FROM regions WHERE category = 'HIP_RUNTIME_API_EXT' ORDER BY tid, start"
    thread, start, end = columns(path, sql)
    is_same = thread[1:] == thread[:-1]
    assert (start[1:] >= end[:-1])[is_same].all()
    assert len(set(thread)) == 1 + 2


def test_each_step_has_its_dispatches_inside_its_range(full: tuple[Path, TraceTotals]) -> None:
    path, _ = full
    steps = rows(
        path,
        "SELECT JSON_EXTRACT(extdata, '$.message'), start, \"end\" FROM regions"
        " WHERE name = 'roctxThreadRangeA' ORDER BY start",
    )
    assert [text for text, _, _ in steps] == ["step 0", "step 1", "step 2", "step 3"]
    counts = []
    for text, start, end in steps:
        inside = f"SELECT COUNT(*), MIN(start) > {start}, MAX(\"end\") < {end} FROM kernels WHERE region = '{text}'"
        [(count, is_after, is_before)] = rows(path, inside)
        assert (is_after, is_before) == (1, 1)
        counts.append(count)
    assert sorted(counts) == [1_250, 1_251, 1_251, 1_251]


def test_without_host_calls_stack_ids_still_count(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    totals = write_trace(path, replace(FULL, has_host_calls=False, ranges_count=0))
    assert totals.host_calls_count == 0
    assert rows(path, "SELECT COUNT(*) FROM rocpd_region") == [(0,)]
    assert rows(path, "SELECT COUNT(DISTINCT stack_id) FROM kernels") == [(5_003,)]


def test_the_same_shape_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        write_trace(tmp_path / name, FULL)
    write_trace(tmp_path / "c.db", replace(FULL, seed=12))
    first, second, other = ((tmp_path / name).read_bytes() for name in ("a.db", "b.db", "c.db"))
    assert first == second
    assert first != other


def test_other_seeds_and_processes_have_other_guids(tmp_path: Path) -> None:
    small = TraceShape(dispatches_count=1)
    for name, shape in (("a", small), ("b", replace(small, seed=1)), ("c", replace(small, pid=7))):
        write_trace(tmp_path / name, shape)
    guids = {rows(tmp_path / name, "SELECT value FROM rocpd_metadata WHERE tag = 'guid'")[0][0] for name in "abc"}
    assert len(guids) == 3


def test_counters_have_one_row_per_instance_and_known_values(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    counters = ("SQ_WAVES", "GRBM_COUNT", "TCC_HIT", "TCC_HIT_sum")
    shape = TraceShape(dispatches_count=100, counters=counters, instances_count=8, has_host_calls=False)
    totals = write_trace(path, shape)
    assert totals.counter_rows_count == 100 * (3 * 8 + 1)
    assert rows(path, "SELECT COUNT(*) FROM rocpd_pmc_event") == [(2_500,)]
    waves = "SELECT COUNT(*), SUM(value != grid_size / 64) FROM counters_collection WHERE counter_name = 'SQ_WAVES'"
    assert rows(path, waves) == [(100, 0)]
    cycles = "SELECT SUM(value != 8 * CAST(duration * 2.4 AS INT)) FROM counters_collection"
    assert rows(path, f"{cycles} WHERE counter_name = 'GRBM_COUNT'") == [(0,)]
    # scale + 0 .. scale + 7
    spread = (
        "SELECT DISTINCT MAX(counter_value) - MIN(counter_value), COUNT(*) FROM pmc_events WHERE counter_name = '{}'"
    )
    assert rows(path, spread.format("TCC_HIT") + " GROUP BY event_id") == [(7.0, 8)]
    assert rows(path, spread.format("TCC_HIT_sum") + " GROUP BY event_id") == [(0.0, 1)]


def test_a_counted_trace_is_serial_on_each_device(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    write_trace(path, TraceShape(dispatches_count=500, agents_count=2, counters=("SQ_WAVES",)))
    agent, start, end = columns(
        path, 'SELECT agent_id, start, "end" FROM rocpd_kernel_dispatch ORDER BY agent_id, start'
    )
    assert (start[1:] > end[:-1])[agent[1:] == agent[:-1]].all()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_can_hold_a_trace(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t.db"
    shape = TraceShape(dispatches_count=50, copies_count=3, counters=("SQ_WAVES",))
    write_trace(path, shape, options=WriterOptions(version=version, has_replay_pass=True))
    assert rows(path, "SELECT COUNT(*) FROM kernels") == [(50,)]
    assert rows(path, "SELECT COUNT(*) FROM counters_collection") == [(50,)]


@pytest.mark.parametrize("dispatches, copies", [(0, 0), (1, 0), (0, 3), (2, 5)])
def test_tiny_traces(tmp_path: Path, dispatches: int, copies: int) -> None:
    path = tmp_path / "t.db"
    write_trace(path, TraceShape(dispatches_count=dispatches, copies_count=copies, ranges_count=3, agents_count=4))
    assert rows(path, "SELECT COUNT(*) FROM kernels") == [(dispatches,)]
    assert rows(path, "SELECT COUNT(*) FROM memory_copies") == [(copies,)]
    assert rows(path, "PRAGMA foreign_key_check") == []


def test_segments_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace longer than one segment keeps its order and counts."""
    monkeypatch.setattr("rocktools.demo.rocpd_trace._SEGMENT_DISPATCHES", 300)
    path = tmp_path / "t.db"
    totals = write_trace(path, TraceShape(dispatches_count=1_000, copies_count=10))
    assert rows(path, "SELECT COUNT(*), SUM(duration) FROM kernels") == [(1_000, totals.dispatches_ns)]
    [start] = columns(path, "SELECT start FROM rocpd_kernel_dispatch")
    assert start[:250].max() < start[250:].min()


def test_kernel_names_are_a_mixture_and_differ() -> None:
    kernels = make_kernels(200, np.random.default_rng(0))
    assert len(set(kernels.names)) == 200
    for start in (
        "loop_fusion_",
        "input_reduce_fusion_",
        "gemm_fusion_dot_",
        "Cijk_",
        "ncclDevKernel_",
        "void ck_tile::",
    ):
        assert any(name.startswith(start) for name in kernels.names[:6]), start
    assert kernels.weight_ratio.sum() == pytest.approx(1.0)
    assert (kernels.grid_workitems % kernels.workgroup_workitems == 0).all()


@pytest.mark.parametrize(
    "wrong, message",
    [({"dispatches_count": -1}, "at least 0, but is -1"), ({"queues_count": 0}, "queues_count must be at least 1")],
)
def test_impossible_shapes_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TraceShape(**{"dispatches_count": 1, **wrong})


def test_a_trace_neither_overwrites_nor_lacks_tables(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    path.write_text("mine")
    with pytest.raises(UsageError, match="not overwritten"):
        write_trace(path, TraceShape(dispatches_count=1))
    with pytest.raises(UsageError, match="has all tables"):
        write_trace(
            tmp_path / "u.db", TraceShape(dispatches_count=1), options=WriterOptions(left_out_tables=frozenset({"arg"}))
        )
    assert [each.name for each in tmp_path.iterdir()] == ["t.db"]
    assert path.read_text() == "mine"
