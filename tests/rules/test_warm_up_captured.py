"""A recording that begins too early."""

from __future__ import annotations

import pytest
from rule_timeline import MS, found, only, repeated, timeline

from rocktools.findings import Severity
from rocktools.rules.warm_up_captured import RULE


def _steps(first_ms: int):
    rows = repeated([{"start": 0, "end": 100 * MS}], period=100 * MS, steps=4, first=1)
    return [{"start": (100 - first_ms) * MS, "end": 100 * MS, "step_index": 0}, *rows]


def test_long_first_step_is_found_with_what_it_adds_to_a_mean():
    """600 ms, and four steps of 100: the mean of all five is 200, not 100."""
    finding, explained = only(RULE, timeline(_steps(600), warmup={0}))
    assert finding.severity is Severity.WARNING
    assert finding.numbers["warmup_ratio"] == pytest.approx(0.6)
    assert explained == pytest.approx(100 * MS)


def test_little_warm_up_is_a_note():
    rows = [*_steps(110), *repeated([{"start": 0, "end": 100 * MS}], period=100 * MS, steps=8, first=5)]
    finding, _ = only(RULE, timeline(rows, warmup={0}))
    assert finding.severity is Severity.NOTE


def test_nothing_but_warm_up_is_a_warning_of_the_whole_time():
    finding, explained = only(RULE, timeline(_steps(100), warmup={0, 1, 2, 3, 4}))
    assert finding.severity is Severity.WARNING
    assert "nothing else was recorded" in finding.message
    assert explained == 100 * MS


def test_steps_of_training_and_a_recompiled_one_are_no_finding():
    assert found(RULE, timeline(_steps(100))) == []
    assert found(RULE, timeline(_steps(100), warmup={3})) == []
