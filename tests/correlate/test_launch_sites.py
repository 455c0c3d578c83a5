"""Launch sites follow from the kinds of thunks, and the flow from loops, streams and branches."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from tiny_program import TINY, Loop, build_tiny, kernel, matmul, program_trees

from rocktools.correlate.launch_sites import (
    DOUBTFUL_EMISSION,
    USUAL_EMISSION,
    Choice,
    Launch,
    SiteKind,
    build_launch_plan,
)
from rocktools.correlate.launch_sites import Loop as FlowLoop
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.thunks import Thunk, ThunkSequence


def test_sites_stand_in_the_order_of_the_text_with_their_kinds() -> None:
    plan = build_launch_plan(build_tiny())
    assert plan is not None
    named = {site.instruction: site for site in plan.sites}
    assert [site.order for site in plan.sites] == sorted(site.order for site in plan.sites)
    assert named["copy.2"].kind is SiteKind.COPY
    assert named["custom-call.2"].kind is SiteKind.MATMUL
    assert named["all-to-all.1"].kind is SiteKind.COLLECTIVE
    assert named["loop_add_fusion.2"].kind is SiteKind.GENERATED
    assert (named["loop_add_fusion.2"].kernel, named["loop_add_fusion.2"].grid_workgroups) == (
        "loop_add_fusion_1",
        (1, 1, 1),
    )
    assert [named[name].emission for name in ("copy.2", "sort.1")] == [DOUBTFUL_EMISSION, USUAL_EMISSION]


def test_a_condition_is_launched_only_where_the_trip_count_is_unknown() -> None:
    body = [kernel("a.1")]
    for trips, expected in ((4, ["a.1"]), (None, ["c.1", "a.1"])):
        plan = build_launch_plan(build_tiny([Loop("while.1", body, trips, [kernel("c.1")])]))
        assert plan is not None
        assert [site.instruction for site in plan.sites] == expected
        [loop] = plan.flow
        assert isinstance(loop, FlowLoop)
        assert loop.trip_count == trips
        assert plan.trip_counts == {loop.thunk_id: trips}
        assert all(site.loops == (loop.thunk_id,) for site in plan.sites)


def test_a_collective_of_an_asynchronous_start_has_its_stream_and_the_place_of_its_done() -> None:
    plan = build_launch_plan(build_tiny())
    assert plan is not None
    named = {site.instruction: site for site in plan.sites}
    start = named["all-reduce-start.1"]
    assert start.stream == "communication_stream[0]"
    assert start.done_order is not None
    # Launched before the two kernels it runs beside, waited for behind them, before the inner loop.
    beside = [named[name].order for name in ("loop_gather_fusion.1", "custom-call.1")]
    assert start.order < min(beside)
    assert max(beside) < start.done_order < named["loop_add_fusion.2"].order
    assert named["all-reduce.3"].stream == ""


def test_branches_are_a_choice_of_doubtful_sites() -> None:
    branches = ((Thunk(thunk_id=2, kind="kGemm", instruction="dot.1"),), ())
    thunk = Thunk(thunk_id=1, kind="kConditional", branches=branches)
    tiny = build_tiny([matmul("custom-call.1")])
    plan = build_launch_plan(replace(tiny, thunks=ThunkSequence(thunks=(thunk,), source="made")))
    assert plan is not None
    assert plan.flow == (Choice(((Launch(0),), ())),)
    assert plan.sites[0].emission == DOUBTFUL_EMISSION


def test_a_program_without_thunks_or_launches_has_no_plan() -> None:
    tiny = build_tiny()
    assert build_launch_plan(CompiledProgram(module=tiny.module, thunks=None)) is None
    assert build_launch_plan(replace(tiny, thunks=ThunkSequence(thunks=(), source="made"))) is None


@given(nodes=program_trees())
def test_every_launch_of_any_tree_is_a_site_once(nodes: list[object]) -> None:
    program = build_tiny(nodes)  # type: ignore[arg-type]
    plan = build_launch_plan(program)
    assert plan is not None
    assert program.thunks is not None
    launching = {thunk.thunk_id for thunk in program.thunks.walk() if thunk.kind not in ("kWhile", "kAsyncStart")}
    launching -= {thunk.thunk_id for thunk in program.thunks.walk() if thunk.kind == "kAsyncDone"}
    counted = {inner.thunk_id for thunk in program.thunks.walk() for inner in thunk.condition}
    found = [site.thunk_id for site in plan.sites]
    assert len(set(found)) == len(found)
    assert launching - counted <= set(found) <= launching


def test_the_tiny_program_has_its_sites() -> None:
    plan = build_launch_plan(build_tiny(TINY))
    assert plan is not None
    # 30 thunks: two loops, two starts, two dones, two conditions that known trip counts skip.
    assert len(plan.sites) == 30 - 8
