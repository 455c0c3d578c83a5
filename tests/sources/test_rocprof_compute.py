"""Workloads of rocprof-compute: passes found in the join, levels, facts of the device."""

from __future__ import annotations

from pathlib import Path

import pytest
from compute_files import write_pass, write_sysinfo

from rocktools.errors import DamagedFile, InputError, NothingToRead, UnknownFormat
from rocktools.frames import AGENTS, COUNTED_DISPATCHES, COUNTER_VALUES, PROCESSES, require_frame
from rocktools.sources.rocprof_compute import is_workload, read_workload

DESCRIBED = (
    "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR"
)
WIDE = f"{DESCRIBED},Wave_Size,Kernel_Name,Correlation_ID,"
KERNEL = '"add(float*, int) (.kd)"'
SYSINFO = (
    "gpu_model,gpu_arch,cu_per_gpu,simd_per_cu,wave_size,max_sclk,num_xcd\nMI350,gfx950,{cu},4,64,{clock},{dies}\n"
)


def workload(
    folder: Path, counters: str, values: list[str], *, name: str = "pmc_perf.csv", gpu: int = 60_633, start: int = 100
) -> Path:
    """A wide file: `counters` is the header between the description and the times, `values` a row for each dispatch."""
    folder.mkdir(exist_ok=True)
    lines = [f"{WIDE}{counters},Start_Timestamp,End_Timestamp"]
    for number, row in enumerate(values):
        times = f"{start + 1_000 * number},{start + 1_000 * number + 50}"
        lines.append(f"{number},{gpu},1024,64,0,0,4,0,16,64,{KERNEL},0,{row},{times}")
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def read(path: Path):
    frames = read_workload(path, run="r")
    require_frame(frames.counted, COUNTED_DISPATCHES)
    require_frame(frames.values, COUNTER_VALUES)
    require_frame(frames.agents, AGENTS)
    require_frame(frames.processes, PROCESSES)
    return frames


def passes(frames) -> dict[str, set[str]]:
    grouped = frames.values.astype({"pass": str, "counter": str}).groupby("pass")["counter"]
    return {label: set(names) for label, names in grouped}


@pytest.mark.parametrize("separator", ["Kernel_ID_1", "Wave_Size_1,Correlation_ID_1", "Correlation_ID_2,XCC_Index"])
def test_passes_are_what_lies_between_the_columns_that_the_join_repeats(tmp_path, separator):
    between = ",".join("0" for _ in separator.split(","))
    folder = workload(tmp_path / "w", f"SQ_WAVES,TCC_HIT_sum,{separator},TCC_MISS_sum", [f"8,30,{between},10"])
    assert is_workload(folder)
    assert passes(read(folder)) == {"w/00": {"SQ_WAVES", "TCC_HIT_sum"}, "w/01": {"TCC_MISS_sum"}}


def test_times_of_a_join_are_those_of_no_pass(tmp_path):
    frames = read(workload(tmp_path / "w", "SQ_WAVES", ["8", "8"]))
    assert not frames.has_pass_times
    assert frames.counted["kernel_name"].tolist() == ["add(float*, int)"] * 2


def test_files_of_single_passes_are_read_instead_of_the_join(tmp_path):
    folder = workload(tmp_path / "w", "SQ_WAVES,Kernel_ID_1,TCC_HIT_sum", ["8,0,30"], start=1)
    workload(folder, "SQ_WAVES", ["8"], name="pmc_perf_0.csv", start=100)
    workload(folder, "TCC_HIT_sum", ["30"], name="pmc_perf_1.csv", start=200)
    frames = read(folder)
    assert frames.has_pass_times
    assert passes(frames) == {"w/00": {"SQ_WAVES"}, "w/01": {"TCC_HIT_sum"}}
    assert frames.counted.set_index("pass")["pass_start_ns"].to_dict() == {"w/00": 100, "w/01": 200}


