"""Many files as one: each row once, under its own labels, and what cannot be read is named."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rocpd_files import BOOT_NS, drop_views, edit, merge_databases, rules, write_counter_pass, write_small_trace

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.errors import DamagedFile, InputError, NothingToRead, UnknownFormat, UsageError
from rocktools.findings import Severity, has_fault
from rocktools.frames import SPECS, require_frame
from rocktools.sources.rocpd.opening import ReadableDatabase
from rocktools.workspace.workspace import READ_FRAMES, Workspace

TIMED = ("DISPATCHES", "COUNTED_DISPATCHES")


def write_trace_of(path: Path, *kernels: str, starts_ns: int = BOOT_NS) -> Path:
    """A trace of one dispatch of 10 ns for each kernel name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with RocpdWriter(path, options=WriterOptions(has_views=False)) as writer:
        for number, name in enumerate(kernels):
            start_ns = starts_ns + 100 * number
            writer.dispatch(writer.kernel_symbol(name), start_ns, start_ns + 10)
    return path


def damage_table(path: Path, base: str) -> Path:
    """Overwrite the root page of a table with nonsense: the file opens, and the table cannot be read."""
    connection = sqlite3.connect(path)
    query = f"SELECT rootpage FROM sqlite_master WHERE name LIKE 'rocpd_{base}_%' AND type = 'table'"
    [(root,)] = connection.execute(query).fetchall()
    connection.close()
    whole = bytearray(path.read_bytes())
    whole[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    path.write_bytes(whole)
    return path


def all_frames(workspace: Workspace) -> dict[str, pd.DataFrame]:
    return {name: workspace.frame(name) for name in READ_FRAMES}


def names_in(frame: pd.DataFrame) -> list[str]:
    return list(frame["kernel_name"])


# One file


def test_every_frame_of_a_trace_keeps_its_contract_and_its_order(tmp_path: Path) -> None:
    with Workspace.open([write_small_trace(tmp_path / "t.db")]) as workspace:
        sizes = {}
        for name, frame in all_frames(workspace).items():
            spec = SPECS[name]
            require_frame(frame, spec)
            assert not frame.duplicated(list(spec.key)).any()
            ordered = frame.astype(dict.fromkeys(spec.key[:2], "object")).sort_values(list(spec.sort), kind="stable")
            assert list(ordered.index) == list(range(len(frame)))
            sizes[name] = len(frame)
        assert workspace.findings == []
        assert workspace.is_simulated
    assert sizes == {
        "DISPATCHES": 5,
        "COUNTED_DISPATCHES": 0,
        "COUNTER_VALUES": 0,
        "HOST_CALLS": 2,
        "RANGES": 2,
        "COPIES": 2,
        "ALLOCATIONS": 2,
        "SAMPLES": 0,
        "AGENTS": 2,
        "PROCESSES": 1,
        "KERNEL_SYMBOLS": 2,
        "DEVICE_EVENTS": 0,
        "HOST_EVENTS": 0,
        "PROFILED_DEVICES": 0,
    }


@pytest.mark.parametrize("accelerate", [False, None])
@pytest.mark.parametrize("version", ["3", "3.0.5"])
def test_tables_without_rows_give_frames_without_rows(tmp_path: Path, version: str, accelerate: bool | None) -> None:
    options = WriterOptions(version=version, has_replay_pass=True)
    with RocpdWriter(tmp_path / "t.db", options=options) as writer:
        writer.node()
    with Workspace.open([tmp_path / "t.db"], accelerate=accelerate) as workspace:
        sizes = {name: len(require_frame(frame, SPECS[name])) for name, frame in all_frames(workspace).items()}
        assert {name: size for name, size in sizes.items() if size} == {"PROCESSES": 1}
        assert "nothing-recorded" in rules(workspace.check_health())


@pytest.mark.parametrize("accelerate", [False, None])
def test_frames_are_equal_with_and_without_the_accelerator(tmp_path: Path, accelerate: bool | None) -> None:
    paths = [write_small_trace(tmp_path / "t.db"), write_counter_pass(tmp_path / "c.db")]
    with Workspace.open(paths, accelerate=accelerate) as one, Workspace.open(paths, accelerate=False) as other:
        for name, frame in all_frames(one).items():
            pd.testing.assert_frame_equal(frame, other.frame(name))


def test_frames_are_built_once_and_outlive_the_files(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db")
    with Workspace.open([path]) as workspace:
        whole, few = workspace.dispatches(), workspace.dispatches(["end_ns", "start_ns"])
        assert workspace.dispatches() is whole
        assert workspace.dispatches(["start_ns", "end_ns"]) is few
        assert workspace.dispatches(SPECS["DISPATCHES"].names) is whole
    path.unlink()
    assert names_in(whole).count("loop_fusion_3") == 3
    assert workspace.dispatches() is whole


def test_unknown_column_is_a_usage_error(tmp_path: Path) -> None:
    with Workspace.open([write_small_trace(tmp_path / "t.db")]) as workspace, pytest.raises(UsageError):
        workspace.dispatches(["duration"])


def test_files_are_not_changed_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db")
    before = path.read_bytes(), path.stat().st_mtime_ns
    with Workspace.open([path]) as workspace:
        all_frames(workspace)
        workspace.check_health()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [each.name for each in tmp_path.iterdir()] == ["t.db"]


# Traces and counter passes


def test_trace_and_counter_pass_never_meet_in_one_frame(tmp_path: Path) -> None:
    write_trace_of(tmp_path / "run/trace/1.db", "a")
    for group in ("mem", "sq"):
        (tmp_path / f"run/pmc/{group}").mkdir(parents=True)
        write_counter_pass(tmp_path / f"run/pmc/{group}/1.db")
    with Workspace.open([tmp_path / "run"]) as workspace:
        assert names_in(workspace.dispatches()) == ["a"]
        assert set(names_in(workspace.counted_dispatches())) == {"loop_fusion_3"}
        assert "start_ns" not in workspace.counted_dispatches().columns
        assert sorted(set(workspace.counted_dispatches()["pass"])) == ["mem", "sq"]
        assert sorted(set(workspace.counter_values()["pass"])) == ["mem", "sq"]
        assert len(workspace.counter_values()) == 2 * 6
        assert sorted(workspace.processes()["content"]) == ["counters", "counters", "trace"]
        assert set(workspace.processes()["run"]) == {"run"}
        traced, counted = (set(workspace.frame(name)["process"]) for name in TIMED)
        assert not traced & counted


def test_pass_whose_counters_failed_gives_no_times(tmp_path: Path) -> None:
    path = edit(write_counter_pass(tmp_path / "c.db"), "DELETE FROM rocpd_pmc_event{_}")
    with Workspace.open([path]) as workspace:
        assert workspace.dispatches().empty
        assert len(workspace.counted_dispatches()) == 2
        assert workspace.counter_values().empty
        assert "no-counter-values" in rules(workspace.check_health())
        with pytest.raises(NothingToRead) as caught:
            workspace.require_dispatches()
        assert "counter passes among them: 1" in caught.value.what


def test_passes_of_rocprofv3_are_named_by_their_folders(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"out/pass_{number}/host").mkdir(parents=True)
        write_counter_pass(tmp_path / f"out/pass_{number}/host/7_results.db")
    with Workspace.open([tmp_path / "out"]) as workspace:
        values = workspace.counter_values()
        assert sorted(set(values["pass"])) == ["pass_1", "pass_2"]
        assert not values.duplicated(list(SPECS["COUNTER_VALUES"].key)).any()


def test_trace_has_no_counted_dispatch_to_require(tmp_path: Path) -> None:
    with Workspace.open([write_small_trace(tmp_path / "t.db")]) as workspace:
        assert len(workspace.require_dispatches(["start_ns"])) == 5
        with pytest.raises(NothingToRead):
            workspace.require_counted_dispatches()


# Many files


def test_names_of_many_files_become_one_set_of_categories(tmp_path: Path) -> None:
    for number in range(5):
        write_trace_of(tmp_path / f"run/rank_{number}/t.db", f"own_{number}", "shared_kernel")
    with Workspace.open([tmp_path / "run"]) as workspace:
        found = workspace.dispatches()
        assert sorted(found["kernel_name"].cat.categories) == [
            *(f"own_{number}" for number in range(5)),
            "shared_kernel",
        ]
        by_process = {label: names_in(rows) for label, rows in found.groupby("process", observed=True)}
        assert sorted(by_process.values()) == [[f"own_{number}", "shared_kernel"] for number in range(5)]
        ranks = dict(zip(workspace.processes()["process"], workspace.processes()["rank"].tolist(), strict=True))
        assert {ranks[label]: names[0] for label, names in by_process.items()} == {
            number: f"own_{number}" for number in range(5)
        }


def test_runs_keep_apart(tmp_path: Path) -> None:
    write_trace_of(tmp_path / "base/t.db", "a")
    write_trace_of(tmp_path / "fast/t.db", "b")
    with Workspace.open([tmp_path / "fast", tmp_path / "base"]) as workspace:
        found = workspace.dispatches(["kernel_name"])
        assert list(zip(found["run"], found["kernel_name"], strict=True)) == [("base", "a"), ("fast", "b")]


def test_versions_may_be_mixed(tmp_path: Path) -> None:
    paths = [
        write_small_trace(tmp_path / f"{version}.db", WriterOptions(version=version)) for version in ("3", "3.0.5")
    ]
    with Workspace.open(paths) as workspace:
        assert len(workspace.dispatches()) == 10
        assert sorted(workspace.processes()["schema_version"]) == ["3", "3.0.5"]


def test_merged_database_is_read_process_by_process(tmp_path: Path) -> None:
    """Its two processes have the same ids, which rs#2418 had to renumber."""
    parts = [write_small_trace(tmp_path / "a.db"), write_small_trace(tmp_path / "b.db")]
    merged = merge_databases(parts, tmp_path / "merged.db")
    with Workspace.open([merged]) as workspace:
        found = workspace.dispatches()
        assert len(found) == 10
        assert found["process"].nunique() == 2
        assert not found.duplicated(["process", "dispatch_id"]).any()
        assert names_in(found).count("loop_fusion_3") == 6


def test_process_that_is_in_two_files_is_counted_once(tmp_path: Path) -> None:
    parts = [write_small_trace(tmp_path / "a.db"), write_small_trace(tmp_path / "b.db")]
    merged = merge_databases(parts, tmp_path / "z_merged.db")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/a.db").write_bytes(parts[0].read_bytes())
    with Workspace.open([tmp_path]) as workspace:
        assert len(workspace.dispatches()) == 10
        twice = [finding for finding in workspace.findings if finding.rule == "process-twice"]
        assert {finding.where for finding in twice} <= {str(each) for each in (merged, tmp_path / "copy/a.db", *parts)}
        assert len(twice) == 3
        assert {finding.severity for finding in twice} == {Severity.WARNING}


def test_two_processes_of_one_label_are_both_counted_when_their_rows_differ(tmp_path: Path) -> None:
    """rocprof-sys makes the label from process ids, which two runs in containers share."""
    first = write_trace_of(tmp_path / "t.db", "a", "b")
    first = first.rename(tmp_path / "first.db")
    second = write_trace_of(tmp_path / "t.db", "a", "b", "c", starts_ns=BOOT_NS + 10**12)
    with Workspace.open([first, second]) as workspace:
        found = workspace.dispatches()
        assert len(found) == 5
        assert found["process"].nunique() == 2
        [finding] = workspace.findings
        assert (finding.rule, finding.severity) == ("process-label-twice", Severity.WARNING)
        assert finding.message.endswith("#2")
        assert len(workspace.agents()) == 4


# Broken files among good ones


def write_good_and_broken(root: Path) -> dict[str, str]:
    """Two good files and one of each kind of broken ones; the rule that each of these gives, by name."""
    write_trace_of(root / "good_1.db", "a")
    write_trace_of(root / "good_2.db", "b")
    (root / "empty.db").touch()
    (root / "text.db").write_text("not a database")
    whole = write_small_trace(root / "cut.db").read_bytes()
    (root / "cut.db").write_bytes(whole[: len(whole) // 2])
    edit(
        write_small_trace(root / "next.db"), "UPDATE rocpd_metadata{_} SET value = '4.1.0' WHERE tag = 'schema_version'"
    )
    connection = sqlite3.connect(root / "bare.db")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    return {
        "empty.db": "rocpd-empty",
        "text.db": "not-sqlite",
        "cut.db": "rocpd-truncated",
        "next.db": "rocpd-version",
        "bare.db": "rocpd-no-tables",
    }


def test_broken_files_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    expected = write_good_and_broken(tmp_path)
    with Workspace.open([tmp_path]) as workspace:
        assert sorted(names_in(workspace.dispatches())) == ["a", "b"]
        found = {Path(finding.where).name: finding for finding in workspace.findings}
    assert {name: finding.rule for name, finding in found.items()} == expected
    assert all(finding.message.startswith("left out: ") for finding in found.values())
    severities = {name: finding.severity for name, finding in found.items()}
    assert severities.pop("text.db") is Severity.NOTE, "somebody else's file in a folder is no fault"
    assert set(severities.values()) == {Severity.FAULT}


def test_broken_file_that_was_named_is_a_fault_whatever_it_is(tmp_path: Path) -> None:
    write_good_and_broken(tmp_path)
    with Workspace.open([tmp_path / "good_1.db", tmp_path / "text.db"]) as workspace:
        [finding] = workspace.findings
        assert (finding.rule, finding.severity) == ("not-sqlite", Severity.FAULT)


def test_only_broken_files_are_an_error_that_lists_them(tmp_path: Path) -> None:
    expected = write_good_and_broken(tmp_path)
    for number in (1, 2):
        (tmp_path / f"good_{number}.db").unlink()
    with pytest.raises(InputError) as caught:
        Workspace.open([tmp_path])
    assert caught.value.what.startswith("none of the 5 files can be read:")
    for name in expected:
        assert str(tmp_path / name) in caught.value.what


def test_long_list_of_broken_files_is_cut_with_a_count(tmp_path: Path) -> None:
    for number in range(25):
        (tmp_path / f"{number}.db").touch()
    with pytest.raises(InputError) as caught:
        Workspace.open([tmp_path])
    assert caught.value.what.count(".db") == 10
    assert caught.value.what.endswith("and 15 more")


def test_single_broken_file_gives_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "t.db").write_text("text")
    with pytest.raises(UnknownFormat):
        Workspace.open([tmp_path / "t.db"])


def test_no_argument_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        Workspace.open([])


def test_damage_that_shows_late_costs_only_its_own_file(tmp_path: Path) -> None:
    write_trace_of(tmp_path / "good.db", "a")
    damage_table(drop_views(write_small_trace(tmp_path / "torn.db")), "region")
    with Workspace.open([tmp_path]) as workspace:
        assert len(workspace.dispatches(["start_ns"])) == 6
        assert not has_fault(workspace.findings)
        assert workspace.host_calls().empty
        assert has_fault(workspace.findings)
        [fault] = workspace.findings
        assert fault.rule == "rocpd-malformed"
        assert str(tmp_path / "torn.db") in fault.where
        assert "rocpd-malformed" in rules(workspace.check_health())
        assert len(workspace.processes()) == 2


def test_damage_that_shows_late_in_the_only_file_is_an_error(tmp_path: Path) -> None:
    path = damage_table(drop_views(write_small_trace(tmp_path / "torn.db")), "region")
    with Workspace.open([path]) as workspace:
        assert len(workspace.copies()) == 2
        with pytest.raises(DamagedFile) as caught:
            workspace.host_calls()
        assert caught.value.reference == "rocpd-malformed"


def test_file_that_lacks_a_column_costs_only_itself(tmp_path: Path) -> None:
    write_trace_of(tmp_path / "good.db", "a")
    odd = drop_views(write_small_trace(tmp_path / "odd.db"))
    edit(odd, "ALTER TABLE rocpd_kernel_dispatch{_} RENAME COLUMN start TO begin")
    with Workspace.open([tmp_path]) as workspace:
        assert names_in(workspace.dispatches()) == ["a"]
        assert rules(workspace.findings) == ["rocpd-columns"]


def test_private_copies_are_removed_when_the_workspace_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    path = write_small_trace(tmp_path / "t.db")
    path.with_name("t.db-wal").write_bytes(b"\x00" * 32)
    with Workspace.open([path]) as workspace:
        assert rules(workspace.findings) == ["rocpd-write-ahead-log"]
        assert len(list((tmp_path / "temporary").iterdir())) == 1
        assert len(workspace.dispatches()) == 5
    assert list((tmp_path / "temporary").iterdir()) == []
    path.unlink()
    path.with_name("t.db-wal").unlink()
    (tmp_path / "none.db").touch()
    with pytest.raises(InputError):
        Workspace.open([tmp_path / "none.db"])
    assert list((tmp_path / "temporary").iterdir()) == []


def test_findings_are_given_once_however_often_a_table_is_read(tmp_path: Path) -> None:
    path = edit(write_small_trace(tmp_path / "t.db"), "UPDATE rocpd_kernel_dispatch{_} SET start = 0.5 WHERE id = 1")
    with Workspace.open([path], accelerate=False) as workspace:
        for columns in (None, ["start_ns"], ["kernel_name"]):
            assert len(workspace.dispatches(columns)) == 4
        assert sorted(rules(workspace.findings)) == ["integer-lost-digits", "rows-without-times-or-ids"]


_FEW_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from rocktools.workspace.workspace import READ_FRAMES, Workspace
with Workspace.open([sys.argv[1]]) as workspace:
    print(len(workspace.dispatches(["kernel_name"])), len(workspace.processes()), len(workspace.findings))
"""


def test_three_hundred_files_need_no_three_hundred_handles(tmp_path: Path) -> None:
    first = write_trace_of(tmp_path / "run/0.db", "a", "b").read_bytes()
    suffix = next(iter(_tables(tmp_path / "run/0.db")))[0].removeprefix("rocpd_metadata")
    for number in range(1, 300):
        label = f"_{number:08d}".encode() + suffix[9:].encode()
        (tmp_path / f"run/{number}.db").write_bytes(first.replace(suffix.encode(), label))
    ran = subprocess.run(
        [sys.executable, "-c", _FEW_FILES, str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    assert ran.stdout.split() == ["600", "300", "0"]


def _tables(path: Path) -> list[tuple[str]]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_metadata_%'").fetchall()
    connection.close()
    return rows


# The environment of the job


def test_environment_is_in_no_frame_and_no_finding_and_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_small_trace(tmp_path / "t.db")
    edit(path, """UPDATE rocpd_info_process{_} SET environment = '{"TOKEN": "hunter2"}'""")
    read: list[tuple[Any, ...]] = []
    asked: list[str] = []
    connect = ReadableDatabase.connect

    def watch(database: ReadableDatabase) -> sqlite3.Connection:
        connection = connect(database)
        connection.set_trace_callback(asked.append)

        def authorize(action: int, first: str | None, second: str | None, *_: object) -> int:
            if action == sqlite3.SQLITE_READ and second == "environment":
                read.append((first, second))
            return sqlite3.SQLITE_OK

        connection.set_authorizer(authorize)
        return connection

    monkeypatch.setattr(ReadableDatabase, "connect", watch)
    with Workspace.open([path], accelerate=False) as workspace:
        built = all_frames(workspace)
        assert read == [], "no frame reads it"
        health = workspace.check_health()
        documents = [frame.to_json() for frame in built.values()] + [str(workspace.findings), str(health)]
        documents.append(json.dumps([finding.as_dict() for finding in health]))
    assert "environment-inside" in rules(health)
    assert not any("hunter2" in text for text in documents)
    assert len({table for table, _ in read}) == 1, "one check asks for its length and counts its variables"
    measured = re.compile(r"(?:length|json_valid|json_type|count\(\*\) FROM json_each)\(environment\)")
    questions = [sql for sql in asked if "environment" in sql]
    assert len(questions) == 2
    assert [sql for sql in questions if "environment" in measured.sub("", sql)] == []


# The real files


def test_real_files_together(shared: Path) -> None:
    with Workspace.open([shared / "data/rocpd"]) as workspace:
        found = workspace.dispatches()
        assert found.groupby("process", observed=True).size().sum() == 11 + 1 + 2
        assert found["process"].nunique() == 3
        for name, frame in all_frames(workspace).items():
            require_frame(frame, SPECS[name])
        assert sorted(rules(workspace.findings)) == [
            "not-rocpd-rocprof-compute",
            "not-rocpd-rocprof-v1",
            "not-rocpd-rpd",
        ]
        assert not has_fault(workspace.findings)
        assert not workspace.is_simulated
