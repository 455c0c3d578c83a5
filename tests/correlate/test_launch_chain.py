"""The chain over launch sites agrees with an enumeration of the ways through small programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_program import Loop, Node, build_tiny, copy, kernel, program_trees

from rocktools.correlate.launch_chain import (
    LaunchGraph,
    build_launch_chain,
    build_launch_graph,
    passed_ranges,
    sum_between,
    sum_ways,
)
from rocktools.correlate.launch_sites import build_launch_plan


def make_graph(*programs: Sequence[Node], main_stream_only: bool = False) -> LaunchGraph:
    plans = [build_launch_plan(build_tiny(nodes)) for nodes in programs]
    return build_launch_graph([plan for plan in plans if plan], main_stream_only=main_stream_only)


#   a [ b c ]*3 d
LOOPED: list[Node] = [
    kernel("a.1"),
    Loop("while.1", [kernel("b.1"), copy("c.1")], 3, []),
    kernel("d.1"),
]


def enumerate_next(graph: LaunchGraph, emission: np.ndarray, origin: int, depth: int = 60) -> np.ndarray:
    """Probability that each site leaves the next dispatch after `origin`: one arc after the other, no matrix algebra.

    What leaves the program is not followed; `silent` are the probabilities of leaving nothing.
    """
    found = np.zeros(graph.sites_count)
    at = {origin: 1.0}
    for _ in range(depth):
        following: dict[int, float] = {}
        for site, probability in at.items():
            for target in np.flatnonzero(graph.arcs[site]):
                arrived = probability * graph.arcs[site, target]
                found[target] += arrived * emission[target]
                following[int(target)] = following.get(int(target), 0.0) + arrived * (1 - emission[target])
        at = following
    return found


@pytest.mark.parametrize("origin", range(4))
def test_moves_are_the_sum_over_all_ways_with_everything_between_unseen(origin: int) -> None:
    graph = make_graph(LOOPED)
    emission = np.array([0.98, 0.9, 0.5, 0.97])
    expected = enumerate_next(graph, emission, origin)
    chain = build_launch_chain(graph, emission, np.zeros(4))
    # What is left leaves the program, and enters it again from the outside.
    assert (chain.move[origin, :4] >= expected).all()
    assert chain.move[origin].sum() == pytest.approx(1, abs=1e-6)
    assert sum_ways(graph.arcs, 1 - emission)[origin] * emission == pytest.approx(expected, rel=1e-9)


def test_a_loop_of_three_trips_goes_round_with_two_thirds() -> None:
    graph = make_graph(LOOPED)
    a, b, c, d = range(4)
    assert graph.arcs[a, b] == 1
    assert graph.arcs[b, c] == 1
    assert graph.arcs[c, b] == pytest.approx(2 / 3)
    assert graph.arcs[c, d] == pytest.approx(1 / 3)
    assert graph.entry.tolist() == [1, 0, 0, 0]
    assert graph.leaving[d] + graph.arcs[d, a] == pytest.approx(1)


@given(nodes=program_trees(), main_stream_only=st.booleans())
def test_whatever_the_program_all_ways_out_of_a_site_add_up_to_one(nodes: list[Node], main_stream_only: bool) -> None:
    graph = make_graph(nodes, main_stream_only=main_stream_only)
    assert graph.entry.sum() == pytest.approx(1)
    reached = graph.entry > 0  # a loop of no trips is never reached
    for _ in range(graph.sites_count):
        reached |= (graph.arcs[reached] > 0).any(axis=0)
    assert (graph.arcs.sum(axis=1) + graph.leaving)[reached] == pytest.approx(np.ones(int(reached.sum())))
    chain = build_launch_chain(graph, np.full(graph.sites_count, 0.9), np.zeros(graph.sites_count))
    assert (chain.move > 0).all()


@given(seed=st.integers(0, 1000), size=st.integers(1, 6), silence=st.floats(0, 0.999))
def test_sweeps_and_the_solution_as_a_whole_agree(seed: int, size: int, silence: float) -> None:
    rng = np.random.default_rng(seed)
    arcs = rng.dirichlet(np.ones(size + 1), size)[:, :size]
    silent = np.full(size, silence)
    expected = arcs @ np.linalg.inv(np.eye(size) - silent[:, None] * arcs)
    assert sum_ways(arcs, silent) == pytest.approx(expected, rel=1e-6)


def test_what_is_passed_between_two_sites_goes_round_the_innermost_loop_around_both() -> None:
    #        a [ b c ] d    values: what a way passes
    graph = make_graph(LOOPED)
    values = np.array([1.0, 10.0, 100.0, 1000.0])
    a, b, c, d = range(4)
    for origin, target, expected in (
        (a, b, 0),
        (a, d, 110),  # the loop once
        (b, b, 100),  # round the loop: c
        (c, b, 0),  # the next iteration follows directly
        (b, d, 100),
        (d, a, 0),  # the next step
        (c, a, 1000),  # out of the loop, through d, to the next step
        (d, d, 111),
    ):
        assert sum_between(graph, values, np.array([origin]), np.array([target])) == [expected], (origin, target)


@given(nodes=program_trees(), seed=st.integers(0, 100))
def test_ranges_and_sums_of_what_is_passed_agree(nodes: list[Node], seed: int) -> None:
    graph = make_graph(nodes, nodes)
    values = np.random.default_rng(seed).uniform(1, 2, graph.sites_count)
    origin, target = (axis.ravel() for axis in np.indices((graph.sites_count, graph.sites_count)))
    begins, ends = passed_ranges(graph, origin, target)
    assert (begins <= ends).all()
    expected = [
        sum(values[begin:end].sum() for begin, end in zip(*pair, strict=True))
        for pair in zip(begins, ends, strict=True)
    ]
    assert sum_between(graph, values, origin, target) == pytest.approx(np.array(expected))


def test_two_programs_share_the_outside_and_may_follow_one_another() -> None:
    graph = make_graph([kernel("a.1"), kernel("b.1")], [kernel("c.1")])
    chain = build_launch_chain(graph, np.full(3, 0.98), np.zeros(3))
    a, b, c, outside = range(4)
    assert graph.program_of.tolist() == [0, 0, 1]
    assert chain.is_real[b, a]
    assert chain.is_real[b, c]
    assert chain.is_real[c, a]
    assert chain.is_real[outside, c]
    assert graph.common_depth(np.array([a, a]), np.array([b, c])).tolist() == [0, -1]


def test_a_lost_kernel_must_leave_a_pause_unless_it_ran_beside_the_others() -> None:
    graph = make_graph(LOOPED)
    emission, duration = np.array([0.98, 0.98, 0.5, 0.98]), np.array([1e3, 2e3, 4e3, 8e3])
    needed = build_launch_chain(graph, emission, duration).needed_pause_ns
    a, _, _, d = range(4)
    # Of b and c only b leaves a dispatch as a rule; it may have been as short as 0.6 of its mean.
    assert needed[a, d] == pytest.approx(0.6 * 2e3)


def test_neighbours_that_nothing_tells_apart_are_found() -> None:
    graph = make_graph([copy("c.1"), copy("c.2"), kernel("a.1"), copy("c.3")])
    assert [run.tolist() for run in graph.look_alikes] == [[0, 1], [3]]
