"""The only module that starts processes.

Two ways: `read_output` for tools that answer in a moment, and `run_process` for everything that may run for hours: its
own session, output to files (a profiler that writes to a pipe can crash), a deadline, and an end in steps, since a
profiler that is killed at once loses what it collected:

    SIGINT to the group  ->  grace (it writes its database)  ->  SIGTERM  ->  short grace  ->  SIGKILL

What decides the steps (the signal handlers of rocprofv3 1.4):

* A second signal while the tool is writing makes it die at once. So nothing is sent twice within one step, and an
  interrupt that arrives twice at once (`timeout` and `uv run` both do that) counts as one.
* A launcher such as mpirun keeps its ranks in groups of their own and forwards signals to them. So SIGINT and SIGTERM
  go to the child's own group only, SIGKILL to every group of its session.
* A process that waits for a driver cannot be killed. So the wait after SIGKILL ends too, and the result says so.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import IO

from rocktools.errors import CaptureError, ToolFailed, ToolNotFound, UsageError
from rocktools.interrupts import Interrupts, interrupts_noted

_KILL_TRIES = 30  # SIGKILL is sent again, for processes that were forked into a new group meanwhile
_KILL_GRACE_S = 1.0

# Number of an error of execve -> reference, what is wrong with the program, what to do.
_START_ERRORS = {
    errno.ENOENT: (
        "no-interpreter",
        "is a script whose #! line names a program that does not exist",
        "head -n 1 of it",
    ),
    errno.EACCES: ("not-executable", "may not be executed", "chmod +x, or name its interpreter first"),
    errno.ENOEXEC: (
        "not-a-program",
        "is neither a program for this machine nor a script with a #! line",
        "name its interpreter first",
    ),
}


class Stop(str, Enum):
    """What made us end a process."""

    NONE = "none"  # it ended by itself
    DEADLINE = "deadline"
    INTERRUPT = "interrupt"  # of our process; also one that came after the deadline

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRequest:
    """What to run, and how it may end.

    Attributes:
        argv: the program, looked for in the PATH of `env` where it has no slash, and its arguments.
        env: the whole environment; nothing is inherited.
        cwd: where it runs.
        stdout_path: new file for its standard output.
        stderr_path: new file for its standard error.
        deadline_s: time after its start when it is stopped; None for never.
        interrupt_grace_s: time between SIGINT and SIGTERM, in which a profiler writes what it has.
        terminate_grace_s: time between SIGTERM and SIGKILL, and what is left behind gets to end by itself.
        inherited_descriptors: open files of ours that it gets beside its standard ones, such as a lock.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    stdout_path: Path
    stderr_path: Path
    deadline_s: float | None = None
    interrupt_grace_s: float = 120.0
    terminate_grace_s: float = 15.0
    inherited_descriptors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """How it ended.

    Attributes:
        exit_code: 0 to 255 after a normal exit, else None.
        signal_number: of the signal that ended it, else None. Both are None where it did not even end after SIGKILL.
        started_utc: ISO 8601, milliseconds.
        duration_s: from its start to its own end, on a monotonic clock; what it left behind does not count.
        stopped_by: why we ended it.
        last_signal_sent: name of the last signal we sent to it or to what it left behind; None where none was needed.
        survivors_killed_count: processes of its session that outlived it until we sent them a signal.
    """

    argv: tuple[str, ...]
    pid: int
    exit_code: int | None
    signal_number: int | None
    started_utc: str
    duration_s: float
    stopped_by: Stop
    last_signal_sent: str | None
    survivors_killed_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a tool answered; its exit code as a shell reports it, so 128 + n after signal n."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str


