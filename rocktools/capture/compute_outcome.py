"""Whether a run of rocprof-compute counted what it should: success is rows, whatever its exit code says.

It ends with 0 when no kernel matched its filter; it drops a kernel that one pass lacks from all of them, without a word
(an inner join); it cuts launches to the smallest number of any pass; and it groups rows by the ids of dispatches, so
that a shifted id splits a launch in two. Each of these has a finding of its own here. Reads files, starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rocktools.capture.compute_checks import (
    Expected,
    PassVerdict,
    check_kernel,
    check_launches,
    check_numbers,
    check_other_kernels,
    check_passes,
    find_launches,
    judge_pass,
)
from rocktools.capture.compute_folder import MARKER_NAME, WorkloadMarker, changed_files, find_results
from rocktools.capture.compute_place import workload_place
from rocktools.capture.compute_rows import read_workload_rows
from rocktools.capture.compute_versions import Layout
from rocktools.errors import DamagedFile
from rocktools.findings import Finding, Severity, has_fault

ROOFLINE_NAME = "roofline.csv"
_NOT_ENDED = frozenset({"compute-run-unfinished", "compute-run-failed"})


class Verdict(str, Enum):
    """What became of a workload."""

    COMPLETE = "complete"  # every pass has the same launches of the kernel
    INCOMPLETE = "incomplete"  # some rows of it are there, and some are not
    EMPTY = "empty"  # not one row of it
    FAILED = "failed"  # the run did not end with exit code 0, whatever it left

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOutcome:
    """What a run left.

    Attributes:
        verdict: in a word.
        results: folder of the results; None where there is none, or more than one.
        layout: how the counters lie; None where there are none.
        passes: planned, each with its verdict.
        launches_count: of the wanted kernel in every pass, or in all passes that shared a run; None where they differ.
        kernels: names that occur, by time.
        kernel_rank: place of the wanted one among them, from 0, as `analyze -k` counts; None where it is not there.
        findings: what is wrong, and doubts; a fault means that the numbers must not be used.
    """

    verdict: Verdict
    results: Path | None
    layout: Layout | None
    passes: tuple[PassVerdict, ...]
    launches_count: int | None
    kernels: tuple[str, ...]
    kernel_rank: int | None
    findings: tuple[Finding, ...]

    @property
    def is_complete(self) -> bool:
        return self.verdict is Verdict.COMPLETE


def read_outcome(folder: Path, marker: WorkloadMarker) -> WorkloadOutcome:
    """What a workload came to, by what it left.

    Args:
        folder: where rocprof-compute was started.
        marker: what is known of the run, as `write_marker` or `read_marker` gave it.
    """
    findings = _check_end(folder, marker)
    found = find_results(folder, marker.slug)
    place = str(workload_place(folder, marker.slug))
    if len(found) != 1:
        return _outcome(marker, [*findings, _no_folder(place, found, marker)])
    results = found[0]
    findings += _check_marker(results, marker)
    try:
        rows = read_workload_rows(results)
    except DamagedFile as error:
        findings.append(_fault("compute-file-damaged", error.where or place, error.what, "run it once more"))
        return _outcome(marker, findings, results=results)
    findings += [
        _fault("compute-file-damaged", error.where or place, error.what, "run it once more") for error in rows.damaged
    ]
    if not rows.planned:
        message = "no pass is planned in its folder perfmon, so it cannot be told whether one is missing"
        findings.append(_fault("compute-no-plan", str(results), message, "run it once more"))
    expected = Expected(
        kernel_name=marker.kernel_name,
        launches_count=marker.launches_count,
        multiplexes=marker.multiplexes,
        exit_code=marker.exit_code,
    )
    launches = find_launches(rows, marker.kernel_name)
    passes = tuple(judge_pass(planned, rows, expected) for planned in rows.planned)
    findings += check_kernel(rows, launches, expected)
    if launches:
        findings += check_passes(passes, rows, expected)
        findings += check_launches(passes, launches, rows, expected)
        findings += check_numbers(passes, rows, expected)
    findings += check_other_kernels(rows, expected)
    return _outcome(
        marker,
        findings,
        results=results,
        layout=rows.layout,
        passes=passes,
        launches_counts=[len(launches)] if marker.multiplexes else [each.launches_count for each in passes],
        kernels=rows.kernels,
    )


def read_peaks_outcome(folder: Path, marker: WorkloadMarker) -> WorkloadOutcome:
    """What a run for peaks came to: whether roofline.csv is there. `marker.kernel_name` is "".

    Args:
        folder: where rocprof-compute was started.
        marker: what is known of the run.
    """
    findings = _check_end(folder, marker)
    found = find_results(folder, marker.slug)
    place = str(workload_place(folder, marker.slug))
    if len(found) != 1:
        return _outcome(marker, [*findings, _no_folder(place, found, marker)])
    path = found[0] / ROOFLINE_NAME
    findings += _check_marker(found[0], marker)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    rows_count = sum(bool(line.strip()) for line in lines[1:])
    if not rows_count:
        what = "has no row" if path.is_file() else "is not there"
        message = f"{ROOFLINE_NAME} {what}: no peak was measured, though the exit code is {marker.exit_code}"
        findings.append(_fault("compute-no-peaks", str(path), message, "look into its log.txt"))
    return _outcome(marker, findings, results=found[0], launches_counts=[rows_count] if rows_count else [])


def _outcome(
    marker: WorkloadMarker,
    findings: list[Finding],
    *,
    results: Path | None = None,
    layout: Layout | None = None,
    passes: tuple[PassVerdict, ...] = (),
    launches_counts: list[int] | None = None,
    kernels: tuple[str, ...] = (),
) -> WorkloadOutcome:
    counts = launches_counts or []
    if any(finding.rule in _NOT_ENDED for finding in findings):
        verdict = Verdict.FAILED
    elif not any(counts):
        verdict = Verdict.EMPTY
    else:
        verdict = Verdict.INCOMPLETE if has_fault(findings) else Verdict.COMPLETE
    return WorkloadOutcome(
        verdict=verdict,
        results=results,
        layout=layout,
        passes=passes,
        launches_count=counts[0] if len(set(counts)) == 1 and counts[0] else None,
        kernels=kernels,
        kernel_rank=kernels.index(marker.kernel_name) if marker.kernel_name in kernels else None,
        findings=tuple(findings),
    )


def _check_end(folder: Path, marker: WorkloadMarker) -> list[Finding]:
    where = str(folder)
    if marker.ended_utc is None:
        message = f"the run that began at {marker.started_utc} has no end: we were killed, or it is still running"
        return [_fault("compute-run-unfinished", where, message, "run it once more in a new folder")]
    if marker.exit_code == 0:
        return []
    how = f"signal {marker.signal_number}" if marker.signal_number is not None else f"exit code {marker.exit_code}"
    numbers = {
        name: number
        for name, number in (("exit_code", marker.exit_code), ("signal_number", marker.signal_number))
        if number is not None
    }
    return [
        Finding(
            rule="compute-run-failed",
            severity=Severity.FAULT,
            where=where,
            message=f"rocprof-compute ended with {how}: what it left is half of a workload at most",
            numbers=numbers,
            advice="its output and log.txt say why",
        )
    ]


def _no_folder(place: str, found: tuple[Path, ...], marker: WorkloadMarker) -> Finding:
    if found:
        return _fault(
            "compute-several-folders",
            place,
            f"there are {len(found)} folders of results ({', '.join(path.name for path in found)}); one run leaves one",
            "run in a new folder, without variables of a rank",
        )
    if marker.files:
        return _fault(
            "compute-folder-wiped",
            place,
            f"the results, {len(marker.files)} files when the run ended, are gone",
            "run it once more; share no folder between runs",
        )
    return _fault(
        "compute-no-results",
        place,
        f"there is no folder of results (exit code {marker.exit_code})",
        "look into its output",
    )


def _check_marker(results: Path, marker: WorkloadMarker) -> list[Finding]:
    if not marker.files:
        return []
    if not (results / MARKER_NAME).is_file():
        message = (
            f"our {MARKER_NAME} is gone from it: another run has emptied the folder since, and these are its files"
        )
        return [_fault("compute-folder-wiped", str(results), message, "run it once more; share no folder between runs")]
    changed = changed_files(results, marker)
    if not changed:
        return []
    return [
        Finding(
            rule="compute-files-changed",
            severity=Severity.FAULT,
            where=str(results / changed[0]),
            message=f"{len(changed)} of {len(marker.files)} files are gone, or have another size than after the run",
            numbers={"changed_files_count": len(changed), "files_count": len(marker.files)},
            advice="run it once more",
        )
    ]


def _fault(rule: str, where: str, message: str, advice: str) -> Finding:
    return Finding(rule=rule, severity=Severity.FAULT, where=where, message=message, advice=advice)
