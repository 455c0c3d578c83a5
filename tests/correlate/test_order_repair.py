"""Neighbours in the wrong order are found where the path breaks, and exchanged where that fits."""

from __future__ import annotations

import numpy as np
import pytest
from aligned_programs import decoding_at, make_chain, place_names
from tiny_program import Node, kernel

from rocktools.correlate.kernel_meanings import Ground, Meaning
from rocktools.correlate.launch_chain import LaunchChain
from rocktools.correlate.order_repair import exchanged_order, find_exchanges

LETTERS = "abcdefghijklmn"
NODES: list[Node] = [kernel(f"{letter}.1") for letter in LETTERS]


def exchanges(chain: LaunchChain, path: str, decoded: str) -> list[int]:
    """`path` are the kernels, each of one site; `decoded` where they were placed, `.` outside."""
    meanings = [
        Meaning(ground=Ground.EXACT, sites=np.array([site]), weights=np.ones(1), outside=1e-3)
        for site in range(chain.graph.sites_count)
    ]
    symbols = place_names(chain.graph, path)
    return find_exchanges(
        chain, meanings, symbols, decoding_at(chain.graph, place_names(chain.graph, decoded))
    ).tolist()


@pytest.fixture
def chain() -> LaunchChain:
    return make_chain(NODES)


def test_a_step_back_is_an_exchange(chain: LaunchChain) -> None:
    path = "a b c d f e g h i j k l m n a b"
    assert exchanges(chain, path, path) == [4]


def test_a_dispatch_without_a_site_may_be_one_half_of_an_exchange(chain: LaunchChain) -> None:
    assert exchanges(chain, "a b c d f e g h i j k l m n a b", "a b c d . e g h i j k l m n a b") == [4]


def test_two_exchanges_are_two(chain: LaunchChain) -> None:
    path = "a c b d e f g h i k j l m n a b"
    assert exchanges(chain, path, path) == [1, 9]


@pytest.mark.parametrize(
    "path",
    [
        "a b c d e f g h i j k l m n a b c d",
        "a b c e f g h i j k l m n a b c d e",  # one was lost
        "h i j k l m n a b c d e a b c d e f",  # a lost stretch: the path breaks, and nothing mends it
    ],
)
def test_nothing_is_exchanged_where_that_does_not_help(chain: LaunchChain, path: str) -> None:
    assert exchanges(chain, path, path) == []


def test_exchanges_make_an_order() -> None:
    assert exchanged_order(6, np.array([0, 3])).tolist() == [1, 0, 2, 4, 3, 5]
    assert exchanged_order(2, np.array([], dtype=np.int64)).tolist() == [0, 1]
