"""Versions of rocprof-compute: told, known, refused; and their facts beside the option tables of the stand-in."""

from __future__ import annotations

import pytest
from standins.compute.options_table import options_of
from standins.compute.releases import RELEASES as STAND_INS

from rocktools.capture.compute_versions import (
    KNOWN_VERSIONS,
    RELEASES,
    AnalysisOutput,
    BlockNames,
    ComputeFacts,
    ComputeVersion,
    OccupiedFolder,
    check_compute_version,
    compute_facts,
    parse_compute_version,
)
from rocktools.errors import CaptureError


def facts_of(name: str) -> ComputeFacts:
    major, minor = name.split(".")
    return compute_facts(ComputeVersion(int(major), int(minor)))


@pytest.mark.parametrize(
    "text, version",
    [
        ("rocprofiler-compute version: 3.3.0 (release)\n", ComputeVersion(3, 3, 0)),
        ("----\nrocprofiler-compute version: 3.10.2 (dev)\nGit revision: abc\n", ComputeVersion(3, 10, 2)),
        ("  rocprofiler-compute version:   3.7.0-rc1 (release)", ComputeVersion(3, 7, 0)),
        ("rocprofiler-compute version: 4.0 (release)", ComputeVersion(4, 0)),
    ],
)
def test_a_version_is_found_in_what_the_tool_prints(text, version):
    assert parse_compute_version(text, where="tool") == version


@pytest.mark.parametrize("text", ["", "3.7.0", "ROCm version: 7.14.0", "rocprofiler-compute version: unknown"])
def test_what_is_no_version_is_refused_with_what_was_printed(text):
    with pytest.raises(CaptureError, match="compute-version-unknown") as caught:
        parse_compute_version(text, where="/opt/rocm/bin/rocprof-compute")
    assert repr(text.strip()) in caught.value.what
    assert caught.value.where == "/opt/rocm/bin/rocprof-compute"


def test_versions_are_ordered_by_number_and_not_by_text():
    assert ComputeVersion(3, 9, 5) < ComputeVersion(3, 10) < ComputeVersion(3, 10, 1)
    assert [ComputeVersion(*facts.release) for facts in RELEASES] == sorted(
        ComputeVersion(*facts.release) for facts in RELEASES
    )


def test_the_nine_releases_are_known():
    assert KNOWN_VERSIONS == ("3.0", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "3.10")


@pytest.mark.parametrize("version", [ComputeVersion(3, 1), ComputeVersion(3, 2, 1), ComputeVersion(2, 0, 1)])
def test_a_release_of_which_nothing_is_known_is_refused_by_name(version):
    with pytest.raises(CaptureError, match="compute-version-unsupported") as caught:
        compute_facts(version)
    assert str(version) in caught.value.what
    assert "3.10" in caught.value.what


@pytest.mark.parametrize("version", [ComputeVersion(3, 11), ComputeVersion(4, 0)])
def test_a_newer_release_is_treated_as_the_newest_one_with_a_finding(version):
    assert compute_facts(version) == RELEASES[-1]
    (finding,) = check_compute_version(version)
    assert finding.rule == "compute-version-newer"
    assert str(version) in finding.message
    assert "3.10" in finding.message


@pytest.mark.parametrize("name", KNOWN_VERSIONS)
def test_a_known_release_has_no_finding(name):
    major, minor = (int(part) for part in name.split("."))
    assert check_compute_version(ComputeVersion(major, minor, 7)) == []


# The option tables were transcribed from the reference by themselves: an independent opinion of what a release has.
@pytest.mark.parametrize("name", KNOWN_VERSIONS)
def test_facts_agree_with_the_option_tables(name):
    facts, release = facts_of(name), STAND_INS[name]
    profile = {flag: option for option in options_of(release, "profile") for flag in option.flags}
    analyze = {flag for option in options_of(release, "analyze") for flag in option.flags}
    assert facts.has_sets == ("--set" in profile)
    assert facts.has_multiplexing == ("--iteration-multiplexing" in profile)
    assert facts.has_bench_only == ("--bench-only" in profile)
    assert facts.iterations_option in profile
    assert (facts.occupied_folder is OccupiedFolder.REFUSED) == ("--overwrite" in profile)
    form = profile.get("--format-rocprof-output")
    assert facts.has_format_option == (form is not None and "rocpd" in form.choices)
    assert (AnalysisOutput.DATABASE in facts.analysis) == ("--output-format" in analyze or name == "3.3")
    assert (AnalysisOutput.SAVED_FRAMES in facts.analysis) == ("--save-dfs" in analyze)


@pytest.mark.parametrize("name", KNOWN_VERSIONS)
def test_facts_agree_with_how_the_stand_in_behaves(name):
    facts, release = facts_of(name), STAND_INS[name]
    assert (facts.first_iteration == 0) == release.dispatch_counts_from_zero
    assert (facts.occupied_folder is OccupiedFolder.WIPED) == release.wipes
    assert facts.has_kernel_filter != release.ignores_filters
    assert facts.line_bytes == release.line_bytes


def test_what_d_means_changes_three_times():
    assert [(name, facts_of(name).iterations_option, facts_of(name).first_iteration) for name in KNOWN_VERSIONS] == [
        ("3.0", "--dispatch", 0),
        ("3.3", "--dispatch", 0),
        ("3.4", "--dispatch", 0),
        ("3.5", "--dispatch", 1),
        ("3.6", "--dispatch", 1),
        ("3.7", "--dispatch", 1),
        ("3.8", "--dispatch", 1),
        ("3.9", "--dispatch", 1),
        ("3.10", "--kernel-iteration-range", 1),
    ]


def test_lines_of_128_bytes_count_from_3_7_on():
    assert [facts_of(name).line_bytes for name in KNOWN_VERSIONS] == [64] * 5 + [128] * 4


def test_blocks_are_named_in_three_ways():
    assert [facts_of(name).block_names for name in ("3.0", "3.3", "3.4", "3.10")] == [
        BlockNames.HARDWARE,
        BlockNames.METRICS,
        BlockNames.METRICS_AND_ALIASES,
        BlockNames.METRICS_AND_ALIASES,
    ]
