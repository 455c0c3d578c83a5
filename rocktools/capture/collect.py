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
from rocktools.capture.plan import PLAN_NAME, PLAN_SCHEMA, SPILL_FOLDER, CapturePlan, PlannedPass
from rocktools.capture.verify import PassFrames, Verification, verify_pass
from rocktools.correlate.passes import compare_passes, number_executions
from rocktools.errors import CaptureError, DamagedFile, UsageError
from rocktools.findings import Finding, Severity, has_fault
from rocktools.process import ProcessRequest, ProcessResult, Stop, run_process
from rocktools.rundir import (
    LOGS_FOLDER,
    CommandRecord,
    Manifest,
    PassRecord,
    create_run_directory,
    load_json,
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
        facts: of host, tool and job, for the manifest.
        findings: of preflight, for the manifest.
    """

    environment: Mapping[str, str]
    working_directory: Path
    deadline_s: float | None
    interrupt_grace_s: float
    argv: tuple[str, ...]
    created_utc: str
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


def require_same_capture(run: Path, plan: CapturePlan) -> None:
    """Check that a run directory was made by the same plan. Nothing is written.

    Raises:
        UsageError: it was made by another plan, or there is nothing to resume.
        InputError, DamagedFile: its plan cannot be read.
    """
    target = run / PLAN_NAME
    document = plan.as_document()
    if not target.is_file():
        raise UsageError("nothing-to-resume", "there is no capture in this folder", where=str(run))
    try:
        before = load_json(target)
    except ValueError as error:
        raise DamagedFile("plan-damaged", f"the plan is not JSON: {error}", where=str(target)) from error
    if not isinstance(before, dict):
        raise DamagedFile("plan-damaged", "the plan is not a JSON object", where=str(target))
    if before.get("schema") != PLAN_SCHEMA or before.get("passes") != document["passes"]:
        raise UsageError(
            "another-capture",
            "the capture in this folder was planned with other options, another command or another environment",
            where=str(target),
            hint="repeat the command that began it, with --resume; or begin a new run",
        )


def next_attempts(run: Path, plan: CapturePlan) -> dict[str, int | None]:
    """The name of each pass -> the number of its next attempt, or None where a verified record says it is done.

    Raises:
        InputError, DamagedFile, UnsupportedVersion: a record cannot be read.
    """
    records = read_pass_records(run)
    attempts: dict[str, int | None] = {}
    for planned in plan.passes:
        earlier = [record for record in records if record.name == planned.name]
        is_done = any(record.is_verified for record in earlier)
        attempts[planned.name] = None if is_done else _next_attempt(run, planned, earlier)
    return attempts


def run_capture(run: Path, plan: CapturePlan, settings: CaptureSettings, progress: Progress) -> CaptureReport:
    """Run every pass without a verified record, in order, until one fails or all are done; then write the manifest.

    Raises:
        CaptureError: a process cannot be started.
        DamagedFile: a record of an earlier attempt cannot be read.
    """
    write_command_record(run, _command_record(plan, settings))
    findings: list[Finding] = []
    frames: list[PassFrames] = []
    was_interrupted = False
    is_good = True
    for number, planned in enumerate(plan.passes, start=1):
        earlier = [record for record in read_pass_records(run) if record.name == planned.name]
        verified = [record for record in earlier if record.is_verified]
        if verified:
            frames += _reread(run, planned, verified[-1])
            continue

        def tell(elapsed_s: float, name: str = planned.name, number: int = number) -> None:
            progress(name, number, len(plan.passes), elapsed_s)

        attempt = _next_attempt(run, planned, earlier)
        result, verification, record = _attempt(run, plan, planned, attempt, settings, tell)
        write_pass_record(run, record)
        findings += [Finding(**_finding_fields(finding)) for finding in record.findings]
        frames.append(verification.frames)
        was_interrupted = result.stopped_by is Stop.INTERRUPT
        if was_interrupted or not record.is_verified:
            is_good = False
            break
    differences: list[Finding] = []
    if is_good:
        differences = _compare(frames, str(run))
        findings += differences
        is_good = not has_fault(differences)
    records = read_pass_records(run)
    _write_manifest(run, records, differences)
    return CaptureReport(
        records=records, findings=tuple(findings), is_complete=is_good, was_interrupted=was_interrupted
    )


def _next_attempt(run: Path, planned: PlannedPass, earlier: Sequence[PassRecord]) -> int:
    """One more than any attempt there is a record or a folder of: a killed capture leaves a folder and no record."""
    attempt = max((record.attempt for record in earlier), default=0) + 1
    while planned.folder(run, attempt).exists() or _log_path(run, planned, attempt, "stdout").exists():
        attempt += 1
    return attempt


def _log_path(run: Path, planned: PlannedPass, attempt: int, stream: str) -> Path:
    return run / LOGS_FOLDER / f"{planned.name.replace('/', '.')}.{attempt}.{stream}"


def _attempt(
    run: Path,
    plan: CapturePlan,
    planned: PlannedPass,
    attempt: int,
    settings: CaptureSettings,
    tell: Callable[[float], None],
) -> tuple[ProcessResult, Verification, PassRecord]:
    folder = planned.folder(run, attempt)
    spill = planned.spill_folder(run, attempt)
    for needed in (folder, spill, run / LOGS_FOLDER):
        needed.mkdir(parents=True, exist_ok=True)
    environment = {**planned.environment.apply(settings.environment), **planned.variables(run, attempt)}
    stderr_path = _log_path(run, planned, attempt, "stderr")
    argv = planned.argv(plan.tool, folder)
    request = ProcessRequest(
        argv=tuple(argv),
        env=environment,
        cwd=settings.working_directory,
        stdout_path=_log_path(run, planned, attempt, "stdout"),
        stderr_path=stderr_path,
        deadline_s=settings.deadline_s,
        interrupt_grace_s=settings.interrupt_grace_s,
        terminate_grace_s=min(settings.interrupt_grace_s, _MOST_TERMINATE_GRACE_S),
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
        facts=planned.facts,
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


def _reread(run: Path, planned: PlannedPass, record: PassRecord) -> list[PassFrames]:
    """The frames of a pass that was verified in an earlier run of us, to compare later passes with.

    Raises:
        CaptureError: its databases are not what they were when they were verified.
    """
    if planned.expectation.kind == "trace":
        return []
    verification = verify_pass(
        run,
        run / record.folder,
        planned.expectation,
        label=planned.name.split("/")[-1],
        stderr_path=run / LOGS_FOLDER / "none",
        spill_folder=run / SPILL_FOLDER / "none",
    )
    before = {database.path: database.sha256 for database in record.databases}
    if before != {database.path: database.sha256 for database in verification.databases}:
        raise CaptureError(
            "verified-pass-changed",
            f"the databases of {planned.name} are not those that were verified",
            where=str(run / record.folder),
            hint="begin a new run",
        )
    return [verification.frames]


def _compare(frames: Sequence[PassFrames], where: str) -> list[Finding]:
    counted = [part for part in frames if not part.counted.empty]
    if len(counted) < 2:
        return []
    import pandas as pd

    numbered = [number_executions(part.counted, part.processes, part.agents) for part in counted]
    return compare_passes(pd.concat(numbered, ignore_index=True), where=where)


def _command_record(plan: CapturePlan, settings: CaptureSettings) -> CommandRecord:
    tool = {"executable": plan.tool.executable, "version": str(plan.tool.version), **dict(plan.tool.facts)}
    return CommandRecord(
        argv=tuple(redact_argv(settings.argv)),
        created_utc=settings.created_utc,
        facts={**settings.facts, "tool": tool},
        findings=tuple(finding.as_dict() for finding in _redacted(settings.findings)),
    )


def _write_manifest(run: Path, records: tuple[PassRecord, ...], differences: Sequence[Finding]) -> None:
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