def run_process(
    request: ProcessRequest, *, on_wait: Callable[[float], None] | None = None, poll_s: float = 0.1
) -> ProcessResult:
    """Run a program to its end, or stop it, and leave nothing of it behind.

    In the main thread an interrupt (SIGINT; SIGTERM and SIGHUP too where nobody handles them, because the child would
    outlive us) stops the child in steps, and a further one goes to the next step at once. KeyboardInterrupt is not
    raised: `stopped_by` tells. Handlers that the caller installed stay in place.

    Args:
        request: what to run.
        on_wait: called about every `poll_s` with the seconds since the start. What it raises ends the child, in steps.
        poll_s: also the longest time until an interrupt is noticed.

    Raises:
        UsageError: a log exists already or has no folder, there is no such cwd, or the command is impossible.
        ToolNotFound: there is no such program.
        CaptureError: there is, and it cannot be started.
    """
    _require_sensible(request, poll_s)
    with interrupts_noted() as interrupts:
        started_utc = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        started_s = time.monotonic()
        child = _start_with_logs(request)
        watch = _Watch(child, interrupts, on_wait, poll_s, started_s)
        with contextlib.closing(watch):
            stopped_by = watch.run(request)
    if interrupts.take():  # in the moment between the end and here
        stopped_by = Stop.INTERRUPT
    code: int | None = child.returncode
    return ProcessResult(
        argv=request.argv,
        pid=child.pid,
        exit_code=code if code is not None and code >= 0 else None,
        signal_number=-code if code is not None and code < 0 else None,
        started_utc=started_utc,
        duration_s=(time.monotonic() if watch.ended_s is None else watch.ended_s) - started_s,
        stopped_by=stopped_by,
        last_signal_sent=watch.last_signal_sent,
        survivors_killed_count=len(watch.survivors),
    )


