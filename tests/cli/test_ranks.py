"""`rocktools ranks`: devices side by side, and which one is late; the same in one process and in several."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine, assert_formats_agree
from late_run import COMPUTE_NS, STEP_NS, STEPS_COUNT, TRANSFER_NS, WAIT_NS, write_late_trace
from scoped_run import write_scoped_run

PARTS = ("devices", "spread", "skew", "operations", "collectives")


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_late_trace(tmp_path_factory.mktemp("ranks") / "1_results.db")


@pytest.mark.parametrize("part", PARTS)
def test_formats_of_each_part_agree(run: CommandLine, run_path: Path, tmp_path: Path, part: str) -> None:
    assert assert_formats_agree(run, tmp_path, "ranks", run_path, "--steps", "whole", "--part", part)


def test_document_has_tables_and_verdicts(run: CommandLine, run_path: Path) -> None:
    document = run.document("ranks", run_path, "--steps", "whole")
    assert document["schema"] == "rocktools.ranks/1"
    (verdict,) = document["verdicts"]
    assert verdict["device"].endswith(":gpu1")
    assert verdict["lateness_ns"] == STEPS_COUNT * WAIT_NS
    assert verdict["branches"]
    devices = document["tables"][0]["rows"]
    assert [row["compute_ns"] for row in devices] == [STEPS_COUNT * length for length in COMPUTE_NS]
    assert {row["span_ns"] for row in devices} == {2 * STEP_NS + COMPUTE_NS[1] + TRANSFER_NS}


def test_text_ends_with_the_verdict(run: CommandLine, run_path: Path) -> None:
    text = run("ranks", run_path, "--steps", "whole").out
    assert "devices, mean over the steps that all have" in text
    assert "gpu1 is late" in text
    assert "the others wait 600 µs per step" in text
    assert "_ns" not in text
    assert "  evidence: inferred" in text


def test_one_device_is_not_apart_from_any(run: CommandLine, tmp_path: Path) -> None:
    alone = write_scoped_run(tmp_path / "run")
    assert "how far devices are apart" not in run("ranks", alone).out


def test_broken_rank_is_named(run: CommandLine, tmp_path: Path) -> None:
    job = write_scoped_run(tmp_path / "job", ranks=range(3))
    torn = job / "trace" / "rank_1_results.db"
    torn.write_bytes(torn.read_bytes()[:3000])
    ran = run("ranks", job)
    assert ran.code == 1
    assert "rank-missing" in ran.err
    assert "rank_1_results.db" in ran.err
    assert "node2:gpu0" in ran.out


def test_wrong_values_are_named(run: CommandLine, run_path: Path) -> None:
    assert "--part" in run("ranks", run_path, "--part", "everything").err
    assert "--jobs" in run("ranks", run_path, "--jobs", "many").err
