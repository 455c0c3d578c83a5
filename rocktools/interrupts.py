"""Interrupts of our process that are noted instead of raised, for whoever must end a child in steps."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

_SAME_INTERRUPT_S = 0.2  # interrupts closer together than this are one


class Interrupts:
    """Interrupts that have arrived and were not yet acted upon."""

    def __init__(self) -> None:
        self._is_pending = False
        self._last_s = float("-inf")

    def note(self, _number: int = signal.SIGINT, _frame: FrameType | None = None) -> None:
        now_s = time.monotonic()
        if now_s - self._last_s >= _SAME_INTERRUPT_S:
            self._is_pending = True
            self._last_s = now_s

    def take(self) -> bool:
        """Whether there was one since the last call."""
        was_pending, self._is_pending = self._is_pending, False
        return was_pending


@contextlib.contextmanager
def interrupts_noted() -> Iterator[Interrupts]:
    """Note interrupts instead of raising KeyboardInterrupt, which could strike between the fork and the wait."""
    interrupts = Interrupts()
    replaced = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(number)
            if handler in (signal.SIG_DFL, signal.default_int_handler):
                replaced[number] = signal.signal(number, interrupts.note)
            elif number is signal.SIGINT and handler is signal.SIG_IGN:
                # A background job of a script. We go on ignoring it, but the child must not inherit that, or the first
                # step would never reach it; handlers are not inherited, so one that does nothing serves.
                replaced[number] = signal.signal(number, lambda _number, _frame: None)
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # inherited; exit codes would all read 0
            replaced[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield interrupts
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
