"""`rocktools replay profile`: proof, trace and counter passes under the stand-ins, quantities, and the point."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from aot_machine import prepare, require_plugin_of_step
from command_line import CommandLine, read_rows
from standins.install import FAULT, SCENARIO, STATE, install_standins

from rocktools.replay.prove import Level, Proof
from rocktools.replay.prove_document import read_proof, write_proof
from rocktools.rundir import read_pass_records

SPEC = {
    "schema": "rocktools.replay/1",
    "instruction": "loop_fusion.3",
    "kernel": "loop_fusion_3",
    "program": {"file": "replay.hlo.pb", "sha256": hashlib.sha256(b"module").hexdigest()},
    "devices_count": 1,
    "launches": [
        {
            "kind": "kCustomKernel",
            "kernel": "loop_fusion_3",
            "grid_workgroups": [256, 1, 1],
            "workgroup_workitems": [256, 1, 1],
            "lds_bytes": 0,
        }
    ],
    "origin": {"path": "job/module.hlo.pb"},
}
WANTED = "fabric_bytes,total_flop,occupancy"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_standins(tmp_path_factory.mktemp("rocm") / "bin", version="1.4.1")


@pytest.fixture
def replay(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A replay whose script does nothing: what runs on the GPU, the stand-ins make up."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "state").mkdir()
    monkeypatch.setenv(STATE, str(tmp_path / "state"))
    for name in (FAULT, SCENARIO, "XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    return bundle(tmp_path / "replay")


def bundle(folder: Path, **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "replay.hlo.pb").write_bytes(b"module")
    (folder / "replay.py").write_text("")
    (folder / "spec.json").write_text(json.dumps({**SPEC, **changes}))
    return folder


def prove_as(folder: Path, level: Level, module: bytes = b"module") -> None:
    subject = {"instruction": "loop_fusion.3", "replay": {"program_sha256": hashlib.sha256(module).hexdigest()}}
    write_proof(folder / "proof.json", Proof(level=level, parts=(), subject=subject))


def profile(run: CommandLine, folder: Path, *options: str, wanted: str = WANTED):
    return run("replay", "profile", folder, "--metrics", wanted, "--force", *options)


def quantities(text: str) -> set[str]:
    return {name for name in WANTED.split(",") if any(name in line and "not coll" not in line for line in lines(text))}


def lines(text: str) -> list[str]:
    return text[text.index("quantities of loop_fusion_3") :].splitlines()


def test_a_proven_replay_is_counted_and_its_quantities_are_told(run: CommandLine, replay: Path) -> None:
    prove_as(replay, Level.IDENTICAL)
    ran = profile(run, replay)
    assert ran.code == 0, ran.err
    assert "quantities of loop_fusion_3, replay identical" in ran.out
    assert quantities(ran.out) == set(WANTED.split(","))
    records = read_pass_records(replay / "pmc")
    assert [record.kind for record in records] == ["trace", *["counters"] * (len(records) - 1)]
    assert len(records) > 2
    assert all(record.is_verified for record in records)


def test_the_point_is_of_the_traced_executions_after_the_warm_up(run: CommandLine, replay: Path) -> None:
    """12 executions are traced, 3 of them are the warm-up of the script; a rate is work of one over its mean time."""
    prove_as(replay, Level.EQUIVALENT)
    ran = profile(run, replay, "-o", str(replay.parent / "known.json"))
    assert (ran.code, ran.out) == (0, ""), ran.err
    rows = {row["quantity"]: row for row in read_rows(replay.parent / "known.json")}
    traced = run.rows("frame", "dispatches", replay / "pmc")
    times_ns = [row["end_ns"] - row["start_ns"] for row in traced if row["kernel_name"] == "loop_fusion_3"]
    assert len(times_ns) == 12
    assert rows["duration"]["value"] == pytest.approx(sum(times_ns[3:]) / 9)
    assert (rows["duration"]["evidence"], rows["duration"]["executions_count"]) == ("measured", 9)
    moved, flop = (rows[name]["value"] for name in ("fabric_bytes", "total_flop"))
    assert rows["intensity"]["value"] == pytest.approx(flop / moved, rel=1e-6)
    assert rows["achieved_byte_rate"]["value"] == pytest.approx(moved / rows["duration"]["value"] * 1e9, rel=1e-6)
    roof = max(moved / rows["byte_ceiling"]["value"], flop / rows["flop_ceiling"]["value"])
    assert rows["roof_ratio"]["value"] == pytest.approx(roof * 1e9 / rows["duration"]["value"], rel=1e-6)
    assert {row["proof"] for row in rows.values()} == {"equivalent"}
    assert {row["evidence"] for row in rows.values() if row["quantity"] in ("roof_ratio", "byte_ceiling")} == {
        "declared"
    }


def test_csv_on_standard_output_is_nothing_but_csv(run: CommandLine, replay: Path) -> None:
    prove_as(replay, Level.IDENTICAL)
    ran = profile(run, replay, "--no-trace", "--format", "csv", wanted="waves")
    assert ran.code == 0, ran.err
    head, *rows = ran.out.splitlines()
    assert head.startswith("kernel_name,proof,device_index,quantity,value,unit,evidence,")
    assert len({row.count(",") for row in (head, *rows)}) == 1
    assert [row.split(",")[3] for row in rows][:2] == ["waves", "duration"]
    assert all(",not_collected," in row for row in rows[1:])
    assert {record.kind for record in read_pass_records(replay / "pmc")} == {"counters"}


def test_what_is_left_of_a_broken_profile_is_resumed(
    run: CommandLine, replay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trace is good, then the tool dies in the first counter pass; repaired, it goes on from there."""
    prove_as(replay, Level.IDENTICAL)
    monkeypatch.setenv(FAULT, "segfault@pmc")
    ran = profile(run, replay, wanted="waves")
    assert ran.code == 1, ran.out
    assert "--resume" in ran.err
    assert [(record.kind, record.is_verified) for record in read_pass_records(replay / "pmc")] == [
        ("trace", True),
        ("counters", False),
    ]
    monkeypatch.delenv(FAULT)
    assert profile(run, replay, wanted="waves").code == 2  # not over what is there
    ran = profile(run, replay, "--resume", wanted="waves")
    assert ran.code == 0, ran.err
    assert "quantities of loop_fusion_3, replay identical" in ran.out
    records = [record for record in read_pass_records(replay / "pmc") if record.is_verified]
    assert [(record.kind, record.attempt) for record in records][:2] == [("trace", 1), ("counters", 2)]


