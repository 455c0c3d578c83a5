"""Devices side by side: means over common steps, spread, and who is critical."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from spec_frames import make_frame
from timeline_rows import drawn_rows, make_attributed

from rocktools.frames import UNITLESS_SUFFIXES
from rocktools.timeline.overlap import RECONCILIATION, reconcile
from rocktools.timeline.ranks import DEVICE_MEANS, DEVICE_SPREAD, QUANTITIES, common_steps, compare_devices


def spread_of(comparison: Any, quantity: str) -> dict[str, Any]:
    frame = comparison.spread
    return dict(frame[frame["quantity"] == quantity].iloc[0])


def test_spread_is_of_means_over_steps_and_names_the_critical_device() -> None:
    """
    step 0        step 1
    ####......    ##........   gpu0: compute 3 on average
    ########..    ######....   gpu1: compute 7
    """
    rows = []
    for device, pictures in (("host:gpu0", ["####", "##"]), ("host:gpu1", ["########", "######"])):
        for step, picture in enumerate(pictures):
            rows += [
                {**row, "start": row["start"] + 100 * step, "end": row["end"] + 100 * step}
                for row in drawn_rows([("compute", picture)], device=device, step_index=step)
            ]
    comparison = compare_devices(reconcile(make_attributed(rows)).frame)
    assert comparison.means["compute_ns"].tolist() == [3.0, 7.0]
    assert comparison.means["steps_count"].tolist() == [2, 2]
    compute = spread_of(comparison, "compute")
    assert (compute["mean_ns"], compute["min_ns"], compute["max_ns"], compute["spread_ns"]) == (5.0, 3.0, 7.0, 4.0)
    assert compute["spread_ratio"] == pytest.approx(0.8)
    assert (compute["critical_device"], compute["least_device"]) == ("host:gpu1", "host:gpu0")
    assert set(comparison.spread["quantity"]) == {name.removesuffix("_ns") for name in QUANTITIES}
    assert pd.isna(spread_of(comparison, "communication")["spread_ratio"])


def test_step_that_one_device_lacks_is_not_compared() -> None:
    rows = [
        {"run": "r", "device": device, "step_index": step}
        for device, step in (("a:gpu0", 0), ("a:gpu0", 1), ("a:gpu1", 1))
    ]
    frame = make_frame(RECONCILIATION, rows)
    assert common_steps(frame)["step_index"].tolist() == [1, 1]


def test_runs_have_steps_of_their_own() -> None:
    rows = [
        {"run": "r", "device": "a:gpu0", "step_index": 0},
        {"run": "s", "device": "a:gpu0", "step_index": 5},
        {"run": "s", "device": "a:gpu1", "step_index": 5},
    ]
    assert len(common_steps(make_frame(RECONCILIATION, rows))) == 3


def test_devices_without_a_common_step_are_not_compared_and_that_is_said() -> None:
    rows = [{"run": "r", "device": "a:gpu0", "step_index": 0}, {"run": "r", "device": "a:gpu1", "step_index": 1}]
    comparison = compare_devices(make_frame(RECONCILIATION, rows))
    assert comparison.means.empty
    assert comparison.spread.empty
    assert [finding.rule for finding in comparison.findings] == ["no-common-step"]


def test_nothing_compares_to_nothing() -> None:
    comparison = compare_devices(RECONCILIATION.empty())
    assert (len(comparison.means), len(comparison.spread), comparison.findings) == (0, 0, ())


def test_numeric_columns_of_results_have_units() -> None:
    for spec in (DEVICE_MEANS, DEVICE_SPREAD):
        for column in spec.columns:
            assert column.dtype == "category" or column.unit or column.name.endswith(UNITLESS_SUFFIXES), column.name
