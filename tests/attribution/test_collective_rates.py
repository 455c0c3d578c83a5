"""How fast collectives were, by payload and group."""

from __future__ import annotations

import pandas as pd
import pytest
from mixtral_program import mixtral_program
from timeline_rows import make_attributed

from rocktools.attribution.collective_rates import group_sizes, measure_collectives
from rocktools.hlo.text_reader import parse_hlo_text

TEXT = """HloModule jit_f, is_scheduled=true, num_partitions=8

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %all = f32[8]{0} all-reduce(%p), replica_groups={}, to_apply=%add
  %four = f32[8]{0} all-reduce(%all), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add
  %odd = f32[8]{0} all-reduce(%four), replica_groups={{0,1,2},{3,4,5,6,7}}, to_apply=%add
  ROOT %shift = f32[8]{0} collective-permute(%odd), source_target_pairs={{0,1},{1,0}}
}
"""


def _row(instruction, start, end, **given):
    named = {"activity": "communication", "program_id": "1", "instruction": instruction, "collective": "all-reduce"}
    return named | {"start": start, "end": end, "payload_bytes": 8000} | given


def _rates(rows):
    frame = measure_collectives(make_attributed(rows), {"1": parse_hlo_text(TEXT, "f.txt")})
    return frame.set_index("instruction")


def test_groups_are_read_from_the_program():
    assert group_sizes(parse_hlo_text(TEXT, "f.txt")) == {"all": 8, "four": 4}


def test_bandwidth_is_payload_over_mean_duration_times_the_factor():
    """8000 B in 1000 and 3000 ns: 4 GB/s on average; bus 2 * 3 / 4 of it; the shortest is twice as fast."""
    row = _rates([_row("four", 0, 1000), _row("four", 2000, 5000)]).loc["four"]
    assert (row["rows_count"], row["sum_ns"], row["shortest_ns"], row["group_count"]) == (2, 4000, 1000, 4)
    assert row["algorithm_bytes_per_s"] == pytest.approx(4e9)
    assert row["bus_bytes_per_s"] == pytest.approx(6e9)
    assert row["best_bus_bytes_per_s"] == pytest.approx(12e9)


def test_what_is_unknown_gives_no_bandwidth():
    rows = [
        _row("odd", 0, 10),
        _row("all", 0, 10, payload_bytes=None),
        _row("shift", 0, 10, collective="collective-permute"),
        _row(None, 0, 10, program_id=None, collective=None),
    ]
    frame = _rates(rows)
    assert pd.isna(frame.loc["odd", "bus_bytes_per_s"])
    assert frame.loc["odd", "algorithm_bytes_per_s"] == pytest.approx(800e9)
    assert pd.isna(frame.loc["all", "algorithm_bytes_per_s"])
    assert frame.loc["shift", "bus_bytes_per_s"] == pytest.approx(800e9)
    assert frame["bus_bytes_per_s"].notna().sum() == 1


def test_devices_have_rows_of_their_own_and_compute_has_none():
    rows = [_row("all", 0, 10, device=f"gpu{i}") for i in range(3)] + [{"end": 5}]
    assert _rates(rows)["device"].tolist() == ["gpu0", "gpu1", "gpu2"]
    assert measure_collectives(make_attributed([{"end": 5}]), {}).empty


def test_groups_of_the_mixtral_step_are_those_of_its_mesh(shared):
    """FSDP of 4 times experts of 2: groups of 2, of 4, and of all 8."""
    sizes = group_sizes(mixtral_program(shared, "triton").module)
    assert set(sizes.values()) == {2, 4, 8}
    assert sizes["all-reduce-start.5"] == 8
