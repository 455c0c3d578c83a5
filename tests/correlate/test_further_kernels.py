"""Kernels without a site win the places where they keep standing, and only those."""

from __future__ import annotations

import numpy as np
import pytest
from aligned_programs import habits_of, make_chain, place_names
from tiny_program import Node, all_reduce, kernel, matmul

from rocktools.correlate.further_kernels import (
    Neighbourhood,
    find_further_kernels,
    find_neighbourhoods,
    find_substitutes,
    link_further_kernels,
)
from rocktools.correlate.kernel_families import KernelFamily
from rocktools.correlate.launch_chain import LaunchChain

#   a generated, m a matrix product, b and d generated, r a collective
NODES: list[Node] = [kernel("a.1"), matmul("m.1"), kernel("b.1"), all_reduce("r.1"), kernel("d.1")]
UNKNOWN, MERGE, HELPER = KernelFamily.UNKNOWN, KernelFamily.ROCPRIM, KernelFamily.TENSILE_HELPER


def read(chain: LaunchChain, text: str, symbols: str = "uvw") -> Neighbourhood:
    """A path in which lower letters of `symbols` are dispatches without a site."""
    words = text.split()
    names = {letter: number + 1 for number, letter in enumerate(symbols)}
    placed = np.array([place for place, word in enumerate(words) if word not in names])
    position = place_names(chain.graph, " ".join(words[place] for place in placed))
    symbol = np.array([names.get(word, 0) for word in words])
    return find_neighbourhoods(symbol, placed, position, chain.graph.outside)


@pytest.fixture
def chain() -> LaunchChain:
    return make_chain(NODES)


def test_neighbours_are_the_nearest_placed_dispatches(chain: LaunchChain) -> None:
    found = read(chain, "u a m v u b . w d")
    outside = chain.graph.outside
    assert found.dispatch.tolist() == [0, 3, 4, 7]
    assert found.before.tolist() == [outside, 1, 1, outside]
    assert found.behind.tolist() == [0, 2, 2, 4]
    assert found.group.tolist() == [0, 2, 2, 4]


def test_a_name_that_keeps_standing_where_a_kernel_is_missing_is_its_substitute(chain: LaunchChain) -> None:
    around = read(chain, "a m u r d " * 10)
    habits = habits_of(chain.graph, [10, 10, 0, 10, 10], [10] * 5)
    assert find_substitutes(chain, habits, around, [UNKNOWN] * 4) == {1: [2]}


def test_a_library_does_not_stand_for_a_generated_kernel(chain: LaunchChain) -> None:
    around = read(chain, "a m v u r d " * 10)
    habits = habits_of(chain.graph, [10, 10, 0, 10, 10], [10] * 5)
    assert find_substitutes(chain, habits, around, [UNKNOWN, UNKNOWN, MERGE, UNKNOWN]) == {1: [2]}


@pytest.mark.parametrize(
    "path, emitted",
    [
        ("a m u r d " + "a m b r d " * 9, [10, 10, 9, 10, 10]),  # once is chance
        ("a m b r d u " * 10, [10, 10, 10, 10, 10]),  # nothing is missing there
    ],
)
def test_a_stranger_is_no_substitute(chain: LaunchChain, path: str, emitted: list[float]) -> None:
    habits = habits_of(chain.graph, emitted, [10] * 5)
    assert find_substitutes(chain, habits, read(chain, path), [UNKNOWN] * 4) == {}


def owners(chain: LaunchChain, path: str, family: KernelFamily = UNKNOWN, emitted: float = 10) -> list[str]:
    """Site of each dispatch without one, by its first letter; `-` for none."""
    habits = habits_of(chain.graph, [emitted] * 5, [emitted] * 5)
    around = read(chain, path)
    families = [family] * 4
    further = find_further_kernels(chain, habits, around, families)
    owner, _ = link_further_kernels(chain, further, around)
    return ["-" if site < 0 else chain.graph.sites[site].instruction[0] for site in owner.tolist()]


def test_a_kernel_behind_a_matrix_product_is_part_of_it(chain: LaunchChain) -> None:
    assert owners(chain, "a m u b r d " * 10) == ["m"] * 10
    assert owners(chain, "a m u u b r d " * 10, HELPER) == ["m"] * 20


def test_a_kernel_between_a_generated_one_and_a_matrix_product_is_part_of_the_product(chain: LaunchChain) -> None:
    assert owners(chain, "a u m b r d " * 10) == ["m"] * 10


def test_what_no_library_explains_belongs_to_the_generated_kernel_before_it(chain: LaunchChain) -> None:
    """The passes of a sort, whose first kernel XLA generated."""
    assert owners(chain, "a m b u r d " * 10, MERGE) == ["b"] * 10


def test_where_the_first_kernel_was_lost_its_further_kernels_still_belong_to_it(chain: LaunchChain) -> None:
    assert owners(chain, "a m u b r d " * 9 + "a u b r d ") == ["m"] * 10


def test_strangers_belong_to_nothing(chain: LaunchChain) -> None:
    assert owners(chain, "a u m b r d a m b r d a m u b r d " + "a m b r d " * 7) == ["-", "-"]


def test_iterations_come_from_the_side_that_it_belongs_to(chain: LaunchChain) -> None:
    habits = habits_of(chain.graph, [10] * 5, [10] * 5)
    around = read(chain, "a u m v b r d " * 10)
    further = find_further_kernels(chain, habits, around, [UNKNOWN] * 4)
    owner, is_behind = link_further_kernels(chain, further, around)
    assert owner.tolist() == [1] * 20
    assert is_behind.tolist() == [False, True] * 10
