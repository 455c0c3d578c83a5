"""Counters out of rocprofv3's JSON: the documented shape, in its variants, and what is none."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.correlate.passes import match_counters, number_executions
from rocktools.errors import DamagedFile, InputError, UnknownFormat
from rocktools.frames import AGENTS, COUNTED_DISPATCHES, COUNTER_VALUES, PROCESSES, require_frame
from rocktools.sources.rocprofv3_json import JsonCounters, read_counter_json

BOOT_NS = 13_000_000_000_000_000
WAVES, CLOCKS, HITS = 101, 102, 103


def record(
    dispatch_id: int, values: list[tuple[int, float]], *, kernel_id: int = 1, replay_pass: int | None = None
) -> dict[str, Any]:
    """One counted dispatch; values are pairs of counter and value, one for each hardware instance."""
    start_ns = BOOT_NS + 1_000 * dispatch_id
    made: dict[str, Any] = {
        "thread_id": 77,
        "dispatch_data": {
            "size": 120,
            "correlation_id": {"internal": dispatch_id, "external": 0},
            "start_timestamp": start_ns,
            "end_timestamp": start_ns + 10,
            "dispatch_info": {
                "size": 88,
                "agent_id": {"handle": 2},
                "queue_id": {"handle": 3},
                "kernel_id": kernel_id,
                "dispatch_id": dispatch_id,
                "private_segment_size": 16,
                "group_segment_size": 1024,
                "workgroup_size": {"x": 256, "y": 1, "z": 1},
                "grid_size": {"x": 512, "y": 2, "z": 1},
            },
        },
        "records": [{"counter_id": {"handle": counter}, "value": value} for counter, value in values],
    }
    if replay_pass is not None:
        made["replay_pass"] = replay_pass
    return made


def process_of(*records: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {
            "pid": 4711,
            "init_time": BOOT_NS,
            "fini_time": BOOT_NS + 10**9,
            "command": ["python", "replay.py"],
            "node": {"hostname": "node1"},
        },
        "agents": [
            {"id": {"handle": 0}, "type": 1, "name": "AMD EPYC 9575F", "node_id": 0, "logical_node_type_id": 0},
            {
                "id": {"handle": 2},
                "type": 2,
                "name": "gfx950",
                "product_name": "AMD Instinct MI355X",
                "node_id": 2,
                "logical_node_type_id": 0,
                "num_xcc": 8,
                "cu_count": 256,
                "simd_per_cu": 4,
                "wave_front_size": 64,
                "lds_size_in_kb": 160,
                "max_engine_clk_fcompute": 2400,
            },
        ],
        "counters": [
            {"id": {"handle": handle}, "name": name, "agent_id": {"handle": 2}}
            for handle, name in ((WAVES, "SQ_WAVES"), (CLOCKS, "GRBM_COUNT"), (HITS, "TCC_HIT_sum"))
        ],
        "kernel_symbols": [
            {"kernel_id": 0, "formatted_kernel_name": ""},
            {
                "kernel_id": 1,
                "kernel_name": "loop_fusion_3.kd",
                "formatted_kernel_name": "loop_fusion_3.kd",
                "arch_vgpr_count": 32,
                "accum_vgpr_count": 4,
                "sgpr_count": 96,
            },
            {"kernel_id": 2, "kernel_name": "_Z4gemmv.kd", "demangled_kernel_name": "gemm()"},
        ],
        "callback_records": {"counter_collection": list(records)},
        "buffer_records": {"kernel_dispatch": []},
    }


def read(tmp_path: Path, *processes: Any, name: str = "4711_results.json") -> JsonCounters:
    path = tmp_path / name
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(processes)}), encoding="utf-8")
    return read_counter_json(path, run="run1", pass_label="fabric_replay")


REPLAY = (
    record(7, [(WAVES, 4.0), (WAVES, 6.0), (CLOCKS, 100.0)], replay_pass=0),
    record(7, [(HITS, 55.0)], replay_pass=1),
    record(9, [(WAVES, 1.0), (WAVES, 2.0), (CLOCKS, 90.0)], replay_pass=0),
    record(9, [(HITS, 66.0)], replay_pass=1),
)


def test_all_frames_keep_their_contracts(tmp_path):
    frames = read(tmp_path, process_of(*REPLAY))
    require_frame(frames.counted, COUNTED_DISPATCHES)
    require_frame(frames.values, COUNTER_VALUES)
    require_frame(frames.agents, AGENTS)
    require_frame(frames.processes, PROCESSES)
    for frame, spec in ((frames.counted, COUNTED_DISPATCHES), (frames.values, COUNTER_VALUES)):
        assert not frame.duplicated(list(spec.key)).any()


def test_a_counted_dispatch_has_all_that_the_file_says_of_it(tmp_path):
    row = read(tmp_path, process_of(*REPLAY)).counted.iloc[1].dropna().to_dict()
    assert row == {
        "run": "run1",
        "process": "4711_results:4711",
        "dispatch_id": 7,
        "pass": "fabric_replay",
        "replay_pass": 1,
        "agent_id": 2,
        "kernel_id": 1,
        "kernel_name": "loop_fusion_3",
        "raw_kernel_name": "loop_fusion_3.kd",
        "pass_start_ns": BOOT_NS + 7_000,
        "pass_end_ns": BOOT_NS + 7_010,
        "queue_id": 3,
        "thread_id": 77,
        "grid_workitems_x": 512,
        "grid_workitems_y": 2,
        "grid_workitems_z": 1,
        "workgroup_workitems_x": 256,
        "workgroup_workitems_y": 1,
        "workgroup_workitems_z": 1,
        "lds_bytes": 1024,
        "scratch_bytes": 16,
        "vgpr_count": 32,
        "agpr_count": 4,
        "sgpr_count": 96,
    }


def values_of(frames: JsonCounters) -> list[tuple[Any, ...]]:
    frame = frames.values
    columns = ["dispatch_id", "replay_pass", "counter", "sum_value", "min_value", "max_value", "instances_count"]
    return list(frame[columns].astype(object).where(frame[columns].notna(), None).itertuples(index=False, name=None))


def test_instances_of_a_counter_are_reduced_in_all_four_ways(tmp_path):
    assert values_of(read(tmp_path, process_of(*REPLAY))) == [
        (7, 0, "GRBM_COUNT", 100.0, 100.0, 100.0, 1),
        (7, 0, "SQ_WAVES", 10.0, 4.0, 6.0, 2),
        (7, 1, "TCC_HIT_sum", 55.0, 55.0, 55.0, 1),
        (9, 0, "GRBM_COUNT", 90.0, 90.0, 90.0, 1),
        (9, 0, "SQ_WAVES", 3.0, 1.0, 2.0, 2),
        (9, 1, "TCC_HIT_sum", 66.0, 66.0, 66.0, 1),
    ]


@pytest.mark.parametrize("place", ["record", "data", "info"])
def test_the_replay_pass_is_found_in_each_of_its_places(tmp_path, place):
    moved = []
    for each in copy.deepcopy(REPLAY):
        number = each.pop("replay_pass")
        target = {"record": each, "data": each["dispatch_data"], "info": each["dispatch_data"]["dispatch_info"]}[place]
        moved.append(each)
        target["replay_pass"] = number
    assert values_of(read(tmp_path, process_of(*moved))) == values_of(read(tmp_path, process_of(*REPLAY)))


def test_without_a_replay_pass_the_records_of_a_dispatch_are_its_passes(tmp_path):
    bare = copy.deepcopy(REPLAY)
    for each in bare:
        del each["replay_pass"]
    frames = read(tmp_path, process_of(*bare))
    assert values_of(frames) == values_of(read(tmp_path, process_of(*REPLAY)))
    assert not frames.counted.duplicated(list(COUNTED_DISPATCHES.key)).any()


def test_without_any_replay_there_is_no_replay_pass(tmp_path):
    frames = read(tmp_path, process_of(record(7, [(WAVES, 4.0)]), record(8, [(WAVES, 5.0)])))
    assert frames.counted["replay_pass"].isna().all()
    assert [row[:3] for row in values_of(frames)] == [(7, None, "SQ_WAVES"), (8, None, "SQ_WAVES")]


def test_a_dispatch_twice_in_one_replay_pass_is_damage(tmp_path):
    twice = (record(7, [(WAVES, 4.0)], replay_pass=1), record(7, [(WAVES, 4.0)], replay_pass=1))
    with pytest.raises(DamagedFile, match="dispatch 7, which is there twice in replay pass 1"):
        read(tmp_path, process_of(*twice))


def test_the_passes_of_a_replayed_dispatch_come_together_by_its_place(tmp_path):
    frames = read(tmp_path, process_of(*REPLAY))
    matched = match_counters(frames.values, number_executions(frames.counted, frames.processes, frames.agents))
    table = matched.pivot_table(index="ordinal", columns="counter", values="sum_value", observed=True)
    assert table.to_dict("index") == {
        1: {"SQ_WAVES": 10.0, "GRBM_COUNT": 100.0, "TCC_HIT_sum": 55.0},
        2: {"SQ_WAVES": 3.0, "GRBM_COUNT": 90.0, "TCC_HIT_sum": 66.0},
    }


def test_the_agents_are_told_apart_and_described(tmp_path):
    agents = read(tmp_path, process_of(*REPLAY)).agents
    gpu = agents[agents["kind"] == "GPU"].iloc[0].dropna().to_dict()
    assert gpu == {
        "run": "run1",
        "process": "4711_results:4711",
        "agent_id": 2,
        "device": "node1:gpu0",
        "kind": "GPU",
        "absolute_index": 2,
        "type_index": 0,
        "arch": "gfx950",
        "product": "AMD Instinct MI355X",
        "xcc_count": 8,
        "cu_count": 256,
        "simd_per_cu_count": 4,
        "wave_workitems": 64,
        "lds_per_cu_bytes": 163_840,
        "max_engine_hz": 2_400_000_000,
    }
    assert list(agents["kind"]) == ["CPU", "GPU"]


def test_the_process_is_described(tmp_path):
    row = read(tmp_path, process_of(*REPLAY)).processes.iloc[0]
    assert (row["pid"], row["host"], row["command"]) == (4711, "node1", "python replay.py")
    assert (row["start_ns"], row["end_ns"]) == (BOOT_NS, BOOT_NS + 10**9)
    assert (row["tool"], row["content"], row["is_simulated"]) == ("rocprofv3", "counters", False)


def as_mappings(process: dict[str, Any]) -> None:
    """Lists of ids as mappings, as some versions write them."""
    for name in ("agents", "counters", "kernel_symbols"):
        process[name] = {str(number): each for number, each in enumerate(process[name])}


def with_bare_handles(process: dict[str, Any]) -> None:
    for each in (*process["agents"], *process["counters"]):
        each["id"] = each["id"]["handle"]
    for each in process["callback_records"]["counter_collection"]:
        info = each["dispatch_data"]["dispatch_info"]
        info["agent_id"], info["queue_id"] = info["agent_id"]["handle"], info["queue_id"]["handle"]
        for value in each["records"]:
            value["counter_id"] = value["counter_id"]["handle"]


def with_kernel_handles(process: dict[str, Any]) -> None:
    for symbol in process["kernel_symbols"]:
        symbol["kernel_id"] = {"handle": symbol["kernel_id"]}
    for each in process["callback_records"]["counter_collection"]:
        info = each["dispatch_data"]["dispatch_info"]
        info["kernel_id"] = {"handle": info["kernel_id"]}


def with_gaps(process: dict[str, Any]) -> None:
    process["kernel_symbols"].insert(0, None)
    process["agents"].append({})
    process["counters"].append(None)


@pytest.mark.parametrize("change", [as_mappings, with_bare_handles, with_kernel_handles, with_gaps])
def test_other_spellings_of_the_shape_read_the_same(tmp_path, change):
    process = copy.deepcopy(process_of(*REPLAY))
    change(process)
    ours, usual = read(tmp_path, process), read(tmp_path, process_of(*REPLAY))
    assert ours.counted.astype(object).equals(usual.counted.astype(object))
    assert values_of(ours) == values_of(usual)


def test_a_single_process_may_stand_without_its_list(tmp_path):
    path = tmp_path / "1_results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": process_of(*REPLAY)}))
    frames = read_counter_json(path, run="r", pass_label="p")
    assert len(frames.counted) == 4


def test_names_of_kernels_are_demangled_clean_and_never_empty(tmp_path):
    records = [record(number, [(WAVES, 1.0)], kernel_id=kernel) for number, kernel in ((1, 1), (2, 2), (3, 0), (4, 99))]
    counted = read(tmp_path, process_of(*records)).counted
    assert list(counted["kernel_name"]) == ["loop_fusion_3", "gemm()", "kernel_0", "kernel_99"]
    assert list(counted["raw_kernel_name"].astype(object).where(counted["raw_kernel_name"].notna(), None)) == [
        "loop_fusion_3.kd",
        "gemm()",
        None,
        None,
    ]


def test_an_unknown_counter_keeps_its_number(tmp_path):
    assert values_of(read(tmp_path, process_of(record(1, [(999, 5.0)]))))[0][2] == "counter_999"


def test_several_processes_are_several_labels(tmp_path):
    other = process_of(record(7, [(WAVES, 1.0)]))
    other["metadata"]["pid"] = 4712
    frames = read(tmp_path, process_of(record(7, [(WAVES, 2.0)])), other)
    assert list(frames.counted["process"]) == ["4711_results:4711", "4711_results:4712"]
    assert len(frames.processes) == 2


@pytest.mark.parametrize("processes", [(), (process_of(),)])
def test_nothing_counted_is_empty_frames(tmp_path, processes):
    frames = read(tmp_path, *processes)
    assert frames.counted.empty
    assert frames.values.empty
    assert len(frames.processes) == len(processes)


def test_little_metadata_is_enough(tmp_path):
    process = process_of(record(7, [(WAVES, 1.0)]))
    process["metadata"] = {}
    del process["agents"], process["kernel_symbols"]
    frames = read(tmp_path, process)
    assert frames.processes["pid"].isna().all()
    assert list(frames.counted["agent_id"]) == [2]
    assert list(frames.counted["kernel_name"]) == ["kernel_1"]


def test_a_command_may_be_one_text(tmp_path):
    process = process_of()
    process["metadata"]["command"] = "python replay.py"
    assert list(read(tmp_path, process).processes["command"]) == ["python replay.py"]


DAMAGE: tuple[tuple[str, Any], ...] = (
    ("callback_records", {}),
    ("callback_records.counter_collection", None),
    ("callback_records.counter_collection", [None]),
    ("callback_records.counter_collection", {"a": 1}),
    ("callback_records.counter_collection.0", {}),
    ("callback_records.counter_collection.0.records", None),
    ("callback_records.counter_collection.0.records.0.value", "many"),
    ("callback_records.counter_collection.0.records.0.value", None),
    ("callback_records.counter_collection.0.records.0.value", 10**400),
    ("callback_records.counter_collection.0.records.0.value", float("nan")),
    ("callback_records.counter_collection.0.records.0.value", float("inf")),
    ("callback_records.counter_collection.0.replay_pass", "first"),
    ("callback_records.counter_collection.0.dispatch_data.start_timestamp", None),
    ("callback_records.counter_collection.0.dispatch_data.end_timestamp", "later"),
    ("callback_records.counter_collection.0.dispatch_data.dispatch_info", []),
    ("callback_records.counter_collection.0.dispatch_data.dispatch_info.dispatch_id", None),
    ("callback_records.counter_collection.0.dispatch_data.dispatch_info.dispatch_id", 2**64),
    ("callback_records.counter_collection.0.dispatch_data.dispatch_info.kernel_id", None),
    ("callback_records.counter_collection.0.dispatch_data.dispatch_info.kernel_id", "loop"),
    ("callback_records.counter_collection.0.dispatch_data.dispatch_info.agent_id", {}),
    ("callback_records.counter_collection.0.dispatch_data.dispatch_info.agent_id", None),
    ("callback_records.counter_collection.0.dispatch_data.dispatch_info.grid_size", {"x": 1}),
    ("counters", [{"id": {"handle": 1}}]),
    ("counters", 5),
    ("agents.1.node_id", "two"),
    ("kernel_symbols", [{"name": "x"}]),
    ("metadata", None),
)


@pytest.mark.parametrize("place, value", DAMAGE)
def test_what_its_dispatches_need_and_is_missing_or_mangled_is_damage(tmp_path, place, value):
    process = copy.deepcopy(process_of(*REPLAY))
    target: Any = process
    *way, last = place.split(".")
    for step in way:
        target = target[int(step)] if isinstance(target, list) else target[step]
    target[int(last) if isinstance(target, list) else last] = value
    with pytest.raises(DamagedFile, match="rocprofv3-json-shape") as caught:
        read(tmp_path, process)
    assert caught.value.where == str(tmp_path / "4711_results.json")
    assert "process 0" in caught.value.what


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"rocprofiler-sdk-tool": [', b"\xff\xfe{}", b"[" * 100_000, b"1" * 5_000, b"SQLite format 3\0"],
)
def test_a_file_that_is_no_whole_json_is_damage(tmp_path, content):
    path = tmp_path / "x_results.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match="rocprofv3-json-damaged"):
        read_counter_json(path, run="r", pass_label="p")


@pytest.mark.parametrize(
    "document", [{}, [], 1, None, {"traceEvents": []}, {"rocprofiler-sdk-tool": 3}, {"rocprofiler-sdk-tool": [1]}]
)
def test_json_of_something_else_is_an_unknown_format(tmp_path, document):
    path = tmp_path / "x_results.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UnknownFormat, match="not-rocprofv3-json"):
        read_counter_json(path, run="r", pass_label="p")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="unreadable-file"):
        read_counter_json(tmp_path / "gone.json", run="r", pass_label="p")


WHOLE = json.dumps({"rocprofiler-sdk-tool": [process_of(*REPLAY)]})
mangled = st.one_of(
    st.none(), st.integers(-(2**70), 2**70), st.text(max_size=3), st.just([]), st.just({}), st.booleans()
)


@given(data=st.data())
def test_any_value_anywhere_ends_in_frames_or_a_named_failure(tmp_path_factory, data):
    document = json.loads(WHOLE)
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.integers(0, 3)) == 0:
            break
        place = place[key]
    place[key] = data.draw(mangled)
    path = tmp_path_factory.getbasetemp() / "mangled_results.json"
    path.write_text(json.dumps(document))
    try:
        frames = read_counter_json(path, run="r", pass_label="p")
    except InputError:
        return
    require_frame(frames.counted, COUNTED_DISPATCHES)
    require_frame(frames.values, COUNTER_VALUES)
