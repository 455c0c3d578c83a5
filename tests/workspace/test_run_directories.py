"""What may be read of a run directory does not depend on how its files were named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rocpd_files import write_small_trace

from rocktools.errors import DamagedFile, NothingToRead
from rocktools.findings import Severity
from rocktools.rundir import DatabaseRecord, Manifest, PassRecord, write_manifest, write_pass_record
from rocktools.workspace.paths import find_sources
from rocktools.workspace.run_directories import RunDirectories, folders_below
from rocktools.workspace.workspace import Workspace


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def write_plan(run: Path) -> Path:
    run.mkdir(parents=True, exist_ok=True)
    (run / "plan.json").write_text(json.dumps({"schema": "rocktools.plan/1", "passes": []}))
    return run


def write_attempt(run: Path, name: str, attempt: int, *, is_verified: bool) -> Path:
    """One attempt at a pass with an empty database, and its record."""
    folder = f"{name}/attempt_{attempt}" if attempt > 1 else name
    path = touch(run / folder / "host" / f"{attempt}_results.db")
    database = DatabaseRecord(
        path=path.relative_to(run).as_posix(),
        sha256="",
        size_bytes=0,
        processes=(),
        schema_version=None,
        dispatches_count=0,
    )
    record = PassRecord(
        name=name,
        kind="trace" if name == "trace" else "counters",
        attempt=attempt,
        folder=folder,
        argv=(),
        databases=(database,),
        is_verified=is_verified,
    )
    write_pass_record(run, record)
    return path


def write_run(run: Path) -> Path:
    """A run whose first attempt failed and whose second one is good."""
    write_plan(run)
    write_attempt(run, "trace", 1, is_verified=False)
    write_attempt(run, "trace", 2, is_verified=True)
    return run


def found(*arguments: Path | str) -> list[tuple[str, str, bool]]:
    """(file name, run label, whether it is left out) of what is found, by name."""
    sources = find_sources(arguments)
    return sorted((each.path.name, each.run, each.is_unverified and not each.is_named) for each in sources)


@pytest.mark.parametrize(
    "argument", ["run", "run/trace", "run/trace/**/*.db", "run/**/*.db", "run/tr*", "r*", "*/trace", ".", "run/../run"]
)
def test_failed_attempt_is_left_out_however_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    write_run(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert found(argument) == [("1_results.db", "run", True), ("2_results.db", "run", False)]
    assert found(tmp_path / argument) == found(argument)


def test_every_run_of_a_folder_has_its_own_records_and_label(tmp_path: Path) -> None:
    for name in ("base", "fast"):
        write_run(tmp_path / "runs" / name)
    touch(tmp_path / "runs/somebody.db")
    expected = [
        *(("1_results.db", name, True) for name in ("base", "fast")),
        *(("2_results.db", name, False) for name in ("base", "fast")),
        ("somebody.db", "runs", False),
    ]
    assert found(tmp_path / "runs") == expected
    assert found(tmp_path / "runs/*", tmp_path / "runs/somebody.db")[:4] == expected[:4]


def test_file_of_a_failed_attempt_that_was_named_is_read_and_known_as_such(tmp_path: Path) -> None:
    path = tmp_path / "run/trace/host/1_results.db"
    write_run(tmp_path / "run")
    for arguments in ([path], [tmp_path / "run", path], [path, tmp_path / "run"]):
        [each] = [each for each in find_sources(arguments) if each.path.name == path.name]
        assert (each.is_named, each.is_unverified, each.run) == (True, True, "run")


def test_links_into_a_run_and_out_of_it_belong_to_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/a.db").symlink_to(run / "trace/host/1_results.db")
    assert found(tmp_path / "links") == [("a.db", "run", True)]
    (run / "trace").rename(tmp_path / "store")
    (run / "trace").symlink_to(tmp_path / "store")
    assert found(run / "trace/*/*.db", run / "trace/*/*/*.db") == [
        ("1_results.db", "run", True),
        ("2_results.db", "run", False),
    ]


# Captures that were killed


@pytest.mark.parametrize("argument", ["run", "run/trace", "run/**/*.db", "."])
def test_capture_that_was_killed_in_its_first_pass_has_nothing_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    touch(write_plan(tmp_path / "run") / "trace/host/1_results.db")
    monkeypatch.chdir(tmp_path)
    assert found(argument) == [("1_results.db", "run", True)]


# What is no run directory of ours


def test_plans_manifests_and_passes_of_others_mean_nothing(tmp_path: Path) -> None:
    (tmp_path / "out/passes").mkdir(parents=True)
    for name in ("plan.json", "manifest.json", "passes/1.json"):
        (tmp_path / "out" / name).write_text('{"schema": "somebody/1"}')
    (tmp_path / "out/passes/2.json").write_text("[")
    touch(tmp_path / "out/trace/1_results.db")
    touch(tmp_path / "out/replays/2_results.db")
    assert found(tmp_path / "out") == [("1_results.db", "out", False), ("2_results.db", "out", False)]
    assert found(tmp_path / "out/trace") == [("1_results.db", "trace", False)]


def test_simulated_run_has_no_passes_that_could_fail(tmp_path: Path) -> None:
    touch(tmp_path / "run/trace/1_results.db")
    write_manifest(tmp_path / "run", Manifest(argv=(), created_utc="", is_simulated=True))
    assert found(tmp_path / "run/trace") == [("1_results.db", "run", False)]


def test_damaged_record_beside_a_plan_is_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "passes/trace.3.json").write_text("{")
    with pytest.raises(DamagedFile):
        find_sources([run / "trace"])


def test_documents_that_a_pattern_fits_are_no_databases(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert found(f"{run}/**") == found(run)
    with pytest.raises(NothingToRead):
        find_sources([f"{run}/*.json"])


# Replays


def write_run_with_replays(run: Path) -> Path:
    """A run with a replay that is a run directory, and one of bare files."""
    write_run(run)
    write_attempt(write_plan(run / "replays/fusion_3"), "pmc/mem_1", 3, is_verified=True)
    touch(run / "replays/fusion_4/pmc/mem_1/4_results.db")
    return run


@pytest.mark.parametrize("argument", ["run", "run/**/*.db", "run/*", ".", "*", "**/*.db"])
def test_replays_are_no_part_of_what_lies_around_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    write_run_with_replays(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert [name for name, _, _ in found(argument)] == ["1_results.db", "2_results.db"]


@pytest.mark.parametrize("argument", ["run/replays", "run/replays/*", "run/replays/**/*.db"])
def test_replays_that_were_named_are_runs_of_their_own(tmp_path: Path, argument: str) -> None:
    write_run_with_replays(tmp_path / "run")
    assert found(tmp_path / argument) == [("3_results.db", "fusion_3", False), ("4_results.db", "fusion_4", False)]
    assert {each.pass_label for each in find_sources([tmp_path / argument])} == {"mem_1"}


# Below


def test_folders_below_are_those_between(tmp_path: Path) -> None:
    touch(tmp_path / "a/b/c.db")
    assert folders_below(tmp_path, tmp_path / "a/b/c.db") == ("a", "b")
    assert folders_below(tmp_path / "a/b/c.db", tmp_path / "a/b/c.db") == ()
    assert folders_below(tmp_path / "x", tmp_path / "a/b/c.db") == ()
    assert RunDirectories().find(tmp_path / "a/b/c.db") is None


# Through a workspace


def test_numbers_do_not_depend_on_how_a_run_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    failed, good = sorted((run / "trace").rglob("*.db"), key=lambda path: path.name)
    for path in (failed, good):
        path.unlink()
        write_small_trace(path)
    for argument in (run, run / "trace", f"{run}/trace/**/*.db", tmp_path):
        with Workspace.open([argument]) as workspace:
            assert len(workspace.dispatches()) == 5
            # The run of this test has no manifest, as one that was killed.
            finding, unfinished = sorted(workspace.findings, key=lambda one: one.rule != "pass-not-verified")
            assert (unfinished.rule, unfinished.where) == ("capture-unfinished", str(run))
            assert (finding.rule, finding.where) == ("pass-not-verified", str(failed))
            assert finding.message.startswith("left out: ")
    with Workspace.open([run, failed]) as workspace:
        assert len(workspace.dispatches()) == 10
        [finding] = [finding for finding in workspace.findings if finding.rule != "capture-unfinished"]
        assert (finding.rule, finding.severity) == ("pass-not-verified", Severity.WARNING)
        assert finding.message.startswith("read because it was named: ")
    good.unlink()
    with pytest.raises(NothingToRead, match="nothing-verified"):
        Workspace.open([run / "trace"])
