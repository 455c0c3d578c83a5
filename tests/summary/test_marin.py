"""The shape of `profile_summary.v1`: every member is there with the type that its readers expect."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from rocktools.evidence import Absence
from rocktools.summary.document import Missing, OverlapBlock, StepClass, Steps, Summary
from rocktools.summary.marin import marin_document

TEXT, NUMBER, COUNT, FLAG = (str,), (int, float), (int,), (bool,)
OPTIONAL = type(None)
_STATISTICS = {"count": COUNT, **dict.fromkeys(("mean", "median", "p90", "min", "max"), (*NUMBER, OPTIONAL))}
_PART = {"total_duration": NUMBER, "share_of_total": NUMBER}
SHAPE: dict[str, Any] = {
    "schema_version": TEXT,
    "generated_at_utc": TEXT,
    "source_format": TEXT,
    "source_path": TEXT,
    "run_metadata": {
        **dict.fromkeys(
            ("run_path", "run_id", "artifact_ref", "artifact_name", "hardware_type", "mesh_or_topology", "git_sha",
             "config_hash"), (str, OPTIONAL)),
        "num_devices": (int, OPTIONAL),
        "num_hosts": (int, OPTIONAL),
    },
    "trace_overview": {
        "display_time_unit": TEXT,
        **dict.fromkeys(("num_events_total", "num_complete_events", "num_processes", "num_threads"), COUNT),
        "profile_start_ts": (*NUMBER, OPTIONAL),
        "profile_end_ts": (*NUMBER, OPTIONAL),
        "duration_basis": TEXT,
        "suspected_truncation": FLAG,
        "quality_warnings": [TEXT],
    },
    "trace_provenance": {"trace_sha256": (str, OPTIONAL), "run_ids": [TEXT], "source_file_hints": [TEXT]},
    "step_time": {
        "warmup_steps_ignored": COUNT,
        "all_steps": _STATISTICS,
        "steady_state_steps": _STATISTICS,
        "classes": [{
            "name": TEXT, "count": COUNT, "fraction_of_steady": NUMBER, "duration_stats": _STATISTICS,
            "representative_step": COUNT, "representative_duration": (*NUMBER, OPTIONAL),
            "periodicity": (int, OPTIONAL),
        }],
    },
    "time_breakdown": {
        "duration_basis": TEXT,
        "total_duration": NUMBER,
        **dict.fromkeys(("compute", "communication", "host", "stall", "other"), _PART),
    },
    "hot_ops": [{
        "name": TEXT, "canonical_name": TEXT, "category": TEXT, "count": COUNT, "total_duration": NUMBER,
        "exclusive_duration": NUMBER, "avg_duration": NUMBER, "shape_signature": (str, OPTIONAL),
        "source_file": (str, OPTIONAL), "tf_op_path": (str, OPTIONAL),
        "flop_proxy_per_invocation": (*NUMBER, OPTIONAL),
    }],
    "semantic_families": [{
        "family": TEXT, "count": COUNT, "total_duration": NUMBER, "exclusive_duration": NUMBER,
        "share_of_total": NUMBER, "avg_duration": NUMBER, "avg_exclusive_duration": NUMBER, "example_op": TEXT,
        "dominant_shape_signature": (str, OPTIONAL), "flop_proxy_total": (*NUMBER, OPTIONAL),
        "time_per_flop_proxy": (*NUMBER, OPTIONAL),
    }],
    "communication_ops": [
        {"collective": TEXT, "count": COUNT, "total_duration": NUMBER, "avg_duration": NUMBER}
    ],
    "gap_before_ops": [{
        "name": TEXT, "count": COUNT, "total_gap_duration": NUMBER, "max_gap_duration": NUMBER,
        "avg_gap_duration": NUMBER, "payload_op": (str, OPTIONAL), "marker_op": (str, OPTIONAL),
    }],
    "hierarchical_regions": [{
        "path": TEXT, "depth": COUNT, "count": COUNT, "inclusive_duration": NUMBER, "exclusive_duration": NUMBER,
    }],
    "gap_region_contexts": [{
        "op_name": TEXT, "region_path": TEXT, "count": COUNT, "total_gap_duration": NUMBER,
        "avg_gap_duration": NUMBER,
    }],
    "optimization_candidates": [{
        "candidate_id": TEXT, "title": TEXT, "rationale": TEXT, "evidence": [TEXT], "suggestions": [TEXT],
    }],
}  # fmt: skip
"""Members of the blocks as section B.1 of the notes on Marin lists them; a tuple is the types that are allowed."""


def _check(value: Any, shape: Any, place: str) -> None:
    if isinstance(shape, dict):
        assert list(value) == sorted(shape), place
        for name, inner in shape.items():
            _check(value[name], inner, f"{place}.{name}")
    elif isinstance(shape, list):
        assert isinstance(value, list), place
        for index, each in enumerate(value):
            _check(each, shape[0], f"{place}[{index}]")
    else:
        is_flag = isinstance(value, bool)
        assert isinstance(value, shape), f"{place}: {value!r}"
        assert not is_flag or shape == FLAG, f"{place}: {value!r}"


@pytest.fixture(scope="module")
def document(scoped_summary: Summary) -> dict[str, Any]:
    return marin_document(scoped_summary)


def test_every_member_is_there_with_its_type(document: dict[str, Any]) -> None:
    _check(document, SHAPE, "")
    for name in ("hot_ops", "semantic_families", "communication_ops", "gap_before_ops", "hierarchical_regions",
                 "gap_region_contexts", "optimization_candidates"):  # fmt: skip
        assert document[name], name


def test_shape_holds_where_every_block_is_missing(scoped_summary: Summary) -> None:
    nothing = Missing(absence=Absence.NOT_COLLECTED, reason="not there")
    gone = {each.name: nothing for each in fields(Summary) if "Missing" in str(each.type)}
    document = marin_document(replace(scoped_summary, **gone, candidates=()))
    _check(document, SHAPE, "")
    assert document["time_breakdown"]["total_duration"] == 0
    assert "no ledger: not there" in document["trace_overview"]["quality_warnings"]


def test_classes_keep_the_shape(scoped_summary: Summary) -> None:
    steps = scoped_summary.steps
    assert isinstance(steps, Steps)
    assert steps.statistics is not None
    heavy = StepClass(
        name="heavy",
        steps_count=1,
        fraction_ratio=1 / 3,
        statistics=steps.statistics,
        representative_step_index=1,
        period_steps_count=None,
    )
    document = marin_document(replace(scoped_summary, steps=replace(steps, classes=(heavy,))))
    _check(document, SHAPE, "")
    [found] = document["step_time"]["classes"]
    assert found["representative_duration"] == steps.series[1].duration_ns / 1000


def test_durations_are_microseconds_of_the_same_times(scoped_summary: Summary, document: dict[str, Any]) -> None:
    assert isinstance(scoped_summary.steps, Steps)
    assert scoped_summary.steps.statistics is not None
    assert document["step_time"]["steady_state_steps"]["median"] == scoped_summary.steps.statistics.median_ns / 1000
    operations = scoped_summary.operations
    assert not isinstance(operations, Missing)
    assert document["hot_ops"][0]["name"] == operations.operations[0].name
    assert document["hot_ops"][0]["total_duration"] == operations.operations[0].sum_ns / 1000


def test_breakdown_divides_the_spans_of_all_devices_and_steps(
    scoped_summary: Summary, document: dict[str, Any]
) -> None:
    overlap = scoped_summary.overlap
    assert isinstance(overlap, OverlapBlock)
    parts = document["time_breakdown"]
    assert parts["total_duration"] == pytest.approx(sum(each.span_ns for each in overlap.steps) / 1000)
    assert parts["stall"]["total_duration"] == pytest.approx(sum(each.idle_ns for each in overlap.steps) / 1000)
    communication = sum(each.communication_ns for each in overlap.steps) / 1000
    assert parts["communication"]["total_duration"] == pytest.approx(communication)
    shares = [parts[name]["share_of_total"] for name in ("compute", "communication", "host", "stall", "other")]
    assert sum(shares) == pytest.approx(1)


def test_paths_begin_with_the_phase(document: dict[str, Any]) -> None:
    paths = {each["path"]: each for each in document["hierarchical_regions"]}
    assert paths["forward=>model=>layers=>wi_0"]["depth"] == 4
    assert paths["rematerialized=>model=>layers=>wi_0"]["count"] == 90


def test_simulation_and_absences_are_told_where_such_things_are(document: dict[str, Any]) -> None:
    assert document["trace_overview"]["quality_warnings"][0].startswith("simulated")
    assert document["source_format"] == "rocpd"
    assert document["trace_provenance"]["run_ids"] == ["run"]


def test_renumbered_operations_have_one_canonical_name(document: dict[str, Any]) -> None:
    names = {each["name"]: each["canonical_name"] for each in document["hot_ops"]}
    assert names["all-to-all.1"] == "all-to-all"
    assert names["loop_multiply_fusion.2"] == "loop_multiply_fusion"
