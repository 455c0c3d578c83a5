"""What was named -> where results are, and what is known of the kernels: a batch knows which attempts are good.

    <run>/state.json, plan.yaml     the good attempt of each kernel, its replay and proof, its time in the job

Other folders and files are taken as they are. Attempts that failed hold rows of some passes only, and are never read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rocktools.batch.document import read_plan
from rocktools.batch.jobs import KERNELS_FOLDER, PLAN_NAME
from rocktools.batch.plan import PlannedKernel
from rocktools.batch.state import STATE_NAME, Job, JobKind, JobState, read_state
from rocktools.capture.compute_folder import read_marker
from rocktools.errors import InputError, NothingToRead
from rocktools.findings import Finding, Severity

ROOFLINE_FILE = "roofline.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlaces:
    """Where results are.

    Attributes:
        paths: to read.
        skipped: folders below them that are not: batches, whose good results are among `paths`.
        planned: label of a workload -> what the plan of its batch says.
        prefixes: resolved folder of a batch -> what stands in front of the labels of its workloads; "" where there is
            one batch only.
        versions: resolved folder of a batch -> version of rocprof-compute that it was run with.
        ceilings: files with measured ceilings of the GPU.
        is_simulated: whether anything was made without hardware.
        findings: kernels without results, replays without a proof.
    """

    paths: tuple[Path, ...]
    skipped: tuple[Path, ...] = ()
    planned: Mapping[str, PlannedKernel] = field(default_factory=dict)
    prefixes: Mapping[Path, str] = field(default_factory=dict)
    versions: Mapping[Path, str] = field(default_factory=dict)
    ceilings: tuple[Path, ...] = ()
    is_simulated: bool = False
    findings: tuple[Finding, ...] = ()

    def version_of(self, path: Path) -> str | None:
        """The version that made some results: by the note beside them, else by the state of the batch around them."""
        return noted_version(path) or _around(path, self.versions)

    def prefix_of(self, path: Path) -> str:
        """What stands in front of the label of a workload."""
        return _around(path, self.prefixes) or ""


def find_places(arguments: Sequence[str | Path]) -> BatchPlaces:
    """The results in what was named: of batches the good ones.

    Raises:
        InputError: the state or plan of a batch cannot be read.
        NothingToRead: a batch has no good result yet.
    """
    paths: list[Path] = []
    planned: dict[str, PlannedKernel] = {}
    ceilings: list[Path] = []
    findings: list[Finding] = []
    skipped: list[Path] = []
    versions: dict[Path, str] = {}
    is_simulated = False
    found = {argument: _find_batches(argument) for argument in map(Path, arguments)}
    prefixes = _prefixes(list(dict.fromkeys(run.resolve() for batches in found.values() for run in batches)))
    for argument, batches in found.items():
        if argument not in batches:
            paths.append(argument)
            skipped += batches
            is_simulated = is_simulated or (argument.is_dir() and _has_simulated_marker(argument))
        for run in batches:
            batch = _read_batch(run)
            paths += batch.paths
            planned |= {f"{prefixes[run.resolve()]}{name}": kernel for name, kernel in batch.planned.items()}
            versions |= batch.versions
            ceilings += batch.ceilings
            findings += batch.findings
            is_simulated = is_simulated or batch.is_simulated
    return BatchPlaces(
        paths=tuple(paths),
        skipped=tuple(skipped),
        planned=planned,
        prefixes=prefixes,
        versions=versions,
        ceilings=tuple(ceilings),
        is_simulated=is_simulated,
        findings=tuple(findings),
    )


def _find_batches(argument: Path) -> list[Path]:
    return sorted(path.parent for path in argument.rglob(STATE_NAME) if _is_batch(path.parent))


def _prefixes(runs: Sequence[Path]) -> dict[Path, str]:
    """Folder of a batch -> the end of its path that tells it from the others, and a slash; "" where it is alone.

    Args:
        runs: resolved, each once.
    """
    if len(runs) < 2:
        return dict.fromkeys(runs, "")
    ends = {run: Path(*run.parts[-1:]) for run in runs}
    for count in range(2, max(len(run.parts) for run in runs) + 1):
        if len(set(ends.values())) == len(runs):
            break
        ends = {run: Path(*run.parts[-count:]) for run in runs}
    return {run: f"{end}/" for run, end in ends.items()}


def _around(path: Path, known: Mapping[Path, str]) -> str | None:
    """What is known of the nearest folder around a path."""
    resolved = path.resolve()
    return next((known[folder] for folder in (resolved, *resolved.parents) if folder in known), None)


def _is_batch(folder: Path) -> bool:
    """Whether a folder with such a file is of a batch: other tools may write a state.json, too."""
    return (folder / PLAN_NAME).is_file() or (folder / KERNELS_FOLDER).is_dir()


def noted_version(path: Path) -> str | None:
    """The version of rocprof-compute that our note beside some results names; None without one that can be read."""
    folder = path if path.is_dir() else path.parent
    try:
        marker = read_marker(folder)
    except InputError:
        return None
    return None if marker is None else marker.version or None


def _has_simulated_marker(folder: Path) -> bool:
    for path in folder.rglob("rocktools-workload.json"):
        try:
            marker = read_marker(path.parent)
        except InputError:
            continue
        if marker is not None and marker.is_simulated:
            return True
    return False


def _read_batch(run: Path) -> BatchPlaces:
    state = read_state(run)
    plan = read_plan(run / PLAN_NAME) if (run / PLAN_NAME).is_file() else None
    planned = {} if plan is None else {kernel.name: kernel for kernel in plan.kernels}
    good = [job for job in state.jobs if job.state is JobState.DONE]
    paths = [run / result for job in good if job.kind is not JobKind.PEAKS for result in _results(job)]
    peaks = [run / result for job in good if job.kind is JobKind.PEAKS for result in _results(job)]
    ceilings = [file for folder in peaks if (file := folder / ROOFLINE_FILE).is_file()]
    missing = [job for job in state.kernels if job.state is not JobState.DONE]
    findings = [_missing(run, job) for job in missing]
    findings += [_unproven(run, job.name) for job in good if _is_unproven(job, planned)]
    if not any(path.exists() for path in paths):
        raise NothingToRead(
            "batch-without-results",
            f"none of its {len(state.kernels)} kernels has results",
            where=str(run),
            hint="rocktools batch run --resume goes on",
        )
    return BatchPlaces(
        paths=tuple(path for path in paths if path.exists()),
        planned=planned,
        versions={run.resolve(): state.version},
        ceilings=tuple(ceilings),
        is_simulated=(plan is not None and plan.is_simulated) or any(map(_has_simulated_marker, paths)),
        findings=tuple(findings),
    )


def _results(job: Job) -> tuple[str, ...]:
    return job.last.results if job.last is not None else ()


def _missing(run: Path, job: Job) -> Finding:
    last = job.last
    why = f"{last.reason}: {last.what}" if last is not None and last.reason else str(job.state)
    return Finding(
        rule="kernel-without-results",
        severity=Severity.WARNING,
        where=f"{run}: {job.name}",
        message=f"{job.kernel or job.name} has no good result ({why}) and is not among the rows",
        numbers={"attempts_count": len(job.attempts)},
        advice="rocktools batch run --resume tries again",
    )


def _is_unproven(job: Job, planned: Mapping[str, PlannedKernel]) -> bool:
    kernel = planned.get(job.name)
    return job.kind is JobKind.KERNEL and kernel is not None and not kernel.level.is_stand_in


def _unproven(run: Path, name: str) -> Finding:
    return Finding(
        rule="replay-unproven",
        severity=Severity.WARNING,
        where=f"{run}: {name}",
        message="unproven: nothing shows yet that this replay runs the kernel of the job as the job does",
        advice="rocktools replay prove compares both",
    )
