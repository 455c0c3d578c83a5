"""Counters in CSV files with a row for each dispatch and counter, in the headers of each tool."""

from __future__ import annotations

import contextlib
import csv
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from rocktools.errors import DamagedFile, InputError, NothingToRead, UnknownFormat
from rocktools.frames import AGENTS, COUNTED_DISPATCHES, COUNTER_VALUES, PROCESSES, require_frame
from rocktools.sources.rocprofv3_csv import is_counter_csv, read_counter_csv

BOOT_NS = 13_386_742_234_691_895  # above 2**53: a float would lose its last digit
ROCPROFV3 = (  # noqa: SIM905  (as the tool writes it)
    "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,Kernel_Name,Workgroup_Size,"
    "LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,Counter_Name,Counter_Value,Start_Timestamp,"
    "End_Timestamp"
).split(",")
COMPUTE = (  # noqa: SIM905
    "GPU_ID,Dispatch_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,"
    "Kernel_Name,Start_Timestamp,End_Timestamp,Kernel_ID,Counter_Name,Counter_Value"
).split(",")
NEWER = ["GPU_ID", "GUID", "Correlation_Id", *COMPUTE[1:]]
CONVERTED = (  # noqa: SIM905
    "Guid,Agent_Id,Dispatch_Id,Pid,Grid_Size,Workgroup_Size,Lds_Block_Size,Scratch_Size,Vgpr_Count,Accum_Vgpr_Count,"
    "Sgpr_Count,Kernel_Name,Start,End,Kernel_Id,Counter_Name,Value"
).split(",")

FACTS = {
    "correlationid": 5, "dispatchid": 7, "agentid": "Agent 4", "gpuid": 4, "queueid": 1, "processid": 4711, "pid": 4711,
    "threadid": 4712, "gridsize": 1024, "kernelid": 3, "kernelname": "void add<float>(float*, int)",
    "workgroupsize": 64, "ldsblocksize": 512, "ldsperworkgroup": 512, "scratchsize": 16, "scratchperworkitem": 16,
    "vgprcount": 8, "archvgpr": 8, "accumvgprcount": 4, "accumvgpr": 4, "sgprcount": 32, "sgpr": 32,
    "countername": "SQ_WAVES", "countervalue": 16.0, "value": 16.0, "guid": "000233e4-d7b1",
    "starttimestamp": BOOT_NS, "start": BOOT_NS, "endtimestamp": BOOT_NS + 101, "end": BOOT_NS + 101,
}  # fmt: skip


def plain(header: str) -> str:
    return header.replace("_", "").lower()


