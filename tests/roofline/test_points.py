"""Points: sums over unions, each format under its own peak, refusals, doubts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline_rows import ORIGIN, round_device, work_rows

from rocktools.devices.device import Level
from rocktools.devices.files import read_device
from rocktools.errors import UsageError
from rocktools.evidence import Evidence
from rocktools.roofline.points import PointOptions, build_roofline
from rocktools.roofline.work import TimeSource


def _point(*rows, device=None, origin=ORIGIN, options=None):
    roofline = build_roofline(work_rows(*rows), device or round_device(), origin, options)
    [point] = roofline.points.to_dict("records")
    return point, roofline


def test_point_is_sums_over_the_union_of_intervals():
    """|0--100|  and  |50----150| overlap: 150 ns, not 200."""
    point, _ = _point(
        {"compute_flop": 60, "moved_bytes": 30}, {"start_ns": 50, "end_ns": 150, "compute_flop": 60, "moved_bytes": 30}
    )
    assert (point["union_ns"], point["sum_ns"], point["executions_count"]) == (150, 200, 2)
    assert (point["compute_flop"], point["moved_bytes"], point["intensity_flop_per_byte"]) == (120, 60, 2.0)
    assert point["achieved_flop_per_s"] == pytest.approx(0.8e9)
    assert (point["roof_ratio"], point["bound"], point["side"]) == (pytest.approx(0.8), "compute", "compute")
    assert point["headroom_ns"] == pytest.approx(30)


def test_devices_are_added_up_so_that_rates_are_of_one():
    rows = [{"device": f"gpu{n}", "compute_flop": 50, "moved_bytes": 80} for n in range(4)]
    point, _ = _point(*rows)
    assert (point["union_ns"], point["devices_count"]) == (400, 4)
    assert point["achieved_bytes_per_s"] == pytest.approx(0.8e9)
    assert (point["bound"], point["side"]) == ("memory", "memory")


BOUNDS = [
    (90, 10, "compute"), (10, 90, "memory"), (59, 10, "neither"), (10, 59, "neither"), (60, 10, "compute"),
    (103, 10, "above_roof"), (10, 103, "above_roof"), (102, 10, "compute"),
]  # fmt: skip


@pytest.mark.parametrize("flop, moved, bound", BOUNDS)
def test_bound_is_named_where_the_roof_explains_the_time(flop, moved, bound):
    point, _ = _point({"compute_flop": flop, "moved_bytes": moved})
    assert point["bound"] == bound


def test_each_format_is_held_against_its_own_peak():
    """40 FLOP in f32 take 400 ns on vector units; 40 in bf16 would take 40 on matrix units, at the same time."""
    rows = [
        {"end_ns": 500, "unit": "vector", "dtype": "f32", "compute_flop": 40, "moved_bytes": 1},
        {"end_ns": 500, "compute_flop": 40, "moved_bytes": 1},
    ]
    point, roofline = _point(*rows)
    assert point["compute_bound_ns"] == pytest.approx(400)
    assert point["peak_flop_per_s"] == pytest.approx(80 / 400 * 1e9)
    assert point["mix"] in ("f32 vector 50.0 %, bf16 matrix 50.0 %", "bf16 matrix 50.0 %, f32 vector 50.0 %")
    assert set(roofline.dtypes) == {("vector", "f32"), ("matrix", "bf16")}


def test_formats_of_one_unit_wait_for_each_other():
    device = round_device(peaks={("matrix", "bf16"): 1e9, ("matrix", "f8"): 2e9})
    rows = [{"compute_flop": 40, "moved_bytes": 1}, {"dtype": "f8e4m3fn", "compute_flop": 40, "moved_bytes": 1}]
    point, _ = _point(*rows, device=device)
    assert point["compute_bound_ns"] == pytest.approx(40 + 20)


def test_wanted_format_refuses_points_in_another():
    rows = [
        {"compute_flop": 90, "moved_bytes": 1},
        {"unit": "vector", "dtype": "f32", "compute_flop": 10, "moved_bytes": 1},
    ]
    point, _ = _point(*rows, options=PointOptions(dtype="bf16"))
    assert point["refusal"] == "only 90.0 % of its FLOPs are bf16"
    assert np.isnan(point["roof_ratio"])
    point, _ = _point({"compute_flop": 96, "moved_bytes": 1}, options=PointOptions(dtype="bfloat16"))
    assert point["bound"] == "compute"


REFUSED = [
    ([{"compute_flop": None, "moved_bytes": None}], "neither FLOPs nor bytes are known"),
    ([{"compute_flop": 5}], "bytes at the level hbm are not known"),
    ([{"moved_bytes": 5}], "FLOPs are not known"),
    ([{"end_ns": 0, "compute_flop": 5, "moved_bytes": 5}], "it took no time"),
    ([{"compute_flop": 0, "moved_bytes": 0}], "nothing was calculated and nothing moved"),
    ([{"dtype": "f4e2m1fn", "compute_flop": 5, "moved_bytes": 5}], "ROUND has no peak of f4 matrix"),
    ([{"dtype": None, "compute_flop": 5, "moved_bytes": 5}], "ROUND has no peak of unknown matrix"),
    ([{"is_counted": False}], "neither FLOPs nor bytes are known"),
]


@pytest.mark.parametrize("rows, refusal", REFUSED)
def test_refusals_say_why_and_have_no_numbers(rows, refusal):
    point, roofline = _point(*rows)
    assert point["refusal"] == refusal
    assert np.isnan(point["achieved_flop_per_s"])
    assert np.isnan(point["bound"])
    assert "points-refused" in [finding.rule for finding in roofline.findings]


def test_work_without_a_known_cost_is_left_out_of_sums_and_time():
    rows = [{"compute_flop": 90, "moved_bytes": 9}, {"start_ns": 100, "end_ns": 400, "is_counted": False}]
    point, roofline = _point(*rows)
    assert (point["union_ns"], point["roof_ratio"]) == (100, pytest.approx(0.9))
    assert point["covered_ratio"] == pytest.approx(0.25)
    assert [finding.rule for finding in roofline.findings] == ["point-of-a-part"]


def test_added_formats_of_an_execution_take_no_time_and_are_no_execution():
    more = {"end_ns": 0, "unit": "vector", "dtype": "f32", "compute_flop": 1, "is_execution": False}
    point, _ = _point({"compute_flop": 50, "moved_bytes": 5}, more)
    assert (point["executions_count"], point["union_ns"], point["compute_flop"]) == (1, 100, 51)


def test_points_above_the_roof_are_one_finding():
    rows = [{"name": f"k{n}", "compute_flop": 1, "moved_bytes": 150 + n} for n in range(3)]
    roofline = build_roofline(work_rows(*rows), round_device(), ORIGIN)
    [finding] = roofline.findings
    assert finding.rule == "point-above-roof"
    assert finding.message.startswith("3 names of 3")
    assert "k2 most: 152.0 %" in finding.message


def test_times_of_a_pass_are_said():
    origin = dataclasses.replace(ORIGIN, time_source=TimeSource.COUNTER_PASS)
    _, roofline = _point({"compute_flop": 90, "moved_bytes": 9}, origin=origin)
    assert [finding.rule for finding in roofline.findings] == ["times-of-a-counter-pass"]
    assert origin.sentence.endswith("time: counter pass")


def test_shared_bandwidth_is_said():
    device = read_device("MI355X", partition="CPX")
    _, roofline = _point({"compute_flop": 90, "moved_bytes": 9}, device=device)
    assert [finding.rule for finding in roofline.findings] == ["bandwidth-is-shared"]


def test_network_points_need_no_flop_and_are_bound_by_the_network():
    origin = dataclasses.replace(ORIGIN, level=Level.NETWORK)
    point, _ = _point({"moved_bytes": 8, "unit": None, "dtype": None}, origin=origin)
    assert (point["bound"], point["roof_ratio"]) == ("network", pytest.approx(0.8))


def test_level_without_a_figure_is_refused():
    with pytest.raises(UsageError, match="no bandwidth of lds is published for ROUND"):
        _point({"compute_flop": 1, "moved_bytes": 1}, origin=dataclasses.replace(ORIGIN, level=Level.LDS))


def test_evidence_is_the_weakest_of_both():
    origin = dataclasses.replace(ORIGIN, flop_evidence=Evidence.COUNTER, bytes_evidence=Evidence.INFERRED)
    point, _ = _point({"compute_flop": 1, "moved_bytes": 90}, origin=origin)
    assert point["evidence"] == "inferred"


def test_mi355x_roof_has_the_digits_of_the_guide():
    """A kernel at the ridge: both roofs take the same time, and 314.6 FLOP/byte is where they meet."""
    point, _ = _point({"end_ns": 1_000_000, "compute_flop": 2_516_582_400, "moved_bytes": 8_000_000},
                      device=read_device("MI355X"))  # fmt: skip
    assert point["compute_bound_ns"] == pytest.approx(point["traffic_bound_ns"]) == pytest.approx(1000)
    assert f"{point['ridge_flop_per_byte']:.1f}" == "314.6"
    assert f"{point['roof_flop_per_s'] / 1e15:.4f}" == "2.5166"


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 50), st.integers(0, 40), st.integers(0, 40), st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_roof_is_the_lower_of_both_ceilings_at_the_intensity(rows):
    """min(C, I x beta) of the textbook, from the frame's own columns; order does not matter."""
    made = [
        {"start_ns": start, "end_ns": start + length, "compute_flop": flop, "moved_bytes": moved,
         **({} if is_matrix else {"unit": "vector", "dtype": "f32"})}
        for start, length, flop, moved, is_matrix in rows
    ]  # fmt: skip
    point, _ = _point(*made)
    assert point["union_ns"] == len({t for start, length, *_ in rows for t in range(start, start + length)})
    again, _ = _point(*reversed(made))
    assert again["union_ns"] == point["union_ns"]
    if isinstance(point["refusal"], float) and point["compute_flop"] and point["moved_bytes"]:
        roof = min(point["peak_flop_per_s"], point["intensity_flop_per_byte"] * point["bandwidth_bytes_per_s"])
        assert point["roof_flop_per_s"] == pytest.approx(roof)
        assert point["roof_ratio"] == pytest.approx(point["achieved_flop_per_s"] / roof)
        assert point["headroom_ns"] == pytest.approx(point["union_ns"] * (1 - point["roof_ratio"]), abs=1e-6)
