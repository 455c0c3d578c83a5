"""Interval algebra against a bitmap: on small integers a set of intervals is a Python set of instants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import interval_lists, labelled_interval_lists, offsets

from rocktools.errors import ContractError
from rocktools.intervals import (
    LABELS_LIMIT,
    Intervals,
    covered_length,
    gaps,
    intersection,
    length_by_mask,
    mask_lengths_by,
    mask_of,
    subtraction,
    sweep,
    union,
    union_by,
    union_length,
    union_length_by,
)

Pairs = list[tuple[int, int]]

BOOT_NS = 13_000_000_000_000_000
COMPUTE, COMMUNICATION, COPY = 0, 1, 2

small_labels = st.integers(0, 3)
all_labels = st.sampled_from([0, 1, 2, 30, 31, 32, 61, LABELS_LIMIT - 1])


def arrays(pairs: Iterable[Sequence[int]], offset: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of intervals given as pairs."""
    table = np.array([pair[:2] for pair in pairs], dtype=np.int64).reshape(-1, 2) + offset
    return table[:, 0], table[:, 1]


def codes_of(triples: Iterable[tuple[int, int, int]]) -> np.ndarray:
    return np.array([code for _, _, code in triples], dtype=np.int64)


def set_of(pairs: Pairs, offset: int = 0) -> Intervals:
    return union(*arrays(pairs, offset))


def instants(pairs: Iterable[Sequence[int]]) -> set[int]:
    """The bitmap: every instant that one of the intervals covers."""
    return {instant for start, end, *_ in pairs for instant in range(start, end)}


def covered(intervals: Intervals, offset: int = 0) -> set[int]:
    return instants(as_pairs(intervals, offset))


def as_pairs(intervals: Intervals, offset: int = 0) -> Pairs:
    starts, ends = (intervals.start - offset).tolist(), (intervals.end - offset).tolist()
    return list(zip(starts, ends, strict=True))


def drawn(*rows: str) -> Pairs:
    """The intervals in a picture: each run of `#` in each row."""
    pairs = []
    for row in rows:
        edges = [i for i, (a, b) in enumerate(zip("." + row, row + ".", strict=True)) if (a == "#") != (b == "#")]
        pairs += list(zip(edges[::2], edges[1::2], strict=True))
    return pairs


# ---------------------------------------------------------------------------------------------------------------- union


@pytest.mark.parametrize(
    "rows, together",
    [
        pytest.param(["..####.."], "..####..", id="one"),
        pytest.param(["###.....", "...###.."], "######..", id="touching"),
        pytest.param(["###.....", "....###."], "###.###.", id="one-instant-apart"),
        pytest.param(["####....", "..####.."], "######..", id="overlapping"),
        pytest.param(["########", "..##....", ".....#.."], "########", id="nested"),
        pytest.param([".###....", ".###....", ".###...."], ".###....", id="duplicates"),
        pytest.param([".....##.", "##......", ".##....."], "###..##.", id="unordered"),
        pytest.param([], "........", id="none"),
    ],
)
def test_union_looks_as_drawn(rows: list[str], together: str) -> None:
    assert as_pairs(set_of(drawn(*rows))) == drawn(together)


def test_union_after_two_nested_intervals_is_not_counted_twice() -> None:
    """kerncraft's `intervals.py` says 11: after it drops [1, 2) its loop skips [3, 4).

    ##########
    .#........
    ...#......
    """
    assert union_length(*arrays([(0, 10), (1, 2), (3, 4)])) == 10


def test_union_of_empty_intervals_covers_nothing() -> None:
    assert as_pairs(set_of([(3, 3), (7, 7), (7, 7)])) == []


def test_empty_interval_does_not_join_two_others() -> None:
    assert as_pairs(set_of([(0, 3), (4, 4), (5, 8)])) == [(0, 3), (5, 8)]


def test_union_is_exact_to_the_nanosecond_after_months_of_uptime() -> None:
    assert as_pairs(set_of([(0, 1), (2, 3), (3, 5)], BOOT_NS), BOOT_NS) == [(0, 1), (2, 5)]


