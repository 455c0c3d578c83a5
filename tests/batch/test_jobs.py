"""What is asked of the tool, checked against the option tables of its releases; and what is refused before."""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from fake_replays import write_fake_proof, write_fake_replay
from standins.compute.parser import parse_arguments
from standins.compute.profile import read_iterations
from standins.compute.releases import RELEASES

from rocktools.batch.document import render_plan
from rocktools.batch.dry_run import render_dry_run
from rocktools.batch.jobs import (
    Work,
    build_kernel_command,
    build_peaks_command,
    check_kernels,
    check_levels,
    expected_launches,
    list_jobs,
    map_devices,
    plan_digest,
)
from rocktools.batch.plan import BatchPlan, PassSelection, parse_passes
from rocktools.batch.planning import PlanWishes, plan_bundles
from rocktools.batch.state import BatchState
from rocktools.capture.compute_command import ComputeTool
from rocktools.capture.compute_versions import ComputeVersion
from rocktools.errors import CaptureError, InputError, UsageError
from rocktools.replay.prove import Level

VERSIONS = ["3.0", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "3.10"]
PYTHON = Path("/venv/bin/python")


def made_plan(folder: Path, selection: PassSelection) -> BatchPlan:
    return plan_bundles(PlanWishes(replays=folder, top=0, selection=selection, allows_unproven=True)).plan


def work_of(plan: BatchPlan, version: str = "3.7") -> Work:
    return Work(
        run=Path("/data/batch"),
        plan=plan,
        kernels=check_kernels(plan, Path("plan.yaml")),
        tool=ComputeTool(
            program=Path("/opt/rocm/bin/rocprof-compute"),
            python=Path("/opt/rpc/bin/python"),
            version=ComputeVersion(*(int(number) for number in version.split("."))),
        ),
        python=PYTHON,
        devices={},
    )


@pytest.fixture
def plan(tmp_path: Path) -> BatchPlan:
    write_fake_replay(tmp_path, "loop_add_fusion.3")
    return made_plan(tmp_path, PassSelection(iterations_count=4, warmups_count=2))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_release_is_asked_for_one_kernel_and_the_launches_behind_the_warm_up(plan, version):
    work = work_of(plan, version)
    command = build_kernel_command(work, work.kernels[0], Path("/data/batch/kernels/k/attempt-1"), 3)
    assert command.argv[:2] == ("/opt/rpc/bin/python", "/opt/rocm/bin/rocprof-compute")
    release = RELEASES[version]
    options = parse_arguments(release, command.argv[2:])  # the stand-in ends the test where it refuses one
    assert options.name == "loop_add_fusion_3"
    assert options.no_roof
    assert options.remaining[:2] == [str(PYTHON), str(plan.kernels[0].replay / "replay.py")]
    assert options.remaining[2:6] == ["--iterations", "4", "--warm-up", "2"]
    assert command.variables_set["HIP_VISIBLE_DEVICES"] == "3"
    if version == "3.0":  # it would drop both
        assert options.kernel is None
        assert expected_launches(work, work.kernels[0]) == 6
        return
    kernel = "^loop_add_fusion_3$"
    assert options.kernel == [kernel if version in ("3.3", "3.4") else rf"{kernel}|^loop_add_fusion_3\.kd$"]
    texts = options.kernel_iteration_range if version == "3.10" else options.dispatch
    assert read_iterations(texts, release) == {3, 4, 5, 6}
    assert expected_launches(work, work.kernels[0]) == 4


@pytest.mark.parametrize("version", VERSIONS)
def test_peaks_need_an_application_before_3_7_only(plan, version):
    work = work_of(plan, version)
    command = build_peaks_command(work, Path("/data/batch/peaks/attempt-1"), None)
    options = parse_arguments(RELEASES[version], command.argv[2:])
    is_old = VERSIONS.index(version) < VERSIONS.index("3.7")
    assert bool(options.remaining) == is_old
    assert options.roof_only == is_old
    assert "HIP_VISIBLE_DEVICES" not in command.variables_set


