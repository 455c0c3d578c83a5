"""Collectives on streams of their own -> the launch sites of each, by the times at which each could have run.

They all look alike: RCCL has one kernel for every collective. But a collective runs after everything that was launched
before it on the main stream, and before everything that waits for it:

    main           a  b [launch] c   d   e [wait] f
    window of it      |-------------------------|        from the end of b to the start of f

Windows follow from the dispatches of the main streams that are linked already. Both the windows and the collectives
have an order, and must agree in it; durations and grids, which each site has its habits of, decide the rest.

Failure case: clocks of two queues that disagree. Windows are then widened, and nothing is certain; if that does not
help, nothing is linked. Random errors show in probabilities, a shift that is the same everywhere does not: hence a test
of fit beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rocktools.correlate.arrays import FloatArray, IntArray, largest_cells, sum_by
from rocktools.correlate.forward_backward import Posterior, find_posterior
from rocktools.correlate.iterations import Iterations
from rocktools.correlate.lane_alignment import AlignmentOptions, Lane
from rocktools.correlate.lane_links import AMBIGUOUS, CERTAIN, LIKELY, UNLINKED, LaneLinks, instruction_numbers
from rocktools.correlate.launch_chain import LaunchGraph
from rocktools.correlate.state_sets import MoveMatrices

TOLERANCES_NS = (2_000, 20_000, 200_000)
_MOST_MISSED = 0.03
_ROUNDS = 3
_MOST_CANDIDATES = 48
_LOST = 0.02
_LONGEST_GAP = 6
_NOWHERE = 1e-3
_STRANGER = 1e-9
_EVER = np.int64(1) << 62
_LEAST_SPREAD = 0.15  # of the logarithm of durations


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Occurrences:
    """Every execution of every side site that the main streams tell of, in launch order.

    Attributes:
        site: state in the whole graph.
        opens_ns, closes_ns: its window.
        source: dispatch of the main lane that is in the same iteration.
    """

    site: IntArray
    opens_ns: IntArray
    closes_ns: IntArray
    source: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideLinks:
    """What was found for collectives on streams of their own.

    Attributes:
        links: of each, with sites of the whole graph.
        tolerance_ns: by how much windows had to be widened.
        missed_ratio: of those within the time of the main streams' links, how many fit no window.
    """

    links: LaneLinks
    tolerance_ns: int
    missed_ratio: float

    @property
    def is_trusted(self) -> bool:
        return self.missed_ratio < _MOST_MISSED


def align_side_streams(
    whole: LaunchGraph, main: Lane, main_links: LaneLinks, side: Lane, options: AlignmentOptions, *, compile_loops: bool
) -> SideLinks:
    """Links of the collectives on streams of their own.

    Args:
        whole: sites of all streams.
        main: dispatches of the main streams, by start.
        main_links: what was found for them.
        side: the collectives, by start.
        options: thresholds.
        compile_loops: use numba.
    """
    occurrences = find_occurrences(whole, main, main_links)
    known = np.flatnonzero(main_links.label >= LIKELY)
    is_within = np.zeros(side.start_ns.size, dtype=np.bool_)
    if known.size:
        is_within = (side.start_ns >= main.start_ns[known[0]]) & (side.end_ns <= main.end_ns[known[-1]])
    for tolerance_ns in TOLERANCES_NS:
        links = _match(whole, main_links, occurrences, side, tolerance_ns, options, compile_loops=compile_loops)
        is_missed = links.label[is_within] == UNLINKED
        found = SideLinks(
            links=_capped(links, CERTAIN if tolerance_ns == TOLERANCES_NS[0] else LIKELY),
            tolerance_ns=tolerance_ns,
            missed_ratio=float(is_missed.mean()) if is_missed.size else 1.0,
        )
        if found.is_trusted:
            return found
    return SideLinks(links=_capped(links, AMBIGUOUS), tolerance_ns=tolerance_ns, missed_ratio=found.missed_ratio)


def _capped(links: LaneLinks, most: int) -> LaneLinks:
    links.label[:] = np.minimum(links.label, most)
    return links


def find_occurrences(whole: LaunchGraph, main: Lane, links: LaneLinks) -> Occurrences:
    """The windows of all side sites, by the links of the main streams."""
    linked = np.flatnonzero((links.label >= LIKELY) & (links.iterations.execution >= 0))
    side_sites = [state for state, site in enumerate(whole.sites) if site.stream]
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for state in side_sites:
        groups.setdefault((int(whole.program_of[state]), whole.sites[state].loops), []).append(state)
    found = [
        part
        for (program, loops), states in groups.items()
        for part in _occurrences_in(whole, main, links, linked, program, loops, states)
    ]
    if not found:
        nothing = np.zeros(0, dtype=np.int64)
        return Occurrences(site=nothing, opens_ns=nothing, closes_ns=nothing, source=nothing)
    site, opens, closes, source = (np.concatenate(column) for column in zip(*found, strict=True))
    launch_order = np.array([each.order for each in whole.sites], dtype=np.int64)[site]
    order = np.lexsort((launch_order, opens))
    return Occurrences(site=site[order], opens_ns=opens[order], closes_ns=closes[order], source=source[order])


def _occurrences_in(
    whole: LaunchGraph,
    main: Lane,
    links: LaneLinks,
    linked: IntArray,
    program: int,
    loops: tuple[int, ...],
    states: Sequence[int],
) -> list[tuple[IntArray, IntArray, IntArray, IntArray]]:
    """Those of the side sites in the body of one loop."""
    places = _places_in_body(links.graph, program, loops)
    position = np.flatnonzero(places[links.site[linked]] >= 0)
    own = linked[position]
    if own.size == 0:
        return []
    depth = len(loops)
    keys = np.column_stack([links.iterations.execution[own], links.iterations.counters[own, :depth]])
    begins = np.concatenate([[0], np.flatnonzero((np.diff(keys, axis=0) != 0).any(axis=1)) + 1])
    instance = np.repeat(np.arange(begins.size), np.diff(np.append(begins, own.size)))
    ends = np.append(begins[1:], own.size) - 1
    span = np.int64(1) << 24
    # A further kernel may stand a little out of order: within an instance, places never go back.
    line = np.maximum.accumulate(instance * span + places[links.site[own]])
    # Where nothing of the instance comes before or behind, the nearest dispatch of any loop does.
    before, behind = position[begins] - 1, position[ends] + 1
    first_open = np.where(before >= 0, main.end_ns[linked[np.maximum(before, 0)]], -_EVER)
    last_close = np.where(behind < linked.size, main.start_ns[linked[np.minimum(behind, linked.size - 1)]], _EVER)
    found = []
    for state in states:
        site = whole.sites[state]
        done = site.order if site.done_order is None else site.done_order
        previous = np.searchsorted(line, np.arange(begins.size) * span + site.order) - 1
        following = np.searchsorted(line, np.arange(begins.size) * span + done)
        opens = np.where(previous >= begins, main.end_ns[own[np.maximum(previous, 0)]], first_open)
        closes = np.where(following <= ends, main.start_ns[own[np.minimum(following, own.size - 1)]], last_close)
        found.append((np.full(begins.size, state, dtype=np.int64), opens, closes, own[begins]))
    return found


def _places_in_body(graph: LaunchGraph, program: int, loops: tuple[int, ...]) -> IntArray:
    """Launch order of each main site in the body of a loop, inner loops where their first site is; -1 outside."""
    depth = len(loops)
    inner: dict[int, int] = {}
    places = np.full(graph.sites_count, -1, dtype=np.int64)
    for state, site in enumerate(graph.sites):
        if graph.program_of[state] != program or site.loops[:depth] != loops:
            continue
        places[state] = site.order
        if len(site.loops) > depth:
            places[state] = inner.setdefault(site.loops[depth], site.order)
    return places


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Candidates:
    """Occurrences that each collective may be, flat; -1 stands for none of them, last of each.

    Attributes:
        starts: collective -> where its candidates begin; one more at the end.
        occurrence: of all of them.
        collective: of all of them.
    """

    starts: IntArray
    occurrence: IntArray
    collective: IntArray


def _find_candidates(occurrences: Occurrences, side: Lane, tolerance_ns: int) -> _Candidates:
    latest = np.maximum.accumulate(occurrences.closes_ns) if occurrences.site.size else occurrences.closes_ns
    first = np.searchsorted(latest, side.end_ns - tolerance_ns)
    behind = np.searchsorted(occurrences.opens_ns, side.start_ns + tolerance_ns, side="right")
    # The latest to open are the most probable; more than that many are never open in one program.
    first = np.maximum(first, behind - 4 * _MOST_CANDIDATES)
    counts = np.maximum(behind - first, 0)
    collective = np.repeat(np.arange(side.start_ns.size), counts)
    place = np.arange(collective.size) - np.repeat(np.cumsum(counts) - counts, counts)
    occurrence = first[collective] + place
    is_open = occurrences.closes_ns[occurrence] + tolerance_ns >= side.end_ns[collective]
    collective, occurrence = collective[is_open], occurrence[is_open]
    open_counts = np.bincount(collective, minlength=side.start_ns.size)
    rank = np.arange(collective.size) - (np.cumsum(open_counts) - open_counts)[collective]
    is_kept = rank >= open_counts[collective] - _MOST_CANDIDATES
    collective, occurrence = collective[is_kept], occurrence[is_kept]
    everyone = np.arange(side.start_ns.size)
    order = np.argsort(np.concatenate([collective, everyone]), kind="stable")
    counts = np.bincount(collective, minlength=everyone.size) + 1
    return _Candidates(
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        occurrence=np.concatenate([occurrence, np.full(everyone.size, -1)])[order],
        collective=np.concatenate([collective, everyone])[order],
    )


def _match(
    whole: LaunchGraph,
    main_links: LaneLinks,
    occurrences: Occurrences,
    side: Lane,
    tolerance_ns: int,
    options: AlignmentOptions,
    *,
    compile_loops: bool,
) -> LaneLinks:
    candidates = _find_candidates(occurrences, side, tolerance_ns)
    site = np.append(occurrences.site, -1)[candidates.occurrence]
    _, symbol = np.unique(side.symbols, return_inverse=True)
    symbol = symbol.reshape(-1)[candidates.collective]
    duration = np.log(np.maximum(side.end_ns - side.start_ns, 1).astype(np.float64))[candidates.collective]
    weights = np.where(site >= 0, 0.3, _STRANGER)
    steps = _Steps.of(candidates)
    for number in range(_ROUNDS):
        posterior = _find(candidates, steps, weights, compile_loops=compile_loops)
        if number + 1 < _ROUNDS:
            weights = _learn_weights(site, symbol, duration, posterior.ratios, whole.sites_count)
    return _side_links(whole, main_links, occurrences, candidates, posterior, options)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Steps:
    """The cells of the matrices from the candidates of one collective to those of the next."""

    rows: IntArray
    columns: IntArray
    starts: IntArray
    target: IntArray
    values: FloatArray

    @classmethod
    def of(cls, candidates: _Candidates) -> _Steps:
        sizes = np.diff(candidates.starts)
        columns = sizes
        rows = np.concatenate([[1], sizes[:-1]])  # nothing stands before the first one
        starts = np.concatenate([[0], np.cumsum(rows * columns)])
        matrix = np.repeat(np.arange(sizes.size), rows * columns)
        row, column = np.divmod(np.arange(starts[-1]) - starts[matrix], columns[matrix])
        target = candidates.starts[matrix] + column
        origin = candidates.starts[np.maximum(matrix - 1, 0)] + row
        before, after = candidates.occurrence[origin], candidates.occurrence[target]
        gap = after - before - 1
        values = np.where(gap >= 0, _LOST ** np.clip(gap, 0, _LONGEST_GAP).astype(np.float64), 0.0)
        values = np.where((before < 0) | (after < 0), _NOWHERE, values)
        values = np.where(matrix == 0, 1.0, values)
        return cls(rows=rows, columns=columns, starts=starts, target=target, values=values)


def _find(candidates: _Candidates, steps: _Steps, weights: FloatArray, *, compile_loops: bool) -> Posterior:
    moves = MoveMatrices(
        matrix_of=np.arange(steps.rows.size),
        rows=steps.rows,
        columns=steps.columns,
        starts=steps.starts,
        values=steps.values * weights[steps.target],
    )
    return find_posterior(moves, np.ones(1), compile_loops=compile_loops)


def _learn_weights(
    site: IntArray, symbol: IntArray, duration: FloatArray, ratios: FloatArray, sites_count: int
) -> FloatArray:
    """How well each collective fits the habits of each candidate: its symbol, and its duration."""
    is_site = site >= 0
    own, ratio = site[is_site], ratios[is_site]
    count = sum_by(own, ratio, sites_count)
    mean = sum_by(own, ratio * duration[is_site], sites_count) / np.maximum(count, 1e-3)
    squares = sum_by(own, ratio * duration[is_site] ** 2, sites_count) / np.maximum(count, 1e-3)
    spread = np.maximum(np.sqrt(np.maximum(squares - mean**2, 0.0)), _LEAST_SPREAD)
    is_known = count > 5
    mean, spread = np.where(is_known, mean, 0.0), np.where(is_known, spread, 1e3)
    symbols_count = int(symbol.max()) + 1
    joint = sum_by(symbol[is_site] * sites_count + own, ratio, symbols_count * sites_count)
    joint = joint.reshape(symbols_count, sites_count) + 0.05
    share = (joint / joint.sum(axis=0))[symbol, np.maximum(site, 0)]
    distance = (duration - mean[np.maximum(site, 0)]) / spread[np.maximum(site, 0)]
    fits = share * np.exp(-0.5 * distance**2) / spread[np.maximum(site, 0)] + 1e-12
    return np.where(is_site, fits, _STRANGER)


def _side_links(
    whole: LaunchGraph,
    main_links: LaneLinks,
    occurrences: Occurrences,
    candidates: _Candidates,
    posterior: Posterior,
    options: AlignmentOptions,
) -> LaneLinks:
    ratios, starts = posterior.ratios, candidates.starts
    largest, cell = largest_cells(ratios, starts, candidates.collective)
    chosen = candidates.occurrence[cell]
    site = np.append(occurrences.site, -1)
    meant = np.append(instruction_numbers(whole), -1)[site[candidates.occurrence]]
    agrees = meant == meant[cell][candidates.collective]
    ratio = sum_by(candidates.collective[agrees], ratios[agrees], largest.size)
    label = np.where(
        ratio >= options.certain_ratio, CERTAIN, np.where(ratio >= options.likely_ratio, LIKELY, AMBIGUOUS)
    )
    is_none = chosen < 0
    label = np.where(is_none, UNLINKED, label)
    source = np.append(occurrences.source, 0)[chosen]
    depth = main_links.iterations.counters.shape[1]
    levels = (np.arange(depth)[None, :] < (whole.loops[site[chosen]] >= 0).sum(axis=1)[:, None]) & ~is_none[:, None]
    counters = np.where(levels, main_links.iterations.counters[source], -1)
    found: dict[int, tuple[tuple[int, float], ...]] = {}
    for collective in np.flatnonzero(label == AMBIGUOUS).tolist():
        begin, end = starts[collective], starts[collective + 1] - 1
        found[collective] = _by_instruction(meant, site[candidates.occurrence], ratios, range(begin, end))
    return LaneLinks(
        graph=whole,
        order=np.arange(label.size),
        site=np.where(is_none, -1, site[chosen]),
        label=label,
        ratio=np.where(is_none, np.nan, ratio),
        is_own=np.zeros(label.size, dtype=np.bool_),
        is_lone=np.zeros(label.size, dtype=np.bool_),
        iterations=Iterations(
            execution=np.where(is_none, -1, main_links.iterations.execution[source]),
            counters=counters,
            is_sure=~is_none & (largest >= options.likely_ratio) & main_links.iterations.is_sure[source],
            is_break=np.zeros(label.size, dtype=np.bool_),
        ),
        candidates=found,
    )


def _by_instruction(meant: IntArray, site: IntArray, ratios: FloatArray, cells: range) -> tuple[tuple[int, float], ...]:
    """A site of each instruction with its probability, most probable first."""
    sums: dict[int, float] = {}
    site_of: dict[int, int] = {}
    for cell in cells:
        number = int(meant[cell])
        sums[number] = sums.get(number, 0.0) + float(ratios[cell])
        site_of.setdefault(number, int(site[cell]))
    shown = [(site_of[number], ratio) for number, ratio in sums.items() if ratio > _NOWHERE * 20]
    return tuple(sorted(shown, key=lambda each: -each[1]))
