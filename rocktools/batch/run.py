"""Runs the jobs of a batch: several GPUs at once, one job at a time on each, and every step in the state file.

The peaks come first, then the kernels in the order of the plan, at the end the analysis of all that are done. A job
that fails does not stop the others. An interrupt stops what runs, in steps, and starts nothing more; what was running
then has an attempt that is interrupted, and begins anew in another folder when the batch goes on.

Jobs run in threads, since each only waits for its process; signals arrive in the main thread, which passes them on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rocktools.batch.attempt import (
    RunSettings,
    begin_attempt,
    fail_attempt,
    find_change,
    run_analysis,
    run_workload,
)
from rocktools.batch.document import render_plan
from rocktools.batch.jobs import ANALYSIS_NAME, OUTPUT_NAME, PEAKS_NAME, PLAN_NAME, Work, list_jobs, plan_digest
from rocktools.batch.plan import RESERVED_NAMES
from rocktools.batch.retry import is_retried
from rocktools.batch.state import (
    STATE_NAME,
    BatchState,
    Job,
    JobKind,
    JobState,
    interrupted_attempts,
    read_state,
    write_state,
)
from rocktools.capture.compute_analyze import AnalyzeCommand, AnalyzedWorkload, analyze_commands
from rocktools.capture.environment import redact_argv
from rocktools.capture.run_lock import hold_run
from rocktools.errors import RocktoolsError, UsageError
from rocktools.findings import Finding, Severity
from rocktools.interrupts import interrupts_noted
from rocktools.rundir import (
    CommandRecord,
    Manifest,
    create_run_directory,
    read_command_records,
    write_command_record,
    write_manifest,
)

_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """Told when a job begins, now and then while it runs, and when an attempt has ended.

    Attributes:
        name: of the job.
        number, jobs_count: which of how many.
        attempt: its number.
        device: as the user named it; None for whichever is visible.
        state: RUNNING while it runs.
        elapsed_s: since the attempt began.
        is_new: whether this is the first word of the attempt.
        what: why it is no good.
        is_retried: whether another attempt follows.
    """

    name: str
    number: int
    jobs_count: int
    attempt: int
    device: int | None
    state: JobState
    elapsed_s: float
    is_new: bool = False
    what: str = ""
    is_retried: bool = False


Tell = Callable[[JobProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What a batch came to.

    Attributes:
        state: of all jobs.
        findings: what going on with it raised.
        was_interrupted: whether the user stopped it.
    """

    state: BatchState
    findings: tuple[Finding, ...]
    was_interrupted: bool


@dataclass(slots=True)
class _Batch:
    """A batch while it runs; whatever changes is changed under `guard`."""

    work: Work
    settings: RunSettings
    tell: Tell
    state: BatchState
    waiting: deque[str]
    guard: threading.Lock = field(default_factory=threading.Lock)
    interrupts_count: int = 0
    failure: BaseException | None = None

    def write(self, name: str, attempt: Any) -> None:
        with self.guard:
            self.state = self.state.with_attempt(name, attempt)
            write_state(self.work.run, self.state)

    def take(self) -> Job | None:
        with self.guard:
            if self.interrupts_count or self.failure is not None or not self.waiting:
                return None
            return self.state.job(self.waiting.popleft())


def prepare_batch(work: Work, *, resumes: bool) -> None:
    """Make the run directory, or check that the one there is of the same batch. Nothing is written into one that is.

    Raises:
        UsageError: it is there and not to be resumed, or is another batch, or was made by another rocprof-compute.
        InputError, DamagedFile, UnsupportedVersion: its state cannot be read.
    """
    if not resumes:
        create_run_directory(work.run)
        (work.run / PLAN_NAME).write_text(render_plan(work.plan, work.run / PLAN_NAME), encoding="utf-8")
        jobs = list_jobs(work)
        state = BatchState(plan_sha256=plan_digest(work), version=str(work.tool.version), jobs=jobs)
        write_state(work.run, state)
        return
    require_same_batch(work, read_state(work.run))


def require_same_batch(work: Work, state: BatchState) -> None:
    """Check that a batch may go on with this plan and this tool.

    Raises:
        UsageError: it may not.
    """
    where = str(work.run / STATE_NAME)
    if state.plan_sha256 != plan_digest(work):
        raise UsageError(
            "another-batch",
            "the batch in this folder has other kernels, replays, passes or launches than this plan",
            where=where,
            hint=f"go on with {work.run / PLAN_NAME}, the plan that it was made by; or begin a new one: -o DIR",
        )
    if state.version != str(work.tool.version):
        raise UsageError(
            "other-compute-version",
            f"the batch in this folder was begun with rocprof-compute {state.version}, and this is "
            f"{work.tool.version}: their numbers must not stand side by side",
            where=where,
            hint="--rocprof-compute names the old one; or begin a new batch: -o DIR",
        )


