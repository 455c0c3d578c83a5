"""Frames of runs and their programs: the rows of each run, in the order of their contracts."""

from __future__ import annotations

from pathlib import Path

import pytest
from rocpd_files import rules
from tiny_program import TINY, hlo_text
from tiny_run import HOST, make_proto, starts_by_instruction, tiny_trace, write_tiny_profile, write_tiny_run

from rocktools.errors import NothingToRead
from rocktools.evidence import Evidence
from rocktools.frames import SPECS, require_frame
from rocktools.timeline.steps import counted_steps
from rocktools.workspace.linked_frames import LINKED_FRAMES, LinkedFrame, linked_frame
from rocktools.workspace.workspace import READ_FRAMES, Workspace


def build(name: str, *paths: Path) -> LinkedFrame:
    with Workspace.open(paths) as workspace:
        return linked_frame(workspace, name)


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    return (
        write_tiny_run(tmp_path / "traced", trace=tiny_trace()),
        write_tiny_run(tmp_path / "profiled", profile=tiny_trace(seed=1, steps_count=2)),
    )


@pytest.mark.parametrize("name", LINKED_FRAMES)
def test_frames_keep_their_contract_and_order(runs: tuple[Path, Path], name: str) -> None:
    frame = require_frame(build(name, *runs).frame, SPECS[name])
    assert len(frame)
    keys = list(zip(*(frame[column] for column in SPECS[name].sort), strict=True))
    assert keys == sorted(keys)
    assert not frame.duplicated(list(SPECS[name].key)).any()


def test_no_frame_is_built_in_two_ways() -> None:
    assert not set(LINKED_FRAMES) & set(READ_FRAMES)


def test_programs_are_listed_for_each_run_and_instructions_once(runs: tuple[Path, Path]) -> None:
    programs = build("PROGRAMS", *runs)
    assert list(zip(programs.frame["run"], programs.frame["program_id"], strict=True)) == [
        ("profiled", "7"),
        ("traced", "7"),
    ]
    instructions = build("INSTRUCTIONS", *runs)
    assert len(instructions.frame) == sum(" = " in line for line in hlo_text(TINY).splitlines())
    assert programs.evidence is instructions.evidence is Evidence.COMPILER_ESTIMATE


def test_dispatch_edges_are_of_all_dispatches(runs: tuple[Path, Path]) -> None:
    edges = build("DISPATCH_EDGES", *runs)
    assert edges.frame["run"].value_counts().to_dict() == {"traced": 507, "profiled": 338}
    assert edges.evidence is Evidence.INFERRED


def test_event_edges_are_of_profiles_beside_traces_too(tmp_path: Path) -> None:
    profile = tiny_trace(seed=1)
    run = write_tiny_run(tmp_path / "run", trace=tiny_trace(), profile=profile)
    write_tiny_profile(run / "xspace" / "plugins" / "another.xplane.pb", tiny_trace(seed=2), host="a")
    frame = build("EVENT_EDGES", run).frame
    assert frame["host"].value_counts().to_dict() == {"a": 507, HOST: 507}
    own = frame[frame["host"] == HOST]
    assert own["instruction"].value_counts().to_dict() == starts_by_instruction(profile)


def test_without_a_program_there_is_an_error(tmp_path: Path) -> None:
    run = write_tiny_run(tmp_path / "run", trace=tiny_trace(), has_dump=False)
    for name in sorted(set(LINKED_FRAMES) - {"STEPS", "ATTRIBUTED", "LEDGER"}):
        with pytest.raises(NothingToRead, match="no-programs"):
            build(name, run)


def test_without_a_program_rows_are_booked_by_the_names_of_kernels(tmp_path: Path) -> None:
    found = build("ATTRIBUTED", write_tiny_run(tmp_path / "run", trace=tiny_trace(), has_dump=False))
    assert "no-program-to-attribute" in rules(found.findings)
    assert len(found.frame) == 507
    assert set(found.frame["phase"]) == {"unattributed"}
    assert {"compute", "communication"} <= set(found.frame["activity"])


def test_the_ledger_is_of_the_steps_that_count(runs: tuple[Path, Path]) -> None:
    steps, rows, ledger = (build(name, *runs) for name in ("STEPS", "ATTRIBUTED", "LEDGER"))
    counted = counted_steps(steps.frame)
    chosen = rows.frame.merge(counted[["run", "device", "step_index"]].astype({"step_index": "Int64"}))
    assert int(ledger.frame["rows_count"].sum()) == len(chosen)
    assert int(ledger.frame["sum_ns"].sum()) == int((chosen["end_ns"] - chosen["start_ns"]).sum())
    assert ledger.evidence is Evidence.INFERRED


def test_findings_of_programs_are_told(tmp_path: Path) -> None:
    path = write_tiny_profile(
        tmp_path / "a.xplane.pb", tiny_trace(steps_count=1), protos={"jit_a(3)": make_proto("jit_a", 3)}
    )
    (tmp_path / "cut.txt").write_text(hlo_text(TINY)[:-40], encoding="utf-8")
    with Workspace.open([path]) as workspace:
        found = linked_frame(workspace, "PROGRAMS", [tmp_path / "cut.txt"])
    assert "hlo-text-truncated" in rules(found.findings)
    assert list(found.frame["is_complete"]) == [False]


def test_real_profiles_together(shared: Path) -> None:
    places = [shared / "data" / "xplane" / name for name in ("cpu_moe", "mi355_te_fused_attn")]
    assert len(build("EVENT_EDGES", *places).frame) == 10_248 + 150
    programs = build("PROGRAMS", *places).frame
    assert programs["run"].value_counts().to_dict() == {"cpu_moe": 19, "mi355_te_fused_attn": 9}
