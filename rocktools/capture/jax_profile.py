"""The JAX profiler for the job's side: a few complete steps as an XSpace, with everything that attribution needs.

One file, standard library and jax only, so that it may be copied into the job's container. It must know nothing of
rocktools; what it writes below `log_dir` is plugins/profile/<time>/<host>.xplane.pb.

    steps = profiled_steps(log_dir, 10, 12, synchronize=lambda: jax.block_until_ready(state))
    with steps:
        for step in range(14):
            with steps.step(step):
                state = train_step(state)
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import inspect
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

__all__ = ["StepWindow", "profiled_steps"]

# "train" is the name that XProf's and other step readers look for.
_STEP_NAME = "train"

_WARM_UP_COUNT = 2

_SET_BY_LAUNCHER = {"ROCPROFILER_LIBRARY_CTOR", "ROCP_TOOL_LIBRARIES"}
# Folders of libraries that users export for good: they start no profiler.
_HARMLESS = {"ROCPROF_LIST_AVAIL_TOOL_LIBRARY", "ROCPROF_ATT_LIBRARY_PATH"}
_MEANING_NO = {"", "0", "n", "no", "f", "false", "off"}


def profiled_steps(
    log_dir: str | os.PathLike[str],
    first: int,
    last: int,
    *,
    synchronize: Callable[[], object] | None = None,
    host_tracer_level: int = 2,
    python_tracer: bool = False,
    environ: Mapping[str, str] | None = None,
) -> StepWindow:
    """The window of steps `first` to `last` (both inside), numbered as the training loop numbers them.

    The trace starts before step `first` and is written after step `last`; each step inside is a StepTraceAnnotation,
    and the HLO protos go into the file.

    Args:
        log_dir: where the profile goes; each one gets a folder of its own there.
        synchronize: waits for the device, usually `lambda: jax.block_until_ready(state)`; called before the start, so
            that earlier work is not cut into the trace, and before the stop, so that the window's own is not cut off.
        host_tracer_level: 1 user annotations, 2 also what XLA does on the host (JAX's default), 3 everything.
        python_tracer: record every Python call; it slows the host and hides gaps it made itself.
        environ: the environment to look for rocprofv3 in, instead of the process's own.

    Raises:
        ValueError: `last` is before `first`, fewer than two steps warm up, or level 0 would drop the annotations.
        RuntimeError: the process runs under rocprofv3.
    """
    if first > last:
        raise ValueError(f"the profiled steps must be in order, but first is {first} and last is {last}")
    if first < _WARM_UP_COUNT:
        raise ValueError(
            f"first is {first}, but at least {_WARM_UP_COUNT} steps must run before: the first ones compile and "
            "autotune, and a profile with them inside measures the compiler"
        )
    if host_tracer_level < 1:
        raise ValueError(f"host_tracer_level is {host_tracer_level}, but without host events no step can be found")
    _refuse_inside_rocprofv3(os.environ if environ is None else environ)

    jax: Any = importlib.import_module("jax")  # by name: type checking must not depend on whether it is installed
    start = _starter(jax, os.fspath(log_dir), host_tracer_level=host_tracer_level, python_tracer=python_tracer)
    annotations: list[Any] = []

    def enter(step: int) -> None:
        annotation = jax.profiler.StepTraceAnnotation(_STEP_NAME, step_num=step)
        annotation.__enter__()
        annotations.append(annotation)

    def leave() -> None:
        annotations.pop().__exit__(None, None, None)

    return StepWindow(
        first, last, synchronize=synchronize, start=start, stop=jax.profiler.stop_trace, enter=enter, leave=leave
    )


def _refuse_inside_rocprofv3(environ: Mapping[str, str]) -> None:
    """Raise where the environment says that rocprofv3, or another tool on rocprofiler-sdk, has this process already.

    Two clients of rocprofiler-sdk in one process do not get on: the second one gets no GPU events (rocm-jax 222, 223,
    227), or the process crashes when the traces are written (rocprofiler-sdk's changelog; Reactant.jl 2455).
    """
    for name, value in sorted(environ.items()):
        if _starts_tool(name, value):
            raise RuntimeError(
                f"{name}={value} says that this process runs under rocprofv3, where the JAX profiler would be a second "
                "client of rocprofiler-sdk: it gets no GPU events, or the process crashes. Profile in a run of its "
                f"own; where {name} is left over from an earlier run, unset it"
            )


def _starts_tool(name: str, value: str) -> bool:
    if name == "LD_PRELOAD":
        return "librocprofiler-sdk-tool" in value
    is_of_tool = name in _SET_BY_LAUNCHER or (name.startswith("ROCPROF_") and name not in _HARMLESS)
    return is_of_tool and value.strip().lower() not in _MEANING_NO


def _starter(jax: Any, log_dir: str, *, host_tracer_level: int, python_tracer: bool) -> Callable[[], None]:
    """What starts the trace, with the options this version of jax has; warns about those it has not."""
    profiler = jax.profiler
    wanted = {
        "host_tracer_level": host_tracer_level,
        "python_tracer_level": int(python_tracer),
        "enable_hlo_proto": True,
    }
    has_options = hasattr(profiler, "ProfileOptions")
    if not has_options or "profiler_options" not in inspect.signature(profiler.start_trace).parameters:
        _warn(
            f"jax {getattr(jax, '__version__', '?')} takes no profiler options: its defaults hold, with the Python "
            "tracer on, which slows the host during the profiled steps",
        )
        return lambda: profiler.start_trace(log_dir)

    options = profiler.ProfileOptions()
    # jax makes it a Python class: an attribute that means nothing can be set without an error.
    missing = [name for name in wanted if not hasattr(options, name)]
    if missing:
        _warn(
            f"jax {getattr(jax, '__version__', '?')} has no profiler option {', '.join(missing)}: its default holds",
        )
    for name, value in wanted.items():
        if name not in missing:
            setattr(options, name, value)
    return lambda: profiler.start_trace(log_dir, profiler_options=options)


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
