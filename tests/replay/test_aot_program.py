"""A program of the tests' own, compiled for GPUs that are not here; and its replays, proven."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aot_machine import PROGRAM, prepare

from rocktools.errors import InputError, ReplayError, UsageError
from rocktools.hlo.dumps import find_dumps, read_program
from rocktools.replay.aot_environment import PreparedEnvironment
from rocktools.replay.aot_program import CompiledFolder, ProgramToCompile, compile_program, read_compiled_folder
from rocktools.replay.aot_target import read_target
from rocktools.replay.executable import read_executable
from rocktools.replay.extract import build_job_program, build_replay
from rocktools.replay.prove import Level
from rocktools.replay.prove_bundle import ReplayModule, find_targets, prove_ahead_of_time
from rocktools.replay.select import select_all

pytestmark = pytest.mark.aot


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> PreparedEnvironment:
    return prepare(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("script") / "program.py"
    path.write_text(PROGRAM)
    return path


def compiled(script: Path, folder: Path, prepared: PreparedEnvironment, **changes) -> CompiledFolder:
    given = {"script": script, "function": "step", "target": read_target("mi355x"), "devices_count": 1, **changes}
    return compile_program(
        ProgramToCompile(**given), folder, prepared.environment, stand_in_libraries=prepared.stand_in_libraries
    )


@pytest.fixture(scope="module")
def job(script, prepared, tmp_path_factory) -> CompiledFolder:
    return compiled(script, tmp_path_factory.mktemp("job") / "made", prepared)


def test_folder_has_program_kernels_and_memory(job):
    program = read_program(find_dumps(job.hlo)[0])
    executable = read_executable(job.executable)
    assert program.thunks is not None
    assert [thunk.kernel_name for thunk in executable.launches] == [t.kernel for t in program.thunks.walk() if t.kernel]
    assert executable.architecture.startswith("gfx950")
    memory = job.document["memory"]
    # Of the shapes: 64 x 512 and 512 x 256 in two bytes, 128 in four; the last one is donated.
    assert memory["arguments_bytes"] == 2 * (64 * 512 + 512 * 256) + 4 * 128
    assert memory["aliased_bytes"] == 4 * 128
    assert (job.path / "kernels.csv").read_text().count("\n") == len(executable.thunks) + 1
    assert read_compiled_folder(job.path).document == json.loads((job.path / "aot.json").read_text())


def test_manifest_says_what_was_stood_in_for(job, prepared):
    assert tuple(job.document["stand_ins"]) == prepared.stand_in_libraries
    assert job.document["target"]["name"] == "mi355x"
    assert job.document["versions"]["jax"].split(".")[:2] == job.document["versions"]["plugin"].split(".")[:2]
    assert "--xla_dump" not in job.document["xla_flags"]


def test_every_kernel_of_it_is_proven_identical(job, prepared):
    program = read_program(find_dumps(job.hlo)[0])
    [path] = job.hlo.glob("*.hlo.pb")
    source = build_job_program(program, path.read_bytes(), str(path))
    replays = []
    for selection in select_all(program):
        made = build_replay(source, selection, rocktools_version="test")
        replays.append(
            ReplayModule(
                instruction=selection.instruction.name,
                kernel_name=selection.kernel_name,
                module=made.program.data,
                origin=made.spec["origin"],
            )
        )
    executable = read_executable(job.executable)
    targets = find_targets(executable, replays[0], None)
    assert targets[0].path == next(job.hlo.glob("*.gpu_target_config.pbtxt"))
    results = prove_ahead_of_time(replays, executable, targets, prepared.environment)
    assert len(results) >= 2
    assert {result.replay.instruction: result.part.level for result in results} == dict.fromkeys(
        (replay.instruction for replay in replays), Level.IDENTICAL
    )
    assert {result.target for result in results} == {targets[0]}


def test_other_target_gives_other_code(job, script, prepared, tmp_path):
    other = compiled(script, tmp_path / "made", prepared, target=read_target("mi300x"))
    first, second = read_executable(job.executable), read_executable(other.executable)
    assert second.architecture.startswith("gfx942")
    assert first.launches[0].code.sha256 != second.launches[0].code.sha256


def test_programs_for_several_devices_are_partitioned(prepared, tmp_path):
    script = tmp_path / "sharded.py"
    script.write_text(
        "import jax, numpy\nfrom jax.sharding import Mesh, NamedSharding, PartitionSpec as P\n"
        "def step(devices):\n"
        "    rows = NamedSharding(Mesh(numpy.array(devices), ('d',)), P('d'))\n"
        "    return (lambda x: x.sum(0)), (jax.ShapeDtypeStruct((64, 8), 'float32', sharding=rows),)\n"
    )
    made = compiled(script, tmp_path / "made", prepared, function="step", devices_count=8)
    assert "kAllReduce" in {thunk.kind for thunk in read_executable(made.executable).thunks}
    assert made.document["memory"]["arguments_bytes"] == 64 * 8 * 4 / 8


@pytest.mark.parametrize(
    "function, reference, words",
    [
        ("raising", "aot-script", "the user's own mistake"),
        ("absent", "aot-script", "has no function 'absent'; it has f, step, number"),
        ("number", "aot-failed", "the lowering failed: TypeError"),
    ],
)
def test_what_is_wrong_with_the_script_is_told(script, prepared, tmp_path, function, reference, words):
    with pytest.raises(ReplayError) as raised:
        compiled(script, tmp_path / "made", prepared, function=function)
    assert raised.value.reference == reference
    assert words in raised.value.what
    assert not any(tmp_path.iterdir())


def test_place_of_the_users_mistake_is_told(script, prepared, tmp_path):
    with pytest.raises(ReplayError) as raised:
        compiled(script, tmp_path / "made", prepared, function="raising")
    line = next(i for i, text in enumerate(PROGRAM.splitlines(), start=1) if "raise ValueError" in text)
    assert raised.value.where == f"{script}:{line}"


def test_nothing_is_overwritten(script, prepared, tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made/mine").write_text("")
    with pytest.raises(UsageError, match="something at this path"):
        compiled(script, tmp_path / "made", prepared)
    with pytest.raises(UsageError, match="no such file"):
        compiled(script.with_name("absent.py"), tmp_path / "other", prepared)


def test_other_folders_are_told(tmp_path):
    with pytest.raises(InputError, match=r"has no aot\.json"):
        read_compiled_folder(tmp_path)