@given(interval_lists(), offsets)
def test_union_equals_the_bitmap(pairs: Pairs, offset: int) -> None:
    assert covered(set_of(pairs, offset), offset) == instants(pairs)


@given(interval_lists())
def test_union_comes_back_ascending_and_apart(pairs: Pairs) -> None:
    result = set_of(pairs)
    edges = np.stack([result.start, result.end], axis=1).ravel()
    assert bool((np.diff(edges) > 0).all())


@given(interval_lists())
def test_union_is_at_most_the_sum_and_equal_only_where_disjoint(pairs: Pairs) -> None:
    total = sum(end - start for start, end in pairs)
    are_disjoint = all(not instants([a]) & instants([b]) for i, a in enumerate(pairs) for b in pairs[:i])
    length = union_length(*arrays(pairs))
    assert length <= total
    assert (length == total) == are_disjoint


@given(st.data())
def test_order_does_not_matter(data: st.DataObject) -> None:
    pairs = data.draw(interval_lists())
    shuffled = data.draw(st.permutations(pairs))
    assert as_pairs(set_of(shuffled)) == as_pairs(set_of(pairs))


@given(interval_lists(), st.integers(0, 50))
def test_splitting_does_not_matter(pairs: Pairs, cut: int) -> None:
    split = [(start, min(end, max(start, cut))) for start, end in pairs]
    split += [(max(start, min(end, cut)), end) for start, end in pairs]
    assert as_pairs(set_of(split)) == as_pairs(set_of(pairs))


# ----------------------------------------------------------------------------------------------------- union per group


@given(labelled_interval_lists(labels=st.integers(0, 4)), offsets)
def test_grouped_union_equals_the_union_of_each_group(triples: list[tuple[int, int, int]], offset: int) -> None:
    per_group = [union_length(*arrays([t for t in triples if t[2] == group])) for group in range(5)]
    assert union_length_by(*arrays(triples, offset), codes_of(triples), 5).tolist() == per_group


@given(labelled_interval_lists(labels=st.integers(0, 4)))
def test_grouped_union_holds_over_clocks_too_far_apart_for_one_axis(triples: list[tuple[int, int, int]]) -> None:
    """Two nodes' boot clocks and 10,000 groups do not fit side by side into int64: times are ranked instead."""
    starts, ends = arrays(triples)
    far_starts, far_ends = np.append(starts, BOOT_NS), np.append(ends, BOOT_NS + 7)
    lengths = union_length_by(far_starts, far_ends, np.append(codes_of(triples), 9_999), 10_000)
    assert lengths[:5].tolist() == union_length_by(starts, ends, codes_of(triples), 5).tolist()
    assert lengths[9_999] == 7


def test_intervals_of_two_groups_that_touch_stay_apart() -> None:
    assert union_length_by(*arrays([(0, 5), (0, 5)]), np.array([0, 1]), 2).tolist() == [5, 5]


def test_group_without_intervals_covers_nothing() -> None:
    assert union_length_by(*arrays([(0, 5)]), np.array([2]), 4).tolist() == [0, 0, 5, 0]


def test_grouped_union_of_nothing_is_zero_per_group() -> None:
    assert union_length_by(*arrays([]), codes_of([]), 3).tolist() == [0, 0, 0]


# -------------------------------------------------------------------------------------------------------- set algebra


@pytest.mark.parametrize(
    "a, b, both, only_a",
    [
        pytest.param("#####...", "..#####.", "..###...", "##......", id="overlapping"),
        pytest.param("########", "..##..#.", "..##..#.", "##..##.#", id="nested"),
        pytest.param("###.....", "...###..", "........", "###.....", id="touching"),
        pytest.param("##.##.##", "##.##.##", "##.##.##", "........", id="equal"),
        pytest.param("#.#.#.#.", ".#.#.#.#", "........", "#.#.#.#.", id="interlocking"),
        pytest.param("...##...", "########", "...##...", "........", id="hidden-whole"),
        pytest.param("...##...", "........", "........", "...##...", id="nothing-to-subtract"),
        pytest.param("........", "...##...", "........", "........", id="nothing-to-subtract-from"),
    ],
)
def test_intersection_and_subtraction_look_as_drawn(a: str, b: str, both: str, only_a: str) -> None:
    first, second = set_of(drawn(a)), set_of(drawn(b))
    assert as_pairs(intersection(first, second)) == drawn(both)
    assert as_pairs(subtraction(first, second)) == drawn(only_a)


