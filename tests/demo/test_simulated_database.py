"""A simulated trace as a rocpd database: read back, it is the same trace, and it says that it is simulated."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from rocpd_files import open_process
from tiny_program import build_tiny

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.scenario import Lanes, Scenario
from rocktools.demo.simulate import SimulatedTrace, simulate
from rocktools.demo.simulated_database import write_simulated_trace
from rocktools.errors import UsageError
from rocktools.frames import DISPATCHES
from rocktools.sources.rocpd.dispatches import read_dispatches
from rocktools.sources.rocpd.parts import assemble_frame

SCENARIO = Scenario(devices_count=2, loss_ratio=0.05, foreign_ratio=0.02, substituted_kernels_count=1, seed=3)


def read_back(path: Path) -> pd.DataFrame:
    with open_process(path) as (reader, process):
        return assemble_frame([read_dispatches(reader, process, "simulated")], DISPATCHES)


@pytest.fixture(scope="module")
def trace() -> SimulatedTrace:
    return simulate(build_tiny(), SCENARIO)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"lanes": Lanes.MERGED_QUEUE},
        {"has_stream_ids": False},
        {"has_host_calls": True},
        {"symbol_ending": ""},
        {"loss_ratio": 1.0},
    ],
)
def test_read_back_it_is_the_same_trace(tmp_path, change):
    trace = simulate(build_tiny(), replace(SCENARIO, **change))
    write_simulated_trace(trace, tmp_path / "run.db")
    found = read_back(tmp_path / "run.db")
    assert len(found) == len(trace.dispatches)
    for name in DISPATCHES.names:
        expected = trace.dispatches[name].astype(object)
        actual = found[name].astype(object)
        assert (actual.isna() == expected.isna()).all(), name
        assert (actual.dropna() == expected.dropna()).all(), name


def test_the_rows_of_the_database_belong_together(trace, tmp_path):
    write_simulated_trace(trace, tmp_path / "run.db")
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        total = connection.execute('SELECT count(*), sum("end" - start) FROM rocpd_kernel_dispatch').fetchone()
        said = dict(connection.execute("SELECT tag, value FROM rocpd_metadata"))
        ends = connection.execute('SELECT max("end") FROM rocpd_info_process').fetchone()
    duration_ns = trace.dispatches["end_ns"] - trace.dispatches["start_ns"]
    assert total == (len(trace.dispatches), int(duration_ns.sum()))
    assert "rocktools_simulated" in said
    assert ends[0] > trace.dispatches["end_ns"].max()


def test_calls_are_those_of_the_launches(tmp_path):
    trace = simulate(build_tiny(), replace(SCENARIO, has_host_calls=True))
    write_simulated_trace(trace, tmp_path / "run.db")
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection:
        calls = connection.execute('SELECT id, "end" FROM rocpd_region ORDER BY id').fetchall()
    truth = trace.truth.sort_values("dispatch_id")
    assert calls == list(zip(truth["dispatch_id"].tolist(), truth["launch_ns"].tolist(), strict=True))


def test_the_truth_is_written_only_where_it_is_asked_for(trace, tmp_path):
    write_simulated_trace(trace, tmp_path / "hidden.db")
    assert [path.name for path in tmp_path.iterdir()] == ["hidden.db"]
    write_simulated_trace(trace, tmp_path / "run.db", truth_path=tmp_path / "truth.csv")
    truth = pd.read_csv(tmp_path / "truth.csv")
    assert truth["dispatch_id"].tolist() == trace.dispatches["dispatch_id"].tolist()
    assert truth["instruction"].isna().sum() == trace.truth["instruction"].isna().sum()
    with pytest.raises(UsageError, match="not overwritten"):
        write_simulated_trace(trace, tmp_path / "third.db", truth_path=tmp_path / "truth.csv")
    assert not (tmp_path / "third.db").exists()


def test_two_seeds_are_two_processes_and_options_are_heeded(trace, tmp_path):
    other = simulate(build_tiny(), replace(SCENARIO, seed=4))
    assert set(other.dispatches["process"]) != set(trace.dispatches["process"])
    write_simulated_trace(trace, tmp_path / "run.db", options=WriterOptions(has_views=False))
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'kernels'").fetchone() == (0,)
