"""Coverage of all runs: sums of the runs, by method and confidence, in rows and in time."""

from __future__ import annotations

from pathlib import Path

from tiny_program import kernel, write_tiny_dump
from tiny_run import tiny_trace, write_tiny_run, write_tiny_trace

from rocktools.frames import DISPATCH_EDGES, EVENT_EDGES, require_frame
from rocktools.workspace.link_coverage import LINK_COVERAGE, LINK_UNLINKED, LinkCoverage, collect_edges, cover_runs
from rocktools.workspace.links import LinkedRun, link_runs
from rocktools.workspace.workspace import Workspace


def link(*paths: Path, hlo: tuple[Path, ...] = ()) -> list[LinkedRun]:
    with Workspace.open(paths) as workspace:
        return link_runs(workspace, hlo)


def by_hand(run: LinkedRun) -> dict[tuple[str, str], tuple[int, int]]:
    """Method and confidence -> rows and nanoseconds, dispatch by dispatch."""
    lengths = dict(
        zip(run.dispatches["dispatch_id"], run.dispatches["end_ns"] - run.dispatches["start_ns"], strict=True)
    )
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for edge in run.edges.itertuples():
        count, total = found.get((edge.method, edge.confidence), (0, 0))
        found[edge.method, edge.confidence] = (count + 1, total + lengths[edge.dispatch_id])
    return found


def listed(covered: LinkCoverage, run: str) -> dict[tuple[str, str], tuple[int, int]]:
    rows = covered.coverage[covered.coverage["run"] == run].to_dict("records")
    return {(row["method"], row["confidence"]): (row["dispatches_count"], row["total_ns"]) for row in rows}


def test_rows_and_time_of_each_method_are_those_of_the_dispatches(tmp_path: Path) -> None:
    runs = link(
        write_tiny_run(tmp_path / "first", trace=tiny_trace()),
        write_tiny_run(tmp_path / "second", profile=tiny_trace(seed=1, steps_count=2)),
    )
    covered = cover_runs(runs)
    require_frame(covered.coverage, LINK_COVERAGE)
    require_frame(covered.unlinked, LINK_UNLINKED)
    for run in runs:
        assert listed(covered, run.run) == by_hand(run)
    of_run = covered.coverage.groupby("run", observed=True)
    for column in ("count_ratio", "time_ratio"):
        assert [round(total, 9) for total in of_run[column].sum()] == [1, 1]
    assert covered.rows_count == covered.dispatches_count == covered.linked_count == 507 + 338
    assert covered.total_ns == covered.linked_ns == covered.coverage["total_ns"].sum()
    assert covered.programs == ("jit_tiny",)
    assert covered.unlinked.empty


def test_what_no_program_has_is_unlinked_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    write_tiny_dump(tmp_path / "dump", [kernel(f"other.{number}") for number in range(20)])
    trace = tiny_trace(steps_count=1)
    covered = cover_runs(link(write_tiny_trace(tmp_path / "1_results.db", trace), hlo=(tmp_path / "dump",)))
    assert (covered.linked_count, covered.linked_ns, covered.programs) == (0, 0, ())
    counts = dict(zip(covered.unlinked["kernel_name"], covered.unlinked["dispatches_count"], strict=True))
    assert counts == trace.dispatches["kernel_name"].astype(str).value_counts().to_dict()
    assert covered.unlinked["reason"].notna().all()
    assert set(covered.unlinked["rows"]) == {"dispatches"}


def test_edges_of_all_runs_are_in_one_frame(tmp_path: Path) -> None:
    runs = link(
        write_tiny_run(tmp_path / "a", trace=tiny_trace()), write_tiny_run(tmp_path / "b", trace=tiny_trace(seed=1))
    )
    spec, edges = collect_edges(runs)
    assert spec is DISPATCH_EDGES
    assert list(edges["run"].value_counts().sort_index()) == [507, 507]
    for run in runs:
        own = edges[edges["run"] == run.run]
        assert list(own["instruction"].astype(object)) == list(run.edges["instruction"].astype(object))


def test_no_run_has_no_rows() -> None:
    covered = cover_runs([])
    assert (covered.rows_count, covered.total_ns, covered.programs) == (0, 0, ())
    assert list(covered.coverage.columns) == list(LINK_COVERAGE.names)


def test_real_host_events_of_the_cpu_backend_are_covered(shared: Path) -> None:
    runs = link(shared / "data" / "xplane" / "cpu_moe")
    covered = cover_runs(runs)
    (row,) = covered.coverage.to_dict("records")
    assert (row["rows"], row["method"], row["confidence"]) == ("host events", "annotation", "certain")
    assert (covered.host_events_count, covered.dispatches_count) == (10_248, 0)
    assert covered.programs == ("jit_train_step",)
    spec, edges = collect_edges(runs)
    assert spec is EVENT_EDGES
    assert len(edges) == 10_248


def test_real_time_is_that_of_the_kernels_of_xprof(shared: Path) -> None:
    """xprof adds 12.13 ms up over all kernels of the profile."""
    covered = cover_runs(link(shared / "data" / "xplane" / "mi355_te_fused_attn"))
    assert covered.linked_count == 150
    assert round(covered.total_ns / 1e6, 2) == 12.13
    assert covered.unlinked.empty
