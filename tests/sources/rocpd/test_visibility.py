"""Rows that the stock views hide: our counts are those of the views themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocpd_files import drop_views, edit, open_process, read_sql, write_small_trace

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_schema import VERSIONS
from rocktools.findings import Severity
from rocktools.sources.rocpd.visibility import Visibility, check_visibility, measure_visibility

VIEWS = ("kernels", "regions", "samples", "memory_copies", "memory_allocations")

# Columns through which rows of the views are looked up: table, column, whether the schema allows NULL.
REFERENCES = [
    ("kernel_dispatch", "agent_id", False),
    ("kernel_dispatch", "event_id", True),
    ("kernel_dispatch", "region_name_id", True),
    ("kernel_dispatch", "kernel_id", False),
    ("kernel_dispatch", "queue_id", False),
    ("kernel_dispatch", "stream_id", False),
    ("kernel_dispatch", "tid", True),
    ("info_queue", "pid", False),
    ("region", "event_id", True),
    ("region", "name_id", False),
    ("region", "pid", False),
    ("region", "tid", False),
    ("sample", "event_id", True),
    ("sample", "track_id", False),
    ("track", "tid", True),
    ("track", "pid", True),
    ("memory_copy", "event_id", True),
    ("memory_copy", "name_id", False),
    ("memory_copy", "src_agent_id", True),
    ("memory_copy", "dst_agent_id", True),
    ("memory_copy", "pid", False),
    ("memory_copy", "tid", True),
    ("memory_copy", "queue_id", True),
    ("memory_allocate", "event_id", True),
    ("memory_allocate", "agent_id", True),
    ("memory_allocate", "pid", False),
    ("memory_allocate", "tid", True),
    ("event", "category_id", True),
]
damages = st.tuples(st.sampled_from(REFERENCES), st.integers(1, 5), st.sampled_from(["dangling", "NULL", "guid"]))


def measured(path: Path) -> dict[str, Visibility]:
    with open_process(path) as (reader, process):
        return {each.view: each for each in measure_visibility(reader, process)}


def shown(path: Path) -> dict[str, int]:
    return {view: read_sql(path, f"SELECT count(*) FROM {view}")[0][0] for view in VIEWS}


def statement(reference: tuple[str, str, bool], row_id: int, damage: str) -> str:
    base, column, is_nullable = reference
    if damage == "guid":
        return f"UPDATE rocpd_{base}{{_}} SET guid = 'another' WHERE id = {row_id}"
    value = "NULL" if damage == "NULL" and is_nullable else "777"
    return f"UPDATE rocpd_{base}{{_}} SET {column} = {value} WHERE id = {row_id}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_trace(tmp_path_factory.mktemp("whole") / "t.db")


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_hidden_in_a_clean_file(tmp_path: Path, version: str) -> None:
    path = write_small_trace(tmp_path / "t.db", WriterOptions(version=version))
    found = measured(path)
    assert {view: (each.rows_count, each.visible_count) for view, each in found.items()} == {
        "kernels": (5, 5),
        "regions": (3, 3),
        "samples": (1, 1),
        "memory_copies": (2, 2),
        "memory_allocations": (2, 2),
    }
    assert {count for each in found.values() for count in each.lacking.values()} == {0}
    with open_process(path) as (reader, process):
        assert check_visibility(reader, process) == []


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: f"{reference[0]}.{reference[1]}")
@pytest.mark.parametrize("damage", ["dangling", "NULL", "guid"])
def test_each_kind_of_dangling_row_is_hidden_as_the_view_hides_it(
    whole: Path, tmp_path: Path, reference: tuple[str, str, bool], damage: str
) -> None:
    path = Path(shutil.copyfile(whole, tmp_path / "t.db"))
    edit(path, statement(reference, 1, damage))
    assert {view: each.visible_count for view, each in measured(path).items()} == shown(path)


@given(st.lists(damages, max_size=8))
@settings(max_examples=60)
def test_any_mixture_of_dangling_rows_is_hidden_as_the_views_hide_it(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, chosen: list[tuple[tuple[str, str, bool], int, str]]
) -> None:
    path = Path(shutil.copyfile(whole, tmp_path_factory.mktemp("mixture") / "t.db"))
    edit(path, *(statement(*each) for each in chosen))
    found = measured(path)
    assert {view: each.visible_count for view, each in found.items()} == shown(path)
    for each in found.values():
        hidden = each.rows_count - each.visible_count
        assert max(each.lacking.values()) <= hidden <= sum(each.lacking.values())


def test_finding_says_how_many_and_why(tmp_path: Path) -> None:
    path = edit(
        write_small_trace(tmp_path / "t.db"),
        "UPDATE rocpd_kernel_dispatch{_} SET kernel_id = 0 WHERE id < 3",
        "UPDATE rocpd_kernel_dispatch{_} SET tid = NULL WHERE id = 2",
    )
    with open_process(path) as (reader, process):
        [finding] = check_visibility(reader, process)
    assert (finding.rule, finding.severity) == ("rows-hidden-by-view", Severity.NOTE)
    assert finding.where == f"{path}, view kernels"
    assert finding.message == "the view shows 3 of 5 rows: 2 have no kernel symbol, 1 have no thread"
    assert finding.numbers == {"rows_count": 5, "visible_count": 3}


def test_queue_that_is_missing_is_not_blamed_twice(tmp_path: Path) -> None:
    path = edit(write_small_trace(tmp_path / "t.db"), "UPDATE rocpd_kernel_dispatch{_} SET queue_id = 99 WHERE id = 1")
    lacking = measured(path)["kernels"].lacking
    assert {reason: count for reason, count in lacking.items() if count} == {"no queue": 1}


def test_hand_made_file_without_the_columns_of_a_view_hides_nothing(tmp_path: Path) -> None:
    path = drop_views(write_small_trace(tmp_path / "t.db"))
    edit(path, "ALTER TABLE rocpd_kernel_dispatch{_} RENAME COLUMN queue_id TO other", "DROP TABLE rocpd_track{_}")
    found = measured(path)
    assert found["kernels"] == Visibility(view="kernels", rows_count=5, visible_count=5, lacking={})
    assert "samples" not in found


@pytest.mark.parametrize("name", ["rocprofv3-mi300x.db", "rocprofsys-mi350x.db"])
def test_real_views_show_what_we_say(shared: Path, name: str) -> None:
    path = shared / "data/rocpd" / name
    with open_process(path) as (reader, process):
        found = {each.view: each.visible_count for each in measure_visibility(reader, process)}
        assert found == {view: reader.scalar(f"SELECT count(*) FROM {view}") for view in VIEWS}


def test_real_view_of_samples_shows_none_of_880(shared: Path) -> None:
    each = measured(shared / "data/rocpd/rocprofsys-mi350x.db")["samples"]
    assert (each.rows_count, each.visible_count) == (880, 0)
    assert each.lacking["no thread behind their track"] == 880
