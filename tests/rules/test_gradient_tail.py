"""Reductions of gradients behind the backward pass: begun late, outlasting it, or leaving the node."""

from __future__ import annotations

import pytest
from rule_timeline import MS, found, only, program, reason, repeated, timeline

from rocktools.rules.collective_after_backward import RULE as AFTER
from rocktools.rules.communication_tail import RULE as TAIL
from rocktools.rules.scale_out_tail import RULE as FAR

TEXT = """HloModule jit_step, is_scheduled=true, num_partitions=16

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %near = f32[8]{0} all-reduce(%p), replica_groups=[2,8]<=[16], to_apply=%add
  ROOT %far = f32[8]{0} all-reduce(%near), replica_groups=[8,2]<=[2,8]T(1,0), to_apply=%add
}
"""


def _step(
    start: int,
    end: int,
    name: str = "far",
    phase: str = "backward",
    nodes: int = 8,
    payload_bytes: int | None = 1000,
):
    """Backward compute ends at 80 ms; an all-reduce runs from start to end."""
    reduction = {"activity": "communication", "collective": "all-reduce", "instruction": name, "program_id": "7"}
    rows = [
        {"start": 0, "end": 40 * MS, "phase": "forward"},
        {"start": 40 * MS, "end": 80 * MS, "phase": phase},
        {**reduction, "start": start * MS, "end": end * MS, "phase": "backward", "payload_bytes": payload_bytes},
        {"start": 99 * MS, "end": 100 * MS, "phase": "optimizer"},
    ]
    counts = {"node0": nodes, "node1": nodes}
    return timeline(repeated(rows, period=100 * MS), programs=[program(TEXT)], gpus_count=counts)


def test_reduction_that_begins_behind_the_backward_pass_is_found():
    finding, explained = only(AFTER, _step(80, 95))
    assert explained == 15 * MS
    assert finding.numbers["collectives_count"] == 4
    assert found(TAIL, _step(80, 95)) == []


def test_reduction_that_outlasts_the_backward_pass_is_a_tail():
    """From 50 to 90: 30 hidden under backward compute, 10 behind it."""
    finding, explained = only(TAIL, _step(50, 90))
    assert explained == 10 * MS
    assert finding.numbers["hidden_ratio"] == pytest.approx(0.75)
    assert found(AFTER, _step(50, 90)) == []


def test_payload_that_nobody_knows_is_not_told():
    finding, explained = only(FAR, _step(80, 95, payload_bytes=None))
    assert explained == 15 * MS
    assert "payload_bytes" not in finding.numbers
    assert "payload" not in finding.message


@pytest.mark.parametrize("rule", [AFTER, TAIL, FAR])
def test_hidden_reduction_is_no_finding(rule):
    assert found(rule, _step(50, 80)) == []


def test_reduction_across_nodes_is_told_from_one_within():
    finding, explained = only(FAR, _step(80, 95))
    assert explained == 15 * MS
    assert finding.numbers["payload_bytes"] == 1000
    assert found(FAR, _step(80, 95, name="near")) == []


def test_program_of_one_node_leaves_none():
    assert "leave a node" in reason(FAR, _step(80, 95, nodes=16))


def test_without_a_backward_pass_it_cannot_say():
    for rule in (AFTER, TAIL, FAR):
        assert "backward" in reason(rule, _step(80, 95, phase="unattributed"))
