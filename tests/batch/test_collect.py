"""Gathered kernels: where values come from, what has a rate, which attempts of a batch are read."""

from __future__ import annotations

import csv
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from batch_runs import Bench, make_bench
from compute_files import Kernel, Workload, write_analysis, write_pass, write_sysinfo
from rocpd_files import write_counter_pass, write_small_trace

from rocktools.batch.collect import Gathered, GatherOptions, gather, keep_metrics
from rocktools.batch.collected_roofline import CollectedRooflineOptions, build_collected_roofline
from rocktools.batch.document import read_plan, render_plan
from rocktools.batch.gathered_tables import BATCH_KERNELS, BATCH_POINTS, NO_TRACE
from rocktools.batch.state import JobState, read_state, write_state
from rocktools.errors import InputError, NothingToRead, UsageError
from rocktools.frames import require_frame
from rocktools.replay.prove import Level

FUSION = "loop_fusion_3"  # of `write_small_trace`: 10, 30 and 50 ns
VALUES = {
    ("11.3.0", "Avg"): 6_000.0,
    ("11.3.5", "Avg"): 6_000.0,
    ("2.1.24", "Avg"): 2.0,  # over 1,000 ns: 2,000 B
    ("2.1.25", "Avg"): 1.0,
    ("7.1.2", "Avg"): 64.0,
}
MI355X = {"gpu_arch": "gfx950", "gpu_model": "MI355X", "num_xcd": 8, "cu_per_gpu": 256, "max_sclk": 2400}


def database(folder: Path, *names: str, version: str = "3.10.0", **workload) -> Path:
    kernels = tuple(Kernel(name=name, launches_ns=(1_000,), values=VALUES, points={"hbm": 2.0}) for name in names)
    facts = {"system": MI355X, "bench": {"HBMBw": 6000.0, "FP32Flops": 150_000.0}, **workload}
    return write_analysis(folder / "a.db", [Workload(name="w", kernels=kernels, **facts)], version=version)


def checked(*arguments, **options) -> Gathered:
    gathered = gather(arguments, GatherOptions(**options))
    require_frame(gathered.kernels, BATCH_KERNELS)
    require_frame(gathered.points, BATCH_POINTS)
    return gathered


def point(gathered: Gathered, level: str = "hbm", kernel: str | None = None) -> dict:
    rows = gathered.points[(gathered.points["level"] == level).to_numpy()].astype(object).to_dict("records")
    return next(row for row in rows if kernel in (None, row["kernel_name"]))


# Points and times.


def test_without_a_trace_a_point_has_an_intensity_and_no_rate(tmp_path):
    """6,000 FLOPs over 2,000 + 1,000 B; the 1,000 ns of the counter pass appear nowhere."""
    gathered = checked(database(tmp_path, FUSION))
    row = point(gathered)
    assert (row["compute_flop"], row["moved_bytes"], row["intensity_flop_per_byte"]) == (6_000, 3_000, 2.0)
    assert math.isnan(row["achieved_flop_per_s"])
    assert math.isnan(row["traced_mean_ns"])
    assert row["rate_absence"] == NO_TRACE
    assert (row["source"], row["evidence"]) == ("rocprof-compute", "inferred")
    assert row["tool_flop_per_byte"] == 2.0
    assert math.isnan(gathered.kernels.iloc[0]["fabric_bytes_per_s"])


def test_with_a_trace_rates_are_by_its_mean_launch(tmp_path):
    """(10 + 30 + 50) / 3 = 30 ns: 6,000 FLOPs are 200 GFLOP/s, 3,000 B are 100 GB/s."""
    gathered = checked(database(tmp_path, FUSION), traces=[write_small_trace(tmp_path / "t.db")])
    row = point(gathered)
    assert row["traced_mean_ns"] == 30
    assert (row["achieved_flop_per_s"], row["achieved_bytes_per_s"]) == (200e9, 100e9)
    assert row["time_source"] == "trace"
    kernel = gathered.kernels.iloc[0]
    assert (kernel["achieved_flop_per_s"], kernel["fabric_bytes_per_s"]) == (200e9, 100e9)
    assert gathered.is_simulated  # the trace says so


