"""The summary of a small run: figures are those of the commands, to the last digit, and those of the truth."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_line import CommandLine
from rocpd_files import write_counter_pass, write_small_trace
from scoped_run import rank_trace, write_scoped_run

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.errors import InputError
from rocktools.evidence import Absence, Evidence
from rocktools.rundir import Manifest, create_run_directory, hash_file, write_manifest
from rocktools.summary import document as blocks
from rocktools.summary.build import build_summary
from rocktools.summary.build_counters import build_counters
from rocktools.summary.document import (
    PROVENANCE_FACTS,
    SCHEMA_FILE,
    Missing,
    Summary,
    parse_summary,
    render_summary,
    summary_document,
)
from rocktools.summary.gathered import Limits, SummaryOptions, gather
from rocktools.workspace.attributed import AttributionOptions

BLOCKS = tuple(each.name for each in dataclasses.fields(Summary) if "Missing" in str(each.type))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture(scope="module")
def document(scoped_summary: Summary) -> dict[str, Any]:
    return summary_document(scoped_summary)


def _only(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in names} for row in rows]


def test_document_keeps_its_schema_and_reads_back(scoped_summary: Summary, document: dict[str, Any]) -> None:
    jsonschema.validate(document, json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
    assert parse_summary(render_summary(scoped_summary), where="x") == scoped_summary


def test_same_files_give_the_same_bytes(scoped_run: Path, scoped_summary: Summary, options: SummaryOptions) -> None:
    later = build_summary([scoped_run], replace(options, generated_at_utc="2026-01-01T00:00:00+00:00"))
    assert later.generated_at_utc == "2026-01-01T00:00:00+00:00"
    assert render_summary(replace(later, generated_at_utc=None)) == render_summary(scoped_summary)


def test_no_path_of_the_machine_is_in_it(scoped_run: Path, scoped_summary: Summary) -> None:
    assert str(scoped_run.parent) not in render_summary(scoped_summary)


def test_simulated_run_says_so(scoped_summary: Summary) -> None:
    assert scoped_summary.is_simulated
    assert scoped_summary.title.startswith("SIMULATED: ")


# The same figures as the commands


def test_ledger_is_that_of_the_command(run: CommandLine, scoped_run: Path, document: dict[str, Any]) -> None:
    theirs, ours = run.document("ledger", scoped_run), document["ledger"]
    assert ours["total_sum_ns"] == theirs["total_sum_ns"]
    assert ours["places_count"] == theirs["places_count"]
    assert {table["name"] for table in ours["tables"]} == set(theirs["tables"])
    for table in ours["tables"]:
        names = [name for name in theirs["tables"][table["name"]][0] if name != "row_index"]
        assert _only(table["rows"], names) == _only(theirs["tables"][table["name"]], names)
    sums: Counter[tuple[str, str, str]] = Counter()
    for row in theirs["buckets"]:
        sums[row["activity"], row["phase"], row["component"]] += row["sum_ns"]
    assert {(each["activity"], each["phase"], each["component"]): each["sum_ns"] for each in ours["buckets"]} == sums


def test_overlap_is_that_of_the_command(run: CommandLine, scoped_run: Path, document: dict[str, Any]) -> None:
    theirs = run.rows("overlap", scoped_run)
    ours = document["overlap"]["steps"]
    assert _only(ours, list(ours[0])) == _only(theirs, list(ours[0]))
    mean = document["overlap"]["mean"]
    assert mean["busy_ns"] == sum(row["busy_ns"] for row in theirs) / len(theirs)
    assert mean["span_ns"] == pytest.approx(mean["busy_ns"] + mean["idle_ns"])


def test_spread_between_devices_is_that_of_the_command(
    run: CommandLine, scoped_run: Path, document: dict[str, Any]
) -> None:
    theirs = run.rows("ranks", "--part", "spread", scoped_run)
    ours = document["overlap"]["spread"]
    names = [name for name in ours[0] if name != "run"]
    assert _only(ours, names) == _only(theirs, names)


@pytest.mark.parametrize("by, name", [("operation", "operations"), ("kind", "kinds")])
def test_collectives_are_those_of_the_command(
    run: CommandLine, scoped_run: Path, document: dict[str, Any], by: str, name: str
) -> None:
    theirs, ours = run.rows("collectives", "--by", by, scoped_run), document["collectives"][name]
    assert _only(ours, list(ours[0])) == _only(theirs, list(ours[0]))


def test_gaps_are_those_of_the_command(run: CommandLine, scoped_run: Path, document: dict[str, Any]) -> None:
    ours, theirs = document["gaps"], run.rows("gaps", scoped_run)
    assert ours["before_total_count"] == len(theirs)
    names = [name for name in ours["before"][0] if name not in ("scope", "phase")]
    assert _only(ours["before"], names) == _only(theirs, names)[: len(ours["before"])]
    longest = run.rows("gaps", "--by", "gap", scoped_run)
    assert [each["duration_ns"] for each in ours["longest"]] == [each["duration_ns"] for each in longest][:100]
    assert ours["total_ns"] == sum(each["duration_ns"] for each in longest)
    idle = sum(row["idle_ns"] for row in run.rows("overlap", scoped_run))
    assert sum(each["total_ns"] for each in ours["causes"] if not each["is_between_steps"]) == idle


@pytest.mark.parametrize("by", ["component", "instruction", "kernel"])
def test_points_are_those_of_the_command(run: CommandLine, scoped_run: Path, document: dict[str, Any], by: str) -> None:
    theirs = run.rows("roofline", "--by", by, scoped_run)
    [table] = [each for each in document["roofline"]["tables"] if (each["by"], each["level"]) == (by, "hbm")]
    assert table["left_out_count"] == 0
    assert _only(table["points"], list(table["points"][0])) == _only(theirs, list(table["points"][0]))


# The truth


def test_operations_add_up_to_everything_that_ran(document: dict[str, Any]) -> None:
    trace = rank_trace(0, devices_count=2)
    durations = trace.dispatches["end_ns"] - trace.dispatches["start_ns"]
    ours = document["operations"]
    assert ours["total_sum_ns"] == int(durations.sum()) == document["ledger"]["total_sum_ns"]
    assert sum(each["rows_count"] for each in ours["operations"]) == len(trace.dispatches)
    by_instruction: Counter[str] = Counter()
    for name, duration in zip(trace.truth["instruction"].astype(str), durations, strict=True):
        by_instruction[name] += int(duration)
    found: Counter[str] = Counter()
    for each in ours["operations"]:
        found[each["instruction"]] += each["sum_ns"]
    assert found == by_instruction


def test_exclusive_time_is_at_most_the_union_and_the_union_at_most_the_sum(document: dict[str, Any]) -> None:
    for each in (*document["operations"]["operations"], *document["families"]["families"]):
        assert 0 <= each["exclusive_ns"] <= each["union_ns"] <= each["sum_ns"]
    exclusive = [each["exclusive_ns"] for each in document["operations"]["operations"]]
    assert exclusive == sorted(exclusive, reverse=True)


def test_executions_have_the_cost_of_the_program(document: dict[str, Any]) -> None:
    [gate] = [each for each in document["operations"]["operations"] if each["name"] == "loop_add_fusion.2"]
    # 3 steps, 3 microsteps, 5 layers, 2 devices, and one kernel for each execution.
    assert gate["rows_count"] == gate["executions_count"] == 90
    assert gate["executed_flop"] == 90 * gate["compute_flop"]
    assert gate["moved_bytes"] == 90 * (gate["read_bytes"] + gate["written_bytes"])
    assert gate["scope"] == "model/layers/router_gate"
    assert gate["op_name"].endswith("router_gate/add")
    # XLA reuses kernels: this one is called after another instruction.
    assert gate["kernel_names"] == ["loop_add_fusion_1"]
    assert len(gate["fingerprint"]) == 16


def test_families_are_all_operations(document: dict[str, Any]) -> None:
    families, operations = document["families"]["families"], document["operations"]
    assert sum(each["sum_ns"] for each in families) == operations["total_sum_ns"]
    assert sum(each["operations_count"] for each in families) == operations["operations_count"]
    assert sum(each["share_ratio"] for each in families) == pytest.approx(1)
    [experts] = [each for each in families if each["family"] == "moe_experts"]
    members = [each for each in operations["operations"] if each["component"] == "expert_mlp"]
    computing = [each for each in members if each["activity"] == "compute"]
    assert experts["compute_flop"] == sum(each["executed_flop"] or 0 for each in computing)


def test_regions_keep_the_phases_and_add_up(document: dict[str, Any]) -> None:
    regions = document["regions"]["regions"]
    assert sum(each["exclusive_ns"] for each in regions) == document["regions"]["total_sum_ns"]
    by_path = {(each["phase"], tuple(each["path"])): each for each in regions}
    forward, replayed = (by_path[phase, ("model", "layers", "wi_0")] for phase in ("forward", "rematerialized"))
    assert forward["rows_count"] == replayed["rows_count"] == 90
    assert ("backward", ("model", "layers", "wi_0")) not in by_path
    for (phase, path), each in by_path.items():
        inside = [by_path[key] for key in by_path if key[0] == phase and key[1] and key[1][:-1] == path]
        assert each["inclusive_ns"] == each["exclusive_ns"] + sum(other["inclusive_ns"] for other in inside)
        assert each["depth_count"] == len(path)
    places = list(by_path)
    assert all(places.index((phase, path[:-1])) < places.index((phase, path)) for phase, path in places if path)


def test_series_of_buckets_are_their_means_over_devices(document: dict[str, Any]) -> None:
    ledger = document["ledger"]
    assert ledger["series_steps"] == ["run:0", "run:1", "run:2"]
    for each in ledger["buckets"]:
        assert sum(each["series_ns"]) * ledger["devices_count"] == pytest.approx(each["sum_ns"])
        assert sum(each["series_ns"]) / 3 == pytest.approx(each["sum_per_step_ns"])


def test_step_of_the_job_is_that_of_its_slowest_device(document: dict[str, Any]) -> None:
    steps = document["steps"]
    for each in steps["series"]:
        samples = {
            device["device"]: next(s for s in device["samples"] if s["step_index"] == each["step_index"])
            for device in steps["devices"]
        }
        longest = max(sample["duration_ns"] for sample in samples.values())
        assert each["duration_ns"] == longest == samples[each["critical_device"]]["duration_ns"]
    assert steps["statistics"]["samples_count"] == 3
    assert steps["classes"] == []


def test_links_are_those_of_the_command(run: CommandLine, scoped_run: Path, document: dict[str, Any]) -> None:
    theirs = run.rows("link", "--part", "coverage", scoped_run)
    ours = document["quality"]["links"]
    names = ("method", "confidence", "dispatches_count", "total_ns")
    assert sorted(tuple(each[name] for name in names) for each in ours) == sorted(
        tuple(each[name] for name in names) for each in theirs
    )
    assert sum(each["time_ratio"] for each in ours) == pytest.approx(1)


# What is not there


def test_every_missing_block_and_fact_has_a_reason(scoped_summary: Summary) -> None:
    missing = {name for name in BLOCKS if isinstance(getattr(scoped_summary, name), Missing)}
    assert missing == {"step_log", "throughput", "counters", "memory"}
    assert all(getattr(scoped_summary, name).reason for name in missing)
    facts = {**scoped_summary.provenance.facts, **scoped_summary.metadata.job}
    assert set(scoped_summary.provenance.facts) == set(PROVENANCE_FACTS)
    for name, fact in facts.items():
        assert (fact.value is None) == (fact.missing is not None), name
        assert (fact.value is None) == (fact.evidence is None), name


def test_every_number_of_a_row_has_an_evidence(document: dict[str, Any]) -> None:
    """Its row's, or its block's: for all of it, and for the fields that differ."""
    for name in ("overlap", "operations", "families", "collectives", "gaps", "regions"):
        assert document[name]["evidence"] == Evidence.MEASURED.value
    of_rows = {
        "operations": (blocks.Operation,),
        "families": (blocks.Family,),
        "collectives": (blocks.Collective, blocks.CollectiveKind, blocks.ArrivalSkew, blocks.OperationSkew),
    }
    for name, kinds in of_rows.items():
        members = {each.name for kind in kinds for each in dataclasses.fields(kind)}
        assert set(document[name]["evidence_of"]) <= members
    assert document["operations"]["evidence_of"]["compute_flop"] == Evidence.COMPILER_ESTIMATE.value
    assert all(row["evidence"] or row["state"] for table in document["ledger"]["tables"] for row in table["rows"])


def test_trace_without_a_program_has_times_and_no_attribution(tmp_path: Path, options: SummaryOptions) -> None:
    found = build_summary([write_small_trace(tmp_path / "1_results.db")], options)
    assert isinstance(found.operations, blocks.OperationsBlock)
    assert all(each.instruction is None and each.fingerprint is None for each in found.operations.operations)
    assert isinstance(found.roofline, Missing)
    assert found.quality.overview.linked_ratio is None
    assert "no-program-to-attribute" in {each.rule for each in found.quality.findings}


def test_counter_pass_alone_has_quantities_and_no_times(tmp_path: Path, options: SummaryOptions) -> None:
    found = build_summary([write_counter_pass(tmp_path / "1_results.db")], options)
    assert isinstance(found.counters, blocks.CountersBlock)
    assert {each.origin for each in found.counters.quantities} == {"job"}
    for name in ("steps", "ledger", "overlap", "operations", "gaps", "roofline"):
        block = getattr(found, name)
        assert isinstance(block, Missing), name
        assert block.absence is Absence.NOT_COLLECTED
    assert found.candidates == ()


def test_quantities_are_those_of_the_command(run: CommandLine, tmp_path: Path, options: SummaryOptions) -> None:
    path = write_counter_pass(tmp_path / "1_results.db")
    found = build_summary([path], options)
    assert isinstance(found.counters, blocks.CountersBlock)
    ours = {(each.kernel_name, each.quantity): each.value for each in found.counters.quantities}
    rows = run.rows("metrics", path)
    theirs = {(row["kernel_name"], row["quantity"]): row["value"] for row in rows if row["value"] is not None}
    assert ours == theirs
    absent = {(each.quantity, each.absence.value, each.lacking) for each in found.counters.absent}
    assert absent == {(row["quantity"], row["absence"], row["lacking"]) for row in rows if row["value"] is None}


def test_replay_in_a_run_is_unproven_until_a_proof_says_more(tmp_path: Path) -> None:
    run = create_run_directory(tmp_path / "run")
    (run / "trace").mkdir()
    write_small_trace(run / "trace" / "1_results.db")
    write_manifest(run, Manifest(argv=("test",), created_utc="", is_simulated=True))
    folder = run / "replays" / "gemm"
    (folder / "pmc").mkdir(parents=True)
    write_counter_pass(folder / "pmc" / "1_results.db")
    gathered = gather([run], AttributionOptions(component_map=read_shipped_map("maxtext")))

    def proofs() -> set[tuple[str, str | None]]:
        block = build_counters(gathered, [run], (), limit=100).block
        assert isinstance(block, blocks.CountersBlock)
        return {(each.origin, each.proof) for each in block.quantities}

    assert proofs() == {("replay:gemm", "unproven")}
    (folder / "proof.json").write_text('{"schema": "rocktools.proof/1", "level": "identical"}', encoding="utf-8")
    assert proofs() == {("replay:gemm", "identical")}
    (folder / "proof.json").write_text('{"schema": "other/1", "level": "identical"}', encoding="utf-8")
    assert proofs() == {("replay:gemm", "unproven")}


def test_long_lists_are_cut_and_still_add_up(scoped_run: Path, options: SummaryOptions) -> None:
    limits = Limits(operations_count=2, gaps_count=3, regions_count=4, places_count=1, points_count=1)
    found = build_summary([scoped_run], replace(options, limits=limits))
    operations = found.operations
    assert isinstance(operations, blocks.OperationsBlock)
    assert operations.rest is not None
    assert len(operations.operations) == 2
    assert operations.rest.sum_ns + sum(each.sum_ns for each in operations.operations) == operations.total_sum_ns
    assert operations.rest.operations_count + 2 == operations.operations_count
    assert isinstance(found.regions, blocks.RegionsBlock)
    assert (len(found.regions.regions), found.regions.left_out_count) == (4, 22)
    assert isinstance(found.overlap, blocks.OverlapBlock)
    assert (len(found.overlap.steps), found.overlap.steps_total_count) == (1, 6)


def test_hashes_are_those_of_the_files_and_may_be_left_out(
    scoped_run: Path, scoped_summary: Summary, options: SummaryOptions
) -> None:
    roles = {each.role: each for each in scoped_summary.provenance.inputs}
    assert set(roles) == {"trace", "manifest", "program"}
    assert roles["trace"].path == "run/trace/rank_0_results.db"
    assert roles["trace"].sha256 == hash_file(scoped_run / "trace/rank_0_results.db")
    assert scoped_summary.provenance.inputs_sha256 is not None
    found = build_summary([scoped_run], replace(options, hashes_inputs=False)).provenance
    assert found.inputs_sha256 is None
    assert all(each.sha256 is None and each.missing for each in found.inputs)


def test_two_ranks_of_a_job_are_one_summary(run: CommandLine, tmp_path: Path, options: SummaryOptions) -> None:
    job = write_scoped_run(tmp_path / "job", ranks=range(2))
    found = build_summary([job], options)
    theirs = run.document("ledger", job)  # measured file by file
    assert isinstance(found.ledger, blocks.LedgerBlock)
    assert found.ledger.total_sum_ns == theirs["total_sum_ns"]
    rows = {row["row"]: row["mean_ns"] for row in theirs["tables"]["phases"]}
    assert {each.row: each.mean_ns for each in found.ledger.tables[0].rows} == rows
    assert (found.metadata.hosts_count, found.metadata.devices_count) == (2, 2)


def test_what_cannot_be_read_is_an_error_and_no_empty_summary(tmp_path: Path, options: SummaryOptions) -> None:
    with pytest.raises(InputError):
        build_summary([tmp_path / "none"], options)
    with pytest.raises(InputError):
        build_summary([tmp_path], options)
