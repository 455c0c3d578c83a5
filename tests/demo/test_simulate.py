"""Simulated traces: counts, order on streams, the truth, and everything that a scenario can do to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtral_program import mixtral_program
from tiny_program import TINY, Async, Launch, Loop, all_to_all, build_tiny, kernel, program_trees

from rocktools.demo.library_kernels import COPY_NAME, Copies
from rocktools.demo.scenario import Lanes, Scenario
from rocktools.demo.simulate import SimulatedTrace, simulate
from rocktools.errors import UsageError
from rocktools.frames import DISPATCHES, require_frame

QUIET = Scenario(warm_up_dispatches_count=0, other_runs_count=0, copies=Copies.BLIT)
STEPS = QUIET.steps_count

# Executions of one step of TINY by hand: while.1 runs 3 times, while.2 in it 5 times, conditions never.
EXPECTED = {
    **dict.fromkeys(("copy.1", "loop_broadcast_fusion.1", "loop_broadcast_fusion.2", "copy.3"), 1),
    **dict.fromkeys(("wrapped_convert.2", "input_transpose_fusion.1"), 1),
    **dict.fromkeys(("loop_add_fusion.1", "copy.2", "all-reduce-start.1", "loop_gather_fusion.1"), 3),
    **dict.fromkeys(("custom-call.1", "sort.1", "all-reduce.3"), 3),
    **dict.fromkeys(("loop_add_fusion.2", "input_reduce_fusion.1", "custom-call.2", "all-to-all.1"), 15),
    **dict.fromkeys(("gemm_fusion_dot.1", "loop_multiply_fusion.1", "loop_multiply_fusion.2"), 15),
    **dict.fromkeys(("all-reduce-start.2", "wrapped_convert.1"), 15),
}


@pytest.fixture(scope="module")
def tiny():
    return build_tiny()


@pytest.fixture(scope="module")
def quiet(tiny) -> SimulatedTrace:
    return simulate(tiny, QUIET)


def joined(trace: SimulatedTrace) -> pd.DataFrame:
    """Dispatches and truth side by side, in the order of launch."""
    truth = trace.truth.drop(columns="dispatch_id")
    return pd.concat([trace.dispatches, truth], axis=1).sort_values("dispatch_id", ignore_index=True)


def ours(trace: SimulatedTrace) -> pd.DataFrame:
    rows = joined(trace)
    return rows[rows["origin"] == "program"].reset_index(drop=True)


# What is there


def test_every_thunk_runs_as_often_as_the_loops_say(quiet):
    rows = ours(quiet)
    first_kernels = rows[rows["kernel_index"] == 0]
    counts = first_kernels.groupby(["instruction", "execution_index"], observed=True).size()
    assert counts.to_dict() == {(name, step): count for name, count in EXPECTED.items() for step in range(STEPS)}


def test_a_quiet_trace_holds_the_program_only(quiet):
    assert set(quiet.truth["origin"]) == {"program"}
    assert len(quiet.dispatches) == quiet.launched_count == len(quiet.truth)


def test_dispatches_keep_their_contract(quiet):
    assert require_frame(quiet.dispatches, DISPATCHES) is quiet.dispatches
    by_key = quiet.dispatches.sort_values(list(DISPATCHES.sort), kind="stable")
    assert by_key["dispatch_id"].tolist() == quiet.dispatches["dispatch_id"].tolist()
    assert quiet.dispatches["dispatch_id"].is_unique
    assert (quiet.dispatches["end_ns"] > quiet.dispatches["start_ns"]).all()


def test_generated_kernels_have_the_names_and_sizes_of_the_thunk_sequence(tiny, quiet):
    thunks = {thunk.thunk_id: thunk for thunk in tiny.thunks.walk()}
    for row in ours(quiet).itertuples():
        thunk = thunks[row.thunk_id]
        assert row.instruction == thunk.instruction
        if thunk.kernel and row.kernel_index == 0:
            assert (row.kernel_name, row.raw_kernel_name) == (thunk.kernel, f"{thunk.kernel}.kd")
            # Work-items, not workgroups.
            assert row.grid_workitems_x == thunk.grid_workgroups[0] * 256
            assert (row.workgroup_workitems_x, row.grid_workitems_y) == (256, 1)


def test_library_thunks_launch_library_kernels(quiet):
    rows = ours(quiet)
    names = rows[rows["kernel_index"] == 0].groupby("instruction", observed=True)["raw_kernel_name"].agg(set)
    for name in ("all-reduce.3", "all-reduce-start.2", "all-to-all.1"):
        assert names[name] == {"ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<5120ul>) [clone .kd]"}
    assert names["copy.1"] == {f"{COPY_NAME}.kd"}
    [matmul_name] = names["custom-call.1"]
    assert matmul_name.startswith("Cijk_")
    assert "_UserArgs_MT" in matmul_name
    assert names["custom-call.2"] == {matmul_name}  # of the same shapes
    merges = rows[(rows["instruction"] == "sort.1") & (rows["kernel_index"] > 0)]
    assert set(merges["kernel_name"].str.contains("rocprim")) == {True}


def test_iterations_are_those_of_the_loops(quiet):
    rows = ours(quiet)
    rows = rows[(rows["instruction"] == "custom-call.2") & (rows["kernel_index"] == 0) & (rows["execution_index"] == 1)]
    assert rows["iterations"].tolist() == [f"{outer}/{inner}" for outer in range(3) for inner in range(5)]
    assert ours(quiet).loc[lambda all_rows: all_rows["instruction"] == "copy.1", "iterations"].isna().all()


def test_copies_are_blit_kernels_dma_or_both(tiny):
    counts = {
        copies: int((simulate(tiny, replace(QUIET, copies=copies)).dispatches["kernel_name"] == COPY_NAME).sum())
        for copies in Copies
    }
    assert (counts[Copies.DMA], counts[Copies.BLIT]) == (0, STEPS * (1 + 3 + 1))
    mixed = Scenario(copies=Copies.MIXED, warm_up_dispatches_count=0, other_runs_count=0, steps_count=1)
    many = build_tiny([Launch(f"copy.{number}", "kCopy", opcode="copy") for number in range(64)])
    assert 10 < len(simulate(many, mixed).dispatches) < 54


def test_an_all_to_all_can_be_two_kernels():
    trace = simulate(build_tiny([all_to_all("all-to-all.1")]), replace(QUIET, all_to_all_kernels_count=2))
    assert ours(trace)["kernel_index"].tolist() == [0, 1] * STEPS


def test_a_custom_call_launches_one_to_five_kernels():
    nodes = [Launch(f"te_fused_attn_forward_ffi.{number}", "kCustomCall", opcode="custom-call") for number in range(40)]
    trace = simulate(build_tiny(nodes), replace(QUIET, steps_count=1))
    assert set(ours(trace).groupby("thunk_id").size()) == {1, 2, 3, 4, 5}


# Order and time


def test_a_stream_runs_its_kernels_in_the_order_of_launch(quiet):
    for _, rows in joined(quiet).groupby("stream_id"):
        assert rows["start_ns"].is_monotonic_increasing
        assert rows["end_ns"].is_monotonic_increasing
        overlap = rows["end_ns"].to_numpy()[:-1] - rows["start_ns"].to_numpy()[1:]
        assert overlap.max() <= 500


def test_nothing_starts_before_it_is_launched_and_ids_follow_the_launches(quiet):
    rows = joined(quiet)
    assert (rows["launch_ns"] < rows["start_ns"]).all()
    assert rows["launch_ns"].is_monotonic_increasing
    assert rows["dispatch_id"].tolist() == list(range(1, len(rows) + 1))


def test_asynchronous_collectives_have_a_stream_and_wait_both_ways(quiet):
    """The collective starts after what was launched before it, and the first kernel after the done after its end."""
    rows = ours(quiet)
    assert set(rows.loc[rows["stream_id"] == 2, "instruction"]) == {"all-reduce-start.1", "all-reduce-start.2"}
    names = rows["instruction"].astype(str).tolist()
    starts, ends = rows["start_ns"].tolist(), rows["end_ns"].tolist()
    pairs = 0
    for at, name in enumerate(names):
        if name == "all-reduce-start.2":
            before = at - 1
            after = next(
                later for later in range(at + 1, len(names)) if names[later] not in ("wrapped_convert.1", name)
            )
            assert starts[at] >= ends[before]
            assert starts[after] >= ends[at]
            assert starts[at + 1] < ends[at]  # the conversion inside runs meanwhile
            pairs += 1
    assert pairs == 15 * STEPS


def test_a_merged_queue_starts_its_packets_one_after_the_other(tiny):
    rows = joined(simulate(tiny, replace(QUIET, lanes=Lanes.MERGED_QUEUE)))
    assert rows["queue_id"].nunique() == 1
    assert rows["stream_id"].nunique() == 2
    assert rows["start_ns"].is_monotonic_increasing
    assert (rows["end_ns"].to_numpy()[:-1] > rows["start_ns"].to_numpy()[1:] + 500).any()


def test_on_one_stream_nothing_runs_meanwhile(tiny):
    rows = joined(simulate(tiny, replace(QUIET, lanes=Lanes.ONE_STREAM)))
    assert rows["stream_id"].nunique() == rows["queue_id"].nunique() == 1
    assert (rows["end_ns"].to_numpy()[:-1] - rows["start_ns"].to_numpy()[1:]).max() <= 500


def test_streams_can_be_unknown_while_queues_are_not(tiny):
    trace = simulate(tiny, replace(QUIET, has_stream_ids=False))
    assert set(trace.dispatches["stream_id"]) == {0}
    assert trace.dispatches["queue_id"].nunique() == 2


def test_a_counter_pass_runs_one_kernel_at_a_time(tiny):
    rows = joined(simulate(tiny, replace(QUIET, is_serialised=True)))
    assert (rows["start_ns"].to_numpy()[1:] - rows["end_ns"].to_numpy()[:-1]).min() > 10_000


def test_devices_run_the_same_program_at_the_same_time(tiny):
    trace = simulate(tiny, replace(QUIET, devices_count=3))
    rows = joined(trace)
    per_device = [own for _, own in rows.groupby("agent_id")]
    assert len(per_device) == 3
    for own in per_device[1:]:
        assert own["instruction"].tolist() == per_device[0]["instruction"].tolist()
        assert own["start_ns"].tolist() != per_device[0]["start_ns"].tolist()
    assert not set(per_device[0]["queue_id"]) & set(per_device[1]["queue_id"])
    assert rows["dispatch_id"].tolist() == list(range(1, len(rows) + 1))
    assert rows["agent_id"].diff().ne(0).sum() > 100  # launches of the devices alternate


# What else is there


def test_warm_up_comes_before_the_first_step_and_the_other_executable_around_every_step(tiny):
    trace = simulate(tiny, replace(QUIET, warm_up_dispatches_count=120, other_runs_count=2))
    rows = joined(trace)
    parts = list(zip(rows["origin"].astype(str), rows["execution_index"].fillna(-1).tolist(), strict=True))
    runs = [part for part, before in zip(parts, [None, *parts], strict=False) if part != before]
    other = ("other executable", -1)
    steps = [part for step in range(STEPS) for part in (("program", step), other)]
    assert runs == [("warm-up", -1), other, *steps]
    assert (rows["origin"] == "warm-up").sum() == 120
    assert rows["kernel_name"].astype(str).isin(["RedzoneAllocatorKernelImpl"]).any()


def test_the_other_executable_shares_names_with_the_program_some_with_their_geometry(tiny):
    rows = joined(simulate(tiny, replace(QUIET, other_runs_count=1)))
    sizes = {
        origin: set(zip(own["kernel_name"].astype(str), own["grid_workitems_x"].astype(int), strict=True))
        for origin, own in rows.groupby("origin", observed=True)
    }
    own, other = sizes["program"], sizes["other executable"]
    shared_names = {name for name, _ in own if not name.startswith("__amd")} & {name for name, _ in other}
    assert len(shared_names) >= 5
    assert len({name for name, _ in own & other if not name.startswith("__amd")}) in range(1, len(shared_names))


def test_truth_is_missing_for_what_the_program_did_not_launch(tiny):
    trace = simulate(tiny, Scenario(foreign_ratio=0.1))
    strange = trace.truth["origin"] != "program"
    known = ("program_id", "instruction", "thunk_id", "kernel_index", "execution_index")
    for name in known:
        assert (trace.truth[name].isna() == strange).all()
    assert trace.truth.loc[strange, "iterations"].isna().all()
    assert set(trace.truth["program_id"].dropna()) == {"jit_tiny"}
    assert set(trace.truth.loc[strange, "origin"]) == {"warm-up", "other executable", "foreign"}


def test_foreign_kernels_stand_inside_the_steps(tiny):
    trace = simulate(tiny, replace(QUIET, foreign_ratio=0.2, steps_count=20))
    count = int((trace.truth["origin"] == "foreign").sum())
    own = len(trace.truth) - count
    # Binomial: 0.2 of about 8,000 rows (waits counted too), standard deviation 36.
    assert 0.17 * own < count < 0.29 * own
    expected = {name: times * 20 for name, times in EXPECTED.items()}
    rows = ours(trace)
    assert Counter(rows.loc[rows["kernel_index"] == 0, "instruction"].astype(str)) == expected


def test_a_substituted_kernel_has_another_name_and_geometry_under_the_same_thunks(tiny, quiet):
    trace = simulate(tiny, replace(QUIET, substituted_kernels_count=2))
    assert len(trace.substituted) == 2
    before, after = ours(quiet), ours(trace)
    assert before["thunk_id"].tolist() == after["thunk_id"].tolist()
    is_changed = before["kernel_name"].astype(str) != after["kernel_name"].astype(str)
    assert set(before.loc[is_changed, "kernel_name"]) == set(trace.substituted)
    assert not set(after["kernel_name"]) & set(trace.substituted)


# What goes wrong


def test_records_are_lost_by_chance(tiny):
    scenario = replace(QUIET, steps_count=40, loss_ratio=0.05)
    trace = simulate(tiny, scenario)
    whole = simulate(tiny, replace(scenario, loss_ratio=0.0))
    # Binomial: 5 % of about 11,000, standard deviation 23; five of them.
    lost = whole.launched_count - len(trace.dispatches)
    assert abs(lost - 0.05 * whole.launched_count) < 5 * np.sqrt(0.05 * 0.95 * whole.launched_count)
    kept = whole.dispatches[whole.dispatches["dispatch_id"].isin(trace.dispatches["dispatch_id"])]
    assert kept["start_ns"].tolist() == trace.dispatches["start_ns"].tolist()
    assert trace.launched_count == whole.launched_count


def test_a_burst_loses_records_that_follow_each_other(tiny, quiet):
    trace = simulate(tiny, replace(QUIET, bursts_count=1, burst_dispatches_count=50))
    lost = ~quiet.dispatches["dispatch_id"].isin(trace.dispatches["dispatch_id"])
    assert np.ptp(np.flatnonzero(lost.to_numpy())) == 49
    assert lost.sum() == 50


def test_recording_can_begin_and_end_inside_a_step(tiny):
    scenario = replace(QUIET, warm_up_dispatches_count=50)
    whole = simulate(tiny, scenario)
    cut = simulate(tiny, replace(scenario, cut_first_ratio=0.4, cut_last_ratio=0.25))
    sizes, whole_sizes = (trace.truth["execution_index"].value_counts().sort_index().tolist() for trace in (cut, whole))
    assert set(cut.truth["origin"]) == {"program"}
    shares = [size / all_of_it for size, all_of_it in zip(sizes, whole_sizes, strict=True)]
    assert shares == pytest.approx([1 - 0.4, 1.0, 1 - 0.25], abs=0.02)


def test_swapped_times_are_the_wrong_way_round_on_one_stream(tiny, quiet):
    trace = simulate(tiny, replace(QUIET, swapped_times_ratio=0.1))
    inverted = 0
    for _, rows in joined(trace).groupby("stream_id"):
        inverted += int((rows["start_ns"].diff() < 0).sum())
    assert 10 < inverted < 0.1 * len(trace.dispatches)
    spans = [frame["end_ns"].max() - frame["start_ns"].min() for frame in (trace.dispatches, quiet.dispatches)]
    assert spans[0] == spans[1]


def test_swapped_ids_are_of_two_streams(tiny, quiet):
    trace = simulate(tiny, replace(QUIET, swapped_ids_ratio=0.5))
    before, after = joined(quiet), joined(trace)
    assert sorted(before["dispatch_id"]) == sorted(after["dispatch_id"])
    moved = before["start_ns"].to_numpy() != after["start_ns"].to_numpy()
    assert moved.any()
    at = np.flatnonzero(moved)
    assert set(after["stream_id"].to_numpy()[at]) == {1, 2}
    for _, rows in after.groupby("stream_id"):
        assert rows["start_ns"].is_monotonic_increasing  # each stream keeps its order


def test_the_clock_of_the_communication_stream_can_be_ahead(tiny, quiet):
    before, after = joined(quiet), joined(simulate(tiny, replace(QUIET, communication_skew_ns=50_000)))
    shift = after["start_ns"] - before["start_ns"]
    assert shift.groupby(before["stream_id"]).agg(set).to_dict() == {1: {0}, 2: {50_000}}


@given(
    nodes=program_trees(),
    scenario=st.builds(
        Scenario,
        seed=st.integers(0, 1_000),
        steps_count=st.integers(1, 3),
        devices_count=st.integers(1, 2),
        copies=st.sampled_from(Copies),
        lanes=st.sampled_from(Lanes),
        warm_up_dispatches_count=st.integers(0, 5),
        other_runs_count=st.integers(0, 2),
        foreign_ratio=st.sampled_from([0.0, 0.3]),
        substituted_kernels_count=st.integers(0, 2),
        loss_ratio=st.sampled_from([0.0, 0.1, 1.0]),
        bursts_count=st.integers(0, 2),
        burst_dispatches_count=st.integers(0, 20),
        cut_first_ratio=st.sampled_from([0.0, 0.5, 1.0]),
        cut_last_ratio=st.sampled_from([0.0, 0.5, 1.0]),
        swapped_times_ratio=st.sampled_from([0.0, 1.0]),
        swapped_ids_ratio=st.sampled_from([0.0, 1.0]),
        has_host_calls=st.booleans(),
        is_serialised=st.booleans(),
    ),
)
@settings(max_examples=60)
def test_any_program_under_any_scenario_keeps_the_contract_and_the_truth(nodes, scenario):
    program = build_tiny(nodes)
    trace = simulate(program, scenario)
    require_frame(trace.dispatches, DISPATCHES)
    assert trace.truth["dispatch_id"].tolist() == trace.dispatches["dispatch_id"].tolist()
    assert trace.dispatches["dispatch_id"].is_unique
    assert (trace.dispatches["end_ns"] > trace.dispatches["start_ns"]).all()
    assert len(trace.dispatches) <= trace.launched_count
    assert program.thunks is not None
    named = {(thunk.thunk_id, thunk.instruction) for thunk in program.thunks.walk()}
    rows = ours(trace)
    assert set(zip(rows["thunk_id"].tolist(), rows["instruction"].tolist(), strict=True)) <= named
    assert set(rows["execution_index"].tolist()) <= set(range(scenario.steps_count))


# Chance


def test_the_same_seed_gives_the_same_trace_and_another_seed_another(tiny):
    scenario = Scenario(seed=5, loss_ratio=0.02, foreign_ratio=0.02, substituted_kernels_count=1, devices_count=2)
    first, second, other = (simulate(tiny, one) for one in (scenario, scenario, replace(scenario, seed=6)))
    pd.testing.assert_frame_equal(first.dispatches, second.dispatches)
    pd.testing.assert_frame_equal(first.truth, second.truth)
    assert first.dispatches["start_ns"].tolist() != other.dispatches["start_ns"].tolist()


def test_an_empty_recording_is_an_empty_frame(tiny):
    trace = simulate(tiny, replace(QUIET, loss_ratio=1.0))
    assert (len(trace.dispatches), len(trace.truth)) == (0, 0)
    require_frame(trace.dispatches, DISPATCHES)


def test_a_program_of_one_kernel_is_simulated():
    trace = simulate(build_tiny([kernel("fusion.1")]), replace(QUIET, other_runs_count=1, warm_up_dispatches_count=3))
    assert Counter(trace.truth["origin"].astype(str))["program"] == STEPS


def test_a_program_without_a_thunk_sequence_is_refused(tiny):
    with pytest.raises(UsageError, match="thunk sequence"):
        simulate(replace(tiny, thunks=None))


@pytest.mark.parametrize(
    "wrong", [{"loss_ratio": 1.5}, {"cut_first_ratio": -0.1}, {"steps_count": 0}, {"bursts_count": -1}]
)
def test_impossible_scenarios_are_refused(wrong):
    with pytest.raises(UsageError):
        Scenario(**wrong)


@pytest.mark.parametrize("build, sites_count", [("triton", 371), ("blaslt", 365)])
def test_the_mixtral_step_is_simulated_whole(shared, build, sites_count):
    """About 24.5 thousand dispatches a step (triton), 26.6 (blaslt: with helpers), as an independent simulation had."""
    program = mixtral_program(shared, build)
    trace = simulate(program, replace(QUIET, steps_count=1))
    first_kernels = trace.truth["kernel_index"] == 0
    assert trace.truth.loc[first_kernels, "thunk_id"].nunique() == sites_count
    assert 24_000 < first_kernels.sum() < 25_000
    assert (len(trace.dispatches) > first_kernels.sum()) or build == "triton"


def test_tiny_is_the_tree_that_the_counts_are_of():
    def names(nodes):
        for node in nodes:
            yield node.instruction
            if isinstance(node, Async):
                yield from names(node.inside)
            elif isinstance(node, Loop):
                yield from names(node.body)

    assert set(names(TINY)) - {"while.1", "while.2"} == set(EXPECTED)
