"""Bandwidth of one kind of collective in two layouts of groups; chains of permutations."""

from __future__ import annotations

import pytest
from rule_timeline import MS, found, only, program, reason, repeated, timeline

from rocktools.rules.mesh_axis import RULE, find_permute_chains

TEXT = """HloModule jit_step, is_scheduled=true, num_partitions=8

ENTRY %main (p: f32[1024]) -> f32[4096] {
  %p = f32[1024]{0} parameter(0)
  %near = f32[4096]{0} all-gather(%p), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}
  ROOT %far = f32[4096]{0} all-gather(%p), replica_groups={{0,2,4,6},{1,3,5,7}}, dimensions={0}
}
"""
CHAIN = """HloModule jit_step, is_scheduled=true, num_partitions=4

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %first = f32[8]{0} collective-permute(%p), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  %same = f32[8]{0} copy(%first)
  ROOT %second = f32[8]{0} collective-permute(%same), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
}
"""
PAYLOAD = 1 << 24


def _gathers(far_ms: int, payload: int = PAYLOAD):
    gather = {"activity": "communication", "collective": "all-gather", "program_id": "7", "payload_bytes": payload}
    rows = [
        {"start": 0, "end": 50 * MS},
        {**gather, "instruction": "near", "start": 50 * MS, "end": 52 * MS},
        {**gather, "instruction": "far", "start": 60 * MS, "end": (60 + far_ms) * MS},
    ]
    return timeline(repeated(rows, period=100 * MS), programs=[program(TEXT)])


def test_axis_that_is_three_times_slower_is_found():
    finding, explained = only(RULE, _gathers(6))
    assert finding.where == "far"
    assert finding.numbers["times_ratio"] == pytest.approx(3)
    # S (n - 1) / n in 2 ms, and in 6 ms.
    assert finding.numbers["fast_link_bytes_per_s"] == pytest.approx(PAYLOAD * 3 / 4 / 0.002 / 3)
    assert explained == pytest.approx(6 * MS * (1 - 1 / 3))


def test_axes_of_like_speed_are_no_finding():
    assert found(RULE, _gathers(3)) == []


def test_larger_group_has_more_links_and_may_be_faster():
    """A pair has one link and a group of four three: thrice the bandwidth is what the wires give."""
    near = "replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}\n  ROOT"
    pairs = TEXT.replace("{{0,2,4,6},{1,3,5,7}}", "{{0,4},{1,5},{2,6},{3,7}}")
    assert near in pairs
    gather = {"activity": "communication", "collective": "all-gather", "program_id": "7", "payload_bytes": PAYLOAD}
    rows = [
        {"start": 0, "end": 50 * MS},
        {**gather, "instruction": "near", "start": 50 * MS, "end": 52 * MS},
        {**gather, "instruction": "far", "start": 60 * MS, "end": 64 * MS},
    ]
    inputs = timeline(repeated(rows, period=100 * MS), programs=[program(pairs)], gpus_count={"node0": 8})
    # S 3/4 in 2 ms over three links, S 1/2 in 4 ms over one: the same for each link.
    assert found(RULE, inputs) == []


def test_small_payloads_are_not_compared():
    assert "two layouts" in reason(RULE, _gathers(6, payload=4096))


def test_chain_of_permutations_is_found_and_one_with_work_between_is_not():
    assert find_permute_chains(program(CHAIN)) == [("first", "second")]
    worked = CHAIN.replace("copy(%first)", "negate(%first)")
    assert find_permute_chains(program(worked)) == []
    inputs = timeline(repeated([{"start": 0, "end": MS}], period=2 * MS), programs=[program(CHAIN)])
    finding, _ = only(RULE, inputs)
    assert finding.numbers == {"permutations_count": 2}
