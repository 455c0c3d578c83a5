"""`rocktools worksheet` as people and scripts call it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from command_line import CommandLine
from scoped_run import LAYERS, WORKLOAD, write_scoped_run


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("worksheet") / "run", devices_count=2)


def test_blocks_show_both_columns_with_evidence_and_states(
    run: CommandLine, run_directory: Path, tmp_path: Path
) -> None:
    log = tmp_path / "steps.csv"
    log.write_text("step,seconds\n0,2.0\n", encoding="utf-8")
    ran = run(
        *("worksheet", run_directory, "--component", "expert_mlp", "--phase", "forward"),
        *("--step-log", log, "--log-warmup", "0"),
    )
    assert ran.code == 0
    assert ran.out.startswith("worksheet: SIMULATED: run: 3 steps on 2 devices")
    assert "unprofiled timing: 2 s a step: one sample, which is no median and has no spread" in ran.out
    assert "122.9 kFLOP [compiler_estimate]" in ran.out
    assert "no JAX profile was read" in ran.out
    assert "SIMULATED: no hardware produced these numbers" in ran.out


def test_csv_is_the_long_form_and_says_the_same_as_json(run: CommandLine, run_directory: Path) -> None:
    chosen = ("worksheet", run_directory, "--component", "attention")
    rows = list(csv.DictReader(io.StringIO(run(*chosen, "--format", "csv").out)))
    document = json.loads(run(*chosen, "--format", "json").out)
    cells = [(row, cell) for row in document["rows"] for cell in row["cells"]]
    assert len(rows) == len(cells)
    for line, (row, cell) in zip(rows, cells, strict=True):
        assert (line["component"], line["phase"]) == (row["component"], row["phase"])
        assert (line["field"], line["source_column"], line["value_name"]) == (
            cell["field"],
            cell["column"],
            cell["name"],
        )
        assert line["value"] == ("" if cell["value"] is None else str(cell["value"]))
        assert line["state"] == cell["state"]
        assert line["evidence"] == (cell["evidence"] or "")


def test_blocks_are_cut_on_a_screen_and_said_to_be(run: CommandLine, run_directory: Path) -> None:
    ran = run("worksheet", run_directory, "--top", "2")
    assert "cut: 2 of " in ran.out
    assert ran.out.count("SIMULATED: no hardware") == 2


def test_workload_that_is_not_met_ends_with_3(run: CommandLine, run_directory: Path, tmp_path: Path) -> None:
    workload = tmp_path / "job.yaml"
    workload.write_text(WORKLOAD.replace("DEVICES", "2"), encoding="utf-8")
    chosen = ("worksheet", run_directory, "--phase", "forward", "--workload", workload)
    assert run(*chosen).code == 0
    workload.write_text(WORKLOAD.replace("DEVICES", "2").replace(f"layers: {LAYERS}", "layers: 7"), encoding="utf-8")
    ran = run(*chosen)
    assert ran.code == 3
    assert "occurrences: wi_0 forward: not as often as the workload expects" in ran.err


def test_summary_has_a_worksheet_without_dispatches(run: CommandLine, run_directory: Path, tmp_path: Path) -> None:
    assert run("summarize", run_directory, "-o", tmp_path / "run.json").code == 0
    ran = run("worksheet", tmp_path / "run.json", "--component", "attention")
    assert ran.code == 0
    assert "dispatches are of a run: rocktools worksheet RUN" in ran.out
    log = run("worksheet", tmp_path / "run.json", "--step-log", "x.log")
    assert (log.code, "summary-is-made" in log.err) == (2, True)
    workload = tmp_path / "job.yaml"
    workload.write_text(WORKLOAD.replace("DEVICES", "2"), encoding="utf-8")
    needs_run = run("worksheet", tmp_path / "run.json", "--workload", workload)
    assert (needs_run.code, "workload-needs-run" in needs_run.err) == (2, True)


def test_model_needs_tokens_and_one_device_is_refused(run: CommandLine, run_directory: Path) -> None:
    ran = run("worksheet", run_directory, "--model", "mixtral-8x22b")
    assert (ran.code, "useful-flop-of-what" in ran.err, "--tokens" in ran.err) == (2, True, True)
    ran = run("worksheet", run_directory, "--device", "node0:gpu0")
    assert (ran.code, "worksheet-of-all" in ran.err) == (2, True)
