"""`rocktools dispatches`: every row of the base table once, and never a duration of a counter pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import CommandLine, assert_formats_agree, read_rows
from rocpd_files import BOOT_NS, edit, read_sql

_TIMES = 'SELECT dispatch_id, "start", "end", queue_id, stream_id, grid_size_x FROM rocpd_kernel_dispatch'


def test_rows_are_those_of_the_base_table_in_the_order_of_their_start(databases, run: CommandLine) -> None:
    rows = run.rows("dispatches", databases.trace)
    expected = read_sql(databases.trace, f'{_TIMES} ORDER BY "start", dispatch_id')
    columns = ("dispatch_id", "start_ns", "end_ns", "queue_id", "stream_id", "grid_workitems_x")
    assert [tuple(row[name] for name in columns) for row in rows] == expected
    for row in rows:
        assert row["duration_ns"] == row["end_ns"] - row["start_ns"]
        assert row["offset_ns"] == row["start_ns"] - rows[0]["start_ns"]
        extent = "x".join(str(row[f"grid_workitems_{axis}"]) for axis in "xyz")
        assert row["grid_workitems"] == extent


def test_offsets_begin_at_the_first_dispatch_of_each_process(databases, run: CommandLine) -> None:
    rows = run.rows("dispatches", databases.trace, databases.other)
    processes = {row["process"] for row in rows}
    assert len(processes) == 2
    for process in processes:
        own = [row for row in rows if row["process"] == process]
        assert own[0]["offset_ns"] == min(row["offset_ns"] for row in own) == 0
        assert {row["start_ns"] - row["offset_ns"] for row in own} == {own[0]["start_ns"]}


def test_longest_first_when_asked(databases, run: CommandLine) -> None:
    rows = run.rows("dispatches", databases.trace, "--sort", "duration")
    assert [row["duration_ns"] for row in rows] == sorted((row["duration_ns"] for row in rows), reverse=True)
    assert len(rows) == 400
    top = run.rows("dispatches", databases.trace, "--sort", "duration", "--top", 3)
    assert top == rows[:3]


def test_device_and_match_select_rows(databases, run: CommandLine) -> None:
    every = run.rows("dispatches", databases.trace)
    device = run.rows("dispatches", databases.trace, "--device", "simulated-node:gpu1")
    assert device == [row for row in every if row["device"] == "simulated-node:gpu1"]
    assert 0 < len(device) < len(every)
    both = run.rows("dispatches", databases.trace, "--device", "simulated-node:gpu1", "--match", "reduce")
    assert both == [row for row in device if "reduce" in row["kernel_name"]] != []


def test_unknown_device_lists_those_there_are(databases, run: CommandLine) -> None:
    ran = run("dispatches", databases.trace, "--device", "simulated-node:gpu7")
    assert (ran.code, ran.out) == (2, "")
    assert "unknown-device: no dispatch ran on a device 'simulated-node:gpu7'" in ran.err
    for name in ("simulated-node:gpu7", "x"):
        tried = run("dispatches", databases.trace, "--device", name).err.split("try: ")[1]
        assert "simulated-node:gpu0" in tried
        assert "simulated-node:gpu1" in tried


def test_bad_regex_ends_with_2(databases, run: CommandLine) -> None:
    ran = run("dispatches", databases.trace, "--match", "[")
    assert (ran.code, ran.out) == (2, "")
    assert "bad-regex" in ran.err


def test_match_of_nothing_still_has_its_columns(databases, run: CommandLine) -> None:
    ran = run("dispatches", databases.trace, "--match", "no such kernel")
    assert ran.code == 0
    assert "400 dispatches in traces, 0 selected" in ran.out
    assert "duration" in ran.out
    assert "evidence: measured" in ran.out


@pytest.mark.parametrize("options", [[], ["--counted"]])
def test_match_of_nothing_is_told(databases, run: CommandLine, options: list[str]) -> None:
    path = databases.counters if options else databases.trace
    ran = run("dispatches", path, *options, "--match", "zzz")
    assert ran.code == 0
    assert "warning [no-kernel-matched] DISPATCHES: none of " in ran.err
    assert "no-kernel-matched" not in run("dispatches", path, *options, "--match", "fusion").err


def test_findings_are_in_the_document(databases, run: CommandLine) -> None:
    assert run.document("dispatches", databases.trace)["findings"] == []
    document = run.document("dispatches", databases.trace, databases.truncated, code=1)
    assert str(databases.truncated) in [finding["where"] for finding in document["findings"]]


def test_table_fits_the_terminal(run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("demo", "-o", tmp_path / "run")
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = run("dispatches", tmp_path / "run").out.splitlines()
        assert max(map(len, lines[3:26])) <= width
        assert {"dispatch_id", "device", "kernel_name", "offset", "duration"} <= set(lines[3].split())
        assert lines[-1].startswith(f"hidden for width {width}: ")


def test_columns_are_those_asked_for_beside_the_key(databases, run: CommandLine) -> None:
    rows = run.rows("dispatches", databases.trace, "--columns", "duration_ns,range", "--match", "fusion")
    assert list(rows[0]) == ["run", "process", "dispatch_id", "range", "duration_ns"]
    ran = run("dispatches", databases.trace, "--columns", "duration")
    assert (ran.code, ran.out) == (2, "")
    assert "duration_ns" in ran.err


def test_negative_duration_is_shown_as_it_is(databases, run: CommandLine) -> None:
    rows = run.rows("dispatches", databases.mixed)
    assert [row["duration_ns"] for row in rows] == [10, 10, 10, -5, 10, 10]
    assert rows[0]["start_ns"] == BOOT_NS + 10
    assert [row["kernel_name"] for row in rows] == ["loop_fusion_3"] * 5 + ["kernel_77"]
    assert rows[5]["raw_kernel_name"] is None
    assert rows[0]["raw_kernel_name"] == "loop_fusion_3 [clone .kd]"


def test_extremes_of_int64_are_exact(databases, run: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "far.db"
    path.write_bytes(databases.mixed.read_bytes())
    edit(
        path,
        'UPDATE "rocpd_kernel_dispatch{_}" SET "end" = 9223372036854775807, "start" = 9223372036854775800 WHERE id = 6',
    )
    assert run.rows("dispatches", path)[-1]["duration_ns"] == 7


@pytest.mark.parametrize("options", [[], ["--sort", "duration"], ["--match", "fusion"], ["--top", "3"]])
def test_formats_agree(databases, run: CommandLine, tmp_path: Path, options: list[str]) -> None:
    assert assert_formats_agree(run, tmp_path, "dispatches", databases.trace, databases.mixed, *options)


def test_formats_of_counter_passes_agree(databases, run: CommandLine, tmp_path: Path) -> None:
    assert len(assert_formats_agree(run, tmp_path, "dispatches", "--counted", databases.counters)) == 24


def test_table_is_cut_with_a_count(databases, run: CommandLine) -> None:
    assert "cut: showing 20 of 400 rows; --top 0 shows all" in run("dispatches", databases.trace).out
    whole = run("dispatches", databases.trace, "--top", 0)
    assert "cut:" not in whole.out
    assert len(whole.out.splitlines()) > 400


# Counter passes


@pytest.mark.parametrize("table_format", ["table", "csv", "json"])
def test_counted_dispatches_have_no_duration(databases, run: CommandLine, table_format: str) -> None:
    ran = run("dispatches", "--counted", databases.counters, "--format", table_format, "--top", 0)
    assert ran.code == 0
    for word in ("duration", "offset", "start_ns,end_ns", '"start_ns"'):
        assert word not in ran.out
    if table_format == "table":
        assert "_ns" not in ran.out
        assert "24 dispatches in counter passes, 24 selected" in ran.out


def test_counted_dispatches_are_those_of_the_base_table(databases, run: CommandLine) -> None:
    rows = run.rows("dispatches", "--counted", databases.counters, databases.trace)
    ids = read_sql(databases.counters, 'SELECT dispatch_id FROM rocpd_kernel_dispatch ORDER BY "start", dispatch_id')
    assert [(row["dispatch_id"],) for row in rows] == ids
    assert {row["pass"] for row in rows} == {"counters"}
    assert not {"start_ns", "end_ns", "duration_ns", "offset_ns"} & set(rows[0])


def test_counted_dispatches_cannot_be_sorted_by_duration(databases, run: CommandLine) -> None:
    ran = run("dispatches", "--counted", "--sort", "duration", databases.counters)
    assert (ran.code, ran.out) == (2, "")
    assert "durations in a counter pass mean nothing" in ran.err


def test_counter_pass_is_not_listed_as_a_trace_and_the_other_way_round(databases, run: CommandLine) -> None:
    ran = run("dispatches", databases.counters)
    assert (ran.code, ran.out) == (1, "")
    assert "rocktools dispatches --counted" in ran.err
    ran = run("dispatches", "--counted", databases.trace)
    assert (ran.code, ran.out) == (1, "")
    assert "no-counted-dispatches: " in ran.err
    assert str(databases.trace) in ran.err
    rows = run.rows("dispatches", databases.counters, databases.other)
    assert {row["run"] for row in rows} == {"other"}


# Real files


def test_real_file_of_rocprof_sys(shared: Path, run: CommandLine) -> None:
    path = shared / "data" / "rocpd" / "rocprofsys-mi350x.db"
    [row] = run.rows("dispatches", path)
    assert row["duration_ns"] == 10_920
    assert "[clone" not in row["kernel_name"]
    assert row["raw_kernel_name"] == f"{row['kernel_name']} [clone .kd]"
    assert row["device"].endswith(":gpu0")
    assert "[clone" not in run("dispatches", path).out


@pytest.mark.parametrize(
    "name, count", [("rocprofv3-mi300x.db", 11), ("rocprofsys-mi350x.db", 1), ("minimal-handmade-v3.db", 2)]
)
def test_real_files_list_what_the_base_table_has(
    shared: Path, run: CommandLine, tmp_path: Path, name: str, count: int
) -> None:
    path = shared / "data" / "rocpd" / name
    rows = run.rows("dispatches", path)
    expected = read_sql(path, f'{_TIMES} ORDER BY "start"')
    assert [(row["dispatch_id"], row["start_ns"], row["end_ns"]) for row in rows] == [row[:3] for row in expected]
    assert len(rows) == count
    assert run("dispatches", path, "-o", tmp_path / "d.csv").code == 0
    assert [int(row["duration_ns"]) for row in read_rows(tmp_path / "d.csv")] == [row["duration_ns"] for row in rows]
    assert json.loads(run("dispatches", path, "--format", "json").out)["is_simulated"] is False
