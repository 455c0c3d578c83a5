"""`rocktools gaps`: idle time by payload, gap and cause; the three views hold the same time."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine, assert_formats_agree
from scoped_run import write_scoped_run


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("gaps") / "run")


@pytest.mark.parametrize("by, length", [("payload", "total_ns"), ("gap", "duration_ns"), ("cause", "total_ns")])
def test_formats_agree_and_every_view_holds_all_idle_time(
    run: CommandLine, run_path: Path, tmp_path: Path, by: str, length: str
) -> None:
    rows = assert_formats_agree(run, tmp_path, "gaps", run_path, "--by", by)
    gaps = run.rows("gaps", run_path, "--by", "gap")
    between = sum(row["duration_ns"] for row in gaps if row["is_between_steps"])
    idle = sum(row["idle_ns"] for row in run.rows("overlap", run_path))
    assert sum(row[length] for row in rows) == idle + between


def test_causes_follow_from_the_launch(run: CommandLine, run_path: Path) -> None:
    """In the simulation the host launches long before the device is there, so that no gap waits for the host."""
    rows = run.rows("gaps", run_path, "--by", "gap")
    assert {row["cause"] for row in rows} <= {"kernel_wait", "host_wait", "other", "unknown"}
    assert all(row["launch_lead_ns"] is not None for row in rows if row["cause"] == "kernel_wait")
    assert "kernel_wait" in {row["cause"] for row in rows}


def test_gaps_are_sorted_and_short_ones_left_out(run: CommandLine, run_path: Path) -> None:
    every = [row["duration_ns"] for row in run.rows("gaps", run_path, "--by", "gap")]
    assert every == sorted(every, reverse=True)
    long = [row["duration_ns"] for row in run.rows("gaps", run_path, "--by", "gap", "--at-least", "1us")]
    assert long == [length for length in every if length >= 1000]
    assert 0 < len(long) < len(every)


@pytest.mark.parametrize("text", ["1 parsec", "-5us", "us", ""])
def test_bad_duration_is_named(run: CommandLine, run_path: Path, text: str) -> None:
    ran = run("gaps", run_path, "--at-least", text)
    assert ran.code == 2
    assert "bad-duration" in ran.err
    assert "20us" in ran.err


def test_text_is_for_people(run: CommandLine, run_path: Path) -> None:
    text = run("gaps", run_path).out
    assert "idle in all" in text
    assert "payload" in text
    assert "total_ns" not in text