def test_a_level_is_a_pass_of_its_own_and_its_accumulator_is_named_after_it(tmp_path):
    folder = workload(tmp_path / "w", "SQ_WAVES", ["8"])
    workload(folder, "GRBM_GUI_ACTIVE,SQ_LEVEL_WAVES,SQ_ACCUM_PREV_HIRES", ["9,0,77"], name="SQ_LEVEL_WAVES.csv", gpu=5)
    frames = read(folder)
    assert passes(frames)["w/01"] == {"GRBM_GUI_ACTIVE", "SQ_LEVEL_WAVES", "SQ_LEVEL_WAVES_ACCUM"}
    assert frames.values.set_index("counter").loc["SQ_LEVEL_WAVES_ACCUM", "sum_value"] == 77
    assert set(frames.counted["agent_id"]) == {0}  # the tool numbers the one GPU anew in each run


def test_empty_cells_are_no_values(tmp_path):
    frames = read(workload(tmp_path / "w", "SQ_WAVES,TCC_HIT_sum", ["8,", "8,30"]))
    assert frames.values[["dispatch_id", "counter"]].to_numpy().tolist() == [
        [0, "SQ_WAVES"], [1, "SQ_WAVES"], [1, "TCC_HIT_sum"],
    ]  # fmt: skip


def test_facts_of_the_device_come_from_sysinfo(tmp_path):
    folder = workload(tmp_path / "w", "SQ_WAVES", ["8"])
    (folder / "sysinfo.csv").write_text(SYSINFO.format(cu=256, clock=2200, dies=8), encoding="utf-8")
    (agent,) = read(folder).agents.to_dict("records")
    assert (agent["arch"], agent["xcc_count"], agent["cu_count"]) == ("gfx950", 8, 256)
    assert (agent["simd_per_cu_count"], agent["max_engine_hz"]) == (4, 2_200_000_000)


def test_a_clock_of_zero_is_none(tmp_path):
    folder = workload(tmp_path / "w", "SQ_WAVES", ["8"])
    (folder / "sysinfo.csv").write_text(SYSINFO.format(cu=256, clock=0, dies=8), encoding="utf-8")
    assert read(folder).agents["max_engine_hz"].isna().all()


@pytest.mark.parametrize("highest, dies", [(127, 8), (63, 4), (15, 1)])
def test_channels_that_were_counted_are_believed_more_than_sysinfo(tmp_path, highest, dies):
    folder = workload(tmp_path / "w", f"SQ_WAVES,TCC_HIT[0],TCC_HIT[{highest}]", ["8,1,1"])
    (folder / "sysinfo.csv").write_text(SYSINFO.format(cu=256, clock=2200, dies=8), encoding="utf-8")
    frames = read(folder)
    assert frames.agents["xcc_count"].tolist() == [dies]
    assert [finding.rule for finding in frames.findings] == ([] if dies == 8 else ["dies-differ"])


def test_what_was_asked_for_is_known_by_the_lists_of_passes(tmp_path):
    folder = workload(tmp_path / "w", "SQ_WAVES", ["8"])
    (folder / "perfmon").mkdir()
    (folder / "perfmon" / "pmc_perf_0.txt").write_text("pmc: SQ_WAVES TCC_HIT_sum\n\ngpu:\n", encoding="utf-8")
    (folder / "perfmon" / "SQ_LEVEL_WAVES.txt").write_text("pmc: SQ_ACCUM_PREV_HIRES\n", encoding="utf-8")
    assert read(folder).requested == {"SQ_WAVES", "TCC_HIT_sum", "SQ_LEVEL_WAVES_ACCUM"}


def test_the_last_row_of_a_file_that_was_cut_off_is_left_out(tmp_path):
    folder = workload(tmp_path / "w", "SQ_WAVES", ["8", "8"])
    path = folder / "pmc_perf.csv"
    path.write_text(path.read_text(encoding="utf-8").rstrip()[:-8], encoding="utf-8")
    frames = read(folder)
    assert frames.values["dispatch_id"].tolist() == [0]
    assert [finding.rule for finding in frames.findings] == ["csv-cut-off"]


