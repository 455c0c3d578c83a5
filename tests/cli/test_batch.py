"""`rocktools batch plan` and `rocktools batch run` from the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from batch_runs import Bench, make_bench
from fake_replays import write_fake_replay
from scoped_run import write_scoped_run

from rocktools.batch.document import read_plan
from rocktools.batch.plan import Passes
from rocktools.batch.run import JobProgress
from rocktools.batch.state import JobState
from rocktools.cli.progress import BatchProgress
from rocktools.demo.rocpd_trace import TraceShape, write_trace


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("jaxlib")
    return write_scoped_run(tmp_path_factory.mktemp("job") / "run")


@pytest.fixture
def replays(tmp_path: Path) -> Path:
    for name in ("fusion.1", "fusion.2"):
        write_fake_replay(tmp_path / "replays", name)
    write_fake_replay(tmp_path / "replays", "all-gather.1", kind="collective", devices_count=8)
    return tmp_path / "replays"


def test_plan_of_a_run_is_a_file_to_edit_with_replays_beside_it(run, job, tmp_path):
    plan = tmp_path / "plan.yaml"
    ran = run("batch", "plan", job, "--top", "2", "--allow-unproven", "-o", plan)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("SIMULATED")
    assert "plan: 2 kernels, 2 refused" in ran.out
    assert "collective" in ran.out
    assert "inferred: rocprof-compute 3.10.0 on gfx950: 20 runs a kernel" in ran.out
    assert f"next: rocktools batch run {plan} -o DIR --dry-run" in ran.err
    read = read_plan(plan)
    assert [each.instruction for each in read.kernels] == ["custom-call.2", "loop_multiply_fusion.1"]
    assert all(each.replay.parent == tmp_path / "replays" for each in read.kernels)
    assert [path.resolve() for path in read.sources] == [job]


def test_plan_by_component_and_with_all_options(run, job, tmp_path):
    ran = run(
        *("batch", "plan", job, "--by", "component", "--components", "maxtext", "--source", job / "hlo", "--top", "3"),
        *("--passes", "blocks:2,4", "--iterations", "7", "--warm-up", "0", "--compute-version", "3.7"),
        *("--start-up", "12", "--arch", "gfx942", "--replays", tmp_path / "mine", "--allow-unproven"),
        *("-o", tmp_path / "plan.yaml"),
    )
    assert ran.code == 0, ran.err
    read = read_plan(tmp_path / "plan.yaml")
    assert len({each.component for each in read.kernels}) == 3
    assert (read.selection.passes, read.selection.blocks) == (Passes.BLOCKS, ("2", "4"))
    assert (read.selection.iterations_count, read.selection.warmups_count) == (7, 0)
    assert (read.estimate.version, read.estimate.start_up_s, read.architecture) == ("3.7.0", 12.0, "gfx942")
    assert [path.resolve() for path in read.programs] == [job / "hlo"]


def test_without_proofs_nothing_is_planned_and_everything_says_why(run, job, tmp_path):
    ran = run("batch", "plan", job, "--top", "2", "-o", tmp_path / "plan.yaml")
    assert ran.code == 0, ran.err
    assert "no kernel can be profiled: the reasons are in it" in ran.err
    document = yaml.safe_load((tmp_path / "plan.yaml").read_text(encoding="utf-8"))
    assert document["kernels"] == []
    assert {each["reason"] for each in document["refused"]} == {"collective", "unproven"}
    assert all(each["why"] and each["hint"] for each in document["refused"])
    ran = run("batch", "run", tmp_path / "plan.yaml", "-o", tmp_path / "batch", "--dry-run", "--compute-version", "3.7")
    assert (ran.code, "nothing-planned" in ran.err) == (1, True)


def test_a_folder_of_replays_can_be_planned_without_a_trace(run, replays, tmp_path):
    ran = run("batch", "plan", "--replays", replays, "-o", tmp_path / "plan.yaml")
    assert ran.code == 0, ran.err
    assert "plan: 2 kernels, 1 refused" in ran.out
    assert "SIMULATED" not in ran.out
    assert "total" not in ran.out


@pytest.mark.parametrize(
    "arguments, reference, code",
    [
        ((), "nothing-to-plan", 2),
        (("--replays", "replays", "--passes", "most"), "bad-passes", 2),
        (("--replays", "replays", "--compute-version", "new"), "bad-version", 2),
        (("--replays", "replays", "--compute-version", "2.0"), "compute-version-unsupported", 1),
        (
            ("--replays", "replays", "--compute-version", "3.3", "--passes", "multiplexing"),
            "compute-no-multiplexing",
            1,
        ),
        (("--replays", "gone"), "no-replays", 1),
        (("gone.db",), "no-such-file", 1),
        (("trace.db",), "no-program", 1),
    ],
)
def test_what_cannot_be_planned_is_said_and_leaves_no_plan(
    run, replays, tmp_path, monkeypatch, arguments, reference, code
):
    write_trace(tmp_path / "trace.db", TraceShape(dispatches_count=10, kernels_count=2))
    monkeypatch.chdir(tmp_path)
    ran = run("batch", "plan", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert reference in ran.err
    assert not (tmp_path / "plan.yaml").exists()


def test_a_plan_that_is_there_stays(run, replays, tmp_path):
    (tmp_path / "plan.yaml").write_text("mine")
    ran = run("batch", "plan", "--replays", replays, "-o", tmp_path / "plan.yaml")
    assert (ran.code, "output-exists" in ran.err) == (2, True)
    assert (tmp_path / "plan.yaml").read_text() == "mine"


def planned(run, replays: Path, tmp_path: Path) -> Path:
    plan = tmp_path / "plan.yaml"
    assert run("batch", "plan", "--replays", replays, "-o", plan).code == 0
    return plan


def test_dry_run_prints_commands_and_cost_and_makes_nothing(run, replays, tmp_path):
    plan = planned(run, replays, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    ran = run(
        "batch", "run", plan, "-o", tmp_path / "batch", "--dry-run", "--compute-version", "3.9", "--python", "/j/py"
    )
    assert ran.code == 0, ran.err
    assert ran.out.startswith("# about 40 runs and ")
    assert "# 2 of 4 jobs: fusion_1" in ran.out
    assert f"cd {tmp_path}/batch/kernels/fusion_1/attempt-1" in ran.out
    assert (
        "rocprof-compute profile -n fusion_1 -k '^fusion_1$|^fusion_1\\.kd$' --dispatch 3:12 --no-roof -- /j/py"
        in ran.out
    )
    assert "PYTHONHASHSEED=0" in ran.out
    assert sorted(tmp_path.rglob("*")) == before


def test_dry_run_of_a_batch_that_goes_on_prints_what_is_left(tmp_path, monkeypatch, capsys):
    bench = make_bench(tmp_path, ["k1", "k2"])
    assert bench(monkeypatch, faults="no-data@k2", passes=1) == 1
    before = sorted(path for path in bench.run.rglob("*"))
    capsys.readouterr()
    assert bench(monkeypatch, "--resume", "--dry-run", passes=1) == 0
    out = capsys.readouterr().out
    assert "# 1 of 4 jobs: peaks is done" in out
    assert "# 2 of 4 jobs: k1 is done" in out
    assert f"cd {bench.run}/kernels/k2/attempt-2" in out
    assert f"-p {bench.run}/kernels/k1/attempt-1/workloads/k1/MI355X" in out
    assert sorted(path for path in bench.run.rglob("*")) == before


@pytest.mark.parametrize(
    "options, reference, code",
    [
        (("--compute-version", "3.7"), "assumed-version", 2),
        (("--devices", "a,b", "--dry-run", "--compute-version", "3.7"), "batch-devices", 2),
        (("--devices", "0,0", "--dry-run", "--compute-version", "3.7"), "batch-devices", 2),
        (("--rocprof-compute", "/gone/rocprof-compute"), "tool-not-found", 1),
        (("--resume", "--dry-run", "--compute-version", "3.7"), "no-batch", 1),
    ],
)
def test_what_cannot_be_run_is_said_and_leaves_no_folder(run, replays, tmp_path, options, reference, code):
    plan = planned(run, replays, tmp_path)
    ran = run("batch", "run", plan, "-o", tmp_path / "batch", *options)
    assert (ran.code, ran.out) == (code, "")
    assert reference in ran.err
    assert not (tmp_path / "batch").exists()


def test_an_edited_plan_is_checked_before_anything_runs(run, replays, tmp_path):
    plan = planned(run, replays, tmp_path)
    text = plan.read_text(encoding="utf-8")
    plan.write_text(text.replace("iterations: 10", "iteratons: 10"), encoding="utf-8")
    ran = run("batch", "run", plan, "-o", tmp_path / "batch", "--dry-run", "--compute-version", "3.7")
    assert ran.code == 1
    assert "unknown key 'iteratons'" in ran.err
    assert "passes.iteratons" in ran.err


def test_exit_code_is_1_if_any_kernel_failed_and_the_table_says_which(tmp_path, monkeypatch, capsys):
    bench: Bench = make_bench(tmp_path, ["k1", "k2"])
    assert bench(monkeypatch, faults="no-data@k1", passes=1) == 1
    out, err = capsys.readouterr()
    rows = {line.split()[0]: line for line in out.splitlines() if line.startswith(("k1", "k2", "peaks", "analysis"))}
    assert "failed" in rows["k1"]
    assert "compute-no-data" in rows["k1"]
    assert all("done" in rows[name] for name in ("k2", "peaks", "analysis"))
    assert "not complete" in err
    assert "Traceback" not in err


def test_a_damaged_state_is_a_plain_error(tmp_path, monkeypatch, capsys):
    bench = make_bench(tmp_path, ["k1"])
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", passes=1) == 0
    (bench.run / "state.json").write_text(json.dumps({"schema": "rocktools.batch-state/1"}))
    assert bench(monkeypatch, "--no-peaks", "--no-analysis", "--resume", passes=1) == 1
    err = capsys.readouterr().err
    assert "batch-state-damaged" in err
    assert "Traceback" not in err


def test_group_has_all_its_commands(run):
    ran = run("batch", "--help")
    assert [name for name in ("plan", "run", "collect", "compare") if f"\n  {name} " not in ran.out] == []


def test_on_a_terminal_a_last_line_tells_what_is_running(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    tell = BatchProgress()
    first = JobProgress(
        name="k1", number=2, jobs_count=5, attempt=1, device=3, state=JobState.RUNNING, elapsed_s=0.0, is_new=True
    )
    tell(first)
    for elapsed_s in (0.4, 0.9, 1.2, 61.7):
        tell(replace(first, elapsed_s=elapsed_s, is_new=False))
    tell(replace(first, is_new=False, state=JobState.FAILED, elapsed_s=62.0, what="timed-out: x", is_retried=False))
    err = capsys.readouterr().err
    assert err.replace("\r\x1b[K", "|") == (
        "[2/5] k1: begins on GPU 3\n|running: k1 0 s|running: k1 1 s|running: k1 61 s"
        "|[2/5] k1: failed after 62.0 s: timed-out: x\n"
    )
