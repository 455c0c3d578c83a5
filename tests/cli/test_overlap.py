"""`rocktools overlap`: unions and intersections in integers that add up, by either convention."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine, assert_formats_agree
from scoped_run import rank_trace, write_scoped_run


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("overlap") / "run", devices_count=2)


def test_rows_add_up_and_formats_agree(run: CommandLine, run_path: Path, tmp_path: Path) -> None:
    rows = assert_formats_agree(run, tmp_path, "overlap", run_path)
    assert len(rows) == 2 * 3
    for row in rows:
        assert row["busy_ns"] == row["compute_ns"] + row["exposed_communication_ns"] + row["exposed_copy_ns"]
        assert row["communication_ns"] == row["hidden_communication_ns"] + row["exposed_communication_ns"]
        assert row["span_ns"] == row["busy_ns"] + row["idle_ns"]
        assert row["distance_ns"] == row["span_ns"] - row["step_ns"]
    trace = rank_trace(0, devices_count=2).dispatches
    assert sum(row["rows_count"] for row in rows) == len(trace)


@pytest.mark.parametrize("convention", ["compute_first", "communication_first"])
def test_both_conventions_divide_the_same_span(run: CommandLine, run_path: Path, convention: str) -> None:
    whole = {(row["device"], row["step_index"]): row for row in run.rows("overlap", run_path)}
    rows = run.rows("overlap", run_path, "--convention", convention)
    assert {row["convention"] for row in rows} == {convention}
    for row in rows:
        other = whole[row["device"], row["step_index"]]
        parts = row["compute_ns"] + row["communication_ns"] + row["copy_ns"] + row["idle_ns"]
        assert parts == row["span_ns"] == other["span_ns"]
        first = "compute_ns" if convention == "compute_first" else "communication_ns"
        assert row[first] == other[first]


def test_text_names_steps_and_devices(run: CommandLine, run_path: Path) -> None:
    ran = run("overlap", run_path, "--step", 2)
    assert "overlap: 1 step (period) on 2 devices" in ran.out
    assert "exposed_communication" in ran.out
    assert "_ns" not in ran.out
    assert ran.code == 0


def test_top_cuts_and_says_so(run: CommandLine, run_path: Path) -> None:
    assert "cut: showing 2 of 6 rows" in run("overlap", run_path, "--top", 2).out


def test_wrong_values_are_named(run: CommandLine, run_path: Path) -> None:
    assert "--convention" in run("overlap", run_path, "--convention", "nobody_first").err
    assert run("overlap", run_path, "--step", 7).code == 2
    assert run("overlap", "no-such-file").code == 1
    assert "no-files" in run("overlap").err