def write(path: Path, headers: Sequence[str], *changes: dict[str, object]) -> Path:
    """One row for each of `changes` to the facts."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(headers)
        for change in changes or ({},):
            writer.writerow([{**FACTS, **change}[plain(header)] for header in headers])
    return path


def read(path: Path):
    frames = read_counter_csv(path, run="r", pass_label="a")
    require_frame(frames.counted, COUNTED_DISPATCHES)
    require_frame(frames.values, COUNTER_VALUES)
    require_frame(frames.agents, AGENTS)
    require_frame(frames.processes, PROCESSES)
    return frames


@pytest.mark.parametrize(
    "headers", [ROCPROFV3, COMPUTE, NEWER, CONVERTED], ids=["own", "compute", "newer", "converted"]
)
def test_every_dialect_gives_the_same_facts(tmp_path, headers):
    path = write(tmp_path / "x_counter_collection.csv", headers)
    assert is_counter_csv(path)
    frames = read(path)
    (counted,) = frames.counted.to_dict("records")
    assert counted["dispatch_id"] == 7
    assert (counted["pass"], counted["run"]) == ("a", "r")
    assert (counted["pass_start_ns"], counted["pass_end_ns"]) == (BOOT_NS, BOOT_NS + 101)
    assert counted["kernel_name"] == counted["raw_kernel_name"] == "void add<float>(float*, int)"
    assert (counted["agent_id"], counted["kernel_id"]) == (4, 3)
    assert (counted["grid_workitems_x"], counted["workgroup_workitems_x"], counted["lds_bytes"]) == (1024, 64, 512)
    assert (counted["scratch_bytes"], counted["vgpr_count"], counted["agpr_count"], counted["sgpr_count"]) == (
        16,
        8,
        4,
        32,
    )
    (value,) = frames.values.to_dict("records")
    assert (value["counter"], value["sum_value"]) == ("SQ_WAVES", 16.0)
    assert math.isnan(value["min_value"])
    assert frames.agents["agent_id"].tolist() == [4]
    assert frames.findings == ()


def test_products_of_grids_stand_in_x_and_y_and_z_are_missing(tmp_path):
    frames = read(write(tmp_path / "a.csv", ROCPROFV3))
    assert frames.counted[["grid_workitems_y", "grid_workitems_z", "workgroup_workitems_y"]].isna().all(axis=None)


def test_counters_of_a_dispatch_are_rows_of_one_dispatch(tmp_path):
    path = write(tmp_path / "a.csv", ROCPROFV3, {}, {"countername": "TCC_HIT", "countervalue": 2.5})
    frames = read(path)
    assert len(frames.counted) == 1
    assert frames.values[["counter", "sum_value"]].to_numpy().tolist() == [["SQ_WAVES", 16.0], ["TCC_HIT", 2.5]]


def test_processes_are_told_apart(tmp_path):
    path = write(tmp_path / "a.csv", ROCPROFV3, {}, {"processid": 9})
    frames = read(path)
    assert frames.processes["pid"].tolist() == [4711, 9]
    assert len(frames.counted) == 2


def test_runs_of_one_dispatch_are_passes_by_what_they_counted(tmp_path):
    """A dispatch with several times was counted in several runs; their order in the file means nothing."""
    later = {"starttimestamp": BOOT_NS + 10**9, "endtimestamp": BOOT_NS + 10**9 + 5, "countername": "TCC_HIT"}
    rows = [later, {}, {**later, "dispatchid": 8}, {"dispatchid": 8}]
    frames = read(write(tmp_path / "a.csv", ROCPROFV3, *rows))
    passes = frames.values.set_index(["dispatch_id", "counter"])["pass"].astype(str).to_dict()
    assert passes == {
        (7, "SQ_WAVES"): "a/00", (7, "TCC_HIT"): "a/01", (8, "SQ_WAVES"): "a/00", (8, "TCC_HIT"): "a/01",
    }  # fmt: skip


def test_dispatches_that_counted_different_things_in_one_run_are_one_pass(tmp_path):
    rows = [
        {},
        {"dispatchid": 8, "countername": "TCC_HIT", "starttimestamp": BOOT_NS + 500, "endtimestamp": BOOT_NS + 600},
    ]
    frames = read(write(tmp_path / "a.csv", ROCPROFV3, *rows))
    assert set(frames.values["pass"]) == {"a"}


def test_values_of_replay_passes_that_cannot_be_told_apart_are_missing(tmp_path):
    frames = read(write(tmp_path / "a.csv", ROCPROFV3, {}, {"countervalue": 17.0}, {"countername": "TCC_HIT"}))
    values = frames.values.set_index("counter")["sum_value"]
    assert math.isnan(values["SQ_WAVES"])
    assert values["TCC_HIT"] == 16.0
    assert [finding.rule for finding in frames.findings] == ["replay-overcount"]


def test_facts_of_agents_come_from_the_file_beside(tmp_path):
    path = write(tmp_path / "x_counter_collection.csv", ROCPROFV3)
    (tmp_path / "x_agent_info.csv").write_text(
        '"Node_Id","Logical_Node_Id","Agent_Type","Num_Xcc","Cu_Count","Simd_Per_Cu","Wave_Front_Size",'
        '"Max_Engine_Clk_Ccompute","Max_Engine_Clk_Fcompute","Lds_Size_In_Kb","Name","Product_Name"\n'
        '0,0,"CPU",0,0,0,0,3300,0,0,"EPYC","EPYC"\n4,4,"GPU",8,256,4,64,3300,2400,160,"gfx950","AMD Instinct MI355X"\n',
        encoding="utf-8",
    )
    agents = read(path).agents.set_index("agent_id")
    assert agents.loc[4, ["arch", "kind", "xcc_count", "cu_count", "max_engine_hz", "lds_per_cu_bytes"]].tolist() == [
        "gfx950", "GPU", 8, 256, 2_400_000_000, 163_840,
    ]  # fmt: skip
    assert agents.loc[0, "kind"] == "CPU"
    assert agents.loc[0, ["xcc_count", "max_engine_hz"]].isna().all()


@pytest.mark.parametrize("headers", [ROCPROFV3, COMPUTE])
def test_a_file_cut_anywhere_gives_whole_rows_or_an_error(tmp_path, headers):
    whole = write(tmp_path / "a.csv", headers, {}, {"dispatchid": 8}).read_bytes()
    for length in range(0, len(whole), 11):
        cut = tmp_path / f"cut{length}.csv"
        cut.write_bytes(whole[:length])
        frames = None
        with contextlib.suppress(InputError):
            frames = read(cut)
        assert frames is None or set(frames.values["sum_value"]) == {16.0}


def test_a_row_that_is_cut_off_is_left_out_and_told(tmp_path):
    path = write(tmp_path / "a.csv", COMPUTE, {}, {"dispatchid": 8})
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.rindex("SQ_WAVES")], encoding="utf-8")
    frames = read(path)
    assert frames.values["dispatch_id"].tolist() == [7]
    assert [finding.rule for finding in frames.findings] == ["csv-cut-off"]


def test_a_value_that_is_cut_off_is_no_value(tmp_path):
    """ "16.0" without its last three characters is a number, too."""
    path = write(tmp_path / "a.csv", COMPUTE, {}, {"dispatchid": 8, "countervalue": 1234.0})
    path.write_bytes(path.read_bytes().rstrip()[:-4])
    assert read(path).values["sum_value"].tolist() == [16.0]


def test_times_keep_their_digits_beside_one_that_is_missing(tmp_path):
    frames = read(write(tmp_path / "a.csv", ROCPROFV3, {"starttimestamp": "?"}, {"dispatchid": 8}))
    assert frames.counted["pass_start_ns"].tolist() == [BOOT_NS]


def test_rows_without_a_number_are_left_out_and_told(tmp_path):
    frames = read(write(tmp_path / "a.csv", COMPUTE, {}, {"dispatchid": 8, "countervalue": "inf"}, {"dispatchid": "x"}))
    assert frames.values["dispatch_id"].tolist() == [7]
    (finding,) = frames.findings
    assert (finding.rule, finding.numbers["lost_rows_count"]) == ("csv-rows-broken", 2)


@pytest.mark.parametrize(
    "content, error",
    [
        (b"", DamagedFile),
        (b"\xff\xfe\x00\x01\x02", DamagedFile),
        (b"Kind,Name\nKERNEL,x\n", UnknownFormat),
        (",".join(ROCPROFV3).encode() + b"\n", NothingToRead),
        (b'a,b\n"x\n', DamagedFile),
    ],
)
def test_what_is_no_file_of_counters_is_told(tmp_path, content, error):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(error) as raised:
        read(path)
    assert str(path) in str(raised.value)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(InputError):
        read(tmp_path / "none.csv")
    assert not is_counter_csv(tmp_path / "none.csv")


def test_the_example_of_the_manual(shared):
    path = shared / "data" / "rocprofv3-csv" / "rocprofiler-sdk-docs" / "counter_collection.csv"
    frames = read(path)
    assert len(frames.counted) == 4  # the last line has no end, and is whole
    assert set(frames.values["counter"]) == {"SQ_WAVES"}
    assert frames.values["sum_value"].tolist() == [16_384.0] * 4
    assert frames.counted["pass_start_ns"].min() == 3_200_098_838_431_081


@pytest.mark.parametrize(
    "name", ["ml_api_trace_pmc_perf_0_counter_collection.csv", "pmc_perf.csv", "results_pmc_perf_0.csv"]
)
def test_the_three_copies_of_a_real_pass_give_the_same(shared, name):
    """140 rows: 20 dispatches with 7 counters each."""
    frames = read(shared / "data" / "rocprofv3-csv" / "rocprof-compute_torch_trace_MI300X_A1" / name)
    assert (len(frames.counted), len(frames.values), frames.values["counter"].nunique()) == (20, 140, 7)
    first = frames.values.set_index(["dispatch_id", "counter"])["sum_value"]
    assert first[0, "GRBM_GUI_ACTIVE"] == 253_889.0
    assert set(frames.counted["process"]) == {"000233e4-d7b1-77b1-bc57-4b5e8997857f"}


@pytest.mark.parametrize(
    "name", ["kernel_trace.csv", "hip_trace.csv", "memory_copy_trace.csv", "pc_sampling_host_trap.csv"]
)
def test_other_files_of_the_tool_are_none(shared, name):
    path = shared / "data" / "rocprofv3-csv" / "rocprofiler-sdk-docs" / name
    assert not is_counter_csv(path)
    with pytest.raises(UnknownFormat):
        read(path)
