"""Launch sites and their flow -> a Markov chain over "the last site that left a dispatch".

From one dispatch to the next the program moves along its flow, and may pass sites that leave nothing: a lost record, a
copy that a copy engine did. With N the flow from site to site and S the probabilities of leaving nothing,
R = N (I - S N)^-1 adds up all ways from one site to another with everything between them unseen, loops included. So the
chain has one state per site, however long the trace is, and needs no trip counts. One more state stands for everything
outside of these programs: warm-up, autotuning, other executables. Several programs share it.

Knows nothing of kernel names. Times enter only as the mean duration of each site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rocktools.correlate.arrays import BoolArray, FloatArray, IntArray
from rocktools.correlate.launch_sites import Launch, LaunchPlan, LaunchSite, Loop, Step

JUMP = 1e-9
"""From anywhere to anywhere: a lost buffer, a capture that was switched on in the middle of a step."""
JUMP_OUT = 1e-8
JUMP_IN = 1e-7
_IS_JUMP = 3 * JUMP
_AGAIN = 0.7  # the next step follows directly
_STAY_OUTSIDE = 0.6
_LEAVE_UNKNOWN_LOOP = 0.05
_NORMALLY_EMITS = 0.7
_SHORTEST_SHARE = 0.6  # of its mean duration, that a lost kernel must have had

_MOST_SWEEPS = 20
_SETTLED = 1e-15

Ends = list[tuple[int, float]]


@dataclass(frozen=True, kw_only=True, eq=False)
class LaunchGraph:
    """The sites of one or several programs as one set of states, and the arcs between them.

    Attributes:
        sites: of all programs, one program after the other.
        program_of: site -> program.
        number_of: site -> its number in the plan of its program.
        program_ids: by program.
        arcs: (sites, sites) probability that the flow goes from one to the other next, the next step included.
        entry: probability that an execution of the site's program begins with it.
        leaving: probability that an execution ends with the site and no other follows directly.
        loops: (sites, depth) numbers of the enclosing loops, outermost first; -1 where there are no more.
        trip_counts: by loop number; -1 where not known.
        first, last: by loop number, then by program: first and last site in it.
        is_optional: whether the site may leave nothing as a habit.
        look_alikes: neighbours of one kind that may leave nothing, which nothing can tell apart.
    """

    sites: tuple[LaunchSite, ...]
    program_of: IntArray
    number_of: IntArray
    program_ids: tuple[str, ...]
    arcs: FloatArray
    entry: FloatArray
    leaving: FloatArray
    loops: IntArray
    trip_counts: IntArray
    first: IntArray
    last: IntArray
    is_optional: BoolArray
    look_alikes: tuple[IntArray, ...]

    @property
    def sites_count(self) -> int:
        return len(self.sites)

    @property
    def outside(self) -> int:
        """Number of the state outside of all programs."""
        return len(self.sites)

    def common_depth(self, origin: IntArray, target: IntArray) -> IntArray:
        """How many loops enclose both sites; -1 where they are of different programs."""
        depth = np.zeros(np.broadcast(origin, target).shape, dtype=np.int64)
        is_same = np.asarray(self.program_of[origin] == self.program_of[target])
        depth = np.where(is_same, depth, -1)
        for level in range(self.loops.shape[1]):
            loop = self.loops[origin, level]
            is_same = is_same & (loop >= 0) & (loop == self.loops[target, level])
            depth = depth + is_same
        return depth

    def around(self, origin: IntArray, depth: IntArray) -> tuple[IntArray, IntArray]:
        """First and last site of what encloses `origin` at that depth: its loop, or at depth 0 its whole program."""
        if self.loops.shape[1] == 0:
            number = self.trip_counts.size + self.program_of[origin]
        else:
            loop = self.loops[origin, np.maximum(depth - 1, 0)]
            number = np.where(depth > 0, loop, self.trip_counts.size + self.program_of[origin])
        return self.first[number], self.last[number]


@dataclass(frozen=True, kw_only=True, eq=False)
class LaunchChain:
    """The chain, for certain habits of the sites.

    Attributes:
        graph: what it was built from.
        move: (sites + 1, sites + 1) probability that the next dispatch is of that site; the last state is outside.
        is_real: where that is more than a jump.
        needed_pause_ns: (sites, sites) idle time that lost kernels on the way must have left.
    """

    graph: LaunchGraph
    move: FloatArray
    is_real: BoolArray
    needed_pause_ns: FloatArray


def build_launch_graph(plans: Sequence[LaunchPlan], *, main_stream_only: bool) -> LaunchGraph:
    """The graph of these programs.

    Args:
        plans: at least one.
        main_stream_only: leave out what asynchronous starts put on streams of their own.
    """
    kept = [
        (program, number, site)
        for program, plan in enumerate(plans)
        for number, site in enumerate(plan.sites)
        if not (main_stream_only and site.stream)
    ]
    index = {(program, number): state for state, (program, number, _) in enumerate(kept)}
    sites = tuple(site for _, _, site in kept)
    program_of = np.array([program for program, _, _ in kept], dtype=np.int64)
    linker = _Linker(size=len(sites))
    for program, plan in enumerate(plans):
        linker.link_program({number: index.get((program, number)) for number in range(len(plan.sites))}, plan.flow)
    loops, trip_counts = _number_loops(plans, program_of, sites)
    first, last = _ranges(loops, trip_counts.size, program_of, len(plans))
    is_optional = np.array([site.emission < 0.9 for site in sites], dtype=np.bool_)
    return LaunchGraph(
        sites=sites,
        program_of=program_of,
        number_of=np.array([number for _, number, _ in kept], dtype=np.int64),
        program_ids=tuple(plan.program_id for plan in plans),
        arcs=linker.arcs,
        entry=linker.entry,
        leaving=linker.leaving,
        loops=loops,
        trip_counts=trip_counts,
        first=first,
        last=last,
        is_optional=is_optional,
        look_alikes=_look_alikes(sites, program_of, is_optional),
    )


class _Linker:
    """Collects the arcs. A way through steps is told by where it enters and where it ends."""

    def __init__(self, size: int) -> None:
        self.arcs = np.zeros((size, size))
        self.entry = np.zeros(size)
        self.leaving = np.zeros(size)
        self._states: dict[int, int | None] = {}

    def link_program(self, states: dict[int, int | None], flow: Sequence[Step]) -> None:
        self._states = states
        entry, ends, _ = self._through(flow)
        for site, probability in entry:
            self.entry[site] += probability
        for site, probability in ends:
            self.leaving[site] += (1 - _AGAIN) * probability
        self._join(ends, entry, _AGAIN)

    def _join(self, ends: Ends, entry: Ends, factor: float = 1.0) -> None:
        for origin, leaving in ends:
            for target, entering in entry:
                self.arcs[origin, target] += factor * leaving * entering

    def _through(self, steps: Sequence[Step]) -> tuple[Ends, Ends, float]:
        """Where a way through these steps enters, where it ends, and how probable it is that it passes no site."""
        entry: Ends = []
        ends: Ends = []
        is_empty = 1.0
        for step in steps:
            step_entry, step_ends, step_is_empty = self._through_step(step)
            self._join(ends, step_entry)
            entry += [(site, is_empty * probability) for site, probability in step_entry]
            ends = [(site, step_is_empty * probability) for site, probability in ends if step_is_empty > 0] + step_ends
            is_empty *= step_is_empty
        return entry, ends, is_empty

    def _through_step(self, step: Step) -> tuple[Ends, Ends, float]:
        if isinstance(step, Launch):
            state = self._states[step.site]
            return ([], [], 1.0) if state is None else ([(state, 1.0)], [(state, 1.0)], 0.0)
        if isinstance(step, Loop):
            return self._through_loop(step)
        ways = [self._through(branch) for branch in step.branches]
        share = 1 / max(len(ways), 1)
        entry = [(site, share * probability) for way in ways for site, probability in way[0]]
        ends = [(site, share * probability) for way in ways for site, probability in way[1]]
        return entry, ends, share * sum(way[2] for way in ways) if ways else 1.0

    def _through_loop(self, loop: Loop) -> tuple[Ends, Ends, float]:
        if loop.trip_count == 0:
            return [], [], 1.0
        leave = 1 / loop.trip_count if loop.trip_count else _LEAVE_UNKNOWN_LOOP
        body_entry, body_ends, body_is_empty = self._through(loop.body)
        entry, ends, is_empty = self._through(loop.condition)
        if not entry:
            self._join(body_ends, body_entry, 1 - leave)
            return body_entry, [(site, leave * probability) for site, probability in body_ends], body_is_empty
        if not body_entry:
            self._join(ends, entry, 1 - leave)
            return entry, [(site, leave * probability) for site, probability in ends], is_empty
        self._join(ends, body_entry, 1 - leave)
        self._join(body_ends, entry)
        return entry, [(site, leave * probability) for site, probability in ends], is_empty


def _number_loops(
    plans: Sequence[LaunchPlan], program_of: IntArray, sites: Sequence[LaunchSite]
) -> tuple[IntArray, IntArray]:
    numbers: dict[tuple[int, int], int] = {}
    trip_counts: list[int] = []
    for program, plan in enumerate(plans):
        for thunk_id, trip_count in plan.trip_counts.items():
            numbers[program, thunk_id] = len(trip_counts)
            trip_counts.append(-1 if trip_count is None else trip_count)
    depth = max((len(site.loops) for site in sites), default=0)
    loops = np.full((len(sites), depth), -1, dtype=np.int64)
    for state, site in enumerate(sites):
        for level, thunk_id in enumerate(site.loops):
            loops[state, level] = numbers[int(program_of[state]), thunk_id]
    return loops, np.array(trip_counts, dtype=np.int64)


def _ranges(loops: IntArray, loops_count: int, program_of: IntArray, programs_count: int) -> tuple[IntArray, IntArray]:
    first = np.full(loops_count + programs_count, len(program_of), dtype=np.int64)
    last = np.full(loops_count + programs_count, -1, dtype=np.int64)
    for state in range(len(program_of)):
        inside = [*(loop for loop in loops[state] if loop >= 0), loops_count + program_of[state]]
        first[inside] = np.minimum(first[inside], state)
        last[inside] = np.maximum(last[inside], state)
    return first, last


def _look_alikes(sites: Sequence[LaunchSite], program_of: IntArray, is_optional: BoolArray) -> tuple[IntArray, ...]:
    """Runs of such neighbours. They must share one probability: else learning would settle on any one of them."""
    runs: list[list[int]] = []
    previous: tuple[object, ...] | None = None
    for state, site in enumerate(sites):
        key = (program_of[state], site.kind, site.loops) if is_optional[state] else None
        if key is not None and key == previous:
            runs[-1].append(state)
        elif key is not None:
            runs.append([state])
        previous = key
    return tuple(np.array(run, dtype=np.int64) for run in runs)


def build_launch_chain(graph: LaunchGraph, emission: FloatArray, duration_ns: FloatArray) -> LaunchChain:
    """The chain for these habits.

    Args:
        graph: sites and flow.
        emission: probability that passing a site leaves a dispatch, by site.
        duration_ns: mean duration of a site's kernel; 0 where it leaves no pause when it is lost.
    """
    size = graph.sites_count
    silent = np.clip(1 - emission, 1e-3, 1.0)
    silent[~graph.is_optional] = np.minimum(silent[~graph.is_optional], 0.999)
    move = np.zeros((size + 1, size + 1))
    out = np.zeros(size)
    reached = np.zeros(size)
    for program in range(len(graph.program_ids)):
        own = np.flatnonzero(graph.program_of == program)
        if own.size == 0:
            continue
        arcs = graph.arcs[np.ix_(own, own)]
        ways = sum_ways(arcs, silent[own])
        move[np.ix_(own, own)] = ways * (1 - silent[own])
        out[own] = graph.leaving[own] + ways @ (silent[own] * graph.leaving[own])
        entry = graph.entry[own]
        reached[own] = (entry + (entry * silent[own]) @ ways) * (1 - silent[own])
    reached *= (1 - _STAY_OUTSIDE) / len(graph.program_ids)
    # Another program may follow without anything between them.
    move[:size, :size] += out[:, None] * reached
    move[:size, size] = out * _STAY_OUTSIDE
    move[size, :size] = reached
    move[size, size] = _STAY_OUTSIDE
    is_real = move > _IS_JUMP
    pauses = _needed_pauses(graph, emission, duration_ns, is_real[:size, :size])
    move[:size, :size] += JUMP
    move[:size, size] += JUMP_OUT
    move[size, :size] += JUMP_IN
    return LaunchChain(graph=graph, move=move, is_real=is_real, needed_pause_ns=pauses)


def sum_ways(arcs: FloatArray, silent: FloatArray) -> FloatArray:
    """R = N (I - S N)^-1: from site to site, over all ways on which everything between leaves nothing.

    The flow runs forward but for the ways back of loops. So R = N + N S R, taken row by row from the last site to the
    first, is right at once but for ways around a whole loop unseen, which die out with each sweep. Where they do not,
    the equations are solved as a whole.
    """
    ways: FloatArray = arcs.copy()
    rows = [(row, np.flatnonzero(arcs[row])) for row in range(len(arcs) - 1, -1, -1)]
    steps = [(row, targets, arcs[row, targets] * silent[targets]) for row, targets in rows if targets.size]
    for _ in range(_MOST_SWEEPS):
        largest = 0.0
        for row, targets, weights in steps:
            found = arcs[row] + weights @ ways[targets]
            largest = max(largest, float(np.abs(found - ways[row]).max()))
            ways[row] = found
        if largest < _SETTLED:
            return ways
    solved: FloatArray = np.linalg.solve((np.eye(len(arcs)) - silent[:, None] * arcs).T, arcs.T)
    return np.ascontiguousarray(solved.T)


def _needed_pauses(graph: LaunchGraph, emission: FloatArray, duration_ns: FloatArray, is_real: BoolArray) -> FloatArray:
    usual = np.where(emission > _NORMALLY_EMITS, _SHORTEST_SHARE * duration_ns, 0.0)
    origin, target = np.nonzero(is_real)
    pauses = np.zeros(is_real.shape)
    pauses[origin, target] = sum_between(graph, usual, origin, target)
    return pauses


def sum_between(graph: LaunchGraph, values: FloatArray, origin: IntArray, target: IntArray) -> FloatArray:
    """The sum of the values of the sites passed from one to the other, for pairs of sites; neither is included."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    begins, ends = passed_ranges(graph, origin, target)
    return np.asarray((total[ends] - total[begins]).sum(axis=-1))


def passed_ranges(graph: LaunchGraph, origin: IntArray, target: IntArray) -> tuple[IntArray, IntArray]:
    """(pairs, 2) begins and ends of the two stretches of sites passed from one to the other; the second may be empty.

    Forward it is what stands between them in the text; backward, what is left of the innermost loop around both, and
    its beginning. From one program to another it is what is left of the one, and the beginning of the other.
    """
    depth = graph.common_depth(origin, target)
    first, last = graph.around(origin, np.maximum(depth, 0))
    target_first, _ = graph.around(target, np.zeros_like(target))
    is_forward = (depth >= 0) & (target > origin)
    middle = np.where(is_forward, target, last + 1)
    restart = np.where(is_forward, target, np.where(depth >= 0, first, target_first))
    return np.stack([origin + 1, restart], axis=-1), np.stack([np.maximum(middle, origin + 1), target], axis=-1)
