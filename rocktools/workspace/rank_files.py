"""The files of a job, one for each rank -> what `rocktools.timeline.partial` makes of each, put together.

`measure_rank_file` is the whole work on one file: a function of its path and the options, so that it can run anywhere.
Only its small result travels. A file that is no trace of a rank (a counter pass) gives nothing and is no failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rocktools.attribution.ledger import book_rows, build_ledger
from rocktools.findings import Finding
from rocktools.frames import LEDGER
from rocktools.timeline.partial import RankPartial, measure_rank, merge_partials, relabel_run, renumber_steps
from rocktools.workspace.attributed import AttributionOptions, attribute_workspace
from rocktools.workspace.many_ranks import BrokenRank, Rank, Workers, run_ranks
from rocktools.workspace.paths import SourceKind, find_sources
from rocktools.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFile:
    """One file of a job.

    Attributes:
        path: the file.
        run: label of the run that it belongs to, equal for all files of a job.
        options: how its rows are booked.
    """

    path: Path
    run: str
    options: AttributionOptions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredRanks:
    """A job's ranks together.

    Attributes:
        partial: merged, steps numbered alike; with LEDGER.
        broken: files that gave nothing.
        findings: of all ranks, and one for each broken file.
    """

    partial: RankPartial
    broken: tuple[BrokenRank, ...]
    findings: tuple[Finding, ...]


def measure_rank_file(rank: RankFile) -> RankPartial | None:
    """The partial result of one file, with LEDGER of all its steps; None for a counter pass.

    Raises:
        InputError: the file, or a program that was named, cannot be read.
        NothingToRead: it holds no dispatch.
    """
    with Workspace.open([rank.path]) as workspace:
        if workspace.loaded and all(process.is_counter_pass for process in workspace.loaded):
            return None
        runs = attribute_workspace(workspace, rank.options)
        findings = [*workspace.findings, *runs.findings]
        is_simulated = workspace.is_simulated
    rows = runs.with_host_calls(runs.rows)
    in_steps = rows[rows["step_index"].notna().to_numpy()]
    partial = measure_rank(str(rank.path), rows, runs.steps.frame, runs.launches, findings)
    partial = replace(partial, is_simulated=is_simulated)
    return relabel_run(partial.with_frame(LEDGER, build_ledger(book_rows(in_steps))), rank.run)


def measure_rank_files(
    arguments: Sequence[str | Path],
    options: AttributionOptions,
    workers: Workers | None = None,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> MeasuredRanks:
    """All files behind the arguments, each as one rank.

    Args:
        arguments: files, folders, patterns, run directories.
        options: how rows are booked.
        workers: where the work runs; None: here.
        on_done: called with how many files are done, and how many there are.

    Raises:
        InputError: an argument names nothing, or no file could be read.
        MissingExtra: a Dask cluster was named, and Dask is not installed.
    """
    sources = [source for source in find_sources(arguments) if source.kind is not SourceKind.REPLAY_JSON]
    ranks = [
        Rank(label=str(source.path), argument=RankFile(path=source.path, run=source.run, options=options))
        for source in sources
    ]
    done = run_ranks(measure_rank_file, ranks, workers, on_done)
    results = [result for result in done.require_any() if result is not None]
    partial = renumber_steps(merge_partials(results))
    return MeasuredRanks(partial=partial, broken=done.broken, findings=(*done.findings, *partial.findings))
