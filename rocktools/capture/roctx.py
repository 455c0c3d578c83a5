"""ROCTx for the job's side: which steps `rocprofv3 --selected-regions` collects, and ranges and marks to find them by.

One file, standard library only: it runs inside the training job, whose container may hold nothing of rocktools, so it
may be copied there under any name except `roctx`, which is the name of a package that ROCm itself ships.

    steps = profiled_steps(10, 12, synchronize=lambda: jax.block_until_ready(state))
    with steps:
        for step in builtins.range(14):
            with steps.step(step):
                state = train_step(state)

An annotation never ends a training run: a missing library or a refused call is a RuntimeWarning, once. Whether rows
arrived is for whoever reads the trace to check.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

__all__ = [
    "Roctx",
    "StepWindow",
    "find_library",
    "is_available",
    "mark",
    "pause",
    "pop",
    "profiled_steps",
    "push",
    "range",
    "resume",
]

_FILE = "librocprofiler-sdk-roctx.so"
# The number is the major version of the SDK: 0 until ROCm 6.4, 1 from ROCm 7.0 on. The name without one is a symlink
# that some runtime packages leave out.
_SONAMES = (_FILE, f"{_FILE}.1", f"{_FILE}.0")

# Arguments and result of each function, after rocprofiler-sdk-roctx/roctx.h of SDK 1.0: roctx_thread_id_t is a uint64.
_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "roctxMarkA": ([ctypes.c_char_p], None),
    "roctxRangePushA": ([ctypes.c_char_p], ctypes.c_int),
    "roctxRangePop": ([], ctypes.c_int),
    "roctxProfilerResume": ([ctypes.c_uint64], ctypes.c_int),
    "roctxProfilerPause": ([ctypes.c_uint64], ctypes.c_int),
}

_ALL_THREADS = 0


def find_library(environ: Mapping[str, str] | None = None) -> Any | None:
    """The ROCTx library as a ctypes object with checked argument types, or None.

    Symbols that the process already has come first: rocprofv3 preloads its own copy, and only that one is certain to
    be the copy it listens to. Then the dynamic linker's search (LD_LIBRARY_PATH, which rocprofv3 extends), then
    $ROCM_PATH/lib and /opt/rocm/lib. A library without the profiler controls is passed over: libroctx64 of the old
    roctracer has the ranges under the same names, but cannot pause.
    """
    environ = os.environ if environ is None else environ
    roots = [root for root in (environ.get("ROCM_PATH"), "/opt/rocm") if root]
    paths = [os.path.join(root, "lib", name) for root in roots for name in _SONAMES]  # noqa: PTH118 - copied alone
    for name in (None, *_SONAMES, *paths):
        try:
            library = ctypes.CDLL(name)
        except (OSError, TypeError):  # TypeError: Windows has no handle of the process itself
            continue
        if all(hasattr(library, function) for function in _SIGNATURES):
            for function, (arguments, result) in _SIGNATURES.items():
                getattr(library, function).argtypes = arguments
                getattr(library, function).restype = result
            return library
    return None


class Roctx:
    """The calls, on a library that is looked for at the first of them. Safe to use from several threads.

    Args:
        find: returns the library, or None where there is none.
    """

    def __init__(self, find: Callable[[], Any | None] = find_library) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._library: Any | None = None
        self._is_searched = False
        self._complaints: set[str] = set()

    def is_available(self) -> bool:
        """Whether there is a library. It says nothing about a profiler that listens to it."""
        return self._load() is not None

    def resume(self) -> bool:
        """Ask the profiler to collect from here on; whether it accepted. False where there is no library."""
        return self._control("roctxProfilerResume")

    def pause(self) -> bool:
        """Ask the profiler to stop collecting; whether it accepted.

        Synchronise the device first: work that is still queued is lost otherwise, and SDKs before mid-2026 could hang
        when counters were collected while a kernel was in flight (rocm-systems PR 5023 and 6750).
        """
        return self._control("roctxProfilerPause")

    def mark(self, text: str) -> None:
        """Leave a mark at this moment."""
        library = self._load_or_warn()
        if library is not None:
            library.roctxMarkA(_encoded(text))

    def push(self, text: str) -> None:
        """Open a range on this thread, inside those it has open."""
        library = self._load_or_warn()
        if library is not None:
            level = library.roctxRangePushA(_encoded(text))
            if level < 0:
                self._complain("roctxRangePushA", f"roctxRangePushA returned {level}: the range was not opened")

    def pop(self) -> None:
        """Close the innermost range that this thread opened."""
        library = self._load_or_warn()
        if library is not None:
            level = library.roctxRangePop()
            if level < 0:
                self._complain("roctxRangePop", f"roctxRangePop returned {level}: no range is open on this thread")

    @contextlib.contextmanager
    def range(self, text: str) -> Iterator[None]:
        """A range around the body, closed also when the body raises. It spans host time: synchronise inside it where
        it is meant to cover the device's work."""
        self.push(text)
        try:
            yield
        finally:
            self.pop()

    def _control(self, function: str) -> bool:
        library = self._load_or_warn()
        if library is None:
            return False
        code = getattr(library, function)(_ALL_THREADS)
        if code != 0:
            self._complain(function, f"{function} returned {code}: the profiler refused it, or does not support it")
        return bool(code == 0)

    def _load(self) -> Any | None:
        with self._lock:
            if not self._is_searched:
                self._library = self._find()
                self._is_searched = True
            return self._library

    def _load_or_warn(self) -> Any | None:
        library = self._load()
        if library is None:
            self._complain(
                "library",
                f"{_FILE} was not found in this process, by the dynamic linker, in $ROCM_PATH/lib or in /opt/rocm/lib: "
                "ROCTx ranges, marks, resume and pause do nothing here. Under rocprofv3 --selected-regions nothing "
                "will be collected; put the library's folder into LD_LIBRARY_PATH, or set ROCM_PATH",
            )
        return library

    def _complain(self, about: str, text: str) -> None:
        with self._lock:
            if about in self._complaints:
                return
            self._complaints.add(about)
        _warn(text)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


