"""Ceiling minus measured: the parts add up, and what cannot be told apart has no number."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.analytic.ceiling_gap import GapPart, MeasuredStep, split_ceiling_gap
from rocktools.errors import UsageError
from rocktools.evidence import Absence

# The published step of Mixtral 8x22B: seconds, means of eight devices.
PUBLISHED = MeasuredStep(
    span_s=20.759,
    compute_s=12.128,
    compute_sum_s=12.1282,
    exposed_communication_s=8.595,
    exposed_copy_s=0.0,
    idle_s=0.036,
    replay_s=2.2105,
)


def _rows(measured, **changes):
    given = {"floor_s": 3.5, "mfu_ceiling": 0.9} | changes
    gap = split_ceiling_gap(measured, **given)
    return gap, {row.part: row for row in gap.rows}


def test_the_published_step_is_split_into_what_is_known_of_it():
    """Of 20.759 - 3.5 = 17.259 s: 8.595 exposed, 0.036 idle, 2.2105 replay, 12.128 - 3.5 - 2.2105 = 6.4175 kernels."""
    gap, rows = _rows(PUBLISHED)
    assert {part: row.duration_s and round(row.duration_s, 4) for part, row in rows.items()} == {
        GapPart.LAUNCH: None,
        GapPart.COMMUNICATION: 8.595,
        GapPart.INPUT: 0.0,
        GapPart.IDLE: 0.036,
        GapPart.REPLAY: 2.2105,
        GapPart.KERNELS: 6.4175,
    }
    assert gap.mfu == pytest.approx(0.9 * 3.5 / 20.759)
    assert gap.findings == ()


def test_idle_time_without_a_cause_stays_one_number():
    _, rows = _rows(PUBLISHED)
    assert rows[GapPart.LAUNCH].absence is Absence.AMBIGUOUS
    assert rows[GapPart.LAUNCH].mfu_points_ratio is None
    _, told = _rows(replace(PUBLISHED, input_wait_s=0.01))
    assert GapPart.IDLE not in told
    assert told[GapPart.LAUNCH].duration_s == pytest.approx(0.026)
    assert told[GapPart.INPUT].duration_s == pytest.approx(0.01)


@pytest.mark.parametrize(
    "change, words",
    [({"compute_sum_s": 14.0}, "compute kernels overlap each other"), ({"replay_s": None}, "phases are not known")],
)
def test_replay_is_not_told_apart_where_it_cannot_be(change, words):
    _, rows = _rows(replace(PUBLISHED, **change))
    assert rows[GapPart.REPLAY].absence is Absence.AMBIGUOUS
    assert words in rows[GapPart.REPLAY].note
    assert rows[GapPart.KERNELS].duration_s == pytest.approx(12.128 - 3.5)


def test_a_logged_step_with_other_boundaries_has_a_row_of_its_own():
    gap, rows = _rows(replace(PUBLISHED, step_s=20.605))
    assert rows[GapPart.OUTSIDE].duration_s == pytest.approx(-0.154)
    assert gap.measured_s == 20.605
    assert [finding.rule for finding in gap.findings] == ["step-shorter-than-span"]


def test_a_floor_above_the_measured_compute_is_doubted():
    gap, rows = _rows(PUBLISHED, floor_s=13.0)
    assert [finding.rule for finding in gap.findings] == ["compute-below-floor"]
    assert rows[GapPart.KERNELS].duration_s < 0


@pytest.mark.parametrize(
    "change, words",
    [
        ({"idle_s": 1.0}, "step-does-not-add-up"),
        ({"idle_s": float("nan")}, "step-does-not-add-up"),
        ({"span_s": float("nan")}, "step-does-not-add-up"),
        ({"idle_s": -0.036, "compute_s": 12.2}, "step-does-not-add-up"),
        ({"input_wait_s": 0.1}, "input-above-idle"),
        ({"input_wait_s": -0.1}, "input-above-idle"),
    ],
)
def test_times_that_are_no_timeline_are_refused(change, words):
    with pytest.raises(UsageError, match=words):
        _rows(replace(PUBLISHED, **change))


_TIME = st.floats(0, 100, allow_nan=False)


@given(
    parts=st.tuples(st.floats(0.1, 100), _TIME, _TIME, _TIME),
    floor_s=st.floats(0.01, 50),
    replay=st.none() | st.floats(0, 1),
    waiting=st.none() | st.floats(0, 1),
    outside=st.none() | st.floats(0, 5),
    ceiling=st.floats(0.01, 1),
)
def test_parts_add_up_to_the_difference_in_time_and_in_mfu(parts, floor_s, replay, waiting, outside, ceiling):
    compute_s, exposed_s, copy_s, idle_s = parts
    measured = MeasuredStep(
        span_s=sum(parts),
        compute_s=compute_s,
        compute_sum_s=compute_s,
        exposed_communication_s=exposed_s,
        exposed_copy_s=copy_s,
        idle_s=idle_s,
        replay_s=None if replay is None else replay * compute_s,
        input_wait_s=None if waiting is None else waiting * idle_s,
        step_s=None if outside is None else sum(parts) + outside,
    )
    gap, rows = _rows(measured, floor_s=floor_s, mfu_ceiling=ceiling)
    known = [row for row in rows.values() if row.duration_s is not None]
    difference = gap.measured_s - floor_s
    assert sum(row.duration_s for row in known) == pytest.approx(difference, abs=1e-9 * gap.measured_s + 1e-9)
    if abs(difference) > 1e-6:
        points = sum(row.mfu_points_ratio for row in known)
        assert points == pytest.approx(gap.mfu_ceiling - gap.mfu, rel=1e-5, abs=1e-9)
    assert all((row.absence is None) == (row.duration_s is not None) for row in rows.values())
