"""`rocktools rocpd recover|scrub`: a new file or none, the original untouched, and what was lost is told."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine
from rocpd_files import read_sql
from torn_files import leaves_of, look_of, tables_of, zero_pages

from rocktools.cli.main import main

SECRET = "hunter2-Zq7"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "new").mkdir()
    return tmp_path / "new" / "copy.db"


@pytest.mark.parametrize("action", ["recover", "scrub"])
@pytest.mark.parametrize("name", ["trace", "counters", "mixed", "minimal", "killed", "logged"])
def test_copy_is_read_as_the_original_is(databases, run: CommandLine, target: Path, action: str, name: str) -> None:
    source = getattr(databases, name)
    before = look_of(source.parent)
    ran = run("rocpd", action, source, "-o", target)
    assert ran.code == 0
    assert ran.out.startswith(f"{target}: ")
    assert look_of(source.parent) == before
    assert [path.name for path in target.parent.iterdir()] == ["copy.db"]
    counted = ["--counted"] if name == "counters" else []
    copied, original = (run.rows("dispatches", path, *counted) for path in (target, source))
    assert [{**row, "run": "", "pass": ""} for row in copied] == [{**row, "run": "", "pass": ""} for row in original]


def test_recovered_copy_says_so(databases, run: CommandLine, target: Path) -> None:
    ran = run("rocpd", "recover", databases.truncated, "-o", target)
    assert ran.code == 0
    assert "warning [rows-lost]" in ran.err
    assert str(databases.truncated) in ran.err
    for arguments in (["info"], ["kernels"], ["dispatches"], ["frame", "agents"]):
        ran = run(*arguments, target)
        assert ran.code == 0
        assert ran.err.count("warning [recovered-copy]") == 1, arguments
        assert "SIMULATED" in ran.out
    assert ("rocktools_recovered",) in read_sql(target, "SELECT tag FROM rocpd_metadata")


def test_every_table_that_lost_rows_is_named(databases, run: CommandLine, target: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(databases.trace.read_bytes())
    names = [name for name, rows in tables_of(damaged).items() if len(rows) > 100]
    assert len(names) > 2
    zero_pages(damaged, [list(leaves_of(damaged, name))[1] for name in names])
    ran = run("rocpd", "recover", damaged, "-o", target)
    assert ran.code == 0
    for name in names:
        left = len(tables_of(target)[name])
        assert f"table {name}: not all rows could be read; the copy has {left:,}" in ran.err
    assert ran.err.splitlines()[-1] == f"findings: {len(names)} warnings"
    assert f"rows in {len(tables_of(databases.trace))} tables" in ran.out


@pytest.mark.parametrize("action", ["recover", "scrub"])
def test_file_without_anything_to_save_leaves_no_copy(databases, run: CommandLine, target: Path, action: str) -> None:
    ran = run("rocpd", action, databases.empty, "-o", target)
    assert (ran.code, ran.out) == (1, "")
    assert "rocpd-empty" in ran.err
    assert list(target.parent.iterdir()) == []


def test_damaged_file_is_sent_from_scrub_to_recover(databases, run: CommandLine, target: Path) -> None:
    ran = run("rocpd", "scrub", databases.truncated, "-o", target)
    assert (ran.code, ran.out) == (1, "")
    assert f"rocktools rocpd recover {databases.truncated} -o" in ran.err
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("action", ["recover", "scrub"])
def test_folder_is_a_usage_error(databases, run: CommandLine, target: Path, action: str) -> None:
    ran = run("rocpd", action, databases.trace.parent, "-o", target)
    assert (ran.code, ran.out) == (2, "")
    assert "source-is-folder: a database file is needed" in ran.err
    assert f"rocktools info {databases.trace.parent} --part processes" in ran.err
    assert list(target.parent.iterdir()) == []


def test_killed_writer_is_told_when_scrubbing(databases, run: CommandLine, target: Path) -> None:
    ran = run("rocpd", "scrub", databases.killed, "-o", target)
    assert ran.code == 0
    assert "warning [rocpd-hot-journal]" in ran.err


@pytest.mark.parametrize("options", [[], ["--identity"]])
def test_secret_is_gone_and_info_no_longer_warns(databases, run: CommandLine, target: Path, options) -> None:
    assert SECRET.encode() in databases.mixed.read_bytes()
    assert run("rocpd", "scrub", databases.mixed, "-o", target, *options).code == 0
    assert SECRET.encode() not in target.read_bytes()
    assert "environment-inside" not in run("info", target).err
    assert (b"simulated-node" in target.read_bytes()) == (not options)


@pytest.mark.parametrize("action", ["recover", "scrub"])
def test_target_that_is_there_is_never_touched(databases, run: CommandLine, tmp_path: Path, action: str) -> None:
    (tmp_path / "file.db").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    before = look_of(tmp_path)
    for name, reference in (
        ("file.db", "output-exists"),
        ("folder", "output-is-folder"),
        ("dangling", "output-exists"),
        ("pipe", "output-is-device"),
        ("missing/file.db", "output-folder-missing"),
    ):
        ran = run("rocpd", action, databases.trace, "-o", tmp_path / name)
        assert (ran.code, ran.out) == (2, "")
        assert reference in ran.err
    assert run("rocpd", action, databases.trace, "-o", databases.trace).code == 2
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    after = look_of(tmp_path)
    assert after == before


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["recover"], ["FILE", "--help"]),
        (["scrub", "a.db"], ["-o", "--help"]),
        (["restore", "a.db"], ["restore", "rocktools rocpd --help"]),
        (["recover", "gone.db", "-o", "copy.db"], ["no-such-file", "gone.db"]),
    ],
)
def test_impossible_requests_are_plain_errors(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("rocpd", *arguments)
    assert (ran.code, ran.out) == (1 if "gone.db" in arguments else 2, "")
    for word in words:
        assert word in ran.err
    assert list(tmp_path.iterdir()) == []


def test_failing_write_leaves_nothing(databases, target: Path) -> None:
    script = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from rocktools.cli.main import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    assert databases.trace.stat().st_size > 200_000
    # The private copy that recovery works on is the first that does not fit.
    for action, reference in (("recover", "copy-failed"), ("scrub", "output-failed")):
        ran = subprocess.run(
            [sys.executable, "-c", script, "rocpd", action, str(databases.trace), "-o", str(target)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (1, "")
        assert f"rocktools: error: {reference}: " in ran.stderr
        assert list(target.parent.iterdir()) == []


def test_interrupt_leaves_nothing(databases, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import rocktools.sources.rocpd.repair as repair

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(repair, "_mark_recovered", interrupted)
    assert main(["rocpd", "recover", str(databases.trace), "-o", str(target)]) == 1
    assert list(target.parent.iterdir()) == []
