"""Command lines of rocprofv3, rocprofv3-avail and rocpd, from options; pure: nothing is looked up, nothing is started.

Every pass is one rocprofv3 process with one `--pmc`: an older tool silently keeps only the last of several, a newer one
runs the application itself again and hides its exit code. Input files (`-i`) are never used: unknown keys in them are
ignored without a word. `%pid%` is always in the file name, or the processes of one job would overwrite each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rocktools.capture.iterations import Iterations
from rocktools.capture.kernel_filter import KernelFilter
from rocktools.capture.versions import (
    FIRST_KERNEL_REPLAY,
    FIRST_REGIONS_GATE_COUNTERS,
    FIRST_ROCPD,
    ProfilerTool,
    SdkVersion,
)
from rocktools.errors import CaptureError, UsageError

OUTPUT_NAME = "%pid%"
_ALWAYS = SdkVersion(0, 0)
_FIRST_PMC_OPTION = SdkVersion(0, 5)
# rocprofv3 replaces these in paths, wherever they come from.
_PLACEHOLDER_CHARACTERS = "%{}$"


class TraceKind(str, Enum):
    """What a trace records."""

    RUNTIME = "runtime"  # HIP runtime calls, roctx, kernels, copies, allocations, scratch, RCCL
    KERNEL = "kernel"  # kernels and copies only: the least disturbance

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """A trace pass.

    Attributes:
        kind: what is recorded.
        has_selected_regions: only between the job's own resume and pause calls (rocktools.capture.roctx).
    """

    kind: TraceKind = TraceKind.RUNTIME
    has_selected_regions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PmcOptions:
    """A counter pass.

    Attributes:
        counters: of one group; they fit together.
        kernels: which kernels are counted.
        iterations: which executions of each; None for all.
        has_selected_regions: only between the job's own resume and pause calls.
    """

    counters: tuple[str, ...]
    kernels: KernelFilter
    iterations: Iterations | None = None
    has_selected_regions: bool = False


def trace_argv(tool: ProfilerTool, options: TraceOptions, folder: Path, application: Sequence[str]) -> list[str]:
    """The command line of a trace pass that writes rocpd databases into `folder`.

    Raises:
        CaptureError: this tool lacks what is asked for.
        UsageError: the folder's path or the application cannot be handed over.
    """
    argv = [tool.executable]
    if options.kind is TraceKind.RUNTIME:
        argv.append(tool.require("--runtime-trace", since=_ALWAYS, purpose="a runtime trace"))
        # The runtime trace has it since 2024; named all the same, so that a tool without RCCL tracing fails here.
        argv.append(tool.require("--rccl-trace", since=_ALWAYS, purpose="a trace with RCCL"))
    else:
        argv.append(tool.require("--kernel-trace", since=_ALWAYS, purpose="a kernel trace"))
        argv.append(tool.require("--memory-copy-trace", since=_ALWAYS, purpose="a kernel trace with copies"))
    if options.has_selected_regions:
        argv += _region_arguments(tool)
    return [*argv, *_output_arguments(tool, folder), "--", *_required_application(application)]


def pmc_argv(tool: ProfilerTool, options: PmcOptions, folder: Path, application: Sequence[str]) -> list[str]:
    """The command line of one counter pass that writes rocpd databases into `folder`.

    Raises:
        CaptureError: this tool lacks what is asked for.
        UsageError: no counter is named, or the folder's path or the application cannot be handed over.
    """
    if not options.counters:
        raise UsageError("no-counters", "a counter pass needs at least one counter")
    argv = [tool.executable, tool.require("--pmc", since=_FIRST_PMC_OPTION, purpose="counters"), *options.counters]
    argv += _filter_arguments(options.kernels, options.iterations)
    if options.has_selected_regions:
        if tool.version < FIRST_REGIONS_GATE_COUNTERS:
            raise CaptureError(
                "regions-do-not-gate-counters",
                f"rocprofv3 {tool.version} collects counters outside selected regions too",
                where=tool.executable,
                hint=f"choose dispatches with --iterations, or use SDK {FIRST_REGIONS_GATE_COUNTERS} or later",
            )
        argv += _region_arguments(tool)
    return [*argv, *_output_arguments(tool, folder), "--", *_required_application(application)]


def replay_argv(
    tool: ProfilerTool,
    groups: Sequence[Sequence[str]],
    kernels: KernelFilter,
    folder: Path,
    application: Sequence[str],
) -> list[str]:
    """The command line of in-process kernel replay: every dispatch is run once for each group, in one application run.

    Its rocpd output adds passes up (unfixed in the first releases), so it writes JSON, which tells the passes apart. No
    iteration range: the tool would count passes as iterations.

    Raises:
        CaptureError: this tool has no kernel replay.
        UsageError: there is no group, one is empty, or a counter is in two groups.
    """
    if not groups:
        raise UsageError("bad-replay-groups", "kernel replay needs at least one group of counters")
    seen: set[str] = set()
    for group in groups:
        repeated = seen & set(group)
        if not group or repeated:
            what = f"{sorted(repeated)[0]} is in two groups" if repeated else "a group has no counter"
            raise UsageError("bad-replay-groups", f"{what}; kernel replay would add its passes up")
        seen |= set(group)
    argv = [
        tool.executable,
        tool.require("--replay-mode", since=FIRST_KERNEL_REPLAY, purpose="kernel replay"),
        "kernel",
        tool.require("--kernel-replay-beta-enabled", since=FIRST_KERNEL_REPLAY, purpose="kernel replay"),
    ]
    for group in groups:
        argv += ["--pmc", *group]
    argv += _filter_arguments(kernels, None)
    argv += _place_arguments(folder)
    return [*argv, "--output-format", "json", "--", *_required_application(application)]


def avail_list_argv(executable: str) -> list[str]:
    """Ask for the counters of every device."""
    return [executable, "list", "--pmc"]


def avail_info_argv(executable: str) -> list[str]:
    """Ask for the counters of every device with blocks, expressions and dimensions."""
    return [executable, "info", "--pmc"]


def pmc_check_argv(executable: str, counters: Sequence[str], *, device: int) -> list[str]:
    """Ask whether counters can be collected together on one device; the exit code is the answer.

    `-d` belongs before the subcommand, whatever the vendor's manual says.
    """
    return [executable, "-d", str(device), "pmc-check", *counters]


def convert_argv(
    executable: str, database: Path, folder: Path, name: str, *, output_format: str = "pftrace"
) -> list[str]:
    """Convert one process's database; several at once would first be merged into a new copy in the working directory.

    Args:
        folder: of the output; `./rocpd-output-data` would be the tool's own choice.
        name: of the output, without suffix; by default every output has the same.
    """
    argv = [executable, "convert", "-i", _path_argument(database), "--output-format", output_format]
    return [*argv, "-d", _path_argument(folder), "-o", name]


def _filter_arguments(kernels: KernelFilter, iterations: Iterations | None) -> list[str]:
    # `--option=value`: a value that begins with a dash would be taken for an option.
    arguments = [f"--kernel-include-regex={kernels.include}"]
    if kernels.exclude:
        arguments.append(f"--kernel-exclude-regex={kernels.exclude}")
    if iterations is not None:
        arguments += ["--kernel-iteration-range", *iterations.arguments()]
    return arguments


def _region_arguments(tool: ProfilerTool) -> list[str]:
    """The pause and resume calls are roctx calls: marker tracing makes sure that their library is loaded first."""
    return [
        tool.require("--selected-regions", since=FIRST_ROCPD, purpose="recording selected regions"),
        tool.require("--marker-trace", since=_ALWAYS, purpose="recording selected regions"),
    ]


def _output_arguments(tool: ProfilerTool, folder: Path) -> list[str]:
    if tool.version < FIRST_ROCPD:
        raise CaptureError(
            "tool-writes-no-rocpd",
            f"rocprofv3 {tool.version} cannot write rocpd databases, and its CSV drops what rocktools needs",
            where=tool.executable,
            hint=f"use the rocprofv3 of ROCm 7.0 (SDK {FIRST_ROCPD}) or later",
        )
    return [*_place_arguments(folder), "--output-format", "rocpd"]


def _place_arguments(folder: Path) -> list[str]:
    found = [character for character in _PLACEHOLDER_CHARACTERS if character in str(folder)]
    if found:
        raise UsageError(
            "path-has-placeholder",
            f"rocprofv3 would replace what follows {found[0]!r} in this path",
            where=str(folder),
            hint="choose a run directory without % { } $",
        )
    return ["--output-directory", _path_argument(folder), "--output-file", OUTPUT_NAME]


def _path_argument(path: Path) -> str:
    """A path that begins with a dash would be taken for an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def _required_application(application: Sequence[str]) -> list[str]:
    if not application:
        raise UsageError(
            "no-application",
            "there is no application to profile",
            hint="rocktools trace -- python train.py ...",
        )
    return list(application)
