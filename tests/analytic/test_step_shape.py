"""Ratios of a step, and published bands that they are held against."""

from __future__ import annotations

import pytest

from rocktools.analytic.step_shape import BACKWARD_RATIO, MOE_SHARE, ExpertTimes, PhaseTimes, UnionTimes
from rocktools.errors import UsageError

PHASES = PhaseTimes(forward_s=2.0, backward_s=5.0, replay_s=1.0)


def test_ratios_of_phases():
    assert (PHASES.backward_ratio, PHASES.backward_and_replay_ratio, PHASES.replay_ratio) == (2.5, 3.0, 0.5)
    assert PHASES.model_s == 8.0
    with pytest.raises(UsageError, match="forward pass"):
        PhaseTimes(forward_s=0.0, backward_s=1.0, replay_s=0.0)


def test_the_mixture_of_experts_is_a_share_of_the_three_phases():
    experts = ExpertTimes(router_s=0.1, dispatch_s=0.2, experts_s=1.5, combine_s=0.2, backward_s=4.0, replay_s=1.0)
    assert experts.forward_s == pytest.approx(2.0)
    assert experts.share_of(PHASES) == pytest.approx(7 / 8)
    assert experts.experts_ratio == pytest.approx(0.75)


@pytest.mark.parametrize("value, distance", [(0.856, -0.020), (0.876, 0.0), (0.9, 0.0), (0.920, 0.0), (0.95, 0.030)])
def test_distance_from_a_band_is_zero_inside_of_it(value, distance):
    assert MOE_SHARE.distance(value) == pytest.approx(distance)
    assert MOE_SHARE.distance_from_mean(value) == pytest.approx(value - 0.903)


def test_a_band_without_a_mean_has_no_distance_from_it():
    assert BACKWARD_RATIO.distance(3.14) == pytest.approx(1.21)
    assert BACKWARD_RATIO.distance_from_mean(3.14) is None
    assert "QLoRA" in BACKWARD_RATIO.differs


def test_unions_and_their_intersection_divide_the_span():
    unions = UnionTimes(compute_s=6.0, communication_s=4.0, both_s=1.0, span_s=10.0)
    assert (unions.busy_s, unions.exposed_communication_s, unions.idle_s, unions.hidden_ratio) == (9.0, 3.0, 1.0, 0.25)
    assert UnionTimes(compute_s=6.0, communication_s=0.0, both_s=0.0, span_s=10.0).hidden_ratio is None
    with pytest.raises(UsageError, match="union-times"):
        UnionTimes(compute_s=6.0, communication_s=4.0, both_s=5.0, span_s=10.0)
