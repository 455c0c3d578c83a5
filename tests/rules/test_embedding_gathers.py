"""Gathers of the embedding."""

from __future__ import annotations

import pytest
from rule_programs import STEP
from rule_timeline import MS, found, only, program, reason, repeated, timeline

from rocktools.rules.embedding_gathers import RULE


def _step(length: int, instruction: str = "loop_gather_fusion.1", component: str = "embedding"):
    rows = [
        {"start": 0, "end": length * MS, "instruction": instruction, "program_id": "7", "component": component},
        {"start": length * MS, "end": 100 * MS, "instruction": "dot.1", "program_id": "7", "component": "attention"},
    ]
    return timeline(repeated(rows, period=100 * MS), programs=[program(STEP)])


def test_gather_that_takes_a_tenth_of_a_step_is_found():
    finding, explained = only(RULE, _step(10))
    assert (finding.where, explained) == ("loop_gather_fusion.1", 10 * MS)
    assert finding.numbers["share_ratio"] == pytest.approx(0.1)


def test_short_gathers_and_products_are_no_finding():
    assert found(RULE, _step(2)) == []
    assert found(RULE, _step(10, instruction="dot.1")) == []


def test_gathers_of_routing_are_not_those_of_an_embedding():
    assert "embedding" in reason(RULE, _step(10, component="dispatch"))
