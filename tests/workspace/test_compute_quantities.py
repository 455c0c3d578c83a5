"""Our quantities beside rocprof-compute's: the vendor's samples with a reason for each difference, and made files."""

from __future__ import annotations

import csv
import math

import pytest
from compute_files import (
    Kernel,
    Workload,
    write_analysis,
    write_pass,
    write_saved_tables,
    write_sysinfo,
    write_view_files,
)
from vendor_rows import ROWS

from rocktools.errors import InputError, NothingToRead, UsageError
from rocktools.frames import require_frame
from rocktools.sources.compute_analysis.tool_version import parse_tool_version
from rocktools.workspace.compute_quantities import (
    COMPUTE_QUANTITIES,
    build_compute_quantities,
    unit_of_quantity,
)
from rocktools.workspace.compute_results import read_compute_results
from rocktools.workspace.tool_eras import refuse_comparison
from rocktools.workspace.tool_metrics import TOOL_METRICS, Kind, plain_name

OWN, TOOL = "own formula", "rocprof-compute"
HALF = "before 3.5 the tool counted half of the bytes that gfx950 reads"


def build(*paths, **options):
    built = build_compute_quantities(read_compute_results(paths, **options))
    require_frame(built.frame, COMPUTE_QUANTITIES)
    return built


def rows_of(built, workload=None) -> dict[str, dict]:
    """Quantity -> its row, of the one kernel of a workload."""
    frame = built.frame if workload is None else built.frame[(built.frame["workload"] == workload).to_numpy()]
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    assert len({(row["workload"], row["kernel_name"]) for row in rows}) == 1
    return {row["quantity"]: row for row in rows}


def read_rate(value: float | None, **options) -> Workload:
    """A workload of one kernel with a read rate."""
    return Workload(
        name="w", kernels=(Kernel(name="k", launches_ns=(1_000,), values={("2.1.24", "Avg"): value}),), **options
    )


# What the tool calls as we do.


def test_metrics_and_quantities_are_paired_as_the_vendors_tables_prove_it():
    """`vendor_rows` is a transcription of its own, held to six digits against the vendor's tables."""
    scale = {Kind.PERCENT: "%", Kind.RATE: "/t", Kind.COUNT: "", Kind.PLAIN: "", Kind.QUOTIENT: ""}
    checked = 0
    for metric in TOOL_METRICS:
        rows = {plain_name(name): how for name, how in ROWS.get(metric.table_id, {}).items()}
        how = rows.get(plain_name(metric.name))
        if how is None or isinstance(how, str) or metric.kind is Kind.SHARE:
            continue
        assert how == (metric.quantity, scale[metric.kind]), metric
        checked += 1
    assert checked > 45


def test_units_of_quantities_are_those_of_the_formulas():
    from rocktools.counters.formulas import load_formulas

    units = {
        name: formula.unit for arch in ("gfx942", "gfx950") for name, formula in load_formulas(arch).by_quantity.items()
    }
    for metric in TOOL_METRICS:
        if metric.quantity in units:
            assert unit_of_quantity(metric.quantity) == units[metric.quantity], metric.quantity


# Values of the tool where there are no raw counters.


def test_a_rate_of_one_launch_is_turned_back_into_its_bytes(tmp_path):
    """12.5 GB/s over 1,000 ns are 12,500 B; no time of the pass is left in it."""
    row = rows_of(build(write_analysis(tmp_path / "a.db", [read_rate(12.5)])))["fabric_read_bytes"]
    assert row["value"] == row["tool_value"] == 12_500
    assert (row["source"], row["evidence"], row["unit"]) == (TOOL, "inferred", "B")
    assert row["tool_metric"] == "2.1 L2-Fabric Read BW"
    assert row["tool_version"] == "3.5.0"


