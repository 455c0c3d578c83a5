"""Labels from surroundings: letters are symbols, a letter's label is what the test says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rocktools.correlate.contexts import ABSENT, DISAGREE, SymbolRows, narrow, vote


def make_rows(*sequences: str) -> SymbolRows:
    """One row per letter."""
    symbols = [ord(letter) for text in sequences for letter in text]
    sequence = [place for place, text in enumerate(sequences) for _ in text]
    return SymbolRows(symbols=np.array(symbols, dtype=np.int64), sequence=np.array(sequence, dtype=np.int64))


def labels_of(known: str, labels: Sequence[int], asked: str) -> list[int]:
    return vote(make_rows(known), np.array(labels, dtype=np.int64), make_rows(asked)).labels.tolist()


#   known   a b a c      a is label 0 before b, and label 2 before c
KNOWN, LABELS = "abac", [0, 1, 2, 3]


def test_a_symbol_with_one_label_has_it_anywhere():
    assert labels_of(KNOWN, LABELS, "b") == [1]


def test_a_symbol_with_several_labels_has_that_of_its_surroundings():
    assert labels_of(KNOWN, LABELS, "abac") == [0, 1, 2, 3]
    assert labels_of(KNOWN, LABELS, "ac") == [2, 3]


def test_where_surroundings_do_not_help_it_is_ambiguous():
    found = vote(make_rows(KNOWN), np.array(LABELS), make_rows("a"))
    assert found.labels.tolist() == [DISAGREE]
    assert found.places(0).tolist() == [0, 2]


def test_a_symbol_that_is_not_known_is_absent():
    assert labels_of(KNOWN, LABELS, "xb") == [ABSENT, 1]


def test_the_end_of_the_labelled_sequence_does_not_speak_for_its_middle():
    """Only the last of four a has four before it; the other three could have, in a sequence that began earlier."""
    assert labels_of("aaaa", [0, 1, 2, 3], "aaaaaa") == [DISAGREE] * 6
    assert labels_of("aaaab" * 2, [0, 1, 2, 3, 4] * 2, "aaaabaaaab") == [0, 1, 2, 3, 4] * 2


def test_one_side_is_enough():
    """What is before the second a was lost; what is behind tells."""
    assert labels_of(KNOWN, LABELS, "xac")[1] == 2


def test_stretches_end_where_their_sequence_ends():
    known = make_rows("ab", "ac")
    found = vote(known, np.array([0, 1, 2, 3]), make_rows("a", "c"))
    assert found.labels.tolist() == [DISAGREE, 3]


def test_how_often_a_sequence_repeats_itself_does_not_matter():
    assert labels_of(KNOWN * 2, LABELS * 2, KNOWN * 5) == LABELS * 5


def test_nothing_is_labelled_by_nothing():
    assert labels_of("", [], "ab") == [ABSENT, ABSENT]
    assert labels_of("ab", [0, 1], "") == []


def test_reach_says_how_far_both_sides_agree():
    """A stranger stands where e was."""
    found = vote(make_rows("abcdefgh"), np.arange(8), make_rows("abcdxfgh"), sure_reach=8)
    assert found.reach.tolist() == [1, 2, 2, 1, 0, 1, 2, 1]


def test_a_label_is_firm_if_the_symbol_alone_has_it_or_enough_around_it_agrees():
    found = vote(make_rows(KNOWN), np.array(LABELS), make_rows("xacx"))
    assert found.is_firm().tolist() == [False, False, True, False]


LAYER, LAYERS_COUNT = "pqrpst", 12
STEP = f"ABCD{LAYER * LAYERS_COUNT}EFGH"


def test_equal_layers_are_told_apart_by_how_far_the_ends_are():
    """Twelve layers of the same kernels, each with instructions of its own."""
    labels = list(range(len(STEP)))
    assert labels_of(STEP * 2, labels * 2, STEP * 3) == labels * 3


def test_equal_layers_are_counted_across_a_loss_from_both_ends():
    """The loss hides the distance to the left end from what is behind it, and to the right end from what is before."""
    labels = np.array(list(range(len(STEP))) * 2)
    lost = 40
    asked = make_rows(STEP[:lost] + STEP[lost + 1 :])
    known = make_rows(STEP * 2)
    found = vote(known, labels, asked)
    truth = [place for place in range(len(STEP)) if place != lost]
    near = narrow(found, known, labels, asked, gap=4)
    labelled = [
        set(labels[near[row]].tolist()) if label == DISAGREE else {label}
        for row, label in enumerate(found.labels.tolist())
    ]
    assert labelled == [{place} for place in truth]


SIDES = ((1, 0), (0, 1), (1, 1))


def stretch(text: str, row: int, side: tuple[int, int], length: int) -> str | None:
    """What stands around a row, the row included; None where the text ends before that."""
    first, last = row - side[0] * (length - 1), row + side[1] * (length - 1)
    return text[first : last + 1] if first >= 0 and last < len(text) else None


def oracle(known: str, labels: Sequence[int], asked: str, row: int) -> int:
    """The rule by brute force: every stretch of 1, 2, 4, ... before, behind and around the row."""
    if asked[row] not in known:
        return ABSENT
    cut: list[set[int]] = [set(), set(), set()]
    places = range(len(known))
    for length in (1, 2, 4, 8, 16, 32):
        for number, side in enumerate(SIDES):
            longer = [stretch(known, place, side, length) for place in places]
            wanted, shorter = stretch(asked, row, side, length), stretch(asked, row, side, length // 2)
            if length > 1 and shorter is not None:
                seen = {labels[place] for place in places if longer[place] is not None}
                ends = [place for place in places if longer[place] is None and labels[place] not in seen]
                cut[number] |= {labels[place] for place in ends if stretch(known, place, side, length // 2) == shorter}
            found = {labels[place] for place in places if wanted is not None and longer[place] == wanted}
            if found and len(found | cut[number]) == 1:
                return found.pop()
    return DISAGREE


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=24),
    st.text("abcd", max_size=16),
)
def test_labels_are_those_of_brute_force(known, asked):
    text, labels = "".join(symbol for symbol, _ in known), [label for _, label in known]
    assert labels_of(text, labels, asked) == [oracle(text, labels, asked, row) for row in range(len(asked))]


@given(st.text("ab", min_size=1, max_size=30), st.data())
def test_narrowing_keeps_only_rows_with_the_symbol(known, data):
    asked = data.draw(st.text("ab", max_size=30))
    rows, labels, other = make_rows(known), np.arange(len(known)), make_rows(asked)
    found = vote(rows, labels, other)
    near = narrow(found, rows, labels, other, gap=2)
    assert sorted(near) == np.flatnonzero(found.labels == DISAGREE).tolist()
    for row, places in near.items():
        assert places.size > 0
        assert set(places.tolist()) <= set(found.places(row).tolist())
        assert {known[place] for place in places.tolist()} == {asked[row]}
