"""What a batch would start, as a shell script to read, below what it will cost."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from rocktools.batch.jobs import OUTPUT_NAME, Work, build_kernel_command, build_peaks_command, job_folder
from rocktools.batch.plan import DEFAULT_START_UP_S, estimate_batch
from rocktools.batch.state import BatchState, Job, JobKind, JobState
from rocktools.capture.compute_analyze import AnalyzedWorkload, analyze_commands
from rocktools.capture.compute_command import ComputeCommand
from rocktools.capture.compute_place import workload_place
from rocktools.capture.environment import redact, redact_argv
from rocktools.units import count_noun

_MODEL = "MODEL"  # the folder that the tool names after the GPU


def render_dry_run(work: Work, state: BatchState, inherited: Mapping[str, str]) -> str:
    """The processes that are started, of a batch that goes on those that are left.

    It is for reading, and for trying one by hand. What looks like a secret is redacted; logs, checks, retries and
    records are not part of it. GPUs take the jobs as they become free: here they go round.

    Raises:
        UsageError: the plan asks for what this tool does not take.
        CaptureError: this version lacks what the plan asks for.
    """
    estimate = estimate_batch(
        [kernel.planned for kernel in work.kernels],
        work.plan.selection,
        version=work.tool.version,
        architecture=work.plan.architecture,
        start_up_s=work.plan.estimate.start_up_s or DEFAULT_START_UP_S,
    )
    lines = [f"# {estimate.cost_text}, inferred:", *(f"#   {each}" for each in estimate.assumptions)]
    devices: list[int | None] = [*work.devices] or [None]
    is_changed = False
    for number, job in enumerate(state.jobs):
        title = f"# {number + 1} of {count_noun(len(state.jobs), 'job')}: {job.name}"
        is_due = is_changed or job.state is not JobState.DONE
        if not is_due or (job.state is JobState.DONE and job.kind is not JobKind.ANALYSIS):
            lines += ["", f"{title} is done"]
            continue
        is_changed = True
        folder = work.run / job_folder(job) / f"attempt-{_next_number(work.run, job)}"
        lines += ["", title]
        place = shlex.quote(str(folder))
        lines.append(f"mkdir -p -- {place} && cd {place}")
        for command in _commands(work, state, job, folder, devices[number % len(devices)]):
            lines += _render(command, inherited)
    return "\n".join(lines) + "\n"


def _commands(work: Work, state: BatchState, job: Job, folder: Path, device: int | None) -> list[ComputeCommand]:
    if job.kind is JobKind.PEAKS:
        return [build_peaks_command(work, folder, device)]
    if job.kind is JobKind.KERNEL:
        kernel = next(each for each in work.kernels if each.planned.name == job.name)
        return [build_kernel_command(work, kernel, folder, device)]
    workloads = [AnalyzedWorkload(folder=_results(work, each), slug=each.name) for each in state.kernels]
    return [each.command for each in analyze_commands(work.tool, workloads, folder, OUTPUT_NAME)]


def _results(work: Work, job: Job) -> Path:
    """Where its results lie, or are going to lie."""
    if job.state is JobState.DONE and job.last is not None:
        return work.run / job.last.results[0]
    folder = work.run / job_folder(job) / f"attempt-{_next_number(work.run, job)}"
    return workload_place(folder, job.name) / _MODEL


def _next_number(run: Path, job: Job) -> int:
    return max((attempt.number for attempt in job.attempts), default=0) + 1


def _render(command: ComputeCommand, inherited: Mapping[str, str]) -> list[str]:
    delta = command.delta(inherited)
    shown = redact(delta.added), redact_argv(command.argv)
    lines = []
    for file in command.files:
        path = shlex.quote(str(file.path))
        lines += [f"cat > {path} <<'END'", *redact_argv(file.text.splitlines()), "END", f"chmod +x {path}"]
    unset = [f"-u {name}" for name in delta.removed]
    added = [f"{shlex.quote(name)}={shlex.quote(value)}" for name, value in sorted(shown[0].items())]
    return [*lines, " ".join(["env", *unset, *added, shlex.join(shown[1])])]
