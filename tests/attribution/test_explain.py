"""Why a row is booked where it is, as lines."""

from __future__ import annotations

import re

import pandas as pd

from rocktools.attribution.classify import classify_op_name
from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.attribution.explain import explain_instruction, explain_row

NAME = "jit(step)/transpose(jvp())/while/body/closed_call/checkpoint/rematted_computation/wi_0/dot_general"
BUCKET = classify_op_name(NAME, read_shipped_map("maxtext"), opcode="fusion")
RULE = BUCKET.rule.partition("; ")[2]
ROW = {
    "kind": "dispatch",
    "event_id": 17,
    "device": "host:gpu3",
    "name": "gemm_fusion_dot_3",
    "start_ns": 1000,
    "end_ns": 13_500,
    "activity": "compute",
    "phase": "rematerialized",
    "component": "expert_mlp",
    "instruction": "gemm_fusion_dot.3",
    "program_id": "7",
    "rule": BUCKET.rule,
    "is_mixed": False,
    "is_inferred": False,
}


def test_the_path_goes_from_kernel_and_name_to_the_bucket():
    edge = {"method": "thunk", "confidence": "certain", "candidates": None, "candidates_count": 1}
    assert explain_row(ROW, {"7": {"gemm_fusion_dot.3": BUCKET}}, edge) == [
        "dispatch 17 on host:gpu3: gemm_fusion_dot_3, 12.50 µs",
        "instruction: gemm_fusion_dot.3 of program 7 (thunk, certain)",
        f"op_name (its own): {NAME}",
        "phase rematerialized: rematted-computation",
        f"component expert_mlp: {RULE} by the scope wi_0",
        "booked as compute, phase rematerialized, component expert_mlp",
    ]


def test_the_rule_names_its_number_line_and_map():
    assert re.fullmatch(r"rule \d+ \(line \d+\) of maxtext", RULE)


def test_an_unlinked_row_shows_its_rule_and_candidates():
    row = ROW | {"instruction": pd.NA, "program_id": None, "rule": "candidates-agree", "is_inferred": True}
    edge = {"method": "schedule", "confidence": "ambiguous", "candidates": "a.1, b.2", "candidates_count": 2}
    lines = explain_row(row, {}, edge)
    assert lines[1] == "instruction: one of 2 (schedule, ambiguous): a.1, b.2"
    assert lines[2:] == [
        "rule: candidates-agree",
        "booked as compute, phase rematerialized, component expert_mlp (inferred)",
    ]
    assert explain_row(row, {})[1] == "instruction: none"


def test_an_instruction_alone_is_explained():
    lines = explain_instruction("gemm_fusion_dot.3", BUCKET)
    assert lines[0] == "instruction gemm_fusion_dot.3 (fusion)"
    assert lines[-1] == "booked as compute, phase rematerialized, component expert_mlp"
