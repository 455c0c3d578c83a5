"""Runs the passes of a plan, checks what each of them left, and fills the run directory.

A pass is started, waited for, verified, and its record written, before the next one starts. A pass that fails ends the
capture: later passes would repeat its fault. What a killed capture left is taken up again at the first pass without a
verified record; nothing of an earlier attempt is removed or overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rocktools.capture.environment import redact, redact_argv, redact_text
from rocktools.capture.known_texts import read_tail
from rocktools.capture.outcome import Outcome, classify
from rocktools.capture.plan import PLAN_NAME, CapturePlan, PlannedPass
from rocktools.capture.resume import (
    CIRCUMSTANCES,
    compare_frames,
    find_done,
    log_path,
    next_attempt,
    require_same_capture,
)
from rocktools.capture.run_lock import hold_run
from rocktools.capture.verify import PassFrames, Verification, verify_pass
from rocktools.findings import Finding, Severity, has_fault
from rocktools.process import ProcessRequest, ProcessResult, Stop, run_process
from rocktools.rundir import (
    LOGS_FOLDER,
    CommandRecord,
    Manifest,
    PassRecord,
    create_run_directory,
    read_command_records,
    read_pass_records,
    write_command_record,
    write_json_file,
    write_manifest,
    write_pass_record,
)

# After SIGTERM the tool has nothing left to write that SIGINT did not give it time for.
_MOST_TERMINATE_GRACE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """How passes are run.

    Attributes:
        environment: ours, whole.
        working_directory: of the job.
        deadline_s: after which a pass is stopped; None for none.
        interrupt_grace_s: how long the tool may take to write its databases after SIGINT.
        argv: our own command line, for the manifest.
        created_utc: now, ISO 8601.
        circumstances: what must be the same for all passes of a run, by name.
        facts: of host, tool and job, for the manifest.
        findings: of preflight, for the manifest.
    """

    environment: Mapping[str, str]
    working_directory: Path
    deadline_s: float | None
    interrupt_grace_s: float
    argv: tuple[str, ...]
    created_utc: str
    circumstances: Mapping[str, Any]
    facts: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureReport:
    """What a capture came to.

    Attributes:
        records: of all attempts in the run, earlier ones included.
        findings: of this capture's passes, and of their comparison.
        is_complete: whether every planned pass has a verified record and the passes agree.
        was_interrupted: whether the user stopped it.
    """

    records: tuple[PassRecord, ...]
    findings: tuple[Finding, ...]
    is_complete: bool
    was_interrupted: bool


# Called with the pass's name, its number, the number of passes, and the seconds it has been running.
Progress = Callable[[str, int, int, float], None]


def prepare_run(run: Path, plan: CapturePlan, *, resumes: bool) -> None:
    """Make the run directory, or check that the one there is the same capture.

    Raises:
        UsageError: it is there and not to be resumed, or it was made by another plan, or there is nothing to resume.
        InputError, DamagedFile: its plan cannot be read.
    """
    if resumes:
        require_same_capture(run, plan)
        return
    document = plan.as_document()  # what cannot be asked of this tool shows here, before anything is made
    create_run_directory(run)
    write_json_file(run / PLAN_NAME, document)


def run_capture(run: Path, plan: CapturePlan, settings: CaptureSettings, progress: Progress) -> CaptureReport:
    """Run every pass that is not done, in order, until one fails or all are done; then write the manifest.

    Raises:
        UsageError: another capture, or a job that one left behind, holds the run, or what is done is not comparable.
        CaptureError: a process cannot be started, or the databases of a pass that is done have changed.
        DamagedFile: a record of an earlier attempt cannot be read.
    """
    with hold_run(run / PLAN_NAME) as lock:
        done = find_done(run, plan, settings.circumstances)
        write_command_record(run, _command_record(plan, settings))
        findings: list[Finding] = []
        frames: list[PassFrames] = []
        was_interrupted = False
        is_good = True
        for number, planned in enumerate(plan.passes, start=1):
            if planned.name in done:
                frames.append(done[planned.name])
                continue

            def tell(elapsed_s: float, name: str = planned.name, number: int = number) -> None:
                progress(name, number, len(plan.passes), elapsed_s)

            attempt = next_attempt(run, planned)
            result, verification, record = _attempt(run, plan, planned, attempt, settings, lock, tell)
            write_pass_record(run, record)
            findings += [Finding(**_finding_fields(finding)) for finding in record.findings]
            frames.append(verification.frames)
            was_interrupted = result.stopped_by is Stop.INTERRUPT
            if was_interrupted or not record.is_verified:
                is_good = False
                break
        differences = compare_frames(frames, str(run)) if is_good else []
        records = read_pass_records(run)
        is_complete = is_good and not has_fault(differences)
        _write_manifest(run, records, differences, is_complete=is_complete)
    return CaptureReport(
        records=records,
        findings=(*findings, *differences),
        is_complete=is_complete,
        was_interrupted=was_interrupted,
    )


def _attempt(
    run: Path,
    plan: CapturePlan,
    planned: PlannedPass,
    attempt: int,
    settings: CaptureSettings,
    lock: int | None,
    tell: Callable[[float], None],
) -> tuple[ProcessResult, Verification, PassRecord]:
    folder = planned.folder(run, attempt)
    spill = planned.spill_folder(run, attempt)
    for needed in (folder, spill, run / LOGS_FOLDER):
        needed.mkdir(parents=True, exist_ok=True)
    environment = {**planned.environment.apply(settings.environment), **planned.variables(run, attempt)}
    stderr_path = log_path(run, planned, attempt, "stderr")
    argv = planned.argv(plan.tool, folder)
    request = ProcessRequest(
        argv=tuple(argv),
        env=environment,
        cwd=settings.working_directory,
        stdout_path=log_path(run, planned, attempt, "stdout"),
        stderr_path=stderr_path,
        deadline_s=settings.deadline_s,
        interrupt_grace_s=settings.interrupt_grace_s,
        terminate_grace_s=min(settings.interrupt_grace_s, _MOST_TERMINATE_GRACE_S),
        inherited_descriptors=() if lock is None else (lock,),
    )
    result = run_process(request, on_wait=tell)
    verification = verify_pass(
        run,
        folder,
        planned.expectation,
        label=planned.name.split("/")[-1],
        stderr_path=stderr_path,
        spill_folder=spill,
    )
    outcome, sentence = classify(result, read_tail(stderr_path))
    findings = [*_outcome_findings(outcome, sentence, stderr_path), *verification.findings]
    if result.survivors_killed_count:
        findings.append(_survivors(result, stderr_path))
    findings = _redacted(findings)
    record = PassRecord(
        name=planned.name,
        kind=planned.expectation.kind,
        attempt=attempt,
        folder=folder.relative_to(run).as_posix(),
        argv=tuple(redact_argv(argv)),
        environment_added=redact(planned.variables(run, attempt)),
        environment_removed=planned.environment.removed,
        started_utc=result.started_utc,
        duration_s=result.duration_s,
        exit_code=result.exit_code,
        signal_number=result.signal_number,
        outcome=f"{outcome.value}: {redact_text(sentence)}",
        databases=verification.databases,
        is_verified=not has_fault(findings),
        findings=tuple(finding.as_dict() for finding in findings),
        facts={**planned.facts, CIRCUMSTANCES: dict(settings.circumstances)},
    )
    return result, verification, record


def _outcome_findings(outcome: Outcome, sentence: str, stderr_path: Path) -> list[Finding]:
    """A process that did not end well makes its pass unusable, whatever rows it left: some may be missing."""
    if outcome is Outcome.SUCCESS:
        return []
    return [
        Finding(
            rule=f"pass-ended-in-{outcome.value.replace('_', '-')}",
            severity=Severity.FAULT,
            where=str(stderr_path),
            message=sentence,
            advice="the last lines of this log tell more; fix the cause, then run the same command with --resume",
        )
    ]


def _survivors(result: ProcessResult, stderr_path: Path) -> Finding:
    return Finding(
        rule="orphans-killed",
        severity=Severity.WARNING,
        where=str(stderr_path),
        message=f"{result.survivors_killed_count} processes of the job outlived it and were stopped",
        numbers={"processes_count": result.survivors_killed_count},
        advice="what they had not written is lost; let the job wait for its workers",
    )


def _redacted(findings: Sequence[Finding]) -> list[Finding]:
    """A tool that refuses its arguments repeats them, and findings repeat the tool."""
    return [replace(finding, message=redact_text(finding.message)) for finding in findings]


def _finding_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    return {**document, "severity": Severity(document["severity"])}


def _command_record(plan: CapturePlan, settings: CaptureSettings) -> CommandRecord:
    tool = {"executable": plan.tool.executable, "version": str(plan.tool.version), **dict(plan.tool.facts)}
    return CommandRecord(
        argv=tuple(redact_argv(settings.argv)),
        created_utc=settings.created_utc,
        facts={**settings.facts, "tool": tool},
        findings=tuple(finding.as_dict() for finding in _redacted(settings.findings)),
    )


def _write_manifest(
    run: Path, records: tuple[PassRecord, ...], differences: Sequence[Finding], *, is_complete: bool
) -> None:
    """Sum up all records of the run; what the first command was, and what any of them found, stays."""
    commands = read_command_records(run)
    first = commands[0]
    of_passes = [finding for record in records for finding in record.findings]
    manifest = Manifest(
        argv=first.argv,
        created_utc=first.created_utc,
        is_simulated=False,
        facts={
            **first.facts,
            "is_complete": is_complete,
            "differences": [finding.as_dict() for finding in differences],
            "preflight": _without_repeats([finding for command in commands for finding in command.findings]),
            "findings": _without_repeats([*of_passes, *(finding.as_dict() for finding in differences)]),
        },
        files={database.path: database.sha256 for record in records for database in record.databases},
        passes=records,
        captures=commands,
    )
    write_manifest(run, manifest, replaces=True)


def _without_repeats(findings: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [finding for number, finding in enumerate(findings) if finding not in findings[:number]]
