"""Host calls, and roctx ranges and marks, each row in exactly one of the two frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocpd_files import BOOT_NS, as_rows, drop_views, edit, open_process, read_sql, rules, write_small_trace

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.findings import Severity
from rocktools.frames import HOST_CALLS, RANGES, SAMPLES
from rocktools.sources.rocpd.host import read_host_calls, read_ranges
from rocktools.sources.rocpd.samples import read_samples

Row = dict[str, Any]
NO_VIEWS = WriterOptions(has_views=False)


def calls_of(path: Path, columns: list[str] | None = None) -> list[Row]:
    with open_process(path) as (reader, process):
        return as_rows(read_host_calls(reader, process, "run", columns), HOST_CALLS, columns)


def ranges_of(path: Path) -> list[Row]:
    with open_process(path) as (reader, process):
        return as_rows(read_ranges(reader, process, "run"), RANGES)


def brief(ranges: list[Row]) -> list[tuple[Any, ...]]:
    return [(row["kind"], row["name"], row["start_ns"], row["end_ns"]) for row in ranges]


def written(path: Path, write: Callable[[RocpdWriter], object], options: WriterOptions = NO_VIEWS) -> Path:
    with RocpdWriter(path, options=options) as writer:
        write(writer)
    return path


def test_calls_have_their_domain_times_and_parent(tmp_path: Path) -> None:
    launch, doorbell = calls_of(write_small_trace(tmp_path / "t.db"))
    assert launch == {
        "host_call_id": 1,
        "domain": "HIP_RUNTIME_API_EXT",
        "name": "hipModuleLaunchKernel",
        "thread_id": 4242,
        "start_ns": BOOT_NS,
        "end_ns": BOOT_NS + 90,
        "stack_id": 1,
        "parent_stack_id": None,
    }
    assert (doorbell["domain"], doorbell["parent_stack_id"]) == ("HSA_CORE_API", launch["stack_id"])


def test_ranges_and_marks_carry_the_text_of_the_job(tmp_path: Path) -> None:
    assert brief(ranges_of(write_small_trace(tmp_path / "t.db"))) == [
        ("range", "step 1", BOOT_NS - 10, BOOT_NS + 900),
        ("mark", "begin", BOOT_NS - 5, BOOT_NS - 5),
    ]


def test_every_region_is_a_call_or_a_range_and_none_is_both(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db")
    calls, ranges = calls_of(path), ranges_of(path)
    ids = [row["host_call_id"] for row in calls] + [row["range_id"] for row in ranges if row["kind"] == "range"]
    assert sorted(ids) == [row[0] for row in read_sql(path, "SELECT id FROM rocpd_region ORDER BY id")]


def write_both_domains(writer: RocpdWriter) -> None:
    push = "MARKER_CORE_API"
    writer.roctx_range("step 1", 100, 200)
    writer.region("roctxRangePushA", 100, 101, category=push, message="step 1")
    writer.region("roctxRangePop", 199, 200, category=push)
    writer.roctx_mark("here", 150)
    writer.sample(writer.track("roctxMarkA"), 150, event_id=writer.event(push, message="here"))


def test_single_calls_are_no_ranges_where_ranges_were_recorded(tmp_path: Path) -> None:
    """Both marker domains together record each text twice."""
    path = written(tmp_path / "t.db", write_both_domains)
    assert brief(ranges_of(path)) == [("range", "step 1", 100, 200), ("mark", "here", 150, 150)]
    assert [row["name"] for row in calls_of(path)] == ["roctxRangePushA", "roctxRangePop"]
    with open_process(path) as (reader, process):
        assert [row["track"] for row in as_rows(read_samples(reader, process, "run"), SAMPLES)] == ["roctxMarkA"]


def test_single_calls_are_ranges_where_nothing_else_was_recorded(tmp_path: Path) -> None:
    path = written(tmp_path / "t.db", write_both_domains)
    edit(path, "DELETE FROM rocpd_region{_} WHERE id = 1", "DELETE FROM rocpd_sample{_} WHERE id = 1")
    edit(
        path,
        "DELETE FROM rocpd_event{_} WHERE category_id = (SELECT id FROM rocpd_string{_} WHERE string LIKE '%RANGE%')",
    )
    assert brief(ranges_of(path)) == [
        ("range", "step 1", 100, 101),
        ("mark", "here", 150, 150),
        ("range", "roctxRangePop", 199, 200),
    ]
    assert calls_of(path) == []


def test_ranges_of_rocprof_sys_are_named_by_their_region(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        writer.region("train_step", 5, 9, event_id=writer.event("rocm_marker_api", extdata=""))

    assert brief(ranges_of(written(tmp_path / "t.db", write))) == [("range", "train_step", 5, 9)]


@pytest.mark.parametrize(
    "extdata, name",
    [
        ('{"message": "step 1"}', "step 1"),
        ('{"message": "é \\u65e5 \\ud800"}', "é 日 ?"),
        ('{"message": ""}', "roctxThreadRangeA"),
        ('{"message": 7}', "roctxThreadRangeA"),
        ('{"message": "cut', "roctxThreadRangeA"),
        ("", "roctxThreadRangeA"),
        ("message", "roctxThreadRangeA"),
    ],
)
def test_range_without_a_text_has_the_name_of_its_function(tmp_path: Path, extdata: str, name: str) -> None:
    def write(writer: RocpdWriter) -> None:
        event = writer.event("MARKER_CORE_RANGE_API", stack_id=1, extdata=extdata)
        writer.region("roctxThreadRangeA", 1, 2, event_id=event)

    assert brief(ranges_of(written(tmp_path / "t.db", write))) == [("range", name, 1, 2)]


def test_names_that_are_not_in_the_pool_are_numbered(tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.db",
        lambda writer: (writer.region("hipFree", 1, 2, name_id=777), writer.roctx_range("", 3, 4, name_id=778)),
    )
    edit(path, "UPDATE rocpd_event{_} SET extdata = '{}'")
    assert [row["name"] for row in calls_of(path)] == ["call_777"]
    assert [row["name"] for row in ranges_of(path)] == ["range_2"]


def test_calls_without_an_event_are_calls_without_a_domain(tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.db",
        lambda writer: (writer.region("a", 1, 2, event_id=None), writer.region("b", 3, 4, event_id=12_345)),
    )
    assert [(row["name"], row["domain"], row["stack_id"]) for row in calls_of(path)] == [
        ("a", None, None),
        ("b", None, None),
    ]


def test_file_without_events_or_strings_gives_calls(tmp_path: Path) -> None:
    path = drop_views(write_small_trace(tmp_path / "t.db"))
    edit(path, "DROP TABLE rocpd_string{_}")
    assert [row["name"].startswith("call_") for row in calls_of(path)] == [True] * 3
    edit(path, "DROP TABLE rocpd_event{_}")
    assert len(calls_of(path)) == 3
    assert {row["domain"] for row in calls_of(path)} == {None}


def test_regions_that_lack_a_time_are_left_out_of_both_frames(tmp_path: Path) -> None:
    path = edit(write_small_trace(tmp_path / "t.db"), "UPDATE rocpd_region{_} SET start = 1.8e19 WHERE id IN (1, 3)")
    with open_process(path) as (reader, process):
        assert len(as_rows(read_host_calls(reader, process, "run"), HOST_CALLS)) == 1
        assert brief(as_rows(read_ranges(reader, process, "run"), RANGES)) == [
            ("mark", "begin", BOOT_NS - 5, BOOT_NS - 5)
        ]
        lost = [finding for finding in reader.findings if finding.rule == "rows-without-times-or-ids"]
        assert {finding.severity for finding in lost} == {Severity.FAULT}
        assert {finding.numbers["lost_count"] for finding in lost} == {2}


def test_index_that_a_user_added_changes_nothing(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db")
    before = calls_of(path), ranges_of(path)
    edit(
        path,
        "CREATE INDEX i1 ON rocpd_region{_} (event_id DESC)",
        'CREATE INDEX i2 ON rocpd_region{_} (name_id DESC, id, start, "end", tid)',
        "CREATE INDEX i3 ON rocpd_sample{_} (timestamp DESC, id, event_id, track_id)",
        "ANALYZE",
    )
    assert (calls_of(path), ranges_of(path)) == before


def test_file_without_host_tables_has_no_ranges(tmp_path: Path) -> None:
    options = WriterOptions(has_views=False, left_out_tables=frozenset({"region", "sample"}))
    path = written(tmp_path / "t.db", lambda writer: writer.dispatch(writer.kernel_symbol("k"), 1, 2), options)
    assert ranges_of(path) == []


def test_selected_columns_are_those_of_the_whole_frame(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db")
    assert calls_of(path, ["name"]) == [
        {"host_call_id": row["host_call_id"], "name": row["name"]} for row in calls_of(path)
    ]


def test_real_mi300x_trace_has_all_its_calls(shared: Path) -> None:
    with open_process(shared / "data/rocpd/rocprofv3-mi300x.db") as (reader, process):
        calls = as_rows(read_host_calls(reader, process, "run"), HOST_CALLS)
        assert len(calls) == reader.scalar(f"SELECT count(*) FROM {process.tables['region'].quoted}") == 979
        assert as_rows(read_ranges(reader, process, "run"), RANGES) == []
    counts = {name: sum(row["domain"] == name for row in calls) for name in {row["domain"] for row in calls}}
    assert counts == {
        "HIP_COMPILER_API_EXT": 24,
        "HIP_RUNTIME_API_EXT": 21,
        "HSA_AMD_EXT_API": 367,
        "HSA_CORE_API": 567,
    }


def test_real_mi350x_trace_splits_its_59_regions(shared: Path) -> None:
    with open_process(shared / "data/rocpd/rocprofsys-mi350x.db") as (reader, process):
        calls = as_rows(read_host_calls(reader, process, "run"), HOST_CALLS)
        ranges = as_rows(read_ranges(reader, process, "run"), RANGES)
        assert rules(reader.findings) == []
    assert (len(calls), len(ranges)) == (48, 11)
    assert {row["kind"] for row in ranges} == {"range"}
    assert [row["name"] for row in ranges].count("hipMemcpy") == 2
