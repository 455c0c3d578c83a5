"""Values of rocprof-compute that cannot be true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compute_files import Kernel, Workload, write_analysis

from rocktools.findings import Finding
from rocktools.workspace.compute_results import read_compute_results
from rocktools.workspace.tool_doubts import check_tool_values, shortened


def doubts(folder: Path, *kernels: Kernel, **system: Any) -> dict[str, Finding]:
    workload = Workload(name="w", kernels=kernels, system={"gpu_arch": "gfx950", "max_sclk": "2400", **system})
    findings = check_tool_values(read_compute_results([write_analysis(folder / "a.db", [workload])]))
    return {finding.rule: finding for finding in findings}


def test_plain_values_raise_nothing(tmp_path):
    values = {("2.1.11", "Avg"): 100.0, ("2.1.24", "Avg"): 5_000.0, ("2.1.24", "Pct of Peak"): 64.2}
    assert doubts(tmp_path, Kernel(name="k", values=values)) == {}


def test_a_share_of_207_percent_is_named_with_its_kernel(tmp_path):
    """The HBM read share that ROCm/rocm-systems pull request 9324 is about."""
    found = doubts(tmp_path, Kernel(name="k", values={("2.1.24", "Pct of Peak"): 207.0}), Kernel(name="fine"))
    assert set(found) == {"above-peak"}
    assert found["above-peak"].where == "w: k"
    assert found["above-peak"].numbers == {"metrics_count": 1, "largest_ratio": 2.07}
    assert "the largest is 207 %" in found["above-peak"].message


def test_a_rate_above_100_is_no_share(tmp_path):
    assert doubts(tmp_path, Kernel(name="k", values={("2.1.24", "Avg"): 207.0})) == {}


def test_values_below_0_are_named_and_the_smallest_told(tmp_path):
    values = {("2.1.24", "Avg"): -12.5, ("2.1.25", "Avg"): -3.0, ("2.1.11", "Avg"): 0.0}
    found = doubts(tmp_path, Kernel(name="k", values=values))
    assert set(found) == {"below-zero"}
    assert found["below-zero"].numbers == {"metrics_count": 2, "values_count": 2}
    assert "the smallest is -12.5" in found["below-zero"].message


@pytest.mark.parametrize("clock", ["0", "", "N/A"])
def test_a_missing_clock_is_told_with_the_correction(tmp_path, clock):
    found = doubts(tmp_path, Kernel(name="k", values={("2.1.11", "Avg"): 1.0}), max_sclk=clock)
    assert set(found) == {"tool-clock-missing"}
    assert "--specs-correction max_sclk:MHZ" in found["tool-clock-missing"].advice


def test_only_long_names_are_shortened():
    assert shortened("k" * 60) == "k" * 60
    assert shortened("k" * 61) == "k" * 60 + "..."


@pytest.mark.conformance
def test_the_vendors_mi350_sample_has_no_clock(shared):
    folder = shared / "data/counters/workloads/vcopy-MI350"
    assert {each.rule for each in check_tool_values(read_compute_results([folder]))} == {"tool-clock-missing"}
