"""The files of a job, one for each rank -> what is measured of each by itself, put together.

The work on one rank is a function of its files and the options, so that it can run anywhere; only its small result
travels. What a run keeps beside its traces (compiled programs, JAX profiles) speaks for each of them. Files that turn
out to hold parts of one device are read again together, since unions of parts are not the union of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rocktools.analytic.occurrences import COUNTED_ROWS, Workload
from rocktools.attribution.ledger_measures import BUCKET_SUMS, LINE_UNIONS, measure_ledger
from rocktools.errors import NothingToRead, UnknownFormat
from rocktools.findings import Finding, Severity
from rocktools.frames import LEDGER, STEPS
from rocktools.timeline.overlap import RECONCILIATION, reconcile
from rocktools.timeline.partial import RankPartial, measure_rank, merge_partials, renumber_steps
from rocktools.workspace.attributed import AttributedRuns, AttributionOptions, attribute_workspace
from rocktools.workspace.loading import unreadable, unverified
from rocktools.workspace.many_ranks import BrokenRank, Rank, RankResults, Workers, broken_findings, run_ranks
from rocktools.workspace.paths import SourceKind, SourcePath, find_sources
from rocktools.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFile:
    """One rank of a job.

    Attributes:
        sources: its files: one, but where several hold parts of one device.
        profiles: JAX profiles of its run, which speak for what rocprofv3 traced beside them.
        options: how its rows are booked.
        workload: what is counted; None: nothing.
    """

    sources: tuple[SourcePath, ...]
    profiles: tuple[SourcePath, ...] = ()
    options: AttributionOptions
    workload: Workload | None = None

    @property
    def label(self) -> str:
        """What messages call it."""
        return ", ".join(str(source.path) for source in self.sources)


Measure = Callable[[RankFile], RankPartial | None]
"""The work on one rank; None where its files are no trace of a job, but counter passes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredRanks:
    """A job's ranks together.

    Attributes:
        partial: merged, steps numbered alike.
        broken: files that gave nothing.
        findings: of all ranks, and one for each broken file.
    """

    partial: RankPartial
    broken: tuple[BrokenRank, ...]
    findings: tuple[Finding, ...]


def measure_rank_file(rank: RankFile) -> RankPartial | None:
    """What comparing ranks needs of one, of all its steps.

    Raises:
        InputError: a file, or a program that was named, cannot be read.
    """
    found = _attribute(rank)
    if found is None or found.runs is None:
        return None if found is None else found.partial
    runs = found.runs
    rows = runs.with_replica_groups(runs.with_host_calls(runs.rows))
    partial = measure_rank(rank.label, rows, runs.steps.frame, runs.launches, found.partial.findings)
    return replace(partial, is_simulated=found.partial.is_simulated)


def measure_ledger_file(rank: RankFile) -> RankPartial | None:
    """What a ledger needs of one rank, of all its steps: which of them count is known only when all ranks are.

    Raises:
        InputError: a file, or a program that was named, cannot be read.
    """
    found = _attribute(rank)
    if found is None or found.runs is None:
        return None if found is None else found.partial
    rows, steps = found.runs.rows, found.runs.steps.frame
    measures = measure_ledger(rows, rank.options.component_map, workload=rank.workload)
    reconciliation = reconcile(rows, steps)
    partial = found.partial
    for spec, frame in (
        (STEPS, steps),
        (RECONCILIATION, reconciliation.frame),
        (BUCKET_SUMS, measures.sums),
        (LINE_UNIONS, measures.unions),
        (LEDGER, measures.buckets),
        (COUNTED_ROWS, measures.counted),
    ):
        partial = partial.with_frame(spec, frame)
    return replace(partial, findings=(*partial.findings, *measures.findings, *reconciliation.findings))


def measure_rank_files(
    arguments: Sequence[str | Path],
    options: AttributionOptions,
    workers: Workers | None = None,
    on_done: Callable[[int, int], None] = lambda done, total: None,
    *,
    work: Measure = measure_rank_file,
    workload: Workload | None = None,
) -> MeasuredRanks:
    """All files behind the arguments, each as one rank.

    Args:
        arguments: files, folders, patterns, run directories.
        options: how rows are booked.
        workers: where the work runs; None: here.
        on_done: called with how many files are done, and how many there are.
        work: what is measured: `measure_rank_file` or `measure_ledger_file`.
        workload: what is counted; None: nothing.

    Raises:
        InputError: an argument names nothing, or no file could be read.
        NothingToRead: there is no dispatch in any file.
        MissingExtra: a Dask cluster was named, and Dask is not installed.
    """
    sources = list_rank_sources(arguments)
    read = [source for source in sources if source.is_named or not source.is_unverified]
    ranks, unspoken = _ranks_of(read, RankFile(sources=(), options=options, workload=workload))
    job = _Job(work=work, workers=workers, on_done=on_done)
    job.measure(ranks)
    # Where all databases of a run turn out to be counter passes, its profiles are its timelines.
    job.measure([rank for rank in unspoken if rank.sources[0].run not in job.runs])
    job.measure(job.take_parts_of_devices())
    if not any(partial.frames for _, partial in job.measured):
        _say_why_nothing(arguments, job)
    partial = renumber_steps(merge_partials(partial for _, partial in job.measured))
    findings = [unverified(source) for source in sources if source not in read]
    findings += [*job.broken_findings(read), *partial.findings]
    return MeasuredRanks(partial=partial, broken=tuple(job.broken), findings=tuple(findings))


