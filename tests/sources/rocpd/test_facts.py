"""Agents, kernel symbols and the process: facts as recorded, and nothing of the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rocpd_files import as_rows, drop_views, edit, open_process, rebuild_table, write_small_trace

from rocktools.demo.rocpd_defaults import START_NS
from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.frames import AGENTS, KERNEL_SYMBOLS, PROCESSES
from rocktools.sources.rocpd.facts import (
    int_column,
    name_tool,
    read_agents,
    read_hosts,
    read_info_rows,
    read_kernel_symbols,
    read_process,
    text_or_none,
)

Row = dict[str, Any]
GUID = "0000091e-2236-7236-be77-fa10e27b82e6"


def agents_of(path: Path) -> list[Row]:
    with open_process(path) as (reader, process):
        return as_rows(read_agents(reader, process, "run"), AGENTS)


def process_of(path: Path) -> Row:
    with open_process(path) as (reader, process):
        [row] = as_rows(read_process(reader, process, "run", "trace"), PROCESSES)
        return row


def symbols_of(path: Path) -> list[Row]:
    with open_process(path) as (reader, process):
        return as_rows(read_kernel_symbols(reader, process, "run").part, KERNEL_SYMBOLS)


def written(path: Path, *, is_simulated: bool = True, guid: str | None = None) -> RocpdWriter:
    return RocpdWriter(path, options=WriterOptions(has_views=False, is_simulated=is_simulated, guid=guid))


# Agents


def test_gpu_has_the_facts_of_its_record(tmp_path: Path) -> None:
    _, gpu = agents_of(write_small_trace(tmp_path / "t.db"))
    assert gpu == {
        "agent_id": 1,
        "device": "simulated-node:gpu0",
        "node_id": 0x5EED_0001,
        "kind": "GPU",
        "absolute_index": 1,
        "type_index": 0,
        "arch": "gfx950",
        "product": "AMD Instinct MI355X",
        "xcc_count": 8,
        "cu_count": 256,
        "simd_per_cu_count": 4,
        "wave_workitems": 64,
        "lds_per_cu_bytes": 163_840,
        "max_engine_hz": 2_400_000_000,
    }


def test_cpu_has_no_facts_of_a_gpu(tmp_path: Path) -> None:
    cpu, _ = agents_of(write_small_trace(tmp_path / "t.db"))
    assert (cpu["kind"], cpu["device"]) == ("CPU", "simulated-node:cpu0")
    assert {cpu[name] for name in ("xcc_count", "cu_count", "wave_workitems", "max_engine_hz")} == {None}


@pytest.mark.parametrize("extdata", ["{}", "", '{"num_xcc": 0}', '{"num_xcc": "many"}', "[]", b"\x00"])
def test_fact_that_was_not_recorded_is_missing_and_not_zero(tmp_path: Path, extdata: Any) -> None:
    with written(tmp_path / "t.db") as writer:
        writer.agent("GPU", extdata=extdata)
    [gpu] = agents_of(tmp_path / "t.db")
    assert gpu["xcc_count"] is None
    assert gpu["arch"] == "gfx950"


def test_ids_of_a_node_need_63_bits(tmp_path: Path) -> None:
    with written(tmp_path / "t.db") as writer:
        writer.node(id=9_162_464_413_581_981_795, hostname="host0")
        writer.agent("GPU", id=2**62 + 1)
    [gpu] = agents_of(tmp_path / "t.db")
    assert (gpu["node_id"], gpu["agent_id"], gpu["device"]) == (9_162_464_413_581_981_795, 2**62 + 1, "host0:gpu0")


def test_one_device_has_one_label_whatever_ids_two_processes_give_it(tmp_path: Path) -> None:
    """rocprofv3 numbers agents by node, rocprof-sys from 1; both give the index among GPUs."""
    for number, first_id in enumerate((2, 1)):
        with written(tmp_path / f"{number}.db") as writer:
            for index in range(3):
                writer.agent("GPU", id=first_id + index, type_index=index)
    assert [row["device"] for row in agents_of(tmp_path / "0.db")] == [
        row["device"] for row in agents_of(tmp_path / "1.db")
    ]


def test_columns_and_texts_that_are_not_there_are_missing(tmp_path: Path) -> None:
    path = rebuild_table(
        write_small_trace(tmp_path / "t.db"), "info_agent", "id, 'GPU' AS type, x'ff' AS name, 7 AS nid"
    )
    edit(path, "UPDATE rocpd_info_node{_} SET hostname = x'ff'")
    assert [(row["kind"], row["arch"], row["device"], row["node_id"]) for row in agents_of(path)] == [
        ("GPU", None, "node7:agent0", 7),
        ("GPU", None, "node7:agent1", 7),
    ]


# Kernel symbols


def test_symbol_has_its_registers_and_its_device(tmp_path: Path) -> None:
    with written(tmp_path / "t.db") as writer:
        writer.kernel_symbol("gemm", kernel_name="_Z4gemm.kd", accum_vgpr_count=128, group_segment_size=65_536)
    [row] = symbols_of(tmp_path / "t.db")
    assert row == {
        "kernel_id": 1,
        "kernel_name": "gemm",
        "raw_kernel_name": "gemm",
        "mangled_name": "_Z4gemm",
        "code_object_id": 1,
        "agent_id": 1,
        "vgpr_count": 32,
        "agpr_count": 128,
        "sgpr_count": 32,
        "static_lds_bytes": 65_536,
        "static_scratch_bytes": 0,
        "kernarg_bytes": 64,
    }


def test_nameless_symbol_is_named_by_its_id(tmp_path: Path) -> None:
    with written(tmp_path / "t.db") as writer:
        writer.kernel_symbol("", id=5, kernel_name="", extdata="{}", code_object_id=99)
    [row] = symbols_of(tmp_path / "t.db")
    assert [row[name] for name in ("kernel_name", "raw_kernel_name", "mangled_name", "agent_id")] == [
        "kernel_5",
        None,
        None,
        None,
    ]


# The process


def test_process_says_what_it_was(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "rank_2.db", WriterOptions(guid=GUID))
    assert process_of(path) == {
        "path": str(path),
        "tool": "rocktools (simulated)",
        "schema_version": "3",
        "content": "trace",
        "is_simulated": True,
        "pid": 4242,
        "ppid": 4241,
        "rank": 2,
        "node_id": 0x5EED_0001,
        "host": "simulated-node",
        "command": "python train.py",
        "start_ns": START_NS,
        "end_ns": START_NS + 1_000_000_000,
    }


def test_tool_is_told_by_suffix_and_metadata(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db", WriterOptions(guid=GUID, is_simulated=False))
    assert process_of(path)["tool"] == "rocprofv3"
    edit(path, "INSERT INTO rocpd_metadata{_} (tag, value) VALUES ('upid', 'abc')")
    assert process_of(path)["tool"] == "rocprof-sys"


def test_start_of_zero_is_not_known(tmp_path: Path) -> None:
    path = edit(
        write_small_trace(tmp_path / "t.db"), 'UPDATE rocpd_info_process{_} SET start = 0, init = 0, "end" = NULL'
    )
    row = process_of(path)
    assert (row["start_ns"], row["end_ns"]) == (None, START_NS + 1_000_000_000)


def test_file_without_the_row_of_its_process_has_a_process_all_the_same(tmp_path: Path) -> None:
    path = drop_views(write_small_trace(tmp_path / "t.db"))
    for statement in ("DELETE FROM rocpd_info_process{_}", "DROP TABLE rocpd_info_process{_}"):
        edit(path, statement)
        row = process_of(path)
        assert (row["pid"], row["host"], row["command"], row["path"]) == (None, None, None, str(path))


def test_environment_is_never_selected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_small_trace(tmp_path / "t.db")
    edit(path, """UPDATE rocpd_info_process{_} SET environment = '{"TOKEN": "hunter2"}'""")
    with open_process(path) as (reader, process):
        asked: list[str] = []
        monkeypatch.setattr(reader, "rows", lambda sql, rows=reader.rows: asked.append(sql) or rows(sql))
        read_process(reader, process, "run", "trace")
    assert asked
    assert not any("environment" in sql or "*" in sql for sql in asked)


# Rows of small tables


def test_rows_are_given_by_ascending_id_each_id_once(tmp_path: Path) -> None:
    path = rebuild_table(write_small_trace(tmp_path / "t.db"), "info_node", "3 AS id, 'c' AS hostname")
    edit(
        path,
        "INSERT INTO rocpd_info_node{_} VALUES (1, 'a'), ('x', 'b'), (NULL, 'd'), (3, 'e'), (1.5, 'f'), ('2', 'g')",
    )
    with open_process(path) as (reader, process):
        rows = read_info_rows(reader, process, "info_node", ["id", "hostname", "release"])
        assert [tuple(row.values()) for row in rows] == [(1, "a", None), (2, "g", None), (3, "c", None)]
        assert read_hosts(reader, process) == {1: "a", 2: "g", 3: "c"}
        assert read_info_rows(reader, process, "nowhere", ["id"]) == []


def test_text_is_a_string_with_something_in_it() -> None:
    assert [text_or_none(value) for value in ("a", "", None, b"a", 7)] == ["a", None, None, None, None]


def test_integers_are_exact_or_missing() -> None:
    column = int_column([1, None, 2.0, "3", 2**63, "x"])
    assert column.missing.tolist() == [False, True, False, False, True, True]
    assert column.values[[0, 2, 3]].tolist() == [1, 2, 3]


# The real files


def test_real_mi300x_node(shared: Path) -> None:
    path = shared / "data/rocpd/rocprofv3-mi300x.db"
    gpus = [row for row in agents_of(path) if row["kind"] == "GPU"]
    assert [row["absolute_index"] for row in gpus] == list(range(2, 10))
    assert {(row["arch"], row["xcc_count"], row["cu_count"], row["wave_workitems"]) for row in gpus} == {
        ("gfx942", 8, 304, 64)
    }
    assert [row["device"] for row in gpus] == [f"host0:gpu{index}" for index in range(8)]
    assert process_of(path)["tool"] == "rocprofv3"
    assert len(symbols_of(path)) == 11


def test_real_mi350x_node_has_no_facts_of_its_gpus(shared: Path) -> None:
    path = shared / "data/rocpd/rocprofsys-mi350x.db"
    gpus = [row for row in agents_of(path) if row["kind"] == "GPU"]
    assert len(gpus) == 8
    assert {row["arch"] for row in gpus} == {"gfx950"}
    assert {row["xcc_count"] for row in gpus} == {None}
    assert {row["node_id"] for row in gpus} == {9_162_464_413_581_981_795}
    row = process_of(path)
    assert (row["tool"], row["start_ns"]) == ("rocprof-sys", None)
    with open_process(path) as (_, process):
        assert name_tool(process) == "rocprof-sys"
