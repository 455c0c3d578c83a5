"""What a pass was asked for against what it left: each rule once where it must speak and once where it must not."""

from __future__ import annotations

from pathlib import Path

import pytest
from rocpd_files import rules
from spec_frames import make_counted, make_values

from rocktools.capture.expectations import (
    Expectation,
    check_counters,
    check_files,
    check_iterations,
    check_kernels,
    check_outliers,
    check_spill,
)
from rocktools.capture.iterations import parse_iterations
from rocktools.capture.kernel_filter import filter_names, filter_prefix
from rocktools.findings import Finding, Severity

FOLDER = Path("/run/pmc/fabric_1")
TRACE = Expectation(kind="trace")
REPLAY = Expectation(kind="replay", counters=("SQ_WAVES",), kernels=filter_prefix("loop"))


def counting(*counters: str, **options: object) -> Expectation:
    settings = {"kernels": filter_names(["loop_fusion_3"]), "names": ("loop_fusion_3",), **options}
    return Expectation(kind="counters", counters=counters or ("SQ_WAVES",), **settings)


def counted(*executions: tuple[str, int], process: str = "p1", agent: int = 4, replay_pass: int | None = None):
    """COUNTED_DISPATCHES with so many executions of each kernel, of one process on one device."""
    rows = []
    for number, (kernel, count) in enumerate(executions):
        for _ in range(count):
            rows.append(
                {
                    "process": process,
                    "dispatch_id": len(rows) + 1,
                    "kernel_id": number + 1,
                    "kernel_name": kernel,
                    "agent_id": agent,
                    "replay_pass": replay_pass,
                    "grid_workitems_x": 256,
                }
            )
    return make_counted(rows)


def valued(**values: list[float | None]):
    """COUNTER_VALUES with these values of each counter, for dispatches 1, 2, ...; None leaves the row out."""
    return make_values(
        [
            {"process": "p1", "dispatch_id": number, "counter": counter.replace("__", ":"), "value": value}
            for counter, given in values.items()
            for number, value in enumerate(given, start=1)
            if value is not None
        ]
    )


def severities(findings: list[Finding]) -> set[Severity]:
    return {finding.severity for finding in findings}


def test_announced_files_that_are_there_are_good():
    paths = [FOLDER / "1_results.db", FOLDER / "2_results.db"]
    assert check_files([(path, "u") for path in paths], paths, FOLDER, counting()) == []


def test_files_need_not_be_announced():
    assert check_files([], [FOLDER / "1_results.db"], FOLDER, TRACE) == []


def test_two_processes_on_one_file_are_a_fault():
    path = FOLDER / "1_results.db"
    [finding] = check_files([(path, "u1"), (path, "u2"), (path, "u3")], [path], FOLDER, TRACE)
    assert finding.rule == "processes-overwrote-each-other"
    assert finding.severity is Severity.FAULT
    assert finding.numbers == {"processes_count": 3}
    assert "1_results.db" in finding.message


def test_an_announced_database_that_is_not_there_is_a_fault():
    found = [FOLDER / "1_results.db"]
    [finding] = check_files([(FOLDER / "1_results.db", "u"), (FOLDER / "2_results.db", "v")], found, FOLDER, TRACE)
    assert finding.rule == "announced-file-missing"
    assert finding.severity is Severity.FAULT
    assert "2_results.db" in finding.message


def test_a_database_in_another_folder_is_missing_from_this_pass():
    findings = check_files([(Path("/elsewhere/1_results.db"), "u")], [FOLDER / "1_results.db"], FOLDER, TRACE)
    assert rules(findings) == ["announced-file-missing"]


def test_other_announced_formats_are_nobodys_business():
    announced = [(FOLDER / "1_kernel_trace.csv", None), (FOLDER / "1_results.pftrace", None)]
    assert check_files(announced, [FOLDER / "1_results.db"], FOLDER, TRACE) == []


def test_of_a_kernel_replay_the_json_must_be_there():
    path = FOLDER / "1_results.json"
    assert check_files([(path, None)], [path], FOLDER, REPLAY) == []
    assert rules(check_files([(path, None)], [FOLDER / "2_results.json"], FOLDER, REPLAY)) == ["announced-file-missing"]