def run_batch(
    work: Work, settings: RunSettings, tell: Tell, *, argv: Sequence[str], created_utc: str, facts: dict[str, Any]
) -> BatchReport:
    """Run every job that is not done, each at most twice; then write the manifest.

    Args:
        argv: our own command line.
        created_utc: now, ISO 8601.
        facts: for the manifest.

    Raises:
        UsageError: another batch, or what one left behind, holds the run.
        RocktoolsError: the state or a record cannot be written.
    """
    with hold_run(work.run / PLAN_NAME) as lock:
        command = CommandRecord(argv=tuple(redact_argv(argv)), created_utc=created_utc, facts=facts)
        write_command_record(work.run, command)
        state, findings = recheck(work, read_state(work.run))
        write_state(work.run, state)
        waiting = [job.name for job in state.jobs if job.kind is not JobKind.ANALYSIS and _is_open(job)]
        batch = _Batch(work=work, settings=replace(settings, lock=lock), tell=tell, state=state, waiting=deque(waiting))
        _run_all(batch, is_changed=bool(waiting))
        _write_manifest(batch)
    return BatchReport(state=batch.state, findings=tuple(findings), was_interrupted=batch.interrupts_count > 0)


def recheck(work: Work, state: BatchState) -> tuple[BatchState, list[Finding]]:
    """The state of a batch that goes on: jobs that were running are interrupted, and those that are done are looked at
    again; one that is not as it was is to be repeated."""
    state = interrupted_attempts(_with_wanted_jobs(work, state))
    replays = {each.planned.name: each.bundle.program_sha256 for each in work.kernels}
    findings = []
    for job in state.jobs:
        if job.state is not JobState.DONE or job.last is None:
            continue
        change = find_change(work.run, job, replays.get(job.name))
        if not change:
            continue
        lost = replace(job.last, state=JobState.FAILED, reason="results-changed", what=change)
        state = state.with_attempt(job.name, lost)
        findings.append(
            Finding(
                rule="batch-results-changed",
                severity=Severity.WARNING,
                where=str(work.run / job.last.folder),
                message=f"{job.name} was done, and is repeated: {change}",
                advice="results of a batch are read, not changed; what changed stays where it is",
            )
        )
    return state, findings


def _with_wanted_jobs(work: Work, state: BatchState) -> BatchState:
    """The state with the jobs that are wanted now: peaks or analysis may be wanted no more, unless they are done."""
    before = {job.name: job for job in state.jobs}
    wanted = {job.name: before.get(job.name, job) for job in list_jobs(work)}
    done = {job.name: job for job in state.jobs if job.state is JobState.DONE}
    kernels = [name for name in wanted if name not in RESERVED_NAMES]
    jobs = {**done, **wanted}
    return replace(state, jobs=tuple(jobs[name] for name in (PEAKS_NAME, *kernels, ANALYSIS_NAME) if name in jobs))


def find_analyses(work: Work, state: BatchState, folder: Path) -> list[AnalyzeCommand]:
    """The calls that turn all kernels that are done into tables.

    Args:
        folder: where the output comes.

    Raises:
        UsageError, CaptureError: this version cannot.
    """
    workloads = [
        AnalyzedWorkload(folder=work.run / job.last.results[0], slug=job.name, kernel_rank=job.last.kernel_rank)
        for job in state.kernels
        if job.state is JobState.DONE and job.last is not None
    ]
    return analyze_commands(work.tool, workloads, folder, OUTPUT_NAME) if workloads else []


def _is_open(job: Job) -> bool:
    return job.state is not JobState.DONE


def _run_all(batch: _Batch, *, is_changed: bool) -> None:
    """All waiting jobs on all devices, then the analysis."""
    devices: list[tuple[int | None, int | None]] = list(batch.work.devices.items()) or [(None, None)]
    with interrupts_noted() as interrupts, ThreadPoolExecutor(max_workers=len(devices)) as pool:

        def finish(futures: set[Any]) -> None:
            while futures:
                _, futures = wait(futures, timeout=_POLL_S)
                batch.interrupts_count += interrupts.take()

        try:
            finish({pool.submit(_drain, batch, physical, shown) for physical, shown in devices})
            if batch.failure is None and not batch.interrupts_count:
                finish({pool.submit(_analyse, batch, is_changed)})
        except BaseException:  # whoever ends us otherwise: children end first
            batch.interrupts_count += 1
            raise
    if batch.failure is not None:
        raise batch.failure


