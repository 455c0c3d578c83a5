"""Probable states of the dispatches of a lane -> a link for each: its site, how sure, which iteration.

Labels are capped by what a link rests on: a substituted kernel, a geometry that is not the dump's, and a further kernel
are likely at best, whatever their probability. So is a short stretch that is linked between dispatches that are not:
a few kernels of another program can have the names and geometries of this one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rocktools.correlate.arrays import BoolArray, FloatArray, IntArray, count_by, sum_by
from rocktools.correlate.further_kernels import find_further_kernels, find_neighbourhoods, link_further_kernels
from rocktools.correlate.iterations import Iterations, count_iterations
from rocktools.correlate.kernel_families import KernelFamily
from rocktools.correlate.kernel_meanings import Ground, Meaning
from rocktools.correlate.lane_alignment import AlignmentOptions, Lane, LaneKnowledge, LanePass, learn_lane, pass_over
from rocktools.correlate.launch_chain import LaunchChain, LaunchGraph
from rocktools.correlate.order_repair import exchanged_order, find_exchanges
from rocktools.correlate.schedule_learning import CONFIDENT, count_passages, states_of_cells

UNLINKED, AMBIGUOUS, LIKELY, CERTAIN = range(4)
_SHOWN_RATIO = 0.02
_NORMALLY_EMITS = 0.7
_LONE_STRETCH = 8
_FEW_EXCHANGES = 5e-5  # pairs per dispatch, that may be mistakes

Candidates = Mapping[int, tuple[tuple[int, float], ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaneLinks:
    """What was found for the dispatches of a lane.

    Attributes:
        graph: of the sites.
        order: the place in the lane of each dispatch; links are in the order in which they were made, in which
            neighbours may have been exchanged.
        site: state of each, -1 where it has none.
        label: `UNLINKED` to `CERTAIN`.
        ratio: probability of the instruction; NaN where it is linked by habit, or not at all.
        is_own: whether its name and geometry belong to one instruction of all programs only.
        is_lone: whether it is placed in a stretch too short to tell anything.
        iterations: of each.
        candidates: of ambiguous ones: sites and probabilities of their instructions, most probable first.
        lost_count: estimate of the dispatches that the trace lost.
        fit_ratio: dispatches that are linked, among all between the first and the last of them.
        exchanged_count: pairs of neighbours that were exchanged.
    """

    graph: LaunchGraph
    order: IntArray
    site: IntArray
    label: IntArray
    ratio: FloatArray
    is_own: BoolArray
    is_lone: BoolArray
    iterations: Iterations
    candidates: Candidates = field(default_factory=dict)
    lost_count: float = 0.0
    fit_ratio: float = 0.0
    exchanged_count: int = 0


def align_lane(
    graph: LaunchGraph,
    meanings: Sequence[Meaning],
    families: Sequence[KernelFamily],
    lane: Lane,
    options: AlignmentOptions,
    *,
    compile_loops: bool,
) -> LaneLinks:
    """The launch site of each dispatch.

    Args:
        graph: the sites.
        meanings, families: of the symbols.
        lane: the dispatches.
        options: thresholds and effort.
        compile_loops: use numba.
    """
    is_long = lane.symbols.size > 1.3 * options.training_count
    head = lane.part(slice(0, options.training_count)) if is_long else lane
    knowledge = learn_lane(graph, meanings, families, head, options.rounds_count, compile_loops=compile_loops)
    if knowledge.places(lane.symbols).size == 0:
        return _without_links(graph, lane.symbols.size)
    done = pass_over(knowledge, lane, compile_loops=compile_loops)
    order, exchanged = _repaired_order(knowledge, done, lane.symbols.size)
    if exchanged.size:
        lane = lane.part(order)
        done = pass_over(knowledge, lane, compile_loops=compile_loops)
    links = _link_first_kernels(knowledge, lane, done, options)
    links = _link_further_kernels(knowledge, families, lane, done, links)
    _cap_symbols_of_strangers(knowledge, lane, done, links)
    doubtful = exchanged
    if exchanged.size > 2 * _FEW_EXCHANGES * lane.symbols.size:
        doubtful = np.concatenate([exchanged, _twins(links, lane.symbols)])
    links.label[doubtful] = np.minimum(links.label[doubtful], LIKELY)
    return replace(links, order=order, exchanged_count=exchanged.size // 2)


def _repaired_order(knowledge: LaneKnowledge, done: LanePass, count: int) -> tuple[IntArray, IntArray]:
    """An order of the lane in which neighbours are exchanged where that fits; and which ones, by their new places."""
    exchanges = find_exchanges(knowledge.chain, knowledge.meanings, done.lane.symbols, done.decoding)
    order = np.arange(count)
    inner = exchanged_order(done.places.size, exchanges)
    # What has no meaning stays where it is.
    order[done.places] = done.places[inner]
    return order, done.places[np.concatenate([exchanges, exchanges + 1])]


def _cap_symbols_of_strangers(knowledge: LaneKnowledge, lane: Lane, done: LanePass, links: LaneLinks) -> None:
    """A library's symbol that also turns up inside the program without a site is nowhere certain.

    Where the program's own dispatch was lost, a stranger takes its place unseen.
    """
    is_family = np.array([meaning.ground is Ground.FAMILY for meaning in knowledge.meanings], dtype=np.bool_)
    is_inside = done.decoding.position < knowledge.chain.graph.outside
    strangers = done.places[is_inside & (links.label[done.places] == UNLINKED)]
    has_strangers = np.zeros(is_family.size, dtype=np.bool_)
    has_strangers[lane.symbols[strangers]] = True
    is_capped = (has_strangers & is_family)[lane.symbols]
    links.label[is_capped] = np.minimum(links.label[is_capped], LIKELY)


def _twins(links: LaneLinks, symbols: IntArray) -> IntArray:
    """Neighbours with one kernel at different sites: where others stood in the wrong order, they may do so unseen."""
    placed = np.flatnonzero(links.site >= 0)
    first, second = placed[:-1], placed[1:]
    is_twin = (symbols[first] == symbols[second]) & (links.site[first] != links.site[second])
    return np.concatenate([first[is_twin], second[is_twin]])


def _without_links(graph: LaunchGraph, count: int) -> LaneLinks:
    no_site = np.full(count, -1, dtype=np.int64)
    no = np.zeros(count, dtype=np.bool_)
    depth = graph.loops.shape[1]
    counters = np.full((count, depth), -1, dtype=np.int64)
    return LaneLinks(
        graph=graph,
        order=np.arange(count),
        site=no_site,
        label=np.full(count, UNLINKED, dtype=np.int64),
        ratio=np.full(count, np.nan),
        is_own=no,
        is_lone=no.copy(),
        iterations=Iterations(execution=no_site, counters=counters, is_sure=no, is_break=no),
    )


def _link_first_kernels(knowledge: LaneKnowledge, lane: Lane, done: LanePass, options: AlignmentOptions) -> LaneLinks:
    chain, decoding, places = knowledge.chain, done.decoding, done.places
    graph = chain.graph
    instructions = instruction_numbers(graph)
    ratio, is_open = _instruction_ratios(instructions, done, options)
    ground = np.array([meaning.ground for meaning in knowledge.meanings], dtype=np.int64)[lane.symbols[places]]
    label = np.where(ratio >= options.certain_ratio, CERTAIN, np.where(is_open, AMBIGUOUS, LIKELY))
    is_weak = np.isin(ground, (Ground.GEOMETRY, Ground.SUBSTITUTE))
    label = np.where(is_weak, np.minimum(label, LIKELY), label)
    label = np.where(decoding.is_first | is_open, label, UNLINKED)
    iterations = _iterations(chain, done)
    is_lone = _find_lone(chain, done)
    is_doubtful = is_lone | _find_mistakable_ends(chain, done)
    label = np.where(is_doubtful, np.minimum(label, LIKELY), label)
    own = np.array(
        [
            meaning.ground is Ground.EXACT and np.unique(instructions[meaning.sites]).size == 1
            for meaning in knowledge.meanings
        ],
        dtype=np.bool_,
    )
    links = _without_links(graph, lane.symbols.size)
    links.label[places] = label
    links.site[places] = np.where(decoding.is_first, decoding.position, -1)
    links.ratio[places] = np.where(label == UNLINKED, np.nan, ratio)
    links.is_own[:] = own[lane.symbols]
    links.is_lone[places] = is_lone
    return replace(
        links,
        iterations=_spread(iterations, places, lane.symbols.size),
        candidates=_candidates(instructions, done, np.flatnonzero(label == AMBIGUOUS)),
        lost_count=_lost_count(knowledge, done),
        fit_ratio=_fit_ratio(label),
    )


def instruction_numbers(graph: LaunchGraph) -> IntArray:
    """Site -> a number that the sites of one instruction share."""
    numbers: dict[tuple[int, str], int] = {}
    return np.array(
        [
            numbers.setdefault((int(program), site.instruction or f"thunk {site.thunk_id}"), len(numbers))
            for site, program in zip(graph.sites, graph.program_of, strict=True)
        ],
        dtype=np.int64,
    )


def _instruction_ratios(
    instructions: IntArray, done: LanePass, options: AlignmentOptions
) -> tuple[FloatArray, BoolArray]:
    """Probability of the most probable state's instruction (or of none), and whether that is too little to link."""
    dispatch_of, states = states_of_cells(done.sets, done.posterior)
    meant = np.append(instructions, -1)[np.minimum(states, instructions.size)]
    chosen = meant[done.decoding.cell]
    agrees = meant == chosen[dispatch_of]
    ratio = sum_by(dispatch_of[agrees], done.posterior.ratios[agrees], done.places.size)
    return ratio, ratio < options.likely_ratio