def test_multiplexing_counts_every_launch_in_one_run(tmp_path):
    write_fake_replay(tmp_path, "k")
    work = work_of(made_plan(tmp_path, parse_passes("multiplexing")))
    command = build_kernel_command(work, work.kernels[0], Path("/d/k/attempt-1"), None)
    assert "--iteration-multiplexing" in command.argv
    assert "--dispatch" not in command.argv
    assert expected_launches(work, work.kernels[0]) == 62
    few = work_of(made_plan(tmp_path, parse_passes("multiplexing", iterations_count=5)))
    with pytest.raises(UsageError, match="compute-too-few-launches"):
        build_kernel_command(few, few.kernels[0], Path("/d/k/attempt-1"), None)
    old = replace(work, tool=replace(work.tool, version=ComputeVersion(3, 4)))
    with pytest.raises(CaptureError, match="compute-no-multiplexing"):
        build_kernel_command(old, old.kernels[0], Path("/d/k/attempt-1"), None)


def test_of_a_library_nobody_knows_how_often_its_kernel_is_launched(tmp_path):
    write_fake_replay(tmp_path, "custom-call.1", kernel="Cijk_x", kind="library")
    work = work_of(made_plan(tmp_path, PassSelection()))
    assert expected_launches(work, work.kernels[0]) is None


@pytest.mark.parametrize(
    "visible, devices, found",
    [
        ({}, [0, 3], {0: 0, 3: 3}),
        ({"HIP_VISIBLE_DEVICES": "4,6"}, [1, 0], {6: 1, 4: 0}),
        ({"CUDA_VISIBLE_DEVICES": "2"}, [0], {2: 0}),
        ({"HIP_VISIBLE_DEVICES": "5"}, [], {}),
    ],
)
def test_gpus_are_named_as_the_runtime_counts_them(visible, devices, found):
    assert map_devices(devices, visible) == found


@pytest.mark.parametrize(
    "visible, devices, what",
    [
        ({}, [0, 0], "named twice"),
        ({"HIP_VISIBLE_DEVICES": "4,6"}, [2], "2 are visible"),
        ({"HIP_VISIBLE_DEVICES": "GPU-8a1"}, [0], "only numbers"),
    ],
)
def test_gpus_that_cannot_be_given_a_job_are_refused(visible, devices, what):
    with pytest.raises(UsageError, match="batch-devices") as caught:
        map_devices(devices, visible)
    assert what in caught.value.what


def change_program(folder: Path) -> None:
    (folder / "replay.hlo.pb").write_bytes(b"x")


def extract_another(folder: Path) -> None:

    spec = json.loads((folder / "spec.json").read_text())
    (folder / "replay.hlo.pb").write_bytes(b"x")
    spec["program"]["sha256"] = hashlib.sha256(b"x").hexdigest()
    (folder / "spec.json").write_text(json.dumps(spec))


def disprove(folder: Path) -> None:
    spec = json.loads((folder / "spec.json").read_text())
    write_fake_proof(folder, Level.NOT_A_STAND_IN, spec["program"]["sha256"])


def make_collective(folder: Path) -> None:
    spec = json.loads((folder / "spec.json").read_text())
    (folder / "spec.json").write_text(json.dumps({**spec, "kind": "collective", "devices_count": 8}))


@pytest.mark.parametrize(
    "change, reference, what",
    [
        (lambda folder: (folder / "spec.json").unlink(), "batch-replay", "no-replay"),
        (change_program, "batch-replay", "replay-changed"),
        (extract_another, "batch-replay-changed", "program_sha256"),
        (disprove, "batch-refused", "not-a-stand-in"),
        (make_collective, "batch-refused", "collective"),
    ],
)
def test_replays_that_are_not_the_planned_ones_are_named(plan, change, reference, what):
    change(plan.kernels[0].replay)
    with pytest.raises(InputError) as caught:
        check_kernels(plan, Path("plan.yaml"))
    assert caught.value.reference == reference
    assert what in caught.value.what
    assert caught.value.where == "plan.yaml: kernels[0] (loop_add_fusion_3)"