def list_rank_sources(arguments: Sequence[str | Path]) -> list[SourcePath]:
    """The databases and profiles that the arguments name.

    Raises:
        InputError: an argument names nothing.
    """
    return [source for source in find_sources(arguments) if source.kind is not SourceKind.REPLAY_JSON]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _AttributedRank:
    """One rank's rows; `runs` is None where it has no dispatch. `partial` holds what reading it raised."""

    runs: AttributedRuns | None
    partial: RankPartial


def _attribute(rank: RankFile) -> _AttributedRank | None:
    """The rows of a rank in their buckets; None for counter passes."""
    if rank.profiles:  # so that a database that cannot be read does not hide behind the profile beside it
        Workspace.open_sources(rank.sources).close()
    with Workspace.open_sources((*rank.sources, *rank.profiles)) as workspace:
        if workspace.loaded and all(process.is_counter_pass for process in workspace.loaded):
            return None
        try:
            runs = attribute_workspace(workspace, rank.options)
            raised = [*workspace.findings, *runs.findings]
        except NothingToRead as error:
            if error.reference != "no-traced-dispatches":
                raise
            runs, raised = None, [*workspace.findings, _no_dispatches(rank)]
        partial = RankPartial(
            labels=(rank.label,), frames={}, findings=tuple(raised), is_simulated=workspace.is_simulated
        )
        return _AttributedRank(runs=runs, partial=partial)


@dataclass(slots=True, kw_only=True)
class _Job:
    """What was measured so far, and what broke."""

    work: Measure
    workers: Workers | None
    on_done: Callable[[int, int], None]
    measured: list[tuple[RankFile, RankPartial]] = field(default_factory=list)
    broken: list[BrokenRank] = field(default_factory=list)

    @property
    def runs(self) -> set[str]:
        """Runs of which a rank was measured."""
        return {source.run for rank, _ in self.measured for source in rank.sources}

    def measure(self, ranks: Sequence[RankFile]) -> None:
        """Add these ranks; counter passes give nothing."""
        if not ranks:
            return
        done = run_ranks(
            self.work, [Rank(label=rank.label, argument=rank) for rank in ranks], self.workers, self.on_done
        )
        broken = {each.label for each in done.broken}
        whole = (rank for rank in ranks if rank.label not in broken)
        pairs = zip(whole, done.results, strict=True)
        self.measured += [(rank, partial) for rank, partial in pairs if partial is not None]
        self.broken += done.broken

    def take_parts_of_devices(self) -> list[RankFile]:
        """Ranks that share a device, each such group as one; they are measured no longer."""
        groups: list[tuple[set[tuple[str, str]], list[RankFile]]] = []
        for rank, partial in self.measured:
            frame = partial[RECONCILIATION]
            devices, ranks = set(zip(frame["run"].astype(str), frame["device"].astype(str), strict=True)), [rank]
            for shared in [group for group in groups if group[0] & devices]:
                groups.remove(shared)
                devices, ranks = devices | shared[0], [*shared[1], *ranks]
            groups.append((devices, ranks))
        parts = [ranks for _, ranks in groups if len(ranks) > 1]
        taken = {rank.label for ranks in parts for rank in ranks}
        self.measured = [(rank, partial) for rank, partial in self.measured if rank.label not in taken]
        return [
            replace(ranks[0], sources=tuple(source for rank in ranks for source in rank.sources)) for ranks in parts
        ]

    def broken_findings(self, sources: Sequence[SourcePath]) -> list[Finding]:
        """One for each broken rank; a database of another tool that was not named is only worth a remark."""
        named = {str(source.path): source for source in sources}
        findings = []
        for broken, finding in zip(self.broken, broken_findings(self.broken), strict=True):
            source = named.get(broken.label)
            is_remark = source is not None and isinstance(broken.error, UnknownFormat) and not source.is_named
            findings.append(unreadable(source, broken.error) if source is not None and is_remark else finding)
        return findings


def _ranks_of(sources: Sequence[SourcePath], blank: RankFile) -> tuple[list[RankFile], list[RankFile]]:
    """A rank for each database, and for each profile of a run without any; and those of the other profiles."""
    ranks: list[RankFile] = []
    unspoken: list[RankFile] = []
    traced = {source.run for source in sources if source.kind is SourceKind.DATABASE}
    for source in sources:
        if source.kind is SourceKind.PROFILE:
            (unspoken if source.run in traced else ranks).append(replace(blank, sources=(source,)))
            continue
        profiles = (each for each in sources if each.kind is SourceKind.PROFILE and each.run == source.run)
        ranks.append(replace(blank, sources=(source,), profiles=tuple(profiles)))
    return ranks, unspoken


def _say_why_nothing(arguments: Sequence[str | Path], job: _Job) -> None:
    """Raises the error of whoever opens all files at once and finds no dispatch."""
    if not job.measured:
        RankResults(results=(), broken=tuple(job.broken)).require_any()
    with Workspace.open(arguments) as workspace:
        workspace.require_dispatches(("start_ns",))


def _no_dispatches(rank: RankFile) -> Finding:
    return Finding(
        rule="no-dispatch-in-file",
        severity=Severity.NOTE,
        where=rank.label,
        message="its process ran nothing on a device: it is no rank",
    )