def test_a_kernel_that_is_in_no_trace_is_told(tmp_path):
    gathered = checked(database(tmp_path, FUSION, "other"), traces=[write_small_trace(tmp_path / "t.db")])
    assert gathered.kernels["kernel_name"].tolist() == [FUSION, "other"]
    assert point(gathered, kernel="other")["rate_absence"] == NO_TRACE
    found = [finding for finding in gathered.findings if finding.rule == "kernel-not-in-trace"]
    assert [(finding.where, finding.numbers["kernels_count"]) for finding in found] == [("other", 1)]


def test_counter_passes_are_no_trace(tmp_path):
    with pytest.raises(NothingToRead, match="counter passes run one at a time"):
        checked(database(tmp_path, FUSION), traces=[write_counter_pass(tmp_path / "p.db")])


def test_a_point_without_one_of_its_numbers_says_which(tmp_path):
    row = point(checked(database(tmp_path, FUSION)), "lds")
    assert row["absence"] == "lds_bytes: not_collected"
    assert math.isnan(row["moved_bytes"])
    assert math.isnan(row["intensity_flop_per_byte"])
    assert row["compute_flop"] == 6_000


def test_bytes_have_a_rate_where_flops_are_not_known(tmp_path):
    kernel = Kernel(name=FUSION, launches_ns=(1_000,), values={("16.3.9", "Avg"): 3.0})
    path = write_analysis(tmp_path / "a.db", [Workload(name="w", kernels=(kernel,))], version="3.10.0")
    row = point(checked(path, traces=[write_small_trace(tmp_path / "t.db")]), "l2")
    assert row["achieved_bytes_per_s"] == 100e9
    assert math.isnan(row["achieved_flop_per_s"])
    assert row["absence"] == "total_flop: not_collected"


def test_formats_are_told_with_their_shares(tmp_path):
    values = {**VALUES, ("4.1.1", "Value"): 3.0, ("2.1.5", "Avg"): 1.0}
    kernel = Kernel(name=FUSION, launches_ns=(1_000,), values=values)
    path = write_analysis(tmp_path / "a.db", [Workload(name="w", kernels=(kernel,))], version="3.10.0")
    assert checked(path).kernels.iloc[0]["mix"] == "f32 vector 75.0 %, f32 matrix 25.0 %"


def test_what_the_tools_roofline_has_at_l2_is_of_one_kind_of_version_in_a_table(tmp_path):
    for version in ("3.5.0", "3.8.0"):
        kernel = Kernel(name=f"k {version}", values=VALUES, points={"l2": 2.0, "hbm": 4.0})
        write_analysis(tmp_path / f"{version}.db", [Workload(name=version, kernels=(kernel,))], version=version)
    gathered = checked(tmp_path)
    assert math.isnan(point(gathered, "l2", "k 3.5.0")["tool_flop_per_byte"])
    assert point(gathered, "l2", "k 3.8.0")["tool_flop_per_byte"] == 2.0
    assert point(gathered, "hbm", "k 3.5.0")["tool_flop_per_byte"] == 4.0


# What is read, and what is not.


def test_only_kernels_that_match(tmp_path):
    path = database(tmp_path, FUSION, "gemm")
    assert checked(path, match="^ge").kernels["kernel_name"].tolist() == ["gemm"]
    with pytest.raises(NothingToRead, match=r"no kernel has a match of '\^x'"):
        checked(path, match="^x")
    with pytest.raises(UsageError, match="is not a regex"):
        checked(path, match="(")


def test_the_tools_own_values_are_found_by_name_and_id(tmp_path):
    gathered = checked(database(tmp_path, FUSION, "gemm"), match="gemm")
    by_name = keep_metrics(gathered, "^L2-Fabric Read BW$")
    assert by_name[["kernel_name", "value"]].astype(object).values.tolist() == [["gemm", 2.0]]
    assert keep_metrics(gathered, r"2\.1\.24").equals(by_name)
    assert len(keep_metrics(gathered, None)) == len(VALUES)
    with pytest.raises(NothingToRead, match="no value of the tool"):
        keep_metrics(gathered, "nothing")


def test_a_damaged_result_is_an_input_error(tmp_path):
    path = database(tmp_path, FUSION)
    path.write_bytes(path.read_bytes()[:5_000])
    with pytest.raises(InputError):
        checked(path)


# Batches under the stand-in.


@pytest.fixture(scope="module", params=["3.3", "3.7"])
def batch(request, tmp_path_factory) -> Bench:
    bench = make_bench(tmp_path_factory.mktemp("batch"), ["k1", "k2"], version=request.param)
    with pytest.MonkeyPatch.context() as patch:
        assert bench(patch, passes=2) == 0, bench.state
    return bench


