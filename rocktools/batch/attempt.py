"""One attempt at one job: a fresh folder, the command, its end, what it left; and whether that is still so later."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rocktools.batch.jobs import (
    CheckedKernel,
    Work,
    build_kernel_command,
    build_peaks_command,
    expected_launches,
    job_folder,
)
from rocktools.batch.state import Attempt, Job, JobKind, JobState
from rocktools.capture.compute_analyze import AnalyzeCommand
from rocktools.capture.compute_command import ComputeCommand
from rocktools.capture.compute_folder import (
    WorkloadMarker,
    find_results,
    read_marker,
    require_fresh_place,
    write_marker,
)
from rocktools.capture.compute_messages import find_lasting_fault, scan_output
from rocktools.capture.compute_outcome import Verdict, WorkloadOutcome, read_outcome, read_peaks_outcome
from rocktools.capture.environment import redact_argv, redact_text
from rocktools.capture.known_texts import read_tail
from rocktools.errors import CaptureError, RocktoolsError
from rocktools.findings import Finding, Severity, has_fault
from rocktools.process import ProcessRequest, ProcessResult, Stop, run_process
from rocktools.rundir import LOGS_FOLDER, hash_file

# rocprof-compute begins every pass anew, so what it has not written is not worth waiting for.
_INTERRUPT_GRACE_S = 10.0
_TERMINATE_GRACE_S = 5.0
_ERROR = re.compile(r"^(?:ERROR|\[ERROR\]|\w*(?:Error|Exception): )")
_SAID_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How processes are run.

    Attributes:
        environment: ours, whole.
        deadline_s: after which an attempt is stopped; None for none.
        lock: descriptor that children inherit, so that the run is held as long as one of them lives; None for none.
    """

    environment: Mapping[str, str]
    deadline_s: float | None = None
    lock: int | None = None


OnWait = Callable[[float], None]


def begin_attempt(run: Path, job: Job, device: int | None, version: str) -> Attempt:
    """The next attempt at a job, in a folder that was not there before.

    Raises:
        CaptureError: the folder cannot be made.
    """
    number = max((attempt.number for attempt in job.attempts), default=0) + 1
    while (run / job_folder(job) / f"attempt-{number}").exists() or _log(run, job, number, "stdout").exists():
        number += 1
    folder = f"{job_folder(job)}/attempt-{number}"
    try:
        (run / folder).mkdir(parents=True)
        (run / LOGS_FOLDER).mkdir(exist_ok=True)
    except OSError as error:
        what = f"cannot make the folder of the attempt: {error.strerror}"
        raise CaptureError("batch-folder", what, where=str(run / folder)) from error
    return Attempt(
        number=number,
        folder=folder,
        state=JobState.RUNNING,
        device=device,
        started_utc=_now(),
        version=version,
    )


def run_workload(
    work: Work,
    job: Job,
    kernel: CheckedKernel | None,
    attempt: Attempt,
    device: int | None,
    settings: RunSettings,
    on_wait: OnWait,
) -> Attempt:
    """Profile a kernel, or measure the peaks; the attempt as it ended, verified by what it left.

    Args:
        kernel: of the job; None for the peaks.
        device: as HIP_VISIBLE_DEVICES names it.

    Raises:
        RocktoolsError: it cannot be started, or a record cannot be written.
    """
    folder = work.run / attempt.folder
    if kernel is None:
        command = build_peaks_command(work, folder, device)
    else:
        command = build_kernel_command(work, kernel, folder, device)
    require_fresh_place(folder, job.name)
    marker = WorkloadMarker(
        slug=job.name,
        kernel_name=job.kernel,
        version=str(work.tool.version),
        argv=tuple(redact_argv(command.argv)),
        started_utc=attempt.started_utc,
        launches_count=None if kernel is None else expected_launches(work, kernel),
        multiplexes=kernel is not None and work.plan.selection.multiplexes,
        replay_sha256=None if kernel is None else kernel.bundle.program_sha256,
    )
    write_marker(folder, marker)
    result = _start(work.run, job, attempt.number, command, settings, on_wait)
    ended = replace(marker, ended_utc=_now(), exit_code=result.exit_code, signal_number=result.signal_number)
    ended = write_marker(folder, ended)
    outcome = read_outcome(folder, ended) if kernel is not None else read_peaks_outcome(folder, ended)
    return _conclude(work.run, job, attempt, result, outcome, command.findings)