def _candidates(
    instructions: IntArray, done: LanePass, ambiguous: IntArray
) -> dict[int, tuple[tuple[int, float], ...]]:
    """By dispatch of the lane: a site of each probable instruction, with the instruction's probability."""
    size = instructions.size
    found: dict[int, tuple[tuple[int, float], ...]] = {}
    for place in ambiguous.tolist():
        begin, end = done.posterior.starts[place], done.posterior.starts[place + 1]
        offset = done.sets.starts[done.sets.set_of[place]]
        states = done.sets.states[offset : offset + end - begin].tolist()
        sums: dict[int, float] = {}
        site_of: dict[int, int] = {}
        for state, ratio in zip(states, done.posterior.ratios[begin:end].tolist(), strict=True):
            if state < size and ratio > _SHOWN_RATIO / 10:
                number = int(instructions[state])
                sums[number] = sums.get(number, 0.0) + ratio
                site_of.setdefault(number, state)
        shown = [(site_of[number], ratio) for number, ratio in sums.items() if ratio > _SHOWN_RATIO]
        found[int(done.places[place])] = tuple(sorted(shown, key=lambda each: -each[1]))
    return found


def _iterations(chain: LaunchChain, done: LanePass) -> Iterations:
    decoding = done.decoding
    is_confident = decoding.ratio >= CONFIDENT
    is_outside = decoding.position == chain.graph.outside
    return count_iterations(chain, decoding.position, is_confident & (decoding.is_first | is_outside))


