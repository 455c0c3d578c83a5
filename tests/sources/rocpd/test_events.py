"""What the event behind a row tells: columns, categories, and which categories are roctx."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocpd_files import edit, open_process, write_small_trace

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.sources.rocpd.columns import IntColumn
from rocktools.sources.rocpd.events import find_launches, has_category, read_event_columns, roctx_categories

WANTED = {"stack": "stack_id", "category": "category_id"}


def categories_of(path: Path, write: Callable[[RocpdWriter], object]) -> list[str]:
    with RocpdWriter(path, options=WriterOptions(has_views=False)) as writer:
        write(writer)
    with open_process(path) as (reader, process):
        listed = ", ".join(map(str, roctx_categories(reader, process))) or "NULL"
        rows = reader.rows(f"SELECT string FROM {process.tables['string'].quoted} WHERE id IN ({listed})")
    return sorted(name for (name,) in rows)


def test_columns_follow_the_rows_of_the_table(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db")
    edit(
        path,
        "UPDATE rocpd_kernel_dispatch{_} SET event_id = NULL WHERE id = 2",
        "UPDATE rocpd_kernel_dispatch{_} SET event_id = 12345 WHERE id = 4",
        "UPDATE rocpd_event{_} SET stack_id = 1000 + id",
    )
    with open_process(path) as (reader, process):
        found = read_event_columns(reader, process, "kernel_dispatch", WANTED, 5)
        events = [row[0] for row in reader.rows(f"SELECT event_id FROM {process.tables['kernel_dispatch'].quoted}")]
    assert found["stack"].missing.tolist() == [False, True, False, True, False]
    assert [found["stack"].values[row] for row in (0, 2, 4)] == [1000 + events[row] for row in (0, 2, 4)]


def test_columns_are_missing_where_the_file_has_no_events(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db", WriterOptions(left_out_tables=frozenset({"event"})))
    with open_process(path) as (reader, process):
        found = read_event_columns(reader, process, "kernel_dispatch", WANTED, 5)
    assert all(column.missing.all() and len(column) == 5 for column in found.values())


def test_roctx_is_the_range_domain_where_there_is_one(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        writer.event("MARKER_CORE_API")
        writer.event("MARKER_CORE_RANGE_API")
        writer.event("HIP_RUNTIME_API")

    assert categories_of(tmp_path / "t.db", write) == ["MARKER_CORE_RANGE_API"]


def test_roctx_is_the_single_calls_where_the_range_domain_is_a_word_only(tmp_path: Path) -> None:
    """The pool may hold the name of a domain that recorded nothing."""

    def write(writer: RocpdWriter) -> None:
        writer.string("MARKER_CORE_RANGE_API")
        writer.event("MARKER_CORE_API")
        writer.event("rocm_marker_api")

    assert categories_of(tmp_path / "t.db", write) == ["MARKER_CORE_API", "rocm_marker_api"]


def test_category_that_is_missing_is_none_of_the_wanted() -> None:
    column = IntColumn(np.array([7, 8, 7]), np.array([False, False, True]))
    assert has_category({"category_id": column}, [7]).tolist() == [True, False, False]
    assert has_category({"category_id": column}, []).tolist() == [False, False, False]


def test_climb_ends_in_a_chain_deeper_than_any_real_one(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with RocpdWriter(path, options=WriterOptions(has_views=False)) as writer:
        call = writer.region("hipLaunchKernel", 0, 9)
        for _ in range(200):
            call = writer.region("hsa", 0, 9, category="HSA_CORE_API", parent_id=call)
    with open_process(path) as (reader, process):
        ids = IntColumn(np.array([call, 30]))
        found = find_launches(reader, process, ids, ids)
    assert found.missing.tolist() == [True, False]
    assert found.values[1] == 1


calls = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.booleans()), max_size=8)


@given(calls, st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=6))
@settings(max_examples=60)
def test_launches_are_those_of_a_walk_from_call_to_call(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, int, bool]], dispatches: list[tuple[int, int]]
) -> None:
    """Calls as (stack id, parent, whether of HIP), with gaps, loops and repeated ids."""
    path = tmp_path_factory.mktemp("walk") / "t.db"
    with RocpdWriter(path, options=WriterOptions(has_views=False)) as writer:
        for stack_id, parent, is_hip in calls:
            domain = "HIP_RUNTIME_API" if is_hip else "HSA_CORE_API"
            writer.region("call", 0, 1, event_id=writer.event(domain, stack_id=stack_id, parent_stack_id=parent))

    def walk(at: int, above: int) -> int | None:
        for _ in range(20):
            found = next((number for number, call in enumerate(calls) if call[0] == at and at > 0), None)
            if found is not None and calls[found][2]:
                return found + 1
            at, above = (above if found is None else calls[found][1]), 0
            if at <= 0:
                return None
        return None

    with open_process(path) as (reader, process):
        stacks, parents = (IntColumn(np.array([each[k] for each in dispatches])) for k in (0, 1))
        found = find_launches(reader, process, stacks, parents)
    got = [None if gone else value for value, gone in zip(found.values.tolist(), found.missing.tolist(), strict=True)]
    assert got == [walk(*each) for each in dispatches]
