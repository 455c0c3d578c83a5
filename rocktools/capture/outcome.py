"""How a process ended and what it said -> what became of it, in one word and one sentence. Pure.

rocprofv3 replaces itself by the application, so one exit code may come from four places: from argparse (2), from the
launcher (1), from the tool inside the application (SIGABRT), or from the application itself. The texts tell them apart.
None of this says whether anything was recorded: that the rows are there is checked elsewhere.
"""

from __future__ import annotations

import re
import signal
from enum import Enum
from pathlib import PurePath

from rocktools.capture.tool_messages import TOOL_FATAL
from rocktools.process import ProcessResult, Stop

_LAUNCHERS = frozenset({"rocprofv3", "rocprofv3-avail", "rocpd", "rocprof-compute"})
_USAGE = re.compile(r"^usage: (?P<tool>\S+)", re.MULTILINE)
_REFUSAL = re.compile(r"^(?P<tool>[\w.-]+)(?: [\w.-]+)?: error: (?P<text>[^\r\n]*)", re.MULTILINE)
_GAVE_UP = re.compile(r"^(?:\[[\w-]+\] )?Fatal error: (?P<text>[^\r\n]*)", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
_FRAME_FILE = re.compile(r'^ +File "([^"]*)", line \d+', re.MULTILINE)
# Beside the script itself, whose frames have its name: its packages, and the console script of wheels.
_LAUNCHER_FILES = re.compile(r"/(?:rocprofv3|rocpd)/[\w/]+\.py$|/rocm_sdk_core/_cli\.py$")

_START_ERRORS = ("FileNotFoundError: ", "PermissionError: ", "NotADirectoryError: ", "OSError: ")


class Outcome(str, Enum):
    """What became of a process."""

    SUCCESS = "success"  # exit code 0, which is no proof that anything was recorded
    USAGE = "usage"  # a tool refused its arguments
    LAUNCHER = "launcher"  # a tool gave up, mostly before the application ran
    TOOL_ABORT = "tool_abort"  # the profiler inside the application aborted it
    APPLICATION = "application"  # its own exit code, or a signal that nothing of the tool explains
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"

    def __str__(self) -> str:
        return self.value


def classify(result: ProcessResult, stderr_text: str) -> tuple[Outcome, str]:
    """The outcome, and a sentence with the exit code or the signal by name.

    Where it may be wrong: an application that prints `Fatal error: ` itself and ends with 1 looks like the launcher;
    one that logs fatal lines through glog from .cpp files looks like the tool.

    Args:
        result: of the process that was started.
        stderr_text: what it wrote there, or the end of it; the reasons stand in the last lines, before a stack trace.
    """
    end = _describe_end(result)
    fatal = _last(TOOL_FATAL, stderr_text)
    if result.stopped_by is not Stop.NONE:
        before = f"; before that the profiler aborted: {fatal}" if fatal else ""
        if result.stopped_by is Stop.DEADLINE:
            return Outcome.TIMEOUT, f"stopped at its deadline, after {result.duration_s:.1f} s: {end}{before}"
        return Outcome.INTERRUPTED, f"interrupted after {result.duration_s:.1f} s: {end}{before}"
    if result.exit_code == 0:
        return Outcome.SUCCESS, end
    if fatal:
        # With SIGABRT it is this process; with any other end a worker of it, whose parent gave up.
        return Outcome.TOOL_ABORT, f"the profiler aborted: {fatal} ({end})"
    if result.exit_code == 2 and (refusal := _refusal(result, stderr_text)):
        return Outcome.USAGE, f"{refusal} ({end})"
    if result.exit_code == 1 and (reason := _launcher_reason(result, stderr_text)):
        return Outcome.LAUNCHER, f"the launcher gave up: {reason} ({end})"
    return Outcome.APPLICATION, f"the application failed: {end}"


def _describe_end(result: ProcessResult) -> str:
    if result.exit_code is not None:
        # A shell, and many launchers, report a child that a signal ended in this way.
        name = _signal_name(result.exit_code - 128) if result.exit_code > 128 else None
        return f"exit code {result.exit_code}" + (f", as after {name}" if name else "")
    if result.signal_number is not None:
        return f"ended by {_signal_name(result.signal_number) or f'signal {result.signal_number}'}"
    return f"process {result.pid} did not end, not even after SIGKILL; it may wait for a GPU that needs a reset"


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:  # not a signal, or one of the nameless real-time signals
        return None


def _last(pattern: re.Pattern[str], text: str) -> str:
    """The group `text` of the last match, or ""."""
    last = ""
    for match in pattern.finditer(text):
        last = match["text"].strip()
    return last


def _launcher_names(result: ProcessResult) -> frozenset[str]:
    """Names that the started tool may call itself. What an interpreter was started with is an application."""
    return _LAUNCHERS | {PurePath(result.argv[0]).name}


def _refusal(result: ProcessResult, text: str) -> str:
    """What argparse said, if it is a tool's and not that of an application with the same habit; else ""."""
    names = _launcher_names(result)
    refusals = [match for match in _REFUSAL.finditer(text) if match["tool"] in names]
    if refusals:
        return f"{refusals[-1]['tool']} refused its arguments: {refusals[-1]['text']}"
    usages = [match["tool"] for match in _USAGE.finditer(text) if match["tool"] in names]
    return f"{usages[-1]} refused its arguments" if usages else ""


def _launcher_reason(result: ProcessResult, text: str) -> str:
    """Why the launcher ended: its own last words, or the exception of its traceback; "" where it did not."""
    if gave_up := _last(_GAVE_UP, text):
        return gave_up
    _, header, traceback = text.rpartition(_TRACEBACK)
    if not header:
        return ""
    # Frames and source lines are indented; the exception is not.
    exceptions = [line for line in traceback.splitlines() if line and not line[0].isspace()]
    reason = exceptions[0] if exceptions else "a Python exception"
    is_of_launcher = any(_is_of_launcher(file, result) for file in _FRAME_FILE.findall(traceback))
    return reason if is_of_launcher or _is_about_starting(reason, result) else ""


def _is_of_launcher(file: str, result: ProcessResult) -> bool:
    name = PurePath(file).name.removesuffix(".py")
    return name in _launcher_names(result) or _LAUNCHER_FILES.search(file) is not None


def _is_about_starting(exception: str, result: ProcessResult) -> bool:
    """Whether it says that the program to profile, the first word behind `--`, cannot be started."""
    _, *behind = result.argv[result.argv.index("--") :] if "--" in result.argv else ("",)
    return bool(behind) and exception.startswith(_START_ERRORS) and exception.endswith(repr(behind[0]))
