"""The rocpd writer: what it writes, what it refuses, and what it leaves behind when something goes wrong."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocktools import __version__
from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_schema import VERSIONS, build_schema
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.errors import RocktoolsError, UsageError

ALL_KINDS = [(version, has_replay) for version in VERSIONS for has_replay in (False, True)]


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def metadata(path: Path) -> dict[str, str]:
    return dict(rows(path, "SELECT tag, value FROM rocpd_metadata"))


def columns(path: Path, table: str) -> list[str]:
    return [row[1] for row in rows(path, f'PRAGMA table_info("{table}")')]


def write_small_trace(writer: RocpdWriter) -> None:
    """Two dispatches (40 ns and 60 ns), their calls, a range, a mark, a copy, two allocations and a counter."""
    kernel = writer.kernel_symbol("loop_fusion_3")
    outer = writer.region("hipModuleLaunchKernel", 100, 190)
    inner = writer.region("hsa_signal_store_screlease", 150, 160, category="HSA_CORE_API", parent_id=outer)
    writer.roctx_range("step 1", 90, 400)
    writer.roctx_mark("begin", 95)
    first = writer.dispatch(kernel, 200, 240, call_id=inner, range_name="step 1")
    second = writer.dispatch(kernel, 240, 300)
    writer.copy("HOST_TO_DEVICE", 10, 20, 4096)
    writer.allocation("ALLOC", 1, 2, 65536)
    writer.allocation("FREE", 3, 4, 65536)
    waves = writer.counter_info("SQ_WAVES")
    for dispatch in (first, second):
        for value in (3.0, 5.0):
            writer.counter_value(waves, value, dispatch_id=dispatch)
    writer.arg(1, "stream", "0x0")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.db"
    with RocpdWriter(path) as writer:
        write_small_trace(writer)
    return path


# What is in the file


def test_a_clean_file_has_no_dangling_ids(small: Path) -> None:
    assert rows(small, "PRAGMA foreign_key_check") == []


def test_totals_are_those_of_the_rows_that_were_asked_for(small: Path) -> None:
    assert rows(small, 'SELECT COUNT(*), SUM("end" - start) FROM rocpd_kernel_dispatch') == [(2, 40 + 60)]
    assert rows(small, "SELECT name, duration FROM kernels ORDER BY id") == [
        ("loop_fusion_3", 40),
        ("loop_fusion_3", 60),
    ]
    assert rows(small, "SELECT dispatch_id, value FROM counters_collection ORDER BY 1") == [(1, 8.0), (2, 8.0)]
    assert rows(small, "SELECT total_calls, total_duration, percentage FROM top_kernels") == [(2, 0.1, 100.0)]


def test_a_dispatch_climbs_from_its_innermost_call_to_the_hip_call(small: Path) -> None:
    [(stack_id, parent_id)] = rows(small, "SELECT stack_id, parent_stack_id FROM kernels WHERE dispatch_id = 1")
    assert stack_id == parent_id
    [(name, above)] = rows(small, f"SELECT name, parent_stack_id FROM regions WHERE stack_id = {stack_id}")
    assert name == "hsa_signal_store_screlease"
    assert rows(small, f"SELECT name, id FROM regions WHERE stack_id = {above}") == [("hipModuleLaunchKernel", above)]


def test_a_dispatch_without_a_traced_call_has_a_stack_id_without_a_region(small: Path) -> None:
    [(stack_id,)] = rows(small, "SELECT stack_id FROM kernels WHERE dispatch_id = 2")
    assert stack_id > 0
    assert rows(small, f"SELECT * FROM regions WHERE stack_id = {stack_id}") == []


def test_roctx_text_is_in_the_event_and_the_function_is_the_name(small: Path) -> None:
    [(name, extdata)] = rows(small, "SELECT name, extdata FROM regions WHERE category = 'MARKER_CORE_RANGE_API'")
    assert (name, json.loads(extdata)) == ("roctxThreadRangeA", {"message": "step 1"})
    [(name, extdata)] = rows(small, "SELECT name, extdata FROM samples")
    assert (name, json.loads(extdata)) == ("roctxMarkA", {"message": "begin"})
    assert rows(small, "SELECT region FROM kernels ORDER BY id") == [("step 1",), ("",)]


def test_ids_are_numbered_as_rocprofv3_does(small: Path) -> None:
    assert rows(small, "SELECT id, string FROM rocpd_string WHERE id = 1") == [(1, "")]
    assert rows(small, "SELECT id = pid, id < 1 << 32 FROM rocpd_info_process") == [(1, 1)]
    assert rows(small, "SELECT id = tid AND id = pid FROM rocpd_info_thread") == [(1,)]
    assert rows(small, "SELECT id, type, absolute_index, type_index FROM rocpd_info_agent") == [
        (0, "CPU", 0, 0),
        (1, "GPU", 1, 0),
    ]
    assert rows(small, "SELECT id, name FROM rocpd_info_queue") == [(0, "Default Queue"), (1, "Queue 0")]
    assert rows(small, "SELECT DISTINCT id = dispatch_id FROM rocpd_kernel_dispatch") == [(1,)]
    assert rows(
        small, "SELECT DISTINCT R.id = E.stack_id FROM rocpd_region R JOIN rocpd_event E ON E.id = R.event_id"
    ) == [(1,)]


def test_the_default_gpu_is_an_mi355x(small: Path) -> None:
    [(name, product, extdata)] = rows(
        small, "SELECT name, product_name, extdata FROM rocpd_info_agent WHERE type = 'GPU'"
    )
    facts = json.loads(extdata)
    assert (name, product) == ("gfx950", "AMD Instinct MI355X")
    assert (facts["num_xcc"], facts["cu_count"], facts["simd_per_cu"], facts["wave_front_size"]) == (8, 256, 4, 64)
    assert (facts["lds_size_in_kb"], facts["max_engine_clk_fcompute"], facts["gfx_target_version"]) == (
        160,
        2400,
        90500,
    )


def test_a_free_has_neither_size_nor_agent(small: Path) -> None:
    found = rows(small, "SELECT type, size, agent_id FROM rocpd_memory_allocate ORDER BY id")
    assert found == [("ALLOC", 65536, 1), ("FREE", 0, None)]


def test_the_file_says_that_it_is_simulated(small: Path, tmp_path: Path) -> None:
    assert metadata(small)["rocktools_simulated"] == __version__
    with RocpdWriter(tmp_path / "stand-in.db", options=WriterOptions(is_simulated=False)):
        pass
    assert sorted(metadata(tmp_path / "stand-in.db")) == ["guid", "schema_version", "uuid"]


def test_suffix_guid_and_metadata_agree(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    guid = "0000091e-2236-7236-be77-fa10e27b82e6"
    with RocpdWriter(path, options=WriterOptions(guid=guid)) as writer:
        writer.string("text")
    said = metadata(path)
    assert (said["guid"], said["uuid"]) == (guid, "_0000091e_2236_7236_be77_fa10e27b82e6")
    assert rows(path, f'SELECT DISTINCT guid FROM "rocpd_string{said["uuid"]}"') == [(guid,)]


def test_two_paths_have_two_guids(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        with RocpdWriter(tmp_path / name):
            pass
    assert metadata(tmp_path / "a.db")["guid"] != metadata(tmp_path / "b.db")["guid"]


# Versions


@pytest.mark.parametrize("version, has_replay", ALL_KINDS)
def test_every_version_opens_and_all_its_views_run(tmp_path: Path, version: str, has_replay: bool) -> None:
    path = tmp_path / "t.db"
    with RocpdWriter(path, options=WriterOptions(version=version, has_replay_pass=has_replay)) as writer:
        write_small_trace(writer)
    assert metadata(path)["schema_version"] == version
    assert rows(path, "PRAGMA foreign_key_check") == []
    views = [name for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'view'")]
    counted = {view: rows(path, f'SELECT COUNT(*) FROM "{view}"')[0][0] for view in views}
    assert counted["kernels"] == 2
    assert ("replay_pass" in columns(path, "rocpd_kernel_dispatch")) is has_replay


@pytest.mark.parametrize(
    "version, table, added",
    [
        ("3.0.2", "rocpd_kernel_dispatch", {"graph_exec_id", "graph_node_id"}),
        ("3.0.2", "rocpd_memory_copy", {"graph_exec_id", "graph_node_id"}),
        ("3.0.3", "rocpd_pmc_event", {"sample_id", "xcc", "shader_engine", "instance"}),
        ("3.0.3", "rocpd_info_pmc", {"spm_support"}),
        ("3.0.5", "rocpd_pmc_event", {"shader_array", "wgp"}),
    ],
)
def test_a_version_adds_its_columns_to_the_one_before(
    tmp_path: Path, version: str, table: str, added: set[str]
) -> None:
    before = VERSIONS[VERSIONS.index(version) - 1]
    for each in (before, version):
        with RocpdWriter(tmp_path / f"{each}.db", options=WriterOptions(version=each)):
            pass
    new = set(columns(tmp_path / f"{version}.db", table))
    assert new - set(columns(tmp_path / f"{before}.db", table)) == added


@pytest.mark.parametrize(
    "version, objects_count, table", [("3.0.1", 61, None), ("3.0.2", 63, "graph_launch"), ("3.0.4", 67, "hip_event")]
)
def test_a_version_adds_its_tables_and_views(
    tmp_path: Path, version: str, objects_count: int, table: str | None
) -> None:
    path = tmp_path / "t.db"
    with RocpdWriter(path, options=WriterOptions(version=version)):
        pass
    names = {
        name
        for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        if name != "sqlite_sequence"
    }
    assert len(names) == objects_count
    assert table is None or f"rocpd_{table}" in names


def test_versions_since_3_0_0_say_when_and_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with RocpdWriter(path, options=WriterOptions(version="3.0.2", creation_time="2026-07-01 12:00:00")):
        pass
    said = metadata(path)
    assert [said[f"schema_version_{part}"] for part in ("major", "minor", "patch")] == ["3", "0", "2"]
    assert said["schema_creation_time"] == "2026-07-01 12:00:00"


def test_a_nic_is_an_agent_since_3_0_1_only(tmp_path: Path) -> None:
    with RocpdWriter(tmp_path / "new.db", options=WriterOptions(version="3.0.1")) as writer:
        writer.agent("NIC")
    with (
        pytest.raises(UsageError, match="CHECK constraint failed"),
        RocpdWriter(tmp_path / "old.db", options=WriterOptions(version="3")) as writer,
    ):
        writer.agent("NIC")


def test_a_streamed_counter_is_no_part_of_the_sums(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with RocpdWriter(path, options=WriterOptions(version="3.0.5")) as writer:
        kernel, waves = writer.kernel_symbol("k"), writer.counter_info("SQ_WAVES", spm_support=1)
        dispatch = writer.dispatch(kernel, 100, 200)
        writer.counter_value(waves, 7, dispatch_id=dispatch)
        sample = writer.sample(writer.track("spm"), 150)
        writer.counter_value(waves, 1000, dispatch_id=dispatch, sample_id=sample, xcc=1, shader_engine=2, wgp=3)
    assert rows(path, "SELECT value FROM counters_collection") == [(7.0,)]
    assert rows(path, "SELECT timestamp, value, xcc, shader_engine, wgp, instance FROM spm_counters") == [
        (150, 1000.0, 1, 2, 3, None)
    ]


def test_an_unknown_version_lists_those_that_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no rocpd schema version '4'") as caught:
        RocpdWriter(tmp_path / "t.db", options=WriterOptions(version="4"))
    assert caught.value.hint is not None
    assert "3.0.5" in caught.value.hint


# Odd rows


@pytest.mark.parametrize(
    "odd",
    [
        {"tid": None},
        {"event_id": None},
        {"region_name_id": None},
        {"kernel_id": 99},
        {"queue_id": 77},
        {"agent_id": 55},
    ],
)
def test_the_kernels_view_drops_a_dispatch_that_the_base_table_has(tmp_path: Path, odd: dict[str, Any]) -> None:
    path = tmp_path / "t.db"
    with RocpdWriter(path) as writer:
        kernel = writer.kernel_symbol("k")
        writer.dispatch(kernel, 100, 200)
        writer.dispatch(**{"kernel_id": kernel, "start_ns": 200, "end_ns": 300, **odd})
    assert rows(path, "SELECT COUNT(*) FROM rocpd_kernel_dispatch") == [(2,)]
    assert rows(path, "SELECT dispatch_id FROM kernels") == [(1,)]


def test_a_missing_stream_drops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with RocpdWriter(path) as writer:
        writer.dispatch(writer.kernel_symbol("k"), 100, 200, stream_id=99)
    assert rows(path, "SELECT stream_id, stream FROM kernels") == [(99, None)]


def test_insert_takes_any_value_the_schema_takes(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with RocpdWriter(path) as writer:
        writer.insert("event", category_id=12345, extdata={"a": [1, 2]}, call_stack="", stack_id=2**64 - 1)
        writer.insert("pmc_event", pmc_id=np.int64(3), event_id=None, value=np.float64(1.5))
    found = rows(path, "SELECT category_id, extdata, call_stack, stack_id, typeof(stack_id) FROM rocpd_event")
    # An integer beyond 63 bits is a REAL, as in the tool's files.
    assert found == [(12345, '{"a":[1,2]}', "", 1.8446744073709552e19, "real")]
    assert rows(path, "SELECT pmc_id, event_id, value FROM rocpd_pmc_event") == [(3, None, 1.5)]


@pytest.mark.parametrize(
    "table, row, message",
    [
        ("kernel_dispatch", {"nid": 1}, "NOT NULL constraint failed"),
        ("memory_allocate", {"type": "GIVE"}, "CHECK constraint failed"),
        ("string", {"string": ""}, "UNIQUE constraint failed"),
    ],
)
def test_the_schema_refuses_what_the_tools_schema_refuses(
    tmp_path: Path, table: str, row: dict[str, Any], message: str
) -> None:
    needed = {"nid": 1, "pid": 1, "start": 0, "end": 1, "size": 1} if table == "memory_allocate" else {}
    with pytest.raises(UsageError, match=message) as caught, RocpdWriter(tmp_path / "t.db") as writer:
        writer.insert(table, **{**needed, **row})
    assert caught.value.reference == "rocpd-row-refused"
    assert f"rocpd_{table}" in str(caught.value.where)


def test_a_wrong_name_gets_the_nearest_ones(tmp_path: Path) -> None:
    with RocpdWriter(tmp_path / "t.db") as writer:
        with pytest.raises(UsageError, match="no table 'kernel_dispatches'") as caught:
            writer.insert("kernel_dispatches")
        assert caught.value.hint == "kernel_dispatch"
        with pytest.raises(UsageError, match="no column 'queue'") as caught:
            writer.insert("kernel_dispatch", queue=1)
        assert "queue_id" in str(caught.value.hint)
        with pytest.raises(UsageError, match="no dispatch 5"):
            writer.counter_value(1, 1.0, dispatch_id=5)


def test_views_and_tables_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    options = WriterOptions(has_views=False, left_out_tables=frozenset({"event", "region", "info_pmc"}))
    with RocpdWriter(path, options=options) as writer:
        writer.dispatch(writer.kernel_symbol("k"), 100, 200)
        with pytest.raises(UsageError, match="left out"):
            writer.insert("region")
    assert rows(path, "SELECT COUNT(*) FROM sqlite_master WHERE type = 'view'") == [(0,)]
    tables = [name for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_%'")]
    assert len(tables) == 20 - 3
    [dispatches] = [name for name in tables if name.startswith("rocpd_kernel_dispatch")]
    assert rows(path, f'SELECT event_id FROM "{dispatches}"') == [(None,)]


@pytest.mark.parametrize(
    "options, message",
    [
        (WriterOptions(left_out_tables=frozenset({"metadata"})), "could not say that it is simulated"),
        (WriterOptions(left_out_tables=frozenset({"graph_launch"})), "does not have: graph_launch"),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, options: WriterOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message), RocpdWriter(tmp_path / "t.db", options=options):
        pass
    assert list(tmp_path.iterdir()) == []


def test_one_value_per_row_or_one_for_all(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with RocpdWriter(path) as writer:
        numbers = np.arange(1, 124)
        writer.file.insert_many(
            "pmc_event", {"id": numbers, "value": numbers * 0.5, "pmc_id": 7, "extdata": "it's", "event_id": None}
        )
    found = rows(path, "SELECT COUNT(*), SUM(value), MIN(pmc_id), MAX(extdata), COUNT(event_id) FROM rocpd_pmc_event")
    assert found == [(123, 123 * 124 / 4, 7, "it's", 0)]


# The file appears whole or not at all


def test_an_existing_file_is_not_touched(small: Path) -> None:
    before = small.read_bytes()
    with pytest.raises(UsageError, match="not overwritten") as caught, RocpdWriter(small):
        pass
    error = caught.value
    assert (error.reference, error.where, error.exit_code) == ("file-exists", str(small), 2)
    assert error.hint
    assert small.read_bytes() == before
    assert list(small.parent.iterdir()) == [small]


def test_a_file_that_appears_meanwhile_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with pytest.raises(UsageError, match="not overwritten"), RocpdWriter(path):
        path.write_text("somebody else's")
    assert path.read_text() == "somebody else's"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt()])
def test_an_exception_leaves_no_file(tmp_path: Path, error: BaseException) -> None:
    def write_and_fail() -> None:
        with RocpdWriter(tmp_path / "t.db") as writer:
            write_small_trace(writer)
            assert not (tmp_path / "t.db").exists()
            raise error

    with pytest.raises(type(error)):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="folder") as caught, RocpdWriter(tmp_path / "no" / "t.db"):
        pass
    assert caught.value.where == str(tmp_path / "no")


def test_rows_outside_of_the_block_are_refused(tmp_path: Path) -> None:
    writer = RocpdWriter(tmp_path / "t.db")
    with pytest.raises(UsageError, match="inside the `with` block"):
        writer.insert("string", string="x")


def test_sqlite_speaks_in_the_message(tmp_path: Path) -> None:
    with RocpdWriter(tmp_path / "t.db") as writer:
        with pytest.raises(RocktoolsError, match="no such table: nowhere"):
            writer.execute("DROP TABLE nowhere")
        writer.execute("DROP VIEW kernels")
    assert rows(tmp_path / "t.db", "SELECT name FROM sqlite_master WHERE name = 'kernels'") == []


def test_the_schema_knows_its_tables() -> None:
    schema = build_schema("3", guid="g", suffix="_s")
    assert len(schema.table_names) == 20
    assert schema.column_names("metadata") == ("id", "tag", "value")
    assert schema.full_name("event") == '"rocpd_event_s"'
