"""Is a difference more than chance? Against scipy-free brute force, and on series whose answer is known."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocktools.compare.significance import (
    LEAST_SAMPLES,
    SIGNIFICANT_RATIO,
    Verdict,
    bootstrap_ratio,
    compare_series,
    compare_tails,
    joint_probabilities,
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


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000))
def test_a_probability_is_a_number_of_arrangements_and_the_same_in_both_directions(seed):
    random = np.random.default_rng(seed)
    before, after = random.normal(100, 1, 8), random.normal(100, 1, 8)
    probability = permutation_probability(before, after)
    assert least_probability(8, 8) <= probability <= 1
    # A whole number of the 12,870 arrangements, and an even one: each has a mirror image.
    assert (probability * 12_870) % 2 == pytest.approx(0, abs=1e-6)
    assert permutation_probability(after, before) == probability


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


def test_one_series_asked_jointly_is_that_series():
    before, after = [3.0, 1, 4, 1.5, 5], [9.0, 2, 6, 5.5, 3.5]
    assert joint_probabilities([before], [after]) == [permutation_probability(np.array(before), np.array(after))]
    assert joint_probabilities([], []) == []


def _jointly(before: np.ndarray, after: np.ndarray) -> list[float]:
    return joint_probabilities([list(each) for each in before], [list(each) for each in after])


def test_a_series_answers_for_those_that_are_no_farther_apart():
    # By hand, 2 + 2 steps, six arrangements. The first series is parted with gap 10 over scatter 0.5 in the observed
    # arrangement and its mirror; the second, gap 2 over scatter 0.5, is parted in another pair of arrangements.
    # First: 2 of 6. Second, with equal sums of ranks as observed: all six arrangements are as far apart.
    wide, mixed = ([1.0, 2], [11.0, 12]), ([1.0, 4], [2.0, 3])
    assert joint_probabilities([wide[0], mixed[0]], [wide[1], mixed[1]]) == pytest.approx([2 / 6, 1.0])
    assert joint_probabilities([mixed[0], wide[0]], [mixed[1], wide[1]]) == pytest.approx([1.0, 2 / 6])


def test_among_many_components_chance_is_alarmed_by_at_the_promised_rate():
    random = np.random.default_rng(7)
    alarms = 0
    for _ in range(300):
        slow = random.normal(1, 0.004, 10)  # what slows all of a step
        series = random.normal(1, 0.003, (15, 10)) * slow
        alarms += min(_jointly(series[:, :5], series[:, 5:])) < SIGNIFICANT_RATIO
    # 300 comparisons at no more than 5 %: 15, with a standard deviation of 3.8.
    assert alarms <= 15 + 3 * 3.8


def test_with_five_steps_one_of_many_components_is_found_and_alarms_for_no_other():
    random = np.random.default_rng(8)
    found = alarms = 0
    for _ in range(120):
        series = random.normal(1, 0.003, (15, 10)) * random.normal(1, 0.004, 10)
        series[0, 5:] *= 1.08
        probabilities = _jointly(series[:, :5], series[:, 5:])
        found += probabilities[0] < SIGNIFICANT_RATIO
        alarms += min(probabilities[1:]) < SIGNIFICANT_RATIO
    assert found >= 118
    assert alarms <= 6 + 3 * 2.4


def test_one_slow_step_of_everything_is_no_alarm():
    random = np.random.default_rng(9)
    series = random.normal(1, 0.003, (15, 16))
    series[:, 11] *= 5
    assert min(_jointly(series[:, :8], series[:, 8:])) > SIGNIFICANT_RATIO


def test_a_heavier_tail_is_found_although_the_median_stays():
    random = np.random.default_rng(10)
    before = random.normal(100, 0.5, 30)
    after = before.copy()
    after[::4] *= 1.4
    tail, middle = compare_tails(before, after), compare_series(before, after)
    assert tail is not None
    assert middle is not None
    assert tail.verdict is Verdict.SLOWER
    assert tail.before_ns == np.quantile(before, 0.9)
    assert tail.delta_ratio == pytest.approx(0.4, abs=0.05)
    assert middle.verdict is Verdict.NOT_SIGNIFICANT


def test_one_slow_step_is_no_heavier_tail():
    before = [100.0, 101, 99, 100.5, 99.5, 100.2]
    after = [100.1, 101.1, 99.1, 100.4, 99.6, 400]
    found = compare_tails(before, after)
    assert found is not None
    assert found.delta_ratio is not None
    assert found.delta_ratio > 1
    assert found.verdict is Verdict.NOT_SIGNIFICANT


def test_series_of_many_steps_are_shuffled_less_often_and_still_told_apart():
    random = np.random.default_rng(12)
    before, after = random.normal(100, 1, 2000), random.normal(100.2, 1, 2000)
    assert permutation_probability(before, after) == least_probability(2000, 2000) == 1 / 2001
