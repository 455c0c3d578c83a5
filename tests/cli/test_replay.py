"""`rocktools replay run` and `prove`: what they say, write and refuse; compiling is tested in tests/replay."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from command_line import CommandLine
from rocpd_files import write_counter_pass, write_small_trace

SPEC = {
    "schema": "rocktools.replay/1",
    "instruction": "loop_fusion.3",
    "kernel": "loop_fusion_3",
    "program": {"file": "replay.hlo.pb", "sha256": hashlib.sha256(b"module").hexdigest()},
    "devices_count": 1,
    "launches": [],
    "origin": {"path": "job/module.hlo.pb"},
}
SCRIPT = """import json, sys
print("something else first")
print(json.dumps({"schema": "rocktools.replay-run/1", "arguments": sys.argv[1:], "host_median_ns": 5}))
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "replay"
    folder.mkdir()
    (folder / "replay.hlo.pb").write_bytes(b"module")
    (folder / "replay.py").write_text(SCRIPT)
    (folder / "spec.json").write_text(json.dumps(SPEC))
    return folder


def test_run_gives_the_line_of_the_script(run, bundle):
    ran = run("replay", "run", bundle, "--iterations", "7", "--flush-cache", "--device", "2")
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    assert document["arguments"] == [
        *("--iterations", "7", "--warm-up", "3", "--device", "2", "--inputs", "random", "--flush-cache"),
    ]


@pytest.mark.parametrize(
    "script, reference",
    [("import sys; sys.exit('no device')", "replay-failed"), ("print('nothing of use')", "replay-silent")],
)
def test_run_that_went_wrong_is_told(run, bundle, script, reference):
    (bundle / "replay.py").write_text(script)
    ran = run("replay", "run", bundle)
    assert (ran.code, ran.out) == (1, "")
    assert f"error: {reference}:" in ran.err
    assert ("no device" in ran.err) == (reference == "replay-failed")


def test_folder_without_a_script_is_no_replay(run, tmp_path):
    ran = run("replay", "run", tmp_path)
    assert ran.code == 1
    assert "no-replay" in ran.err
    assert "rocktools extract" in ran.err


def test_traces_of_both_prove_as_much_as_traces_can(run, bundle, tmp_path):
    """One trace twice: name, launch, registers and memory are equal, and of the machine code nothing is said."""
    trace = write_small_trace(tmp_path / "1_results.db")
    traces = ("--job-trace", trace, "--replay-trace", trace)
    ran = run("replay", "prove", bundle, "--no-compile", *traces, "--warm-up", "0")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("loop_fusion.3: equivalent (")
    assert "SIMULATED" in ran.out
    proof = json.loads((bundle / "proof.json").read_text())
    assert (proof["level"], proof["is_stand_in"], proof["subject"]["is_simulated"]) == ("equivalent", True, True)
    [part] = proof["evidence"]
    assert {each["quantity"]: each["verdict"] for each in part["comparisons"]}["grid"] == "equal"


def test_counters_that_are_the_jobs_are_told(run, bundle, tmp_path):
    trace, counters = write_small_trace(tmp_path / "1_results.db"), write_counter_pass(tmp_path / "2_results.db")
    given = ("--job-trace", trace, "--replay-trace", trace, "--replay-counters", counters, "--job-counters", counters)
    ran = run("replay", "prove", bundle, "--no-compile", *given, "--warm-up", "0", "-o", tmp_path / "proof.json")
    assert ran.code == 0, ran.err
    proof = json.loads((tmp_path / "proof.json").read_text())
    assert [part["kind"] for part in proof["evidence"]] == ["trace", "counters"]
    assert not (bundle / "proof.json").exists()


@pytest.mark.parametrize(
    "options, reference",
    [
        (("--no-compile",), "nothing-to-compare"),
        (("--job-trace", "a.db"), "one-sided-trace"),
        (("--replay-trace", "a.db"), "one-sided-trace"),
        (("--job-counters", "a.db"), "one-sided-counters"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_compiled(run, bundle, options, reference):
    ran = run("replay", "prove", bundle, *options)
    assert (ran.code, ran.out) == (2, "")
    assert f"error: {reference}:" in ran.err
    assert not (bundle / "proof.json").exists()


def test_proof_that_is_there_stays(run, bundle):
    (bundle / "proof.json").write_text("mine")
    ran = run("replay", "prove", bundle)
    assert ran.code == 2
    assert "proof-exists" in ran.err
    assert (bundle / "proof.json").read_text() == "mine"


def test_changed_program_is_no_replay(run, bundle):
    (bundle / "replay.hlo.pb").write_bytes(b"another")
    ran = run("replay", "prove", bundle)
    assert ran.code == 1
    assert "replay-changed" in ran.err