@pytest.fixture
def copied(batch, tmp_path) -> Path:
    return Path(shutil.copytree(batch.run, tmp_path / "run"))


def test_a_batch_gives_a_row_for_each_kernel_with_proof_and_version(batch):
    gathered = checked(batch.run)
    rows = gathered.kernels.astype(object)
    assert sorted(rows["kernel_name"]) == ["k1", "k2"]
    assert set(rows["proof"]) == {"identical"}
    assert set(rows["tool_version"]) == {read_state(batch.run).version}
    assert set(rows["workload"]) == {"k1", "k2"}
    assert [path.name for path in gathered.ceilings] == ["roofline.csv"]


def test_values_of_a_batch_are_sums_over_its_pass_files(batch):
    """SQ_WAVES of the first launch that was counted, found in the files with csv alone."""
    gathered = checked(batch.run)
    waves = gathered.quantities[(gathered.quantities["quantity"] == "waves").to_numpy()]
    place = batch.run / "kernels" / "k1" / "attempt-1" / "workloads" / "k1" / "MI355X"
    found = set()
    for path in [*place.glob("results_pmc_perf_*.csv"), *place.glob("pmc_perf.csv")]:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                if "SQ_WAVES" in row:
                    found.add(float(row["SQ_WAVES"]))
                elif row.get("Counter_Name") == "SQ_WAVES":
                    found.add(float(row["Counter_Value"]))
    assert len(found) == 1
    assert waves["value"].tolist() == [*found, *found]
    assert set(waves["source"]) == {"own formula"}


def test_the_time_in_the_plan_gives_rates_and_the_order(copied):
    path = copied / "plan.yaml"
    plan = read_plan(path)
    timed = [replace(kernel, total_ns=2_000 * (n + 1), dispatches_count=2) for n, kernel in enumerate(plan.kernels)]
    path.write_text(render_plan(replace(plan, kernels=tuple(timed)), path), encoding="utf-8")
    gathered = checked(copied)
    assert gathered.kernels["kernel_name"].tolist() == ["k2", "k1"]
    assert gathered.kernels["traced_mean_ns"].tolist() == [2_000, 1_000]
    assert set(gathered.kernels["time_source"]) == {"trace of the plan"}
    row = gathered.kernels.iloc[1]
    moved = row["fabric_read_bytes"] + row["fabric_write_bytes"]
    assert row["fabric_bytes_per_s"] == pytest.approx(moved / 1_000 * 1e9)


def test_an_unproven_replay_is_told(copied):
    path = copied / "plan.yaml"
    plan = read_plan(path)
    first = replace(plan.kernels[0], level=Level.UNPROVEN)
    path.write_text(render_plan(replace(plan, kernels=(first, *plan.kernels[1:])), path), encoding="utf-8")
    gathered = checked(copied)
    assert set(gathered.kernels["proof"]) == {"unproven", "identical"}
    assert [finding.rule for finding in gathered.findings].count("replay-unproven") == 1


def test_a_kernel_whose_last_attempt_failed_is_named_and_not_read(copied):
    state = read_state(copied)
    job = state.job("k2")
    failed = replace(job.last, state=JobState.FAILED, reason="kernel-missing-in-pass", what="pass 3 has no row of k2")
    write_state(copied, state.with_attempt("k2", failed))
    gathered = checked(copied)
    assert gathered.kernels["kernel_name"].tolist() == ["k1", "k2"] or gathered.kernels["kernel_name"].tolist() == [
        "k1"
    ]
    own = gathered.quantities[(gathered.quantities["source"] == "own formula").to_numpy()]
    assert set(own["kernel_name"]) == {"k1"}
    told = [finding for finding in gathered.findings if finding.rule == "kernel-without-results"]
    assert len(told) == 1
    assert "kernel-missing-in-pass: pass 3 has no row of k2" in told[0].message