def test_nothing_is_resumed_where_nothing_was_begun(run: CommandLine, replay: Path) -> None:
    ran = profile(run, replay, "--resume")
    assert ran.code == 2
    assert "nothing-to-resume" in ran.err


def test_in_one_process_gives_the_same_quantities(run: CommandLine, replay: Path) -> None:
    prove_as(replay, Level.EQUIVALENT)
    ran = profile(run, replay, "--passes-in-process")
    assert ran.code == 0, ran.err
    assert quantities(ran.out) == set(WANTED.split(","))
    assert [record.kind for record in read_pass_records(replay / "pmc")] == ["trace", "replay"]


def test_an_unproven_replay_is_counted_and_says_so(run: CommandLine, replay: Path) -> None:
    """Nothing here says which GPU the job ran on, so there is nothing to compile for, with or without a plugin."""
    ran = profile(run, replay, "--cache", str(replay.parent / "cache"), wanted="waves")
    assert ran.code == 3, ran.err
    assert "quantities of loop_fusion_3, replay unproven" in ran.out
    assert "replay-unproven" in ran.err
    assert not (replay / "proof.json").exists()


def test_a_proof_of_another_program_proves_nothing(run: CommandLine, replay: Path) -> None:
    prove_as(replay, Level.IDENTICAL, module=b"another")
    ran = profile(run, replay, wanted="waves")
    assert ran.code == 3
    assert "replay unproven" in ran.out
    assert "its proof is of another program" in ran.err


def test_what_is_no_stand_in_is_not_counted(run: CommandLine, replay: Path) -> None:
    prove_as(replay, Level.NOT_A_STAND_IN)
    ran = profile(run, replay)
    assert ran.code == 3
    assert "not-a-stand-in" in ran.err
    assert not (replay / "pmc").exists()


def test_a_dry_run_shows_the_passes_over_the_executions_after_the_warm_up(run: CommandLine, replay: Path) -> None:
    ran = profile(run, replay, "--dry-run", "--warm-up", "2", "--iterations", "4")
    assert str(replay / "replay.py") in ran.out
    assert "--iterations 20 --warm-up 3" in ran.out  # the trace, for the times
    assert "--iterations 4 --warm-up 2" in ran.out
    assert "[3-6]" in ran.out
    assert "TCC_EA0_RDREQ_128B_sum" in ran.out
    assert not (replay / "pmc").exists()


def test_a_plan_for_another_machine_needs_neither_gpu_nor_tool(
    run: CommandLine, replay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    ran = run("replay", "profile", replay, "--metrics", "waves", "--dry-run", "--sdk-version", "1.4.1")
    assert ran.code == 0, ran.err
    assert "pass 1 of" in ran.out
    ran = run("replay", "profile", replay, "--metrics", "waves", "--sdk-version", "1.4.1")
    assert ran.code == 2
    assert "assumed-version" in ran.err


@pytest.mark.parametrize(
    "changes, options, reference",
    [
        ({"kernel": None}, (), "no-kernel-name"),
        ({"kernel": None, "devices_count": 8}, (), "collective-not-counted"),
        ({}, ("--metrics", "totl_flop"), "unknown-quantity"),
        ({}, ("--arch", "gfx942", "--metrics", "l2_sector_bytes"), "unknown-quantity"),
    ],
)
def test_what_cannot_be_counted_is_refused_first(run: CommandLine, replay: Path, changes, options, reference) -> None:
    ran = profile(run, bundle(replay, **changes), *options)
    assert ran.code == 2
    assert f"error: {reference}:" in ran.err
    assert not (replay / "pmc").exists()


def test_counters_that_are_there_stay(run: CommandLine, replay: Path) -> None:
    (replay / "pmc").mkdir()
    (replay / "pmc" / "note").write_text("mine")
    ran = profile(run, replay)
    assert ran.code == 2
    assert "run-directory-exists" in ran.err


@pytest.mark.aot
def test_a_kernel_of_a_real_step_is_proven_by_compiling_it(
    run: CommandLine, replay: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(replay.parent / "cache")
    require_plugin_of_step()
    made = replay.parent / "made"
    job = shared / "data/hlo/gfx950-mixtral-8x22b/blaslt"
    assert run("extract", job, "--instruction", "loop_broadcast_fusion.18", "-o", made).code == 0
    (made / "replay.py").write_text("")  # there is no GPU
    scenario = replay.parent / "scenario.json"
    scenario.write_text(json.dumps({"kernels": [{"name": "loop_broadcast_fusion_18", "count": 4}]}))
    monkeypatch.setenv(SCENARIO, str(scenario))
    ran = profile(run, made, "--cache", str(replay.parent / "cache"), wanted="occupancy")
    assert ran.code == 0, ran.err
    assert "quantities of loop_broadcast_fusion_18, replay identical" in ran.out
    assert read_proof(made / "proof.json").level is Level.IDENTICAL