_OF_PROCESS = Roctx()  # the library is one per process, and so is the warning that it is missing

is_available = _OF_PROCESS.is_available
resume = _OF_PROCESS.resume
pause = _OF_PROCESS.pause
mark = _OF_PROCESS.mark
push = _OF_PROCESS.push
pop = _OF_PROCESS.pop
range = _OF_PROCESS.range


def profiled_steps(
    first: int, last: int, *, synchronize: Callable[[], object] | None = None, roctx: Roctx | None = None
) -> StepWindow:
    """The window of steps `first` to `last` (both inside), numbered as the training loop numbers them.

    The profiler resumes before step `first`, each step inside is a range `step <n>`, and it pauses after step `last`.
    For `rocprofv3 --selected-regions`, which collects nothing until the first resume. Before March 2026 (SDK 1.2) that
    option gated tracing only, and counters ran from the start.

    Args:
        synchronize: waits for the device, usually `lambda: jax.block_until_ready(state)`; called before the resume, so
            that earlier work is not cut into the window, and before the pause, so that the window's own is not cut off.
        roctx: calls to use instead of the process's own.

    Raises:
        ValueError: `last` is before `first`, or `first` is a step that compiles.
    """
    roctx = _OF_PROCESS if roctx is None else roctx
    if first > last:
        raise ValueError(f"the profiled steps must be in order, but first is {first} and last is {last}")
    if first < 1:
        raise ValueError(f"first is {first}, but the first step a job runs compiles: begin at step 1 or later")
    if first < 3:
        _warn(
            f"profiling begins at step {first}: compilation and autotuning may be inside; step 3 or later is safe",
        )

    return StepWindow(
        first,
        last,
        synchronize=synchronize,
        start=roctx.resume,
        stop=roctx.pause,
        enter=lambda step: roctx.push(f"step {step}"),
        leave=roctx.pop,
    )


