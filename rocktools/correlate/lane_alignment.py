"""Dispatches in one order -> what they teach about symbols and sites, and the probable states of each.

A lane is whatever has one order: all dispatches of a device as they were launched, or those of its main streams as they
started. What makes an order a good one is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rocktools.correlate.arrays import BoolArray, FloatArray, IntArray
from rocktools.correlate.forward_backward import Posterior, find_posterior
from rocktools.correlate.further_kernels import find_neighbourhoods, find_substitutes
from rocktools.correlate.kernel_families import KernelFamily
from rocktools.correlate.kernel_meanings import Ground, Meaning
from rocktools.correlate.launch_chain import LaunchChain, LaunchGraph, build_launch_chain
from rocktools.correlate.schedule_learning import (
    Decoding,
    Habits,
    decode,
    first_habits,
    learn_habits,
    learn_meanings,
)
from rocktools.correlate.state_sets import StateSets, build_move_matrices, build_state_sets

_SUBSTITUTED_EMISSION = 0.98
_LONG_AGO = np.iinfo(np.int64).min // 4
_LONGEST_PAUSE_NS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentOptions:
    """How sure is sure, and how much to learn from.

    Attributes:
        certain_ratio, likely_ratio: least probability of an instruction for these labels.
        training_count: dispatches, from the first on, that habits are learned from.
        rounds_count: rounds of learning.
        compile_loops: use numba; None: where it is installed.
        most_sites_count: launch sites of all programs together that are looked for; memory grows with their square.
    """

    certain_ratio: float = 0.999
    likely_ratio: float = 0.90
    training_count: int = 40_000
    rounds_count: int = 4
    compile_loops: bool | None = None
    most_sites_count: int = 6_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lane:
    """Dispatches in one order.

    Attributes:
        symbols: symbol of each.
        start_ns, end_ns: times of each.
        is_main: whether it is on a stream whose pauses tell of lost kernels.
    """

    symbols: IntArray
    start_ns: IntArray
    end_ns: IntArray
    is_main: BoolArray

    def part(self, chosen: IntArray | BoolArray | slice) -> Lane:
        return Lane(
            symbols=self.symbols[chosen],
            start_ns=self.start_ns[chosen],
            end_ns=self.end_ns[chosen],
            is_main=self.is_main[chosen],
        )

    def on_main(self) -> Lane:
        """The same dispatches, all on main streams."""
        return replace(self, is_main=np.ones(self.symbols.size, dtype=np.bool_))

    def pauses_ns(self, is_telling: BoolArray) -> FloatArray:
        """Idle time of the main streams since the last dispatch that tells where the program was.

        Strangers and kernels without a meaning may stand in a pause that a lost kernel left; they divide it, and the
        parts are added up. Infinite for what is not on a main stream.
        """
        ends = np.where(self.is_main, self.end_ns, _LONG_AGO)
        busy_until = np.concatenate([[_LONG_AGO], np.maximum.accumulate(ends)[:-1]])
        idle = np.where(self.is_main, np.maximum(self.start_ns - busy_until, 0), 0)
        total = np.cumsum(np.minimum(idle, _LONGEST_PAUSE_NS))
        last = np.where(is_telling & self.is_main, np.arange(total.size), -1)
        before = np.concatenate([[-1], np.maximum.accumulate(last)[:-1]])
        pauses = np.where(before >= 0, total - total[before], _LONGEST_PAUSE_NS)
        return np.where(self.is_main, pauses.astype(np.float64), np.inf)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaneKnowledge:
    """What is known about symbols and sites at some point of learning."""

    meanings: Sequence[Meaning]
    habits: Habits
    chain: LaunchChain

    def places(self, symbols: IntArray) -> IntArray:
        """Dispatches whose symbol means something."""
        has_meaning = np.array([meaning.sites.size > 0 for meaning in self.meanings], dtype=np.bool_)
        return np.flatnonzero(has_meaning[symbols])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LanePass:
    """One pass over those dispatches of a lane whose symbols mean something."""

    places: IntArray
    lane: Lane
    sets: StateSets
    posterior: Posterior
    decoding: Decoding


def learn_lane(
    graph: LaunchGraph,
    meanings: Sequence[Meaning],
    families: Sequence[KernelFamily],
    lane: Lane,
    rounds_count: int,
    *,
    compile_loops: bool,
) -> LaneKnowledge:
    """What these dispatches teach about symbols and sites."""
    habits = first_habits(graph)
    knowledge = LaneKnowledge(meanings=meanings, habits=habits, chain=_chain(graph, habits))
    for number in range(rounds_count):
        if knowledge.places(lane.symbols).size == 0:
            break
        done = pass_over(knowledge, lane, compile_loops=compile_loops)
        knowledge = _learn(knowledge, lane, done, families if number else None)
    return knowledge


def _learn(
    knowledge: LaneKnowledge, lane: Lane, done: LanePass, families: Sequence[KernelFamily] | None
) -> LaneKnowledge:
    """One round; substitutes are looked for only where families are given."""
    chain = knowledge.chain
    graph = chain.graph
    durations = (done.lane.end_ns - done.lane.start_ns).astype(np.float64)
    habits = learn_habits(chain, done.sets, done.posterior, done.decoding, durations)
    meanings = learn_meanings(knowledge.meanings, done.lane.symbols, done.sets, done.posterior, graph.sites_count)
    if families is not None:
        around = find_neighbourhoods(lane.symbols, done.places, done.decoding.position, graph.outside)
        emission = habits.emission.copy()
        for symbol, sites in find_substitutes(chain, habits, around, families).items():
            meanings[symbol] = Meaning(
                ground=Ground.SUBSTITUTE,
                sites=np.array(sites, dtype=np.int64),
                weights=np.full(len(sites), 0.9),
                outside=1e-3,
            )
            emission[sites] = _SUBSTITUTED_EMISSION
        habits = replace(habits, emission=emission)
    return LaneKnowledge(meanings=meanings, habits=habits, chain=_chain(graph, habits))


def _chain(graph: LaunchGraph, habits: Habits) -> LaunchChain:
    # What runs on a stream of its own leaves no pause on the main one.
    is_main = np.array([not site.stream for site in graph.sites], dtype=np.bool_)
    return build_launch_chain(graph, habits.emission, np.where(is_main, habits.duration_ns, 0.0))


def pass_over(knowledge: LaneKnowledge, lane: Lane, *, compile_loops: bool) -> LanePass:
    chain = knowledge.chain
    outside = chain.graph.outside
    places = knowledge.places(lane.symbols)
    inner = lane.part(places)
    is_telling = np.array([m.sites.size > 0 and not m.is_anyones for m in knowledge.meanings], dtype=np.bool_)
    pauses_ns = lane.pauses_ns(is_telling[lane.symbols])[places]
    sets = build_state_sets(inner.symbols, knowledge.meanings, chain)
    moves = build_move_matrices(sets, knowledge.meanings, chain, pauses_ns)
    first = np.concatenate([np.full(outside, 0.5 / outside), [0.5]])
    posterior = find_posterior(moves, first, compile_loops=compile_loops)
    return LanePass(
        places=places, lane=inner, sets=sets, posterior=posterior, decoding=decode(sets, posterior, outside)
    )
