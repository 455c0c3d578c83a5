"""`rocktools aot` and `rocktools replay prove` from the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from aot_machine import PROGRAM, prepare
from command_line import CommandLine
from executable_files import make_executable, serialize

CODES = {"loop_fusion.1": b"\x01", "reduce.3": b"\x03"}


@pytest.fixture
def run(capsys) -> CommandLine:
    return CommandLine(capsys)


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


@pytest.mark.aot
def test_from_program_to_proof(run, tmp_path):
    prepare(tmp_path / "cache")
    script, made, replay = tmp_path / "program.py", tmp_path / "made", tmp_path / "replay"
    script.write_text(PROGRAM)
    cache = ("--cache", tmp_path / "cache")
    ran = run("aot", "compile", f"{script}:step", "-o", made, *cache)
    assert ran.code == 0
    assert "memory of each of 1 AMD Instinct MI355X" in ran.out
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
    # For another device it comes out otherwise, and that is a gate.
    ran = run("replay", "prove", replay, "--target", "mi300x", "-o", tmp_path / "other.json", *cache)
    assert ran.code == 3
    assert "not-a-stand-in" in ran.out