@given(interval_lists(), interval_lists(), offsets)
def test_intersection_equals_the_bitmap(a: Pairs, b: Pairs, offset: int) -> None:
    assert covered(intersection(set_of(a, offset), set_of(b, offset)), offset) == instants(a) & instants(b)


@given(interval_lists(), interval_lists(), offsets)
def test_subtraction_equals_the_bitmap(a: Pairs, b: Pairs, offset: int) -> None:
    assert covered(subtraction(set_of(a, offset), set_of(b, offset)), offset) == instants(a) - instants(b)


@given(interval_lists(), interval_lists())
def test_inclusion_and_exclusion_balance(a: Pairs, b: Pairs) -> None:
    first, second = set_of(a), set_of(b)
    assert set_of(a + b).length == first.length + second.length - intersection(first, second).length


@given(interval_lists(), interval_lists())
def test_subtraction_and_intersection_make_the_whole(a: Pairs, b: Pairs) -> None:
    first, second = set_of(a), set_of(b)
    outside, inside = as_pairs(subtraction(first, second)), as_pairs(intersection(first, second))
    assert as_pairs(set_of(outside + inside)) == as_pairs(first)
    assert not instants(outside) & instants(inside)


@given(interval_lists(), interval_lists())
def test_intersection_does_not_care_which_set_comes_first(a: Pairs, b: Pairs) -> None:
    first, second = set_of(a), set_of(b)
    assert as_pairs(intersection(first, second)) == as_pairs(intersection(second, first))


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([(0, 3), (3, 5)], id="touching"),
        pytest.param([(0, 3), (2, 5)], id="overlapping"),
        pytest.param([(4, 5), (0, 3)], id="descending"),
        pytest.param([(2, 2)], id="empty"),
    ],
)
def test_a_set_refuses_intervals_that_are_not_apart(pairs: Pairs) -> None:
    with pytest.raises(ContractError, match="interval-not-disjoint"):
        Intervals(*arrays(pairs))


# ---------------------------------------------------------------------------------------------- covered length and gaps


def test_covered_length_looks_as_drawn() -> None:
    """
    by      ..###..##.
    [0, 10) ##########  5
    [3, 8)  ...#####..  3
    [5, 7)  .....##...  0
    [4, 4)  ..........  0
    """
    starts, ends = arrays([(0, 10), (3, 8), (5, 7), (4, 4)])
    assert covered_length(starts, ends, set_of(drawn("..###..##."))).tolist() == [5, 3, 0, 0]


@given(interval_lists(), interval_lists(), offsets)
def test_covered_length_equals_the_bitmap_of_each_interval(pairs: Pairs, by: Pairs, offset: int) -> None:
    expected = [len(instants([pair]) & instants(by)) for pair in pairs]
    assert covered_length(*arrays(pairs, offset), set_of(by, offset)).tolist() == expected


@pytest.mark.parametrize(
    "busy, window, idle",
    [
        pytest.param(["..##..#.", "...#...."], None, "....##..", id="without-a-window"),
        pytest.param(["..##..#."], (0, 8), "##..##.#", id="window-around"),
        pytest.param(["..##..#."], (3, 6), "....##..", id="window-inside"),
        pytest.param(["#.......", ".......#"], (2, 4), "..##....", id="window-between"),
        pytest.param(["########"], (2, 4), "........", id="window-busy"),
        pytest.param(["..##...."], (4, 4), "........", id="window-empty"),
        pytest.param([], (2, 4), "..##....", id="nothing-ran-in-the-window"),
        pytest.param([], None, "........", id="nothing-ran"),
        pytest.param(["..##...."], None, "........", id="one-interval"),
    ],
)
def test_gaps_look_as_drawn(busy: list[str], window: tuple[int, int] | None, idle: str) -> None:
    assert as_pairs(gaps(*arrays(drawn(*busy)), window=window)) == drawn(idle)