def test_a_count_is_taken_before_a_rate_and_needs_no_time(tmp_path):
    values = {("11.3.0", "Avg"): 4096.0, ("2.1.0", "Avg"): 1.0, ("2.1.11", "Avg"): 25.0}
    workload = Workload(name="w", kernels=(Kernel(name="k", values=values),))
    rows = rows_of(build(write_analysis(tmp_path / "a.db", [workload])))
    assert (rows["total_flop"]["value"], rows["total_flop"]["evidence"]) == (4096, "counter")
    assert rows["valu_utilisation"]["value"] == 0.25
    assert rows["valu_utilisation"]["evidence"] == "inferred"


def test_a_missing_value_of_the_tool_is_no_value(tmp_path):
    built = build(write_analysis(tmp_path / "a.db", [Workload(name="w", kernels=(
        Kernel(name="k", values={("2.1.24", "Avg"): None, ("7.1.2", "Avg"): 4}),))]))  # fmt: skip
    assert set(rows_of(built)) == {"waves"}


def test_rates_of_tables_without_a_time_stay_unknown(tmp_path):
    write_saved_tables(tmp_path / "t", [("k", 1, math.nan)], [("L2-Fabric Read BW", 5.0, "Gb/s", "", "")])
    write_saved_tables(tmp_path / "u", [("k", 1, 10.0)], [("L2-Fabric Write BW", 5.0, "Gb/s", "", "")])
    assert len(build(tmp_path / "t").frame) == 0
    assert rows_of(build(tmp_path / "u"))["fabric_write_bytes"]["value"] == 50


def test_without_a_list_of_kernels_the_tools_own_time_turns_rates_back(tmp_path):
    values = {("2.1.25", "Avg"): 2.5, ("7.2.0", "Avg"): 2_000.0}
    workload = Workload(name="w", kernels=(Kernel(name="k", launches_ns=(1_000,), values=values),))
    folder = write_view_files(write_analysis(tmp_path / "a.db", [workload]), tmp_path / "views")
    assert rows_of(build(folder))["fabric_write_bytes"]["value"] == 2_500
    (folder / "kernel.csv").unlink()
    assert rows_of(build(folder))["fabric_write_bytes"]["value"] == 5_000


@pytest.mark.parametrize("version, has_value", [("3.4.0", False), ("3.5.0", True)])
def test_half_of_the_bytes_that_gfx950_reads_is_shown_and_not_used(tmp_path, version, has_value):
    row = rows_of(build(write_analysis(tmp_path / "a.db", [read_rate(12.5)], version=version)))["fabric_read_bytes"]
    assert row["tool_value"] == 12_500
    assert (row["value"] is not None) == has_value
    if not has_value:
        assert row["absence"] is not None
    assert has_value or row["source"] is None


def test_shares_above_a_peak_are_warned_of(tmp_path):
    workload = Workload(
        name="w",
        kernels=(Kernel(name="k", values={("2.1.11", "Avg"): 104.5, ("2.1.24", "Pct of Peak"): 207.0}),
                 Kernel(name="fine", values={("2.1.11", "Avg"): 100.0})),
    )  # fmt: skip
    warned = [
        each for each in build(write_analysis(tmp_path / "a.db", [workload])).findings if each.rule == "above-peak"
    ]
    assert [(each.where, each.numbers["metrics_count"], each.numbers["largest_ratio"]) for each in warned] == [
        ("w: k", 2, 2.07)
    ]


# Ours and the tool's together.


def counted(folder, *, waves=8.0, reads=10.0, name="w", kernel="k", **facts):
    """A workload with raw counters of one pass."""
    place = folder / "workloads" / name / "MI355X"
    write_sysinfo(place, **{"gpu_arch": "gfx950", "num_xcd": 8, "cu_per_gpu": 256, "simd_per_cu": 4, **facts})
    write_pass(
        place,
        0,
        {
            "SQ_WAVES": (waves, waves),
            "TCC_EA0_RDREQ_sum": (reads, reads),
            "TCC_EA0_RDREQ_32B_sum": (0.0, 0.0),
            "TCC_EA0_RDREQ_64B_sum": (0.0, 0.0),
            "TCC_EA0_RDREQ_128B_sum": (reads, reads),
        },
        kernel=kernel,
    )
    return place


