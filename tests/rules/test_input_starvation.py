"""Devices that wait for the first kernel of each step."""

from __future__ import annotations

import pytest
from rule_timeline import MS, found, only, reason, repeated, timeline

from rocktools.rules.input_starvation import RULE


def _steps(wait_ms: int, **others):
    rows = [{"start": wait_ms * MS, "end": 100 * MS}]
    return timeline(repeated(rows, period=100 * MS), **others)


def test_wait_before_every_step_is_found():
    finding, explained = only(RULE, _steps(20))
    assert explained == 20 * MS
    assert finding.numbers["share_ratio"] == pytest.approx(0.2)
    assert finding.numbers["waiting_steps_count"] == 3  # nothing comes before the first
    assert "the host was not recorded" in finding.message


def test_what_the_host_read_meanwhile_is_named():
    ranges = [{"name": "next_batch", "start": step * 100 * MS, "end": (step * 100 + 15) * MS} for step in range(1, 4)]
    finding, _ = only(RULE, _steps(20, ranges=ranges))
    assert "next_batch ran on the host for 15 ms a step" in finding.message
    assert finding.numbers["host_ns"] == 15 * MS


def test_copy_of_the_batch_is_part_of_the_wait():
    rows = [
        {"start": 5 * MS, "end": 18 * MS, "activity": "copy", "name": "HOST_TO_DEVICE"},
        {"start": 20 * MS, "end": 100 * MS},
    ]
    assert only(RULE, timeline(repeated(rows, period=100 * MS)))[1] == 20 * MS


def test_short_waits_and_one_long_one_are_no_finding():
    assert found(RULE, _steps(2)) == []
    rows = repeated([{"start": 0, "end": 100 * MS}], period=100 * MS, steps=6)
    late = [{**row, "start": row["start"] + 50 * MS, "end": row["end"] + 50 * MS} for row in rows[3:]]
    assert found(RULE, timeline([*rows[:3], *late])) == []


def test_waits_of_microseconds_are_launches():
    rows = [{"start": 200_000, "end": MS}]
    assert found(RULE, timeline(repeated(rows, period=MS))) == []


def test_one_step_says_nothing():
    assert "before it" in reason(RULE, timeline(repeated([{"start": 0, "end": MS}], period=MS, steps=1)))
