"""One late device; what of it is experts belongs to another rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rule_timeline import MS, found, only, reason, repeated, timeline

from rocktools.rules.expert_imbalance import RULE as IMBALANCE
from rocktools.rules.last_at_collectives import RULE as LAST
from rocktools.rules.slow_transfer import RULE as TRANSFER
from rocktools.rules.straggler import RULE as STRAGGLER

ALL_REDUCE = {"activity": "communication", "instruction": "all-reduce.1", "program_id": "7", "phase": "backward"}


def _ranks(*, attention: int = 0, experts: int = 0, ends: int = 0, hosts: bool = False, gpus: int = 4):
    """Attention 40 ms, experts 40, then an all-reduce that ends for all at 95; the third device takes longer."""
    rows = []
    for gpu in range(gpus):
        odd = gpu == 2
        device = f"node{gpu}:gpu0" if hosts else f"node0:gpu{gpu}"
        first, second = 40 + attention * odd, 40 + experts * odd
        rows += [
            {"start": 0, "end": first * MS, "component": "attention", "device": device},
            {"start": first * MS, "end": (first + second) * MS, "component": "expert_mlp", "device": device},
            {**ALL_REDUCE, "start": (first + second) * MS, "end": (95 + ends * odd) * MS, "device": device},
        ]
    return timeline(repeated(rows, period=100 * MS))


def test_device_that_is_slower_in_everything_is_a_straggler():
    finding, explained = only(STRAGGLER, _ranks(attention=5, experts=5))
    assert finding.where == "node0:gpu2"
    assert explained == 10 * MS
    assert finding.numbers["expert_excess_ns"] == 5 * MS
    assert finding.numbers["other_excess_ns"] == 5 * MS
    assert "as many kernels" in finding.message
    assert found(IMBALANCE, _ranks(attention=5, experts=5)) == []


def test_device_that_is_slower_in_experts_only_has_an_uneven_load():
    finding, explained = only(IMBALANCE, _ranks(experts=10))
    assert finding.where == "node0:gpu2"
    assert explained == 10 * MS
    assert finding.numbers["expert_excess_ns"] == 10 * MS
    assert found(STRAGGLER, _ranks(experts=10)) == []


@pytest.mark.parametrize("rule", [STRAGGLER, IMBALANCE, TRANSFER, LAST])
def test_even_devices_are_no_finding(rule):
    assert found(rule, _ranks()) == []


def test_devices_of_different_nodes_are_compared_by_their_compute():
    finding, explained = only(STRAGGLER, _ranks(attention=5, experts=5, hosts=True))
    assert (finding.where, explained) == ("node2:gpu0", 10 * MS)
    assert "nobody was seen waiting" in finding.message


def test_transfer_that_takes_longer_on_one_device_is_found():
    finding, explained = only(TRANSFER, _ranks(ends=4))
    assert (finding.where, explained) == ("node0:gpu2", 4 * MS)
    assert found(STRAGGLER, _ranks(ends=4)) == []


def test_device_that_is_last_every_time_is_a_pattern():
    finding, explained = only(LAST, _ranks(attention=10))
    assert finding.where == "r, node0:gpu2"
    assert finding.numbers["last_ratio"] == 1
    assert explained == 10 * MS


def test_one_device_is_no_one_to_compare_with():
    for rule in (STRAGGLER, IMBALANCE):
        assert "one device" in reason(rule, _ranks(gpus=1))
    assert "matched" in reason(LAST, _ranks(gpus=1))


def test_where_ranks_are_missing_a_longer_transfer_is_not_told_from_waiting_for_them():
    partly = replace(_ranks(ends=4), participants_count=8)
    assert "4 of 8 participants" in reason(TRANSFER, partly)


def test_wait_that_other_work_hides_costs_nothing():
    """The others wait from 80 to 90 ms, and have work on another stream from 80 to 86."""
    rows = []
    for gpu in range(4):
        device, end = f"node0:gpu{gpu}", 90 if gpu == 2 else 80
        rows += [
            {"start": 0, "end": end * MS, "component": "attention", "device": device},
            {"start": 80 * MS, "end": 86 * MS, "component": "attention", "device": device, "stream_id": 2},
            {**ALL_REDUCE, "start": end * MS, "end": 95 * MS, "device": device},
        ]
    finding, explained = only(STRAGGLER, timeline(repeated(rows, period=100 * MS)))
    assert finding.numbers["lateness_ns"] == 10 * MS
    assert explained == 4 * MS