@given(interval_lists(), st.integers(0, 50), st.integers(0, 50), offsets)
def test_gaps_in_a_window_are_its_instants_without_the_busy_ones(pairs: Pairs, a: int, b: int, offset: int) -> None:
    window = min(a, b), max(a, b)
    idle = gaps(*arrays(pairs, offset), window=(window[0] + offset, window[1] + offset))
    assert covered(idle, offset) == instants([window]) - instants(pairs)


@given(interval_lists().filter(lambda pairs: bool(instants(pairs))))
def test_span_is_busy_and_idle(pairs: Pairs) -> None:
    busy = instants(pairs)
    assert union_length(*arrays(pairs)) + gaps(*arrays(pairs)).length == max(busy) + 1 - min(busy)


# --------------------------------------------------------------------------------------------------------------- sweep


def test_sweep_looks_as_drawn() -> None:
    """
    COMPUTE        ####..##..
    COMPUTE        ..##......
    COMMUNICATION  ...####...
    COPY           .........#
    """
    pairs = drawn("####..##..", "..##......", "...####...", ".........#")
    labels = np.array([COMPUTE, COMPUTE, COMPUTE, COMMUNICATION, COPY])
    segments = sweep(*arrays(pairs), labels)
    rows = zip(segments.start.tolist(), segments.end.tolist(), segments.mask.tolist(), strict=True)
    both = mask_of([COMPUTE, COMMUNICATION])
    assert list(rows) == [
        (0, 3, mask_of([COMPUTE])),
        (3, 4, both),
        (4, 6, mask_of([COMMUNICATION])),
        (6, 7, both),
        (7, 8, mask_of([COMPUTE])),
        (9, 10, mask_of([COPY])),
    ]


def test_collective_behind_two_overlapping_kernels_is_hidden_once() -> None:
    """nsys-jax sums the pairs: 16 ms of a 10 ms collective hidden, -6 ms remaining.

    COMMUNICATION  ##########
    COMPUTE        ########..
    COMPUTE        .########.
    """
    ms = 1_000_000
    starts, ends = arrays([(0, 10 * ms), (0, 8 * ms), (1 * ms, 9 * ms)], BOOT_NS)
    segments = sweep(starts, ends, np.array([COMMUNICATION, COMPUTE, COMPUTE]))
    assert segments.where(all_of=[COMMUNICATION, COMPUTE]).length == 9 * ms
    assert segments.where(all_of=[COMMUNICATION], none_of=[COMPUTE]).length == 1 * ms


@given(labelled_interval_lists(labels=all_labels), offsets)
def test_sweep_equals_the_bitmap_of_every_label(triples: list[tuple[int, int, int]], offset: int) -> None:
    segments = sweep(*arrays(triples, offset), codes_of(triples))
    expected: dict[int, int] = {}
    for start, end, label in triples:
        for instant in range(start, end):
            expected[instant] = expected.get(instant, 0) | 1 << label
    rows = zip((segments.start - offset).tolist(), (segments.end - offset).tolist(), segments.mask, strict=True)
    assert {instant: int(mask) for start, end, mask in rows for instant in range(start, end)} == expected


@given(labelled_interval_lists(labels=small_labels))
def test_segments_that_touch_have_different_masks(triples: list[tuple[int, int, int]]) -> None:
    segments = sweep(*arrays(triples), codes_of(triples))
    touch = segments.end[:-1] == segments.start[1:]
    assert bool((segments.mask[:-1][touch] != segments.mask[1:][touch]).all())


