"""The sets and matrices that are kept flat and shared say the same as each dispatch worked out by itself."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tiny_program import Loop, build_tiny, copy, kernel, matmul

from rocktools.correlate.forward_backward import find_posterior
from rocktools.correlate.kernel_meanings import Ground, KernelSymbol, Meaning, build_meanings
from rocktools.correlate.launch_chain import LaunchChain, build_launch_chain, build_launch_graph
from rocktools.correlate.launch_sites import build_launch_plan
from rocktools.correlate.state_sets import build_move_matrices, build_state_sets

#   a [ m c b ]*2 b     a, m, c: once each; b is one kernel at two sites; m a matrix product, c a copy
NODES = [
    kernel("a.1"),
    Loop("while.1", [matmul("custom-call.1"), copy("copy.1"), kernel("b.1", grid=3)], 2, []),
    kernel("b.2", "b_1", grid=3),
]
A, M, C, B, B2, OUTSIDE = range(6)
ONE = (1, 1, 1)
WIDE = (256, 1, 1)
SYMBOLS = [
    KernelSymbol(name="a_1", grid_workgroups=ONE, workgroup_workitems=WIDE),
    KernelSymbol(
        name="Cijk_Ailk_Bljk_BBS_BH_Bias_UserArgs_MT256x256x64", grid_workgroups=ONE, workgroup_workitems=WIDE
    ),
    KernelSymbol(name="__amd_rocclr_copyBuffer", grid_workgroups=ONE, workgroup_workitems=WIDE),
    KernelSymbol(name="b_1", grid_workgroups=(3, 1, 1), workgroup_workitems=WIDE),
]
a, m, c, b = range(4)


@pytest.fixture
def chain() -> LaunchChain:
    plan = build_launch_plan(build_tiny(NODES))
    assert plan is not None
    graph = build_launch_graph([plan], main_stream_only=False)
    emission = np.array([site.emission for site in graph.sites])
    return build_launch_chain(graph, emission, np.array([5e3, 4e4, 2e3, 3e4, 3e4]))


@pytest.fixture
def meanings(chain: LaunchChain) -> list[Meaning]:
    return build_meanings(SYMBOLS, chain.graph.sites)


def test_symbols_mean_what_their_names_and_geometries_allow(meanings: list[Meaning]) -> None:
    assert [meaning.ground for meaning in meanings] == [Ground.EXACT, Ground.FAMILY, Ground.FAMILY, Ground.EXACT]
    assert [meaning.sites.tolist() for meaning in meanings] == [[A], [M], [C], [B, B2]]


def test_a_symbol_that_may_follow_any_site_adds_the_places_of_the_one_before(
    chain: LaunchChain, meanings: list[Meaning]
) -> None:
    sets = build_state_sets(np.array([a, m, c, b, c]), meanings, chain)

    def states(place: int) -> list[int]:
        number = sets.set_of[place]
        return sets.states[sets.starts[number] : sets.starts[number + 1]].tolist()

    stay = OUTSIDE + 1
    assert states(0) == [A, OUTSIDE]
    assert states(1) == [M, OUTSIDE, stay + A]
    assert states(2) == [C, OUTSIDE, stay + A, stay + M]
    assert states(3) == [B, B2, OUTSIDE]
    assert states(4) == [C, OUTSIDE, stay + B, stay + B2]


def test_repeated_stretches_share_sets_and_matrices(chain: LaunchChain, meanings: list[Meaning]) -> None:
    symbols = np.array([a, *[m, c, b, m, c, b, b, a] * 50])
    sets = build_state_sets(symbols, meanings, chain)
    moves = build_move_matrices(sets, meanings, chain, np.full(symbols.size, np.inf))
    assert sets.starts.size - 1 <= 8
    assert moves.rows.size <= 10


def expected_posterior(chain: LaunchChain, meanings: list[Meaning], symbols: list[int], pauses: list[float]) -> list:
    """By enumeration, from the words of the model: where the program stands, and whether it moved or stayed."""
    choices = [[(site, True) for site in (*meanings[symbol].sites.tolist(), OUTSIDE)] for symbol in symbols]
    for choice, symbol in zip(choices[1:], symbols[1:], strict=True):  # nothing comes before the first
        if meanings[symbol].stay is not None:
            choice += [(site, False) for site in range(OUTSIDE)]
    sums: list[dict[tuple[int, bool], float]] = [{} for _ in symbols]
    most_stay = np.max([meaning.stay for meaning in meanings if meaning.stay is not None], axis=0)
    for first, *path in product([(site, True) for site in range(OUTSIDE + 1)], *choices):
        weight = 0.5 if first[0] == OUTSIDE else 0.5 / OUTSIDE
        before = first[0]
        for (site, is_moved), symbol, pause in zip(path, symbols, pauses, strict=True):
            meaning = meanings[symbol]
            if not is_moved:
                assert meaning.stay is not None
                weight *= meaning.stay[site] if site == before else 0.0
                continue
            fits = meaning.outside if site == OUTSIDE else meaning.weights[meaning.sites.tolist().index(site)]
            weight *= chain.move[before, site] * fits * (1 - (most_stay[before] if before < OUTSIDE else 0))
            if before < OUTSIDE and site < OUTSIDE and chain.needed_pause_ns[before, site] > pause:
                weight *= 0.01
            before = site
        for total, state in zip(sums, path, strict=True):
            total[state] = total.get(state, 0.0) + weight
    return [{state: value / sum(total.values()) for state, value in total.items()} for total in sums]


@pytest.mark.parametrize(
    "symbols, pauses",
    [
        ([a, m, c, b], [1e6, 100.0, 100.0, 100.0]),
        ([a, m, b, b], [1e6, 100.0, 100.0, 100.0]),
        ([a, b, b], [1e6, 1e5, 100.0]),  # lost kernels leave a pause
        ([a, b, b], [1e6, 100.0, 100.0]),  # and here there is none
        ([c, m, c, c], [100.0] * 4),
    ],
)
def test_probabilities_are_those_of_the_model_in_words(
    chain: LaunchChain, meanings: list[Meaning], symbols: list[int], pauses: list[float]
) -> None:
    sets = build_state_sets(np.array(symbols), meanings, chain)
    moves = build_move_matrices(sets, meanings, chain, np.array(pauses))
    first = np.array([0.5 / OUTSIDE] * OUTSIDE + [0.5])
    posterior = find_posterior(moves, first, compile_loops=False)
    for place, expected in enumerate(expected_posterior(chain, meanings, symbols, pauses)):
        begin = sets.starts[sets.set_of[place]]
        ratios = posterior.ratios[posterior.starts[place] : posterior.starts[place + 1]]
        for state, ratio in zip(sets.states[begin : begin + ratios.size].tolist(), ratios.tolist(), strict=True):
            key = (state - OUTSIDE - 1, False) if state > OUTSIDE else (state, True)
            assert ratio == pytest.approx(expected.get(key, 0.0), rel=1e-6, abs=1e-12), (place, key)
