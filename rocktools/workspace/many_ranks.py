"""Many files, one at a time each -> what each gave, in order; the broken ones are named and the rest is kept.

The work is a function of one argument that can be pickled and does not depend on what else runs: the same results come
from this process, from several on this machine, and from an existing Dask cluster. Files must be readable where the
work runs. What the work is, and how results are put together, is not known here.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rocktools.errors import InputError, NothingToRead, RocktoolsError, UsageError
from rocktools.extras import require_extra
from rocktools.findings import Finding, Severity

Argument = TypeVar("Argument")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank(Generic[Argument]):
    """One piece of work.

    Attributes:
        label: what messages call it: its file.
        argument: what the work is called with.
    """

    label: str
    argument: Argument


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Where the work runs.

    Attributes:
        processes_count: processes on this machine; 1 is this process itself.
        dask_address: scheduler of a Dask cluster, as `tcp://host:8786`, which is used instead; None: none.
    """

    processes_count: int = 1
    dask_address: str | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is asked to run in other processes than this one."""
        return self.processes_count > 1 or self.dask_address is not None

    def __post_init__(self) -> None:
        if self.processes_count < 1:
            raise UsageError(
                "no-processes", f"at least one process is needed, but {self.processes_count} were asked for"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRank:
    """A piece of work that gave nothing: its label, and what went wrong."""

    label: str
    error: RocktoolsError


@dataclass(frozen=True, slots=True, kw_only=True)
class RankResults(Generic[Result]):
    """What came of all pieces.

    Attributes:
        results: of those that succeeded, in the order in which they were given.
        broken: those that did not, in that order too.
    """

    results: tuple[Result, ...]
    broken: tuple[BrokenRank, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One for each broken rank."""
        return broken_findings(self.broken)

    def require_any(self) -> tuple[Result, ...]:
        """The results.

        Raises:
            RocktoolsError: there is none; where one piece was given, its own error.
        """
        if self.results or not self.broken:
            return self.results
        if len(self.broken) == 1:
            raise self.broken[0].error
        first = self.broken[0]
        raise NothingToRead(
            "no-rank-readable",
            f"none of {len(self.broken)} ranks could be read; the first: {first.error.what}",
            where=first.label,
            hint=first.error.hint,
        )


def run_ranks(
    work: Callable[[Argument], Result],
    ranks: Sequence[Rank[Argument]],
    workers: Workers | None = None,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> RankResults[Result]:
    """The work done for each rank.

    Args:
        work: a function of a module, since it is sent to other processes by its name.
        ranks: the pieces, in the order in which results are wanted.
        workers: where it runs; None: here.
        on_done: called with how many are done, and how many there are.

    Raises:
        MissingExtra: a Dask cluster was named and Dask is not installed.
        InputError: the cluster cannot be reached.
        Exception: what the work raised, if it is not a `RocktoolsError`: that is a fault of the program.
    """
    where = workers or Workers()
    if where.dask_address is not None:
        outcomes = _on_dask(work, ranks, where.dask_address)
    elif where.processes_count > 1 and len(ranks) > 1:
        outcomes = _in_processes(work, ranks, min(where.processes_count, len(ranks)))
    else:
        outcomes = _here(work, ranks)
    results: dict[int, Result] = {}
    broken: dict[int, BrokenRank] = {}
    for done, (place, outcome) in enumerate(outcomes, start=1):
        if isinstance(outcome, RocktoolsError):
            broken[place] = BrokenRank(label=ranks[place].label, error=outcome)
        else:
            results[place] = outcome
        on_done(done, len(ranks))
    return RankResults(
        results=tuple(results[place] for place in sorted(results)),
        broken=tuple(broken[place] for place in sorted(broken)),
    )


Outcomes = Iterator[tuple[int, Any]]


def _here(work: Callable[[Argument], Result], ranks: Sequence[Rank[Argument]]) -> Outcomes:
    for place, rank in enumerate(ranks):
        yield place, _outcome(work, rank.argument)


def _outcome(work: Callable[[Argument], Result], argument: Argument) -> Result | RocktoolsError:
    """The result, or the error that says why there is none: a value, so that no pool takes it for its own failure."""
    try:
        return work(argument)
    except RocktoolsError as error:
        return error


def _in_processes(work: Callable[[Argument], Result], ranks: Sequence[Rank[Argument]], count: int) -> Outcomes:
    """All ranks in a pool. When a worker dies the pool is lost, and what was left is done one process each."""
    left = dict(enumerate(ranks))
    try:
        with _pool(count) as pool:
            futures: dict[Future[Any], int] = {
                pool.submit(_outcome, work, rank.argument): place for place, rank in left.items()
            }
            for future in as_completed(futures):
                place = futures[future]
                outcome = future.result()
                del left[place]
                yield place, outcome
    except BrokenProcessPool:
        for place, rank in list(left.items()):
            yield place, _alone(work, rank)


def _alone(work: Callable[[Argument], Result], rank: Rank[Argument]) -> Result | RocktoolsError:
    """The work in a process of its own; if that dies, this is the rank that kills it."""
    try:
        with _pool(1) as pool:
            return pool.submit(_outcome, work, rank.argument).result()
    except BrokenProcessPool:
        return InputError(
            "worker-died",
            "the process that read it died: killed, most likely for want of memory",
            where=rank.label,
            hint="use fewer processes at once",
        )


def _pool(count: int) -> ProcessPoolExecutor:
    # Not forked: threads of numpy and Arrow, and open databases, do not survive that.
    return ProcessPoolExecutor(max_workers=count, mp_context=multiprocessing.get_context("spawn"))


def _on_dask(work: Callable[[Argument], Result], ranks: Sequence[Rank[Argument]], address: str) -> Outcomes:
    distributed = require_extra("distributed", "cluster", "--dask")
    try:
        client = distributed.Client(address, set_as_default=False, timeout="10s")
    except (OSError, ValueError) as error:
        raise InputError(
            "no-dask-cluster", f"no Dask scheduler answers: {error}", where=address, hint="dask scheduler"
        ) from error
    with client:
        # Not pure: the cluster must not answer from a result that it still has of a file that has changed.
        futures = {client.submit(_outcome, work, rank.argument, pure=False): place for place, rank in enumerate(ranks)}
        with client.as_current():
            finished = distributed.as_completed(list(futures))
        for future in finished:
            place = futures[future]
            if future.status == "error" and isinstance(future.exception(), distributed.KilledWorker):
                yield (
                    place,
                    InputError(
                        "worker-died",
                        "the workers that read it died: killed, most likely for want of memory",
                        where=ranks[place].label,
                        hint="give the workers more memory",
                    ),
                )
            else:
                yield place, future.result()


def broken_findings(broken: Sequence[BrokenRank]) -> tuple[Finding, ...]:
    """One for each broken rank, in their order."""
    return tuple(_broken_finding(each) for each in broken)


def _broken_finding(broken: BrokenRank) -> Finding:
    where = broken.error.where or broken.label
    return Finding(
        rule="rank-missing",
        severity=Severity.FAULT,
        where=where if broken.label in where else f"{broken.label}, {where}",
        message=f"{broken.error.what}; this rank is missing from all results",
        advice=broken.error.hint or "",
    )