def test_ours_goes_first_and_the_tools_stands_beside_it(tmp_path):
    counted(tmp_path)
    write_analysis(
        tmp_path / "analysis.db",
        [Workload(name="w", kernels=(Kernel(name="k", launches_ns=(1_000,), values={
            ("7.1.2", "Avg"): 8.0, ("2.1.24", "Avg"): 2.0}),))],
        version="3.10.0", schema="2.0.0",
    )  # fmt: skip
    rows = rows_of(build(tmp_path))
    assert (rows["waves"]["value"], rows["waves"]["tool_value"], rows["waves"]["reason"]) == (8, 8, None)
    reads = rows["fabric_read_bytes"]
    assert (reads["value"], reads["source"], reads["evidence"]) == (1_280, OWN, "counter")
    assert reads["tool_value"] == 2_000
    assert reads["difference_ratio"] == pytest.approx(2_000 / 1_280 - 1)
    assert reads["reason"] == "not known"
    assert reads["tool_version"] == "3.10.0"


def test_a_difference_without_a_known_reason_is_found(tmp_path):
    counted(tmp_path)
    write_analysis(tmp_path / "a.db", [Workload(name="w", kernels=(Kernel(name="k", values={("7.1.2", "Avg"): 9.0}),))])
    found = [each for each in build(tmp_path).findings if each.rule == "tool-differs"]
    assert len(found) == 1
    assert "12.5 % of waves" in found[0].message


def test_tables_without_a_workloads_name_are_paired_where_a_kernel_is_alone_on_both_sides(tmp_path):
    counted(tmp_path / "raw", name="mine")
    rows = [("L2-Fabric Read BW", 1.0, "Gb/s", "", "")]
    write_saved_tables(tmp_path / "tables", [("k", 2, 1_000.0)], rows)
    found = rows_of(build(tmp_path))
    assert (found["waves"]["workload"], found["fabric_read_bytes"]["tool_value"]) == ("mine", 1_000)
    write_saved_tables(tmp_path / "others", [("k", 2, 1_000.0)], rows)
    assert set(build(tmp_path).frame["workload"]) == {"mine", "tables", "others"}


@pytest.mark.parametrize("arch, named, is_paired", [("gfx950", "told", True), ("gfx942", "told", False),
                                                    ("gfx950", "another", False)])  # fmt: skip
def test_databases_are_paired_by_the_name_that_the_tool_was_told(tmp_path, arch, named, is_paired):
    """`__amd_rocclr_copyBuffer` is in every job: a name of a kernel alone says nothing."""
    counted(tmp_path / "raw", name="folder", workload_name="told")
    kernels = (Kernel(name="k", values={("7.1.2", "Avg"): 8.0}),)
    write_analysis(tmp_path / "a.db", [Workload(name=named, kernels=kernels, system={"gpu_arch": arch})])
    frame = build(tmp_path).frame
    waves = frame[(frame["quantity"] == "waves").to_numpy()]
    assert set(waves["workload"]) == ({"folder"} if is_paired else {"folder", named})


def test_tables_in_the_folder_of_a_workload_are_of_that_workload(tmp_path):
    place = counted(tmp_path)
    counted(tmp_path, name="other")
    write_saved_tables(place / "tables", [("k", 2, 1_000.0)], [("L2-Fabric Read BW", 1.0, "Gb/s", "", "")])
    built = build(tmp_path)
    assert rows_of(built, "w")["fabric_read_bytes"]["tool_value"] == 1_000
    assert rows_of(built, "other")["fabric_read_bytes"]["tool_value"] is None


# Versions.


def lines(version: str, name: str) -> Workload:
    kernel = Kernel(name=f"k_{name}", values={("11.3.0", "Avg"): 512.0}, points={"l1": 1.0, "l2": 2.0, "hbm": 4.0})
    return Workload(name=name, kernels=(kernel,))


