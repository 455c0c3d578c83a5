"""What is learned from probabilities: passages, losses, durations, and who launches what."""

from __future__ import annotations

import numpy as np
import pytest
from aligned_programs import decoding_at, make_chain, place_names
from tiny_program import Loop, copy, kernel, matmul

from rocktools.correlate.forward_backward import Posterior
from rocktools.correlate.kernel_meanings import Ground, Meaning
from rocktools.correlate.launch_chain import LaunchChain
from rocktools.correlate.schedule_learning import count_passages, decode, learn_habits, learn_meanings
from rocktools.correlate.state_sets import StateSets, build_state_sets

#   a [ b c ]*3 d
LOOPED = [kernel("a.1"), Loop("while.1", [kernel("b.1"), kernel("c.1")], 3, []), kernel("d.1")]


@pytest.mark.parametrize(
    "path, passed",
    [
        ("a b c b c b c d", [1, 3, 3, 1]),
        ("a b c b c b d", [1, 3, 3, 1]),  # the last c was passed
        ("a b b c d", [1, 2, 2, 1]),  # so was the first
        ("b c d b", [1, 2, 1, 1]),  # and a, on the way to the next step
        ("a . d", [1, 0, 0, 1]),  # nothing is known across the outside
    ],
)
def test_passages_are_counted_where_the_flow_went(path: str, passed: list[int]) -> None:
    chain = make_chain(LOOPED)
    decoding = decoding_at(chain.graph, place_names(chain.graph, path))
    assert count_passages(chain, decoding).tolist() == passed


def certain_sets(positions: np.ndarray, chain: LaunchChain, meanings: list[Meaning]) -> tuple[StateSets, Posterior]:
    """Sets of one symbol, and probability 1 for the given sites."""
    sets = build_state_sets(np.zeros(positions.size, dtype=np.int64), meanings, chain)
    sizes = np.diff(sets.starts)[sets.set_of]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    ratios = np.concatenate(
        [
            (sets.states[sets.starts[number] : sets.starts[number + 1]] == position).astype(float)
            for number, position in zip(sets.set_of, positions, strict=True)
        ]
    )
    return sets, Posterior(starts=starts, ratios=ratios)


def test_losses_share_one_rate_and_durations_are_means_by_site() -> None:
    chain = make_chain(LOOPED)
    graph = chain.graph
    # 20 steps; in half of them the last c is lost.
    positions = place_names(graph, "a b c b c b c d a b c b c b d " * 10)
    meaning = Meaning(ground=Ground.EXACT, sites=np.arange(4), weights=np.ones(4), outside=0.1)
    sets, posterior = certain_sets(positions, chain, [meaning])
    durations = np.array([10.0, 20.0, 30.0, 40.0])[positions]
    habits = learn_habits(chain, sets, posterior, decode(sets, posterior, graph.outside), durations)
    assert habits.emitted.tolist() == [20, 60, 50, 20]
    assert habits.passed.tolist() == [20, 60, 60, 20]
    assert habits.duration_ns.tolist() == [10, 20, 30, 40]
    # (150 seen + 4 * 0.98) / (160 passed + 4), the same for all.
    assert habits.emission == pytest.approx(np.full(4, (150 + 3.92) / 164))


def test_a_site_that_never_shows_has_a_rate_of_its_own() -> None:
    chain = make_chain(LOOPED)
    positions = place_names(chain.graph, "a b b b d " * 20)
    meaning = Meaning(ground=Ground.EXACT, sites=np.arange(4), weights=np.ones(4), outside=0.1)
    sets, posterior = certain_sets(positions, chain, [meaning])
    decoding = decode(sets, posterior, chain.graph.outside)
    emission = learn_habits(chain, sets, posterior, decoding, np.ones(positions.size)).emission
    assert emission[2] == pytest.approx(3.92 / 64)
    assert emission[[0, 1, 3]].min() > 0.97


def test_neighbours_that_look_alike_share_one_habit() -> None:
    chain = make_chain([kernel("a.1"), copy("b.1"), copy("c.1"), kernel("d.1")])
    positions = place_names(chain.graph, "a c d " * 20)
    meaning = Meaning(ground=Ground.EXACT, sites=np.arange(4), weights=np.ones(4), outside=0.1)
    sets, posterior = certain_sets(positions, chain, [meaning])
    decoding = decode(sets, posterior, chain.graph.outside)
    emission = learn_habits(chain, sets, posterior, decoding, np.ones(positions.size)).emission
    # One of the two leaves a dispatch each time: (10 + 4 * 0.5) / (20 + 4) for both.
    assert emission[1] == emission[2] == pytest.approx(0.5)


def test_a_library_symbol_learns_its_site_and_drops_those_that_never_launch_it() -> None:
    chain = make_chain([matmul("a.1"), matmul("b.1")])
    graph = chain.graph
    size = graph.sites_count
    everywhere = Meaning(
        ground=Ground.FAMILY, sites=np.arange(2), weights=np.full(2, 0.3), outside=0.1, stay=np.full(size, 0.005)
    )
    meanings = [everywhere, everywhere]
    symbols = np.array([0, 1] * 30)
    sets = build_state_sets(symbols, meanings, chain)
    sizes = np.diff(sets.starts)[sets.set_of]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    ratios = np.zeros(starts[-1])
    # Symbol 0 is the first kernel of site a each time, symbol 1 a further kernel of it.
    for place, symbol in enumerate(symbols):
        number = sets.set_of[place]
        states = sets.states[sets.starts[number] : sets.starts[number + 1]].tolist()
        ratios[starts[place] + states.index(0 if symbol == 0 else graph.outside + 1)] = 1.0
    posterior = Posterior(starts=starts, ratios=ratios)
    first, further = learn_meanings(meanings, symbols, sets, posterior, size)
    assert first.weights[0] > 0.98
    assert first.sites.tolist() == [0, 1]  # b was never seen at all, so nothing is known of it
    assert first.stay is not None
    assert further.stay is not None
    assert further.stay[0] == pytest.approx(0.5, abs=0.03)  # half of what happens at a
    assert further.stay[0] > 20 * first.stay[0]
    assert further.sites.tolist() == [1]


def test_of_equally_probable_states_the_first_is_taken() -> None:
    sets = StateSets(
        set_of=np.array([1, 1]),
        symbol_of=np.array([-1, 0]),
        starts=np.array([0, 4, 7]),
        states=np.array([0, 1, 2, 3, 1, 3, 5]),
    )
    posterior = Posterior(starts=np.array([0, 3, 6]), ratios=np.array([0.4, 0.2, 0.4, 0.1, 0.2, 0.7]))
    found = decode(sets, posterior, 3)
    assert found.state.tolist() == [1, 5]
    assert found.position.tolist() == [1, 1]
    assert found.is_first.tolist() == [True, False]
    assert found.ratio.tolist() == [0.4, 0.7]