@pytest.mark.parametrize(
    "content, error",
    [
        ("", DamagedFile),
        ("a,b\n1,2\n", UnknownFormat),
        (f"{WIDE}Start_Timestamp,End_Timestamp\n", UnknownFormat),
        (f"{WIDE}SQ_WAVES,Start_Timestamp,End_Timestamp\n", NothingToRead),
    ],
)
def test_what_is_no_workload_is_told(tmp_path, content, error):
    (tmp_path / "pmc_perf.csv").write_text(content, encoding="utf-8")
    with pytest.raises(error) as raised:
        read(tmp_path)
    assert "pmc_perf.csv" in str(raised.value)


def test_a_folder_without_pmc_perf_is_told(tmp_path):
    assert not is_workload(tmp_path)
    with pytest.raises(NothingToRead):
        read(tmp_path)
    with pytest.raises(InputError):
        read(tmp_path / "pmc_perf.csv")


@pytest.mark.parametrize(
    "name, dispatches_count, passes_count, dies",
    [
        ("vcopy-MI350", 3, 13, 4),
        ("vcopy-MI300X-rocpd", 3, 12, 8),
        ("dispatch_0-MI300A", 3, 23, 6),
        ("ipblocks_TCC-MI300X", 3, 9, 8),
    ],
)
def test_real_workloads_have_the_passes_that_their_lists_name(shared, name, dispatches_count, passes_count, dies):
    folder = shared / "data" / "counters" / "workloads" / name
    frames = read(folder)
    listed = len(list((folder / "perfmon").glob("*.txt"))) - (folder / "perfmon" / "timestamps.txt").exists()
    assert frames.values["pass"].nunique() == passes_count == listed
    assert frames.counted["dispatch_id"].nunique() == dispatches_count
    assert frames.agents["xcc_count"].tolist() == [dies]


@pytest.mark.parametrize("name", ["vcopy-MI350", "vcopy-MI300X-rocpd", "dispatch_0-MI300A"])
def test_values_of_real_workloads_are_those_of_the_raw_lists(shared, name):
    """truth/*.raw_long.csv: counter values by dispatch, made by other code; channels are not in it."""
    import csv

    path = shared / "data" / "counters" / "truth" / f"{name}.raw_long.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        wanted = {(int(row["dispatch"]), row["counter"]): float(row["value"]) for row in csv.DictReader(stream)}
    frames = read(shared / "data" / "counters" / "workloads" / name)
    values = frames.values.astype({"counter": str, "pass": str}).sort_values("pass", kind="stable")
    found: dict[tuple[int, str], set[float]] = {}
    for dispatch, counter, value in zip(values["dispatch_id"], values["counter"], values["sum_value"], strict=True):
        found.setdefault((int(dispatch), counter), set()).add(float(value))
    known = {key: value for key, value in wanted.items() if "@" not in key[1] and key in found}
    assert len(known) > 400
    assert [key for key, value in known.items() if value not in found[key]] == []


# Since 3.6: a file in the long form for each pass.


@pytest.mark.parametrize("is_packed", [False, True])
def test_files_of_single_passes_are_passes_of_their_own(tmp_path, is_packed):
    folder = tmp_path / "w"
    write_pass(folder, 0, {"SQ_WAVES": (8, 8)}, durations_ns=(1_000, 1_100), is_packed=is_packed)
    write_pass(folder, 10, {"TCC_HIT_sum": (30, 31)}, durations_ns=(900, 950), is_packed=is_packed)
    write_pass(folder, 2, {"TCC_MISS_sum": (10, 11)}, is_packed=is_packed)
    assert is_workload(folder)
    frames = read(folder)
    assert passes(frames) == {"w/00": {"SQ_WAVES"}, "w/01": {"TCC_MISS_sum"}, "w/02": {"TCC_HIT_sum"}}
    assert frames.has_pass_times
    last = frames.counted[(frames.counted["pass"] == "w/02").to_numpy()]
    assert (last["pass_end_ns"] - last["pass_start_ns"]).tolist() == [900, 950]


