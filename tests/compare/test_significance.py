"""Is a difference more than chance? Against scipy-free brute force, and on series whose answer is known."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocktools.compare.significance import (
    LEAST_SAMPLES,
    Verdict,
    bootstrap_ratio,
    compare_series,
    hold_holm,
    least_probability,
    permutation_probability,
)


def _brute_force(before: list[float], after: list[float]) -> float:
    """Every order of all values; ranks by counting; in exact arithmetic."""
    values = [*before, *after]
    ranks = [
        2 * sum(other < value for other in values) + sum(other == value for other in values) + 1 for value in values
    ]
    middle = len(before) * (len(values) + 1)
    observed = abs(sum(ranks[: len(before)]) - middle)
    orders = list(permutations(range(len(values))))
    return sum(abs(sum(ranks[i] for i in order[: len(before)]) - middle) >= observed for order in orders) / len(orders)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=2, max_size=3), st.lists(st.integers(1, 6), min_size=2, max_size=3))
def test_probability_is_that_of_all_orders(before, after):
    found = permutation_probability(np.array(before, dtype=float), np.array(after, dtype=float))
    assert found == pytest.approx(_brute_force([float(v) for v in before], [float(v) for v in after]))


def test_series_apart_have_the_least_probability_there_is():
    # 8 + 8 values: C(16, 8) = 12,870 arrangements, of which two are as extreme.
    before, after = np.arange(8.0), np.arange(8.0) + 100
    assert permutation_probability(before, after) == 2 / 12_870 == least_probability(8, 8)
    # 5 + 5: C(10, 5) = 252.
    assert least_probability(5, 5) == 2 / 252


def test_long_series_are_shuffled_with_one_seed():
    random = np.random.default_rng(3)
    before, after = random.normal(100, 1, 40), random.normal(100.9, 1, 40)
    one = permutation_probability(before, after)
    assert one == permutation_probability(before, after)
    assert one < 0.01


def test_one_slow_step_does_not_make_a_regression():
    before = [100.0, 101, 99, 100, 101, 99, 100, 100]
    after = [100.0, 101, 99, 100, 900, 99, 100, 100]
    found = compare_series(before, after)
    assert found is not None
    assert found.verdict is Verdict.NOT_SIGNIFICANT
    assert found.delta_ratio == 0.0


def test_a_shift_of_all_steps_is_one_and_its_size_lies_in_the_interval():
    before = [100.0, 101, 99, 100.5, 99.5, 100.2]
    found = compare_series(before, [value * 1.08 for value in before])
    assert found is not None
    assert found.verdict is Verdict.SLOWER
    assert found.delta_ratio == pytest.approx(0.08)
    assert found.low_ratio is not None
    assert found.high_ratio is not None
    assert 0.06 < found.low_ratio < 0.08 < found.high_ratio < 0.10
    faster = compare_series([value * 1.08 for value in before], before)
    assert faster is not None
    assert faster.verdict is Verdict.FASTER


def test_fewer_than_five_steps_say_nothing():
    found = compare_series([100.0] * (LEAST_SAMPLES - 1), [200.0] * 50)
    assert found is not None
    assert found.verdict is Verdict.CANNOT_SAY
    assert found.probability is None
    assert found.low_ratio is None
    assert "4 before and 50 after" in found.reason
    assert found.delta_ratio == 1.0
    assert compare_series([], [1.0]) is None


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000))
def test_equal_runs_are_seldom_told_apart(seed):
    # Both from one distribution: at most about one in twenty is significant; here that no seed of a fixed kind is
    # far off is checked in bulk below.
    random = np.random.default_rng(seed)
    found = compare_series(random.normal(100, 1, 8), random.normal(100, 1, 8))
    assert found is not None
    assert found.probability is not None
    assert 0 < found.probability <= 1


def test_false_alarms_come_at_the_promised_rate():
    random = np.random.default_rng(11)
    alarms = sum(permutation_probability(random.normal(100, 1, 6), random.normal(100, 1, 6)) < 0.05 for _ in range(600))
    # 600 tries at no more than 5 %: 30 expected at most, with a standard deviation of 5.3.
    assert alarms < 30 + 4 * 5.3


def test_the_interval_of_equal_series_holds_no_difference():
    low, high = bootstrap_ratio(np.array([99.0, 100, 101, 100, 100]), np.array([99.0, 100, 101, 100, 100]))
    assert low is not None
    assert high is not None
    assert low <= 0 <= high
    assert bootstrap_ratio(np.zeros(5), np.ones(5)) == (None, None)


def test_asking_many_questions_costs():
    # By hand: sorted 0.01, 0.03, 0.04 times 3, 2, 1, never falling.
    assert hold_holm([0.04, None, 0.01, 0.03]) == pytest.approx([0.06, None, 0.03, 0.06], nan_ok=True)
    assert hold_holm([0.9, 0.8]) == [1.0, 1.0]
    assert hold_holm([]) == []