def read_output(argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout_s: float = 30.0) -> ToolOutput:
    """What a tool prints that answers in a moment, whatever its exit code. It reads nothing.

    Its output goes through nameless files, not pipes: a child that it leaves behind cannot make us wait, and bytes that
    are no UTF-8 are replaced.

    Args:
        argv: the tool and its arguments.
        env: the whole environment; None for ours.
        timeout_s: after it the tool and all of its session is killed.

    Raises:
        ToolNotFound: there is no such tool.
        CaptureError: there is, and it cannot be started.
        ToolFailed: no answer in time.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        child = _start(argv, env=env, cwd=None, stdout=stdout.fileno(), stderr=stderr.fileno())
        try:
            child.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            _kill_session(child)
            raise ToolFailed(
                "tool-timeout",
                f"{argv[0]} gave no answer within {timeout_s:g} s and was killed",
                where=shlex.join(argv),
                hint="run the command by hand to see what it waits for",
            ) from error
        except BaseException:
            _kill_session(child)
            raise
        code = child.returncode
        return ToolOutput(
            argv=tuple(argv),
            exit_code=code if code >= 0 else 128 - code,
            stdout=_read_text(stdout),
            stderr=_read_text(stderr),
        )


def find_executable(name: str, *, path: str) -> Path | None:
    """The program of that name in the folders of `path` (as in PATH), or None. A name with a slash is the program."""
    found = shutil.which(name, path=path)
    return None if found is None else Path(found).absolute()


class _Wake(Enum):
    """What ended a wait."""

    OVER = 0
    TIME = 1
    INTERRUPT = 2


class _Watch:
    """A started child and what is in its session: waits for them without a busy loop, and ends them."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        interrupts: Interrupts,
        on_wait: Callable[[float], None] | None,
        poll_s: float,
        started_s: float,
    ) -> None:
        self.pid = child.pid
        self.survivors: set[int] = set()
        self.last_signal_sent: str | None = None
        self.ended_s: float | None = None
        self._child = child
        self._interrupts = interrupts
        self._on_wait = on_wait
        self._poll_s = poll_s
        self._started_s = started_s
        self._pidfd: int | None = None
        with contextlib.suppress(OSError, AttributeError):  # Linux before 5.3, sandboxes; then the pauses are slept
            self._pidfd = os.pidfd_open(child.pid)

    def run(self, request: ProcessRequest) -> Stop:
        """Wait for the end of the child, or make it end; then for the end of what it left behind."""
        stop_steps = (
            (signal.SIGINT, request.interrupt_grace_s),
            (signal.SIGTERM, request.terminate_grace_s),
            *[(signal.SIGKILL, _KILL_GRACE_S)] * _KILL_TRIES,
        )
        try:
            deadline_s = None if request.deadline_s is None else self._started_s + request.deadline_s
            woke = self._wait(deadline_s, self._has_ended)
            if woke is _Wake.OVER:
                # Workers may still be writing, and a signal would cost them their data.
                was_interrupted = self._climb(((None, request.terminate_grace_s), *stop_steps))
            else:
                was_interrupted = self._climb(stop_steps) or woke is _Wake.INTERRUPT
        except BaseException:  # from on_wait, or from a signal handler of the caller's
            self._on_wait = None
            try:
                self._climb(stop_steps)
            finally:
                if not self._is_empty():
                    self._send(signal.SIGKILL)
            raise
        if was_interrupted:
            return Stop.INTERRUPT
        return Stop.NONE if woke is _Wake.OVER else Stop.DEADLINE

    def close(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _climb(self, steps: Sequence[tuple[signal.Signals | None, float]]) -> bool:
        """Send one signal after the other, each with its grace, until all have ended; whether an interrupt came."""
        was_interrupted = False
        for number, grace_s in steps:
            if self._is_empty():
                break
            if number is not None:
                self._send(number)
            if self._wait(time.monotonic() + grace_s, self._is_empty) is _Wake.INTERRUPT:
                was_interrupted = True
        return was_interrupted

    def _wait(self, until_s: float | None, is_over: Callable[[], bool]) -> _Wake:
        while not is_over():
            if self._interrupts.take():
                return _Wake.INTERRUPT
            now_s = time.monotonic()
            if until_s is not None and now_s >= until_s:
                return _Wake.TIME
            try:
                self._pause(self._poll_s if until_s is None else min(self._poll_s, until_s - now_s))
                if self._on_wait is not None:
                    self._on_wait(time.monotonic() - self._started_s)
            except KeyboardInterrupt:  # raised by on_wait, or by a signal handler of the caller's
                self._interrupts.note()
        return _Wake.OVER

    def _pause(self, seconds: float) -> None:
        """Sleep, but not beyond the end of the child."""
        if self._pidfd is None or self._child.returncode is not None:
            time.sleep(seconds)
        else:
            poller = select.poll()
            poller.register(self._pidfd, select.POLLIN)
            poller.poll(seconds * 1000)

    def _has_ended(self) -> bool:
        if self._child.poll() is None:
            return False
        if self.ended_s is None:
            self.ended_s = time.monotonic()
        return True

    def _is_empty(self) -> bool:
        return self._has_ended() and not _session_members(self.pid)

    def _send(self, number: signal.Signals) -> None:
        has_ended = self._has_ended()
        groups = set() if has_ended else {self.pid}
        members = _session_members(self.pid) if has_ended or number is signal.SIGKILL else {}
        groups |= set(members.values())
        if has_ended:
            self.survivors |= set(members)
        if groups:
            self.last_signal_sent = number.name
            _signal_groups(groups, number)


def _require_sensible(request: ProcessRequest, poll_s: float) -> None:
    """Refuse what would fail in a way that is hard to understand."""
    if poll_s <= 0:
        raise UsageError("bad-poll", f"the time between two looks at a process must be positive, not {poll_s:g} s")
    if request.deadline_s is not None and request.deadline_s <= 0:
        raise UsageError("bad-deadline", f"a deadline must lie after the start, not at {request.deadline_s:g} s")
    if request.stdout_path == request.stderr_path:
        raise UsageError("one-log", "stdout and stderr need a file each", where=str(request.stdout_path))
    if not (request.cwd.is_dir() and os.access(request.cwd, os.X_OK)):
        raise UsageError("no-such-folder", f"{request.cwd} is not a folder that a program can be started in")


def _start_with_logs(request: ProcessRequest) -> subprocess.Popen[bytes]:
    """Start the program with two new logs; where it cannot be started, none is left behind."""
    created: list[Path] = []
    with contextlib.ExitStack() as stack:
        descriptors = []
        try:
            for path in (request.stdout_path, request.stderr_path):
                descriptors.append(_create_log(path))
                stack.callback(os.close, descriptors[-1])
                created.append(path)
            return _start(
                request.argv,
                env=request.env,
                cwd=request.cwd,
                stdout=descriptors[0],
                stderr=descriptors[1],
                inherited=request.inherited_descriptors,
            )
        except BaseException:
            for path in created:
                path.unlink(missing_ok=True)
            raise


def _create_log(path: Path) -> int:
    """Descriptor of a new file. Appending: what somebody else appends, through /dev/stderr, is not written over."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except FileExistsError as error:
        raise UsageError("log-exists", f"{path} exists, and no log is overwritten", hint="name a new folder") from error
    except OSError as error:
        raise UsageError("log-not-writable", f"{path} cannot be created: {error.strerror}") from error


def _start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    stdout: int,
    stderr: int,
    inherited: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, which makes it the leader of a group too."""
    if not argv or not argv[0]:
        raise UsageError("no-command", "there is no program to start")
    try:
        return subprocess.Popen(
            list(argv),
            env=None if env is None else dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=tuple(inherited),
        )
    except ValueError as error:  # a zero byte, or a name with "=" in the environment
        raise UsageError("bad-command", f"{argv[0]} cannot be started: {error}", where=shlex.join(argv)) from error
    except OSError as error:
        path = None if env is None else env.get("PATH", os.defpath)
        raise _start_error(argv[0], path, cwd or Path(), error) from error


def _start_error(name: str, path: str | None, cwd: Path, error: OSError) -> CaptureError:
    """What the operating system meant. Its message for a script without its interpreter is `No such file`."""
    if os.sep in name:
        found = str(cwd / name) if (cwd / name).exists() else None
    else:
        found = shutil.which(name, mode=os.F_OK, path=path)
    place = name if os.sep in name else "PATH" if path is None else f"PATH={path}"
    if found is None and error.errno in (errno.ENOENT, errno.ENOTDIR):
        return ToolNotFound("tool-not-found", f"{name} was not found", where=place, hint="give its full path")
    if error.errno not in _START_ERRORS:
        return CaptureError("cannot-start", f"{name} could not be started: {error.strerror}", where=place)
    reference, what, hint = _START_ERRORS[error.errno]
    return CaptureError(reference, f"{name} {what}", where=found or place, hint=hint)


def _session_members(session: int) -> dict[int, int]:
    """Process id -> process group of the live processes in a session; empty where there is no /proc."""
    members = {}
    with contextlib.suppress(FileNotFoundError), os.scandir("/proc") as entries:
        for entry in entries:
            if not entry.name.isdigit():
                continue
            try:
                stat = (Path(entry.path) / "stat").read_bytes()
            except OSError:  # it has ended meanwhile
                continue
            # pid (name) state parent group session ...; the name may hold anything, so look behind its last bracket.
            state, _, group, its_session = stat.rpartition(b")")[2].split(None, 4)[:4]
            if int(its_session) == session and state not in (b"Z", b"X"):
                members[int(entry.name)] = int(group)
    return members


def _signal_groups(groups: set[int], number: signal.Signals) -> None:
    for group in groups:
        if group > 1:  # 0 would be our own, 1 everything
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)


def _kill_session(child: subprocess.Popen[bytes]) -> None:
    its_own = set() if child.returncode is not None else {child.pid}
    _signal_groups(its_own | set(_session_members(child.pid).values()), signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # one that waits for a driver cannot be killed
        child.wait(5.0)


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", errors="replace")
