"""Texts of rocprof-compute: lines of public reports, or what its sources print."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.capture.compute_messages import COMPUTE_TEXTS, find_lasting_fault, scan_output

# Rule, line, words of the message or the advice.
SAMPLES = [
    (
        "compute-needs-old-pandas",
        "ValueError: You are trying to merge on str and int64 columns for key 'Agent_Id'. If you wish to proceed you "
        "should use pd.concat",
        "pandas<3",
    ),
    (
        "compute-needs-old-pandas",
        r"ValueError: could not convert string to float: '\nto_avg((SQ_WAVES))'",
        "--compute-",
    ),
    ("compute-python-incomplete", "ModuleNotFoundError: No module named 'dash_svg'", "dash_svg"),
    (
        "compute-empty-cells",
        "   ERROR Found empty cells in /w/pmc_perf.csv. The profiling data may be corrupt.",
        "fewer",
    ),
    ("compute-rocm-not-found", "ERROR Unable to detect a complete local ROCm installation.", "ROCM_VER=7.13.0"),
    (
        "compute-intensity-unknown",
        "ValueError: Unknown format code 'f' for object of type 'str'",
        "--no-analysis",
    ),
    ("compute-no-benchmark", "[roofline] Cannot find a valid binary for your operating system", "ROOFLINE_BIN"),
    ("compute-gpu-unknown", "ERROR Cannot find a supported arch in rocminfo", "7.0 or later"),
    (
        "compute-no-dmi",
        "FileNotFoundError: [Errno 2] No such file or directory: '/sys/class/dmi/id/bios_vendor'",
        "mount",
    ),
    ("compute-two-rocms", "rocprofiler_configure failed: CONFIGURATION_LOCKED", "two copies"),
    ("compute-nothing-launched", "KeyError: 'Grid_Size'", "no kernel was launched"),
    (
        "compute-nothing-to-count",
        "ERROR No performance counters to collect, please check the provided profiling filters",
        "--list-blocks",
    ),
    (
        "compute-no-program",
        "ERROR Your command /no/python doesn't point to a executable. Please verify.",
        "program /no/python",
    ),
    ("compute-analyze-no-kernel", "ERROR 9 is an invalid kernel id. Please enter an id between 0-0", "fewer kernels"),
    ("compute-run-stopped", "ERROR Profiling execution failed.", "ended badly"),
    (
        "compute-nothing-collected",
        "WARNING Cannot write results for pmc_perf_0.csv due to no counter csv files generated.",
        "no counters",
    ),
    (
        "compute-nothing-collected",
        "WARNING No GPU kernel data collected. The workload may not have dispatched any GPU kernels.",
        "no counters",
    ),
    ("arguments-refused", "rocprof-compute profile: error: unrecognized arguments: --no-such", "refused its arguments"),
    ("llvm-loaded-twice", ": CommandLine Error: Option 'spirv-expand-step' registered more than once!", "one ROCm"),
]


def scan(folder: Path, text: str) -> list[tuple[str, str]]:
    log = folder / "k.stdout"
    log.write_text(text, encoding="utf-8")
    return [(finding.rule, f"{finding.message}; {finding.advice}") for finding in scan_output(log)]


@pytest.mark.parametrize("rule, line, words", SAMPLES)
def test_a_known_text_is_explained_with_what_helps(tmp_path, rule, line, words):
    [(found, text)] = scan(tmp_path, f"some line\n{line}\n")
    assert found == rule
    assert words in text


def test_every_row_has_a_sample():
    assert {row.rule for row in COMPUTE_TEXTS} <= {rule for rule, _, _ in SAMPLES}


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: could not convert string to float: 'abc'",  # of the replay
        "pandas 3.1.1",
        "/sys/class/dmi/id/bios_vendor: Dell",
        "KeyError: 'Grid_Sizes'",
        "",
    ],
)
def test_lines_that_look_alike_are_not_explained(tmp_path, line):
    assert scan(tmp_path, line) == []


def test_what_both_streams_have_is_told_once_and_by_the_first(tmp_path):
    paths = [tmp_path / "out", tmp_path / "err"]
    for path in paths:
        path.write_text("KeyError: 'Grid_Size'\nERROR Profiling execution failed.\n", encoding="utf-8")
    found = scan_output(*paths)
    assert [finding.rule for finding in found] == ["compute-nothing-launched", "compute-run-stopped"]
    assert found[0].where == f"{paths[0]}, line 1"


def test_a_cause_that_lasts_is_told_from_words_about_the_end(tmp_path):
    path = tmp_path / "out"
    path.write_text("ERROR Profiling execution failed.\n", encoding="utf-8")
    assert find_lasting_fault(scan_output(path)) is None
    path.write_text("ERROR Profiling execution failed.\nterminate called\nKeyError: 'Grid_Size'\n", encoding="utf-8")
    cause = find_lasting_fault(scan_output(path))
    assert cause is not None
    assert cause.rule == "compute-nothing-launched"
