"""Runs whose kernels were replayed in place: their JSON is read like the database of any counter pass."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from command_line import CommandLine
from rocpd_files import rules, write_counter_pass, write_small_trace
from standins.install import APP, STATE, install_standins

from rocktools.cli.main import main
from rocktools.errors import NothingToRead
from rocktools.frames import SPECS, require_frame
from rocktools.rundir import read_pass_records
from rocktools.sources.rocprofv3_json import JsonCounters, read_counter_json
from rocktools.workspace.inventory import take_inventory
from rocktools.workspace.workspace import READ_FRAMES, Workspace

COUNTERS = "SQ_WAVES,TCC_HIT_sum,TCC_MISS_sum,TCC_EA0_RDREQ_sum,TCC_EA0_WRREQ_sum,TCC_REQ_sum,TCC_READ_sum"
REPLAYED = ("COUNTED_DISPATCHES", "COUNTER_VALUES", "AGENTS", "PROCESSES")


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory that `rocktools pmc --passes-in-process` made with the stand-ins."""
    place = tmp_path_factory.mktemp("replay")
    tools = install_standins(place / "bin", version="1.4.1")
    (place / "state").mkdir()
    chosen = ["--kernel", "loop_fusion_3", "--counters", COUNTERS, "--passes-in-process"]
    options = ["--force", "-o", str(place / "run"), "--env", "XLA_PYTHON_CLIENT_PREALLOCATE=false"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
        patch.setenv(STATE, str(place / "state"))
        assert main(["pmc", *options, *chosen, "--", sys.executable, str(APP)]) == 0
    return place / "run"


@pytest.fixture
def replay(captured: Path, tmp_path: Path) -> Path:
    """A copy of the run to change."""
    return Path(shutil.copytree(captured, tmp_path / "run"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


def json_of(replay: Path) -> Path:
    [path] = (replay / "pmc").rglob("*_results.json")
    return path


def read(replay: Path) -> JsonCounters:
    return read_counter_json(json_of(replay), run="run", pass_label="counters_replay")


def change_record(replay: Path, **members: object) -> None:
    [path] = (replay / "passes").glob("*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


def as_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with labels as plain strings: how categories are numbered is no part of a contract."""
    return frame.astype({name: "object" for name in frame if isinstance(frame[name].dtype, pd.CategoricalDtype)})


def test_frames_are_those_of_the_json_and_others_have_no_rows(replay: Path) -> None:
    expected = read(replay)
    with Workspace.open([replay]) as workspace:
        built = {name: require_frame(workspace.frame(name), SPECS[name]) for name in READ_FRAMES}
        assert workspace.findings == []
    assert {name for name, frame in built.items() if len(frame)} == set(REPLAYED)
    whole = (expected.counted, expected.values, expected.agents, expected.processes)
    for name, frame in zip(REPLAYED, whole, strict=True):
        pd.testing.assert_frame_equal(as_labels(built[name]), as_labels(frame))
        ordered = as_labels(frame).sort_values(list(SPECS[name].sort), kind="stable")
        assert list(ordered.index) == list(range(len(frame)))
    assert set(built["COUNTER_VALUES"]["counter"]) == set(COUNTERS.split(","))
    assert sorted(set(built["COUNTER_VALUES"]["replay_pass"])) == [0, 1]


@pytest.mark.parametrize("argument", ["", "pmc", "pmc/*/*.json", "**/*", ".."])
def test_replay_is_found_however_the_run_is_named(replay: Path, argument: str) -> None:
    with Workspace.open([f"{replay}/{argument}"]) as workspace:
        assert len(workspace.counter_values()) == 84
        assert set(workspace.processes()["run"]) == {"run"}
        assert workspace.findings == []


def test_columns_can_be_chosen(replay: Path) -> None:
    with Workspace.open([replay]) as workspace:
        chosen = workspace.frame("COUNTED_DISPATCHES", ["lds_bytes"])
        pd.testing.assert_frame_equal(chosen, workspace.counted_dispatches()[list(chosen.columns)])
        assert len(workspace.require_counted_dispatches()) == 24
        with pytest.raises(NothingToRead, match=r"no traced dispatch in 1 process \(counter passes among them: 1"):
            workspace.require_dispatches()


def test_commands_read_a_replay(replay: Path, run: CommandLine) -> None:
    values = run.rows("frame", "COUNTER_VALUES", replay)
    assert [row["sum_value"] for row in values] == list(read(replay).values["sum_value"])
    ran = run("info", replay)
    assert (ran.code, ran.err) == (0, "")
    [process] = run.rows("info", replay, "--part", "processes")
    assert (process["content"], process["path"]) == ("counters", str(json_of(replay)))
    assert len(run.rows("dispatches", "--counted", replay)) == 24


def test_inventory_counts_dispatches_and_stored_values(replay: Path) -> None:
    expected = read(replay)
    with Workspace.open([replay]) as workspace:
        inventory = take_inventory(workspace)
    [content] = inventory.contents.to_dict("records")
    assert (content["subject"], content["rows_count"]) == ("kernel dispatches", 24)
    assert content["start_ns"] == expected.counted["pass_start_ns"].min()
    assert content["end_ns"] == expected.counted["pass_end_ns"].max()
    assert inventory.devices["dispatches_count"].sum() == 24
    stored = expected.values.groupby("counter", observed=True)["instances_count"].sum()
    assert inventory.counters.set_index("counter")["rows_count"].to_dict() == stored.to_dict()
    assert inventory.is_trustworthy


def test_rows_of_replays_and_of_databases_are_in_one_order(replay: Path, tmp_path: Path) -> None:
    for folder in ("a", "z"):
        (tmp_path / folder).mkdir()
        write_counter_pass(tmp_path / folder / "1.db")
        write_small_trace(tmp_path / folder / "2.db")
    with Workspace.open([tmp_path / "z", replay, tmp_path / "a"]) as workspace:
        assert list(dict.fromkeys(workspace.counted_dispatches()["run"])) == ["a", "run", "z"]
        assert list(dict.fromkeys(workspace.processes()["run"])) == ["a", "run", "z"]
        assert len(workspace.dispatches()) == 2 * 5
        assert len(take_inventory(workspace).processes) == 5


# What is not read


def test_replay_that_failed_is_left_out_unless_it_is_named(replay: Path) -> None:
    change_record(replay, is_verified=False)
    with pytest.raises(NothingToRead, match="nothing-verified"):
        Workspace.open([replay])
    with Workspace.open([json_of(replay)]) as workspace:
        assert len(workspace.counter_values()) == 84
        assert rules(workspace.findings) == ["pass-not-verified"]


def test_replay_whose_capture_was_killed_is_left_out(replay: Path) -> None:
    shutil.rmtree(replay / "passes")
    with pytest.raises(NothingToRead, match="nothing-verified"):
        Workspace.open([replay])


def test_databases_of_a_replay_stay_unread(replay: Path) -> None:
    """Those of the first releases add the passes up."""
    write_counter_pass(json_of(replay).with_suffix(".db"))
    for argument in (replay, replay / "pmc", f"{replay}/**/*"):
        with Workspace.open([argument]) as workspace:
            assert len(workspace.processes()) == 1
            assert workspace.findings == []


def test_json_that_no_replay_left_is_not_looked_at(replay: Path, tmp_path: Path) -> None:
    write_small_trace(tmp_path / "out.db")
    (tmp_path / "1_results.json").write_text("{}")
    (replay / "logs/1_results.json").write_text("{}")
    with Workspace.open([tmp_path]) as workspace:
        assert len(workspace.processes()) == 2
        assert workspace.findings == []


def test_replay_that_broke_after_it_was_verified_is_a_fault(replay: Path, tmp_path: Path) -> None:
    write_small_trace(tmp_path / "out.db")
    json_of(replay).write_text("{")
    with Workspace.open([tmp_path]) as workspace:
        assert len(workspace.processes()) == 1
        assert rules(workspace.findings) == ["rocprofv3-json-damaged"]


# Several


def test_copy_of_a_run_is_counted_once(replay: Path, tmp_path: Path) -> None:
    shutil.copytree(replay, tmp_path / "copy")
    with Workspace.open([tmp_path]) as workspace:
        assert len(workspace.processes()) == 1
        assert rules(workspace.findings) == ["process-twice"]


def test_other_process_of_the_same_label_gets_another_one(replay: Path, tmp_path: Path) -> None:
    path = json_of(Path(shutil.copytree(replay, tmp_path / "other")))
    first = str(read(replay).counted["pass_start_ns"].min())
    path.write_text(path.read_text().replace(first, str(int(first) - 7)))
    with Workspace.open([tmp_path]) as workspace:
        assert workspace.findings == []
        labels = sorted(workspace.processes()["process"])
        assert labels[1] == f"{labels[0]}#2"
        assert sorted(set(workspace.counter_values()["process"])) == labels
        assert workspace.counted_dispatches().groupby("process", observed=True).size().tolist() == [24, 24]


def test_record_of_the_capture_names_the_file(replay: Path) -> None:
    [record] = read_pass_records(replay)
    assert (record.kind, record.is_verified) == ("replay", True)
    assert [database.path for database in record.databases] == [json_of(replay).relative_to(replay).as_posix()]