def run_analysis(
    run: Path,
    job: Job,
    attempt: Attempt,
    commands: Sequence[AnalyzeCommand],
    settings: RunSettings,
    on_wait: OnWait,
) -> Attempt:
    """Turn results into tables, one call after the other; the attempt as it ended.

    Raises:
        RocktoolsError: a call cannot be started.
    """
    duration_s = 0.0
    results: list[str] = []
    files: dict[str, str] = {}
    for number, each in enumerate(commands, start=1):
        part = "" if len(commands) == 1 else f"-{number}"
        result = _start(run, job, attempt.number, each.command, settings, on_wait, part=part)
        duration_s += result.duration_s
        attempt = replace(
            attempt, duration_s=duration_s, exit_code=result.exit_code, signal_number=result.signal_number
        )
        log = _log(run, job, attempt.number, "stdout", part)
        if result.stopped_by is not Stop.NONE:
            return _stopped(attempt, result)
        if result.exit_code != 0:
            said = _explain(run, job, attempt.number, part)
            attempt = replace(attempt, findings=tuple(_document(finding) for finding in said))
            what = f"rocprof-compute analyze ended with {_ending(result)}; its output: {log}"
            cause = find_lasting_fault(said)
            reason, what = ("analysis-failed", what) if cause is None else (cause.rule, cause.message)
            return replace(attempt, state=JobState.FAILED, reason=reason, what=redact_text(what))
        written = _files_of(each.output)
        if not written:
            what = f"rocprof-compute analyze ended well and wrote nothing to {each.output.name}; its output: {log}"
            return replace(attempt, state=JobState.FAILED, reason="analysis-empty", what=what)
        results.append(each.output.relative_to(run).as_posix())
        files |= {path.relative_to(run).as_posix(): hash_file(path) for path in written}
    return replace(attempt, state=JobState.DONE, results=tuple(results), files=files)


def fail_attempt(attempt: Attempt, error: RocktoolsError) -> Attempt:
    """The attempt that could not be made."""
    return replace(attempt, state=JobState.FAILED, reason=error.reference, what=redact_text(error.what))


def find_change(run: Path, job: Job, replay_sha256: str | None) -> str:
    """What of a finished attempt is not as it was when it was verified; "" where all of it is.

    Args:
        replay_sha256: of the replay as it is now; None where the job has none.
    """
    attempt = job.last
    assert attempt is not None
    for name, digest in attempt.files.items():
        path = run / name
        if not path.is_file():
            return f"{name} is gone"
        if hash_file(path) != digest:
            return f"{name} has another content"
    if job.kind is JobKind.ANALYSIS:
        return ""
    try:
        marker = read_marker(run / attempt.folder)
    except RocktoolsError as error:
        return error.what
    if marker is None:
        return f"the note about it in {attempt.folder} is gone"
    if marker.replay_sha256 != replay_sha256:
        return "it was made of another replay"
    outcome = read_peaks_outcome if job.kind is JobKind.PEAKS else read_outcome
    faults = [each for each in outcome(run / attempt.folder, marker).findings if each.severity is Severity.FAULT]
    return faults[0].message if faults else ""


def _start(
    run: Path,
    job: Job,
    number: int,
    command: ComputeCommand,
    settings: RunSettings,
    on_wait: OnWait,
    *,
    part: str = "",
) -> ProcessResult:
    for file in command.files:
        file.path.write_text(file.text, encoding="utf-8")
        file.path.chmod(0o755)
    request = ProcessRequest(
        argv=command.argv,
        env=command.delta(settings.environment).apply(settings.environment),
        cwd=command.cwd,
        stdout_path=_log(run, job, number, "stdout", part),
        stderr_path=_log(run, job, number, "stderr", part),
        deadline_s=settings.deadline_s,
        interrupt_grace_s=_INTERRUPT_GRACE_S,
        terminate_grace_s=_TERMINATE_GRACE_S,
        inherited_descriptors=() if settings.lock is None else (settings.lock,),
    )
    return run_process(request, on_wait=on_wait)