def test_what_analyze_merged_of_them_is_not_read_twice(tmp_path):
    folder = tmp_path / "w"
    single = write_pass(folder, 0, {"SQ_WAVES": (8, 8)})
    (folder / "pmc_perf.csv").write_bytes(single.read_bytes())
    assert len(read(folder).values) == 2
    assert len(read(folder / "pmc_perf.csv").values) == 2


def test_a_packed_copy_beside_the_file_is_the_same_pass(tmp_path):
    folder = tmp_path / "w"
    write_pass(folder, 0, {"SQ_WAVES": (8, 8)})
    write_pass(folder, 0, {"SQ_WAVES": (8, 8)}, is_packed=True)
    assert passes(read(folder)) == {"w/00": {"SQ_WAVES"}}


def test_a_merged_file_alone_may_be_packed(tmp_path):
    folder = tmp_path / "w"
    packed = write_pass(folder, 0, {"SQ_WAVES": (8, 8)}, is_packed=True)
    packed.rename(folder / "pmc_perf.csv.gz")
    assert is_workload(folder)
    assert read(folder).values["sum_value"].tolist() == [8, 8]


def test_passes_that_left_nothing_are_named(tmp_path):
    folder = tmp_path / "w"
    (folder / "perfmon").mkdir(parents=True)
    for number in range(3):
        (folder / "perfmon" / f"pmc_perf_{number}.yaml").write_text("jobs:\n- pmc: [SQ_WAVES, TCC_HIT_sum]\n")
    write_pass(folder, 0, {"SQ_WAVES": (8, 8)})
    frames = read(folder)
    assert [(finding.rule, dict(finding.numbers)) for finding in frames.findings] == [
        ("passes-missing", {"missing_count": 2, "planned_count": 3})
    ]
    assert "pmc_perf_1, pmc_perf_2" in frames.findings[0].message
    assert frames.requested == {"SQ_WAVES", "TCC_HIT_sum"}


def test_sysinfo_of_later_versions_gives_the_same_facts(tmp_path):
    folder = tmp_path / "w"
    write_pass(folder, 0, {"SQ_WAVES": (8, 8)})
    write_sysinfo(
        folder, workload_path="/w", gpu_arch="gfx950", gpu_model="MI355X", num_xcd=8, cu_per_gpu=256, simd_per_cu=4,
        wave_size=64, max_sclk=2400, num_memory_channels=128,
    )  # fmt: skip
    agent = read(folder).agents.iloc[0]
    assert (agent["arch"], agent["xcc_count"], agent["cu_count"]) == ("gfx950", 8, 256)
    assert agent["max_engine_hz"] == 2_400_000_000


def test_a_damaged_packed_file_names_itself(tmp_path):
    folder = tmp_path / "w"
    path = write_pass(folder, 0, {"SQ_WAVES": (8, 8)}, is_packed=True)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="results_pmc_perf_0"):
        read(folder)


@pytest.mark.conformance
def test_single_passes_of_a_real_workload_say_what_its_merged_file_says(shared, tmp_path):
    source = shared / "data" / "rocprofv3-csv" / "rocprof-compute_torch_trace_MI300X_A1"
    (tmp_path / "pmc_perf.csv").write_bytes((source / "pmc_perf.csv").read_bytes())
    merged, single = read(tmp_path), read(source)
    key = ["dispatch_id", "counter"]
    ours, theirs = (
        each.values.astype({"counter": str}).sort_values(key)[[*key, "sum_value"]].reset_index(drop=True)
        for each in (single, merged)
    )
    assert len(ours) > 100
    assert ours.equals(theirs)