def test_intensities_of_both_sizes_of_lines_never_stand_in_one_column(tmp_path):
    write_analysis(tmp_path / "old.db", [lines("3.5.0", "old")], version="3.5.0")
    write_analysis(tmp_path / "new.db", [lines("3.7.0", "new")], version="3.7.0", schema="2.0.0")
    built = build(tmp_path)
    old, new = rows_of(built, "old"), rows_of(built, "new")
    for quantity in ("l2_intensity", "vl1d_intensity"):
        assert old[quantity]["value"] is None
        assert old[quantity]["absence"] == "ambiguous"
        assert old[quantity]["tool_value"] is not None
        assert new[quantity]["value"] is not None
    assert old["fabric_intensity"]["value"] == new["fabric_intensity"]["value"] == 4.0
    mixed = [each for each in built.findings if each.rule == "tool-eras-mixed"]
    assert [dict(each.numbers) for each in mixed] == [{"kernels_count": 1, "values_count": 2}]
    assert built.hidden == {("old", "k_old")}


@pytest.mark.parametrize("versions", [("3.5.0", "3.6.0"), ("3.7.0", "3.10.0")])
def test_intensities_of_versions_that_count_alike_stand_together(tmp_path, versions):
    for version in versions:
        write_analysis(tmp_path / f"{version}.db", [lines(version, version)], version=version)
    built = build(tmp_path)
    assert not [each for each in built.findings if each.rule == "tool-eras-mixed"]
    is_l2 = (built.frame["quantity"] == "l2_intensity").to_numpy()
    assert built.frame[is_l2]["value"].tolist() == [2.0, 2.0]


def test_comparing_is_refused_where_versions_or_sources_mean_different_things():
    old, also_old, new = (parse_tool_version(text, said_by="a test") for text in ("3.5.0", "3.6.0", "3.8.0"))
    assert refuse_comparison("l2_intensity", (TOOL, TOOL), (old, also_old)) is None
    assert "3.5.0 and 3.8.0" in (refuse_comparison("l2_intensity", (TOOL, TOOL), (old, new)) or "")
    assert refuse_comparison("l2_hit_ratio", (TOOL, TOOL), (old, new)) is not None
    assert refuse_comparison("waves", (TOOL, TOOL), (old, new)) is None
    assert refuse_comparison("l2_intensity", (OWN, OWN), (old, new)) is None
    assert refuse_comparison("waves", (OWN, TOOL), (new, new)) is not None


# What is read.


def test_what_was_noted_goes_before_the_layout_and_the_option_before_nothing_known(tmp_path):
    place = counted(tmp_path)
    assert read_compute_results([tmp_path]).workloads[0].version.label == "3.6 or later"
    assert read_compute_results([tmp_path], tool_version="3.9").workloads[0].version.label == "3.9"
    noted = read_compute_results([tmp_path], find_version=lambda path: "3.8.1" if path == place else None)
    assert noted.workloads[0].version.text == "3.8.1"
    with pytest.raises(UsageError, match="is no version"):
        read_compute_results([tmp_path], tool_version="new")


def test_of_several_results_a_damaged_one_is_left_out_with_a_fault(tmp_path):
    counted(tmp_path)
    broken = counted(tmp_path, name="broken")
    (broken / "results_pmc_perf_0.csv").write_text("Counter_Name,Counter_Value\n", encoding="utf-8")
    results = read_compute_results([tmp_path])
    assert [workload.label for workload in results.workloads] == ["w"]
    assert [str(each.severity) for each in results.findings if each.rule == "results-left-out"] == ["fault"]
    with pytest.raises(InputError):
        read_compute_results([broken])


@pytest.mark.parametrize("make", [lambda path: path / "none", lambda path: path])
def test_what_has_no_result_is_refused(tmp_path, make):
    with pytest.raises((InputError, NothingToRead)):
        read_compute_results([make(tmp_path)])


# The vendor's samples.

FOLDERS = ("vcopy-MI300X-rocpd", "dispatch_0-MI300A", "vcopy-MI350")


