"""Communication that nothing hides, without what a late rank costs the others."""

from __future__ import annotations

from rule_timeline import MS, found, only, repeated, timeline

from rocktools.rules.exposed_collective import RULE

COMPUTE = {"start": 0, "end": 80 * MS}
GATHER = {"activity": "communication", "instruction": "all-gather.1", "collective": "all-gather", "program_id": "7"}


def test_exposed_transfer_is_found_with_its_collective_and_share():
    """70 to 100 ms of a step of 100: 10 ms under compute, 20 exposed."""
    rows = [COMPUTE, {**GATHER, "start": 70 * MS, "end": 100 * MS, "payload_bytes": 1 << 20}]
    finding, explained = only(RULE, timeline(repeated(rows, period=100 * MS)))
    assert explained == 20 * MS
    assert finding.where == "all-gather.1"
    assert finding.numbers["share_ratio"] == 0.2
    assert finding.numbers["communication_ns"] == 30 * MS
    assert finding.numbers["worst_payload_bytes"] == 1 << 20


def test_hidden_communication_is_no_finding():
    rows = [{"start": 0, "end": 100 * MS}, {**GATHER, "start": 20 * MS, "end": 95 * MS}]
    assert found(RULE, timeline(repeated(rows, period=100 * MS))) == []


def test_waiting_for_a_late_rank_is_not_held_against_the_network():
    """Device 0 waits 20 ms for device 1 in each step of 100; the transfer takes 4."""
    rows = []
    for gpu, end in ((0, 70), (1, 90)):
        device = f"host:gpu{gpu}"
        rows += [
            {"start": 0, "end": end * MS, "device": device},
            {**GATHER, "start": end * MS, "end": 94 * MS, "device": device},
        ]
    assert found(RULE, timeline(repeated(rows, period=100 * MS))) == []
