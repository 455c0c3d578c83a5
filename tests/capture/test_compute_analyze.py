"""Command lines of `rocprof-compute analyze`, read back and started."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from standins.compute.install import compute_environment, install_compute
from standins.compute.parser import parse_arguments
from standins.compute.releases import RELEASES as STAND_INS

from rocktools.capture.compute_analyze import AnalyzedWorkload, analysis_output, analyze_commands
from rocktools.capture.compute_command import ComputeTool, WorkloadRequest, profile_command
from rocktools.capture.compute_folder import find_results
from rocktools.capture.compute_tool import find_compute_tool
from rocktools.capture.compute_versions import KNOWN_VERSIONS, AnalysisOutput, ComputeVersion
from rocktools.errors import CaptureError, UsageError

PROGRAM = Path("/opt/rocm/bin/rocprof-compute")
OUT = Path("/data/batch/analysis")
WORKLOADS = tuple(
    AnalyzedWorkload(folder=Path(f"/data/batch/{slug}/workloads/{slug}/MI355X"), slug=slug) for slug in ("k0", "k1")
)
MERGING = KNOWN_VERSIONS[3:]


def tool_of(name: str, *options: str) -> ComputeTool:
    major, minor = (int(part) for part in name.split("."))
    version = ComputeVersion(major, minor)
    return ComputeTool(program=PROGRAM, python=None, version=version, analyze_options=frozenset(options))


def read_back(argv: tuple[str, ...], name: str):
    assert argv[0] == str(PROGRAM)
    return parse_arguments(STAND_INS[name], argv[1:])


@pytest.mark.parametrize("name", MERGING)
def test_all_workloads_go_into_one_database_where_that_can_be(name):
    (call,) = analyze_commands(tool_of(name), WORKLOADS, OUT, "batch")
    options = read_back(call.command.argv, name)
    # Each path in a group of its own: of several in one group the tool reads the first.
    assert options.path == [[str(each.folder)] for each in WORKLOADS]
    assert (options.output_format, options.output_name) == ("db", "batch")
    assert call.kind is AnalysisOutput.DATABASE
    assert call.output == OUT / "batch.db"
    assert call.slugs == ("k0", "k1")
    assert call.command.cwd == OUT
    assert call.command.variables_set["LC_ALL"] == "C.UTF-8"


@pytest.mark.parametrize("name", ["3.0", "3.3"])
def test_older_releases_are_asked_once_for_each_workload(name):
    calls = analyze_commands(tool_of(name), WORKLOADS, OUT, "batch")
    assert [call.kind for call in calls] == [AnalysisOutput.SAVED_FRAMES] * 2
    assert [call.slugs for call in calls] == [("k0",), ("k1",)]
    for call, workload in zip(calls, WORKLOADS, strict=True):
        options = read_back(call.command.argv, name)
        assert options.path == [[str(workload.folder)]]
        assert options.save_dfs == str(call.output) == f"{OUT}/batch-{workload.slug}"
        assert options.kernel is None


def test_where_other_kernels_were_counted_too_the_wanted_one_is_chosen_by_its_rank():
    workload = AnalyzedWorkload(folder=WORKLOADS[0].folder, slug="k0", kernel_rank=2)
    (call,) = analyze_commands(tool_of("3.0"), [workload], OUT, "batch")
    options = read_back(call.command.argv, "3.0")
    assert options.kernel == [["2"]]
    assert options.path == [[str(workload.folder)]]


def test_3_3_as_released_is_told_from_its_sources_by_its_options():
    assert analysis_output(tool_of("3.3", "--save-dfs", "--path")) is AnalysisOutput.SAVED_FRAMES
    released = tool_of("3.3", "--output-format", "--output-name", "--path")
    assert analysis_output(released) is AnalysisOutput.TABLES
    (call, _) = analyze_commands(released, WORKLOADS, OUT, "batch")
    options = parse_arguments(STAND_INS["3.3.0-released"], call.command.argv[1:])
    assert (options.output_format, options.output_name) == ("csv", "batch-k0")
    assert call.output == OUT / "batch-k0"


@pytest.mark.parametrize("name", KNOWN_VERSIONS[5:])
def test_views_as_csv_are_there_since_3_7(name):
    (call,) = analyze_commands(tool_of(name), WORKLOADS, OUT, "batch", kind=AnalysisOutput.VIEWS)
    options = read_back(call.command.argv, name)
    assert (options.output_format, options.output_name, call.output) == ("csv", "batch", OUT / "batch")


@pytest.mark.parametrize("name", KNOWN_VERSIONS[:5])
def test_views_as_csv_are_refused_before(name):
    with pytest.raises(CaptureError, match="compute-no-such-output") as caught:
        analyze_commands(tool_of(name), WORKLOADS, OUT, "batch", kind=AnalysisOutput.VIEWS)
    assert name in caught.value.what


def test_what_cannot_be_handed_over_is_refused():
    with pytest.raises(UsageError, match="compute-no-workload"):
        analyze_commands(tool_of("3.10"), (), OUT, "batch")
    with pytest.raises(UsageError, match="compute-bad-folder"):
        analyze_commands(tool_of("3.10"), WORKLOADS, Path("out"), "batch")
    with pytest.raises(UsageError, match="compute-bad-folder"):
        analyze_commands(tool_of("3.3"), [AnalyzedWorkload(folder=Path("/data/../k0"), slug="k0")], OUT, "batch")
    with pytest.raises(UsageError, match="compute-bad-name"):
        analyze_commands(tool_of("3.10"), WORKLOADS, OUT, "a/b")


@pytest.mark.parametrize("version", ["3.0", "3.3", "3.3.0-released", "3.4", "3.7", "3.10"])
def test_the_outputs_are_where_the_call_says(tmp_path, version):
    program = install_compute(tmp_path / "rocm", version=version)
    environment = compute_environment(program, scenario={"passes": 2}, state=tmp_path / "state")
    tool = find_compute_tool(environment)
    workloads = []
    for slug in ("k0", "k1"):
        folder = tmp_path / slug
        folder.mkdir()
        told = f"print('standin-launch: 3 {slug}_kernel')"
        request = WorkloadRequest(
            slug=slug,
            folder=folder,
            kernel_name=f"{slug}_kernel",
            application=(sys.executable, "-I", "-S", "-c", told),
        )
        command = profile_command(tool, request)
        for file in command.files:
            file.path.write_text(file.text, encoding="utf-8")
            file.path.chmod(0o755)
        whole = command.delta(environment).apply(environment)
        subprocess.run(command.argv, cwd=command.cwd, env=whole, check=True, capture_output=True)
        workloads.append(AnalyzedWorkload(folder=find_results(folder, slug)[0], slug=slug))
    out = tmp_path / "out"
    out.mkdir()
    calls = analyze_commands(tool, workloads, out, "all")
    for call in calls:
        command = call.command
        whole = command.delta(environment).apply(environment)
        subprocess.run(command.argv, cwd=command.cwd, env=whole, check=True, capture_output=True)
    if calls[0].kind is AnalysisOutput.DATABASE:
        with closing(sqlite3.connect(calls[0].output)) as connection:
            rows = connection.execute("SELECT workload_name, kernel_name, dispatch_count FROM compute_kernel_view")
            assert sorted(rows) == [("k0", "k0_kernel", 3), ("k1", "k1_kernel", 3)]
    else:
        for call, slug in zip(calls, ("k0", "k1"), strict=True):
            top = (call.output / "0.1_Top_Kernels.csv").read_text(encoding="utf-8").splitlines()
            assert top[1].startswith(f"{slug}_kernel,3,")
    assert sorted(path.name for path in out.iterdir()) == sorted(call.output.name for call in calls)
