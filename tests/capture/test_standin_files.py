"""What the stand-in for rocprofv3 writes: where, when not, with which rows, and how passes and releases differ."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocpd_files import open_process, rules
from standins.device import CAPACITY, fits_one_pass, hardware_events, load_counters
from standins.install import app_command
from standins.running import Bench, announced, counter_rows, kernel_counts, query
from standins.scenario import BadScenario, parse_scenario
from standins.versions import RELEASES

from rocktools.sources.rocpd.counters import is_counter_pass
from rocktools.sources.rocpd.health import check_process

FIRST, SECOND, NEWEST = "1.0.0", "1.3.2", "1.4.1"
REPLAY = ("--replay-mode", "kernel", "--kernel-replay-beta-enabled")
ALL_KERNELS = {
    "loop_fusion_3": 12,
    "input_reduce_fusion": 12,
    "gemm_fusion_dot_7": 12,
    "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)": 12,
}

MakeBench = Callable[[str], Bench]


@pytest.fixture
def make_bench(tmp_path: Path) -> MakeBench:
    return lambda version: Bench(tmp_path, version)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, SECOND)


# Where


@pytest.mark.parametrize(
    "options, layout",
    [
        ("", "{host}/{pid}_results.db"),
        ("-d D", "D/{host}/{pid}_results.db"),
        ("-o X", "X_results.db"),
        ("-d D -o X", "D/X_results.db"),
        ("-d D/%hostname% -o r_%pid%", "D/{host}/r_{pid}_results.db"),
    ],
)
def test_layout_of_one_pass(options, layout, bench):
    ended = bench.run("rocprofv3", "--kernel-trace", *options.split(), "--", "true")
    pid = bench.calls()[0]["pid"]
    assert bench.files() == [layout.format(host=socket.gethostname(), pid=pid)]
    assert list(announced(ended.err)) == [str(path) for path in bench.databases()]


def test_passes_write_under_pids_of_their_own(bench):
    bench.run("rocprofv3", "--pmc", "SQ_WAVES", "--pmc", "TCC_HIT", "-d", "D", "--", "true")
    first, second = bench.databases()
    assert [path.parent.parent.name for path in (first, second)] == ["pass_1", "pass_2"]
    assert first.name != second.name


def test_existing_file_is_replaced_without_a_word(bench):
    (bench.work / "x_results.db").write_text("something of the user's")
    bench.run("rocprofv3", "--kernel-trace", "-o", "x", "--", "true")
    assert kernel_counts(bench.work / "x_results.db") == ALL_KERNELS


def test_announcement_names_the_uuid_and_can_be_hidden(bench):
    ended = bench.run("rocprofv3", "--kernel-trace", "-o", "x", "--", "true")
    [(guid,)] = query(bench.work / "x_results.db", "SELECT value FROM rocpd_metadata WHERE tag = 'guid'")
    assert f"x_results.db (UUID={guid})" in ended.err
    assert bench.run("rocprofv3", "--kernel-trace", "--log-level", "fatal", "-o", "x", "--", "true").err == ""


@pytest.mark.parametrize(
    "arguments",
    [
        "--pmc SQ_WAVES --kernel-include-regex ^nothing$",
        "--pmc NOT_A_COUNTER",
        "--pmc SQ_WAVES --kernel-iteration-range 99",
        "--kernel-trace --selected-regions",
        "--scratch-memory-trace",
    ],
)
def test_no_records_no_file_and_code_zero(arguments, bench):
    ended = bench.run("rocprofv3", *arguments.split(), "--", "true")
    assert (ended.code, bench.files()) == (0, [])


def test_old_release_writes_csv(make_bench):
    bench = make_bench("0.6.0")
    bench.run("rocprofv3", "--kernel-trace", "--pmc", "SQ_WAVES", "-o", "x", "--", "true")
    assert bench.files() == ["x_agent_info.csv", "x_counter_collection.csv", "x_kernel_trace.csv"]
    header, first, *_ = (bench.work / "x_counter_collection.csv").read_text().splitlines()
    assert '"Counter_Name","Counter_Value"' in header
    assert '"SQ_WAVES",1024.0' in first


# What


@pytest.mark.parametrize("version", [FIRST, SECOND, NEWEST])
def test_a_trace_is_a_whole_database_of_its_release(version, make_bench):
    bench = make_bench(version)
    bench.run("rocprofv3", "--runtime-trace", "-o", "x", "--", "true", scenario={"ranges": [_range("step 3", 3)]})
    path = bench.work / "x_results.db"
    facts = dict(query(path, "SELECT tag, value FROM rocpd_metadata"))
    assert facts["schema_version"] == RELEASES[version].schema
    assert "rocktools_simulated" not in facts
    assert kernel_counts(path) == ALL_KERNELS
    assert query(path, "SELECT count(*) FROM memory_copies") == [(3,)]
    calls = dict(query(path, "SELECT category, count(*) FROM regions GROUP BY category"))
    assert calls == {"HIP_RUNTIME_API_EXT": 51, "MARKER_CORE_RANGE_API": 1, "RCCL_API": 12}
    assert query(path, "SELECT count(*) FROM kernels WHERE region = 'step 3'") == [(4,)]
    with open_process(path) as (reader, process):
        assert rules(check_process(reader, process, is_counter_pass=False)) == ["environment-inside"]


def _range(message: str, number: int) -> dict[str, Any]:
    return {"message": message, "rounds": [number, number]}


def test_kernel_trace_has_no_calls_and_is_never_filtered(bench):
    bench.run("rocprofv3", "--kernel-trace", "--kernel-include-regex", "^loop", "-o", "x", "--", "true")
    path = bench.work / "x_results.db"
    assert kernel_counts(path) == ALL_KERNELS
    assert query(path, "SELECT count(*) FROM regions") == [(0,)]


def test_pass_alone_has_the_targeted_dispatches_only(bench):
    bench.run(
        *(
            "rocprofv3",
            "--pmc",
            "SQ_WAVES",
            "TCC_HIT_sum",
            "GRBM_GUI_ACTIVE",
            "--kernel-include-regex",
            "^loop_fusion_3$",
        ),
        *("--kernel-iteration-range", "[10-11]", "-o", "x", "--", "true"),
    )
    path = bench.work / "x_results.db"
    assert kernel_counts(path) == {"loop_fusion_3": 2}
    assert query(path, "SELECT dispatch_id FROM kernels ORDER BY 1") == [(37,), (41,)]
    rows = counter_rows(path)
    assert {name: count for name, (count, _) in rows.items()} == {
        "SQ_WAVES": 2 * 32,
        "TCC_HIT_sum": 2,
        "GRBM_GUI_ACTIVE": 2 * 8,
    }
    assert rows["SQ_WAVES"][1] == 2 * 65536 / 64
    with open_process(path) as (reader, process):
        assert is_counter_pass(reader, process)
        assert rules(check_process(reader, process, is_counter_pass=True)) == ["environment-inside"]


def test_pass_with_the_kernel_trace_has_every_dispatch(bench):
    bench.run(
        *("rocprofv3", "--kernel-trace", "--pmc", "SQ_WAVES", "--kernel-include-regex", "^loop_fusion_3$"),
        *("-o", "x", "--", "true"),
    )
    path = bench.work / "x_results.db"
    assert kernel_counts(path) == ALL_KERNELS
    assert query(path, "SELECT DISTINCT kernel_name FROM counters_collection") == [("loop_fusion_3",)]


def test_every_counter_is_described_although_few_were_collected(bench):
    bench.run("rocprofv3", "--pmc", "SQ_WAVES", "-o", "x", "--", "true")
    path = bench.work / "x_results.db"
    assert query(path, "SELECT count(*) FROM rocpd_info_pmc") == [(len(load_counters("gfx950")),)]
    assert list(counter_rows(path)) == ["SQ_WAVES"]


def test_counts_are_equal_in_two_runs_and_times_are_not(bench):
    totals, cycles, spans = [], [], []
    for name in ("a", "b"):
        bench.run("rocprofv3", "--pmc", "SQ_INSTS_VALU", "GRBM_GUI_ACTIVE", "-o", name, "--", "true")
        rows = counter_rows(bench.work / f"{name}_results.db")
        totals.append(rows["SQ_INSTS_VALU"])
        cycles.append(rows["GRBM_GUI_ACTIVE"])
        spans.append(query(bench.work / f"{name}_results.db", "SELECT duration FROM kernels ORDER BY dispatch_id"))
    assert totals[0] == totals[1]
    assert cycles[0] != cycles[1]
    assert spans[0] != spans[1]


def test_dispatch_ids_can_differ_between_runs(bench):
    scenario = {"dispatch_id_offset": 100}
    for name in ("a", "b"):
        bench.run("rocprofv3", "--pmc", "SQ_WAVES", "-o", name, "--", "true", scenario=scenario)
    found = [query(bench.work / f"{name}_results.db", "SELECT min(dispatch_id) FROM kernels") for name in ("a", "b")]
    assert found == [[(1,)], [(101,)]]


def test_request_sizes_add_up(bench):
    parts = ["TCC_EA0_RDREQ", "TCC_EA0_RDREQ_128B", "TCC_EA0_RDREQ_64B", "TCC_EA0_RDREQ_32B"]
    bench.run("rocprofv3", "--pmc", *parts, "-o", "x", "--", "true")
    rows = counter_rows(bench.work / "x_results.db")
    total, *others = (rows[name][1] for name in parts)
    assert total == sum(others) > 0


def test_values_of_the_scenario_win(bench):
    scenario = {
        "kernels": [{"name": "k", "count": 3}],
        "values": {"k": {"TCC_HIT": 999}},
        "zero_counters": ["TCC_MISS"],
    }
    bench.run("rocprofv3", "--pmc", "TCC_HIT", "TCC_HIT_sum", "TCC_MISS", "-o", "x", "--", "true", scenario=scenario)
    assert counter_rows(bench.work / "x_results.db") == {
        "TCC_HIT": (3 * 128, 3 * 999.0),
        "TCC_HIT_sum": (3, 3 * 999.0),
        "TCC_MISS": (3 * 128, 0.0),
    }


@pytest.mark.parametrize(
    "options, names",
    [
        ("", ["void k<int>(int*)", "loop"]),
        ("-T", ["k", "loop"]),
        ("-M", ["_Z1kIiEvPi.kd", "loop.kd"]),
    ],
)
def test_names_follow_the_naming_options_and_so_do_filters(options, names, bench):
    scenario = {"kernels": [{"name": "void k<int>(int*)", "mangled": "_Z1kIiEvPi", "count": 1}, {"name": "loop"}]}
    bench.run("rocprofv3", "--kernel-trace", *options.split(), "-o", "x", "--", "true", scenario=scenario)
    assert sorted(kernel_counts(bench.work / "x_results.db")) == sorted(names)
    pattern = "^k$"
    options += f" --pmc SQ_WAVES --kernel-include-regex {pattern}"
    bench.run("rocprofv3", *options.split(), "-o", "y", "--", "true", scenario=scenario)
    assert (bench.work / "y_results.db").exists() is ("k" in names)


@pytest.mark.parametrize("version, counted", [(FIRST, 12), ("1.2.0", 3)])
def test_regions_gate_counters_in_new_releases_only(version, counted, make_bench):
    bench = make_bench(version)
    scenario = {"kernels": [{"name": "k", "count": 12}], "selected_rounds": [4, 6]}
    bench.run("rocprofv3", "--selected-regions", "--pmc", "SQ_WAVES", "-o", "x", "--", "true", scenario=scenario)
    assert kernel_counts(bench.work / "x_results.db") == {"k": counted}


def test_counters_outside_of_the_traced_region_crash_the_old_writer(make_bench):
    bench = make_bench(FIRST)
    scenario = {"kernels": [{"name": "k", "count": 12}], "selected_rounds": [4, 6]}
    options = ("--selected-regions", "--kernel-trace", "--pmc", "SQ_WAVES")
    ended = bench.run("rocprofv3", *options, "-o", "x", "--", "true", scenario=scenario)
    assert (ended.code, "std::out_of_range" in ended.err, bench.databases()) == (-signal.SIGABRT, True, [])


def test_iterations_count_from_the_start_of_the_process_whatever_region_is_selected(bench):
    scenario = {"kernels": [{"name": "k", "count": 12}], "selected_rounds": [4, 6]}
    options = ("--selected-regions", "--pmc", "SQ_WAVES", "--kernel-iteration-range", "1-5")
    bench.run("rocprofv3", *options, "-o", "x", "--", "true", scenario=scenario)
    assert query(bench.work / "x_results.db", "SELECT dispatch_id FROM kernels") == [(5,)]


# Devices and processes


def test_iterations_are_counted_on_each_device(bench):
    scenario = {"agents_count": 2, "kernels": [{"name": "k", "count": 3}]}
    bench.run(
        "rocprofv3", "--pmc", "SQ_WAVES", "--kernel-iteration-range", "2", "-o", "x", "--", "true", scenario=scenario
    )
    rows = query(bench.work / "x_results.db", "SELECT agent_type_index, dispatch_id FROM kernels ORDER BY 1")
    assert rows == [(0, 3), (1, 4)]


def test_a_counter_can_be_asked_of_one_device(bench):
    scenario = {"agents_count": 2, "kernels": [{"name": "k", "count": 1}]}
    ended = bench.run("rocprofv3", "--pmc", "SQ_WAVES:device=1", "-o", "x", "--", "true", scenario=scenario)
    assert "Unable to find" not in ended.err
    assert query(bench.work / "x_results.db", "SELECT agent_type_index FROM kernels") == [(1,)]


def test_each_process_writes_a_file_of_its_own(bench):
    scenario = {"agents_count": 2, "processes_count": 2}
    bench.run("rocprofv3", "--kernel-trace", "-o", "r_%pid%", "--", "true", scenario=scenario)
    assert len(bench.databases()) == 2
    agents = {query(path, "SELECT DISTINCT agent_type_index FROM kernels")[0] for path in bench.databases()}
    assert agents == {(0,), (1,)}


def test_processes_of_one_name_lose_all_but_the_last(bench):
    scenario = {"agents_count": 2, "processes_count": 2}
    ended = bench.run("rocprofv3", "--kernel-trace", "-o", "r", "--", "true", scenario=scenario)
    assert len(list(announced(ended.err))) == 2
    assert len(bench.databases()) == 1
    assert query(bench.databases()[0], "SELECT DISTINCT agent_type_index FROM kernels") == [(1,)]


def test_process_without_kernels_leaves_no_file(bench):
    scenario = {"processes_count": 2, "kernels": [{"name": "k", "processes": [1]}]}
    bench.run("rocprofv3", "--kernel-trace", "-o", "r_%pid%", "--", "true", scenario=scenario)
    assert len(bench.databases()) == 1


def test_kernels_of_a_graph_share_one_launch(bench):
    scenario = {"kernels": [{"name": name, "count": 2, "launched_by": "hipGraphLaunch"} for name in ("a", "b")]}
    bench.run("rocprofv3", "--runtime-trace", "-o", "x", "--", "true", scenario=scenario)
    path = bench.work / "x_results.db"
    assert query(path, "SELECT count(*) FROM regions WHERE name = 'hipGraphLaunch'") == [(2,)]
    assert query(path, "SELECT count(DISTINCT stack_id) FROM kernels") == [(2,)]


# Kernel replay


def _replay_records(path: Path) -> list[tuple[int, int, list[str]]]:
    [tool] = json.loads(path.read_text())["rocprofiler-sdk-tool"]
    names = {counter["id"]["handle"]: counter["name"] for counter in tool["counters"]}
    return [
        (
            record["dispatch_data"]["dispatch_info"]["dispatch_id"],
            record["replay_pass"],
            sorted({names[value["counter_id"]["handle"]] for value in record["records"]}),
        )
        for record in tool["callback_records"]["counter_collection"]
    ]


def test_replay_runs_once_and_numbers_its_passes_in_json(make_bench):
    bench = make_bench(NEWEST)
    groups = ("--pmc", "SQ_WAVES", "TCC_HIT", "--pmc", "TCC_MISS")
    scenario = {"kernels": [{"name": "k", "count": 2}]}
    bench.run("rocprofv3", *groups, *REPLAY, "-f", "json", "-o", "x", "--", "true", scenario=scenario)
    assert [call["run"] for call in bench.calls() if "run" in call] == [1]
    assert bench.files() == ["x_results.json"]
    both, rest = ["SQ_WAVES", "TCC_HIT"], ["TCC_MISS"]
    assert _replay_records(bench.work / "x_results.json") == [(1, 0, both), (1, 1, rest), (2, 0, both), (2, 1, rest)]


def test_replay_takes_its_passes_for_iterations(make_bench):
    bench = make_bench(NEWEST)
    options = ("--pmc", "SQ_WAVES", "--pmc", "TCC_MISS", *REPLAY, "--kernel-iteration-range", "2-3")
    scenario = {"kernels": [{"name": "k", "count": 5}]}
    bench.run("rocprofv3", *options, "-f", "json", "-o", "x", "--", "true", scenario=scenario)
    records = _replay_records(bench.work / "x_results.json")
    assert records == [(1, 1, ["TCC_MISS"]), (2, 0, ["SQ_WAVES"])]


def test_replay_collapses_in_rocpd(make_bench):
    bench = make_bench(NEWEST)
    scenario = {"kernels": [{"name": "k", "count": 1}]}
    bench.run(
        *("rocprofv3", "--pmc", "SQ_WAVES", "--pmc", "SQ_WAVES", "TCC_MISS_sum", *REPLAY, "-o", "x", "--", "true"),
        scenario=scenario,
    )
    path = bench.work / "x_results.db"
    assert kernel_counts(path) == {"k": 1}
    assert counter_rows(path) == {"SQ_WAVES": (64, 2048.0), "TCC_MISS_sum": counter_rows(path)["TCC_MISS_sum"]}


def test_groups_of_an_input_file_take_turns(bench):
    jobs = {"jobs": [{"pmc_groups": [["SQ_WAVES"], ["TCC_HIT"]], "pmc_group_interval": 1}]}
    (bench.work / "jobs.json").write_text(json.dumps(jobs))
    scenario = {"kernels": [{"name": "a", "count": 2}, {"name": "b", "count": 2}]}
    bench.run("rocprofv3", "-i", "jobs.json", "-o", "x", "--", "true", scenario=scenario)
    rows = query(
        bench.work / "x_results.db", "SELECT DISTINCT kernel_name, counter_name FROM counters_collection ORDER BY 1"
    )
    assert rows == [("a", "SQ_WAVES"), ("b", "TCC_HIT")]


# The device


def test_slots_of_a_group():
    counters = load_counters("gfx950")
    names = ["SQ_WAVES", "TCC_HIT", "TCC_HIT_sum", "MeanOccupancyPerCU", "FETCH_SIZE", "CU_NUM"]
    events = hardware_events(names, counters)
    assert {block: len(found) for block, found in events.items()} == {"SQ": 3, "TCC": 4, "GRBM": 1}


@pytest.mark.parametrize("block", ["SQ", "TCC", "TCP", "TA", "TD", "TCA", "SPI", "GRBM", "CPC", "CPF"])
@pytest.mark.parametrize("architecture", ["gfx942", "gfx950"])
def test_capacity_is_the_limit(block, architecture):
    counters = load_counters(architecture)
    names = [name for name, counter in counters.items() if counter.block == block]
    limit = CAPACITY[block]
    assert fits_one_pass(names[:limit], counters)
    assert not fits_one_pass(names[: limit + 1], counters) or len(names) <= limit


def test_smaller_block_is_a_smaller_limit():
    counters = load_counters("gfx950")
    assert not fits_one_pass(["TCP_GATE_EN1", "TCP_GATE_EN2"], counters, "TCP=1")


@pytest.mark.parametrize(
    "given", [{"kernel": []}, {"kernels": [{"title": "k"}]}, {"ranges": [{"message": "m", "rounds": [0, 1], "x": 1}]}]
)
def test_scenario_with_a_wrong_key_is_refused(given):
    with pytest.raises(BadScenario):
        parse_scenario(given)


def test_wrong_fault_ends_with_a_code_of_its_own(bench):
    assert bench.run("rocprofv3", "--kernel-trace", "--", *app_command(), faults="no-such-fault").code == 99
