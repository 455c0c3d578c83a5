"""The process side: signals that arrive and are passed on, ends by signal, the log of calls, children that live on."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

STATE_VARIABLE = "ROCKTOOLS_STANDIN_STATE"
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
# The library writes its files on these and then lets the signal through.
_WRITES_ON = (*HANDLED, signal.SIGABRT)
_TICK_S = 0.02
_LONGEST_HANG_S = 300
_PR_SET_PDEATHSIG = 1


class Signals:
    """Keeps the signals that arrive and passes them on to the application.

    A signal to the whole process group reaches the application twice, because the real tool and the application are one
    process and this is two. The application of the tests does not mind.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self.child: subprocess.Popen[bytes] | None = None

    def install(self) -> None:
        """Begin to keep signals."""
        for number in HANDLED:
            signal.signal(number, self._keep)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)
        if self.child is not None and self.child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child.pid, number)

    def hang(self, *ending: int) -> None:
        """Wait for one of these signals."""
        seen = 0
        for _ in _ticks_of_a_hang():
            if any(number in ending for number in self.received[seen:]):
                return
            seen = len(self.received)


def hang() -> None:
    """Wait for a signal that kills."""
    for _ in _ticks_of_a_hang():
        pass


def _ticks_of_a_hang() -> Iterator[None]:
    """As long as any test waits; then the process ends, so that a failed test leaves nothing behind forever."""
    end = time.monotonic() + _LONGEST_HANG_S
    while time.monotonic() < end:
        yield
        time.sleep(_TICK_S)
    os._exit(98)


def die_with_parent() -> None:
    """For a child that is about to start its program: whoever kills the parent kills it too, as if they were one."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_at_most(child: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for a child's end, not longer than this."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=seconds)


def kill_child(child: subprocess.Popen[bytes]) -> None:
    """End a child at once; nothing where it has ended."""
    if child.poll() is None:
        child.kill()
        child.wait()


def writes_files_on(signal_number: int) -> bool:
    """Whether the library writes what it has when this signal ends the process."""
    return signal_number in _WRITES_ON


def end_process(status: int) -> NoReturn:
    """End as `status` says: an exit code, or minus the number of the signal that kills."""
    sys.stdout.flush()
    sys.stderr.flush()
    if status >= 0:
        os._exit(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -status not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
    time.sleep(10)
    os._exit(70)


def leave_orphan(seconds: float) -> int:
    """A child in this process group that outlives its parent. Returns its pid."""
    script = "import signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(float(sys.argv[1]))"
    # Never waited for: that is the point of it.
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", script, str(seconds)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    write_state({"orphan": child.pid})
    return child.pid


def log_call(tool: str, arguments: Sequence[str]) -> None:
    """Note a call of one of the executables."""
    write_state({"tool": tool, "argv": list(arguments), "pid": os.getpid(), "cwd": str(Path.cwd())})


def start_run(counters: Sequence[str], environment: Mapping[str, str], earlier_runs: int) -> int:
    """Note a run of the application. Returns its number, from 1.

    Args:
        earlier_runs: runs of this call before this one, for where there is no log.
    """
    number = len(read_runs()) + 1 if _state_file() else earlier_runs + 1
    shown = {name: value for name, value in environment.items() if name.startswith(("ROCP", "ROCTX"))}
    write_state({"run": number, "counters": list(counters), "environment": shown})
    return number


def read_runs() -> list[dict[str, object]]:
    """The application runs in the log."""
    path = _state_file()
    if path is None or not path.exists():
        return []
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [entry for entry in entries if "run" in entry]


def write_state(entry: Mapping[str, object]) -> None:
    """Add a line to the log, where there is one."""
    path = _state_file()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(entry) + "\n")


def _state_file() -> Path | None:
    folder = os.environ.get(STATE_VARIABLE)
    return Path(folder) / "calls.jsonl" if folder else None
