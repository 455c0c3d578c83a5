"""Summaries of what real tools wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from rocktools.summary.build import build_summary
from rocktools.summary.document import (
    SCHEMA_FILE,
    Missing,
    OperationsBlock,
    OverlapBlock,
    Summary,
    parse_summary,
    render_summary,
)
from rocktools.summary.gathered import SummaryOptions
from rocktools.summary.marin import marin_document
from rocktools.timeline.steps import StepMethod, StepOptions


def _built(path: Path, options: SummaryOptions) -> Summary:
    found = build_summary([path], options)
    text = render_summary(found)
    jsonschema.validate(json.loads(text), json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
    assert parse_summary(text, where="x") == found
    assert json.loads(json.dumps(marin_document(found)))["schema_version"] == "profile_summary.v1"
    return found


@pytest.mark.parametrize("name", ["mi355_te_fused_attn", "jax08_attention", "jax_conv_minimal_08"])
def test_busy_time_of_profiles_is_that_of_the_independent_count(
    shared: Path, options: SummaryOptions, name: str
) -> None:
    """Unions in picoseconds were computed by other means from the same files; ours are of whole nanoseconds."""
    folder = shared / "data/xplane"
    [profile] = (folder / name).glob("*.xplane.pb")
    whole = replace(options, attribution=replace(options.attribution, steps=StepOptions(method=StepMethod.WHOLE)))
    found = _built(profile, whole)
    intervals = json.loads((folder / "expected/intervals.json").read_text(encoding="utf-8"))
    expected = {
        plane.rpartition(":")[2]: each
        for plane, each in intervals[f"{name}/{profile.name}"].items()
        if plane.startswith("/device:GPU:") and each["n"]
    }
    assert isinstance(found.overlap, OverlapBlock)
    assert isinstance(found.operations, OperationsBlock)
    busy = {each.device.rpartition("gpu")[2]: each.busy_ns for each in found.overlap.devices}
    assert set(busy) == set(expected)
    for device, each in expected.items():
        assert busy[device] == pytest.approx(each["union_ps"] / 1000, abs=each["n"])  # a nanosecond for each event
    rows_count = sum(each.rows_count for each in found.operations.operations)
    assert rows_count == sum(each["n"] for each in expected.values())
    total = sum(each["sum_ps"] for each in expected.values()) / 1000
    assert found.operations.total_sum_ns == pytest.approx(total, abs=rows_count)


def test_kernel_of_the_mi300x_trace(shared: Path, options: SummaryOptions) -> None:
    """11 dispatches of one kernel, 342,464 ns in all, which never overlap."""
    found = _built(shared / "data/rocpd/rocprofv3-mi300x.db", options)
    assert isinstance(found.operations, OperationsBlock)
    [only] = [each for each in found.operations.operations if each.activity == "compute"]
    assert (only.rows_count, only.sum_ns, only.union_ns, only.exclusive_ns) == (11, 342_464, 342_464, 342_464)
    assert found.quality.overview.linked_ratio is None


def test_cpu_profile_is_host_only_and_suggests_nothing(shared: Path, options: SummaryOptions) -> None:
    found = _built(shared / "data/xplane/cpu_moe", options)
    assert found.quality.overview.is_host_only
    assert found.quality.overview.basis == "host_thread_duration"
    assert found.candidates == ()
    assert not isinstance(found.regions, Missing)
    phases = {each.phase for each in found.regions.regions}
    assert {"forward", "backward", "rematerialized"} <= phases


@pytest.mark.parametrize("name", ["rocprofsys-mi350x.db", "minimal-handmade-v3.db"])
def test_other_databases_have_a_summary(shared: Path, options: SummaryOptions, name: str) -> None:
    found = _built(shared / "data/rocpd" / name, options)
    assert isinstance(found.operations, OperationsBlock)
    assert found.operations.total_sum_ns > 0
