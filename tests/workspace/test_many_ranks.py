"""The same work here, in processes and on a cluster; what breaks is named and takes nothing with it."""

from __future__ import annotations

import pytest
from rank_work import measure_simulated_rank, square

from rocktools.errors import DamagedFile, InputError, MissingExtra, NothingToRead, UsageError
from rocktools.findings import Severity
from rocktools.timeline.partial import RankPartial, compare_ranks, merge_partials, renumber_steps
from rocktools.workspace.many_ranks import Rank, RankResults, Workers, run_ranks

RANKS_COUNT = 64


def ranks_of(numbers: list[int]) -> list[Rank[int]]:
    return [Rank(label=f"rank{number}.db", argument=number) for number in numbers]


def simulated(workers: Workers) -> RankResults[RankPartial]:
    return run_ranks(measure_simulated_rank, ranks_of(list(range(RANKS_COUNT))), workers)


def contents(results: RankResults[RankPartial]) -> dict[str, list[list[str]]]:
    merged = renumber_steps(merge_partials(results.results))
    return {name: held.frame.astype(str).to_numpy().tolist() for name, held in merged.frames.items()}


@pytest.fixture(scope="module")
def serial() -> RankResults[RankPartial]:
    return simulated(Workers())


def test_results_come_in_the_order_of_the_ranks() -> None:
    seen = []
    found = run_ranks(square, ranks_of([4, 2, 9]), on_done=lambda done, total: seen.append((done, total)))
    assert found.results == (16, 4, 81)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert run_ranks(square, []).results == ()


def test_broken_rank_is_named_and_the_rest_is_kept(serial: RankResults[RankPartial]) -> None:
    assert len(serial.results) == RANKS_COUNT - 1
    assert [broken.label for broken in serial.broken] == ["rank20.db"]
    (finding,) = serial.findings
    assert (finding.rule, finding.severity, finding.where) == ("rank-missing", Severity.FAULT, "rank20.db")


def test_processes_give_what_one_process_gives(serial: RankResults[RankPartial]) -> None:
    parallel = simulated(Workers(processes_count=2))
    assert contents(parallel) == contents(serial)
    assert parallel.findings == serial.findings


def test_late_rank_of_many_is_found(serial: RankResults[RankPartial]) -> None:
    compared = compare_ranks(renumber_steps(merge_partials(serial.results)))
    late = [verdict.device for verdict in compared.late.verdicts if verdict.device is not None]
    assert late == ["node1:gpu5"]
    assert len(compared.late.verdicts) == RANKS_COUNT // 8
    assert len(compared.devices.means) == RANKS_COUNT - 1


def test_rank_that_kills_its_process_is_named_and_the_rest_is_done() -> None:
    found = run_ranks(square, ranks_of([1, 5, 2, 3, 4]), Workers(processes_count=2))
    assert found.results == (1, 4, 16)
    assert [(broken.label, broken.error.reference) for broken in found.broken] == [
        ("rank5.db", "worker-died"),
        ("rank3.db", "torn-file"),
    ]


@pytest.mark.parametrize("workers", [Workers(), Workers(processes_count=2)])
def test_fault_of_the_program_is_not_taken_for_a_broken_rank(workers: Workers) -> None:
    with pytest.raises(ZeroDivisionError):
        run_ranks(square, ranks_of([1, 7]), workers)


def test_without_any_result_the_error_says_why() -> None:
    with pytest.raises(DamagedFile, match="torn-file"):
        run_ranks(square, ranks_of([3])).require_any()
    with pytest.raises(NothingToRead, match="none of 2 ranks"):
        run_ranks(square, ranks_of([3, 3])).require_any()
    assert run_ranks(square, ranks_of([3, 2])).require_any() == (4,)


def test_no_process_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="no-processes"):
        Workers(processes_count=0)


def test_dask_is_asked_for_where_it_is_missing() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtra, match="rocktools\\[cluster\\]"):
            run_ranks(square, ranks_of([1]), Workers(dask_address="tcp://127.0.0.1:9"))
    else:
        pytest.skip("distributed is installed")


# Dask's own code warns about ports, and leaves sockets to the garbage collector.
@pytest.mark.filterwarnings("ignore")
def test_dask_cluster_gives_what_one_process_gives(serial: RankResults[RankPartial]) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        workers = Workers(dask_address=cluster.scheduler_address)
        found = simulated(workers)
        assert contents(found) == contents(serial)
        assert found.findings == serial.findings
        killed = run_ranks(square, ranks_of([1, 5, 2]), workers)
        assert killed.results == (1, 4)
        assert [(broken.label, broken.error.reference) for broken in killed.broken] == [("rank5.db", "worker-died")]
    with pytest.raises(InputError, match="no-dask-cluster"):
        run_ranks(square, ranks_of([1]), Workers(dask_address="tcp://127.0.0.1:9"))