@pytest.fixture(scope="module")
def samples(shared):
    found = {}
    for name in FOLDERS:
        counters = shared / "data" / "counters"
        found[name] = build(counters / "workloads" / name, counters / "expected" / name / "per_kernel")
    return found


@pytest.mark.conformance
@pytest.mark.parametrize("name", FOLDERS)
def test_every_value_of_the_vendor_is_ours_or_differs_for_a_known_reason(samples, name):
    frame = samples[name].frame
    both = frame[(frame["tool_value"].notna() & (frame["source"] == OWN)).to_numpy()]
    assert len(both) > 12
    is_equal = (both["tool_value"] - both["value"]).abs() <= 1e-4 * both["value"].abs()
    assert (is_equal | both["reason"].notna()).all()
    assert not (both["reason"] == "not known").any()
    assert int(is_equal.sum()) > 10


@pytest.mark.conformance
@pytest.mark.parametrize("name", FOLDERS)
def test_values_of_the_vendor_are_those_of_its_files(shared, samples, name):
    """Table 2.1 read with csv alone; percent as ratios, rates times 'Kernel Time' of table 7.2."""
    folder = shared / "data" / "counters" / "expected" / name / "per_kernel"
    cells = {}
    for table in ("2.1_System_Speed-of-Light", "7.2_Wavefront_Runtime_Stats"):
        with (folder / f"{table}.csv").open(encoding="utf-8", newline="") as stream:
            cells |= {row["Metric"]: row["Avg"] for row in csv.DictReader(stream)}
    time_ns = float(cells["Kernel Time"])
    rows = rows_of(samples[name])
    assert rows["l2_hit_ratio"]["tool_value"] == float(cells["L2 Cache Hit Rate"]) / 100
    assert rows["fabric_write_bytes"]["tool_value"] == pytest.approx(float(cells["L2-Fabric Write BW"]) * time_ns)
    assert rows["wave_cycles"]["tool_value"] == float(cells["Wave Cycles"])
    if name != "vcopy-MI350":  # sysinfo.csv has no clock there
        assert rows["instructions_per_cycle"]["tool_value"] == float(cells["IPC"])


@pytest.mark.conformance
def test_bytes_that_were_read_on_mi350_are_the_vendors_half_which_is_not_used(samples):
    """8 MiB were read; the vendor's rate over its time is half of that."""
    row = rows_of(samples["vcopy-MI350"])["fabric_read_bytes"]
    assert row["tool_value"] == pytest.approx(8 * 2**20 / 2, rel=0.02)
    assert (row["value"], row["absence"]) == (None, "not_collected")
    assert HALF in row["reason"]


@pytest.mark.conformance
def test_utilisations_of_mi350_are_not_used_since_the_vendor_took_twice_the_dies(samples):
    rows = rows_of(samples["vcopy-MI350"])
    cycles = rows["elapsed_cycles"]
    assert cycles["tool_value"] / cycles["value"] == pytest.approx(4 / 8)
    assert "number of dies" in cycles["reason"]
    assert rows["valu_utilisation"]["value"] is None
    assert rows["valu_utilisation"]["tool_value"] == pytest.approx(0.0903456)


@pytest.mark.conformance
def test_the_real_analysis_database_gives_what_it_counted(shared):
    built = build(shared / "data" / "rocpd" / "rocprof-compute-analysis.db")
    frame = built.frame.astype({"kernel_name": str, "quantity": str})
    assert frame["kernel_name"].nunique() == 7
    sobol = frame[frame["kernel_name"].str.contains("generate_sobol").to_numpy()].set_index("quantity")
    # One launch of 8,960 ns: 4,194,304 FLOPs (1,048,576 work-items x 4) over 4,194,304 x 2.0052 bytes.
    assert sobol.at["total_flop", "value"] == 4_194_304
    moved = sobol.at["fabric_read_bytes", "value"] + sobol.at["fabric_write_bytes", "value"]
    assert 4_194_304 / moved == pytest.approx(sobol.at["fabric_intensity", "tool_value"])
