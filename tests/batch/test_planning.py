"""From a run to a plan: what is picked, taken out, used again, refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from fake_replays import write_fake_proof, write_fake_replay
from scoped_run import write_scoped_run

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.batch.bundles import SPEC_NAME
from rocktools.batch.pick import Order, find_candidates_by_component, find_candidates_by_time
from rocktools.batch.plan import PassSelection
from rocktools.batch.planning import MadePlan, PlanWishes, plan_bundles, plan_job
from rocktools.errors import NothingToRead
from rocktools.replay.prove import Level
from rocktools.workspace.attributed import AttributionOptions
from rocktools.workspace.programs import find_programs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("jaxlib")
    return write_scoped_run(tmp_path_factory.mktemp("job") / "run")


@pytest.fixture(scope="module")
def candidates(run: Path):
    return find_candidates_by_time([str(run)], ())


def planned(run: Path, candidates, replays: Path, *, top: int = 3, allows_unproven: bool = True) -> MadePlan:
    wishes = PlanWishes(replays=replays, top=top, selection=PassSelection(), allows_unproven=allows_unproven)
    return plan_job(candidates, find_programs(run).programs, wishes, Order.TIME)


def prove(folder: Path, level: Level = Level.IDENTICAL) -> None:
    spec = json.loads((folder / SPEC_NAME).read_text(encoding="utf-8"))
    write_fake_proof(folder, level, spec["program"]["sha256"])


def test_the_kernels_that_took_most_are_planned_and_collectives_are_refused(run, candidates, tmp_path):
    made = planned(run, candidates, tmp_path / "replays")
    # By the trace, twins together: two multiplications share a kernel, and so do two sums.
    assert [each.instruction for each in made.plan.kernels] == ["custom-call.2", "loop_multiply_fusion.1", "sort.1"]
    assert made.plan.kernels[1].twins == ("loop_multiply_fusion.2",)
    assert {each.refusal.reason for each in made.plan.refused} == {"collective"}
    assert {each.instruction for each in made.plan.refused} == {"all-to-all.1", "all-reduce-start.2"}
    assert made.plan.is_simulated
    assert sorted(path.name for path in (tmp_path / "replays").iterdir()) == [
        "custom-call.2", "loop_multiply_fusion.1", "sort.1"
    ]  # fmt: skip
    by_name = {each.instruction: each for each in candidates.candidates}
    twins = [by_name["loop_multiply_fusion.1"].total_ns, by_name["loop_multiply_fusion.2"].total_ns]
    assert made.plan.kernels[1].total_ns == sum(twins)
    digest = hashlib.sha256((made.plan.kernels[0].replay / "replay.hlo.pb").read_bytes()).hexdigest()
    assert made.plan.kernels[0].program_sha256 == digest


def test_a_collective_inside_of_an_asynchronous_start_is_refused_as_one(run, candidates, tmp_path):
    """By itself it is refused as a part of its start, which would send people there in vain."""
    made = planned(run, candidates, tmp_path / "replays", top=0)
    reasons = {each.instruction: each.refusal.reason for each in made.plan.refused if "all-" in each.instruction}
    assert set(reasons.values()) == {"collective"}
    assert not [finding for finding in made.findings if finding.rule == "kernel-has-twins"]


def test_a_library_s_kernel_has_the_name_of_the_trace(run, candidates, tmp_path):
    [kernel, *_] = planned(run, candidates, tmp_path / "replays").plan.kernels
    assert kernel.kernel.startswith("Cijk_")


def test_a_kernel_that_the_trace_calls_otherwise_is_a_doubt(run, candidates, tmp_path):
    made = planned(run, candidates, tmp_path / "replays")
    [doubt] = [finding for finding in made.findings if finding.rule == "kernel-of-another-name"]
    assert doubt.where == "sort.1"
    assert "rocprim" in doubt.message


def test_without_a_proof_a_kernel_is_refused_and_its_replay_is_there_to_be_proven(run, candidates, tmp_path):
    replays = tmp_path / "replays"
    made = planned(run, candidates, replays, allows_unproven=False)
    assert made.plan.kernels == ()
    unproven = [each for each in made.plan.refused if each.refusal.reason == "unproven"]
    assert [each.instruction for each in unproven] == ["custom-call.2", "loop_multiply_fusion.1", "sort.1"]
    prove(replays / "loop_multiply_fusion.1")
    prove(replays / "sort.1", Level.NOT_A_STAND_IN)
    again = planned(run, candidates, replays, allows_unproven=False)
    assert [(each.instruction, each.level) for each in again.plan.kernels] == [
        ("loop_multiply_fusion.1", Level.IDENTICAL)
    ]
    reasons = {each.instruction: each.refusal.reason for each in again.plan.refused}
    assert reasons["sort.1"] == "not-a-stand-in"
    # The one that cannot stand in takes no place: the next two by time have a replay now.
    assert reasons["loop_add_fusion.2"] == "unproven"


def test_replays_that_are_there_are_used_as_they_are(run, candidates, tmp_path):
    replays = tmp_path / "replays"
    first = planned(run, candidates, replays)
    before = {path: path.stat().st_mtime_ns for path in replays.rglob("*") if path.is_file()}
    second = planned(run, candidates, replays)
    assert second.extracted == ()
    assert len(first.extracted) == 3
    assert second.plan == first.plan
    assert {path: path.stat().st_mtime_ns for path in replays.rglob("*") if path.is_file()} == before


def test_a_replay_of_another_program_is_left_alone_and_not_used(run, candidates, tmp_path):
    replays = tmp_path / "replays"
    other = write_fake_replay(replays, "custom-call.2")
    before = (other / "spec.json").read_bytes()
    made = planned(run, candidates, replays, top=1)
    assert [path.name for path in made.extracted] == ["custom-call.2-2"]
    assert made.plan.kernels[0].replay == replays / "custom-call.2-2"
    assert (other / "spec.json").read_bytes() == before


def test_a_replay_of_a_twin_will_do(run, candidates, tmp_path):
    from rocktools.batch.bundles import build_job, extract_bundle
    from rocktools.replay.select import select_instruction

    [program] = find_programs(run).programs
    job = build_job(program)
    extract_bundle(job, select_instruction(job.program, "loop_multiply_fusion.2"), tmp_path / "replays")
    made = planned(run, candidates, tmp_path / "replays", top=2)
    assert [each.instruction for each in made.plan.kernels] == ["custom-call.2", "loop_multiply_fusion.2"]
    assert [path.name for path in made.extracted] == ["custom-call.2"]


def test_by_component_each_has_its_turn(run, tmp_path):
    options = AttributionOptions(component_map=read_shipped_map("maxtext"))
    found = find_candidates_by_component([str(run)], options)
    wishes = PlanWishes(replays=tmp_path / "replays", top=4, selection=PassSelection(), allows_unproven=True)
    made = plan_job(found, find_programs(run).programs, wishes, Order.COMPONENT)
    components = [each.component for each in made.plan.kernels]
    assert len(set(components)) == 4
    assert {"attention", "expert_mlp"} <= set(components)


def test_copies_are_refused_when_everything_is_wanted(run, candidates, tmp_path):
    made = planned(run, candidates, tmp_path / "replays", top=0)
    reasons = {each.instruction: each.refusal.reason for each in made.plan.refused}
    assert reasons["copy.2"] == "copy"
    assert reasons["all-reduce.3"] == "collective"
    names = [each.name for each in made.plan.kernels]
    assert len(set(names)) == len(names)


def test_another_program_than_the_one_that_ran_is_an_error(run, candidates, tmp_path):
    dump = tmp_path / "dump"
    shutil.copytree(run / "hlo", dump)
    for path in list(dump.iterdir()):
        path.rename(path.with_name(path.name.replace("module_0007", "module_0008")))
    wishes = PlanWishes(replays=tmp_path / "replays", top=1, selection=PassSelection())
    with pytest.raises(NothingToRead, match="no-candidate-in-programs"):
        plan_job(candidates, find_programs(dump).programs, wishes, Order.TIME)


def test_a_folder_of_replays_is_planned_as_a_whole(tmp_path):
    for name in ("b.1", "a.1"):
        write_fake_replay(tmp_path, name)
    write_fake_replay(tmp_path, "ag", kind="collective", devices_count=8)
    write_fake_replay(tmp_path, "loose", level=None)
    made = plan_bundles(PlanWishes(replays=tmp_path, top=0, selection=PassSelection()))
    assert [(each.name, each.kernel, each.total_ns) for each in made.plan.kernels] == [
        ("a_1", "a_1", None),
        ("b_1", "b_1", None),
    ]
    assert {each.instruction: each.refusal.reason for each in made.plan.refused} == {
        "ag": "collective",
        "loose": "unproven",
    }
    with pytest.raises(NothingToRead, match="no-replays"):
        plan_bundles(PlanWishes(replays=tmp_path / "gone", top=0, selection=PassSelection()))
