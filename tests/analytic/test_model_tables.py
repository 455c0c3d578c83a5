"""Tables of the analytic model: totals, gaps, and their contracts."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd
import pytest

from rocktools.analytic import model_tables
from rocktools.analytic.ceiling_gap import MeasuredStep, split_ceiling_gap
from rocktools.analytic.lower_bounds import compute_bound, memory_bound
from rocktools.analytic.model_file import read_model, shipped_models
from rocktools.analytic.step_model import build_step_model
from rocktools.analytic.useful_flop import build_flop_ledger
from rocktools.devices.files import read_device
from rocktools.frames import FrameSpec

MI355X = read_device("MI355X")
SPECS = [each for each in vars(model_tables).values() if isinstance(each, FrameSpec)]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_number_has_its_unit_in_its_name(spec):
    bare = {"value"}  # its unit is the column beside it
    for column in spec.columns:
        is_number = column.dtype in ("int64", "Int64", "float64")
        assert not is_number or (column.unit is not None) != (column.name in bare), column.name
        assert len(column.meaning.split()) >= 2


@pytest.mark.parametrize("name", shipped_models())
def test_matrices_add_up_to_the_parameters(name):
    model = read_model(name)
    frame = model_tables.matrices_frame(model).set_index("matrix")
    assert frame.loc["Total", "weights_count"] == model.parameters_count
    assert frame.drop("Total")["weights_count"].sum() == model.parameters_count
    products = frame.dropna(subset=["used_count"])
    used = (products["rows_count"] * products["columns_count"] * products["used_count"]).sum()
    others = frame.loc["norms", "weights_count"] + frame.loc["input embedding", "weights_count"]
    assert used + others == model.active_parameters_count


def test_flop_rows_add_up_and_slots_are_missing_where_nothing_is_said():
    model = read_model("mixtral-8x7b")
    plain = model_tables.flop_frame(build_flop_ledger(model, tokens_count=8192, sequence_tokens=4096))
    padded = model_tables.flop_frame(
        build_flop_ledger(model, tokens_count=8192, sequence_tokens=4096, capacity_factor=Fraction(2))
    )
    assert plain["slots_flop"].isna().all()
    for frame in (plain, padded):
        assert frame["useful_flop"].iloc[:-1].sum() == pytest.approx(frame["useful_flop"].iloc[-1])
        assert frame["share_ratio"].iloc[:-1].sum() == pytest.approx(1)
    experts, total = padded.set_index("component").loc[["experts", "Total"]].to_dict("records")
    assert experts["slots_flop"] == 2 * experts["useful_flop"]
    assert total["slots_flop"] - total["useful_flop"] == pytest.approx(experts["useful_flop"])


def test_flop_may_be_more_than_int64_holds():
    """70 billion parameters and 134 million tokens, or 405 billion and 16 million as Llama 3 405B was trained."""
    ledger = build_flop_ledger(read_model("llama-3-70b"), tokens_count=2**27, sequence_tokens=8192)
    assert ledger.useful_flop > 2**63
    assert model_tables.flop_frame(ledger)["useful_flop"].iloc[-1] == float(ledger.useful_flop)


def test_categories_and_operations_add_up_to_the_same_step():
    step = build_step_model(read_model("mixtral-8x7b"), MI355X, tokens_count=8192, sequence_tokens=4096)
    floor, operations = model_tables.floor_frame(step), model_tables.operations_frame(step)
    assert floor["time_s"].iloc[-1] == step.step_s
    assert operations["time_s"].sum() == pytest.approx(step.step_s)
    by_category = operations.groupby("category", observed=True)["time_s"].sum()
    for row in floor.iloc[:-1].itertuples():
        assert row.time_s == pytest.approx(by_category[row.category])


def test_bounds_have_one_longest_and_a_share_only_of_a_measured_step():
    bounds = [
        compute_bound(10**18, devices_count=1, peak=MI355X.peak("bf16")),
        memory_bound(1e9, bandwidth=MI355X.bandwidth("hbm")),
    ]
    assert model_tables.bounds_frame(bounds, None)["measured_share_ratio"].isna().all()
    frame = model_tables.bounds_frame(bounds, 1.0)
    assert frame["is_longest"].tolist() == [True, False]
    assert frame["measured_share_ratio"].tolist() == frame["duration_s"].tolist()


def test_floor_and_parts_of_the_gap_add_up_to_the_measured_step():
    measured = MeasuredStep(
        span_s=10.0, compute_s=6.0, compute_sum_s=8.0, exposed_communication_s=3.0, exposed_copy_s=0.0, idle_s=1.0
    )
    frame = model_tables.gap_frame(split_ceiling_gap(measured, floor_s=2.0, mfu_ceiling=0.8))
    assert frame["duration_s"].iloc[:-1].sum() == pytest.approx(frame["duration_s"].iloc[-1])
    first, last = frame["mfu_ratio"].iloc[0], frame["mfu_ratio"].iloc[-1]
    assert first - frame["mfu_points_ratio"].sum() == pytest.approx(last)
    is_told = frame["duration_s"].notna()
    assert (frame["state"].isna() == is_told).all()
    assert not bool(pd.isna(frame["step_share_ratio"])[is_told].any())
