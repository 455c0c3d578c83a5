"""Replays of a whole training step, compiled and compared with the job's executable; and what is told without it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from aot_machine import prepare, require_plugin_of_step
from executable_files import make_executable, serialize

from rocktools.errors import DamagedFile, InputError, NothingToRead, UnsupportedVersion, UsageError
from rocktools.hlo.dumps import find_dumps, read_program
from rocktools.replay import prove_bundle
from rocktools.replay.aot_compile import CompiledModule, CompileEnvironment, CompileOutcome
from rocktools.replay.aot_target import read_target
from rocktools.replay.executable import GpuExecutable, parse_executable, read_executable
from rocktools.replay.extract import build_job_program, build_replay
from rocktools.replay.prove import Level
from rocktools.replay.prove_bundle import (
    ReplayModule,
    build_subject,
    find_job_executable,
    find_targets,
    job_facts,
    prove_ahead_of_time,
    read_replay,
)
from rocktools.replay.select import select_instruction

SPEC = {
    "schema": "rocktools.replay/1",
    "instruction": "loop_fusion.1",
    "kernel": "loop_fusion_1",
    "program": {"file": "replay.hlo.pb", "sha256": hashlib.sha256(b"module").hexdigest()},
    "devices_count": 1,
    "launches": [
        {
            "kind": "kCustomKernel",
            "kernel": "loop_fusion_1",
            "grid_workgroups": [12, 1, 1],
            "workgroup_workitems": [256, 1, 1],
            "lds_bytes": 0,
        }
    ],
    "origin": {"path": "job/module.hlo.pb"},
}


def executable_of(codes: dict[str, bytes]) -> GpuExecutable:
    return parse_executable(serialize(make_executable(codes)), "made")


def bundle(folder: Path, **changes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "replay.hlo.pb").write_bytes(b"module")
    (folder / "spec.json").write_text(json.dumps({**SPEC, **changes}))
    return folder


def test_replay_is_read_from_its_folder(tmp_path):
    replay = read_replay(bundle(tmp_path / "replay"))
    assert (replay.instruction, replay.kernel_name, replay.module) == ("loop_fusion.1", "loop_fusion_1", b"module")
    [launch] = replay.launches
    assert (launch.grid, launch.workgroup_workitems, launch.lds_bytes) == ((12, 1, 1), (256, 1, 1), None)


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"schema": "rocktools.replay/9"}, UnsupportedVersion),
        ({"program": {"file": "replay.hlo.pb", "sha256": "0" * 64}}, DamagedFile),
        ({"program": {"file": "absent.pb", "sha256": "0" * 64}}, InputError),
        ({"launches": [{}]}, DamagedFile),
    ],
)
def test_damaged_replay_is_told(tmp_path, changes, error):
    with pytest.raises(error):
        read_replay(bundle(tmp_path / "replay", **changes))


def test_other_folder_is_no_replay(tmp_path):
    with pytest.raises(InputError, match=r"has no spec\.json"):
        read_replay(tmp_path)


@pytest.mark.parametrize("place", ["dump", "."])
def test_executable_of_the_job_is_found_beside_the_program_or_above(tmp_path, place):
    (tmp_path / "dump").mkdir()
    origin = {"path": str(tmp_path / "dump/module.hlo.pb")}
    replay = read_replay(bundle(tmp_path / "replay", origin=origin))
    assert find_job_executable(replay) is None
    (tmp_path / place / "executable.serialized").write_bytes(b"")
    assert find_job_executable(replay) == tmp_path / place / "executable.serialized"


def test_facts_of_the_job_are_those_of_the_instruction(tmp_path):
    replay = read_replay(bundle(tmp_path / "replay"))
    [facts] = job_facts(replay, executable_of({"other.2": b"\x02", "loop_fusion.1": b"\x01"}))
    assert (facts.name, facts.lds_bytes) == ("loop_fusion_1", 576)
    assert job_facts(replay, None) == replay.launches
    with pytest.raises(NothingToRead, match="launches nothing for loop_fusion"):
        job_facts(replay, executable_of({"other.2": b"\x02"}))


def test_targets_are_those_of_the_jobs_architecture(tmp_path):
    replay = read_replay(bundle(tmp_path / "replay"))
    job = executable_of({"loop_fusion.1": b"\x01"})
    assert next(target.name for target in find_targets(job, replay, None)) == "mi355x"
    assert [target.name for target in find_targets(job, replay, "mi300x")] == ["mi300x"]
    with pytest.raises(UsageError, match="GPU is not known"):
        find_targets(None, replay, None)


def test_subject_names_files_with_their_hashes(tmp_path):
    replay = read_replay(bundle(tmp_path / "replay"))
    (tmp_path / "exe").write_bytes(b"exe")
    subject = build_subject(None, replay, tmp_path / "exe", {})
    assert subject["job"]["executable_sha256"] == hashlib.sha256(b"exe").hexdigest()
    assert subject["replay"]["program_sha256"] == SPEC["program"]["sha256"]


# What is special about each: a reduction, in-place updates, transposes that another description of the device changes.
SAMPLE = {
    "triton": {"loop_broadcast_fusion.20", "input_transpose_fusion.11", "input_convert_transpose_fusion.2"},
    "blaslt": {"loop_broadcast_fusion.18", "loop_broadcast_fusion.19"},
}


@pytest.mark.aot
@pytest.mark.parametrize("build", ["triton", "blaslt"])
def test_kernels_of_a_whole_step_are_identical(shared, tmp_path, build):
    environment = prepare(tmp_path).environment
    require_plugin_of_step()
    folder = shared / "data/hlo/gfx950-mixtral-8x22b" / build
    job = read_executable(folder / "executable.serialized")
    program = read_program(find_dumps(folder)[0])
    [path] = folder.glob("*.hlo.pb")
    source = build_job_program(program, path.read_bytes(), str(path))
    calls = [thunk.instruction for thunk in job.thunks if thunk.kind == "kCublasLtMatmul"][:2]
    copies = [thunk.instruction for thunk in job.thunks if thunk.kind == "kCopy" and "slice" in thunk.instruction]
    assert len(copies) == 11
    # Every thirtieth launch beside the sample: all of them are in scripts/bench.
    chosen = SAMPLE[build] | {thunk.instruction for thunk in job.launches[::30]}
    replays = []
    for name in [*sorted(chosen), *calls, *copies[:2]]:
        made = build_replay(source, select_instruction(program, name), rocktools_version="test")
        kernel = made.selection.kernel_name
        origin = made.spec["origin"]
        replays.append(ReplayModule(instruction=name, kernel_name=kernel, module=made.program.data, origin=origin))
    results = prove_ahead_of_time(replays, job, find_targets(job, replays[0], None), environment)
    levels = {result.replay.instruction: result.part.level for result in results}
    assert {name: levels[name] for name in chosen} == dict.fromkeys(chosen, Level.IDENTICAL)
    # What a library runs is decided when it runs; that it is the same call is all that can be said.
    assert {levels[name] for name in (*calls, *copies[:2])} == {Level.UNPROVEN}
    described = {result.replay.instruction: result.target.name for result in results}
    assert {name for name, target in described.items() if target == "mi355x-64k"} == {
        name for name in chosen if build == "triton" and "transpose_fusion" in name and name.startswith("input")
    }


def test_flags_of_the_job_go_before_those_here_and_nothing_is_dumped(tmp_path, monkeypatch):
    seen = []

    def compile_nothing(modules, target, environment, **_):
        seen.append((environment.env["XLA_FLAGS"], [each.name for each in modules]))
        return [CompiledModule(name=each.name, outcome=CompileOutcome.REFUSED, reason="no") for each in modules]

    monkeypatch.setattr(prove_bundle, "compile_modules", compile_nothing)
    monkeypatch.setattr(prove_bundle, "build_compile_options", lambda *_, **__: b"")
    replay = read_replay(bundle(tmp_path / "replay"))
    flagged = replace(replay, instruction="other.1", origin={"xla_flags": "--xla_a=1 --xla_dump_to=here"})
    environment = CompileEnvironment(
        python=Path("python"), plugin=Path("p.so"), stand_ins=None, env={"XLA_FLAGS": "--xla_mine --xla_dump_to=x"}
    )
    made = prove_ahead_of_time([replay, flagged], None, [read_target("mi355x")], environment)
    assert seen == [("--xla_mine", ["loop_fusion.1"]), ("--xla_a=1", ["other.1"])]
    assert {each.part.level for each in made} == {Level.UNPROVEN}
    assert [finding.rule for finding in made[0].part.findings] == ["replay-not-compiled"]