# From here on, roctx.py and jax_profile.py are the same text, because each must work as a single file. A test compares
# the two.
class StepWindow:
    """A window of training steps: opened before the first, closed after the last, and never left open.

    Call `before(step)` and `after(step)` around every step of the loop, or use `with window.step(step):`. The window
    itself is a context manager, too: around the loop it closes what a `break`, a `return` or an exception left open.
    What is still open when the interpreter ends is closed then.

    Step numbers must be Python integers: reading one from a device array would wait for the device at every step.

    Attributes:
        is_open: whether steps are being profiled now.
        is_done: whether the window has closed, or can no longer open.
    """

    def __init__(
        self,
        first: int,
        last: int,
        *,
        synchronize: Callable[[], object] | None,
        start: Callable[[], object],
        stop: Callable[[], object],
        enter: Callable[[int], object],
        leave: Callable[[], object],
    ) -> None:
        self.first = first
        self.last = last
        self.is_open = False
        self.is_done = False
        self._synchronize = synchronize
        self._start = start
        self._stop = stop
        self._enter = enter
        self._leave = leave
        self._is_inside = False  # between enter and leave
        self._seen_count = 0
        self._lock = threading.RLock()  # the end of the interpreter may close from another thread

    def before(self, step: int) -> None:
        """Call at the start of every step."""
        with self._lock:
            if self.is_done:
                return
            if self.is_open and step > self.last:
                self._close(None)
            elif self.is_open:
                self._leave_step()  # nobody called after()
                self._enter_step(step)
            elif step < self.first:
                self._seen_count += 1
            elif step > self.last:
                self.is_done = True
                _warn(f"the loop is at step {step}, past steps {self.first} to {self.last}: nothing is profiled")
            else:
                self._open(step)

    def after(self, step: int) -> None:
        """Call at the end of every step."""
        with self._lock:
            if self.is_open and step >= self.last:
                self._close(None)
            elif self.is_open:
                self._leave_step()

    @contextlib.contextmanager
    def step(self, step: int) -> Iterator[None]:
        """`before`, the body, `after`; an exception in the body closes the window."""
        self.before(step)
        try:
            yield
        except BaseException as error:
            self._close(error)
            raise
        self.after(step)

    def close(self) -> None:
        """End the window now, if it is open."""
        self._close(None)

    def __enter__(self) -> StepWindow:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(error)

    def _open(self, step: int) -> None:
        if self._seen_count < min(2, self.first):
            _warn(
                f"only {self._seen_count} steps ran before step {step}, where profiling begins: compilation and "
                "autotuning may be inside. A resumed job counts on from its checkpoint, and compiles at its first step"
            )
        if self._synchronize is not None:
            self._synchronize()
        self.is_done = True  # unless it opens: a start that failed is not tried again at every step
        self._start()
        self.is_done = False
        self.is_open = True
        atexit.register(self._close_at_exit)
        self._enter_step(step)

    def _close(self, error: BaseException | None) -> None:
        """Close an open window, whatever goes wrong meanwhile; `error` is what ends the loop, if something does."""
        with self._lock:
            if not self.is_open:
                return
            self.is_open = False
            self.is_done = True
            atexit.unregister(self._close_at_exit)
            try:
                self._synchronize_at_end(error)
            finally:
                try:
                    self._leave_step()
                finally:
                    self._stop()

    def _close_at_exit(self) -> None:
        # An exception that nobody caught has been printed by now, and is kept there.
        self._close(getattr(sys, "last_value", None))

    def _synchronize_at_end(self, error: BaseException | None) -> None:
        """Wait for the device, unless somebody interrupted the job: it may hang, and waiting is what they broke off."""
        if self._synchronize is None or not (error is None or isinstance(error, Exception)):
            return
        try:
            self._synchronize()
        except Exception as second:
            if error is None:
                raise
            # The first error is the one to report; the device often fails again for the same reason.
            _warn(f"the device could not be waited for before profiling stopped: {second}")

    def _enter_step(self, step: int) -> None:
        self._enter(step)
        self._is_inside = True

    def _leave_step(self) -> None:
        if self._is_inside:
            self._is_inside = False
            self._leave()


def _warn(text: str) -> None:
    """A RuntimeWarning at the line outside this file that led here."""
    inner = {_warn.__code__.co_filename, contextlib.contextmanager.__code__.co_filename}
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename in inner:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=depth)
