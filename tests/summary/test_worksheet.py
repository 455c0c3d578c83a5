"""The component worksheet of a small run: every cell answered, and its figures counted again from the rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scoped_run import LAYERS, MICROSTEPS, WORKLOAD
from tiny_run import tiny_trace, write_tiny_run

from rocktools.analytic.occurrences import parse_workload
from rocktools.devices.device import Level
from rocktools.devices.files import read_device
from rocktools.errors import NothingToRead, UsageError
from rocktools.evidence import Absence, Evidence
from rocktools.summary.document import Missing, Summary
from rocktools.summary.gathered import Gathered, SummaryOptions, gather
from rocktools.summary.worksheet import (
    WorksheetOptions,
    build_run_worksheet,
    build_summary_worksheet,
    timing_of,
)
from rocktools.summary.worksheet_cells import ranges_of
from rocktools.summary.worksheet_document import Column, Field, Place, Worksheet, WorksheetRow, worksheet_json
from rocktools.summary.worksheet_facts import facts_of_summary
from rocktools.summary.worksheet_run import RunRows, refine_facts
from rocktools.summary.worksheet_useful import UsefulRequest
from rocktools.workspace.counted_work import quantities_of

MIXTRAL = UsefulRequest(model="mixtral-8x22b", tokens_count=262_144, sequence_tokens=4_096, devices_count=8)
EXECUTIONS = MICROSTEPS * LAYERS  # of an instruction in the inner loop, in one step on one device
ELEMENTS = 64 * 128  # of the one array that every instruction reads and writes


@pytest.fixture(scope="session")
def worksheet(scoped_run: Path, options: SummaryOptions) -> Worksheet:
    workload = parse_workload(WORKLOAD.replace("DEVICES", "2"), source="test")
    return build_run_worksheet([scoped_run], options, WorksheetOptions(workload=workload, useful=MIXTRAL))[0]


@pytest.fixture(scope="session")
def gathered(scoped_run: Path, options: SummaryOptions) -> Gathered:
    return gather([scoped_run], options.attribution)


def row_of(worksheet: Worksheet, component: str, phase: str) -> WorksheetRow:
    (found,) = (each for each in worksheet.rows if (each.component, each.phase) == (component, phase))
    return found


def value_of(row: WorksheetRow, field: Field, column: Column, name: str) -> Any:
    cell = row.find(field, column, name)
    assert cell is not None, (field, column, name)
    assert cell.state == "", cell
    return cell.value


# Every cell is answered


def test_every_row_answers_every_question_twice(worksheet: Worksheet) -> None:
    for row in worksheet.rows:
        assert {(cell.field, cell.column) for cell in row.cells} == {
            (field, column) for field in Field for column in Column
        }


def test_cell_has_a_value_with_evidence_or_a_state_and_never_both(
    worksheet: Worksheet, scoped_summary: Summary
) -> None:
    for sheet in (worksheet, build_summary_worksheet(scoped_summary, WorksheetOptions())):
        for row in sheet.rows:
            for cell in row.cells:
                assert (cell.value is None) == bool(cell.state), cell
                assert (cell.evidence is None) == bool(cell.state), cell
                assert not cell.state or cell.note, cell


def test_rows_are_all_buckets_of_the_ledger_and_the_rows_that_have_words(
    worksheet: Worksheet, scoped_summary: Summary
) -> None:
    ledger = scoped_summary.ledger
    assert not isinstance(ledger, Missing)
    with_time = {(each.component, each.phase) for each in ledger.buckets}
    assert {(row.component, row.phase) for row in worksheet.rows if not row.state} == with_time
    words = {(row.component, row.phase): row.state for row in worksheet.rows if row.state}
    assert words["Layer input", "forward"] == "attribution boundary"
    assert words["pre_attention_norm", "forward"] == "fused into adjacent work"
    assert words["residual", "forward"] == "not separately measurable"


def test_document_is_json_with_full_values(worksheet: Worksheet) -> None:
    document = json.loads(json.dumps(worksheet_json(worksheet), allow_nan=False))
    assert document["schema"] == "rocktools.worksheet/1"
    assert document["is_simulated"] is True
    assert {cell["column"] for row in document["rows"] for cell in row["cells"]} == {"profile_hlo", "rocm"}


# Figures, counted again


def _union(intervals: list[tuple[int, int]]) -> int:
    """Instants that any covers, one by one."""
    covered: set[int] = set()
    for start, end in intervals:
        covered.update(range(start, end))
    return len(covered)


@pytest.mark.parametrize(
    "component, phase", [("expert_mlp", "forward"), ("expert_mlp", "backward"), ("attention", "backward")]
)
def test_device_time_is_the_union_on_the_critical_device(
    worksheet: Worksheet, gathered: Gathered, component: str, phase: str
) -> None:
    place = worksheet.place
    assert isinstance(place, Place)
    assert not isinstance(gathered.timed, Missing)
    rows = gathered.timed.rows
    mine = rows[
        ((rows["component"] == component) & (rows["phase"] == phase) & (rows["device"] == place.device)).to_numpy()
    ]
    by_step = {
        int(step): _union(list(zip(own["start_ns"].tolist(), own["end_ns"].tolist(), strict=True)))
        for step, own in mine.groupby("step_index", observed=True)
    }
    row = row_of(worksheet, component, phase)
    assert value_of(row, Field.TIME, Column.ROCM, "step_union_ns") == by_step[place.step_index]
    mean = sum(by_step.values()) / len(by_step)
    assert value_of(row, Field.TIME, Column.ROCM, "critical_union_per_step_ns") == pytest.approx(mean)
    here = mine[(mine["step_index"] == place.step_index).to_numpy()]
    assert value_of(row, Field.TIME, Column.ROCM, "first_start_ns") == int(here["start_ns"].min())
    assert value_of(row, Field.TIME, Column.ROCM, "last_end_ns") == int(here["end_ns"].max())
    launched = here[(here["kind"] == "dispatch").to_numpy()]
    assert value_of(row, Field.OCCURRENCES, Column.ROCM, "dispatches_count") == len(launched)
    text = value_of(row, Field.OCCURRENCES, Column.ROCM, "dispatch_ids")
    assert text == ranges_of(sorted(int(each) for each in launched["event_id"]))


def test_critical_device_is_busy_longest_and_the_step_is_next_to_the_median(
    worksheet: Worksheet, scoped_summary: Summary
) -> None:
    place, overlap, steps = worksheet.place, scoped_summary.overlap, scoped_summary.steps
    assert isinstance(place, Place)
    assert not isinstance(overlap, Missing)
    assert not isinstance(steps, Missing)
    assert place.device == max(overlap.devices, key=lambda each: each.busy_ns).device
    durations = {each.step_index: each.duration_ns for each in steps.series if each.is_counted}
    middle = float(np.median(list(durations.values())))
    assert abs(durations[place.step_index] - middle) == min(abs(each - middle) for each in durations.values())


def test_occurrences_are_trip_counts_of_the_loops_and_what_was_found(worksheet: Worksheet) -> None:
    row = row_of(worksheet, "expert_mlp", "forward")  # wi_0, once in each layer of each microstep
    assert value_of(row, Field.OCCURRENCES, Column.HLO, "loop_body_executions_count") == EXECUTIONS
    assert value_of(row, Field.OCCURRENCES, Column.ROCM, "compute_found_per_step_count") == EXECUTIONS
    assert value_of(row, Field.OCCURRENCES, Column.HLO, "expected_per_step_count") == EXECUTIONS
    assert worksheet.unmet == ()


def test_expectation_that_is_not_met_is_told(scoped_run: Path, options: SummaryOptions) -> None:
    text = WORKLOAD.replace("DEVICES", "2").replace(f"layers: {LAYERS}", f"layers: {LAYERS + 1}")
    chosen = WorksheetOptions(
        workload=parse_workload(text, source="test"), components=("expert_mlp",), phases=("forward",)
    )
    found, _ = build_run_worksheet([scoped_run], options, chosen)
    assert found.unmet == ("wi_0 forward",)
    cell = row_of(found, "expert_mlp", "forward").find(Field.OCCURRENCES, Column.HLO, "expected_per_step_count")
    assert cell is not None
    assert (cell.value, "15 found, NOT met" in cell.note) == (MICROSTEPS * (LAYERS + 1), True)


def test_executed_flops_and_bytes_are_those_of_the_program(worksheet: Worksheet) -> None:
    """A negation of f32[64,128]: one FLOP for an element, four bytes read and four written."""
    row = row_of(worksheet, "expert_mlp", "forward")
    assert value_of(row, Field.EXECUTED_FLOP, Column.HLO, "executed_per_step_flop") == EXECUTIONS * ELEMENTS
    assert value_of(row, Field.HBM_BYTES, Column.HLO, "moved_per_step_bytes") == EXECUTIONS * ELEMENTS * 8
    assert value_of(row, Field.INTENSITY, Column.HLO, "intensity_flop_per_byte") == 1 / 8
    cell = row.find(Field.EXECUTED_FLOP, Column.HLO, "executed_per_step_flop")
    assert cell is not None
    assert cell.evidence is Evidence.COMPILER_ESTIMATE
    counted = row.find(Field.EXECUTED_FLOP, Column.ROCM, "executed_flop")
    assert counted is not None
    assert counted.state == "not_collected"
    assert "rocktools pmc" in counted.note


def test_efficiency_is_the_least_time_of_the_bytes_over_the_union(worksheet: Worksheet) -> None:
    row = row_of(worksheet, "expert_mlp", "forward")
    time = value_of(row, Field.TIME, Column.ROCM, "compute_union_per_step_ns")
    least = EXECUTIONS * ELEMENTS * 8 / 8e12 * 1e9  # at 8 TB/s
    assert value_of(row, Field.EFFICIENCY, Column.HLO, "roof_ratio") == pytest.approx(least / time)
    assert value_of(row, Field.EFFICIENCY, Column.HLO, "bandwidth_bytes_per_s") == 8e12


def test_communication_is_payload_times_executions(worksheet: Worksheet) -> None:
    row = row_of(worksheet, "dispatch", "forward")  # one all-to-all in each layer of each microstep
    payload = value_of(row, Field.COMMUNICATION_BYTES, Column.HLO, "payload_per_step_bytes")
    assert payload == EXECUTIONS * ELEMENTS * 4
    assert "all-to-all" in value_of(row, Field.COMMUNICATION_BYTES, Column.HLO, "collectives")
    rccl = row.find(Field.COMMUNICATION_BYTES, Column.ROCM, "communication_bytes")
    assert rccl is not None
    assert rccl.state == "not_collected"
    compute = row.find(Field.EXECUTED_FLOP, Column.HLO, "executed_flop")
    assert compute is not None
    assert compute.state == "no standalone operation"


def test_shapes_come_from_the_program_and_launches_from_the_trace(worksheet: Worksheet, gathered: Gathered) -> None:
    row = row_of(worksheet, "expert_mlp", "forward")
    assert value_of(row, Field.SHAPES, Column.HLO, "results") == "f32[64,128]{1,0}"
    assert value_of(row, Field.SHAPES, Column.HLO, "dtype") == "f32"
    assert value_of(row, Field.SHAPES, Column.HLO, "operands").endswith("(f32[64,128]{1,0}) -> f32[64,128]{1,0}")
    assert not isinstance(gathered.timed, Missing)
    dispatches = gathered.timed.runs.dispatches
    one = dispatches[(dispatches["kernel_name"] == "gemm_fusion_dot_1").to_numpy()].iloc[0]
    launch = value_of(row, Field.SHAPES, Column.ROCM, "launches")
    assert launch.startswith(f"gemm_fusion_dot_1: grid {one['grid_workitems_x']}x{one['grid_workitems_y']}x")
    assert f"workgroup {one['workgroup_workitems_x']}x" in launch


def test_ids_and_scopes_are_those_of_the_operations(worksheet: Worksheet) -> None:
    row = row_of(worksheet, "expert_mlp", "forward")
    assert value_of(row, Field.SCOPE, Column.HLO, "instructions") == "gemm_fusion_dot.1"
    assert value_of(row, Field.SCOPE, Column.HLO, "scope") == "model/layers/wi_0"
    assert value_of(row, Field.SCOPE, Column.ROCM, "kernels") == "gemm_fusion_dot_1"


def test_time_of_a_trace_is_not_passed_off_as_that_of_a_profile(worksheet: Worksheet) -> None:
    for row in worksheet.rows:
        if not row.state:
            cell = row.find(Field.TIME, Column.HLO, "device_time")
            assert cell is not None
            assert (cell.state, "no JAX profile" in cell.note) == ("not_collected", True)


# Useful FLOPs


def test_useful_flops_are_the_ledger_of_the_source_document(worksheet: Worksheet) -> None:
    """Mixtral 8x22B, 262,144 tokens: experts 53.199 PFLOP of which a third is forward, attention 7.758 + 2.217."""
    forward = row_of(worksheet, "expert_mlp", "forward")
    backward = row_of(worksheet, "expert_mlp", "backward")
    ahead = value_of(forward, Field.USEFUL_FLOP, Column.HLO, "useful_flop")
    assert ahead == pytest.approx(53.199e15 / 3, rel=1e-4)
    assert value_of(backward, Field.USEFUL_FLOP, Column.HLO, "useful_flop") == 2 * ahead
    attention = value_of(row_of(worksheet, "attention", "forward"), Field.USEFUL_FLOP, Column.HLO, "useful_flop")
    assert attention == pytest.approx((7.758e15 + 2.217e15) / 3, rel=1e-3)
    assert value_of(forward, Field.USEFUL_FLOP, Column.ROCM, "useful_flop") == ahead
    replayed = row_of(worksheet, "expert_mlp", "rematerialized")
    assert value_of(replayed, Field.USEFUL_FLOP, Column.HLO, "useful_flop") == 0
    norm = row_of(worksheet, "dispatch", "forward").find(Field.USEFUL_FLOP, Column.HLO, "useful_flop")
    assert norm is not None
    assert norm.state == "not counted by convention"


def test_useful_rate_is_flops_of_a_device_over_its_compute_and_an_impossible_one_is_told(worksheet: Worksheet) -> None:
    row = row_of(worksheet, "expert_mlp", "forward")
    flop = value_of(row, Field.USEFUL_FLOP, Column.HLO, "useful_flop")
    time_s = value_of(row, Field.TIME, Column.ROCM, "compute_sum_per_step_ns") / 1e9
    rate = value_of(row, Field.USEFUL_FLOP, Column.HLO, "useful_flop_per_s")
    assert rate == pytest.approx(flop / 8 / time_s)
    assert value_of(row, Field.USEFUL_FLOP, Column.HLO, "useful_of_peak_ratio") == pytest.approx(rate / 2.5165824e15)
    cell = row.find(Field.USEFUL_FLOP, Column.HLO, "useful_flop_per_s")
    assert cell is not None
    assert "impossible, so model, tokens or devices are not those of this run" in cell.note


@pytest.mark.parametrize(
    "given, option", [({"tokens_count": None}, "--tokens"), ({"sequence_tokens": None}, "--sequence")]
)
def test_useful_flops_of_unknown_tokens_are_refused(
    scoped_summary: Summary, given: dict[str, None], option: str
) -> None:
    with pytest.raises(UsageError) as caught:
        build_summary_worksheet(scoped_summary, WorksheetOptions(useful=replace(MIXTRAL, **given)))
    assert caught.value.reference == "useful-flop-of-what"
    assert option in str(caught.value.hint)


# Counters


def test_counters_fill_the_column_of_rocm(scoped_summary: Summary, gathered: Gathered) -> None:
    """wi_0 forward runs 15 times a step; counted: 3000 FLOPs, 500 bytes read and 100 written in each of them."""
    values = {"fabric_bytes": 600.0, "total_flop": 3000.0, "valu_flop_f32": 3000.0}
    values = dict.fromkeys(quantities_of(Level.HBM), 0.0) | values
    values |= {"fabric_read_bytes": 500.0, "fabric_write_bytes": 100.0}
    frame = pd.DataFrame(
        [
            {
                "run": "r", "role": "process 0", "device_index": 0, "kernel_name": "gemm_fusion_dot_1",
                "ordinal": pd.NA, "quantity": name, "value": value, "evidence": "counter", "dispatches_count": 2,
                "min_value": value, "max_value": value,
            }
            for name, value in values.items()
        ]
    )  # fmt: skip
    ledger = scoped_summary.ledger
    assert not isinstance(ledger, Missing)
    assert not isinstance(gathered.timed, Missing)
    rows = RunRows(
        timed=gathered.timed,
        metrics=SimpleNamespace(frame=frame),  # type: ignore[arg-type]
        device=read_device("MI355X"),
        workload=None,
    )
    facts = refine_facts(facts_of_summary(scoped_summary, ledger), rows, None, ledger.places_count)
    found = facts["forward", "expert_mlp"]
    assert found.counted is not None
    assert found.counted.flop == EXECUTIONS * 3000
    assert found.counted.moved_bytes == EXECUTIONS * 600
    assert found.counted.intensity == 5.0
    assert found.counted.flop_evidence is Evidence.COUNTER
    assert (found.read_bytes, found.written_bytes) == (EXECUTIONS * 500, EXECUTIONS * 100)
    assert found.estimated is not None
    assert found.estimated.flop == EXECUTIONS * ELEMENTS
    # Of kernels that were not counted nothing is known by counters, and nothing is 0.
    other = facts["forward", "combine"]
    assert other.read_bytes is None
    assert other.counted is None or other.counted.flop is None


# A summary alone


def test_summary_alone_agrees_where_it_knows_and_says_where_it_does_not(
    worksheet: Worksheet, scoped_summary: Summary
) -> None:
    alone = build_summary_worksheet(scoped_summary, WorksheetOptions())
    assert alone.basis == "summary"
    assert isinstance(alone.place, Missing)
    assert [(row.component, row.phase) for row in alone.rows] == [(row.component, row.phase) for row in worksheet.rows]
    for row in alone.rows:
        other = row_of(worksheet, row.component, row.phase)
        for cell in row.cells:
            beside = other.find(cell.field, cell.column, cell.name)
            if cell.state or beside is None or beside.state:
                continue
            if isinstance(cell.value, float):
                assert cell.value == pytest.approx(beside.value), cell
            else:
                assert cell.value == beside.value, cell
    missing = row_of(alone, "expert_mlp", "forward").find(Field.OCCURRENCES, Column.ROCM, "dispatch_ids")
    assert missing is not None
    assert (missing.state, "rocktools worksheet RUN" in missing.note) == ("not_collected", True)


def test_component_that_is_not_there_is_refused_with_those_like_it(scoped_summary: Summary) -> None:
    with pytest.raises(UsageError) as caught:
        build_summary_worksheet(scoped_summary, WorksheetOptions(components=("expert_mpl",)))
    assert caught.value.hint == "expert_mlp"
    only = build_summary_worksheet(scoped_summary, WorksheetOptions(components=("attention",), phases=("forward",)))
    assert [(row.component, row.phase) for row in only.rows] == [("attention", "forward")]


def test_summary_without_a_ledger_has_no_worksheet(scoped_summary: Summary) -> None:
    bare = replace(scoped_summary, ledger=Missing(absence=Absence.NOT_COLLECTED, reason="no times"))
    with pytest.raises(NothingToRead, match="no-ledger-for-worksheet"):
        build_summary_worksheet(bare, WorksheetOptions())


# Timing


def _timed(run: Path, options: SummaryOptions, folder: Path, seconds: list[float]) -> Worksheet:
    log = folder / "steps.csv"
    log.write_text("step,seconds\n" + "".join(f"{at},{each}\n" for at, each in enumerate(seconds)), encoding="utf-8")
    chosen = replace(options, step_log=log, log_warmup_steps_count=2)
    return build_run_worksheet([run], chosen, WorksheetOptions(components=("attention",)))[0]


def test_timing_is_of_the_unprofiled_log_after_its_warm_up(
    scoped_run: Path, options: SummaryOptions, tmp_path: Path
) -> None:
    timing = _timed(scoped_run, options, tmp_path, [9.0, 9.0, 2.0, 2.1, 2.2, 2.3, 2.0]).timing
    assert not isinstance(timing, Missing)
    assert (timing.step_ns, timing.statistic, timing.samples_count) == (2.1e9, "median", 5)
    assert timing.iqr_ns == pytest.approx(0.2e9)
    assert timing.warmup_steps_count == 2
    assert timing.tokens_per_s is None  # nobody said how many tokens a step has
    assert timing.throughput_reason
    assert timing.profiled_step_ns is not None
    assert timing.difference_ratio == pytest.approx(timing.profiled_step_ns / 2.1e9 - 1)


def test_one_sample_is_one_sample(scoped_run: Path, options: SummaryOptions, tmp_path: Path) -> None:
    timing = _timed(scoped_run, options, tmp_path, [9.0, 9.0, 2.0]).timing
    assert not isinstance(timing, Missing)
    assert (timing.statistic, timing.samples_count) == ("sample", 1)
    assert (timing.iqr_ns, timing.spread_ratio, timing.min_ns, timing.max_ns) == (None, None, None, None)


def test_profiled_steps_alone_are_no_timing(scoped_summary: Summary) -> None:
    assert isinstance(timing_of(scoped_summary), Missing)


@pytest.mark.parametrize(
    "numbers, text",
    [
        ([3], "3"),
        ([3, 4, 5], "3-5"),
        ([1, 3, 4, 9], "1, 3-4, 9"),
        (list(range(0, 40, 2)), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, and 8 more ranges"),
    ],
)
def test_numbers_are_shown_as_ranges(numbers: list[int], text: str) -> None:
    assert ranges_of(numbers) == text


# A JAX profile alone


def test_what_only_a_profile_says_stands_in_its_column(tmp_path: Path, options: SummaryOptions) -> None:
    run = write_tiny_run(tmp_path / "run", profile=tiny_trace())
    sheet, _ = build_run_worksheet([run], options, WorksheetOptions())
    timed = [row for row in sheet.rows if not row.state]
    assert timed
    for row in timed:
        for field in (Field.SCOPE, Field.SHAPES, Field.TIME):
            states = {cell.state for cell in row.cells if (cell.field, cell.column) == (field, Column.ROCM)}
            assert states == {"not_collected"}, field
        assert row.find(Field.TIME, Column.HLO, "critical_union_per_step_ns") is not None
        ids = row.find(Field.OCCURRENCES, Column.ROCM, "dispatch_ids")
        assert ids is not None
        assert "no trace of rocprofv3" in ids.note
