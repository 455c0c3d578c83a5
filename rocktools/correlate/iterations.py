"""Sites along a path -> which execution of the program each dispatch belongs to, and which iteration of each loop.

    site      a b c b c b c d   a b c ...
    loop          ^   ^           each way back to the beginning of a loop counts one iteration,
    execution 0 0 0 0 0 0 0 0   1 1 1     each way back to the beginning of the program one execution

Only dispatches that are placed with confidence count; the others take over what the one before them has. Where the path
breaks (a lost stretch, a trace that begins inside a loop), iterations behind the break are counted back from the exit
of the loop, if its trip count is known; else they are not sure. Executions are counted from the first one seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rocktools.correlate.arrays import BoolArray, IntArray
from rocktools.correlate.launch_chain import LaunchChain, LaunchGraph

_LEAST_ENTRY = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Iterations:
    """By dispatch.

    Attributes:
        execution: from 0, over all programs of the chain; -1 outside.
        counters: (dispatches, depth) iteration of each enclosing loop, outermost first; -1 where there is none.
        is_sure: whether both can be relied on.
        is_break: whether the path was broken before the dispatch.
    """

    execution: IntArray
    counters: IntArray
    is_sure: BoolArray
    is_break: BoolArray


def count_iterations(chain: LaunchChain, position: IntArray, is_counted: BoolArray) -> Iterations:
    """The iterations along a path.

    Args:
        chain: of the sites.
        position: site of each dispatch, `outside` where it is none.
        is_counted: whether the dispatch is placed with confidence, and the first kernel of its site, or outside.
    """
    graph = chain.graph
    counted = np.flatnonzero(is_counted)
    counted = counted[~_is_excursion(chain, position[counted])]
    depth = graph.loops.shape[1]
    if counted.size == 0:
        nothing = np.full(position.size, -1, dtype=np.int64)
        no = np.zeros(position.size, dtype=np.bool_)
        counters = np.full((position.size, depth), -1, dtype=np.int64)
        return Iterations(execution=nothing, counters=counters, is_sure=no, is_break=no)
    path = _follow(chain, position[counted])
    _count_back(graph, path)
    owner = np.searchsorted(counted, np.arange(position.size), side="right") - 1
    is_inside = (position < graph.outside) & (owner >= 0)
    taken = np.maximum(owner, 0)
    is_inside &= path.position[taken] < graph.outside
    own = np.zeros(position.size, dtype=np.bool_)
    own[counted] = True
    is_break = np.zeros(position.size, dtype=np.bool_)
    is_break[counted] = path.is_break
    return Iterations(
        execution=np.where(is_inside, path.execution[taken], -1),
        counters=np.where(is_inside[:, None], path.counters[taken], -1),
        is_sure=is_inside & path.is_sure[taken] & (own | (path.position[taken] == position)),
        is_break=is_break,
    )


def _is_excursion(chain: LaunchChain, position: IntArray) -> BoolArray:
    """Whether a dispatch is outside between two sites of which the second does not begin an execution.

    The program did not end there: a stranger with the name of one of its kernels, or a mistake.
    """
    outside = chain.graph.outside
    is_inside = position < outside
    places = np.arange(position.size)
    following = np.minimum.accumulate(np.where(is_inside, places, position.size)[::-1])[::-1]
    has_before = np.maximum.accumulate(is_inside)
    found = ~is_inside & has_before & (following < position.size)
    found[found] = ~_begins_execution(chain, position[following[found]])
    return found


def _begins_execution(chain: LaunchChain, site: IntArray) -> BoolArray:
    """Whether an execution may begin with a dispatch of the site: few that leave one as a rule come before it.

    Where more of them are missing, it is more probable that recording began inside of the execution.
    """
    entered = chain.move[chain.graph.outside]
    return np.asarray(entered[site] > _LEAST_ENTRY * entered[:-1].sum())


@dataclass(slots=True, eq=False)
class _Path:
    """The counted dispatches."""

    position: IntArray
    execution: IntArray
    counters: IntArray
    is_sure: BoolArray
    is_break: BoolArray


def _follow(chain: LaunchChain, position: IntArray) -> _Path:
    """Executions and iterations by the ways back alone."""
    graph = chain.graph
    outside, depth_count = graph.outside, graph.loops.shape[1]
    origin = np.concatenate([[outside], position[:-1]]).astype(np.int64)
    is_inside = position < outside
    was_inside = origin < outside
    both = is_inside & was_inside
    start, target = np.where(both, origin, 0), np.where(both, position, 0)
    depth = np.where(both, graph.common_depth(start, target), -1)
    is_back = both & (target <= start)
    is_new = (is_inside & ~was_inside) | (both & ((depth < 0) | (is_back & (depth == 0))))
    is_break = np.zeros(position.size, dtype=np.bool_)
    is_break[both] = ~chain.is_real[origin[both], position[both]]
    # Whatever comes from outside begins an execution at its first sites; anything else was cut.
    entered = is_inside & ~was_inside
    is_break[entered] = ~_begins_execution(chain, position[entered])
    execution = np.cumsum(is_new) - 1
    # Where an execution begins with a break, how many there were before it is not known.
    is_lost = is_new & is_break
    is_lost[: np.argmax(is_inside) + 1] = False
    counters = np.full((position.size, depth_count), -1, dtype=np.int64)
    for level in range(depth_count):
        is_iteration = is_back & (depth == level + 1)
        # Entered anew: the loop of this level is not around both, or a loop around it went back.
        is_reset = is_new | (both & (depth <= level)) | (is_back & (depth <= level))
        total = np.cumsum(is_iteration)
        base = np.maximum.accumulate(np.where(is_reset, total, 0))
        loop = np.where(is_inside, graph.loops[np.where(is_inside, position, 0), level], -1)
        counters[:, level] = np.where(loop >= 0, total - base, -1)
    return _Path(
        position=position,
        execution=np.where(is_inside, execution, -1),
        counters=counters,
        is_sure=is_inside & (np.cumsum(is_lost) == 0),
        is_break=is_break,
    )


def _count_back(graph: LaunchGraph, path: _Path) -> None:
    """Repair the iterations of each execution of a loop by its trip count, where it was broken."""
    inside = np.flatnonzero(path.position < graph.outside)
    if inside.size == 0:
        return
    for level in range(graph.loops.shape[1]):
        loop = graph.loops[path.position[inside], level]
        keys = np.column_stack([path.execution[inside], path.counters[inside, :level], loop])
        begins = np.concatenate([[0], np.flatnonzero((np.diff(keys, axis=0) != 0).any(axis=1)) + 1])
        ends = np.append(begins[1:], inside.size)
        largest = np.maximum.reduceat(path.counters[inside, level], begins) + 1
        breaks = np.add.reduceat(path.is_break[inside].astype(np.int64), begins)
        trips = np.where(loop[begins] >= 0, graph.trip_counts[np.maximum(loop[begins], 0)], -1)
        suspicious = (loop[begins] >= 0) & ((breaks > 0) | ((trips >= 0) & (largest != trips)))
        for run in np.flatnonzero(suspicious):
            members = inside[begins[run] : ends[run]]
            is_ended = ends[run] < inside.size
            _repair(path, members, level, int(trips[run]), int(largest[run]), is_ended=is_ended)


def _repair(path: _Path, members: IntArray, level: int, trips: int, found: int, *, is_ended: bool) -> None:
    broken = members[path.is_break[members]]
    if trips < 0:
        if broken.size:
            path.is_sure[members[members >= broken[0]]] = False
        return
    if not is_ended and broken.size == 0 and found <= trips:
        return  # the trace ends in this loop, and nothing is wrong
    if found == trips and broken.size <= 1 and is_ended:
        return
    if is_ended and broken.size and found < trips:
        behind = members[members >= broken[-1]]
        path.counters[behind, level] += trips - found
        if broken.size == 1:
            return
        path.is_sure[members[(members >= broken[0]) & (members < broken[-1])]] = False
        return
    path.is_sure[members] = False
