"""`rocktools batch collect` and `compare`: parts, formats, pictures, refusals."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from command_line import CommandLine
from compute_files import Kernel, Workload, write_analysis
from rocpd_files import write_small_trace

from rocktools.batch.compare_batches import BATCH_CHANGES
from rocktools.batch.gathered_tables import BATCH_KERNELS, BATCH_POINTS
from rocktools.sources.compute_analysis.results import COMPUTE_METRICS
from rocktools.workspace.compute_quantities import COMPUTE_QUANTITIES

NAME = "loop_fusion_3"
SYSTEM = {"gpu_arch": "gfx950", "gpu_model": "MI355X", "num_xcd": 8, "cu_per_gpu": 256, "max_sclk": 2400}
PARTS = {
    "kernels": BATCH_KERNELS,
    "quantities": COMPUTE_QUANTITIES,
    "points": BATCH_POINTS,
    "metrics": COMPUTE_METRICS,
}


def write(path: Path, flop: float, *, version: str = "3.10.0") -> Path:
    values = {
        ("11.3.0", "Avg"): flop, ("4.1.1", "Value"): flop / 1_000, ("2.1.24", "Avg"): 2.0, ("2.1.25", "Avg"): 1.0,
        ("2.1.11", "Avg"): 104.0,
    }  # fmt: skip
    kernel = Kernel(name=NAME, launches_ns=(1_000,), values=values, points={"hbm": 2.0})
    workload = Workload(name="w", kernels=(kernel,), system=SYSTEM, bench={"HBMBw": 6000.0, "FP32Flops": 150_000.0})
    return write_analysis(path, [workload], version=version)


@pytest.fixture
def database(tmp_path):
    return write(tmp_path / "analysis.db", 6_000.0)


@pytest.fixture
def trace(tmp_path):
    return write_small_trace(tmp_path / "trace.db")


@pytest.fixture
def rocktools(capsys) -> CommandLine:
    return CommandLine(capsys)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_all_of_its_columns_in_csv_and_json(rocktools, database, part):
    ran = rocktools("batch", "collect", database, "--part", part, "--format", "csv")
    assert ran.code == 0
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert set(PARTS[part].names) <= set(rows[0])
    document = json.loads(rocktools("batch", "collect", database, "--part", part, "--format", "json").out)
    assert document["name"] == PARTS[part].name
    assert len(document["rows"]) == len(rows)
    assert {finding["rule"] for finding in document["findings"]} == {"above-peak"}


def test_table_names_the_version_and_why_rates_are_missing(rocktools, database):
    ran = rocktools("batch", "collect", database)
    assert "1 kernel under rocprof-compute" in ran.out
    assert "note: rocprof-compute 3.10.0" in ran.out
    assert "no rates for 1 of them: no trace has their time, and that of a counter pass is none" in ran.out
    assert "above-peak" in ran.err
    assert "1 us" not in ran.out.replace("µ", "u")  # of the pass


def test_a_metric_is_found_by_its_name(rocktools, database):
    ran = rocktools("batch", "collect", database, "--metric", "^L2-Fabric Read BW$", "--format", "csv")
    assert [(row["kernel_name"], row["value"]) for row in csv.DictReader(io.StringIO(ran.out))] == [(NAME, "2.0")]
    missing = rocktools("batch", "collect", database, "--metric", "nothing")
    assert (missing.code, "no-metric-matched" in missing.err) == (1, True)


def test_markdown_is_a_table_that_shows_names_as_they_are(rocktools, database, tmp_path):
    path = tmp_path / "kernels.md"
    assert rocktools("batch", "collect", database, "-o", path).code == 0
    text = path.read_text(encoding="utf-8")
    assert r"| loop\_fusion\_3 |" in text
    assert "6 kFLOP" in text
    assert "above-peak" in text


@pytest.mark.parametrize("suffix, start", [(".svg", b"<?xml"), (".png", b"\x89PNG")])
def test_picture_of_points_that_have_a_time(rocktools, database, trace, tmp_path, suffix, start):
    path = tmp_path / f"roof{suffix}"
    ran = rocktools("batch", "collect", database, "--trace", trace, "-o", path)
    assert ran.code == 0, ran.err
    assert path.read_bytes().startswith(start)
    again = rocktools("batch", "collect", database, "--trace", trace, "-o", path)
    assert (again.code, "output-exists" in again.err) == (2, True)


def test_picture_without_a_time_is_refused(rocktools, database, tmp_path):
    ran = rocktools("batch", "collect", database, "-o", tmp_path / "roof.svg")
    assert (ran.code, "no-times-for-roofline" in ran.err) == (1, True)
    assert not (tmp_path / "roof.svg").exists()


def test_simulated_times_are_stamped(rocktools, database, trace):
    assert rocktools("batch", "collect", database, "--trace", trace).out.startswith("SIMULATED")


def test_what_has_no_results_is_refused(rocktools, tmp_path, trace):
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, reference in ((empty, "no-compute-results"), (tmp_path / "none", "no-such-file")):
        ran = rocktools("batch", "collect", path)
        assert (ran.code, reference in ran.err) == (1, True)
    assert rocktools("batch", "collect").code == 2


def test_a_trace_named_as_results_is_told_apart(rocktools, trace):
    ran = rocktools("batch", "collect", trace)
    assert (ran.code, "not-compute-analysis" in ran.err) == (1, True)


def test_compare_shows_what_changed_and_csv_all(rocktools, database, tmp_path):
    later = write(tmp_path / "later.db", 9_000.0)
    ran = rocktools("batch", "compare", database, later)
    assert ran.code == 0
    assert "changes of 1 kernel" in ran.out
    assert "total_flop" in ran.out
    assert "50.0 %" in ran.out
    assert "valu_utilisation" not in ran.out  # the same in both
    rows = list(csv.DictReader(io.StringIO(rocktools("batch", "compare", database, later, "--format", "csv").out)))
    assert set(BATCH_CHANGES.names) <= set(rows[0])
    by_quantity = {row["quantity"]: row for row in rows}
    assert (by_quantity["total_flop"]["before_value"], by_quantity["total_flop"]["after_value"]) == ("6000.0", "9000.0")
    assert by_quantity["valu_utilisation"]["change_value"] == "0.0"


def test_compare_of_one_quantity_and_of_unknown_ones(rocktools, database):
    ran = rocktools("batch", "compare", database, database, "--quantity", "total_flop", "--format", "csv")
    assert [row["quantity"] for row in csv.DictReader(io.StringIO(ran.out))] == ["total_flop"]
    assert rocktools("batch", "compare", database, database, "--quantity", "flops").code == 2


@pytest.mark.conformance
def test_the_real_database_is_one_command_away(rocktools, shared):
    path = shared / "data" / "rocpd" / "rocprof-compute-analysis.db"
    ran = rocktools("batch", "collect", path, "--part", "metrics", "--format", "csv")
    assert ran.code == 0
    assert len(list(csv.DictReader(io.StringIO(ran.out)))) == 48_405 + 6_915


def test_a_metric_of_another_part_is_refused(rocktools, database):
    ran = rocktools("batch", "collect", database, "--metric", "HBM", "--part", "points")
    assert (ran.code, "metric-of-other-part" in ran.err) == (2, True)


def test_a_share_of_a_peak_is_in_percent_whatever_its_metric_is_in(rocktools, tmp_path):
    kernel = Kernel(name=NAME, values={("2.1.24", "Avg"): 2.0, ("2.1.24", "Pct of Peak"): 0.4})
    path = write_analysis(tmp_path / "a.db", [Workload(name="w", kernels=(kernel,), system=SYSTEM)])
    ran = rocktools("batch", "collect", path, "--part", "metrics", "--format", "csv")
    units = {row["value_name"]: row["unit"] for row in csv.DictReader(io.StringIO(ran.out))}
    assert units == {"Avg": "Gb/s", "Pct of Peak": "%"}


def test_a_kernel_of_one_side_has_one_row_without_a_quantity(rocktools, database, tmp_path):
    other = write_analysis(tmp_path / "b.db", [Workload(name="w", kernels=(
        Kernel(name="other", launches_ns=(1_000,), values={("2.1.24", "Avg"): 2.0, ("2.1.25", "Avg"): 1.0}),
    ), system=SYSTEM)], version="3.10.0")  # fmt: skip
    lines = [line.split() for line in rocktools("batch", "compare", database, other).out.splitlines()]
    assert [NAME, "before_only"] in lines
    assert ["other", "after_only"] in lines
