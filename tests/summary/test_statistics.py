"""What a series of durations is like, by hand."""

from __future__ import annotations

import pytest

from rocktools.summary.statistics import describe_durations


def test_figures_of_a_series() -> None:
    found = describe_durations([40, 10, 20, 30, 50])
    assert found is not None
    assert (found.samples_count, found.mean_ns, found.median_ns, found.min_ns, found.max_ns) == (5, 30, 30, 10, 50)
    # Linear interpolation over 0..4: a quarter is at 1, nine tenths at 3.6.
    assert (found.p25_ns, found.p75_ns, found.p90_ns) == (20, 40, pytest.approx(46))
    assert found.iqr_ns == 20
    assert found.spread_ratio == pytest.approx(20 / 30)
    assert found.deviation_ns == pytest.approx((1000 / 4) ** 0.5)


def test_one_sample_has_no_spread() -> None:
    found = describe_durations([7])
    assert found is not None
    assert (found.samples_count, found.median_ns, found.p90_ns) == (1, 7, 7)
    assert found.deviation_ns is None
    assert found.spread_ratio is None


def test_nothing_has_no_figures() -> None:
    assert describe_durations([]) is None
