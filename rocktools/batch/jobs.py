"""A plan and a tool -> what is asked of rocprof-compute for each job, and where it goes.

<run>/plan.yaml                     the plan as it was run, paths relative to it
<run>/state.json                    how far it is (`rocktools.batch.state`)
<run>/kernels/<name>/attempt-<n>/   rocprof-compute runs here; its results in workloads/<name>/<GPU model>/
<run>/peaks/attempt-<n>/            likewise, for the peaks
<run>/analysis/attempt-<n>/         what `analyze` makes of all of them
<run>/logs/                         output of everything that was started
<run>/commands/, manifest.json      as in every run directory
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocktools.batch.bundles import Bundle, Refused, build_refusal, judge_kind, read_bundle
from rocktools.batch.plan import BatchPlan, PlannedKernel
from rocktools.batch.state import Job, JobKind
from rocktools.capture.compute_analyze import analysis_output
from rocktools.capture.compute_command import (
    ComputeCommand,
    ComputeTool,
    PeaksRequest,
    WorkloadRequest,
    peaks_command,
    profile_command,
)
from rocktools.capture.iterations import Iterations
from rocktools.errors import InputError, RocktoolsError, UsageError
from rocktools.findings import Finding, Severity
from rocktools.replay.prove import Level
from rocktools.replay.refusals import ReplayKind
from rocktools.replay.run import ReplayRunOptions, replay_run_argv

PLAN_NAME = "plan.yaml"
KERNELS_FOLDER = "kernels"
PEAKS_NAME = "peaks"
ANALYSIS_NAME = "analysis"
OUTPUT_NAME = "kernels"
"""Of what `analyze` makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedKernel:
    """A planned kernel whose replay is there and is the planned one.

    Attributes:
        planned: as in the plan.
        bundle: its replay.
    """

    planned: PlannedKernel
    bundle: Bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Everything that the jobs of a batch are made of.

    Attributes:
        run: the run directory, absolute.
        plan: what is asked for.
        kernels: in the order of the plan.
        tool: that does it.
        python: interpreter of the replays, absolute.
        devices: number of a GPU, as HIP_VISIBLE_DEVICES names it -> as the user did; empty for whichever is visible.
        has_peaks, has_analysis: whether these jobs are wanted.
    """

    run: Path
    plan: BatchPlan
    kernels: tuple[CheckedKernel, ...]
    tool: ComputeTool
    python: Path
    devices: Mapping[int, int]
    has_peaks: bool = True
    has_analysis: bool = True


def check_kernels(plan: BatchPlan, source: Path) -> tuple[CheckedKernel, ...]:
    """The kernels of a plan with their replays.

    Args:
        source: the file of the plan, for messages.

    Raises:
        InputError: the plan has none; or a replay is not there, is another one than was planned, or must not be run.
    """
    if not plan.kernels:
        raise InputError(
            "nothing-planned", "the plan has no kernel", where=str(source), hint="see `refused` in it for the reasons"
        )
    return tuple(_check(planned, f"{source}: kernels[{n}] ({planned.name})") for n, planned in enumerate(plan.kernels))


def check_levels(kernels: Sequence[CheckedKernel]) -> list[Finding]:
    """Replays whose results say nothing certain about the job."""
    return [
        Finding(
            rule="batch-unproven",
            severity=Severity.WARNING,
            where=kernel.planned.name,
            message=f"nothing proves that its replay launches the job's kernel {kernel.planned.kernel}",
            advice="rocktools replay prove; until then its counters say nothing certain about the job",
        )
        for kernel in kernels
        if not kernel.bundle.level.is_stand_in
    ]


def map_devices(devices: Sequence[int], environ: Mapping[str, str]) -> dict[int, int]:
    """Numbers of GPUs as HIP_VISIBLE_DEVICES has to name them -> as the user counts those that he sees.

    Raises:
        UsageError: one is named twice, is not visible, or cannot be named by a number.
    """
    if len(set(devices)) != len(devices):
        raise UsageError("batch-devices", "a GPU is named twice, and two jobs would share it", hint="--devices 0,1")
    visible = environ.get("HIP_VISIBLE_DEVICES") or environ.get("CUDA_VISIBLE_DEVICES")
    if not visible:
        return {device: device for device in devices}
    words = [word.strip() for word in visible.split(",")]
    found: dict[int, int] = {}
    for device in devices:
        if device >= len(words):
            raise UsageError(
                "batch-devices",
                f"there is no GPU {device}: {len(words)} are visible ({visible})",
                hint="GPUs are counted from 0 among those that are visible",
            )
        if not words[device].isdecimal():
            raise UsageError(
                "batch-devices",
                f"GPU {device} is known as {words[device]}, and only numbers can be handed on",
                hint="unset HIP_VISIBLE_DEVICES, or put numbers into it",
            )
        found[int(words[device])] = device
    return found


def plan_digest(work: Work) -> str:
    """sha256 of what a batch asks for: two batches with one digest may be one batch that goes on."""
    selection = work.plan.selection
    asked = {
        "kernels": [[each.planned.name, each.planned.kernel, each.bundle.program_sha256] for each in work.kernels],
        "passes": [selection.passes.value, *selection.blocks, selection.set_name],
        "launches": [selection.iterations_count, selection.warmups_count],
    }
    return hashlib.sha256(json.dumps(asked).encode("utf-8")).hexdigest()


def list_jobs(work: Work) -> tuple[Job, ...]:
    """The jobs of a batch, none begun: peaks, kernels, analysis."""
    peaks = [Job(kind=JobKind.PEAKS, name=PEAKS_NAME)] if work.has_peaks else []
    kernels = [Job(kind=JobKind.KERNEL, name=each.planned.name, kernel=each.planned.kernel) for each in work.kernels]
    analysis = [Job(kind=JobKind.ANALYSIS, name=ANALYSIS_NAME)] if work.has_analysis else []
    return (*peaks, *kernels, *analysis)


def job_folder(job: Job) -> str:
    """Folder of its attempts, inside the run directory."""
    return f"{KERNELS_FOLDER}/{job.name}" if job.kind is JobKind.KERNEL else job.name


def require_commands(work: Work) -> list[Finding]:
    """Check that every command line of the batch can be built for this tool, before anything is made.

    Returns:
        Doubts about what they will do, each kind once.

    Raises:
        UsageError: the plan asks for what this tool does not take, or a path cannot be handed over.
        CaptureError: this version lacks what the plan asks for.
    """
    commands = []
    for job in list_jobs(work):
        folder = work.run / job_folder(job) / "attempt-1"
        if job.kind is JobKind.PEAKS:
            commands.append(build_peaks_command(work, folder, None))
        elif job.kind is JobKind.ANALYSIS:
            analysis_output(work.tool)
        else:
            kernel = next(each for each in work.kernels if each.planned.name == job.name)
            commands.append(build_kernel_command(work, kernel, folder, None))
    findings = [finding for command in commands for finding in command.findings]
    return list({finding.rule: finding for finding in reversed(findings)}.values())[::-1]


def expected_launches(work: Work, kernel: CheckedKernel) -> int | None:
    """Launches of the kernel that every pass should have; None of a library's, which may launch it more than once."""
    selection = work.plan.selection
    if kernel.bundle.kind is not ReplayKind.KERNEL:
        return None
    chosen = _iterations(work)
    return selection.launches_count if chosen is None else chosen.count