def _conclude(
    run: Path,
    job: Job,
    attempt: Attempt,
    result: ProcessResult,
    outcome: WorkloadOutcome,
    doubts: Sequence[Finding],
) -> Attempt:
    is_good = result.stopped_by is Stop.NONE and outcome.is_complete and not has_fault(outcome.findings)
    said = [] if is_good else _explain(run, job, attempt.number)
    seen = outcome.findings if result.stopped_by is Stop.NONE else ()  # half a run lacks most of it
    findings = [*doubts, *said, *seen]
    filled = [each for each in outcome.passes if each.launches_count]
    attempt = replace(
        attempt,
        duration_s=result.duration_s,
        exit_code=result.exit_code,
        signal_number=result.signal_number,
        passes_count=len(filled) if job.kind is JobKind.KERNEL else None,
        launches_count=outcome.launches_count if job.kind is JobKind.KERNEL else None,
        kernel_rank=outcome.kernel_rank if len(outcome.kernels) > 1 else None,
        results=() if outcome.results is None else (outcome.results.relative_to(run).as_posix(),),
        findings=tuple(_document(finding) for finding in findings),
    )
    if result.stopped_by is not Stop.NONE:
        return _stopped(attempt, result)
    if not is_good:
        reason, what = _why(run, job, attempt, outcome, said)
        return replace(attempt, state=JobState.FAILED, reason=reason, what=redact_text(what))
    return replace(attempt, state=JobState.DONE, files=_hashes(run, run / attempt.folder, job.name))


def _explain(run: Path, job: Job, number: int, part: str = "") -> list[Finding]:
    """What the output of a run that is no good says, where its texts are known."""
    return scan_output(*(_log(run, job, number, stream, part) for stream in ("stdout", "stderr")))


def _why(run: Path, job: Job, attempt: Attempt, outcome: WorkloadOutcome, said: Sequence[Finding]) -> tuple[str, str]:
    """The reason of a run that is no good, and a sentence: what the tool said, where that is known to stay so."""
    cause = None if outcome.verdict is Verdict.INCOMPLETE else find_lasting_fault(said)
    if cause is not None:
        return cause.rule, cause.message
    faults = [each for each in outcome.findings if each.severity is Severity.FAULT]
    reason, what = (faults[0].rule, faults[0].message) if faults else ("compute-incomplete", outcome.verdict.value)
    words = "" if attempt.exit_code == 0 else _last_words(run, job, attempt.number)
    return reason, f"{what}; it said: {words}" if words else what


def _last_words(run: Path, job: Job, number: int) -> str:
    """The last error that the tool printed, or else its last line; "" where it said nothing."""
    texts = [read_tail(_log(run, job, number, stream)) for stream in ("stdout", "stderr")]
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    return (errors or lines or [""])[-1][-_SAID_CHARACTERS:]


def _stopped(attempt: Attempt, result: ProcessResult) -> Attempt:
    if result.stopped_by is Stop.DEADLINE:
        what = f"stopped after {result.duration_s:.0f} s, which was its time (--timeout)"
        return replace(attempt, state=JobState.FAILED, reason="timed-out", what=what)
    return replace(attempt, state=JobState.INTERRUPTED, reason="interrupted", what="the user stopped it")


def _hashes(run: Path, folder: Path, slug: str) -> dict[str, str]:
    """Of the files of results that `analyze` leaves as they are: those that the note about the run lists."""
    marker = read_marker(folder)
    [results] = find_results(folder, slug)
    assert marker is not None
    return {(results / name).relative_to(run).as_posix(): hash_file(results / name) for name in marker.files}


def _files_of(path: Path) -> list[Path]:
    found = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return [each for each in found if each.stat().st_size > 0]


def _document(finding: Finding) -> dict[str, Any]:
    return replace(finding, message=redact_text(finding.message)).as_dict()


def _ending(result: ProcessResult) -> str:
    return f"signal {result.signal_number}" if result.signal_number else f"exit code {result.exit_code}"


def _log(run: Path, job: Job, number: int, stream: str, part: str = "") -> Path:
    return run / LOGS_FOLDER / f"{job.name}{part}.{number}.{stream}"


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
