"""Plans and rows of real and made workload folders."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.capture.compute_checks import (
    Expected,
    check_launches,
    check_numbers,
    check_passes,
    find_launches,
    judge_pass,
)
from rocktools.capture.compute_rows import (
    clean_kernel_name,
    read_planned_passes,
    read_result_file,
    read_workload_rows,
)
from rocktools.capture.compute_versions import Layout
from rocktools.errors import DamagedFile

LONG = (
    "GPU_ID,Dispatch_ID,Kernel_Name,Start_Timestamp,End_Timestamp,Counter_Name,Counter_Value\n"
    '2,7,"f(int, float) [clone .kd]",100,110,SQ_WAVES,64.0\n'
    '2,7,"f(int, float) [clone .kd]",100,110,SQ_INSTS,\n'
    '2,8,"f(int, float) [clone .kd]",200,215,SQ_WAVES,64.0\n'
    "2,9,g,300,400,SQ_WAVES,nan\n"
)
WIDE = (
    "Dispatch_ID,GPU_ID,Grid_Size,SGPR,PID,Kernel_Name,Kernel_ID,SQ_WAVES,Kernel_ID_1,TCC_HIT[17],Start_Timestamp,End_Timestamp\n"
    "0,2,64,16,1,f,12,64,12,5,100,110\n"
    "1,2,64,16,1,f,12,64,12,,200,230\n"
)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_long_file_has_launches_by_counter(tmp_path):
    file = read_result_file(write(tmp_path / "pmc_perf.csv", LONG))
    assert file.is_long
    assert set(file.kernels) == {"f(int, float)", "g"}
    rows = file.kernels["f(int, float)"]
    assert dict(rows.counted) == {"SQ_WAVES": {"7", "8"}}
    assert dict(rows.empty) == {"SQ_INSTS": {"7"}}
    assert rows.total_ns == 10 + 15
    assert dict(file.kernels["g"].counted) == {}
    assert dict(file.kernels["g"].empty) == {"SQ_WAVES": {"9"}}


def test_a_wide_file_has_launches_by_column_and_knows_what_is_no_counter(tmp_path):
    file = read_result_file(write(tmp_path / "pmc_perf.csv", WIDE))
    assert not file.is_long
    assert file.columns == {"SQ_WAVES", "TCC_HIT[17]"}
    rows = file.kernels["f"]
    assert dict(rows.counted) == {"SQ_WAVES": {"0", "1"}, "TCC_HIT[17]": {"0"}}
    assert dict(rows.empty) == {"TCC_HIT[17]": {"1"}}
    assert rows.total_ns == 10 + 30


def test_a_packed_file_reads_as_a_plain_one(tmp_path):
    plain = read_result_file(write(tmp_path / "results_pmc_perf_0.csv", LONG))
    packed = tmp_path / "results_pmc_perf_1.csv.gz"
    packed.write_bytes(gzip.compress(LONG.encode()))
    assert read_result_file(packed).kernels == plain.kernels


@pytest.mark.parametrize("name", ["kernel", "kernel.kd", "kernel [clone .kd]", "kernel (.kd)"])
def test_names_are_those_of_traces(name):
    assert clean_kernel_name(name) == "kernel"


@pytest.mark.parametrize("suffix", ["", ".gz"])
@given(data=st.data())
def test_a_file_cut_anywhere_is_damaged_or_has_whole_rows_only(tmp_path_factory, suffix, data):
    content = LONG.encode()
    content = gzip.compress(content) if suffix else content
    path = tmp_path_factory.mktemp("cut") / f"pmc_perf.csv{suffix}"
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    try:
        file = read_result_file(path)
    except DamagedFile as error:
        found = {error.reference}
    else:
        found = set(file.kernels)
    assert found <= {"f(int, float)", "g", "compute-results-damaged"}


def test_plans_are_read_in_both_forms_and_times_alone_are_no_pass(tmp_path):
    texts = tmp_path / "old" / "perfmon"
    texts.mkdir(parents=True)
    write(texts / "pmc_perf_0.txt", "pmc: SQ_WAVES TCC_HIT[17]\n\ngpu:\nrange:\nkernel:\n")
    write(texts / "SQ_LEVEL_WAVES.txt", "pmc: SQ_LEVEL_WAVES SQ_LEVEL_WAVES_ACCUM SQ_ACCUM_PREV_HIRES\n")
    write(texts / "timestamps.txt", "pmc:\n\ngpu:\n")
    write(texts / "SQ_LEVEL_WAVES.yaml", "rocprofiler-sdk:\n  counters:\n  - name: SQ_LEVEL_WAVES_ACCUM\n")
    newer = tmp_path / "new" / "perfmon"
    newer.mkdir(parents=True)
    write(newer / "pmc_perf_0.yaml", "jobs:\n- pmc:\n  - SQ_WAVES\n  - TCC_HIT[17]\n")
    write(newer / "pmc_perf_SQ_LEVEL_WAVES.yaml", "jobs:\n- pmc:\n  - SQ_LEVEL_WAVES\n  - SQ_LEVEL_WAVES_ACCUM\n")
    write(newer / "counter_def_0.yaml", "rocprofiler-sdk:\n  counters: []\n")
    first, second = read_planned_passes(tmp_path / "old"), read_planned_passes(tmp_path / "new")
    assert [(each.name, set(each.counters)) for each in first] == [
        ("SQ_LEVEL_WAVES", {"SQ_LEVEL_WAVES"}),
        ("pmc_perf_0", {"SQ_WAVES", "TCC_HIT[17]"}),
    ]
    assert [(each.name, set(each.counters)) for each in second] == [
        ("pmc_perf_0", {"SQ_WAVES", "TCC_HIT[17]"}),
        ("pmc_perf_SQ_LEVEL_WAVES", {"SQ_LEVEL_WAVES"}),
    ]


def test_an_older_merged_file_does_not_stand_for_a_pass_that_is_missing(tmp_path):
    """`analyze` of 3.6 and later takes a pmc_perf.csv that is there as it is."""
    perfmon = tmp_path / "perfmon"
    perfmon.mkdir()
    for number, counter in enumerate(("SQ_WAVES", "SQ_INSTS")):
        write(perfmon / f"pmc_perf_{number}.yaml", f"jobs:\n- pmc:\n  - {counter}\n")
    write(tmp_path / "pmc_perf.csv", LONG.replace("SQ_INSTS,", "SQ_INSTS,1.0"))
    write(tmp_path / "results_pmc_perf_0.csv", LONG)
    rows = read_workload_rows(tmp_path)
    assert rows.layout is Layout.PASSES
    expected = Expected(kernel_name="f(int, float)")
    assert [judge_pass(each, rows, expected).has_result for each in rows.planned] == [True, False]


def test_a_gpu_that_has_another_number_in_another_run_is_the_same(tmp_path):
    """Real files call one GPU 0, 2, 11995 or 60633; nothing says that it keeps its number from run to run."""
    perfmon = tmp_path / "perfmon"
    perfmon.mkdir()
    header = "GPU_ID,Dispatch_ID,Kernel_Name,Counter_Name,Counter_Value\n"
    for number, counter in enumerate(("SQ_WAVES", "SQ_INSTS")):
        write(perfmon / f"pmc_perf_{number}.yaml", f"jobs:\n- pmc:\n  - {counter}\n")
        lines = "".join(f"{number + 2},{dispatch},f,{counter},1\n" for dispatch in (1, 2))
        write(tmp_path / f"results_pmc_perf_{number}.csv", header + lines)
    rows = read_workload_rows(tmp_path)
    expected = Expected(kernel_name="f", launches_count=2)
    passes = [judge_pass(each, rows, expected) for each in rows.planned]
    assert check_launches(passes, find_launches(rows, "f"), rows, expected) == []


# Folder, layout, planned passes, launches of the copy: `vcopy -i 3`, as its sysinfo.csv says.
REAL = [
    ("counters/workloads/vcopy-MI350", Layout.WIDE, 13, 3),
    ("counters/workloads/vcopy-MI300X-rocpd", Layout.LONG, 12, 3),
    ("counters/workloads/dispatch_0-MI300A", Layout.WIDE, 23, 3),
    ("counters/workloads/ipblocks_TCC-MI300X", Layout.WIDE, 9, 3),
]
COPY = "vecCopy(double*, double*, double*, int, int)"


@pytest.mark.parametrize("name, layout, passes_count, launches_count", REAL)
def test_real_workloads_have_every_pass_with_every_launch(shared, name, layout, passes_count, launches_count):
    rows = read_workload_rows(shared / "data" / name)
    expected = Expected(kernel_name=COPY, launches_count=launches_count)
    passes = [judge_pass(planned, rows, expected) for planned in rows.planned]
    assert rows.layout is layout
    assert rows.kernels == (COPY,)
    assert [each.launches_count for each in passes] == [launches_count] * passes_count
    launches = find_launches(rows, COPY)
    assert check_passes(passes, rows, expected) == []
    assert check_launches(passes, launches, rows, expected) == []


def test_real_counters_that_were_planned_and_not_written_are_counted(shared):
    """Channels of L2 of a device that has fewer: what the lists have beyond the headers of the same name."""
    folder = shared / "data" / "counters/workloads/vcopy-MI350"
    missing = 0
    for plan in (folder / "perfmon").glob("*.txt"):
        words = set(plan.read_text(encoding="utf-8").split("\n", 1)[0].split()[1:])
        with (folder / f"{plan.stem}.csv").open(encoding="utf-8") as stream:
            missing += sum(not word.endswith("_ACCUM") for word in words - set(next(csv.reader(stream))))
    assert missing == 1022
    rows = read_workload_rows(folder)
    expected = Expected(kernel_name=COPY)
    (finding,) = check_numbers([judge_pass(planned, rows, expected) for planned in rows.planned], rows, expected)
    assert finding.rule == "compute-counters-missing"
    assert dict(finding.numbers) == {"missing_counters_count": missing}


def test_real_multiplexed_launches_are_those_that_the_file_has(shared):
    folder = shared / "data/rocprofv3-csv/rocprof-compute_vcopy_iteration_multiplexing_MI350"
    with (folder / "pmc_perf.csv").open(encoding="utf-8") as stream:
        told = {row["Dispatch_ID"] for row in csv.DictReader(stream)}
    rows = read_workload_rows(folder)
    launches = find_launches(rows, COPY)
    assert launches == told
    assert len(launches) == 20
    expected = Expected(kernel_name=COPY, launches_count=20, multiplexes=True)
    assert check_launches([], launches, rows, expected) == []


def test_a_real_packed_run_of_a_framework_has_all_its_kernels(shared):
    folder = shared / "data/rocprofv3-csv/rocprof-compute_torch_trace_MI300X_A1"
    with (folder / "results_pmc_perf_0.csv").open(encoding="utf-8") as stream:
        told = {row["Kernel_Name"] for row in csv.DictReader(stream)}
    rows = read_workload_rows(folder)
    assert rows.layout is Layout.PASSES
    assert set(rows.kernels) == told
