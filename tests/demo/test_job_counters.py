"""Counter passes of the demo: passes that hardware can make, and counts that give FLOPs and bytes back."""

from __future__ import annotations

from collections import defaultdict

import pandas as pd
import pytest
from command_line import CommandLine

from rocktools.counters.catalog import load_catalog
from rocktools.counters.packing import check_group, pack_counters
from rocktools.counters.requests import parse_request
from rocktools.demo.job_counters import COUNTED_QUANTITIES, PASSES


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


def test_the_passes_are_those_of_rocktools_pmc():
    catalog = load_catalog("gfx950")
    request = parse_request(catalog, counters=("SQ_WAVES",), metrics=COUNTED_QUANTITIES)
    packing = pack_counters(catalog, request.names, together=request.disjoint_groups())
    assert sorted(each.counters for each in packing.passes) == sorted(map(tuple, map(sorted, PASSES.values())))
    for counters in PASSES.values():
        assert check_group(catalog, counters) == []


def test_formulas_give_back_the_flop_and_bytes_of_the_program(demo_run, sites, run):
    """`rocktools metrics` knows the counts and the formulas; what the program does is in the truth alone."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in run.rows("metrics", demo_run, "--top", 0):
        if row["value"] is not None:
            found[row["kernel_name"]][row["quantity"]] = row["value"]
    generated = sites[sites["kernel"] != ""]
    assert set(found) == set(generated.loc[generated["launches_per_step_count"] > 0, "kernel"])
    checked_count = 0
    for kernel, own in generated.groupby("kernel"):
        work = own[["compute_flop", "transcendental_count", "read_bytes", "written_bytes", "unit"]].drop_duplicates()
        if len(work) > 1 or kernel not in found:  # one kernel of equal fusions on views of different sizes
            continue
        one, values = work.iloc[0], found[kernel]
        flop = values["mfma_flop"] if one["unit"] == "matrix" else values["valu_flop"]
        expected = one["compute_flop"] + (0 if one["unit"] == "matrix" else one["transcendental_count"])
        assert 0 <= flop - expected < 512 + 64, kernel
        assert 0 <= values["fabric_read_bytes"] - one["read_bytes"] < 32, kernel
        assert 0 <= values["fabric_write_bytes"] - one["written_bytes"] < 32, kernel
        checked_count += 1
    assert checked_count > 150


def test_no_counted_quantity_is_out_of_its_range(demo_run, run):
    ran = run("metrics", demo_run, "--format", "json")
    assert ran.code == 0
    assert "out-of-range" not in ran.err
    rows = pd.DataFrame(run.rows("metrics", demo_run, "--top", 0))
    utilised = rows[rows["quantity"] == "mfma_utilisation"].set_index("kernel_name")["value"]
    assert 0.25 < utilised["gemm_fusion_dot_66"] < 0.6
    assert utilised.max() < 1
    hits = rows[rows["quantity"] == "l2_hit_ratio"]["value"]
    assert hits.between(0, 1).all()
