"""Simulated runs of small programs are linked right, and what does not fit is refused.

The simulator shares no code with the alignment. Steps of the tiny program have 144 dispatches or so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tiny_program import TINY, Async, Loop, Node, build_tiny, copy, kernel, matmul

from rocktools.correlate.edges import Confidence, Method
from rocktools.correlate.lane_alignment import AlignmentOptions
from rocktools.correlate.schedule import Alignment, align_dispatches, align_programs
from rocktools.demo.library_kernels import Copies
from rocktools.demo.scenario import Lanes, Scenario
from rocktools.demo.simulate import SimulatedTrace, simulate
from rocktools.findings import Severity
from rocktools.frames import DISPATCH_EDGES, DISPATCHES, require_frame
from rocktools.hlo.program import CompiledProgram

NUMPY = AlignmentOptions(compile_loops=False)
STEPS = Scenario(steps_count=12, copies=Copies.BLIT)


def compare(trace: SimulatedTrace, alignment: Alignment) -> pd.DataFrame:
    """Links beside the truth, in the order of dispatch ids."""
    edges = require_frame(alignment.edges, DISPATCH_EDGES)
    truth = trace.truth.sort_values("dispatch_id", ignore_index=True)
    assert edges["dispatch_id"].tolist() == truth["dispatch_id"].tolist()
    columns = ("instruction", "thunk_id", "execution_index", "iterations")
    found = edges.assign(**{f"true_{name}": truth[name].astype("object") for name in columns})
    found["origin"] = truth["origin"].astype(str)
    found["is_own"] = found["origin"] == "program"
    found["is_linked"] = found["instruction"].notna()
    found["is_right"] = found["is_own"] & (found["instruction"].astype(object) == found["true_instruction"])
    return found


def as_numbered_by_start(trace: SimulatedTrace) -> SimulatedTrace:
    """The same run, told by a tool that numbers dispatches by their starts."""
    ids = np.arange(1, len(trace.dispatches) + 1)
    return replace(
        trace, dispatches=trace.dispatches.assign(dispatch_id=ids), truth=trace.truth.assign(dispatch_id=ids)
    )


@pytest.fixture(scope="module")
def tiny() -> CompiledProgram:
    return build_tiny()


@pytest.mark.parametrize(
    "scenario, linked_ratio, order",
    [
        pytest.param(STEPS, 0.98, "launch", id="clean"),
        pytest.param(replace(STEPS, loss_ratio=0.03), 0.95, "launch", id="3 % lost"),
        pytest.param(replace(STEPS, lanes=Lanes.MERGED_QUEUE, has_stream_ids=False), 0.98, "launch", id="one queue"),
        pytest.param(replace(STEPS, cut_first_ratio=0.4, cut_last_ratio=0.4), 0.97, "launch", id="cut steps"),
        pytest.param(replace(STEPS, devices_count=2, steps_count=6), 0.98, "launch", id="two devices"),
        pytest.param(replace(STEPS, swapped_ids_ratio=0.1), 0.95, "launch", id="ids exchanged"),
        pytest.param(replace(STEPS, is_serialised=True), 0.97, "launch", id="counter pass"),
    ],
)
def test_links_of_a_simulated_run_are_right(
    tiny: CompiledProgram, scenario: Scenario, linked_ratio: float, order: str
) -> None:
    trace = simulate(tiny, scenario)
    alignment = align_dispatches(trace.dispatches, tiny, NUMPY)
    found = compare(trace, alignment)
    assert {device.order for device in alignment.devices} == {order}
    assert found.loc[found["is_own"], "is_linked"].mean() >= linked_ratio
    assert found.loc[found["is_linked"], "is_right"].mean() >= 0.99
    assert found.loc[found["confidence"] == "certain", "is_right"].all()
    assert not any(finding.severity is Severity.FAULT for finding in alignment.findings)
    right = found[found["is_right"]]
    assert (right["thunk_id"] == right["true_thunk_id"]).all()


def test_executions_and_iterations_that_are_sure_are_right(tiny: CompiledProgram) -> None:
    trace = simulate(tiny, replace(STEPS, loss_ratio=0.02))
    found = compare(trace, align_dispatches(trace.dispatches, tiny, NUMPY))
    sure = found[found["is_iteration_sure"] & found["is_right"]]
    assert len(sure) > 0.9 * found["is_own"].sum()
    assert (sure["execution_index"] == sure["true_execution_index"]).all()
    texts = [sure[name].astype(object).where(sure[name].notna(), "") for name in ("iterations", "true_iterations")]
    assert (texts[0] == texts[1]).all()
    assert {"0/0", "2/4"} <= set(texts[0])


def test_streams_by_start_do_where_ids_say_nothing(tiny: CompiledProgram) -> None:
    trace = as_numbered_by_start(simulate(tiny, STEPS))
    alignment = align_dispatches(trace.dispatches, tiny, NUMPY)
    found = compare(trace, alignment)
    assert {device.order for device in alignment.devices} <= {"streams", "launch"}
    assert found.loc[found["is_own"], "is_linked"].mean() > 0.9
    assert found.loc[found["confidence"] == "certain", "is_right"].all()


def test_the_order_of_rows_does_not_matter(tiny: CompiledProgram) -> None:
    trace = simulate(tiny, replace(STEPS, loss_ratio=0.02, steps_count=5))
    shuffled = trace.dispatches.sample(frac=1, random_state=3)
    first, second = (align_dispatches(rows, tiny, NUMPY).edges for rows in (trace.dispatches, shuffled))
    pd.testing.assert_frame_equal(first, second)


def test_numpy_and_numba_give_the_same_links(tiny: CompiledProgram) -> None:
    pytest.importorskip("numba")
    trace = simulate(tiny, replace(STEPS, loss_ratio=0.05, foreign_ratio=0.02, substituted_kernels_count=1))
    for told in (trace, as_numbered_by_start(trace)):
        plain, compiled = (
            align_dispatches(told.dispatches, tiny, AlignmentOptions(compile_loops=each)).edges
            for each in (False, True)
        )
        pd.testing.assert_frame_equal(plain, compiled, check_exact=False, rtol=1e-6)


def test_the_method_says_what_a_link_rests_on(tiny: CompiledProgram) -> None:
    trace = simulate(tiny, STEPS)
    found = compare(trace, align_dispatches(trace.dispatches, tiny, NUMPY)).query("is_right")
    by_instruction = found.groupby("instruction", observed=True)["method"].agg(lambda each: set(each.astype(str)))
    assert by_instruction["gemm_fusion_dot.1"] == {Method.THUNK.value}  # its kernel is its own
    assert by_instruction["loop_add_fusion.2"] == {Method.SCHEDULE.value}  # it shares another's
    assert by_instruction["custom-call.2"] == {Method.SCHEDULE.value}  # a library's


def test_substituted_kernels_are_linked_and_never_certain(tiny: CompiledProgram) -> None:
    trace = simulate(tiny, replace(STEPS, substituted_kernels_count=2, seed=4))
    found = compare(trace, align_dispatches(trace.dispatches, tiny, NUMPY))
    names = trace.dispatches.sort_values("dispatch_id")["kernel_name"].astype(str).to_numpy()
    substituted = found[[name.endswith("__autotuned_v2") for name in names]]
    assert len(trace.substituted) == 2
    assert substituted["is_right"].mean() > 0.9
    assert set(substituted["confidence"].astype(str)) <= {"likely", "ambiguous", "unlinked"}


def test_ambiguous_dispatches_have_candidates_and_no_instruction() -> None:
    # Two copies in a row, of which the run does one with a kernel: nothing tells which.
    nodes: list[Node] = [kernel("a.1"), Loop("while.1", [kernel("b.1"), *map(copy, ("copy.1", "copy.2"))], 20, [])]
    program = build_tiny(nodes)
    trace = simulate(program, Scenario(copies=Copies.BLIT, warm_up_dispatches_count=0, other_runs_count=0))
    one = trace.dispatches["kernel_name"].astype(str).str.contains("copyBuffer")
    kept = trace.dispatches[~one | (one.cumsum() % 2 == 0)]
    edges = align_dispatches(kept, program, NUMPY).edges
    ambiguous = edges[edges["confidence"] == Confidence.AMBIGUOUS.value]
    assert len(ambiguous) > 40
    assert ambiguous["instruction"].isna().all()
    assert {frozenset(text.split(", ")) for text in ambiguous["candidates"]} == {frozenset({"copy.1", "copy.2"})}
    assert (ambiguous["candidates_count"] == 2).all()
    assert ambiguous["probability_ratio"].between(0.4, 0.9).all()


OTHER: list[Node] = [
    kernel("loop_add_fusion.1"),  # shares names with the tiny program, as all programs of XLA do
    kernel("loop_broadcast_fusion.1", grid=4),
    Loop("while.7", [kernel("fusion.71", grid=5), matmul("custom-call.9"), kernel("fusion.72", grid=6)], 6, []),
    Async("all-reduce-start.9", [kernel("fusion.73", grid=8)]),
    kernel("input_transpose_fusion.4", grid=2),
]


def test_the_dump_of_another_program_is_refused(tiny: CompiledProgram) -> None:
    trace = simulate(tiny, STEPS)
    alignment = align_dispatches(trace.dispatches, build_tiny(OTHER, "jit_other"), NUMPY)
    [finding] = alignment.findings
    assert finding.rule == "program-does-not-fit"
    assert finding.severity is Severity.FAULT
    assert set(alignment.edges["confidence"].astype(str)) <= {"ambiguous", "unlinked"}
    assert alignment.edges["instruction"].isna().all()


def test_of_several_programs_each_dispatch_belongs_to_the_one_it_fits(tiny: CompiledProgram) -> None:
    other = build_tiny(OTHER, "jit_other")
    plain = Scenario(steps_count=4, copies=Copies.BLIT, warm_up_dispatches_count=0, other_runs_count=0)
    first, second = simulate(tiny, plain), simulate(other, plain)
    shift = int(first.dispatches["end_ns"].max() - second.dispatches["start_ns"].min()) + 1_000_000
    last = int(first.dispatches["dispatch_id"].max())
    later = second.dispatches.assign(
        dispatch_id=second.dispatches["dispatch_id"] + last,
        start_ns=second.dispatches["start_ns"] + shift,
        end_ns=second.dispatches["end_ns"] + shift,
        kernel_name=second.dispatches["kernel_name"].astype(object),
    )
    both = pd.concat([first.dispatches.astype({"kernel_name": object}), later], ignore_index=True)
    both = both.astype({"kernel_name": "category"})
    edges = align_programs(both, [other, tiny], NUMPY).edges
    true = [*["jit_tiny"] * len(first.dispatches), *["jit_other"] * len(second.dispatches)]
    linked = edges["instruction"].notna().to_numpy()
    assert linked.mean() > 0.95
    assert (edges["program_id"].astype(str).to_numpy() == np.array(true))[linked].mean() > 0.99
    certain = (edges["confidence"] == "certain").to_numpy()
    assert (edges["program_id"].astype(str).to_numpy() == np.array(true))[certain].all()
    executions = edges[linked].groupby("program_id", observed=True)["execution_index"].max()
    assert executions.to_dict() == {"jit_tiny": 3, "jit_other": 3}


def test_a_program_without_a_thunk_sequence_takes_no_part(tiny: CompiledProgram) -> None:
    trace = simulate(tiny, replace(STEPS, steps_count=2))
    bare = CompiledProgram(module=tiny.module, thunks=None)
    alignment = align_dispatches(trace.dispatches, bare, NUMPY)
    assert [finding.rule for finding in alignment.findings] == ["program-without-thunks"]
    assert set(alignment.edges["confidence"].astype(str)) == {"unlinked"}
    require_frame(alignment.edges, DISPATCH_EDGES)


def test_a_program_that_is_too_long_is_left_out_and_told(tiny: CompiledProgram) -> None:
    trace = simulate(tiny, replace(STEPS, steps_count=3))
    other = build_tiny(OTHER, "jit_other")  # 9 sites; the tiny program has 22
    alignment = align_programs(trace.dispatches, [other, tiny], replace(NUMPY, most_sites_count=25))
    [finding] = [each for each in alignment.findings if each.rule == "program-too-long"]
    assert "jit_tiny" in finding.message
    assert "jit_tiny" not in set(alignment.edges["program_id"].dropna())


def test_no_dispatch_has_no_link(tiny: CompiledProgram) -> None:
    alignment = align_dispatches(DISPATCHES.empty(), tiny, NUMPY)
    assert len(require_frame(alignment.edges, DISPATCH_EDGES)) == 0
    assert alignment.devices == ()


@pytest.mark.parametrize("count", [1, 2, 7, 30])
def test_a_few_dispatches_are_no_failure(tiny: CompiledProgram, count: int) -> None:
    trace = simulate(tiny, replace(STEPS, warm_up_dispatches_count=0, other_runs_count=0))
    edges = align_dispatches(trace.dispatches.head(count), tiny, NUMPY).edges
    assert len(require_frame(edges, DISPATCH_EDGES)) == count


def test_dispatches_of_nothing_known_stay_unlinked(tiny: CompiledProgram) -> None:
    trace = simulate(tiny, replace(STEPS, steps_count=2))
    names = trace.dispatches.assign(kernel_name=pd.Categorical(["unheard_of"] * len(trace.dispatches)))
    alignment = align_dispatches(names, tiny, NUMPY)
    assert set(alignment.edges["confidence"].astype(str)) == {"unlinked"}
    assert [finding.rule for finding in alignment.findings] == ["program-does-not-fit"]


def test_the_tiny_program_is_what_these_tests_take_it_for() -> None:
    assert len(TINY) == 7
