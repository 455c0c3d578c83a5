"""Executions and iterations follow from the ways back, and from trip counts where the path is broken."""

from __future__ import annotations

import numpy as np
import pytest
from aligned_programs import make_chain, place_names
from tiny_program import Loop, Node, kernel

from rocktools.correlate.iterations import Iterations, count_iterations


def nested(outer: int | None, inner: int | None) -> list[Node]:
    """a [ b [ c d ]*inner e ]*outer f"""
    return [
        kernel("a.1"),
        Loop(
            "while.1",
            [kernel("b.1"), Loop("while.2", [kernel("c.1"), kernel("d.1")], inner, []), kernel("e.1")],
            outer,
            [],
        ),
        kernel("f.1"),
    ]


def count(nodes: list[Node], path: str) -> Iterations:
    chain = make_chain(nodes)
    position = place_names(chain.graph, path)
    # `?` stands for a dispatch that is not placed with confidence, at the site of the one before it.
    is_counted = position >= 0
    for place in np.flatnonzero(~is_counted):
        position[place] = position[place - 1]
    return count_iterations(chain, position, is_counted)


def digits(values: np.ndarray) -> str:
    return " ".join("." if value < 0 else str(value) for value in values.tolist())


def test_every_way_back_to_the_beginning_of_a_loop_is_an_iteration() -> None:
    found = count(nested(2, 2), "a b c d c d e b c d c d e f a b c d")
    assert digits(found.execution) == "0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 1 1 1"
    assert digits(found.counters[:, 0]) == ". 0 0 0 0 0 0 1 1 1 1 1 1 . . 0 0 0"
    assert digits(found.counters[:, 1]) == ". . 0 0 1 1 . . 0 0 1 1 . . . . 0 0"
    assert found.is_sure.all()


def test_lost_dispatches_do_not_lose_an_iteration_that_another_one_shows() -> None:
    found = count(nested(2, 2), "a b c c e c d d f b d")
    assert digits(found.execution) == "0 0 0 0 0 0 0 0 0 1 1"
    assert digits(found.counters[:, 0]) == ". 0 0 0 0 1 1 1 . 0 0"
    assert digits(found.counters[:, 1]) == ". . 0 1 . 0 0 1 . . 0"


def test_a_trace_that_begins_inside_a_loop_counts_back_from_its_exit() -> None:
    # The last 3 of 5 iterations of the inner loop in the last of 2 of the outer.
    found = count(nested(2, 5), "d c d c d e f a b")
    assert digits(found.counters[:, 1]) == "2 3 3 4 4 . . . ."
    assert digits(found.counters[:, 0]) == "1 1 1 1 1 1 . . 0"
    assert found.is_sure.all()


def test_without_a_trip_count_a_broken_loop_is_not_sure() -> None:
    found = count(nested(2, None), "d c d c d e f a b")
    assert not found.is_sure[:5].any()
    assert digits(found.execution) == "0 0 0 0 0 0 0 1 1"


def test_a_loop_that_is_cut_at_both_ends_is_not_sure() -> None:
    found = count(nested(2, 9), "d c d c d")
    assert not found.is_sure.any()


def test_too_few_iterations_without_a_break_are_not_sure() -> None:
    found = count(nested(1, 5), "a b c d c d c d e f a")
    assert found.is_sure.tolist() == [True, True, *[False] * 6, True, True, True]


def test_dispatches_without_confidence_take_over_what_the_one_before_has() -> None:
    found = count(nested(2, 2), "a b c ? c d e")
    assert digits(found.counters[:, 1]) == ". . 0 0 1 1 ."


def test_the_outside_between_two_executions_has_none() -> None:
    found = count([kernel("a.1"), kernel("b.1")], ". a b . . a b .")
    assert digits(found.execution) == ". 0 0 . . 1 1 ."
    assert found.is_sure.tolist() == [False, True, True, False, False, True, True, False]


def test_an_excursion_within_an_execution_ends_none() -> None:
    nodes = [kernel(f"{letter}.1") for letter in "abcdefghijklmnop"]
    found = count(nodes, "a b c d e f g . h i j k l m n o p a")
    assert digits(found.execution) == "0 0 0 0 0 0 0 . 0 0 0 0 0 0 0 0 0 1"


def test_executions_behind_one_that_does_not_begin_are_not_sure() -> None:
    letters = "abcdefghijklmnop"
    nodes = [kernel(f"{letter}.1") for letter in letters]
    # After m comes j: the trace lost at least 13 dispatches, or any number of executions.
    found = count(nodes, "a b c d e f g h i j k l m j k l")
    assert found.is_sure.tolist() == [*[True] * 13, *[False] * 3]


@pytest.mark.parametrize("path", [".", "?", ""])
def test_nothing_counted_has_no_place(path: str) -> None:
    chain = make_chain([kernel("a.1")])
    size = len(path.split())
    found = count_iterations(chain, np.full(size, chain.graph.outside), np.zeros(size, dtype=bool))
    assert (found.execution == -1).all()
    assert not found.is_sure.any()
