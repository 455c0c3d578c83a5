"""`rocktools aot` and `rocktools replay prove` from the command line."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path

import pytest
from aot_machine import PROGRAM, prepare
from executable_files import make_executable, serialize
from rocpd_files import BOOT_NS

from rocktools.demo.rocpd_writer import RocpdWriter

CODES = {"loop_fusion.1": b"\x01", "reduce.3": b"\x03"}


def executable_file(path: Path, codes: dict[str, bytes]) -> Path:
    path.write_bytes(serialize(make_executable(codes), has_ifrt_header=True))
    return path


def test_show_lists_the_launches_of_an_executable(run, tmp_path):
    path = executable_file(tmp_path / "executable", CODES)
    ran = run("aot", "show", path, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [(row["instruction"], row["kernel_name"]) for row in rows] == [
        ("loop_fusion.1", "loop_fusion_1"),
        ("reduce.3", "reduce_3"),
    ]
    ran = run("aot", "show", path)
    assert "jit_step, gfx950:sramecc+:xnack-: 2 kernel launches" in ran.out


def test_diff_shows_what_changed_and_counts_the_rest(run, tmp_path):
    first = executable_file(tmp_path / "a", CODES)
    second = executable_file(tmp_path / "b", {"loop_fusion.1": b"\x09", "reduce.3": b"\x03"})
    ran = run("aot", "diff", first, second)
    assert ran.code == 0
    assert "1 same, 0 renamed, 1 changed, 0 added, 0 removed" in ran.out
    assert "reduce.3" not in ran.out
    assert "reduce.3" in run("aot", "diff", first, second, "--all").out
    assert "0 same" not in run("aot", "diff", first, first).out


@pytest.mark.parametrize("program", ["train.py", ":step", "train.py:", "train.py:a b"])
def test_program_must_name_script_and_function(run, tmp_path, program):
    ran = run("aot", "compile", program, "-o", tmp_path / "made")
    assert ran.code == 2
    assert "SCRIPT:FUNCTION" in ran.err


def test_other_targets_are_listed(run, tmp_path):
    ran = run("aot", "compile", "a.py:f", "-o", tmp_path / "made", "--target", "mi355")
    assert ran.code == 2
    assert "mi355x" in ran.err


def test_plugin_that_is_not_there_is_told(run, tmp_path):
    ran = run("aot", "compile", "a.py:f", "-o", tmp_path / "made", "--plugin", tmp_path / "absent.so")
    assert ran.code == 2
    assert "no-such-plugin" in ran.err


def test_folder_that_is_no_replay_is_told(run, tmp_path):
    ran = run("replay", "prove", tmp_path)
    assert ran.code == 1
    assert "spec.json" in ran.err
    assert "rocktools extract" in ran.err


def test_traces_go_together(run, tmp_path):
    assert "nothing-to-compare" in run("replay", "prove", tmp_path, "--no-compile").err
    assert "one-replay" in run("replay", "prove", tmp_path, tmp_path, "--job-trace", "a").err


def write_trace_of(path: Path, durations_ns: list[int], **columns: int) -> Path:
    with RocpdWriter(path) as writer:
        writer.process(300)
        kernel = writer.kernel_symbol("loop_fusion_1", display_name="loop_fusion_1 [clone .kd]", **columns)
        for number, duration_ns in enumerate(durations_ns):
            writer.dispatch(kernel, BOOT_NS + 10_000 * number, BOOT_NS + 10_000 * number + duration_ns)
    return path


@pytest.fixture
def replay(tmp_path) -> Path:
    """A replay that nothing can compile: of its traces alone."""
    folder = tmp_path / "replay"
    folder.mkdir()
    (folder / "replay.hlo.pb").write_bytes(b"module")
    spec = {
        "schema": "rocktools.replay/1",
        "instruction": "loop_fusion.1",
        "kernel": "loop_fusion_1",
        "program": {"file": "replay.hlo.pb", "sha256": hashlib.sha256(b"module").hexdigest()},
        "devices_count": 1,
        "launches": [],
        "origin": {"path": "absent"},
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    return folder


@pytest.mark.parametrize(
    "durations_ns, registers, level, code",
    [
        ([5000, 1000, 1010, 1020], 40, "equivalent", 0),
        ([5000, 1000, 1010, 1020], 48, "similar", 0),
        ([5000, 2000, 2010, 2020], 48, "not-a-stand-in", 3),
    ],
)
def test_traces_alone_prove_what_they_can(run, replay, tmp_path, durations_ns, registers, level, code):
    job = write_trace_of(tmp_path / "job.db", [1000, 1010, 1020], arch_vgpr_count=40)
    other = write_trace_of(tmp_path / "replay.db", durations_ns, arch_vgpr_count=registers)
    ran = run("replay", "prove", replay, "--no-compile", "--job-trace", job, "--replay-trace", other, "--warm-up", 1)
    assert (ran.code, f"loop_fusion.1: {level} " in ran.out) == (code, True), ran.out + ran.err
    subject = json.loads((replay / "proof.json").read_text())["subject"]
    assert subject["is_simulated"] is True
    assert subject["traces"] == {"job_trace": str(job), "replay_trace": str(other)}
    assert "SIMULATED" in ran.out.upper()


@pytest.mark.aot
def test_from_program_to_proof(run, tmp_path):
    prepare(tmp_path / "cache")
    script, made, replay = tmp_path / "program.py", tmp_path / "made", tmp_path / "replay"
    script.write_text(PROGRAM)
    cache = ("--cache", tmp_path / "cache")
    ran = run("aot", "compile", f"{script}:step", "-o", made, *cache)
    assert ran.code == 0
    assert "memory of one AMD Instinct MI355X" in ran.out
    assert run("aot", "diff", made, made).code == 0
    rows = list(csv.DictReader(io.StringIO(run("aot", "show", made, "--format", "csv").out)))
    instruction = next(row["instruction"] for row in rows if row["kernel_name"])
    assert run("extract", made / "hlo", "--instruction", instruction, "-o", replay).code == 0
    ran = run("replay", "prove", replay, *cache)
    assert ran.code == 0, ran.err
    assert f"{instruction}: identical" in ran.out
    proof = json.loads((replay / "proof.json").read_text())
    assert (proof["level"], proof["is_stand_in"]) == ("identical", True)
    assert proof["subject"]["compiled"]["plugin_version"]
    ran = run("replay", "prove", replay, *cache)
    assert (ran.code, "proof-exists" in ran.err) == (2, True)
    again = tmp_path / "again.json"
    assert run("replay", "prove", replay, "--job-executable", made, "-o", again, *cache).code == 0
    # For another device it comes out otherwise, and that is a gate.
    ran = run("replay", "prove", replay, "--target", "mi300x", "-o", tmp_path / "other.json", *cache)
    assert ran.code == 3
    assert "not-a-stand-in" in ran.out
