"""Batches under the stand-in: what is run, what is believed, what is kept, and how one goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
from datetime import datetime
from pathlib import Path

import pytest
from batch_runs import Bench, interrupt, make_bench, read_json, results_of

import rocktools.batch.run
from rocktools.batch.plan import parse_passes
from rocktools.batch.state import SCHEMA_FILE, STATE_NAME, BatchState, JobState, write_state
from rocktools.capture.compute_folder import MARKER_NAME
from rocktools.capture.run_lock import hold_run
from rocktools.errors import RocktoolsError
from rocktools.rundir import hash_file, read_manifest

TEN = [f"k{number:02d}" for number in range(1, 11)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path, ["k1", "k2", "k3"])


def test_every_kernel_has_a_folder_of_its_own_with_rows_and_the_analysis_has_all(bench, monkeypatch, capsys):
    assert bench(monkeypatch) == 0
    assert bench.states == dict.fromkeys(["peaks", "k1", "k2", "k3", "analysis"], "done")
    assert bench.profiled() == ["k1", "k2", "k3"]
    assert [call["slug"] for call in bench.calls()].count("peaks") == 1
    folders = {Path(call["cwd"]) for call in bench.calls()}
    assert folders == {
        bench.run / "peaks/attempt-1",
        *(bench.run / f"kernels/{name}/attempt-1" for name in ("k1", "k2", "k3")),
    }
    last = bench.state.job("k2").last
    assert last is not None
    assert (last.passes_count, last.launches_count, last.version) == (3, 4, "3.7.0")
    [analyze] = bench.calls("analyze")
    assert [word for word in analyze["argv"] if word.startswith("/")] == [
        str(results_of(bench, name)) for name in ("k1", "k2", "k3")
    ]
    assert results_of(bench, "analysis").name == "kernels.db"
    out, err = capsys.readouterr()
    assert "3 of 3 kernels profiled by rocprof-compute 3.7.0" in out
    assert "[3/5] k2: begins" in err
    assert "complete; next: rocktools batch collect" in err


def test_state_and_manifest_say_what_is_there(bench, monkeypatch):
    jsonschema = pytest.importorskip("jsonschema")
    assert bench(monkeypatch) == 0
    jsonschema.validate(read_json(bench.run / STATE_NAME), json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
    manifest = read_manifest(bench.run)
    assert manifest.facts["is_complete"] is True
    assert manifest.facts["tool"]["version"] == "3.7.0"
    assert len(manifest.files) > 6
    assert all(hash_file(bench.run / name) == digest for name, digest in manifest.files.items())
    assert not list(bench.run.rglob("*.partial"))


@pytest.mark.parametrize("version, launches_count", [("3.0", 6), ("3.3", 4), ("3.5", 4), ("3.6", 4), ("3.10", 4)])
def test_every_release_is_profiled_and_verified(tmp_path, monkeypatch, version, launches_count):
    """3.0 drops the choice of launches, so that those that warm up are counted too: 2 + 4."""
    bench = make_bench(tmp_path, ["k1"], version=version)
    assert bench(monkeypatch, passes=2) == 0
    last = bench.state.job("k1").last
    assert last is not None
    assert (last.state, last.passes_count, last.launches_count) == (JobState.DONE, 2, launches_count)


def test_passes_that_share_a_run_share_its_launches(tmp_path, monkeypatch):
    """One start of the replay; 62 launches among 3 passes: 21, 21 and 20."""
    bench = make_bench(tmp_path, ["k1"], selection=parse_passes("multiplexing"))
    assert bench(monkeypatch, "--no-peaks") == 0
    last = bench.state.job("k1").last
    assert last is not None
    assert (last.passes_count, last.launches_count) == (3, 62)
    log = (bench.run / "logs/k1.1.stdout").read_text(encoding="utf-8")
    assert log.count("standin-launch: 62 k1") == 1


def test_a_release_newer_than_all_that_are_known_is_told(tmp_path, monkeypatch, capsys):
    bench = make_bench(tmp_path, ["k1"], version="3.10")
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", faults="reports-version:3.12.0", passes=1) == 0
    assert "compute-version-newer" in capsys.readouterr().err
    assert bench.state.version == "3.12.0"


def test_batch_of_ten_interrupted_at_the_fourth_goes_on_there(tmp_path):
    bench = make_bench(tmp_path, TEN)
    process = bench.start(faults="hang@k04#1")
    bench.wait_for_call("k04")
    code, out, err = interrupt(process)
    assert code == 1
    assert "Traceback" not in err
    assert f"rocktools batch run {bench.run}/plan.yaml -o {bench.run} --resume" in err
    expected = {**dict.fromkeys(TEN[:3], "done"), "k04": "interrupted", **dict.fromkeys(TEN[4:], "pending")}
    assert {name: state for name, state in bench.states.items() if name in expected} == expected
    assert "10 kernels profiled" in out
    assert bench.group_is_gone("k04")
    before = {name: hash_file(results_of(bench, name) / MARKER_NAME) for name in TEN[:3]}

    process = bench.start("--resume")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in err) == (0, False), err
    assert bench.profiled() == [*TEN[:4], *TEN[3:]]
    assert set(bench.states.values()) == {"done"}
    assert [Path(call["cwd"]).name for call in bench.calls() if call["slug"] == "k04"] == ["attempt-1", "attempt-2"]
    assert {name: hash_file(results_of(bench, name) / MARKER_NAME) for name in TEN[:3]} == before


def test_a_kernel_missing_in_one_pass_is_reported_and_not_dropped(bench, monkeypatch, capsys):
    assert bench(monkeypatch, faults="kernel-missing:1@k2") == 1
    job = bench.state.job("k2")
    assert job.last is not None
    assert (job.state, job.last.reason) == (JobState.FAILED, "compute-kernel-missing-in-pass")
    assert "pmc_perf_1" in job.last.what
    assert job.last.passes_count == 2
    assert [bench.states[name] for name in ("k1", "k3", "analysis")] == ["done"] * 3
    out, err = capsys.readouterr()
    assert "2 of 3 kernels" in out
    assert "compute-kernel-missing-in-pass" in out
    assert "k2 has no row in 1 pass of 3: pmc_perf_1" in err
    [analyze] = bench.calls("analyze")
    assert not any("/k2/" in word for word in analyze["argv"])


def test_what_passes_the_second_time_is_done_with_both_attempts_kept(bench, monkeypatch, capsys):
    assert bench(monkeypatch, faults="kernel-missing:1@k2#1") == 0
    attempts = bench.state.job("k2").attempts
    assert [(each.number, each.state.value) for each in attempts] == [(1, "failed"), (2, "done")]
    assert [(bench.run / each.folder / "workloads").is_dir() for each in attempts] == [True, True]
    assert "tried once more" in capsys.readouterr().err


@pytest.mark.parametrize(
    "fault, reason, attempts_count",
    [
        ("no-data", "compute-no-data", 1),
        ("half-folder", "compute-run-failed", 2),
        ("no-folder", "compute-no-results", 2),
        ("two-folders", "compute-several-folders", 1),
        ("cut-off", "compute-file-damaged", 2),
        ("launches-differ", "compute-launches-differ", 2),
    ],
)
def test_failures_are_named_and_only_those_that_may_pass_are_tried_again(
    tmp_path, monkeypatch, fault, reason, attempts_count
):
    bench = make_bench(tmp_path, ["k1"])
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", faults=f"{fault}@k1", passes=2) == 1
    job = bench.state.job("k1")
    assert job.last is not None
    assert (job.last.reason, len(job.attempts)) == (reason, attempts_count)
    assert bench.states == {"k1": "failed"}


def test_what_the_tool_said_is_told(tmp_path, monkeypatch):
    bench = make_bench(tmp_path, ["k1"])
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", faults="workload-fails:0") == 1
    last = bench.state.job("k1").last
    assert last is not None
    assert last.what.endswith("it said: ERROR Profiling execution failed.")


def test_a_known_cause_is_told_with_what_helps_and_not_tried_again(tmp_path, monkeypatch, capsys):
    bench = make_bench(tmp_path, ["k1", "k2"])
    text = "Unable_to_detect_a_complete_local_ROCm_installation"
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", faults=f"says:{text}@k1") == 1
    assert bench.states == {"k1": "failed", "k2": "done"}
    [attempt] = bench.state.job("k1").attempts
    assert attempt.reason == "compute-rocm-not-found"
    assert "ROCM_VER=7.13.0" in capsys.readouterr().err


def test_an_analysis_under_pandas_3_says_which_python_helps(tmp_path, monkeypatch, capsys):
    bench = make_bench(tmp_path, ["k1"])
    assert bench(monkeypatch, "--no-peaks", faults="analyze-fails") == 1
    last = bench.state.job("analysis").last
    assert last is not None
    assert last.reason == "compute-needs-old-pandas"
    assert "--compute-python names a Python with pandas<3" in capsys.readouterr().err


def test_what_takes_too_long_is_stopped_with_all_its_processes_and_not_tried_again(tmp_path, monkeypatch):
    bench = make_bench(tmp_path, ["k1", "k2"])
    code = bench(monkeypatch, "--no-peaks", "--no-analysis", "--timeout", "2", faults="hang:0@k1", passes=1)
    assert code == 1
    job = bench.state.job("k1")
    assert job.last is not None
    assert (job.last.reason, len(job.attempts)) == ("timed-out", 1)
    assert bench.group_is_gone("k1")
    assert bench.states["k2"] == "done"


def test_gpus_work_at_once_and_none_has_two_jobs(tmp_path, monkeypatch):
    bench = make_bench(tmp_path, TEN[:6])
    assert bench(monkeypatch, "--devices", "0,1", faults="slow:0.2", passes=1) == 0
    jobs = [job for job in bench.state.jobs if job.name != "analysis"]
    spans = []
    for job in jobs:
        assert job.last is not None
        start_s = datetime.fromisoformat(job.last.started_utc).timestamp()
        spans.append((job.last.device, start_s, start_s + job.last.duration_s))
    assert {device for device, _, _ in spans} == {0, 1}
    pairs = [(first, second) for first in spans for second in spans if first < second]
    overlaps = [(first, second) for first, second in pairs if first[1] < second[2] and second[1] < first[2]]
    assert overlaps
    assert all(first[0] != second[0] for first, second in overlaps)
    seen = {call["environment"]["HIP_VISIBLE_DEVICES"] for call in bench.calls()}
    assert seen == {"0", "1"}


def test_gpus_are_counted_among_those_that_are_visible(tmp_path, monkeypatch):
    bench = make_bench(tmp_path, ["k1", "k2"])
    environment = {**bench.environment(), "HIP_VISIBLE_DEVICES": "4,6"}
    monkeypatch.setattr(Bench, "environment", lambda self, faults="", *, passes=3: environment)
    assert bench(monkeypatch, "--devices", "1", "--no-analysis") == 0
    assert {call["environment"]["HIP_VISIBLE_DEVICES"] for call in bench.calls()} == {"6"}
    assert {job.last.device for job in bench.state.jobs if job.last} == {1}


def test_without_devices_the_choice_of_the_user_is_left_alone(tmp_path, monkeypatch):
    bench = make_bench(tmp_path, ["k1"])
    environment = {**bench.environment(), "HIP_VISIBLE_DEVICES": "5"}
    monkeypatch.setattr(Bench, "environment", lambda self, faults="", *, passes=3: environment)
    assert bench(monkeypatch, "--no-analysis") == 0
    assert {call["environment"]["HIP_VISIBLE_DEVICES"] for call in bench.calls()} == {"5"}


def test_folders_of_the_user_stay_as_they_are_under_a_release_that_deletes(tmp_path):
    """3.3 empties its target before anything else: so a new attempt never gets a folder that is there."""
    bench = make_bench(tmp_path, ["k1", "k2"], version="3.3")
    process = bench.start("--no-peaks", faults="hang@k2#1")
    bench.wait_for_call("k2")
    interrupt(process)
    mine = [
        bench.run / "kernels/k2/attempt-1/workloads/k2/MI355X/mine.txt",
        bench.run / "kernels/k2/attempt-2/workloads/k2/MI355X/mine.txt",
        bench.run / "kernels/k2/attempt-3/mine.txt",
        bench.run / "kernels/k1/mine.txt",
    ]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(path))
    process = bench.start("--no-peaks", "--resume")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert [path.read_text() for path in mine] == [str(path) for path in mine]
    assert [attempt.number for attempt in bench.state.job("k2").attempts] == [1, 4]


def test_a_folder_that_holds_something_is_refused_and_left_alone(bench, monkeypatch, capsys):
    bench.run.mkdir()
    (bench.run / "mine.txt").write_text("mine")
    assert bench(monkeypatch) == 2
    assert "run-directory-exists" in capsys.readouterr().err
    assert [path.name for path in bench.run.iterdir()] == ["mine.txt"]
    assert bench.calls() == []


def test_a_batch_that_is_there_already_is_told_with_how_to_go_on(bench, monkeypatch, capsys):
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", passes=1) == 0
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", passes=1) == 2
    err = capsys.readouterr().err
    assert "batch-exists" in err
    assert "--resume goes on with it" in err


def test_a_batch_that_is_done_runs_nothing_again(bench, monkeypatch):
    assert bench(monkeypatch) == 0
    calls_count = len(bench.calls()) + len(bench.calls("analyze"))
    assert bench(monkeypatch, "--resume") == 0
    assert len(bench.calls()) + len(bench.calls("analyze")) == calls_count


@pytest.mark.parametrize(
    "change",
    [
        lambda results: (results / "results_pmc_perf_1.csv").write_text("x"),
        lambda results: (results / "results_pmc_perf_1.csv").unlink(),
        lambda results: (results / MARKER_NAME).unlink(),
        lambda results: shutil.rmtree(results),
        lambda results: (results.parents[2] / MARKER_NAME).unlink(),
    ],
    ids=["written", "deleted", "note", "folder", "outer-note"],
)
def test_results_that_changed_are_named_and_made_anew(tmp_path, monkeypatch, capsys, change):
    bench = make_bench(tmp_path, ["k1"])
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", passes=2) == 0
    change(results_of(bench, "k1"))
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", "--resume", passes=2) == 0
    assert "batch-results-changed" in capsys.readouterr().err
    assert bench.profiled() == ["k1", "k1"]
    assert [each.state.value for each in bench.state.job("k1").attempts] == ["failed", "done"]


def test_content_that_changed_without_its_size_is_noticed(tmp_path, monkeypatch):
    bench = make_bench(tmp_path, ["k1"])
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", passes=2) == 0
    path = results_of(bench, "k1") / "results_pmc_perf_0.csv"
    path.write_text(path.read_text().replace("16384", "16385", 1))
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", "--resume", passes=2) == 0
    assert bench.profiled() == ["k1", "k1"]


def test_a_failed_analysis_is_repeated_alone(bench, monkeypatch):
    assert bench(monkeypatch, faults="analyze-fails") == 1
    assert bench.states["analysis"] == "failed"
    assert bench(monkeypatch, "--resume") == 0
    assert bench.profiled() == ["k1", "k2", "k3"]
    assert [each.folder for each in bench.state.job("analysis").attempts] == [
        "analysis/attempt-1",
        "analysis/attempt-2",
    ]


def test_analysis_is_made_anew_when_a_kernel_was(bench, monkeypatch):
    assert bench(monkeypatch, faults="no-data@k2") == 1
    assert bench(monkeypatch, "--resume") == 0
    assert bench.profiled() == ["k1", "k2", "k3", "k2"]
    first, second = bench.calls("analyze")
    assert sum("/k2/" in word for word in first["argv"]) == 0
    assert sum("/k2/" in word for word in second["argv"]) == 1


def test_peaks_that_cannot_be_measured_may_be_left_out_when_going_on_and_asked_for_later(tmp_path, monkeypatch):
    bench = make_bench(tmp_path, ["k1"])
    assert bench(monkeypatch, "--no-analysis", faults="no-roofline", passes=1) == 1
    assert bench.states == {"peaks": "failed", "k1": "done"}
    assert bench(monkeypatch, "--no-analysis", "--no-peaks", "--resume", passes=1) == 0
    assert bench.states == {"k1": "done"}
    assert bench(monkeypatch, "--resume", passes=1) == 0
    assert bench.states == {"peaks": "done", "k1": "done", "analysis": "done"}
    assert bench.profiled() == ["k1"]
    assert (bench.run / "peaks/attempt-3").is_dir()  # two failed before


def test_a_batch_goes_on_with_its_own_plan_and_tool_only(bench, monkeypatch, capsys, tmp_path):
    assert bench(monkeypatch, "--no-analysis", passes=1) == 0
    text = bench.plan.read_text()
    bench.plan.write_text(text.replace("iterations: 4", "iterations: 5"))
    assert bench(monkeypatch, "--no-analysis", "--resume", passes=1) == 2
    assert "another-batch" in capsys.readouterr().err
    bench.plan.write_text(text)
    assert bench(monkeypatch, "--no-analysis", "--resume", faults="reports-version:3.8.0", passes=1) == 2
    assert "begun with rocprof-compute 3.7.0, and this is 3.8.0" in capsys.readouterr().err


def test_the_plan_in_the_run_goes_on_with_the_batch(bench, monkeypatch):
    assert bench(monkeypatch, faults="no-data@k2", passes=1) == 1
    other = Bench(
        folder=bench.folder,
        plan=bench.run / "plan.yaml",
        run=bench.run,
        program=bench.program,
        calls_folder=bench.calls_folder,
    )
    assert other(monkeypatch, "--resume", passes=1) == 0


@pytest.mark.parametrize(
    "version, passes, reference",
    [
        ("3.4", "multiplexing", "compute-no-multiplexing"),
        ("3.0", "blocks:2", "compute-bad-block"),
        ("3.0", "set:mem_thruput", "compute-no-sets"),
    ],
)
def test_what_this_release_lacks_is_said_before_anything_is_made(
    tmp_path, monkeypatch, capsys, version, passes, reference
):
    bench = make_bench(tmp_path, ["k1"], version=version, selection=parse_passes(passes))
    assert bench(monkeypatch) in (1, 2)
    assert reference in capsys.readouterr().err
    assert not bench.run.exists()
    assert bench.calls() == []


def test_a_state_that_cannot_be_written_ends_the_batch_in_plain_words(bench, monkeypatch, capsys):
    written = []

    def fail(run: Path, state: BatchState) -> Path:
        written.append(state)
        if len(written) > 4:  # begun, rechecked, k1 running, k1 done
            raise RocktoolsError("output-failed", "could not write: No space left on device", where=str(run))
        return write_state(run, state)

    monkeypatch.setattr(rocktools.batch.run, "write_state", fail)
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", passes=1) == 1
    err = capsys.readouterr().err
    assert "No space left" in err
    assert "Traceback" not in err
    assert bench.profiled() == ["k1"]
    monkeypatch.setattr(rocktools.batch.run, "write_state", write_state)
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", "--resume", passes=1) == 0
    assert bench.profiled() == ["k1", "k2", "k3"]


def test_two_commands_never_run_one_batch(bench, monkeypatch, capsys):
    assert bench(monkeypatch, passes=1) == 0
    with hold_run(bench.run / "plan.yaml"):
        assert bench(monkeypatch, "--resume", passes=1) == 2
    assert "run-in-use" in capsys.readouterr().err


def test_a_killed_batch_goes_on_when_what_it_left_behind_has_ended(tmp_path):
    bench = make_bench(tmp_path, ["k1", "k2"])
    process = bench.start("--no-peaks", "--no-analysis", faults="hang@k2#1")
    bench.wait_for_call("k2")
    process.kill()
    process.communicate()
    assert bench.states["k2"] == "running"
    refused = bench.start("--no-peaks", "--no-analysis", "--resume")
    _, err = refused.communicate(timeout=60)
    assert (refused.returncode, "run-in-use" in err) == (2, True)
    os.killpg(bench.pid("k2"), signal.SIGKILL)
    bench.wait_for(lambda states: bench.group_is_gone("k2"))
    going_on = bench.start("--no-peaks", "--no-analysis", "--resume")
    _, err = going_on.communicate(timeout=60)
    assert going_on.returncode == 0, err
    assert [(each.state.value, each.reason) for each in bench.state.job("k2").attempts] == [
        ("interrupted", "killed"),
        ("done", ""),
    ]
