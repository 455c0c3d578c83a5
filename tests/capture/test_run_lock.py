"""A run directory belongs to one capture, and to what that leaves behind."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocktools.capture.run_lock import find_holders, hold_run
from rocktools.errors import UsageError


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text("{}")
    return path


def test_a_run_is_held_once_and_free_again_afterwards(target: Path) -> None:
    with hold_run(target), pytest.raises(UsageError, match="run-in-use"), hold_run(target):
        pass
    with hold_run(target) as descriptor:
        assert descriptor is not None
    assert target.read_text() == "{}"


def test_a_job_that_outlives_its_capture_holds_the_run_and_is_named(target: Path) -> None:
    with hold_run(target) as descriptor:
        assert descriptor is not None
        job = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(descriptor,))
    try:
        with pytest.raises(UsageError, match="run-in-use") as caught, hold_run(target):
            pass
        assert str(job.pid) in caught.value.what
        assert f"kill {job.pid}" in (caught.value.hint or "")
        assert find_holders(target) == [job.pid]
    finally:
        job.send_signal(signal.SIGKILL)
        job.communicate()
    with hold_run(target) as descriptor:
        assert descriptor is not None


def test_where_there_are_no_locks_nobody_is_kept_out(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with hold_run(target) as descriptor:
        assert descriptor is None
