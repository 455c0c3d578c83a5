"""The runs of a workspace, booked: every dispatch and copy once, where the truth of the simulation says."""

from __future__ import annotations

from pathlib import Path

import pytest
from rocpd_files import rules
from scoped_run import NAMES, rank_trace, write_scoped_run
from tiny_run import tiny_trace, write_tiny_run

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.errors import InputError, NothingToRead
from rocktools.frames import ATTRIBUTED, require_frame
from rocktools.workspace.attributed import AttributedRuns, AttributionOptions, attribute_workspace
from rocktools.workspace.workspace import Workspace

OPTIONS = AttributionOptions(component_map=read_shipped_map())


def attribute(*paths: Path, options: AttributionOptions = OPTIONS) -> AttributedRuns:
    with Workspace.open(paths) as workspace:
        return attribute_workspace(workspace, options)


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("attributed") / "run", devices_count=2)


@pytest.fixture(scope="module")
def runs(run_path: Path) -> AttributedRuns:
    return attribute(run_path)


def test_every_dispatch_is_in_one_bucket_that_its_true_instruction_says(runs: AttributedRuns) -> None:
    rows = require_frame(runs.rows, ATTRIBUTED)
    trace = rank_trace(0, devices_count=2)
    assert sorted(rows["event_id"]) == sorted(trace.dispatches["dispatch_id"])
    truth = dict(zip(trace.truth["dispatch_id"], trace.truth["instruction"].astype(object), strict=True))
    for row in rows.to_dict("records"):
        op_name = NAMES.get(truth[row["event_id"]])
        if op_name is None or row["activity"] == "copy":
            continue
        expected = "rematerialized" if "rematted" in op_name else "backward" if "transpose" in op_name else "forward"
        if "jvp" in op_name:
            assert row["phase"] == expected, truth[row["event_id"]]


def test_rows_know_the_calls_that_launched_them(runs: AttributedRuns) -> None:
    rows = runs.with_host_calls(runs.rows)
    known = dict(zip(runs.dispatches["dispatch_id"], runs.dispatches["host_call_id"], strict=True))
    assert rows["host_call_id"].notna().all()
    assert [known[event] for event in rows["event_id"]] == rows["host_call_id"].tolist()


def test_several_runs_keep_their_own_programs(run_path: Path, tmp_path: Path) -> None:
    other = write_tiny_run(tmp_path / "other", trace=tiny_trace(seed=5), has_dump=False)
    found = attribute(run_path, other)
    phases = {run: set(rows["phase"]) for run, rows in found.rows.groupby("run", observed=True)}
    assert phases["other"] == {"unattributed"}
    assert {"forward", "backward", "rematerialized", "optimizer"} <= phases["run"]
    assert len(found.rows) == len(rank_trace(0, devices_count=2).dispatches) + len(tiny_trace(seed=5).dispatches)
    assert set(found.collective_rates(found.rows)["run"]) == {"run", "other"}


def test_copies_are_rows_too(tmp_path: Path) -> None:
    totals = write_trace(tmp_path / "1_results.db", TraceShape(dispatches_count=50, copies_count=7, ranges_count=2))
    rows = attribute(tmp_path).rows
    assert rows["kind"].value_counts().to_dict() == {"dispatch": totals.dispatches_count, "copy": totals.copies_count}
    assert set(rows.loc[rows["kind"] == "copy", "activity"]) == {"copy"}


def test_without_a_program_there_is_a_finding_and_with_a_wrong_file_an_error(run_path: Path, tmp_path: Path) -> None:
    alone = tmp_path / "1_results.db"
    alone.write_bytes(next((run_path / "trace").glob("*.db")).read_bytes())
    found = attribute(alone)
    assert "no-program-to-attribute" in rules(found.findings)
    assert {"compute", "communication"} <= set(found.rows["activity"])
    for missing in (tmp_path / "nowhere", alone):
        with pytest.raises(InputError):
            attribute(alone, options=AttributionOptions(component_map=read_shipped_map(), hlo=(missing,)))
    named = attribute(alone, options=AttributionOptions(component_map=read_shipped_map(), hlo=(run_path / "hlo",)))
    assert "forward" in set(named.rows["phase"])


def test_counter_pass_has_nothing_to_book(tmp_path: Path) -> None:
    write_trace(tmp_path / "1_results.db", TraceShape(dispatches_count=20, counters=("SQ_WAVES",)))
    with pytest.raises(NothingToRead, match="no-traced-dispatches"):
        attribute(tmp_path)
