"""Kernels that only move data, told by their instruction and not by their name."""

from __future__ import annotations

import pytest
from rule_programs import STEP
from rule_timeline import MS, found, only, program, repeated, timeline

from rocktools.rules.data_formatting import RULE


def _step(instruction: str | None, length: int, name: str = "kernel"):
    linked = {} if instruction is None else {"instruction": instruction, "program_id": "7"}
    rows = [
        {"start": 0, "end": 80 * MS, "instruction": "dot.1", "program_id": "7"},
        {"start": 80 * MS, "end": (80 + length) * MS, "name": name, **linked},
        {"start": 99 * MS, "end": 100 * MS, "instruction": "dot.1", "program_id": "7"},
    ]
    return timeline(repeated(rows, period=100 * MS), programs=[program(STEP)])


def test_transposition_that_takes_a_tenth_of_a_step_is_found():
    finding, explained = only(RULE, _step("loop_transpose_fusion.1", 10))
    assert explained == 10 * MS
    assert finding.where == "loop_transpose_fusion.1"
    assert finding.numbers["share_ratio"] == pytest.approx(0.1)


def test_little_of_it_is_no_finding():
    assert found(RULE, _step("loop_transpose_fusion.1", 4)) == []


def test_fusion_that_calculates_is_no_formatting_whatever_its_name_is():
    assert found(RULE, _step("loop_transpose_fusion.2", 15)) == []


@pytest.mark.parametrize(
    "name, is_found",
    [("input_transpose_fusion_12", True), ("wrapped_copy", True), ("loop_add_fusion", False), ("Cijk_copy", False)],
)
def test_kernel_without_an_instruction_is_told_by_a_plain_name_only(name, is_found):
    assert bool(found(RULE, _step(None, 10, name))) is is_found
