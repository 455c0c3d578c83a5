"""Collectives by the computation that they start beside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rocktools.correlate.collective_places import StartOrder, choose_by_place, tabulate_places

Row = tuple[str, int]


def make_order(rows: Sequence[Row], devices: Sequence[int] | None = None) -> tuple[StartOrder, np.ndarray]:
    """`c` for computation, `R` for a collective, each with its label; rows are numbered as they start."""
    order = StartOrder(
        row=np.arange(len(rows)),
        device=np.array(devices or [0] * len(rows)),
        is_collective=np.array([kind == "R" for kind, _ in rows]),
    )
    return order, np.array([label for _, label in rows])


# Computation 1 to 8; collective 11 starts behind 2, and 12 behind 7.
STEP: list[Row] = [*(("c", i) for i in (1, 2)), ("R", 11), *(("c", i) for i in (3, 4, 5, 6, 7)), ("R", 12), ("c", 8)]


def test_a_label_is_at_home_beside_three_kernels_on_either_side():
    assert tabulate_places(*make_order(STEP)) == {11: {1, 2, 3, 4, 5}, 12: {5, 6, 7, 8}}


@pytest.mark.parametrize(
    ("beside", "chosen"),
    [((2, 3), [11]), ((3, 4), [11]), ((1, 2), [11]), ((7, 8), [12]), ((5, 6), [12]), ((4, 5), [11]), ((2, 8), None)],
)
def test_the_collective_is_chosen_that_is_at_home_between_both_neighbours(beside, chosen):
    asked, labels = make_order([("c", beside[0]), ("R", 0), ("c", beside[1])])
    found = choose_by_place({1: np.array([11, 12, 12])}, asked, labels, tabulate_places(*make_order(STEP)))
    assert {row: each.tolist() for row, each in found.items()} == ({} if chosen is None else {1: chosen})


def test_where_two_are_at_home_both_are_left():
    places = {11: frozenset({1, 2}), 12: frozenset({2, 3})}
    asked, labels = make_order([("c", 2), ("R", 0)])
    assert choose_by_place({1: np.array([12, 11])}, asked, labels, places)[1].tolist() == [11, 12]


def test_neighbours_without_a_label_say_nothing():
    asked, labels = make_order([("c", 0), ("R", 0), ("c", 0)])
    assert choose_by_place({1: np.array([11, 12])}, asked, labels, tabulate_places(*make_order(STEP))) == {}


def test_computation_of_another_device_is_no_neighbour():
    asked, labels = make_order([("c", 7), ("R", 0), ("c", 3)], devices=[0, 1, 1])
    found = choose_by_place({1: np.array([11, 12])}, asked, labels, tabulate_places(*make_order(STEP)))
    assert found[1].tolist() == [11]
