"""Versions of rocprof-compute: as stated, and as far as a layout leaves them possible."""

from __future__ import annotations

import pytest

from rocktools.sources.compute_analysis.tool_version import (
    UNKNOWN_VERSION,
    ToolVersion,
    parse_tool_version,
    version_by_layout,
)


@pytest.mark.parametrize(
    "text, since_35, since_37",
    [("3.0", False, False), ("3.4.0", False, False), ("3.5.0", True, False), ("3.6.1", True, False),
     ("3.7.0", True, True), ("3.10.0", True, True), ("3.3.0-dev", False, False), ("v4.0.0", True, True)],
)  # fmt: skip
def test_a_stated_version_decides(text, since_35, since_37):
    version = parse_tool_version(text, said_by="a test")
    assert version is not None
    assert (version.is_since((3, 5)), version.is_since((3, 7))) == (since_35, since_37)
    assert version.label == text


@pytest.mark.parametrize("text", ["", "three", "3", "3.", "None", "3.x"])
def test_what_is_no_version_is_none(text):
    assert parse_tool_version(text, said_by="a test") is None


def test_nothing_known_decides_nothing():
    assert UNKNOWN_VERSION.is_since((3, 7)) is None
    assert UNKNOWN_VERSION.label == "unknown"


@pytest.mark.parametrize(
    "files, columns, label",
    [
        (["perfmon/pmc_perf_0.txt"], (), "before 3.6"),
        (["perfmon/pmc_perf_0.txt", "perfmon/pmc_perf_0.yaml"], (), "before 3.6"),
        (["perfmon/pmc_perf_0.yaml"], (), "3.6 or later"),
        (["results_pmc_perf_0.csv"], ("num_hbm_channels",), "3.6 or later, before 3.8"),
        (["results_pmc_perf_0.csv.gz"], ("num_memory_channels",), "3.8 or later"),
        ([], ("num_hbm_channels",), "before 3.8"),
        (["perfmon/pmc_perf_0.txt"], ("num_memory_channels",), "unknown"),
        ([], (), "unknown"),
    ],
)
def test_the_layout_leaves_some_versions(tmp_path, files, columns, label):
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert version_by_layout(tmp_path, frozenset(columns)).label == label


@pytest.mark.parametrize("option, label", [("hip_trace: false", "before 3.6"), ("bench_only: false", "3.7 or later")])
def test_options_that_the_tool_noted_tell_the_version(tmp_path, option, label):
    (tmp_path / "profiling_config.yaml").write_text(f"device: 0\n{option}\n", encoding="utf-8")
    assert version_by_layout(tmp_path).label == label


def test_two_signs_leave_what_both_allow_and_a_stated_version_stays():
    (stated, other) = (parse_tool_version(text, said_by="a test") for text in ("3.3.0", "3.8.0"))
    early = ToolVersion(text=None, least=(3, 0), below=(3, 4), said_by="tables")
    late = ToolVersion(text=None, least=(3, 2), below=(999, 999), said_by="layout")
    assert early.narrowed(stated) is stated
    assert early.narrowed(other) is early  # raw counters of another version than the tables made of them
    assert stated.narrowed(other) is stated
    assert early.narrowed(late).label == "3.2 or later, before 3.4"
    assert UNKNOWN_VERSION.narrowed(late).label == "3.2 or later"