def _spread(iterations: Iterations, places: IntArray, count: int) -> Iterations:
    """The same, over all dispatches of the lane."""
    execution = np.full(count, -1, dtype=np.int64)
    counters = np.full((count, iterations.counters.shape[1]), -1, dtype=np.int64)
    is_sure, is_break = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    execution[places], counters[places] = iterations.execution, iterations.counters
    is_sure[places], is_break[places] = iterations.is_sure, iterations.is_break
    return Iterations(execution=execution, counters=counters, is_sure=is_sure, is_break=is_break)


def _find_lone(chain: LaunchChain, done: LanePass) -> BoolArray:
    """Dispatches placed in a stretch of few sites; a stretch is what follows one another as the programs allow.

    A whole program may be that short: then the stretch must be all of it.
    """
    graph = chain.graph
    decoding = done.decoding
    is_lone = np.zeros(decoding.position.size, dtype=np.bool_)
    placed = np.flatnonzero(decoding.is_first)
    if placed.size == 0:
        return is_lone
    position = decoding.position[placed]
    follows = chain.is_real[position[:-1], position[1:]]
    was_outside = np.diff(np.cumsum(decoding.position == graph.outside)[placed]) > 0
    begins = np.concatenate([[True], ~follows | was_outside])
    stretch = np.cumsum(begins) - 1
    lengths = count_by(stretch, int(stretch[-1]) + 1)
    sizes = count_by(graph.program_of, len(graph.program_ids))
    least = np.minimum(_LONE_STRETCH, sizes)[graph.program_of[position]]
    is_lone[placed] = lengths[stretch] < least
    return is_lone


