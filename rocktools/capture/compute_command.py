"""Command lines of rocprof-compute for one workload each; pure: nothing is looked up, nothing is started or written.

A workload is one kernel in a folder of its own. The one form of output that all releases share is used: `-n SLUG`, run
in that folder, results in `workloads/SLUG/<GPU model>/` below it; `-p` and `--output-directory` mean other things in
other releases, and `-p` names a folder that is emptied first.

Options that take several words stand before others, and `--` before the application: `-k` would swallow it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rocktools.capture.compute_application import ApplicationWords, CommandFile, application_words
from rocktools.capture.compute_environment import (
    backend_variables,
    common_variables,
    device_variables,
    is_unset_for_compute,
)
from rocktools.capture.compute_filter import compute_kernel_regex
from rocktools.capture.compute_passes import PassesEstimate, estimate_passes
from rocktools.capture.compute_place import require_place
from rocktools.capture.compute_versions import BlockNames, ComputeFacts, ComputeVersion, compute_facts
from rocktools.capture.environment import EnvironmentDelta
from rocktools.capture.iterations import Iterations
from rocktools.errors import CaptureError, UsageError
from rocktools.findings import Finding, Severity

_SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_HARDWARE_BLOCKS = ("SQ", "SQC", "TA", "TD", "TCP", "TCC", "SPI", "CPC", "CPF")
_METRIC_BLOCK = re.compile(r"\d{1,2}(?:\.\d{1,2}){0,2}")
_ALIAS_BLOCK = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeTool:
    """A rocprof-compute as it answered when asked.

    Attributes:
        program: its launcher.
        python: the interpreter it is started with; None where it is started as a program.
        version: what it told.
        analyze_options: options that the help of `analyze` names; empty where nobody asked: then the version decides.
    """

    program: Path
    python: Path | None
    version: ComputeVersion
    analyze_options: frozenset[str] = frozenset()

    @property
    def facts(self) -> ComputeFacts:
        return compute_facts(self.version)

    @property
    def start(self) -> tuple[str, ...]:
        """First words of every command line."""
        return start_argv(self.program, self.python)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRequest:
    """One kernel to profile.

    Attributes:
        slug: name of the workload; of its folder too.
        folder: where the tool runs, absolute; results come to `workloads/<slug>/<GPU model>/` below it.
        kernel_name: clean name of the kernel, as traces have it.
        application: the command to profile; its first word is the absolute path of a program.
        architecture: of the GPU, for the number of passes.
        blocks: for `--block`; none for everything.
        set_name: for `--set`, instead of blocks.
        iterations: which launches of the kernel are counted, from 1; None for all.
        multiplexes: whether all passes share one run of the application.
        launches_count: how often a run launches the kernel; None where that is not known.
        device: number of the GPU among those that are visible; None for what the environment says.
    """

    slug: str
    folder: Path
    kernel_name: str
    application: tuple[str, ...]
    architecture: str = "gfx950"
    blocks: tuple[str, ...] = ()
    set_name: str | None = None
    iterations: Iterations | None = None
    multiplexes: bool = False
    launches_count: int | None = None
    device: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeaksRequest:
    """One run of the microbenchmark of a roofline.

    Attributes:
        slug: name of the workload.
        folder: where the tool runs, absolute.
        application: a command that launches something, for tools before 3.7; newer ones start none.
        device: number of the GPU among those that are visible; None for the first one.
    """

    slug: str
    folder: Path
    application: tuple[str, ...] = ()
    device: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeCommand:
    """What to start.

    Attributes:
        argv: the command line.
        cwd: where it runs; a new folder of its own.
        files: files to write first.
        variables_set: variables it needs. What it must not inherit, `delta` knows.
        findings: doubts about what it will do.
    """

    argv: tuple[str, ...]
    cwd: Path
    files: tuple[CommandFile, ...] = ()
    variables_set: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def delta(self, inherited: Mapping[str, str]) -> EnvironmentDelta:
        """Its environment, from ours; `delta(...).apply(inherited)` is the whole of it."""
        removed = tuple(sorted(name for name in inherited if is_unset_for_compute(name, self.variables_set)))
        return EnvironmentDelta(added=dict(self.variables_set), removed=removed)


def start_argv(program: Path, python: Path | None) -> tuple[str, ...]:
    """First words of a command line: the interpreter, if one is named, and the launcher."""
    return (str(program),) if python is None else (str(python), str(program))


def version_command(program: Path, python: Path | None) -> ComputeCommand:
    """Ask for the version; needs no GPU."""
    return ComputeCommand(
        argv=(*start_argv(program, python), "--version"), cwd=Path("/"), variables_set=common_variables()
    )


def analyze_help_command(program: Path, python: Path | None) -> ComputeCommand:
    """Ask which options `analyze` has."""
    return ComputeCommand(
        argv=(*start_argv(program, python), "analyze", "--help"), cwd=Path("/"), variables_set=common_variables()
    )


def profile_command(tool: ComputeTool, request: WorkloadRequest) -> ComputeCommand:
    """Profile one kernel.

    Raises:
        UsageError: the request cannot be handed over to any rocprof-compute, or asks for what does not go together.
        CaptureError: this version lacks what it asks for.
    """
    facts = tool.facts
    require_place(request.folder, request.slug)
    application = application_words(request.folder, request.slug, request.application)
    argv = [*tool.start, "profile", "-n", request.slug]
    findings: list[Finding] = []
    kernel_regex = compute_kernel_regex(request.kernel_name, is_cut_short=facts.cuts_names_short)
    if facts.has_kernel_filter:
        argv += ["-k", kernel_regex]
    else:
        findings.append(_filter_ignored(tool, request))
    argv += _block_arguments(tool, request)
    if request.iterations is not None:
        argv += _iteration_arguments(tool, request.iterations)
    if request.multiplexes:
        _require_launches(tool, request)
        argv += ["--iteration-multiplexing", "kernel"]
    if facts.has_format_option:
        argv += ["--format-rocprof-output", "rocpd"]
    findings += _shell_doubts(tool, application)
    return ComputeCommand(
        argv=(*argv, "--no-roof", "--", *application.words),
        cwd=request.folder,
        files=application.files,
        variables_set=_variables(tool, request.device),
        findings=tuple(findings),
    )


def peaks_command(tool: ComputeTool, request: PeaksRequest) -> ComputeCommand:
    """Measure what the GPU can do at most.

    Raises:
        UsageError: the request cannot be handed over.
        CaptureError: this version needs an application for it, and none is named.
    """
    require_place(request.folder, request.slug)
    argv = [*tool.start, "profile", "-n", request.slug]
    variables = _variables(tool, request.device)
    # The device is the only visible one, and the benchmark of older releases would run on all.
    if tool.facts.has_bench_only:
        argv += ["--bench-only", "--device", "0"]
        return ComputeCommand(argv=tuple(argv), cwd=request.folder, variables_set=variables)
    if not request.application:
        raise CaptureError(
            "compute-peaks-need-application",
            f"rocprof-compute {tool.version} measures peaks only together with an application",
            where=str(tool.program),
            hint="name a replay for it, or use rocprof-compute 3.7 or later",
        )
    application = application_words(request.folder, request.slug, request.application)
    argv += ["--roof-only", "--device", "0", "--", *application.words]
    return ComputeCommand(
        argv=tuple(argv),
        cwd=request.folder,
        files=application.files,
        variables_set=variables,
        findings=tuple(_shell_doubts(tool, application)),
    )


def passes_estimate(tool: ComputeTool, request: WorkloadRequest) -> PassesEstimate:
    """How often the application will run.

    Raises:
        CaptureError: this version has no multiplexing, and it is asked for.
    """
    return estimate_passes(
        tool.version,
        request.architecture,
        blocks=request.blocks,
        set_name=request.set_name,
        multiplexes=request.multiplexes,
    )


def _variables(tool: ComputeTool, device: int | None) -> dict[str, str]:
    return {**common_variables(), **backend_variables(tool.facts.backend), **device_variables(device)}


def _block_arguments(tool: ComputeTool, request: WorkloadRequest) -> list[str]:
    facts = tool.facts
    if request.blocks and request.set_name is not None:
        raise UsageError("compute-block-and-set", "blocks and a set cannot be asked for together", hint="name one")
    if request.set_name is not None:
        if not facts.has_sets:
            raise CaptureError(
                "compute-no-sets", f"rocprof-compute {tool.version} has no sets", where=str(tool.program)
            )
        if not _SET_NAME.fullmatch(request.set_name):
            raise UsageError("compute-bad-set", f"{request.set_name!r} is no name of a set", hint="--list-sets")
        return ["--set", request.set_name]
    for block in request.blocks:
        _require_block(block, tool)
    return ["-b", *request.blocks] if request.blocks else []


def _require_block(block: str, tool: ComputeTool) -> None:
    names = tool.facts.block_names
    is_metric = _METRIC_BLOCK.fullmatch(block) is not None
    if names is BlockNames.HARDWARE:
        is_good, what = block in _HARDWARE_BLOCKS, f"hardware blocks ({' '.join(_HARDWARE_BLOCKS)})"
    elif names is BlockNames.METRICS:
        is_good, what = is_metric, "numbers of metrics (2, 2.1, 2.1.3)"
    else:
        is_good = is_metric or _ALIAS_BLOCK.fullmatch(block) is not None
        what = "numbers of metrics (2, 2.1, 2.1.3) and aliases (--list-blocks)"
    if not is_good:
        # An unknown one is skipped with a warning, and the run counts almost nothing.
        raise UsageError(
            "compute-bad-block",
            f"{block!r} is no block of rocprof-compute {tool.version}, which takes {what}",
        )


def _iteration_arguments(tool: ComputeTool, iterations: Iterations) -> list[str]:
    facts = tool.facts
    if not facts.has_kernel_filter:
        raise CaptureError(
            "compute-iterations-ignored",
            f"rocprof-compute {tool.version} does not hand the choice of launches ({iterations}) on to the profiler",
            where=str(tool.program),
            hint="count all launches, or use 3.3 or later",
        )
    # From 0 the start is moved and the end is not: 2:5 counts the third, fourth and fifth launch.
    shift = 1 - facts.first_iteration
    texts = [f"{first - shift}" if first == last else f"{first - shift}:{last}" for first, last in iterations.ranges]
    return [facts.iterations_option, *texts]


def _require_launches(tool: ComputeTool, request: WorkloadRequest) -> None:
    estimate = passes_estimate(tool, request)
    launches_count = request.iterations.count if request.iterations is not None else request.launches_count
    if launches_count is not None and launches_count < estimate.launches_needed_count:
        raise UsageError(
            "compute-too-few-launches",
            f"one run launches {request.kernel_name} {launches_count} times, and sharing it among about "
            f"{estimate.passes_count} passes needs {estimate.launches_needed_count}: passes without a launch would "
            "have no counters",
            hint="let the replay launch it more often, or leave multiplexing out",
        )


def _filter_ignored(tool: ComputeTool, request: WorkloadRequest) -> Finding:
    return Finding(
        rule="compute-kernel-filter-ignored",
        severity=Severity.WARNING,
        where=str(tool.program),
        message=(
            f"version {tool.version} counts every kernel of the application, not only {request.kernel_name}: it does "
            "not hand its filter on to rocprofv3, and joins levels of waves to kernels by row"
        ),
        advice="use rocprof-compute 3.3 or later; of this one, believe no occupancy and no latency",
    )


def _shell_doubts(tool: ComputeTool, application: ApplicationWords) -> list[Finding]:
    if not (application.is_shell and tool.facts.aborts_shell_scripts):
        return []
    return [
        Finding(
            rule="compute-shell-script",
            severity=Severity.WARNING,
            where=str(application.files[0].path),
            message=f"the application has words with blanks or quotes, and version {tool.version} may abort with the "
            "shell script that holds them",
            advice="name the replay and its arguments without blanks and quotes, or use another version",
        )
    ]
