"""Idle time within steps: many tiny kernels, or a host that comes late."""

from __future__ import annotations

import pytest
from rule_timeline import MS, found, only, reason, repeated, timeline

from rocktools.rules.host_bound import RULE as HOST
from rocktools.rules.tiny_kernels import RULE as TINY

US = 1000


def _comb(kernel: int, gap: int, count: int = 50):
    rows = [{"start": i * (kernel + gap) * US, "end": (i * (kernel + gap) + kernel) * US} for i in range(count)]
    return timeline(repeated(rows, period=count * (kernel + gap) * US))


def test_comb_of_short_kernels_is_found():
    """50 kernels of 6 us, 4 us apart: 49 gaps of a step of 500 us, and one between steps that does not count."""
    finding, explained = only(TINY, _comb(6, 4))
    assert explained == 49 * 4 * US
    assert finding.numbers["median_kernel_ns"] == 6 * US
    assert finding.numbers["gaps_per_step_count"] == 49


@pytest.mark.parametrize("kernel, gap, count", [(60, 40, 50), (50, 1, 50), (6, 4, 6)])
def test_long_kernels_small_gaps_and_few_gaps_are_no_finding(kernel: int, gap: int, count: int):
    assert found(TINY, _comb(kernel, gap, count)) == []


def _late(launch: int | None):
    """Two kernels with 20 ms between them; the second is launched at that ms of the step."""
    rows = [
        {"start": 0, "end": 40 * MS, "host_call_id": None},
        {"start": 60 * MS, "end": 100 * MS, "name": "second", "host_call_id": 1},
    ]
    steps = [
        {**row, "host_call_id": None if row["host_call_id"] is None else row["step_index"] + 1}
        for row in repeated(rows, period=100 * MS)
    ]
    calls = [
        {"name": "hipModuleLaunchKernel", "host_call_id": step + 1, "start": (100 * step + launch) * MS,
         "end": (100 * step + launch + 1) * MS}
        for step in range(4)
    ] if launch is not None else []  # fmt: skip
    return timeline(steps, calls=calls)


def test_kernel_that_was_launched_late_is_found():
    finding, explained = only(HOST, _late(55))
    assert (finding.where, explained) == ("second", 20 * MS)


def test_kernel_that_was_launched_in_time_waited_for_something_else():
    assert found(HOST, _late(10)) == []


def test_without_calls_the_cause_is_not_known():
    assert "no call" in reason(HOST, _late(None))


def test_busy_steps_need_no_calls():
    assert found(HOST, timeline(repeated([{"start": 0, "end": 100 * MS}], period=100 * MS))) == []
