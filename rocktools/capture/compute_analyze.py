"""Command lines of `rocprof-compute analyze`; pure: nothing is looked up, nothing is started or written.

It writes into the folders that it reads, so two calls never share one at the same time. `-p` is repeated for several
workloads: of `-p A B` it silently reads A only. Numbers of a workload are means over all kernels in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocktools.capture.compute_command import ComputeCommand, ComputeTool
from rocktools.capture.compute_environment import common_variables
from rocktools.capture.compute_place import require_path, require_slug
from rocktools.capture.compute_versions import AnalysisOutput
from rocktools.errors import CaptureError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzedWorkload:
    """A workload to analyze.

    Attributes:
        folder: of its results, `workloads/<slug>/<GPU model>`, absolute; `analyze` writes into it.
        slug: its name.
        kernel_rank: place of the wanted kernel by total time, from 0; None where it is the only one.
    """

    folder: Path
    slug: str
    kernel_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeCommand:
    """A call of `analyze`.

    Attributes:
        command: what to start.
        kind: what it writes.
        output: the file or folder that it makes.
        slugs: workloads in it.
    """

    command: ComputeCommand
    kind: AnalysisOutput
    output: Path
    slugs: tuple[str, ...]


def analyze_commands(
    tool: ComputeTool,
    workloads: Sequence[AnalyzedWorkload],
    folder: Path,
    name: str,
    *,
    kind: AnalysisOutput | None = None,
) -> list[AnalyzeCommand]:
    """Turn profiled workloads into tables: one merged call where the version can, else one for each.

    Args:
        folder: where the output comes, absolute; it must exist. An output of the same name is replaced by the tool.
        name: of the output.
        kind: what to write; None for what this version does best.

    Raises:
        UsageError: no workload is named, or a path cannot be handed over.
        CaptureError: this version cannot write that.
    """
    if not workloads:
        raise UsageError("compute-no-workload", "there is no workload to analyze")
    for path in (folder, *(workload.folder for workload in workloads)):
        require_path(path)
    require_slug(name)
    chosen = analysis_output(tool, kind)
    argv = [*tool.start, "analyze"]
    if chosen in (AnalysisOutput.DATABASE, AnalysisOutput.VIEWS):
        for workload in workloads:
            argv += ["-p", str(workload.folder)]
        is_database = chosen is AnalysisOutput.DATABASE
        argv += ["--output-format", "db" if is_database else "csv", "--output-name", name]
        output = folder / (f"{name}.db" if is_database else name)
        return [_analyze(argv, folder, chosen, output, tuple(workload.slug for workload in workloads))]
    calls = []
    for workload in workloads:
        require_slug(workload.slug)
        own = f"{name}-{workload.slug}"
        output = folder / own
        words = [*argv, "-p", str(workload.folder)]
        if workload.kernel_rank is not None:
            words += ["-k", str(workload.kernel_rank)]
        if chosen is AnalysisOutput.SAVED_FRAMES:
            words += ["--save-dfs", str(output)]
        else:
            words += ["--output-format", "csv", "--output-name", own]
        calls.append(_analyze(words, folder, chosen, output, (workload.slug,)))
    return calls


def analysis_output(tool: ComputeTool, kind: AnalysisOutput | None = None) -> AnalysisOutput:
    """What `analyze` of this tool is asked to write.

    Raises:
        CaptureError: it cannot write `kind`.
    """
    options = tool.analyze_options
    possible = [
        output
        for output in tool.facts.analysis
        if not options or ("--save-dfs" if output is AnalysisOutput.SAVED_FRAMES else "--output-format") in options
    ]
    if kind is None and possible:
        return possible[0]
    if kind in possible:
        assert kind is not None
        return kind
    raise CaptureError(
        "compute-no-such-output",
        f"analyze of rocprof-compute {tool.version} cannot write {kind or 'tables'}; "
        f"it can write {', '.join(map(str, possible)) or 'none that is known'}",
        where=str(tool.program),
    )


def _analyze(
    argv: Sequence[str], folder: Path, kind: AnalysisOutput, output: Path, slugs: tuple[str, ...]
) -> AnalyzeCommand:
    command = ComputeCommand(argv=tuple(argv), cwd=folder, variables_set=common_variables())
    return AnalyzeCommand(command=command, kind=kind, output=output, slugs=slugs)