def build_kernel_command(work: Work, kernel: CheckedKernel, folder: Path, device: int | None) -> ComputeCommand:
    """Profile one kernel.

    Args:
        folder: of the attempt.
        device: as HIP_VISIBLE_DEVICES names it; None for whichever is visible.

    Raises:
        UsageError: the plan asks for what this tool does not take.
        CaptureError: this version lacks what the plan asks for.
    """
    selection = work.plan.selection
    request = WorkloadRequest(
        slug=kernel.planned.name,
        folder=folder,
        kernel_name=kernel.planned.kernel,
        application=_application(work, kernel),
        architecture=work.plan.architecture,
        blocks=selection.blocks,
        set_name=selection.set_name,
        iterations=_iterations(work),
        multiplexes=selection.multiplexes,
        launches_count=selection.launches_count,
        device=device,
    )
    return profile_command(work.tool, request)


def build_peaks_command(work: Work, folder: Path, device: int | None) -> ComputeCommand:
    """Measure the peaks, once for all kernels; older tools need an application for it, and get the first replay.

    Raises:
        UsageError: the paths cannot be handed over.
    """
    application = () if work.tool.facts.has_bench_only else _application(work, work.kernels[0])
    return peaks_command(
        work.tool, PeaksRequest(slug=PEAKS_NAME, folder=folder, application=application, device=device)
    )


def _check(planned: PlannedKernel, where: str) -> CheckedKernel:
    try:
        bundle = read_bundle(planned.replay.resolve())
    except RocktoolsError as error:
        raise InputError(
            "batch-replay", f"its replay cannot be used: {error.reference}: {error.what}", where=where, hint=error.hint
        ) from error
    if planned.program_sha256 not in ("", bundle.program_sha256):
        raise InputError(
            "batch-replay-changed",
            "its replay is another one than was planned: program_sha256 differs",
            where=where,
            hint="plan again, or remove program_sha256",
        )
    refusal = judge_kind(bundle.kind, bundle.devices_count)
    if bundle.level is Level.NOT_A_STAND_IN:
        refusal = build_refusal(Refused.NOT_A_STAND_IN)
    if refusal is not None:
        raise InputError("batch-refused", f"{refusal.reason}: {refusal.why}", where=where, hint=refusal.hint)
    return CheckedKernel(planned=planned, bundle=bundle)


def _application(work: Work, kernel: CheckedKernel) -> tuple[str, ...]:
    selection = work.plan.selection
    options = ReplayRunOptions(
        iterations_count=selection.iterations_count, warmups_count=selection.warmups_count, device=0
    )
    return tuple(replay_run_argv(work.python, kernel.bundle.folder, options))


def _iterations(work: Work) -> Iterations | None:
    """The launches behind those that warm up; None for all of them.

    Where launches share passes, all of them count: which one belongs to which pass is the tool's affair. 3.0 hands no
    choice on.
    """
    selection = work.plan.selection
    if selection.multiplexes or not selection.warmups_count or not work.tool.facts.has_kernel_filter:
        return None
    first = selection.warmups_count + 1
    return Iterations(ranges=((first, first + selection.iterations_count - 1),))
