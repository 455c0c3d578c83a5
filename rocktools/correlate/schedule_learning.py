"""Probabilities of states -> which site launches which library symbol, which leave nothing, how long kernels run.

One round of expectation maximisation. What cannot be told apart must not be learned apart: neighbours that look alike
share one habit, and losses, which are random, share one rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rocktools.correlate.arrays import BoolArray, FloatArray, IntArray, count_by, largest_cells, sum_by
from rocktools.correlate.forward_backward import Posterior
from rocktools.correlate.kernel_meanings import Ground, Meaning
from rocktools.correlate.launch_chain import LaunchChain, LaunchGraph, passed_ranges
from rocktools.correlate.state_sets import StateSets

CONFIDENT = 0.9
_LONGEST_PASS = 80  # more sites than that in one go are a lost stretch, which says nothing about habits
_PRIOR_PASSES = 4.0
_SEEN_OFTEN = 20.0
_NEVER = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoding:
    """The most probable state of each dispatch.

    Attributes:
        state: as in `StateSets`.
        position: site at which the program stands; `outside` where it is none of them.
        is_first: whether the dispatch is the first kernel of that site.
        ratio: probability of the state.
        cell: place of the state in the posterior's ratios.
    """

    state: IntArray
    position: IntArray
    is_first: BoolArray
    ratio: FloatArray
    cell: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Habits:
    """What was learned about sites.

    Attributes:
        emission: probability that passing a site leaves a dispatch.
        duration_ns: mean duration of a site's first kernel; 0 where none was seen.
        emitted, passed: expected dispatches, and passages of the flow, that this rests on.
    """

    emission: FloatArray
    duration_ns: FloatArray
    emitted: FloatArray
    passed: FloatArray


def states_of_cells(sets: StateSets, posterior: Posterior) -> tuple[IntArray, IntArray]:
    """Dispatch and state of each of the posterior's ratios."""
    sizes = np.diff(posterior.starts)
    dispatch_of = np.repeat(np.arange(sizes.size), sizes)
    shift = sets.starts[:-1][sets.set_of] - posterior.starts[:-1]
    return dispatch_of, sets.states[np.arange(dispatch_of.size) + shift[dispatch_of]]


def decode(sets: StateSets, posterior: Posterior, outside: int) -> Decoding:
    """The most probable state of each dispatch; of equal ones the first."""
    dispatch_of, states = states_of_cells(sets, posterior)
    largest, cell = largest_cells(posterior.ratios, posterior.starts, dispatch_of)
    state = states[cell]
    return Decoding(
        state=state,
        position=np.where(state > outside, state - outside - 1, state),
        is_first=state < outside,
        ratio=largest,
        cell=cell,
    )


def first_habits(graph: LaunchGraph) -> Habits:
    """What is assumed before a trace was looked at."""
    nothing = np.zeros(graph.sites_count)
    emission = np.array([site.emission for site in graph.sites])
    return Habits(emission=emission, duration_ns=nothing, emitted=nothing, passed=nothing)


def learn_habits(
    chain: LaunchChain,
    sets: StateSets,
    posterior: Posterior,
    decoding: Decoding,
    durations_ns: FloatArray,
) -> Habits:
    """Which sites leave nothing, and how long their kernels run."""
    graph = chain.graph
    size = graph.sites_count
    dispatch_of, states = states_of_cells(sets, posterior)
    is_first = states < size
    site, ratio = states[is_first], posterior.ratios[is_first]
    emitted = sum_by(site, ratio, size)
    busy_ns = sum_by(site, ratio * durations_ns[dispatch_of[is_first]], size)
    passed = count_passages(chain, decoding)
    passed = np.maximum(passed, emitted)
    return Habits(
        emission=_emission(graph, emitted, passed),
        duration_ns=np.where(emitted > 0.5, busy_ns / np.maximum(emitted, 0.5), 0.0),
        emitted=emitted,
        passed=passed,
    )


