"""The ledger of a job, rank by rank: what all files at once give; expected counts; what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ledger_ranks import MAP, RANKS_COUNT, WORKLOAD, measure_simulated_ledger
from scoped_run import WORKLOAD as TINY_WORKLOAD
from scoped_run import write_scoped_run

from rocktools.analytic.occurrences import parse_workload
from rocktools.attribution.ledger_document import Ledger, ledger_document
from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.errors import NothingToRead
from rocktools.frames import STEPS
from rocktools.timeline.partial import merge_partials, renumber_steps
from rocktools.timeline.steps import counted_steps
from rocktools.workspace.attributed import AttributionOptions, attribute_workspace
from rocktools.workspace.ledger import build_ranks_ledger, build_run_ledger
from rocktools.workspace.many_ranks import Rank, Workers, run_ranks
from rocktools.workspace.rank_files import MeasuredRanks, measure_ledger_file, measure_rank_files
from rocktools.workspace.workspace import Workspace

OPTIONS = AttributionOptions(component_map=MAP)
RANKS = 3


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("job") / "run", ranks=range(RANKS))


@pytest.fixture(scope="module")
def expected():
    return parse_workload(TINY_WORKLOAD.replace("DEVICES", str(RANKS)), source="w.yaml")


def measure(paths, workers: Workers | None = None, workload=None) -> MeasuredRanks:
    return measure_rank_files(paths, OPTIONS, workers, work=measure_ledger_file, workload=workload)


def of_ranks(measured: MeasuredRanks, workload=None) -> Ledger:
    steps = counted_steps(measured.partial[STEPS])
    return build_ranks_ledger(measured.partial, steps, component_map=MAP, workload=workload, findings=measured.findings)


def document_of(ledger: Ledger) -> dict[str, Any]:
    return json.loads(json.dumps(ledger_document(ledger, rocktools_version="0")))


def without_findings(ledger: Ledger) -> dict[str, Any]:
    document = document_of(ledger)
    del document["findings"]
    return document


def simulated(workers: Workers) -> dict[str, Any]:
    ranks = [Rank(label=f"rank{number}", argument=number) for number in range(RANKS_COUNT)]
    results = run_ranks(measure_simulated_ledger, ranks, workers).require_any()
    partial = renumber_steps(merge_partials(results))
    return document_of(build_ranks_ledger(partial, partial[STEPS], component_map=MAP, workload=WORKLOAD))


@pytest.fixture(scope="module")
def serial() -> dict[str, Any]:
    return simulated(Workers())


def test_ranks_one_by_one_give_the_ledger_of_all_files_at_once(job: Path, expected) -> None:
    with Workspace.open([job]) as workspace:
        runs = attribute_workspace(workspace, OPTIONS)
        steps = runs.steps.counted
        rows = runs.rows[runs.rows["step_index"].isin(steps["step_index"]).to_numpy()].reset_index(drop=True)
        whole = build_run_ledger(rows, steps, component_map=MAP, workload=expected, is_simulated=True)
    ours = of_ranks(measure([job], workload=expected), expected)
    assert without_findings(ours) == without_findings(whole)
    assert {finding.rule for finding in whole.findings} <= {finding.rule for finding in ours.findings}
    assert not ours.has_failed
    assert without_findings(ours)["places_count"] == 3 * RANKS


def test_processes_give_what_one_process_gives(job: Path) -> None:
    here, there = (of_ranks(measure([job], workers)) for workers in (None, Workers(processes_count=2)))
    assert document_of(here) == document_of(there)


@pytest.mark.slow
def test_64_simulated_ranks_give_one_ledger_in_one_process_and_in_several(serial: dict[str, Any]) -> None:
    assert simulated(Workers(processes_count=2)) == serial
    assert (serial["places_count"], len(serial["devices"])) == (2 * RANKS_COUNT, RANKS_COUNT)
    (occurrence,) = serial["occurrences"]
    assert (occurrence["expected_count"], occurrence["is_met"]) == (4 * RANKS_COUNT, True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own code warns about ports, and leaves sockets to the collector
def test_64_simulated_ranks_give_one_ledger_on_a_dask_cluster(serial: dict[str, Any], job: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        workers = Workers(dask_address=cluster.scheduler_address)
        assert simulated(workers) == serial
        assert document_of(of_ranks(measure([job], workers))) == document_of(of_ranks(measure([job])))


def test_broken_rank_is_named_and_the_rest_is_counted(job: Path, tmp_path: Path) -> None:
    run = write_scoped_run(tmp_path / "run", ranks=[0, 1])
    torn = run / "trace" / "rank_1_results.db"
    torn.write_bytes(torn.read_bytes()[:3000])
    measured = measure([run])
    assert [Path(broken.label).name for broken in measured.broken] == ["rank_1_results.db"]
    assert document_of(of_ranks(measured))["devices"] == ["node0:gpu0"]


def test_files_of_one_device_are_read_together(tmp_path: Path) -> None:
    """Two processes on one GPU overlap: unions of each alone are not those of both."""
    for number in range(2):
        shape = TraceShape(dispatches_count=60, ranges_count=2, seed=number, pid=100 + number)
        write_trace(tmp_path / f"{number}_results.db", shape)
    with Workspace.open([tmp_path]) as workspace:
        runs = attribute_workspace(workspace, OPTIONS)
    inside = runs.rows[runs.rows["step_index"].notna().to_numpy()].reset_index(drop=True)
    whole = build_run_ledger(inside, runs.steps.frame, component_map=MAP, is_simulated=True)
    measured = measure([tmp_path])
    ours = build_ranks_ledger(measured.partial, measured.partial[STEPS], component_map=MAP)
    assert without_findings(ours)["tables"] == without_findings(whole)["tables"]
    assert len(measured.partial.labels) == 1
    assert "device-in-several-ranks" not in {finding.rule for finding in ours.findings}


def test_counter_passes_and_processes_without_a_kernel_are_no_ranks(job: Path, tmp_path: Path) -> None:
    run = write_scoped_run(tmp_path / "run")
    write_trace(run / "trace" / "launcher_results.db", TraceShape(dispatches_count=0, pid=7))
    write_trace(run / "trace" / "pass_results.db", TraceShape(dispatches_count=20, counters=("SQ_WAVES",), pid=8))
    measured = measure([run])
    assert measured.broken == ()
    assert "no-dispatch-in-file" in {finding.rule for finding in measured.findings}
    assert document_of(of_ranks(measured))["devices"] == ["node0:gpu0"]


def test_nothing_but_counter_passes_says_so(tmp_path: Path) -> None:
    for number in range(2):
        shape = TraceShape(dispatches_count=20, counters=("SQ_WAVES",), pid=number)
        write_trace(tmp_path / f"{number}_results.db", shape)
    with pytest.raises(NothingToRead, match="no-traced-dispatches"):
        measure([tmp_path])


def test_a_count_that_misses_on_one_rank_fails_the_ledger(job: Path) -> None:
    text = TINY_WORKLOAD.replace("DEVICES", str(RANKS)).replace("layers: 5", "layers: 6")
    workload = parse_workload(text, source="w.yaml")
    ledger = of_ranks(measure([job], workload=workload), workload)
    assert ledger.has_failed
    assert [each.found_count for each in ledger.occurrences] == [3 * 15 * RANKS] * 2
    assert "occurrence-mismatch" in {finding.rule for finding in ledger.findings}
