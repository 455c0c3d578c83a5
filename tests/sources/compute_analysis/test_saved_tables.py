"""Folders of --save-dfs: names cut into lines, empty and infinite cells, what belongs to which kernel."""

from __future__ import annotations

import contextlib
import csv
import math
import tempfile
from pathlib import Path

import pytest
from compute_files import wrapped_name, write_saved_tables, write_table
from hypothesis import given, settings
from hypothesis import strategies as st

from rocktools.errors import DamagedFile, InputError, NothingToRead, UnknownFormat
from rocktools.frames import require_frame
from rocktools.sources.compute_analysis.results import COMPUTE_KERNELS, COMPUTE_METRICS
from rocktools.sources.compute_analysis.saved_tables import is_table_folder, read_table_folder

LONG = "void rocrand_impl::host::generate<1u, false, float>(float*, unsigned long, unsigned int const*, int)"
ROWS = (
    ("VALU FLOPs", 0.0, "Gflop/s", 0.0, ""),
    ("VALU IOPs", 287.226112, "Giop/s", 0.0, "inf"),
    ("IPC", "", "", 5.0, ""),
)


def read(folder: Path):
    analysis = read_table_folder(folder)
    require_frame(analysis.kernels, COMPUTE_KERNELS)
    require_frame(analysis.metrics, COMPUTE_METRICS)
    return analysis


def values(analysis) -> dict[tuple[str, str], tuple[float, str | None]]:
    rows = analysis.metrics.astype(object)
    return {
        (name, value_name): (value, absence if isinstance(absence, str) else None)
        for name, value_name, value, absence in zip(
            rows["metric_name"], rows["value_name"], rows["value"], rows["absence"], strict=True
        )
    }


def test_values_of_one_kernel_belong_to_it_and_its_name_is_whole(tmp_path):
    analysis = read(write_saved_tables(tmp_path / "t", [(LONG, 3, 100.5)], ROWS))
    assert analysis.metrics["kernel_name"].unique().tolist() == [LONG]
    row = analysis.kernels.iloc[0]
    assert (row["dispatches_count"], row["pass_sum_ns"], row["pass_mean_ns"]) == (3, 301.5, 100.5)
    assert math.isnan(row["pass_min_ns"])
    assert analysis.findings == ()


def test_empty_and_infinite_cells_have_reasons(tmp_path):
    found = values(read(write_saved_tables(tmp_path / "t", [("k", 1, 5)], ROWS)))
    assert found["VALU FLOPs", "Avg"] == (0.0, None)
    assert math.isnan(found["VALU IOPs", "Pct of Peak"][0])
    assert found["VALU IOPs", "Pct of Peak"][1] == "undefined"
    assert found["IPC", "Avg"][1] == "not_collected"
    assert ("IPC", "Unit") not in found


def test_values_of_several_kernels_belong_to_none_and_a_finding_says_so(tmp_path):
    analysis = read(write_saved_tables(tmp_path / "t", [("a", 1, 5), ("b", 2, 6)], ROWS))
    assert analysis.metrics["kernel_name"].isna().all()
    assert [finding.rule for finding in analysis.findings] == ["saved-tables-mixed"]
    assert analysis.findings[0].numbers == {"kernels_count": 2}


@pytest.mark.parametrize("share", ["Pct of Peak", "Percent of Peak"])
def test_both_spellings_of_a_share_are_kept_as_written(tmp_path, share):
    write_saved_tables(tmp_path / "t", [("k", 1, 5)], ())
    name = "2.1_System_Speed-of-Light.csv"
    write_table(tmp_path / "t", name, ("Metric", "Avg", "Unit", "Peak", share), [("IPC", 1.5, "x", 5, 30)])
    assert values(read(tmp_path / "t"))["IPC", share] == (30.0, None)


def test_tables_of_channels_are_named_by_channel(tmp_path):
    write_saved_tables(tmp_path / "t", [("k", 1, 5)], ROWS)
    name = "18.2_L2_Cache_Hit_Rate_(pct).csv"
    write_table(tmp_path / "t", name, ("Channel", "Min", "Max"), [("0.0", 1, 2), ("17.0", 3, "")])
    analysis = read(tmp_path / "t")
    found = values(analysis)
    assert found["17", "Min"] == (3.0, None)
    assert found["17", "Max"][1] == "not_collected"
    rows = analysis.metrics[(analysis.metrics["metric_name"] == "17").to_numpy()]
    assert rows["table_name"].unique().tolist() == ["L2 Cache Hit Rate (pct)"]
    assert rows["table_id"].unique().tolist() == ["18.2"]


@pytest.mark.parametrize("unit, factor", [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)])
def test_times_are_nanoseconds_whatever_unit_they_were_written_in(tmp_path, unit, factor):
    write_saved_tables(tmp_path / "t", [("k", 1, 5)], ROWS)
    header = ("Kernel_Name", "Count", f"Sum({unit})", f"Mean({unit})", f"Median({unit})", "Pct")
    write_table(tmp_path / "t", "0.1_Top_Kernels.csv", header, [("k", 2.0, 4.0, 2.0, 2.0, 100.0)])
    row = read(tmp_path / "t").kernels.iloc[0]
    assert (row["pass_sum_ns"], row["pass_mean_ns"]) == (4.0 * factor, 2.0 * factor)