def test_a_folder_of_batches_is_read_batch_by_batch(copied):
    """The failed attempt of a batch in it is left alone, and a workload beside it is read."""
    state = read_state(copied)
    failed = replace(state.job("k2").last, state=JobState.FAILED, reason="r", what="w")
    write_state(copied, state.with_attempt("k2", failed))
    alone = {row["kernel_name"] for row in checked(copied.parent).kernels.astype(object).to_dict("records")}
    assert alone == {row["kernel_name"] for row in checked(copied).kernels.astype(object).to_dict("records")}
    place = copied.parent / "workloads" / "w" / "MI355X"
    write_sysinfo(place, **MI355X)
    write_pass(place, 0, {"SQ_WAVES": (4.0, 4.0)}, kernel="beside")
    gathered = checked(copied.parent)
    own = gathered.quantities[(gathered.quantities["source"] == "own formula").to_numpy()]
    assert set(own["kernel_name"]) == {"k1", "beside"}


def test_a_batch_without_a_good_kernel_says_so(copied):
    state = read_state(copied)
    for name in ("k1", "k2", "analysis"):
        failed = replace(state.job(name).last, state=JobState.FAILED)
        state = state.with_attempt(name, failed)
    write_state(copied, state)
    with pytest.raises(NothingToRead, match="none of its 2 kernels has results"):
        checked(copied)


# The roofline.


def test_a_roofline_is_held_against_the_ceilings_that_were_measured_with_it(tmp_path):
    place = tmp_path / "workloads" / "w" / "MI355X"
    write_sysinfo(place, **MI355X)
    silent = [f"SQ_INSTS_VALU_{verb}_F{bits}" for verb in ("ADD", "MUL", "FMA", "TRANS") for bits in (16, 32, 64)]
    silent += [f"SQ_INSTS_VALU_MFMA_MOPS_{name}" for name in ("F8", "F6F4", "BF16", "F16", "F32", "F64")]
    silent += [f"TCC_EA0_{name}_sum" for name in ("RDREQ_32B", "RDREQ_64B", "WRREQ", "WRREQ_64B")]
    busy = {"SQ_WAVES": 8.0, "SQ_INSTS_VALU_FMA_F32": 100.0, "TCC_EA0_RDREQ_sum": 50.0, "TCC_EA0_RDREQ_128B_sum": 50.0}
    counters = {**dict.fromkeys(silent, 0.0), **busy}
    write_pass(place, 0, {name: (value, value) for name, value in counters.items()}, kernel=FUSION)
    (place / "roofline.csv").write_text("device,HBMBw,FP32Flops\n0,4000,120000\n", encoding="utf-8")
    gathered = checked(tmp_path, traces=[write_small_trace(tmp_path / "t.db")])
    built = build_collected_roofline(gathered, CollectedRooflineOptions())
    row = built.roofline.points.iloc[0]
    # 100 FMA of 64 lanes are 12,800 FLOPs, 50 requests are 6,400 B, in 30 ns.
    assert (row["compute_flop"], row["moved_bytes"], row["union_ns"]) == (12_800, 6_400, 30)
    assert row["intensity_flop_per_byte"] == 2.0
    assert row["bandwidth_bytes_per_s"] == 4_000e9
    assert row["peak_flop_per_s"] == pytest.approx(120_000e9)
    assert "MI355X" in built.roofline.device.label


def test_formats_that_were_rates_are_scaled_to_the_flops_that_were_counted(tmp_path):
    """6,000 FLOPs were counted; rates of 3 and 3.6 GFLOP/s over 1,000 ns are 6,600: each 6,000 / 6,600 of that."""
    values = {**VALUES, ("4.1.1", "Value"): 3.0, ("2.1.5", "Avg"): 3.6}
    kernel = Kernel(name=FUSION, launches_ns=(1_000,), values=values)
    database = write_analysis(tmp_path / "a.db", [Workload(name="w", kernels=(kernel,), system=MI355X)])
    gathered = checked(database, traces=[write_small_trace(tmp_path / "t.db")])
    row = build_collected_roofline(gathered, CollectedRooflineOptions()).roofline.points.iloc[0]
    assert row["compute_flop"] == pytest.approx(6_000, abs=1)
    assert row["mix"] == "f32 matrix 54.5 %, f32 vector 45.5 %"