def test_a_path_is_the_same_file_through_a_link(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    (real / "1_results.db").touch()
    assert check_files([(link / "1_results.db", "u")], [real / "1_results.db"], real, TRACE) == []


def test_no_database_names_what_was_not_counted():
    [finding] = check_files([], [], FOLDER, counting())
    assert finding.rule == "no-database"
    assert finding.severity is Severity.FAULT
    assert "kernels named loop_fusion_3" in finding.message
    [finding] = check_files([], [], FOLDER, TRACE)
    assert finding.rule == "no-database"
    assert "no process recorded anything" in finding.message


def test_the_kernels_that_were_asked_for_are_good():
    frame = counted(("loop_fusion_3", 2), ("loop_fusion_4", 1))
    both = ("loop_fusion_3", "loop_fusion_4")
    assert check_kernels(frame, counting(kernels=filter_names(both), names=both), "here") == []
    assert check_kernels(frame, counting(kernels=filter_prefix("loop"), names=()), "here") == []


def test_a_kernel_asked_for_by_name_must_be_counted():
    expectation = counting(kernels=filter_prefix("loop"), names=("loop_fusion_3", "loop_fusion_9"))
    [finding] = check_kernels(counted(("loop_fusion_3", 1)), expectation, "here")
    assert finding.rule == "kernel-missing"
    assert finding.severity is Severity.FAULT
    assert "loop_fusion_9" in finding.message


def test_kernels_that_nobody_asked_for_are_a_fault():
    strangers = tuple((f"gemm_{number}", 1) for number in range(7))
    [finding] = check_kernels(counted(("loop_fusion_3", 1), *strangers), counting(), "here")
    assert finding.rule == "unwanted-kernels"
    assert finding.severity is Severity.FAULT
    assert finding.numbers == {"kernels_count": 7}
    assert "gemm_4, ..." in finding.message
    assert "gemm_5" not in finding.message


def test_an_excluded_kernel_is_unwanted():
    expectation = counting(kernels=filter_prefix("loop", exclude="_4$"), names=())
    assert rules(check_kernels(counted(("loop_fusion_4", 1)), expectation, "here")) == ["unwanted-kernels"]


def test_a_trace_asks_for_no_kernel():
    assert check_kernels(counted(("anything", 1)), TRACE, "here") == []


def test_as_many_executions_as_asked_for_are_good():
    expectation = counting(iterations=parse_iterations("2-4"))
    assert check_iterations(counted(("loop_fusion_3", 3)), expectation, "here") == []


def test_fewer_executions_than_asked_for_are_a_warning():
    [finding] = check_iterations(counted(("loop_fusion_3", 2)), counting(iterations=parse_iterations("2-4")), "here")
    assert (finding.rule, finding.severity) == ("fewer-iterations-than-asked", Severity.WARNING)
    assert finding.numbers == {"counted_count": 2, "asked_count": 3}
    assert "loop_fusion_3 on agent 4" in finding.message


def test_more_executions_than_asked_for_are_a_fault():
    [finding] = check_iterations(counted(("loop_fusion_3", 4)), counting(iterations=parse_iterations("2-4")), "here")
    assert (finding.rule, finding.severity) == ("more-iterations-than-asked", Severity.FAULT)
    assert finding.numbers == {"counted_count": 4, "asked_count": 3}


def test_executions_are_counted_for_each_process_device_symbol_and_replay():
    """The tool counts per kernel symbol and device, and a job may load the same code twice."""
    rows = [
        {"process": process, "agent_id": agent, "kernel_id": symbol, "kernel_name": "k", "replay_pass": replay}
        for process in ("p1", "p2")
        for agent in (4, 5)
        for symbol in (1, 2)
        for replay in (1, 2)
    ]
    frame = make_counted([{"dispatch_id": number, **row} for number, row in enumerate(rows)])
    assert check_iterations(frame, counting(iterations=parse_iterations("10")), "here") == []
    assert len(check_iterations(frame, counting(iterations=parse_iterations("10-11")), "here")) == len(rows)


@pytest.mark.parametrize("iterations", [None, "1"])
def test_nothing_is_said_of_iterations_without_a_range_or_without_executions(iterations):
    expectation = counting(iterations=None if iterations is None else parse_iterations(iterations))
    frame = counted(("loop_fusion_3", 5)) if iterations is None else counted()
    assert check_iterations(frame, expectation, "here") == []


def test_counters_with_a_value_for_every_execution_are_good():
    values = valued(SQ_WAVES=[4.0, 8.0], TCC_HIT_sum=[1.0, 0.0])
    assert check_counters(values, 2, counting("SQ_WAVES", "TCC_HIT_sum"), "here") == []


def test_a_counter_without_a_value_is_missing_not_zero():
    findings = check_counters(valued(SQ_WAVES=[4.0]), 1, counting("SQ_WAVES", "TCC_HIT_sum"), "here")
    assert rules(findings) == ["counter-missing"]
    assert severities(findings) == {Severity.FAULT}
    assert "TCC_HIT_sum" in findings[0].message


def test_without_any_value_every_counter_is_missing():
    assert rules(check_counters(valued(), 3, counting("A", "B"), "here")) == ["counter-missing", "counter-missing"]


def test_a_counter_that_some_executions_lack_has_holes():
    [finding] = check_counters(valued(SQ_WAVES=[4.0, None, 4.0]), 3, counting("SQ_WAVES"), "here")
    assert (finding.rule, finding.severity) == ("counter-has-holes", Severity.FAULT)
    assert finding.numbers == {"values_count": 2, "executions_count": 3}


def test_a_counter_of_one_device_is_recorded_by_its_bare_name_and_may_lack_executions_of_others():
    values = valued(SQ_WAVES=[4.0], GRBM_COUNT=[9.0, 9.0])
    assert check_counters(values, 2, counting("SQ_WAVES:device=0", "GRBM_COUNT"), "here") == []
    assert rules(check_counters(values, 2, counting("TCC_HIT:device=0"), "here")) == ["counter-missing"]


def test_counters_that_are_all_zero_are_one_fault():
    [finding] = check_counters(valued(TCC_HIT_sum=[0.0, 0.0], SQ_LDS_BANK_CONFLICT=[0.0, 0.0]), 2, counting(), "here")[
        1:
    ]
    assert (finding.rule, finding.severity) == ("all-counters-zero", Severity.FAULT)
    assert finding.numbers == {"counters_count": 2}
    assert "SQ_LDS_BANK_CONFLICT, TCC_HIT_sum" in finding.message


NEVER_ZERO = (
    "GRBM_COUNT",
    "GRBM_GUI_ACTIVE",
    "GRBM_SPI_BUSY",
    "SQ_WAVES",
    "SQ_WAVES_sum",
    "SQ_WAVES[3]",
    "SQ_BUSY_CYCLES",
    "SQ_BUSY_CU_CYCLES",
    "SQ_WAVE_CYCLES",
    "SQ_INSTS",
)
MAY_BE_ZERO = (
    "SQ_INSTS_VALU_MFMA_F64",
    "SQ_LDS_BANK_CONFLICT",
    "SQ_VALU_MFMA_BUSY_CYCLES",
    "SQC_DCACHE_BUSY_CYCLES",
    "TA_TA_BUSY_sum",
    "TD_TD_BUSY_sum",
    "TCC_BUSY_avr",
    "CPC_CPC_UTCL2IU_BUSY",
    "GRBM_EA_BUSY",
    "SQ_WAVES_EQ_64",
    "SQ_WAVES_RESTORED",
    "TCP_PENDING_STALL_CYCLES_sum",
)


@pytest.mark.parametrize("name", NEVER_ZERO)
def test_zero_is_impossible_for_clocks_waves_and_instructions(name):
    values = valued(**{name: [0.0, 0.0], "TCC_HIT_sum": [1.0, 2.0]})
    [finding] = check_counters(values, 2, counting(name, "TCC_HIT_sum"), "here")
    assert (finding.rule, finding.severity) == ("counter-all-zero", Severity.FAULT)
    assert "impossible" in finding.message


@pytest.mark.parametrize("name", MAY_BE_ZERO)
def test_zero_is_doubtful_for_others(name):
    values = valued(**{name: [0.0, 0.0], "TCC_HIT_sum": [1.0, 2.0]})
    [finding] = check_counters(values, 2, counting(name, "TCC_HIT_sum"), "here")
    assert (finding.rule, finding.severity) == ("counter-all-zero", Severity.WARNING)


def test_one_execution_that_is_not_zero_is_enough():
    assert check_counters(valued(GRBM_COUNT=[0.0, 1.0]), 2, counting("GRBM_COUNT"), "here") == []


def test_a_sum_of_zero_with_instances_that_are_not_is_no_zero():
    values = make_values([{"dispatch_id": 1, "counter": "X", "sum_value": None, "min_value": 0.0, "max_value": 3.0}])
    assert check_counters(values, 1, counting("X"), "here") == []


@pytest.mark.parametrize(
    "numbers, outliers_count",
    [
        ([100, 101, 99, 100, 100], 0),
        ([100, 101, 99, 100, 1e12], 1),
        ([100, 101, 99, 100, 149], 0),
        ([100, 101, 99, 100, 151], 1),
        ([100, 120, 80, 140, 60, 500], 1),
        ([100, 120, 80, 140, 60, 300], 0),
        ([100, 1e12, 100, 100], 0),
        ([100, 100, 100, 100, 100, 0, 1e9], 2),
        ([0, 0, 0, 0, 0, 0, 0, 1], 0),
    ],
)
def test_a_value_absurdly_far_from_its_like_is_a_warning(numbers, outliers_count):
    frame = counted(("loop_fusion_3", len(numbers)))
    findings = check_outliers(valued(GRBM_COUNT=[float(number) for number in numbers]), frame, "here")
    if not outliers_count:
        assert findings == []
        return
    [finding] = findings
    assert (finding.rule, finding.severity) == ("counter-outliers", Severity.WARNING)
    assert finding.numbers == {"outliers_count": outliers_count, "executions_count": len(numbers)}
    assert "GRBM_COUNT of loop_fusion_3" in finding.message


def test_other_kernels_and_other_grids_are_not_compared():
    rows = [
        {"process": "p1", "dispatch_id": number, "kernel_name": kernel, "grid_workitems_x": grid}
        for number, (kernel, grid) in enumerate([("a", 64)] * 5 + [("a", 6400)] + [("b", 64)], start=1)
    ]
    values = valued(SQ_WAVES=[1.0, 1.0, 1.0, 1.0, 1.0, 100.0, 5e9])
    assert check_outliers(values, make_counted(rows), "here") == []


def test_grids_that_are_not_recorded_are_compared_with_each_other():
    rows = [{"process": "p1", "dispatch_id": number, "kernel_name": "a"} for number in range(1, 7)]
    values = valued(SQ_WAVES=[1.0, 1.0, 1.0, 1.0, 1.0, 5e9])
    assert rules(check_outliers(values, make_counted(rows), "here")) == ["counter-outliers"]


def test_temporary_files_that_are_left_tell_of_a_killed_process():
    assert check_spill(Path("/run/spill"), []) == []
    [finding] = check_spill(Path("/run/spill"), [Path("/run/spill/.rocprofv3/1-2-kernel.dat")])
    assert (finding.rule, finding.severity) == ("tool-was-killed", Severity.FAULT)
    assert finding.numbers == {"files_count": 1}


def test_the_inputs_are_left_as_they_are():
    frame, values = counted(("loop_fusion_3", 6)), valued(SQ_WAVES=[1.0, 1.0, 1.0, 1.0, 1.0, 5e9])
    before = frame.copy(), values.copy()
    check_kernels(frame, counting(), "here")
    check_iterations(frame, counting(iterations=parse_iterations("1")), "here")
    check_counters(values, 6, counting(), "here")
    check_outliers(values, frame, "here")
    assert frame.equals(before[0])
    assert values.equals(before[1])
