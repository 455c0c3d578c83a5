"""A job of several files: measured alone and together, here and in processes; one torn file is named."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.errors import InputError
from rocktools.frames import STEPS
from rocktools.timeline.overlap import RECONCILIATION, reconcile
from rocktools.timeline.partial import compare_ranks
from rocktools.workspace.attributed import AttributionOptions, attribute_workspace
from rocktools.workspace.many_ranks import Workers
from rocktools.workspace.paths import find_sources
from rocktools.workspace.rank_files import MeasuredRanks, RankFile, measure_rank_file, measure_rank_files
from rocktools.workspace.workspace import Workspace

RANKS_COUNT = 4


@pytest.fixture(scope="module")
def options() -> AttributionOptions:
    return AttributionOptions(component_map=read_shipped_map())


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every rank has a GPU of its own of one node, three roctx steps, and a name as rocprofv3 gives it."""
    folder = tmp_path_factory.mktemp("job")
    for rank in range(RANKS_COUNT):
        shape = TraceShape(dispatches_count=300, idle_agents_count=rank, ranges_count=3, seed=rank, pid=100 + rank)
        write_trace(folder / f"{100 + rank}_results.db", shape)
    return folder


@pytest.fixture(scope="module")
def measured(job: Path, options: AttributionOptions) -> MeasuredRanks:
    return measure_rank_files([job], options)


def rank_of(path: Path, options: AttributionOptions) -> RankFile:
    return RankFile(sources=find_sources([path]), options=options)


def contents(ranks: MeasuredRanks) -> dict[str, list[list[str]]]:
    return {name: held.frame.astype(str).to_numpy().tolist() for name, held in ranks.partial.frames.items()}


def test_ranks_together_equal_all_files_read_at_once(
    job: Path, options: AttributionOptions, measured: MeasuredRanks
) -> None:
    with Workspace.open([job]) as workspace:
        runs = attribute_workspace(workspace, options)
    whole = reconcile(runs.rows, runs.steps.frame).frame
    ours = measured.partial[RECONCILIATION]
    assert ours.astype(str).to_numpy().tolist() == whole.astype(str).to_numpy().tolist()
    assert len(measured.partial[STEPS]) == 3 * RANKS_COUNT
    assert compare_ranks(measured.partial).devices.means["device"].nunique() == RANKS_COUNT


def test_processes_give_what_one_process_gives(job: Path, options: AttributionOptions, measured: MeasuredRanks) -> None:
    parallel = measure_rank_files([job], options, Workers(processes_count=2))
    assert contents(parallel) == contents(measured)
    assert parallel.findings == measured.findings


def test_torn_file_is_named_and_the_others_are_measured(
    job: Path, options: AttributionOptions, tmp_path: Path, measured: MeasuredRanks
) -> None:
    torn = tmp_path / "torn"
    torn.mkdir()
    for source in job.iterdir():
        content = source.read_bytes()
        (torn / source.name).write_bytes(content[:3000] if source.name.startswith("102") else content)
    found = measure_rank_files([torn], options)
    assert [Path(broken.label).name for broken in found.broken] == ["102_results.db"]
    assert found.partial[RECONCILIATION]["device"].nunique() == RANKS_COUNT - 1
    assert "rank-missing" in {finding.rule for finding in found.findings}


def test_counter_pass_is_no_rank_and_no_failure(options: AttributionOptions, tmp_path: Path) -> None:
    path = tmp_path / "1_results.db"
    write_trace(path, TraceShape(dispatches_count=40, counters=("SQ_WAVES",), seed=1))
    assert measure_rank_file(rank_of(path, options)) is None


def test_work_and_result_can_be_sent_to_other_processes(job: Path, options: AttributionOptions) -> None:
    rank = rank_of(job / "100_results.db", options)
    partial = measure_rank_file(pickle.loads(pickle.dumps(rank)))
    assert partial is not None
    assert len(pickle.dumps(partial)) < rank.sources[0].path.stat().st_size


def test_job_without_a_readable_file_is_an_error(options: AttributionOptions, tmp_path: Path) -> None:
    (tmp_path / "1_results.db").write_bytes(b"no database")
    with pytest.raises(InputError):
        measure_rank_files([tmp_path], options)
