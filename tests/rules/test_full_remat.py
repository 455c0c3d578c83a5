"""Forward work that runs again within the backward pass."""

from __future__ import annotations

import pytest
from rule_programs import STEP
from rule_timeline import MS, found, only, program, reason, repeated, timeline

from rocktools.rules.full_remat import RULE


def _step(replay_ms: int, product: str = "dot.1"):
    kernel = {"program_id": "7"}
    rows = [
        {**kernel, "start": 0, "end": 20 * MS, "phase": "forward", "instruction": "dot.1"},
        {**kernel, "start": 20 * MS, "end": 25 * MS, "phase": "forward", "instruction": "exp.1"},
        {**kernel, "start": 30 * MS, "end": (30 + replay_ms) * MS, "phase": "rematerialized", "instruction": product},
        {**kernel, "start": 60 * MS, "end": 100 * MS, "phase": "backward", "instruction": "dot.1"},
    ]
    return timeline(repeated(rows, period=100 * MS), programs=[program(STEP)])


def test_replay_of_nearly_all_of_the_forward_pass_is_found():
    finding, explained = only(RULE, _step(22))
    assert explained == 22 * MS
    assert finding.numbers["replayed_ratio"] == pytest.approx(22 / 25)
    assert finding.numbers["replayed_products_ratio"] == pytest.approx(22 / 20)


def test_a_part_of_it_is_what_a_policy_means():
    assert found(RULE, _step(10)) == []


def test_replay_of_elementwise_work_alone_is_no_full_replay():
    assert found(RULE, _step(22, product="exp.1")) == []


def test_without_phases_it_cannot_say():
    rows = [{"start": 0, "end": MS, "phase": "unattributed"}]
    inputs = timeline(repeated(rows, period=2 * MS), programs=[program(STEP)])
    assert "forward" in reason(RULE, inputs)
