"""The period of sequences made of a step with layers, microsteps and a tail, so that its beginnings are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.timeline.period import Period, find_period, running_multiset


def kinds_of(text: str) -> np.ndarray:
    return np.array([ord(letter) for letter in text], dtype=np.int64)


def period(text: str, gaps: dict[int, int] | None = None) -> Period | None:
    gap_before = np.zeros(len(text), dtype=np.int64)
    for place, gap in (gaps or {}).items():
        gap_before[place] = gap
    return find_period(kinds_of(text), gap_before)


def test_step_begins_where_the_sequence_begins_to_repeat() -> None:
    found = period("abcde" * 3)
    assert found is not None
    assert (found.starts.tolist(), found.rows_count) == ([0, 5, 10], 5)
    assert (found.equal_count, found.is_last_whole, found.last_end) == (3, True, 15)


def test_kernel_of_every_layer_does_not_make_a_step() -> None:
    """Six layers forward, six backward, an optimizer."""
    step = "e" + "ab" * 6 + "h" + "cdf" * 6 + "ooo"
    found = period(step * 3)
    assert found is not None
    assert found.starts.tolist() == [0, len(step), 2 * len(step)]


def test_kernel_of_every_microstep_does_not_make_a_step() -> None:
    step = "eabababhcdcdcd" * 2 + "opqrsop"
    found = period(step * 4)
    assert found is not None
    assert found.rows_count == len(step)
    assert found.equal_count >= 3


def test_step_begins_after_the_longest_wait_in_a_trace_that_begins_within_one() -> None:
    text = "de" + "abcde" * 3 + "ab"
    waits = {2: 50, 7: 60, 12: 40, 17: 50}
    found = period(text, waits)
    assert found is not None
    assert found.starts.tolist() == [2, 7, 12, 17]
    assert not found.is_last_whole
    assert found.last_end == len(text)


def test_trace_of_whole_steps_only_is_divided_into_them_whatever_waits() -> None:
    found = period("abcde" * 4, {3: 50, 8: 60, 13: 50, 18: 50})
    assert found is not None
    assert (found.starts.tolist(), found.equal_count, found.is_last_whole) == ([0, 5, 10, 15], 4, True)


def test_first_step_after_other_kernels_begins_where_the_repetition_does() -> None:
    """The device waits longer within the steps than before them."""
    found = period("xyxzxyzzyx" + "abcdeafghijk" * 4 + "abc", {10: 5, 14: 90, 26: 90, 38: 90})
    assert found is not None
    assert found.starts.tolist() == [10, 22, 34, 46, 58]


def test_steps_that_all_lost_records_are_found_by_their_distance() -> None:
    """Every step lacks another kernel of its layers."""
    layers = "abcdefgh" * 12
    steps = ["xyz" + layers[:lost] + layers[lost + 1 :] + "uvw" for lost in (5, 30, 50, 63)]
    found = period("".join(steps))
    assert found is not None
    assert not found.is_exact
    assert found.starts.tolist() == [0, 101, 202, 303]
    assert (found.equal_count, found.is_last_whole) == (4, True)


def test_layers_of_a_single_step_are_no_steps() -> None:
    """Most rows are those of layers, but the kernels that run once are not in a layer."""
    assert period("efghi" + "abcd" * 40 + "jklmnopqrst") is None


def test_what_follows_the_last_step_is_not_in_it() -> None:
    found = period("abcdefgh" * 4 + "xy")
    assert found is not None
    assert (found.is_last_whole, found.last_end) == (True, 32)


def test_row_too_many_in_one_step_is_tolerated() -> None:
    found = period("abcdefgh" * 2 + "abcdlefgh" + "abcdefgh" * 2, {8: 9, 16: 9, 25: 9, 33: 9})
    assert found is not None
    assert found.starts.tolist() == [0, 8, 16, 25, 33]
    assert found.equal_count == 4


def test_autotuning_before_the_first_step_is_not_in_it() -> None:
    found = period("XYXYXYXaXcX" + "abcdefghijkl" * 4)
    assert found is not None
    assert found.starts.tolist() == [11, 23, 35, 47]
    assert found.equal_count == 4


def test_lost_record_is_not_taken_for_the_beginning() -> None:
    """The seventh row of the first step is missing, which is then taken to begin a row early; the others are right."""
    step = "abcdefghijkl"
    found = period("kl" + step.replace("g", "") + step * 3 + "a", {2: 90, 13: 90, 25: 90, 37: 90, 49: 90})
    assert found is not None
    assert found.starts.tolist() == [1, 13, 25, 37, 49]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("a" * 11, id="one-kernel-over-and-over"),
        pytest.param("ab" * 30, id="a-loop-too-short-for-a-step"),
        pytest.param("abcdefghijklmnop", id="nothing-repeats"),
        pytest.param("abcdefghijkl" + "mnop" * 3 + "qrstuvwx", id="most-is-outside-of-what-repeats"),
    ],
)
def test_no_period_is_found_where_there_is_none(text: str) -> None:
    assert period(text) is None


def test_equal_multisets_have_equal_sums_in_any_order() -> None:
    sums = running_multiset(kinds_of("abcab" + "bacba" + "abcaa"))
    first, second, third = np.diff(sums[[0, 5, 10, 15]])
    assert first == second
    assert first != third


@given(
    layers=st.integers(2, 6),
    microsteps=st.integers(1, 3),
    steps=st.integers(3, 5),
    before=st.integers(0, 10),
    after=st.integers(0, 10),
)
def test_every_step_of_a_nested_program_is_found(
    layers: int, microsteps: int, steps: int, before: int, after: int
) -> None:
    step = ("e" + "abk" * layers + "h" + "cdfg" * layers + "i") * microsteps + "opqrstu"
    text = step[len(step) - before :] + step * steps + step[:after]
    begins = [before + number * len(step) for number in range(steps + (after > 0))]
    found = find_period(kinds_of(text), np.zeros(len(text), dtype=np.int64))
    assert found is not None
    assert found.rows_count == len(step)
    assert found.equal_count >= steps - 1
    # Nothing waits here, so a step may begin with any kernel that it runs once; each must be a step apart.
    assert (np.diff(found.starts) == len(step)).all()
    waits = np.zeros(len(text), dtype=np.int64)
    tail = len(step) - len("opqrstu")
    waits[[place for begin in [before - len(step), *begins] if 0 <= (place := begin + tail) < len(text)]] = 7
    with_waits = find_period(kinds_of(text), waits)
    assert with_waits is not None
    if (len(text) - before - after) == len(text):
        assert with_waits.starts.tolist() == begins[:steps]
    else:
        assert set(with_waits.starts.tolist()) <= {begin + tail - len(step) for begin in begins} | {
            begin + tail for begin in begins
        }


def test_step_may_begin_with_a_kernel_that_it_runs_twice() -> None:
    """As in the MI355X profile of fused attention: the first kernel of the step runs again in its middle."""
    found = period("xy" + "abcadefg" * 3 + "abca", {2: 90, 10: 90, 18: 90, 26: 90})
    assert found is not None
    assert found.starts.tolist() == [2, 10, 18, 26]


def test_other_device_begins_its_steps_where_the_first_does() -> None:
    first = period("abcde" * 4, None)
    assert first is not None
    kinds = kinds_of("de" + "abcde" * 3)
    gaps = np.zeros(kinds.size, dtype=np.int64)
    gaps[[4, 9, 14]] = 70
    alone, with_first = find_period(kinds, gaps), find_period(kinds, gaps, first.beginning)
    assert alone is not None
    assert with_first is not None
    assert alone.starts.tolist() == [4, 9, 14]
    assert with_first.starts.tolist() == [2, 7, 12]