@given(labelled_interval_lists(labels=small_labels), st.permutations(range(12)))
def test_sweep_does_not_depend_on_the_order(triples: list[tuple[int, int, int]], order: list[int]) -> None:
    shuffled = [triples[i] for i in order if i < len(triples)]
    first, second = sweep(*arrays(triples), codes_of(triples)), sweep(*arrays(shuffled), codes_of(shuffled))
    assert [first.start.tolist(), first.mask.tolist()] == [second.start.tolist(), second.mask.tolist()]


@given(labelled_interval_lists(labels=small_labels))
def test_lengths_by_mask_add_up_to_the_union(triples: list[tuple[int, int, int]]) -> None:
    lengths = length_by_mask(sweep(*arrays(triples), codes_of(triples)))
    assert sum(lengths.values()) == union_length(*arrays(triples))


@given(labelled_interval_lists(labels=small_labels))
def test_lengths_of_the_masks_with_a_label_add_up_to_its_union(triples: list[tuple[int, int, int]]) -> None:
    lengths = length_by_mask(sweep(*arrays(triples), codes_of(triples)))
    for label in range(4):
        own = union_length(*arrays([t for t in triples if t[2] == label]))
        assert sum(length for mask, length in lengths.items() if mask >> label & 1) == own


@given(labelled_interval_lists(labels=st.sampled_from([COMPUTE, COMMUNICATION, COPY])), offsets)
def test_busy_is_compute_and_exposed_communication_and_exposed_copy(
    triples: list[tuple[int, int, int]], offset: int
) -> None:
    segments = sweep(*arrays(triples, offset), codes_of(triples))
    compute = segments.where(all_of=[COMPUTE]).length
    communication = segments.where(all_of=[COMMUNICATION]).length
    hidden = segments.where(all_of=[COMMUNICATION, COMPUTE]).length
    exposed = segments.where(all_of=[COMMUNICATION], none_of=[COMPUTE]).length
    exposed_copy = segments.where(all_of=[COPY], none_of=[COMPUTE, COMMUNICATION]).length
    assert 0 <= hidden <= communication
    assert hidden + exposed == communication
    assert compute + exposed + exposed_copy == union_length(*arrays(triples, offset))


def test_sweep_of_nothing_has_no_segments() -> None:
    assert length_by_mask(sweep(*arrays([]), codes_of([]))) == {}


# ---------------------------------------------------------------------------------------------- sweep and gaps by group


def _masks_of_group(triples: list[tuple[int, int, int]], groups: list[int], group: int) -> dict[int, int]:
    own = [triple for triple, of in zip(triples, groups, strict=True) if of == group]
    return length_by_mask(sweep(*arrays(own), codes_of(own)))


@pytest.mark.parametrize("far", [0, BOOT_NS], ids=["near", "far-apart"])
@given(data=st.data())
def test_mask_lengths_by_group_equal_the_sweep_of_each_group(data: st.DataObject, far: int) -> None:
    """Far apart: 10,000 groups do not fit side by side into int64."""
    triples = data.draw(labelled_interval_lists(labels=small_labels))
    groups = data.draw(st.lists(st.integers(0, 3), min_size=len(triples), max_size=len(triples)))
    starts, ends = arrays([*triples, (far, far + 7)])
    labels, codes = np.append(codes_of(triples), 1), np.append(np.array(groups, dtype=np.int64), 9_999)
    lengths = mask_lengths_by(starts, ends, labels, codes, labels_count=4, groups_count=10_000)
    for group in range(4):
        found = {mask: int(length) for mask, length in enumerate(lengths[group]) if length}
        assert found == _masks_of_group(triples, groups, group)
    assert lengths[9_999].tolist() == [0, 0, 7, *[0] * 13]


def test_mask_lengths_of_nothing_are_zero() -> None:
    nothing = np.array([], dtype=np.int64)
    assert mask_lengths_by(nothing, nothing, nothing, nothing, labels_count=1, groups_count=2).tolist() == [[0, 0]] * 2