def _find_mistakable_ends(chain: LaunchChain, done: LanePass) -> BoolArray:
    """Dispatches beside the outside whose kernel also runs there, and takes the place of a lost one of the program."""
    is_outside = done.decoding.position == chain.graph.outside
    symbols = done.lane.symbols
    runs_outside = np.zeros(int(symbols.max()) + 1, dtype=np.bool_)
    runs_outside[symbols[is_outside]] = True
    is_beside = np.zeros(is_outside.size, dtype=np.bool_)
    is_beside[1:] |= is_outside[:-1]
    is_beside[:-1] |= is_outside[1:]
    return np.asarray(is_beside & runs_outside[symbols])


def _lost_count(knowledge: LaneKnowledge, done: LanePass) -> float:
    """Passages of sites that normally leave a dispatch, and left none."""
    passed = count_passages(knowledge.chain, done.decoding)
    first = done.decoding.position[done.decoding.is_first]
    emitted = count_by(first, knowledge.chain.graph.sites_count)
    is_usual = knowledge.habits.emission > _NORMALLY_EMITS
    return float(np.maximum(passed - emitted, 0.0)[is_usual].sum())


def _fit_ratio(label: IntArray) -> float:
    linked = np.flatnonzero(label >= LIKELY)
    return float(linked.size / (linked[-1] - linked[0] + 1)) if linked.size else 0.0


def _link_further_kernels(
    knowledge: LaneKnowledge, families: Sequence[KernelFamily], lane: Lane, done: LanePass, links: LaneLinks
) -> LaneLinks:
    """Add the kernels that belong to a site by habit, with the iteration of its first kernel."""
    chain = knowledge.chain
    is_first = done.decoding.is_first
    # What is outside parts the gaps: nothing belongs to a site beyond it.
    is_placed = is_first | (done.decoding.position == chain.graph.outside)
    placed, position = done.places[is_placed], done.decoding.position[is_placed]
    around = find_neighbourhoods(lane.symbols, placed, position, chain.graph.outside)
    emitted = count_by(done.decoding.position[is_first], chain.graph.sites_count).astype(np.float64)
    habits = replace(knowledge.habits, emitted=emitted)
    further = find_further_kernels(chain, habits, around, families)
    owner, follows = link_further_kernels(chain, further, around)
    is_linked = owner >= 0
    dispatches, site = around.dispatch[is_linked], owner[is_linked]
    links.site[dispatches], links.label[dispatches], links.ratio[dispatches] = site, LIKELY, np.nan
    neighbour = np.clip(around.group[is_linked] - follows[is_linked], 0, placed.size - 1)
    source = placed[neighbour]
    iterations = links.iterations
    iterations.execution[dispatches] = iterations.execution[source]
    iterations.counters[dispatches] = iterations.counters[source]
    depth = (chain.graph.loops[site] >= 0).sum(axis=1)[:, None] if chain.graph.loops.size else 0
    is_deeper = np.arange(iterations.counters.shape[1])[None, :] >= depth
    iterations.counters[dispatches] = np.where(is_deeper, -1, iterations.counters[dispatches])
    iterations.is_sure[dispatches] = iterations.is_sure[source]
    candidates = {dispatch: found for dispatch, found in links.candidates.items() if links.label[dispatch] == AMBIGUOUS}
    return replace(links, candidates=candidates)