def count_passages(chain: LaunchChain, decoding: Decoding) -> FloatArray:
    """How often the flow passed each site, by the dispatches that are placed with confidence."""
    graph = chain.graph
    known = np.flatnonzero(decoding.ratio >= CONFIDENT)
    position = decoding.position[known]
    is_step = decoding.is_first[known] & (position < graph.outside)
    passed = count_by(position[is_step], graph.sites_count).astype(np.float64)
    origin, target = position[:-1], position[1:]
    is_move = is_step[1:] & (origin < graph.outside)
    pairs, counts = np.unique(origin[is_move] * (graph.outside + 1) + target[is_move], return_counts=True)
    origin, target = np.divmod(pairs, graph.outside + 1)
    begins, ends = passed_ranges(graph, origin, target)
    is_short = chain.is_real[origin, target] & ((ends - begins).sum(axis=1) <= _LONGEST_PASS)
    steps = np.zeros(graph.sites_count + 1)
    np.add.at(steps, begins[is_short], counts[is_short, None])
    np.add.at(steps, ends[is_short], -counts[is_short, None])
    return passed + np.cumsum(steps)[:-1]


def _emission(graph: LaunchGraph, emitted: FloatArray, passed: FloatArray) -> FloatArray:
    emitted, passed = emitted.copy(), passed.copy()
    prior = np.where(graph.is_optional, 0.5, 0.98)
    # Losses are random: one rate for all sites but those that never show, which run a kernel under another name.
    is_usual = ~graph.is_optional & (2 * emitted >= passed) & (passed > 0)
    emitted[is_usual], passed[is_usual] = emitted[is_usual].sum(), passed[is_usual].sum()
    for run in graph.look_alikes:
        emitted[run], passed[run] = emitted[run].mean(), passed[run].mean()
    return np.clip((emitted + _PRIOR_PASSES * prior) / (passed + _PRIOR_PASSES), 0.0, 1 - 1e-4)


def learn_meanings(
    meanings: Sequence[Meaning],
    symbols: IntArray,
    sets: StateSets,
    posterior: Posterior,
    sites_count: int,
) -> list[Meaning]:
    """What the symbols of libraries mean, after what was seen.

    Args:
        meanings: by symbol, as they were.
        symbols: of the dispatches.
        sets, posterior: of the dispatches.
        sites_count: states of the chain that are sites.
    """
    is_family = np.array([meaning.ground is Ground.FAMILY for meaning in meanings], dtype=np.bool_)
    if not is_family.any():
        return list(meanings)
    dispatch_of, states = states_of_cells(sets, posterior)
    symbol_of = symbols[dispatch_of]
    first = _count(symbol_of, states, posterior.ratios, states < sites_count, len(meanings), sites_count)
    is_stay = states > sites_count
    stay_site = np.where(is_stay, states - sites_count - 1, 0)
    stay = _count(symbol_of, stay_site, posterior.ratios, is_stay, len(meanings), sites_count)
    at_site = (first + stay).sum(axis=0)
    first_of_site = first[is_family].sum(axis=0)
    base = stay.sum(axis=1) / max(at_site.sum(), 1.0)
    learned = list(meanings)
    for symbol in np.flatnonzero(is_family).tolist():
        meaning = meanings[symbol]
        # A site that was seen often, and never with the symbol, does not launch it: few states make it fast.
        is_kept = (first[symbol, meaning.sites] > _NEVER) | (at_site[meaning.sites] < _SEEN_OFTEN)
        sites = meaning.sites[is_kept]
        pseudo = 0.1 * max(2, int(is_family.sum()))
        learned[symbol] = replace(
            meaning,
            sites=sites,
            weights=(first[symbol, sites] + 0.1) / (first_of_site[sites] + pseudo),
            stay=(stay[symbol] + 2 * max(base[symbol], 1e-6)) / (at_site + 2),
        )
    return learned


def _count(
    symbols: IntArray, sites: IntArray, ratios: FloatArray, is_counted: BoolArray, symbols_count: int, sites_count: int
) -> FloatArray:
    keys = symbols[is_counted] * sites_count + sites[is_counted]
    counts = sum_by(keys, ratios[is_counted], symbols_count * sites_count)
    return counts.reshape(symbols_count, sites_count)
