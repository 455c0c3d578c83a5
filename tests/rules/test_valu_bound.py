"""Vector work without a matrix product beside it."""

from __future__ import annotations

import pytest
from rule_programs import STEP
from rule_timeline import MS, found, only, program, reason, repeated, timeline

from rocktools.rules.valu_bound import RULE


def _step(vector_ms: int, *, beside: bool = False, instruction: str | None = "exp.1"):
    linked = {} if instruction is None else {"instruction": instruction, "program_id": "7"}
    begin = 0 if beside else 100 - vector_ms
    rows = [
        {"start": 0, "end": (100 if beside else 100 - vector_ms) * MS, "instruction": "dot.1", "program_id": "7"},
        {"start": begin * MS, "end": (begin + vector_ms) * MS, "component": "norms", "stream_id": 2, **linked},
    ]
    return timeline(repeated(rows, period=100 * MS), programs=[program(STEP)])


def test_stretch_of_vector_work_is_found_with_its_component():
    finding, explained = only(RULE, _step(40))
    assert explained == 40 * MS
    assert finding.where == "norms"
    assert finding.numbers["matrix_ns"] == 60 * MS
    assert finding.numbers["share_ratio"] == pytest.approx(0.4)


def test_little_vector_work_and_work_beside_a_product_are_no_finding():
    assert found(RULE, _step(20)) == []
    assert found(RULE, _step(40, beside=True)) == []


def test_gathers_and_formatting_are_no_vector_work():
    assert found(RULE, _step(40, instruction="loop_gather_fusion.1")) == []
    assert found(RULE, _step(40, instruction="loop_transpose_fusion.1")) == []


def test_kernels_without_instructions_cannot_be_judged():
    assert "40.0 %" in reason(RULE, _step(60, instruction=None))
