"""Copies and allocations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocpd_files import BOOT_NS, as_rows, drop_views, edit, open_process, read_sql, rules, write_small_trace

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.errors import DamagedFile
from rocktools.findings import Finding
from rocktools.frames import ALLOCATIONS, COPIES
from rocktools.sources.rocpd.memory import read_allocations, read_copies

Row = dict[str, Any]


def copies_of(path: Path) -> list[Row]:
    with open_process(path) as (reader, process):
        return as_rows(read_copies(reader, process, "run"), COPIES)


def allocations_of(path: Path) -> tuple[list[Row], list[Finding]]:
    with open_process(path) as (reader, process):
        return as_rows(read_allocations(reader, process, "run"), ALLOCATIONS), reader.findings


def written(path: Path, write: Callable[[RocpdWriter], object], version: str = "3") -> Path:
    with RocpdWriter(path, options=WriterOptions(has_views=False, version=version)) as writer:
        write(writer)
    return path


def test_copy_has_its_direction_size_and_agents(tmp_path: Path) -> None:
    first, second = copies_of(write_small_trace(tmp_path / "t.db"))
    assert first == {
        "copy_id": 1,
        "kind": "HOST_TO_DEVICE",
        "start_ns": BOOT_NS + 10,
        "end_ns": BOOT_NS + 20,
        "size_bytes": 4096,
        "src_agent_id": 0,
        "dst_agent_id": 1,
        "queue_id": None,
        "stream_id": 0,
        "thread_id": 4242,
        "range": None,
        "graph_exec_id": None,
        "graph_node_id": None,
    }
    assert (second["kind"], second["src_agent_id"], second["dst_agent_id"]) == ("DEVICE_TO_HOST", 1, 0)


@pytest.mark.parametrize(
    "name, kind",
    [
        ("MEMORY_COPY_DEVICE_TO_DEVICE", "DEVICE_TO_DEVICE"),
        ("HostToDevice", "HOST_TO_DEVICE"),
        ("DeviceToDeviceNoCU", "DEVICE_TO_DEVICE_NO_CU"),
        ("memcpy", "MEMCPY"),
        ("", "UNKNOWN"),
        (None, "UNKNOWN"),
    ],
)
def test_direction_is_named_alike_whoever_wrote_it(tmp_path: Path, name: str | None, kind: str) -> None:
    def write(writer: RocpdWriter) -> None:
        name_id = 4_711 if name is None else writer.string(name)
        writer.copy("HOST_TO_DEVICE", 1, 2, 3, name_id=name_id)

    [row] = copies_of(written(tmp_path / "t.db", write))
    assert row["kind"] == kind


def test_copies_of_a_graph_say_so(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        writer.copy("DEVICE_TO_DEVICE", 1, 2, 3, graph_exec_id=5, graph_node_id=6)
        writer.copy("DEVICE_TO_DEVICE", 3, 4, 3)

    rows = copies_of(written(tmp_path / "t.db", write, "3.0.2"))
    assert [(row["graph_exec_id"], row["graph_node_id"]) for row in rows] == [(5, 6), (None, None)]


def test_total_of_bytes_is_that_of_plain_sql(tmp_path: Path) -> None:
    totals = write_trace(tmp_path / "t.db", TraceShape(dispatches_count=20, copies_count=500, allocations_count=40))
    rows = copies_of(tmp_path / "t.db")
    assert [(len(rows), sum(row["size_bytes"] for row in rows))] == read_sql(
        tmp_path / "t.db", "SELECT count(*), sum(size) FROM rocpd_memory_copy"
    )
    assert (len(rows), sum(row["size_bytes"] for row in rows)) == (totals.copies_count, totals.copies_bytes)
    assert [row["start_ns"] for row in rows] == sorted(row["start_ns"] for row in rows)
    assert len(allocations_of(tmp_path / "t.db")[0]) == totals.allocations_count


def test_copy_of_more_than_2_to_the_53_bytes_keeps_its_digits(tmp_path: Path) -> None:
    path = written(tmp_path / "t.db", lambda writer: writer.copy("HOST_TO_DEVICE", 1, 2, 2**60 + 1))
    assert copies_of(path)[0]["size_bytes"] == 2**60 + 1


def test_release_has_neither_size_nor_agent(tmp_path: Path) -> None:
    rows, _ = allocations_of(write_small_trace(tmp_path / "t.db"))
    assert [(row["kind"], row["level"], row["size_bytes"], row["agent_id"]) for row in rows] == [
        ("ALLOC", "REAL", 65536, 1),
        ("FREE", "REAL", None, None),
    ]


def test_allocation_of_nothing_is_of_zero_bytes(tmp_path: Path) -> None:
    rows, _ = allocations_of(written(tmp_path / "t.db", lambda writer: writer.allocation("ALLOC", 1, 2, 0)))
    assert rows[0]["size_bytes"] == 0


def test_release_whose_size_was_recorded_keeps_it(tmp_path: Path) -> None:
    rows, _ = allocations_of(
        written(tmp_path / "t.db", lambda writer: writer.allocation("FREE", 1, 2, 0, size=512, agent_id=1))
    )
    assert (rows[0]["size_bytes"], rows[0]["agent_id"]) == (512, 1)


def test_address_above_2_to_the_63_is_missing_and_said_so(tmp_path: Path) -> None:
    """The writer turns it into a REAL, and its low digits are gone."""

    def write(writer: RocpdWriter) -> None:
        writer.allocation("ALLOC", 1, 2, 3, address=2**63 - 1)
        writer.allocation("ALLOC", 3, 4, 3, address=2**63 + 4096)
        writer.allocation("ALLOC", 5, 6, 3, address=None)

    rows, findings = allocations_of(written(tmp_path / "t.db", write))
    assert [row["address"] for row in rows] == [2**63 - 1, None, None]
    assert [(finding.rule, finding.numbers) for finding in findings] == [("integer-lost-digits", {"lost_count": 1})]
    assert findings[0].where.endswith("column address")


def test_index_that_a_user_added_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    write_trace(path, TraceShape(dispatches_count=5, copies_count=9, allocations_count=9, ranges_count=3))
    edit(path, "UPDATE rocpd_memory_copy{_} SET region_name_id = 10 - id")
    before = copies_of(path), allocations_of(path)
    edit(
        path,
        "CREATE INDEX i1 ON rocpd_memory_allocate{_} (type)",
        "CREATE INDEX i2 ON rocpd_memory_allocate{_} (level)",
        "CREATE INDEX i3 ON rocpd_memory_copy{_} (region_name_id)",
        "ANALYZE",
    )
    assert (copies_of(path), allocations_of(path)) == before


def test_columns_that_a_file_lacks_are_missing(tmp_path: Path) -> None:
    path = drop_views(write_small_trace(tmp_path / "t.db"))
    for column in ("type", "level", "size"):
        edit(path, f"ALTER TABLE rocpd_memory_allocate{{_}} RENAME COLUMN {column} TO other_{column}")
    rows, _ = allocations_of(path)
    assert [(row["kind"], row["level"], row["size_bytes"]) for row in rows] == [(None, None, None)] * 2
    edit(path, "ALTER TABLE rocpd_memory_copy{_} RENAME COLUMN size TO other")
    with pytest.raises(DamagedFile) as caught:
        copies_of(path)
    assert caught.value.reference == "rocpd-columns"


def test_rows_that_lack_a_time_are_left_out_and_counted(tmp_path: Path) -> None:
    path = edit(write_small_trace(tmp_path / "t.db"), "UPDATE rocpd_memory_copy{_} SET start = 'x' WHERE id = 1")
    with open_process(path) as (reader, process):
        assert [row["copy_id"] for row in as_rows(read_copies(reader, process, "run"), COPIES)] == [2]
        assert sorted(rules(reader.findings)) == ["integer-lost-digits", "rows-without-times-or-ids"]


def test_real_files_give_every_copy_and_allocation(shared: Path) -> None:
    for name, copies, allocations in (("rocprofv3-mi300x.db", 1, 5), ("rocprofsys-mi350x.db", 2, 1)):
        path = shared / "data/rocpd" / name
        assert len(copies_of(path)) == copies
        assert len(allocations_of(path)[0]) == allocations
    assert {row["kind"] for row in copies_of(shared / "data/rocpd/minimal-handmade-v3.db")} == {
        "HOST_TO_DEVICE",
        "DEVICE_TO_HOST",
    }
