"""Progress on standard error: of the passes of a capture, and of many files or a long calculation on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rocktools.batch.run import JobProgress

_CLEAR_LINE = "\r\x1b[K"
_QUIET_S = 1.0
_TICK_S = 0.5


class PassProgress:
    """Called by the library while a pass runs; shows its name, number and running time.

    Args:
        deadline_s: what a full bar stands for; None where a pass may take as long as it likes.
    """

    def __init__(self, *, deadline_s: float | None) -> None:
        self._deadline_s = deadline_s
        self._bar: object | None = None
        self._task: object | None = None
        self._shown: str | None = None

    def __enter__(self) -> PassProgress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True)
            )
            bar.start()
            bar.console.print("Ctrl-C lets the profiler write before it ends; a second one does not wait.")
            self._bar = bar
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()  # type: ignore[attr-defined]

    def __call__(self, name: str, number: int, passes_count: int, elapsed_s: float) -> None:
        description = f"pass {number} of {passes_count}: {name}"
        if self._bar is None:
            if description != self._shown:
                click.echo(description, err=True)
        else:
            if description != self._shown:
                self._task = self._bar.add_task(description, total=self._deadline_s)  # type: ignore[attr-defined]
            self._bar.update(self._task, completed=elapsed_s)  # type: ignore[attr-defined]
        self._shown = description


class BatchProgress:
    """Called by the library while a batch runs: a line when an attempt begins, and one when it has ended.

    On a terminal a last line tells what is running and for how long.
    """

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._running: dict[str, int] = {}
        self._shown = ""

    def __call__(self, progress: JobProgress) -> None:
        if progress.is_new:
            self._running[progress.name] = 0
            self._say(f"{_head(progress)}: begins{_place(progress)}")
        elif progress.state != "running":
            self._running.pop(progress.name, None)
            why = f": {progress.what}" if progress.what else ""
            again = "; tried once more" if progress.is_retried else ""
            self._say(f"{_head(progress)}: {progress.state} after {progress.elapsed_s:.1f} s{why}{again}")
        else:
            self._running[progress.name] = int(progress.elapsed_s)
        self._show_running()

    def _say(self, line: str) -> None:
        click.echo(f"{_CLEAR_LINE if self._shown else ''}{line}", err=True)
        self._shown = ""

    def _show_running(self) -> None:
        text = ", ".join(f"{name} {seconds} s" for name, seconds in self._running.items())
        if self._is_terminal and text != self._shown:
            click.echo(f"{_CLEAR_LINE}{f'running: {text}' if text else ''}", err=True, nl=False)
            self._shown = text


def _head(progress: JobProgress) -> str:
    return f"[{progress.number}/{progress.jobs_count}] {progress.name}"


def _place(progress: JobProgress) -> str:
    device = "" if progress.device is None else f" on GPU {progress.device}"
    return f"{device}, attempt {progress.attempt}" if progress.attempt > 1 else device


@contextmanager
def working(what: str) -> Iterator[None]:
    """While the block runs, one line of a terminal says for how long; none where it takes less than a second.

    The line is gone when the block has ended. Nothing may be printed inside of it.
    """
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    teller = threading.Thread(target=_tell_until, args=(ended, what), daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _tell_until(ended: threading.Event, what: str) -> None:
    elapsed_s = _QUIET_S
    is_over = ended.wait(_QUIET_S)
    is_shown = False
    while not is_over:
        click.echo(f"{_CLEAR_LINE}{what}, {elapsed_s:.0f} s", err=True, nl=False)
        is_shown = True
        is_over = ended.wait(_TICK_S)
        elapsed_s += _TICK_S
    if is_shown:
        click.echo(_CLEAR_LINE, err=True, nl=False)


def tell_files_done(done: int, total: int) -> None:
    """How many of several files are done, on one line of a terminal."""
    if total > 1 and sys.stderr.isatty():
        click.echo(f"\r{done} of {total} files", err=True, nl=done == total)


def tell_compiled(done: int, total: int) -> None:
    """How many of several kernels are compiled, on one line of a terminal."""
    if total > 1 and sys.stderr.isatty():
        click.echo(f"\r{done} of {total} kernels", err=True, nl=done == total)


def tell_seconds(elapsed_s: float) -> None:
    """How long a compilation has been running, on one line of a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\rcompiling, {elapsed_s:.0f} s ", err=True, nl=False)
