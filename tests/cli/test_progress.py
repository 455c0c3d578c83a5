"""Progress: a line on a terminal while something takes long, and nothing anywhere else."""

from __future__ import annotations

import threading
import time

import pytest

from rocktools.cli import progress
from rocktools.cli.progress import tell_files_done, working

CLEAR = "\r\x1b[K"


def _pretend_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """From within a test: before it begins, pytest has another stream in the place of standard error."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(progress, "_QUIET_S", 0.02)
    monkeypatch.setattr(progress, "_TICK_S", 0.02)


def test_what_takes_long_is_told_and_then_wiped_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pretend_terminal(monkeypatch)
    with working("linking"):
        time.sleep(0.2)
    out, err = capsys.readouterr()
    shown = [piece for piece in err.split(CLEAR) if piece]
    assert out == ""
    assert len(shown) >= 2
    assert set(shown) == {"linking, 0 s"}
    assert err.endswith(CLEAR)


def test_what_is_done_at_once_says_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _pretend_terminal(monkeypatch)
    monkeypatch.setattr(progress, "_QUIET_S", 60)
    began = time.monotonic()
    with working("linking"):
        pass
    assert time.monotonic() - began < 30
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_nothing_is_told_and_no_thread_runs(capsys: pytest.CaptureFixture[str]) -> None:
    threads = threading.active_count()
    with working("linking"):
        assert threading.active_count() == threads
        tell_files_done(1, 2)
    assert capsys.readouterr() == ("", "")


def test_an_error_passes_through_and_the_line_is_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pretend_terminal(monkeypatch)
    threads = threading.active_count()

    def fail() -> None:
        with working("linking"):
            time.sleep(0.1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert threading.active_count() == threads
    assert capsys.readouterr().err.endswith(CLEAR)


def test_files_are_counted_on_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _pretend_terminal(monkeypatch)
    for done in (1, 2):
        tell_files_done(done, 2)
    tell_files_done(1, 1)
    assert capsys.readouterr().err == "\r1 of 2 files\r2 of 2 files\n"