@given(labelled_interval_lists(labels=st.integers(0, 4)), offsets)
def test_union_by_group_is_the_union_of_each_group_and_its_gaps_are_theirs(
    triples: list[tuple[int, int, int]], offset: int
) -> None:
    found = union_by(*arrays(triples, offset), codes_of(triples), 5)
    between = found.gaps()
    for group in range(5):
        own = arrays([triple for triple in triples if triple[2] == group], offset)
        mine = found.group == group
        assert as_pairs(Intervals(found.start[mine], found.end[mine])) == as_pairs(union(*own))
        mine = between.group == group
        assert as_pairs(Intervals(between.start[mine], between.end[mine])) == as_pairs(gaps(*own))


@pytest.mark.parametrize("labels_count", [0, 9])
def test_mask_lengths_refuse_a_number_of_labels_without_a_table(labels_count: int) -> None:
    nothing = np.array([], dtype=np.int64)
    with pytest.raises(ContractError, match="interval-labels"):
        mask_lengths_by(nothing, nothing, nothing, nothing, labels_count=labels_count, groups_count=1)


# -------------------------------------------------------------------------------------------------- what is not allowed

CALLS = {
    "union": lambda start, end: union(start, end),
    "union_length": lambda start, end: union_length(start, end),
    "union_length_by": lambda start, end: union_length_by(start, end, np.zeros(len(start), dtype=np.int64), 1),
    "covered_length": lambda start, end: covered_length(start, end, set_of([(0, 5)])),
    "gaps": lambda start, end: gaps(start, end, window=(0, 20)),
    "sweep": lambda start, end: sweep(start, end, np.zeros(len(start), dtype=np.int64)),
}


@pytest.mark.parametrize("name", CALLS)
def test_interval_that_ends_before_it_starts_is_refused(name: str) -> None:
    with pytest.raises(ContractError, match=r"interval-negative: 1 of 2 .*\n.*interval 1: \[9, 8\)"):
        CALLS[name](*arrays([(0, 5), (9, 8)]))


@pytest.mark.parametrize("name", CALLS)
def test_float_times_are_refused(name: str) -> None:
    with pytest.raises(ContractError, match="interval-dtype"):
        CALLS[name](np.array([0.0]), np.array([5.0]))


@pytest.mark.parametrize("name", CALLS)
def test_starts_without_ends_are_refused(name: str) -> None:
    with pytest.raises(ContractError, match="interval-shape"):
        CALLS[name](np.array([0, 3]), np.array([5]))


@pytest.mark.parametrize("name", CALLS)
def test_inputs_stay_as_they_were(name: str) -> None:
    starts, ends = arrays([(9, 12), (0, 5), (3, 8), (4, 4)])
    starts.setflags(write=False)
    ends.setflags(write=False)
    CALLS[name](starts, ends)
    assert [starts.tolist(), ends.tolist()] == [[9, 0, 3, 4], [12, 5, 8, 4]]


def test_unsigned_64_bit_times_are_refused() -> None:
    with pytest.raises(ContractError, match="interval-dtype"):
        union(np.array([0], dtype=np.uint64), np.array([5], dtype=np.uint64))


def test_window_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ContractError, match="interval-negative"):
        gaps(*arrays([(0, 5)]), window=(5, 4))


@pytest.mark.parametrize("label", [-1, LABELS_LIMIT])
def test_label_without_a_bit_is_refused(label: int) -> None:
    with pytest.raises(ContractError, match="interval-labels"):
        sweep(*arrays([(0, 5)]), np.array([label]))
    with pytest.raises(ContractError, match="interval-labels"):
        mask_of([label])


@pytest.mark.parametrize("code", [-1, 3])
def test_code_out_of_range_is_refused(code: int) -> None:
    with pytest.raises(ContractError, match="interval-codes"):
        union_length_by(*arrays([(0, 5)]), np.array([code]), 3)


def test_codes_of_another_length_are_refused() -> None:
    with pytest.raises(ContractError, match="interval-shape"):
        union_length_by(*arrays([(0, 5)]), np.array([0, 0]), 3)