def test_kernels_whose_formats_nobody_counted_are_left_out_and_told(tmp_path):
    kernels = tuple(
        Kernel(name=name, launches_ns=(1_000,), values={**VALUES, **more})
        for name, more in ((FUSION, {("4.1.1", "Value"): 6.0}), ("Cijk_Ailk_Bljk_BBS", {}))
    )
    database = write_analysis(tmp_path / "a.db", [Workload(name="w", kernels=kernels, system=MI355X)])
    gathered = checked(database, traces=[write_small_trace(tmp_path / "t.db")])
    built = build_collected_roofline(gathered, CollectedRooflineOptions())
    assert built.roofline.points["name"].tolist() == [FUSION]
    assert [(each.rule, each.where) for each in built.findings][-1] == ("formats-not-counted", "Cijk_Ailk_Bljk_BBS")


def test_a_roofline_without_times_is_refused_with_what_to_do(tmp_path):
    gathered = checked(database(tmp_path, FUSION))
    with pytest.raises(NothingToRead, match="no kernel has FLOPs, bytes and a time") as caught:
        build_collected_roofline(gathered, CollectedRooflineOptions())
    assert "--trace" in (caught.value.hint or "")


# The real database.


@pytest.mark.conformance
def test_the_real_database_gives_seven_rows_and_the_tools_intensities(shared):
    gathered = checked(shared / "data" / "rocpd" / "rocprof-compute-analysis.db")
    assert len(gathered.kernels) == 7
    assert set(gathered.kernels["tool_version"]) == {"3.5.0"}
    rows = gathered.points[(gathered.points["level"] == "hbm").to_numpy()].astype({"kernel_name": str})
    # Kernels of one launch: a mean of ratios is the ratio, so that both are the same.
    single = {"generate_sobol": 0.498687384, "generate_xorwow": 0.303277903}
    for name, expected in single.items():
        row = rows[rows["kernel_name"].str.contains(name).to_numpy()].iloc[0]
        assert row["intensity_flop_per_byte"] == pytest.approx(expected, rel=1e-8)
        assert row["tool_flop_per_byte"] == pytest.approx(expected, rel=1e-8)
    assert gathered.points["rate_absence"].notna().all()
    assert len(keep_metrics(gathered, None)) == 48_405 + 6_915


# Several batches at once.


@pytest.fixture(scope="module")
def two_batches(tmp_path_factory) -> tuple[Path, Path]:
    """The same kernel under 3.4, which leaves tables, and under 3.10, which leaves a database."""
    runs = []
    for version in ("3.4", "3.10"):
        folder = tmp_path_factory.mktemp(version)
        bench = make_bench(folder, ["k1"], version=version)
        with pytest.MonkeyPatch.context() as patch:
            assert bench(patch, "--no-peaks", passes=2) == 0
        runs.append(bench.run)
    return runs[0], runs[1]


def test_a_batch_states_the_version_of_tables_that_do_not(two_batches):
    """3.4 writes folders of CSV files that say nothing of it."""
    gathered = checked(two_batches[0])
    assert gathered.kernels["tool_version"].tolist() == ["3.4.0"]


@pytest.mark.parametrize("is_turned", [False, True])
def test_workloads_of_one_name_in_two_batches_are_told_apart_and_never_mixed(two_batches, is_turned):
    gathered = checked(*(reversed(two_batches) if is_turned else two_batches))
    rows = gathered.kernels.astype(object).to_dict("records")
    by_label = {row["workload"]: row["tool_version"] for row in rows}
    old, new = (f"{run.parent.name}/{run.name}/k1" for run in two_batches)
    assert by_label == {old: "3.4.0", new: "3.10.0"}
    assert {row["proof"] for row in rows} == {"identical"}
    for run, label in zip(two_batches, (old, new), strict=True):
        own = checked(run).quantities
        together = gathered.quantities[(gathered.quantities["workload"] == label).to_numpy()]
        assert together["tool_value"].dropna().tolist() == own["tool_value"].dropna().tolist()


def test_the_plan_of_each_batch_goes_with_its_own_kernels(two_batches, tmp_path):
    copies = [shutil.copytree(run, tmp_path / name / "batch") for run, name in zip(two_batches, "ab", strict=True)]
    path = copies[1] / "plan.yaml"
    plan = read_plan(path)
    timed = replace(plan.kernels[0], total_ns=600, dispatches_count=2)
    path.write_text(render_plan(replace(plan, kernels=(timed,)), path), encoding="utf-8")
    gathered = checked(*copies)
    times = dict(zip(gathered.kernels["workload"], gathered.kernels["traced_mean_ns"], strict=True))
    assert times["b/batch/k1"] == 300
    assert math.isnan(times["a/batch/k1"])
