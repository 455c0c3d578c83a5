"""A tiny application to be profiled: prints, waits, starts children, and ends as it is told.

It imports nothing of the project, and says what it saw: `--record FILE` writes its argv, environment, pid, parent,
group, folder, and the signals that reached it, as JSON; first at the start, again at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

_TICK_S = 0.02


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--print", dest="text", default="", help="a line for stdout")
    parser.add_argument("--print-error", default="", help="a line for stderr")
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds; SIGINT and SIGTERM end it")
    parser.add_argument("--children", type=int, default=0, help="child processes, waited for")
    parser.add_argument("--child-seconds", type=float, default=0.1, help="how long each child lives")
    parser.add_argument("--leave-children", action="store_true", help="do not wait for the children")
    parser.add_argument("--ignore", action="append", default=[], help="name of a signal to ignore")
    parser.add_argument("--on-signal", type=int, default=None, help="exit code when a signal ended the sleep")
    parser.add_argument("--exit", type=int, default=0, help="exit code")
    parser.add_argument("--signal", default="", help="name of a signal to die of")
    parser.add_argument("--record", type=Path, default=None, help="JSON file to write")
    return parser.parse_args()


class _Record:
    """What the application saw, in a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.signals: list[str] = []

    def keep_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(signal.Signals(number).name)

    def write(self, *, is_finished: bool) -> None:
        if self._path is None:
            return
        facts = {
            "argv": sys.argv,
            "environment": dict(os.environ),
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "pgid": os.getpgrp(),
            "cwd": str(Path.cwd()),
            "signals": self.signals,
            "is_finished": is_finished,
        }
        # Complete or not there: a test may look while this is being written.
        half = self._path.with_name(f"{self._path.name}.{os.getpid()}.half")
        half.write_text(json.dumps(facts), encoding="utf-8")
        half.replace(self._path)


def main() -> None:
    """Do as told."""
    options = _parse()
    record = _Record(options.record)
    for name in ("SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), record.keep_signal)
    for name in options.ignore:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    record.write(is_finished=False)
    if options.text:
        print(options.text, flush=True)
    if options.print_error:
        print(options.print_error, file=sys.stderr, flush=True)
    children = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", f"import time; time.sleep({options.child_seconds})"])
        for _ in range(options.children)
    ]
    end = time.monotonic() + options.sleep
    while time.monotonic() < end and not record.signals:
        time.sleep(_TICK_S)
    for child in [] if options.leave_children else children:
        child.wait()
    record.write(is_finished=True)
    if options.signal:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(getattr(signal, options.signal), signal.SIG_DFL) if options.signal != "SIGKILL" else None
        os.kill(os.getpid(), getattr(signal, options.signal))
        time.sleep(10)
    if record.signals and options.on_signal is not None:
        sys.exit(options.on_signal)
    sys.exit(options.exit)


if __name__ == "__main__":
    main()