def test_a_plan_without_kernels_is_refused(plan):
    with pytest.raises(InputError, match="nothing-planned"):
        check_kernels(replace(plan, kernels=()), Path("plan.yaml"))


def test_what_is_unproven_now_is_told(tmp_path):
    write_fake_replay(tmp_path, "a")
    write_fake_replay(tmp_path, "b", level=None)
    kernels = check_kernels(made_plan(tmp_path, PassSelection()), Path("plan.yaml"))
    assert [(finding.rule, finding.where) for finding in check_levels(kernels)] == [("batch-unproven", "b")]


def test_batches_are_the_same_when_they_count_the_same(plan):
    work = work_of(plan)
    assert plan_digest(work) == plan_digest(replace(work, run=Path("/elsewhere"), python=Path("/other/python")))
    for other in (
        replace(plan, selection=PassSelection(iterations_count=5, warmups_count=2)),
        replace(plan, selection=parse_passes("blocks:2", iterations_count=4)),
        replace(plan, kernels=(replace(plan.kernels[0], kernel="other"),)),
        replace(plan, kernels=(replace(plan.kernels[0], name="other"),)),
    ):
        assert plan_digest(work_of(other)) != plan_digest(work)


@pytest.mark.parametrize("version", VERSIONS)
def test_dry_run_prints_the_very_commands_below_what_they_cost(plan, version):
    work = work_of(plan, version)
    state = BatchState(plan_sha256=plan_digest(work), version=str(work.tool.version), jobs=list_jobs(work))
    text = render_dry_run(work, state, {"HOME": "/h", "SLURM_PROCID": "3", "LD_PRELOAD": "x.so"})
    command = build_kernel_command(work, work.kernels[0], work.run / "kernels/loop_add_fusion_3/attempt-1", None)
    [line] = [
        line for line in text.splitlines() if "loop_add_fusion_3 " in line and " profile " in line and "-n loop" in line
    ]

    words = shlex.split(line)
    assert tuple(words[words.index(command.argv[0]) :]) == command.argv
    assert words[:5] == ["env", "-u", "LD_PRELOAD", "-u", "SLURM_PROCID"]
    assert "PYTHONHASHSEED=0" in words
    assert text.startswith("# about ")
    assert "inferred" in text.splitlines()[0]
    assert f"rocprof-compute {work.tool.version} on gfx950: 20 runs a kernel" in text
    assert " analyze " in text


def test_words_that_are_not_plain_come_with_their_script(tmp_path):
    folder = tmp_path / "my replays"
    write_fake_replay(folder, "k")
    work = work_of(made_plan(folder, PassSelection()), "3.3")
    state = BatchState(plan_sha256="", version="", jobs=list_jobs(work))
    text = render_dry_run(work, state, {})
    assert "cat > /data/batch/kernels/k/attempt-1/run-k.py <<'END'" in text
    assert f"runpy.run_path('{folder}/k/replay.py', run_name=\"__main__\")" in text
    assert f"-- {PYTHON} /data/batch/kernels/k/attempt-1/run-k.py" in text


def test_plan_of_relative_paths_runs_from_anywhere(tmp_path, monkeypatch):
    """`..` in a path is what old releases refuse after they have emptied the folder."""
    from rocktools.batch.document import read_plan

    write_fake_replay(tmp_path / "replays", "k")
    made = made_plan(tmp_path / "replays", PassSelection())
    (tmp_path / "plans").mkdir()
    path = tmp_path / "plans/plan.yaml"
    path.write_text(render_plan(made, path), encoding="utf-8")
    assert "replay: ../replays/k" in path.read_text()
    monkeypatch.chdir(tmp_path / "plans")
    work = work_of(read_plan(Path("plan.yaml")))
    command = build_kernel_command(work, work.kernels[0], Path("/d/k/attempt-1"), None)
    assert f"{tmp_path}/replays/k/replay.py" in command.argv