@pytest.mark.parametrize(
    "header", [("Metric", "Avg", "Avg", "Abs Diff", "Unit"), ("Metric", "Avg", "Avg", "Unit"), ("Metric", "Abs Diff")]
)
def test_a_comparison_of_two_workloads_is_refused(tmp_path, header):
    write_saved_tables(tmp_path / "t", [("k", 1, 5)], ROWS)
    write_table(tmp_path / "t", "7.1_Stats.csv", header, [["427.97 (0.22%)"] * len(header)])
    with pytest.raises(UnknownFormat, match="compares two workloads"):
        read(tmp_path / "t")


def test_folders_without_tables_of_metrics_are_none(tmp_path):
    assert not is_table_folder(tmp_path)
    write_table(tmp_path, "0.1_Top_Kernels.csv", ("Kernel_Name",), [("k",)])
    write_table(tmp_path, "pmc_perf.csv", ("Metric",), [("k",)])
    assert not is_table_folder(tmp_path)
    with pytest.raises(NothingToRead):
        read_table_folder(tmp_path)
    assert not is_table_folder(tmp_path / "0.1_Top_Kernels.csv")


def test_a_file_that_is_no_table_names_itself(tmp_path):
    write_saved_tables(tmp_path / "t", [("k", 1, 5)], ROWS)
    (tmp_path / "t" / "7.1_Stats.csv").write_text('Metric,Avg\n"open', encoding="utf-8")
    with pytest.raises(DamagedFile, match=r"7\.1_Stats\.csv"):
        read(tmp_path / "t")


_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=130)


@settings(max_examples=25, deadline=None)
@given(name=_NAMES.map(str.strip).filter(lambda text: bool(text) and not text.endswith((".kd", "]", ")"))))
def test_any_name_that_is_cut_into_lines_is_whole_again(name):
    with tempfile.TemporaryDirectory() as folder:
        analysis = read_table_folder(write_saved_tables(Path(folder) / "t", [(name, 1, 5)], ROWS))
    assert analysis.kernels["kernel_name"].tolist() == [name]
    assert wrapped_name(name).count("\n") == (len(name) - 1) // 40


_CELLS = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["", "inf", "N/A", "-inf"]))


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.tuples(_CELLS, _CELLS), min_size=1, max_size=5))
def test_every_cell_comes_back_or_has_a_reason(rows):
    written = [(f"metric {number}", *cells) for number, cells in enumerate(rows)]
    with tempfile.TemporaryDirectory() as name:
        folder = write_saved_tables(Path(name) / "t", [("k", 1, 5)], ())
        write_table(folder, "7.1_Stats.csv", ("Metric", "Avg", "Max"), written)
        found = values(read_table_folder(folder))
    for metric, *cells in written:
        for value_name, cell in zip(("Avg", "Max"), cells, strict=True):
            value, absence = found[metric, value_name]
            if isinstance(cell, float):
                assert (value, absence) == (cell, None)
            else:
                assert math.isnan(value)
                assert absence == ("undefined" if "inf" in cell else "not_collected")


@settings(max_examples=25, deadline=None)
@given(cut=st.integers(0, 300), junk=st.binary(max_size=12))
def test_a_mutated_table_gives_rows_or_an_input_error(cut, junk):
    with tempfile.TemporaryDirectory() as name:
        folder = write_saved_tables(Path(name) / "t", [(LONG, 1, 5)], ROWS)
        for path in sorted(folder.iterdir()):
            content = path.read_bytes()
            path.write_bytes(content[:cut] + junk + content[cut + len(junk) :])
        with contextlib.suppress(InputError):
            read(folder)


@pytest.mark.conformance
@pytest.mark.parametrize("name", ["vcopy-MI350", "vcopy-MI300X-rocpd", "dispatch_0-MI300A"])
def test_every_cell_of_the_vendors_tables_is_found_again(shared, name):
    folder = shared / "data" / "counters" / "expected" / name / "per_kernel"
    analysis = read(folder)
    rows = analysis.metrics.astype(object)
    found = {
        (table, metric, value_name): value
        for table, metric, value_name, value in zip(
            rows["table_id"], rows["metric_name"], rows["value_name"], rows["value"], strict=True
        )
    }
    compared_count = 0
    for path in folder.glob("[2-9]*.csv"):
        table = path.name.partition("_")[0].removesuffix(".csv")
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                for column in ("Avg", "Min", "Max", "Peak", "Pct of Peak", "Value"):
                    if row.get(column) and "Metric" in row and row[column] not in ("inf", "N/A"):
                        assert found[table, row["Metric"], column] == float(row[column])
                        compared_count += 1
    assert compared_count > 200
    assert {str(each) for each in rows["kernel_name"].unique()} == {"vecCopy(double*, double*, double*, int, int)"}
