"""What of a recording misleads: graphs without names, ranks that are missing, kernels of many components."""

from __future__ import annotations

import pytest
from rule_timeline import MS, declared, found, only, reason, repeated, timeline
from spec_frames import make_frame

from rocktools.rules.command_buffers import GRAPH_LAUNCHES
from rocktools.rules.command_buffers import RULE as BUFFERS
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.kernel_of_many import RULE as SHARED
from rocktools.rules.one_rank_only import RULE as RANKS


def _graphs(graph: int, hidden: int, total: int = 100) -> RuleInputs:
    row = {"run": "r", "device": "host:gpu0", "graph_ns": graph, "hidden_ns": hidden, "total_ns": total}
    return RuleInputs(graph_launches=make_frame(GRAPH_LAUNCHES, [row]))


def test_kernels_of_graphs_without_an_instruction_are_found():
    finding, explained = only(BUFFERS, _graphs(80, 60))
    assert finding.numbers == {"graph_ns": 80, "hidden_ns": 60, "total_ns": 100}
    assert explained is None


def test_kernels_of_graphs_that_were_linked_all_the_same_are_no_finding():
    assert found(BUFFERS, _graphs(80, 2)) == []
    assert "no kernel" in reason(BUFFERS, _graphs(0, 0, 0))


def test_fewer_devices_than_the_program_was_compiled_for_are_found():
    finding, _ = only(RANKS, RuleInputs(devices_count=1, participants_count=8))
    assert finding.numbers == {"devices_count": 1, "participants_count": 8}
    assert found(RANKS, RuleInputs(devices_count=8, participants_count=8)) == []
    assert "not known" in reason(RANKS, RuleInputs(devices_count=8))


def test_claims_about_ranks_go_before_the_program():
    claims = declared("coverage: {ranks_count: 1, ranks_total_count: 64}")
    finding, _ = only(RANKS, RuleInputs(devices_count=8, participants_count=8, claims=claims))
    assert finding.numbers["participants_count"] == 64


def _kernels(second: str, name: str = "Cijk_MT256"):
    rows = [
        {"start": 0, "end": 50 * MS, "name": "Cijk_MT256", "instruction": "dot.1", "component": "attention"},
        {"start": 50 * MS, "end": 90 * MS, "name": name, "instruction": "dot.2", "component": second},
    ]
    return timeline(repeated([{**row, "program_id": "7"} for row in rows], period=100 * MS))


def test_kernel_of_two_components_is_found():
    finding, _ = only(SHARED, _kernels("expert_mlp"))
    assert finding.numbers["components_count"] == 2
    assert finding.numbers["total_ns"] == 90 * MS


@pytest.mark.parametrize("second, name", [("attention", "Cijk_MT256"), ("expert_mlp", "Cijk_MT128")])
def test_kernel_of_one_component_is_no_finding(second: str, name: str):
    assert found(SHARED, _kernels(second, name)) == []


def test_kernels_without_instructions_say_nothing():
    assert "linked" in reason(SHARED, timeline(repeated([{"start": 0, "end": MS}], period=MS)))
