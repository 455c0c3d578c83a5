"""Time that a ceiling bounds, by roofline points."""

from __future__ import annotations

import pandas as pd
from roofline_rows import ORIGIN, round_device, work_rows
from rule_timeline import MS, found, only, repeated, timeline

from rocktools.roofline.points import build_roofline
from rocktools.rules.compute_bound import RULE as COMPUTE
from rocktools.rules.memory_bound import RULE as MEMORY


def _points(flop: int, moved: int) -> pd.DataFrame:
    """One instruction of 800 us in each of four steps of 1 ms, under ceilings of 1 FLOP and 1 byte per ns."""
    rows = [
        {"name": "dot.1", "start_ns": i * MS, "end_ns": i * MS + 800_000, "compute_flop": flop, "moved_bytes": moved}
        for i in range(4)
    ]
    return build_roofline(work_rows(*rows), round_device(), ORIGIN).points


def _inputs(flop: int, moved: int):
    return timeline(repeated([{"start": 0, "end": MS}], period=MS), points=_points(flop, moved))


def test_instruction_near_the_peak_is_compute_bound():
    finding, explained = only(COMPUTE, _inputs(700_000, 1000))
    assert (finding.where, explained) == ("dot.1", 800_000)
    assert finding.numbers["largest_roof_ratio"] == 0.875
    assert found(MEMORY, _inputs(700_000, 1000)) == []


def test_instruction_near_the_bandwidth_is_memory_bound():
    finding, explained = only(MEMORY, _inputs(1000, 700_000))
    assert explained == 800_000
    assert finding.numbers["intensity_flop_per_byte"] == 1 / 700
    assert found(COMPUTE, _inputs(1000, 700_000)) == []


def test_instruction_far_from_both_is_bound_by_neither():
    for rule in (COMPUTE, MEMORY):
        assert found(rule, _inputs(100_000, 100_000)) == []
