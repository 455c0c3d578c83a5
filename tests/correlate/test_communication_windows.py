"""Collectives on a stream of their own are placed by the windows that the main stream leaves them."""

from __future__ import annotations

import numpy as np
import pytest
from aligned_programs import make_graph
from tiny_program import Async, Loop, Node, kernel

from rocktools.correlate.communication_windows import TOLERANCES_NS, align_side_streams, find_occurrences
from rocktools.correlate.iterations import Iterations
from rocktools.correlate.lane_alignment import AlignmentOptions, Lane
from rocktools.correlate.lane_links import AMBIGUOUS, CERTAIN, LIKELY, UNLINKED, LaneLinks

#   a  [ b  (r: c)  d  (s: e) ]*2  f       (r: c) is collective r, and c, which runs beside it
NODES: list[Node] = [
    kernel("a.1"),
    Loop(
        "while.1", [kernel("b.1"), Async("r.1", [kernel("c.1")]), kernel("d.1"), Async("s.1", [kernel("e.1")])], 2, []
    ),
    kernel("f.1"),
]
PATH = "a b c d e b c d e f"
UNIT_NS = 100_000


def make_main(path: str = PATH, first: int = 0) -> tuple[Lane, LaneLinks]:
    """The main stream, one dispatch a unit, each half as long; everything is placed."""
    graph = make_graph(NODES, main_stream_only=True)
    names = {site.instruction[0]: state for state, site in enumerate(graph.sites)}
    site = np.array([names[word] for word in path.split()])
    count = site.size
    iteration = np.cumsum(site == names["b"]) - 1
    in_loop = np.isin(site, [names[word] for word in "bcde"])
    start = UNIT_NS * (first + np.arange(count))
    lane = Lane(symbols=site, start_ns=start, end_ns=start + UNIT_NS // 2, is_main=np.ones(count, dtype=bool))
    links = LaneLinks(
        graph=graph,
        order=np.arange(count),
        site=site,
        label=np.full(count, CERTAIN),
        ratio=np.ones(count),
        is_own=np.ones(count, dtype=bool),
        is_lone=np.zeros(count, dtype=bool),
        iterations=Iterations(
            execution=np.zeros(count, dtype=np.int64),
            counters=np.where(in_loop, iteration, -1)[:, None],
            is_sure=np.ones(count, dtype=bool),
            is_break=np.zeros(count, dtype=bool),
        ),
    )
    return lane, links


def make_side(times: list[tuple[float, float]], shift_ns: int = 0) -> Lane:
    start, end = (np.array([UNIT_NS * pair[number] for pair in times]).astype(np.int64) for number in (0, 1))
    count = start.size
    return Lane(
        symbols=np.zeros(count, dtype=np.int64),
        start_ns=start + shift_ns,
        end_ns=end + shift_ns,
        is_main=np.zeros(count, dtype=bool),
    )


def test_a_window_is_from_the_end_of_what_was_launched_before_to_the_start_of_what_waits() -> None:
    # unit   0 1 2 3 4 5 6 7 8 9
    #        a b c d e b c d e f
    # r          |---|     |---|       from the end of b (1.5) to the start of d (3)
    # s              |---|     |---|   from the end of d (3.5) to the start of what follows e (5)
    whole = make_graph(NODES)
    main, links = make_main()
    found = find_occurrences(whole, main, links)
    names = [whole.sites[site].instruction[0] for site in found.site]
    assert names == ["r", "s", "r", "s"]
    assert (found.opens_ns / UNIT_NS).tolist() == [1.5, 3.5, 5.5, 7.5]
    assert (found.closes_ns / UNIT_NS).tolist() == [3, 5, 7, 9]


@pytest.mark.parametrize("compile_loops", [False, pytest.param(True, id="numba")])
def test_collectives_are_placed_with_their_iterations(compile_loops: bool) -> None:
    if compile_loops:
        pytest.importorskip("numba")
    whole = make_graph(NODES)
    main, links = make_main()
    side = make_side([(1.6, 2.4), (3.6, 4.2), (5.6, 6.4), (7.6, 8.2)])
    found = align_side_streams(whole, main, links, side, AlignmentOptions(), compile_loops=compile_loops)
    assert [whole.sites[site].instruction[0] for site in found.links.site] == ["r", "s", "r", "s"]
    assert found.links.label.tolist() == [CERTAIN] * 4
    assert found.links.iterations.counters[:, 0].tolist() == [0, 0, 1, 1]
    assert found.links.iterations.is_sure.all()
    assert found.tolerance_ns == TOLERANCES_NS[0]


def test_a_lost_collective_leaves_the_others_in_their_places() -> None:
    whole = make_graph(NODES)
    main, links = make_main()
    side = make_side([(1.6, 2.4), (5.6, 6.4), (7.6, 8.2)])
    found = align_side_streams(whole, main, links, side, AlignmentOptions(), compile_loops=False)
    assert [whole.sites[site].instruction[0] for site in found.links.site] == ["r", "r", "s"]
    assert found.links.iterations.counters[:, 0].tolist() == [0, 1, 1]


def test_a_collective_outside_of_every_window_is_none_of_the_program() -> None:
    whole = make_graph(NODES)
    main, links = make_main(first=40)
    side = make_side([(1.6, 2.4), (41.6, 42.4), (43.6, 44.2), (45.6, 46.4), (47.6, 48.2)])
    found = align_side_streams(whole, main, links, side, AlignmentOptions(), compile_loops=False)
    assert found.links.label.tolist() == [UNLINKED, *[CERTAIN] * 4]
    assert found.links.site[0] == -1


def test_clocks_that_disagree_widen_the_windows_and_cost_certainty() -> None:
    whole = make_graph(NODES)
    main, links = make_main()
    times = [(1.5, 2.4), (3.5, 4.2), (5.5, 6.4), (7.5, 8.2)]
    found = align_side_streams(whole, main, links, make_side(times, -15_000), AlignmentOptions(), compile_loops=False)
    assert found.tolerance_ns == TOLERANCES_NS[1]
    assert found.is_trusted
    assert found.links.label.tolist() == [LIKELY] * 4


def test_collectives_that_fit_nowhere_are_not_trusted() -> None:
    whole = make_graph(NODES)
    main, links = make_main(" ".join([PATH] * 4))
    # Each begins before everything it waits for, by more than any tolerance.
    late = [(10 * step + unit + 0.1, 10 * step + unit + 9) for step in range(3) for unit in (1, 5)]
    found = align_side_streams(whole, main, links, make_side(late), AlignmentOptions(), compile_loops=False)
    assert not found.is_trusted
    assert found.links.label.max() <= AMBIGUOUS


def test_nothing_is_linked_beside_a_main_stream_without_links() -> None:
    whole = make_graph(NODES)
    main, links = make_main()
    links.label[:] = UNLINKED
    found = align_side_streams(whole, main, links, make_side([(1.6, 2.4)]), AlignmentOptions(), compile_loops=False)
    assert found.links.label.tolist() == [UNLINKED]
    assert not found.is_trusted