def _drain(batch: _Batch, physical: int | None, shown: int | None) -> None:
    """One device: one job after the other, until none is left."""
    kernels = {each.planned.name: each for each in batch.work.kernels}
    try:
        while (job := batch.take()) is not None:
            tries_count = 0
            while True:
                tries_count += 1
                kernel = kernels.get(job.name)
                attempt = begin_attempt(batch.work.run, job, shown, str(batch.work.tool.version))
                batch.write(job.name, attempt)
                on_wait = _watch(batch, job, attempt.number, shown)
                try:
                    attempt = run_workload(batch.work, job, kernel, attempt, physical, batch.settings, on_wait)
                except RocktoolsError as error:
                    attempt = fail_attempt(attempt, error)
                batch.write(job.name, attempt)
                again = attempt.state is JobState.FAILED and is_retried(attempt.reason, tries_count)
                again = again and not batch.interrupts_count
                _tell_end(batch, job, attempt, shown, is_retried=again)
                job = batch.state.job(job.name)
                if not again:
                    break
    except BaseException as failure:
        batch.failure = failure


def _analyse(batch: _Batch, is_changed: bool) -> None:
    """The analysis, if it is wanted and not done, or not of these results."""
    jobs = [job for job in batch.state.jobs if job.kind is JobKind.ANALYSIS]
    if not jobs or (jobs[0].state is JobState.DONE and not is_changed):
        return
    job = jobs[0]
    if not any(each.state is JobState.DONE for each in batch.state.kernels):
        return
    try:
        attempt = begin_attempt(batch.work.run, job, None, str(batch.work.tool.version))
        batch.write(job.name, attempt)
        on_wait = _watch(batch, job, attempt.number, None)
        try:
            commands = find_analyses(batch.work, batch.state, batch.work.run / attempt.folder)
            attempt = run_analysis(batch.work.run, job, attempt, commands, batch.settings, on_wait)
        except RocktoolsError as error:
            attempt = fail_attempt(attempt, error)
        batch.write(job.name, attempt)
        _tell_end(batch, job, attempt, None, is_retried=False)
    except BaseException as failure:
        batch.failure = failure


def _watch(batch: _Batch, job: Job, attempt: int, device: int | None) -> Callable[[float], None]:
    """Tells of a job while it runs, and passes each interrupt of ours on to its process, once."""
    place = _place(batch, job)
    seen = 0
    running = JobProgress(
        name=job.name,
        number=place,
        jobs_count=len(batch.state.jobs),
        attempt=attempt,
        device=device,
        state=JobState.RUNNING,
        elapsed_s=0.0,
    )
    with batch.guard:
        batch.tell(replace(running, is_new=True))

    def on_wait(elapsed_s: float) -> None:
        nonlocal seen
        asked = batch.interrupts_count + (batch.failure is not None)
        if asked > seen:
            seen = asked
            raise KeyboardInterrupt
        with batch.guard:
            batch.tell(replace(running, elapsed_s=elapsed_s))

    return on_wait


def _tell_end(batch: _Batch, job: Job, attempt: Any, device: int | None, *, is_retried: bool) -> None:
    with batch.guard:
        batch.tell(
            JobProgress(
                name=job.name,
                number=_place(batch, job),
                jobs_count=len(batch.state.jobs),
                attempt=attempt.number,
                device=device,
                state=attempt.state,
                elapsed_s=attempt.duration_s,
                what=f"{attempt.reason}: {attempt.what}" if attempt.reason else "",
                is_retried=is_retried,
            )
        )


def _place(batch: _Batch, job: Job) -> int:
    return next(number for number, each in enumerate(batch.state.jobs, start=1) if each.name == job.name)


def _write_manifest(batch: _Batch) -> None:
    """What was run and what came of it, summed up from the records of commands and the state."""
    commands = read_command_records(batch.work.run)
    attempts = [attempt for job in batch.state.jobs for attempt in job.attempts]
    manifest = Manifest(
        argv=commands[0].argv,
        created_utc=commands[0].created_utc,
        is_simulated=False,
        facts={
            **commands[0].facts,
            "batch": {job.name: job.state.value for job in batch.state.jobs},
            "is_complete": batch.state.is_complete,
            "peaks": [name for job in batch.state.jobs if job.name == PEAKS_NAME for name in _results(job)],
            "analysis": [name for job in batch.state.jobs if job.name == ANALYSIS_NAME for name in _results(job)],
            "findings": [dict(finding) for attempt in attempts for finding in attempt.findings],
        },
        files={name: digest for attempt in attempts for name, digest in attempt.files.items()},
        captures=commands,
    )
    write_manifest(batch.work.run, manifest, replaces=True)


def _results(job: Job) -> tuple[str, ...]:
    return job.last.results if job.last is not None and job.state is JobState.DONE else ()
