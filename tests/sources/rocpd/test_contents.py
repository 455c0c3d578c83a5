"""What is in a file, counted by SQLite."""

from __future__ import annotations

from pathlib import Path

from rocpd_files import BOOT_NS, drop_views, edit, open_process, write_counter_pass, write_small_trace

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.sources.rocpd.contents import (
    count_counter_rows,
    count_dispatches_by_agent,
    count_domains,
    list_contents,
)


def test_rows_and_time_windows_of_each_kind(tmp_path: Path) -> None:
    with open_process(write_small_trace(tmp_path / "t.db")) as (reader, process):
        found = list_contents(reader, process)
    assert [(content.base, content.rows_count, content.first_ns, content.last_ns) for content in found] == [
        ("kernel_dispatch", 5, BOOT_NS + 100, BOOT_NS + 250),
        ("region", 3, BOOT_NS - 10, BOOT_NS + 900),
        ("memory_copy", 2, BOOT_NS + 10, BOOT_NS + 420),
        ("memory_allocate", 2, BOOT_NS + 1, BOOT_NS + 801),
        ("sample", 1, BOOT_NS - 5, BOOT_NS - 5),
    ]


def test_table_without_rows_or_times_has_no_window(tmp_path: Path) -> None:
    path = drop_views(write_small_trace(tmp_path / "t.db"))
    edit(
        path,
        "DELETE FROM rocpd_region{_}",
        "ALTER TABLE rocpd_memory_copy{_} RENAME COLUMN start TO other",
        "DROP TABLE rocpd_sample{_}",
        "UPDATE rocpd_kernel_dispatch{_} SET start = -9e999",
    )
    with open_process(path) as (reader, process):
        windows = {content.base: (content.rows_count, content.first_ns) for content in list_contents(reader, process)}
    assert windows == {
        "kernel_dispatch": (5, None),
        "region": (0, None),
        "memory_copy": (2, None),
        "memory_allocate": (2, BOOT_NS + 1),
    }


def test_regions_are_counted_by_domain_the_largest_first(tmp_path: Path) -> None:
    with RocpdWriter(tmp_path / "t.db", options=WriterOptions(has_views=False)) as writer:
        for category, count in (("HSA_CORE_API", 3), ("HIP_RUNTIME_API", 5), ("", 1)):
            for number in range(count):
                writer.region("call", number, number + 1, category=category)
        writer.region("call", 0, 1, event_id=None)
    edit(tmp_path / "t.db", "UPDATE rocpd_event{_} SET category_id = 'x' WHERE id = 1")
    with open_process(tmp_path / "t.db") as (reader, process):
        assert count_domains(reader, process) == {"HIP_RUNTIME_API": 5, "(no category)": 3, "HSA_CORE_API": 2}


def test_domains_are_not_known_without_events(tmp_path: Path) -> None:
    path = edit(drop_views(write_small_trace(tmp_path / "t.db")), "DROP TABLE rocpd_event{_}")
    with open_process(path) as (reader, process):
        assert count_domains(reader, process) == {}


def test_dispatches_are_counted_by_device(tmp_path: Path) -> None:
    path = edit(
        write_small_trace(tmp_path / "t.db"),
        "UPDATE rocpd_kernel_dispatch{_} SET agent_id = 7 WHERE id > 3",
        "UPDATE rocpd_kernel_dispatch{_} SET agent_id = 'x' WHERE id = 1",
    )
    with open_process(path) as (reader, process):
        assert count_dispatches_by_agent(reader, process) == {1: 2, 7: 2}


def test_counter_values_are_counted_by_name_without_streaming_points(tmp_path: Path) -> None:
    path = write_counter_pass(tmp_path / "t.db", WriterOptions(version="3.0.3"))
    edit(
        path,
        "UPDATE rocpd_pmc_event{_} SET sample_id = 1 WHERE id = 1",
        "UPDATE rocpd_pmc_event{_} SET pmc_id = 99 WHERE id = 2",
    )
    with open_process(path) as (reader, process):
        assert count_counter_rows(reader, process) == {
            "GRBM_COUNT": 4,
            "SQ_WAVES": 6,
            "TCC_HIT_sum": 2,
            "counter_99": 1,
        }


def test_nothing_is_counted_where_the_tables_are_not_there(tmp_path: Path) -> None:
    tables = frozenset({"kernel_dispatch", "pmc_event", "info_pmc"})
    path = tmp_path / "t.db"
    with RocpdWriter(path, options=WriterOptions(has_views=False, left_out_tables=tables)) as writer:
        writer.process()
    with open_process(path) as (reader, process):
        assert count_dispatches_by_agent(reader, process) == {}
        assert count_counter_rows(reader, process) == {}


def test_real_files(shared: Path) -> None:
    with open_process(shared / "data/rocpd/rocprofv3-mi300x.db") as (reader, process):
        assert {content.base: content.rows_count for content in list_contents(reader, process)} == {
            "kernel_dispatch": 11,
            "region": 979,
            "memory_copy": 1,
            "memory_allocate": 5,
            "sample": 0,
        }
        assert sum(count_domains(reader, process).values()) == 979
    with open_process(shared / "data/rocpd/rocprofsys-mi350x.db") as (reader, process):
        counted = count_counter_rows(reader, process)
        assert (len(counted), sum(counted.values())) == (12, 880)
