"""How far a batch has come: one record for each job and each attempt at it (schema rocktools.batch-state/1).

    <run>/state.json      this; written whole through a temporary name after every step

A job is a kernel, the run for peaks, or the analysis at the end. An attempt has a folder of its own, which no later
attempt touches. Only what stands here as done counts, and whoever resumes looks at the files again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from rocktools import __version__
from rocktools.errors import DamagedFile, InputError, UnsupportedVersion
from rocktools.rundir import load_json, write_json_file

STATE_NAME = "state.json"
STATE_SCHEMA = "rocktools.batch-state/1"
SCHEMA_FILE = Path(__file__).resolve().parent / "batch-state.schema.json"
_ATTEMPT_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "number": int,
    "folder": str,
    "state": str,
    "reason": str,
    "what": str,
    "device": (int, type(None)),
    "started_utc": str,
    "duration_s": (int, float),
    "exit_code": (int, type(None)),
    "signal_number": (int, type(None)),
    "passes_count": (int, type(None)),
    "launches_count": (int, type(None)),
    "kernel_rank": (int, type(None)),
    "version": str,
    "results": list,
    "files": dict,
    "findings": list,
}


class JobKind(str, Enum):
    """What is run."""

    PEAKS = "peaks"
    KERNEL = "kernel"
    ANALYSIS = "analysis"

    def __str__(self) -> str:
        return self.value


class JobState(str, Enum):
    """How far it is."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of the tool.

    Attributes:
        number: from 1.
        folder: inside the run directory.
        state: how it ended; RUNNING while it runs, or where we were killed meanwhile.
        reason: kebab-case name of why it is no good; "" where it is.
        what: the same in a sentence.
        device: number of the GPU; None for whichever is visible.
        started_utc: ISO 8601.
        duration_s: of the whole process; no time of a kernel.
        exit_code, signal_number: of the tool.
        passes_count: that have rows of the kernel; None where nobody looked.
        launches_count: of the kernel in each of them; None likewise.
        kernel_rank: its place by total time, from 0, where it is not the only kernel; None where it is.
        version: of rocprof-compute.
        results: inside the run directory: folders of results, files of an analysis.
        files: path inside the run directory -> sha256, of what must not change any more.
        findings: as `Finding.as_dict`.
    """

    number: int
    folder: str
    state: JobState
    reason: str = ""
    what: str = ""
    device: int | None = None
    started_utc: str = ""
    duration_s: float = 0.0
    exit_code: int | None = None
    signal_number: int | None = None
    passes_count: int | None = None
    launches_count: int | None = None
    kernel_rank: int | None = None
    version: str = ""
    results: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Something that is run until it is good, or given up.

    Attributes:
        kind: what it is.
        name: of its folder.
        kernel: symbol; "" for other jobs.
        attempts: in their order.
    """

    kind: JobKind
    name: str
    kernel: str = ""
    attempts: tuple[Attempt, ...] = ()

    @property
    def state(self) -> JobState:
        return self.attempts[-1].state if self.attempts else JobState.PENDING

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """All jobs of a batch.

    Attributes:
        plan_sha256: of what the plan asks for.
        version: of rocprof-compute; "" before it was asked.
        jobs: peaks, kernels in the order of the plan, analysis.
    """

    plan_sha256: str
    version: str
    jobs: tuple[Job, ...]

    @property
    def kernels(self) -> tuple[Job, ...]:
        return tuple(job for job in self.jobs if job.kind is JobKind.KERNEL)

    @property
    def is_complete(self) -> bool:
        return all(job.state is JobState.DONE for job in self.jobs)

    def job(self, name: str) -> Job:
        """The job of that name, which there is."""
        return next(job for job in self.jobs if job.name == name)

    def with_attempt(self, name: str, attempt: Attempt) -> BatchState:
        """The state with one more attempt at a job, or with an attempt as it is now."""
        return replace(self, jobs=tuple(_with(job, attempt) if job.name == name else job for job in self.jobs))


def write_state(run: Path, state: BatchState) -> Path:
    """Write the state; it is there whole or as before.

    Raises:
        RocktoolsError: it cannot be written.
    """
    document = {
        "schema": STATE_SCHEMA,
        "rocktools_version": __version__,
        "plan_sha256": state.plan_sha256,
        "version": state.version,
        "jobs": [
            {
                "kind": job.kind.value,
                "name": job.name,
                "kernel": job.kernel,
                "state": job.state.value,
                "attempts": [_attempt_document(attempt) for attempt in job.attempts],
            }
            for job in state.jobs
        ],
    }
    return write_json_file(run / STATE_NAME, document)


def read_state(run: Path) -> BatchState:
    """The state of a batch.

    Raises:
        InputError: the folder has none.
        DamagedFile: it is none.
        UnsupportedVersion: it keeps another schema.
    """
    path = run / STATE_NAME
    if not path.is_file():
        raise InputError(
            "no-batch", f"the folder has no {STATE_NAME}: no batch ran here", where=str(run), hint="leave --resume out"
        )
    try:
        document = load_json(path, has_bytes=True)
    except ValueError as error:
        raise DamagedFile("batch-state-damaged", f"the state is not JSON: {error}", where=str(path)) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != STATE_SCHEMA:
        raise UnsupportedVersion(
            "batch-state-schema", f"the schema of the state is {schema!r}, not {STATE_SCHEMA!r}", where=str(path)
        )
    try:
        return BatchState(
            plan_sha256=str(document["plan_sha256"]),
            version=str(document["version"]),
            jobs=tuple(_parse_job(each) for each in document["jobs"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile("batch-state-damaged", f"the state lacks or mangles {error}", where=str(path)) from error


def interrupted_attempts(state: BatchState) -> BatchState:
    """The state in which whatever was running when we were killed is interrupted."""
    for job in state.jobs:
        if job.last is not None and job.last.state is JobState.RUNNING:
            ended = replace(
                job.last, state=JobState.INTERRUPTED, reason="killed", what="rocktools was killed while it ran"
            )
            state = state.with_attempt(job.name, ended)
    return state


def _with(job: Job, attempt: Attempt) -> Job:
    kept = tuple(each for each in job.attempts if each.number != attempt.number)
    attempts: Sequence[Attempt] = sorted((*kept, attempt), key=lambda each: each.number)
    return replace(job, attempts=tuple(attempts))


def _attempt_document(attempt: Attempt) -> dict[str, Any]:
    return {
        **asdict(attempt),
        "state": attempt.state.value,
        "results": list(attempt.results),
        "files": dict(attempt.files),
        "findings": [dict(finding) for finding in attempt.findings],
    }


def _parse_job(document: Any) -> Job:
    return Job(
        kind=JobKind(document["kind"]),
        name=str(document["name"]),
        kernel=str(document["kernel"]),
        attempts=tuple(_parse_attempt(each) for each in document["attempts"]),
    )


def _parse_attempt(document: Any) -> Attempt:
    values: dict[str, Any] = {}
    for name, kind in _ATTEMPT_TYPES.items():
        value = document[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{name}: {value!r}")
        values[name] = value
    return Attempt(
        **{
            **values,
            "state": JobState(values["state"]),
            "results": tuple(map(str, values["results"])),
            "findings": tuple(values["findings"]),
        }
    )
