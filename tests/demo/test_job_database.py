"""The traces of the demo, read back: what every command relies on, and the truth about each dispatch."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import CommandLine
from rocpd_files import read_sql

RANKS = 2


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


def trace_of(demo_run: Path, rank: int) -> Path:
    (path,) = (demo_run / "trace").glob(f"rank_{rank}_*.db")
    return path


def truth_of(demo_run: Path, rank: int, sites: pd.DataFrame) -> pd.DataFrame:
    rows = pd.read_csv(demo_run / "truth" / f"dispatches_{rank}.csv")
    return rows.merge(sites, on="site", how="left")


@pytest.mark.parametrize("rank", range(RANKS))
def test_a_dispatch_is_launched_before_it_starts_and_streams_run_in_order(demo_run, rank):
    rows = read_sql(
        trace_of(demo_run, rank),
        'SELECT d.stream_id, d.start, d."end", r.start, r."end" FROM rocpd_kernel_dispatch d '
        "JOIN rocpd_event e ON d.event_id = e.id JOIN rocpd_region r ON r.id = e.stack_id ORDER BY d.id",
    )
    frame = pd.DataFrame(rows, columns=["stream", "start", "end", "call", "returned"])
    (count,) = read_sql(trace_of(demo_run, rank), "SELECT count(*) FROM rocpd_kernel_dispatch")[0]
    assert len(frame) == count
    assert (frame["returned"] <= frame["start"]).all()
    assert (frame["start"] < frame["end"]).all()
    assert frame["call"].is_monotonic_increasing
    for _, own in frame.groupby("stream"):
        assert (own["start"].iloc[1:].to_numpy() >= own["end"].iloc[:-1].to_numpy()).all()


def test_calls_of_a_thread_do_not_overlap(demo_run):
    rows = read_sql(
        trace_of(demo_run, 0),
        'SELECT r.start, r."end" FROM rocpd_region r JOIN rocpd_event e ON r.event_id = e.id '
        "JOIN rocpd_string s ON s.id = e.category_id WHERE s.string LIKE 'HIP%' ORDER BY r.start",
    )
    frame = pd.DataFrame(rows, columns=["start", "end"])
    assert (frame["start"].iloc[1:].to_numpy() >= frame["end"].iloc[:-1].to_numpy()).all()


def test_all_views_show_every_dispatch(demo_run):
    path = trace_of(demo_run, 1)
    (base,), (seen,) = (
        read_sql(path, f"SELECT count(*) FROM {table}")[0] for table in ("rocpd_kernel_dispatch", "kernels")
    )
    assert base == seen


def test_kernels_have_the_registers_of_the_compiled_program(demo_run):
    ((vgprs, agprs),) = read_sql(
        trace_of(demo_run, 0),
        "SELECT arch_vgpr_count, sgpr_count FROM rocpd_info_kernel_symbol WHERE display_name = 'gemm_fusion_dot_66.kd'",
    )
    assert (vgprs, agprs) == (242, 25)


def test_ranks_run_the_same_on_devices_of_one_node(demo_run, sites):
    first, second = (truth_of(demo_run, rank, sites) for rank in range(RANKS))
    assert first["instruction"].tolist() == second["instruction"].tolist()
    agents = [
        read_sql(trace_of(demo_run, rank), "SELECT DISTINCT agent_id FROM rocpd_kernel_dispatch")
        for rank in range(RANKS)
    ]
    assert agents == [[(2,)], [(3,)]]


def test_linking_finds_the_true_instructions(demo_run, sites, run):
    """The aligner shares no code with the simulation. Certain links are right; what is left open is little."""
    for rank in range(RANKS):
        rows = run.rows("link", trace_of(demo_run, rank), "--hlo", demo_run / "hlo", "--part", "edges", "--top", 0)
        edges = pd.DataFrame(rows).set_index("dispatch_id")
        truth = truth_of(demo_run, rank, sites).set_index("dispatch_id")
        joined = edges.join(truth["instruction"].rename("instruction_true"))
        linked = joined[joined["confidence"].isin(["certain", "likely"])]
        assert len(linked) > 0.99 * len(truth)
        certain = joined[joined["confidence"] == "certain"]
        assert len(certain) > 0.9 * len(truth)
        assert (certain["instruction"] == certain["instruction_true"]).all()
        assert (linked["instruction"] == linked["instruction_true"]).mean() > 0.995


def test_steps_are_those_of_the_truth(demo_run, run):
    truth = json.loads((demo_run / "truth" / "job.json").read_text(encoding="utf-8"))
    rows = run.rows("overlap", demo_run, "--top", 0)
    assert {row["step_index"] for row in rows} == set(range(len(truth["steps"])))
    # Hosts wait for each step, so a device's step is a little shorter than the time between two.
    for row in rows:
        assert 0.99 < row["span_ns"] / truth["step_ns"][row["step_index"]] < 1.0


def test_collectives_have_the_payload_of_the_truth_and_no_more_than_the_links_carry(demo_run, sites, run):
    rows = pd.DataFrame(run.document("collectives", demo_run, "--top", 0)["rows"]).set_index("instruction")
    truth = sites[sites["collective"] != ""].set_index("instruction")
    assert set(rows.index) == set(truth.index)
    assert (rows["payload_bytes"] == truth["payload_bytes"].reindex(rows.index)).all()
    assert (rows["group_count"] == truth["group_size"].astype(float).reindex(rows.index)).all()
    # A device sends to each peer of its group over one link of 76.8 GB/s.
    assert (rows["bus_bytes_per_s"] < 76.8e9 * (rows["group_count"] - 1)).all()


def test_the_ledger_is_as_large_as_the_truth_and_its_phases_are_those_of_the_source(demo_run, sites, run):
    rows = run.rows("ledger", demo_run, "--part", "tables")
    ledger = {row["row"]: row["mean_ns"] for row in rows if row["table"] == "phases"}
    truth = truth_of(demo_run, 0, sites).merge(durations_of(demo_run, 0), on="dispatch_id")
    compute = truth[(truth["collective"] == "") & (truth["kind"] != "copy")]
    by_phase = compute.groupby("phase")["duration_ns"].sum() / 2  # of two steps
    for row, phase in (
        ("Forward model compute", "forward"),
        ("Backward gradient compute", "backward"),
        ("Rematerialized forward replay", "rematerialized"),
    ):
        # The ledger books by more than the outermost name: what has none goes where its data flow says.
        assert ledger[row] == pytest.approx(by_phase[phase], rel=0.03)


def durations_of(demo_run: Path, rank: int) -> pd.DataFrame:
    rows = read_sql(trace_of(demo_run, rank), 'SELECT dispatch_id, "end" - start FROM rocpd_kernel_dispatch')
    return pd.DataFrame(rows, columns=["dispatch_id", "duration_ns"])
