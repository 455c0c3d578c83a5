"""What became of a run of rocprof-compute: the stand-in misbehaves, release by release, and each way has its name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from standins.compute.install import compute_environment, install_compute

from rocktools.capture.compute_command import ComputeTool, PeaksRequest, WorkloadRequest, peaks_command, profile_command
from rocktools.capture.compute_folder import MARKER_NAME, WorkloadMarker, find_results, read_marker, write_marker
from rocktools.capture.compute_outcome import Verdict, WorkloadOutcome, read_outcome, read_peaks_outcome
from rocktools.capture.compute_versions import ComputeVersion, Layout
from rocktools.findings import Severity

KERNEL = "loop_add_fusion"
OTHER = "loop_add_fusion_1"
LAUNCHES = 4
# One release for each layout: joined, long, a file for each pass, such files packed.
LAYOUTS = {"3.0": Layout.WIDE, "3.3": Layout.LONG, "3.5": Layout.LONG, "3.7": Layout.PASSES, "3.10": Layout.PASSES}
LONG_ONES = [name for name, layout in LAYOUTS.items() if layout is not Layout.WIDE]


class Bench:
    """A workload folder, and the stand-in of one release to fill it."""

    def __init__(self, root: Path, version: str) -> None:
        self.root = root
        self.folder = root / "k0"
        self.folder.mkdir()
        self.program = install_compute(root / "rocm", version=version)
        major, minor = (int(part) for part in version.split("."))
        self.tool = ComputeTool(program=self.program, python=None, version=ComputeVersion(major, minor))

    def request(self, **changes) -> WorkloadRequest:
        told = "\n".join(f"standin-launch: {LAUNCHES} {name}" for name in (KERNEL, OTHER))
        words = (sys.executable, "-I", "-S", "-c", f"print({told!r})")
        fields = {"slug": "k0", "folder": self.folder, "kernel_name": KERNEL, "application": words, **changes}
        return WorkloadRequest(**fields)

    def start(self, command, *, faults: str = "", passes: int = 3) -> int:
        environment = compute_environment(
            self.program, scenario={"passes": passes}, faults=faults, state=self.root / "state"
        )
        for file in command.files:
            file.path.write_text(file.text, encoding="utf-8")
            file.path.chmod(0o755)
        whole = command.delta(environment).apply(environment)
        return subprocess.run(command.argv, cwd=command.cwd, env=whole, capture_output=True, check=False).returncode

    def run(self, *, faults: str = "", passes: int = 3, launches_count: int = LAUNCHES, **changes) -> WorkloadOutcome:
        request = self.request(**changes)
        command = profile_command(self.tool, request)
        code = self.start(command, faults=faults, passes=passes)
        marker = WorkloadMarker(
            slug="k0",
            kernel_name=request.kernel_name,
            version=str(self.tool.version),
            argv=command.argv,
            started_utc="2026-11-30T03:00:00.000+00:00",
            ended_utc="2026-11-30T03:01:00.000+00:00",
            exit_code=code,
            launches_count=launches_count,
            multiplexes=request.multiplexes,
        )
        return read_outcome(self.folder, write_marker(self.folder, marker))

    def again(self) -> WorkloadOutcome:
        """The same folder, looked at later."""
        marker = read_marker(self.folder)
        assert marker is not None
        return read_outcome(self.folder, marker)


def rules(outcome: WorkloadOutcome) -> list[str]:
    return [finding.rule for finding in outcome.findings]


@pytest.mark.parametrize("version", LAYOUTS)
def test_a_good_run_is_complete_in_every_layout(tmp_path, version):
    outcome = Bench(tmp_path, version).run()
    assert outcome.verdict is Verdict.COMPLETE
    assert outcome.layout is LAYOUTS[version]
    assert outcome.launches_count == LAUNCHES
    assert [(each.has_result, each.launches_count, each.missing_counters) for each in outcome.passes] == [
        (True, LAUNCHES, ())
    ] * 3
    if version == "3.0":  # it counts all kernels, and says so
        assert rules(outcome) == ["compute-levels-by-row"]
        assert set(outcome.kernels) == {KERNEL, OTHER}
        assert outcome.kernels[outcome.kernel_rank or 0] == KERNEL
    else:
        assert rules(outcome) == []
        assert (outcome.kernels, outcome.kernel_rank) == ((KERNEL,), 0)


@pytest.mark.parametrize("version", LONG_ONES)
def test_a_kernel_missing_in_one_pass_is_reported_with_that_pass(tmp_path, version):
    outcome = Bench(tmp_path, version).run(faults="kernel-missing:1")
    assert outcome.verdict is Verdict.INCOMPLETE
    assert "compute-kernel-missing-in-pass" in rules(outcome)
    (finding,) = (each for each in outcome.findings if each.rule == "compute-kernel-missing-in-pass")
    assert finding.severity is Severity.FAULT
    assert "pmc_perf_1" in finding.message
    assert dict(finding.numbers) == {"passes_without_kernel_count": 1, "passes_count": 3}
    assert [each.launches_count for each in outcome.passes] == [LAUNCHES, 0, LAUNCHES]
    assert outcome.launches_count is None


def test_a_kernel_that_the_join_dropped_is_reported_by_the_pass_that_kept_its_file(tmp_path):
    """Six passes: five are joined, and levels of waves keep a file of their own."""
    outcome = Bench(tmp_path, "3.0").run(faults="kernel-missing:1", passes=6)
    assert outcome.verdict is Verdict.INCOMPLETE
    (finding,) = (each for each in outcome.findings if each.rule == "compute-kernel-dropped")
    assert KERNEL in finding.message
    assert finding.where.endswith("pmc_perf.csv")
    assert finding.numbers["passes_with_kernel_count"] == 1


def test_a_kernel_that_the_join_dropped_everywhere_is_missing(tmp_path):
    outcome = Bench(tmp_path, "3.0").run(faults="kernel-missing:1")
    assert outcome.verdict is Verdict.EMPTY
    (finding,) = outcome.findings
    assert finding.rule == "compute-kernel-missing"
    assert OTHER in finding.message


@pytest.mark.parametrize("version", LONG_ONES)
def test_unequal_launches_are_reported_with_both_counts(tmp_path, version):
    outcome = Bench(tmp_path, version).run(faults="launches-differ:2")
    assert outcome.verdict is Verdict.INCOMPLETE
    assert rules(outcome) == ["compute-launches-differ"]
    assert dict(outcome.findings[0].numbers) == {"fewest_launches_count": 3, "most_launches_count": 4}
    assert "pmc_perf_2" in outcome.findings[0].message


def test_launches_that_the_join_cut_are_fewer_than_asked_for(tmp_path):
    """The wanted kernel comes last, so the pass with one launch fewer lacks one of its."""
    bench = Bench(tmp_path, "3.0")
    told = f"standin-launch: {LAUNCHES} {OTHER}\\nstandin-launch: {LAUNCHES} {KERNEL}"
    words = (sys.executable, "-I", "-S", "-c", f"print('{told}')")
    outcome = bench.run(faults="launches-differ:2", application=words)
    assert outcome.verdict is Verdict.INCOMPLETE
    (finding,) = (each for each in outcome.findings if each.severity is Severity.FAULT)
    assert finding.rule == "compute-launches-fewer"
    assert dict(finding.numbers) == {"launches_count": 3, "expected_launches_count": 4}


@pytest.mark.parametrize("version", LONG_ONES)
def test_more_launches_than_asked_for_are_a_warning(tmp_path, version):
    outcome = Bench(tmp_path, version).run(launches_count=2)
    assert outcome.verdict is Verdict.COMPLETE
    assert rules(outcome) == ["compute-launches-more"]


@pytest.mark.parametrize("version", LAYOUTS)
def test_exit_code_0_without_data_is_no_success(tmp_path, version):
    outcome = Bench(tmp_path, version).run(faults="no-data")
    assert outcome.verdict is Verdict.EMPTY
    assert rules(outcome) == ["compute-no-data"]
    assert "exit code 0" in outcome.findings[0].message


@pytest.mark.parametrize("version", LONG_ONES)
def test_a_filter_that_matches_nothing_is_no_success(tmp_path, version):
    outcome = Bench(tmp_path, version).run(kernel_name="loop_add_fusion_11")
    assert outcome.verdict is Verdict.EMPTY
    assert rules(outcome) == ["compute-no-data"]


def test_a_name_that_is_not_there_is_told_beside_those_that_are(tmp_path):
    outcome = Bench(tmp_path, "3.0").run(kernel_name="loop_add_fusion_11")
    assert outcome.verdict is Verdict.EMPTY
    (finding,) = outcome.findings
    assert finding.rule == "compute-kernel-missing"
    assert OTHER in finding.message


@pytest.mark.parametrize("version", LAYOUTS)
def test_rows_without_numbers_are_reported(tmp_path, version):
    outcome = Bench(tmp_path, version).run(faults="nan-rows:1")
    assert outcome.verdict is Verdict.INCOMPLETE
    (finding,) = (each for each in outcome.findings if each.rule == "compute-nan-rows")
    assert dict(finding.numbers) == {"empty_launches_count": 1, "passes_count": 1}
    assert "pmc_perf_1" in finding.message
    assert [each.empty_launches_count for each in outcome.passes] == [0, 1, 0]


@pytest.mark.parametrize("version", LONG_ONES)
def test_shifted_ids_that_split_launches_are_reported(tmp_path, version):
    """Ids 1 to 4 in two passes and 2 to 5 in the third: five ids, and four launches."""
    outcome = Bench(tmp_path, version).run(faults="partial-rows:1")
    assert outcome.verdict is Verdict.INCOMPLETE
    assert rules(outcome) == ["compute-partial-rows"]
    assert dict(outcome.findings[0].numbers) == {"ids_count": 5, "most_launches_count": 4}


@pytest.mark.parametrize("version", LONG_ONES)
def test_a_pass_that_left_nothing_is_reported(tmp_path, version):
    outcome = Bench(tmp_path, version).run(faults="pass-missing:0")
    assert outcome.verdict is Verdict.INCOMPLETE
    assert rules(outcome) == ["compute-pass-missing"]
    assert "pmc_perf_0" in outcome.findings[0].message
    assert [each.has_result for each in outcome.passes] == [False, True, True]


@pytest.mark.parametrize("version", LAYOUTS)
def test_a_file_that_was_cut_off_is_reported(tmp_path, version):
    outcome = Bench(tmp_path, version).run(faults="cut-off")
    assert outcome.verdict in (Verdict.INCOMPLETE, Verdict.EMPTY)
    assert "compute-file-damaged" in rules(outcome)
    (finding,) = (each for each in outcome.findings if each.rule == "compute-file-damaged")
    assert Path(finding.where).is_file()


@pytest.mark.parametrize("version", LONG_ONES)
def test_another_kernel_beside_it_is_a_warning(tmp_path, version):
    outcome = Bench(tmp_path, version).run(faults="extra-kernel")
    assert outcome.verdict is Verdict.COMPLETE
    assert rules(outcome) == ["compute-other-kernels"]
    assert "extra_kernel" in outcome.findings[0].message
    assert outcome.kernel_rank == 0


@pytest.mark.parametrize("version", LAYOUTS)
@pytest.mark.parametrize("fault, code", [("exit-code:3", 3), ("workload-fails:1", 1), ("half-folder", 1)])
def test_an_exit_code_fails_whatever_is_left(tmp_path, version, fault, code):
    outcome = Bench(tmp_path, version).run(faults=fault)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.findings[0].rule == "compute-run-failed"
    assert outcome.findings[0].numbers == {"exit_code": code}


@pytest.mark.parametrize("version", ["3.3", "3.10"])
def test_a_run_without_an_end_is_unfinished(tmp_path, version):
    bench = Bench(tmp_path, version)
    bench.run()
    marker = read_marker(bench.folder)
    assert marker is not None
    outcome = read_outcome(bench.folder, replace(marker, ended_utc=None, exit_code=None))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.findings[0].rule == "compute-run-unfinished"
    killed = read_outcome(bench.folder, replace(marker, exit_code=None, signal_number=9))
    assert killed.verdict is Verdict.FAILED
    assert killed.findings[0].numbers == {"signal_number": 9}


@pytest.mark.parametrize("version", ["3.3", "3.10"])
def test_one_folder_of_results_is_expected(tmp_path, version):
    outcome = Bench(tmp_path, version).run(faults="no-folder")
    assert (outcome.verdict, rules(outcome)) == (Verdict.EMPTY, ["compute-no-results"])
    (tmp_path / "second").mkdir()
    outcome = Bench(tmp_path / "second", version).run(faults="two-folders")
    assert (outcome.verdict, rules(outcome)) == (Verdict.EMPTY, ["compute-several-folders"])
    assert "MI300X, MI355X" in outcome.findings[0].message


@pytest.mark.parametrize("version", ["3.3", "3.7"])
def test_a_folder_that_another_run_emptied_and_filled_is_told(tmp_path, version):
    """Releases before 3.8 do that to whatever is there."""
    bench = Bench(tmp_path, version)
    assert bench.run().is_complete
    assert bench.again().is_complete
    assert bench.start(profile_command(bench.tool, bench.request())) == 0
    later = bench.again()
    assert later.verdict is Verdict.INCOMPLETE
    assert rules(later) == ["compute-folder-wiped"]


def test_newer_releases_leave_a_folder_alone(tmp_path):
    bench = Bench(tmp_path, "3.8")
    assert bench.run().is_complete
    assert bench.start(profile_command(bench.tool, bench.request())) == 1
    assert bench.again().is_complete


@pytest.mark.parametrize("version", ["3.3", "3.10"])
def test_results_that_are_gone_are_told_from_results_that_never_were(tmp_path, version):
    bench = Bench(tmp_path, version)
    bench.run()
    shutil.rmtree(bench.folder / "workloads")
    assert rules(bench.again()) == ["compute-folder-wiped"]


@pytest.mark.parametrize("version", ["3.3", "3.10"])
def test_files_that_changed_since_are_told(tmp_path, version):
    bench = Bench(tmp_path, version)
    bench.run()
    (results,) = find_results(bench.folder, "k0")
    (results / "sysinfo.csv").write_text("", encoding="utf-8")
    assert rules(bench.again()) == ["compute-files-changed"]
    assert (results / MARKER_NAME).is_file()


def test_a_folder_without_a_plan_cannot_be_judged(tmp_path):
    bench = Bench(tmp_path, "3.7")
    bench.run()
    (results,) = find_results(bench.folder, "k0")
    shutil.rmtree(results / "perfmon")
    later = bench.again()
    assert "compute-no-plan" in rules(later)
    assert not later.is_complete


@pytest.mark.parametrize("version", ["3.5", "3.6", "3.7", "3.10"])
def test_passes_that_share_a_run_share_its_launches(tmp_path, version):
    bench = Bench(tmp_path, version)
    words = (sys.executable, "-I", "-S", "-c", f"print('standin-launch: 31 {KERNEL}')")
    outcome = bench.run(multiplexes=True, application=words, launches_count=31)
    assert outcome.verdict is Verdict.COMPLETE
    assert rules(outcome) == []
    # 31 launches over three passes, one after the other.
    assert [each.launches_count for each in outcome.passes] == [11, 10, 10]
    assert outcome.launches_count == 31


@pytest.mark.parametrize("version", ["3.5", "3.10"])
def test_passes_without_a_launch_of_their_own_are_reported(tmp_path, version):
    """Two launches for three passes."""
    bench = Bench(tmp_path, version)
    words = (sys.executable, "-I", "-S", "-c", f"print('standin-launch: 2 {KERNEL}')")
    outcome = bench.run(multiplexes=True, application=words, launches_count=2)
    # The request knew nothing of its launches, so nothing was refused.
    assert outcome.verdict is Verdict.INCOMPLETE
    (finding,) = outcome.findings
    assert finding.rule == "compute-pass-missing"
    assert "more often" in finding.advice


@pytest.mark.parametrize("version", ["3.3", "3.7", "3.10"])
def test_peaks_are_a_row_of_roofline_csv(tmp_path, version):
    bench = Bench(tmp_path, version)

    def run_peaks(folder: Path, faults: str) -> WorkloadOutcome:
        folder.mkdir()
        words = (sys.executable, "-I", "-S", "-c", "pass")
        command = peaks_command(bench.tool, PeaksRequest(slug="peaks", folder=folder, application=words))
        marker = WorkloadMarker(
            slug="peaks",
            kernel_name="",
            version=str(bench.tool.version),
            argv=command.argv,
            started_utc="2026-11-30T03:00:00.000+00:00",
            ended_utc="2026-11-30T03:01:00.000+00:00",
            exit_code=bench.start(command, faults=faults),
        )
        return read_peaks_outcome(folder, write_marker(folder, marker))

    outcome = run_peaks(tmp_path / "good", "")
    assert (outcome.verdict, rules(outcome)) == (Verdict.COMPLETE, [])
    outcome = run_peaks(tmp_path / "bad", "no-roofline")
    assert (outcome.verdict, rules(outcome)) == (Verdict.EMPTY, ["compute-no-peaks"])
