"""A point in sentences: every number that the verdict rests on, with its source."""

from __future__ import annotations

import pytest
from roofline_rows import ORIGIN, round_device, work_rows

from rocktools.errors import UsageError
from rocktools.roofline.explain import explain_point
from rocktools.roofline.points import build_roofline


def _lines(**row):
    return explain_point(build_roofline(work_rows(row), round_device(), ORIGIN), "k")


def test_memory_bound_point_is_explained_with_all_its_numbers():
    text = "\n".join(_lines(compute_flop=20, moved_bytes=80))
    for said in (
        "FLOPs and bytes: compiler estimate (by hand); time: trace",
        "time: 100 ns covered by 1 execution of known cost on 1 device",
        "FLOPs: 20 FLOP (20): bf16 matrix 100.0 %",
        "bytes: 80 B (80)",
        "arithmetic takes at least 20 ns: 1 GFLOP/s is the ceiling of this mix; it achieved 200 MFLOP/s, 20.0 %",
        "bf16 matrix: 1 GFLOP/s, declared: made up for a test",
        "traffic takes at least 80 ns: 1 GB/s is the ceiling of hbm; it achieved 800 MB/s, 80.0 %",
        "intensity: 0.25 FLOP/B, below the ridge at 1 FLOP/B",
        "memory-bound: the memory roof explains 80.0 % of the time",
        "headroom: 20 ns, if it ran at that roof",
        "the true HBM traffic may be less",
    ):
        assert said in text


VERDICTS = [
    ({"compute_flop": 90, "moved_bytes": 9}, "compute-bound: the compute roof explains 90.0 % of the time"),
    ({"compute_flop": 9, "moved_bytes": 30}, "bound by neither: the memory roof explains 30.0 % of the time"),
    ({"compute_flop": 9, "moved_bytes": 300}, "above the memory roof (300.0 % of the time is asked for)"),
    ({"compute_flop": 9}, "no point: bytes at the level hbm are not known"),
]


@pytest.mark.parametrize("row, said", VERDICTS)
def test_verdicts(row, said):
    assert said in "\n".join(_lines(**row))


def test_unknown_name_lists_the_nearest():
    roofline = build_roofline(work_rows({"name": "gemm_fusion_dot_3"}), round_device(), ORIGIN)
    with pytest.raises(UsageError, match="gemm_fusion_dot_3"):
        explain_point(roofline, "gemm_fusion_dot")
