"""Real children: how they end, how they are made to end, what they leave behind.

Where a test needs a child that is deaf to a signal from its first moment, the signal is blocked here while the child
starts, which is inherited. Everything else is waited for; no assertion rests on a fixed sleep.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rocktools import process
from rocktools.errors import CaptureError, ToolFailed, ToolNotFound, UsageError
from rocktools.process import ProcessRequest, Stop, find_executable, read_output, run_process

REPOSITORY = Path(__file__).resolve().parents[1]
PATIENCE_S = 60.0  # far more than anything takes, even on a machine that does ten other things


def request(folder: Path, code: str, **options) -> ProcessRequest:
    """A request for `python -c code`, run in `folder`, with short graces."""
    settings = {"interrupt_grace_s": 0.2, "terminate_grace_s": 0.2, "env": dict(os.environ)} | options
    return ProcessRequest(
        argv=settings.pop("argv", (sys.executable, "-S", "-c", code)),
        cwd=folder,
        stdout_path=folder / "stdout.txt",
        stderr_path=folder / "stderr.txt",
        **settings,
    )


def run(folder: Path, code: str, on_wait=None, **options):
    return run_process(request(folder, code, **options), on_wait=on_wait, poll_s=0.01)


def wait_for(is_so, what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end_s, f"waited in vain for {what}"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def interrupt_when(path: Path):
    """For on_wait: interrupts once, as soon as the child has made a file."""
    done = []

    def on_wait(_elapsed_s: float) -> None:
        if path.exists() and not done:
            done.append(path)
            raise KeyboardInterrupt

    return on_wait


@contextlib.contextmanager
def deaf_children(*numbers: signal.Signals):
    """Children that are started inside have these signals blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def disposition(number: signal.Signals, handler):
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


SLEEPER = "import time; time.sleep(600)"
GRANDCHILD = f"""
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-S", "-c", {SLEEPER!r}]{{options}})
print(worker.pid, flush=True)
"""


# How a child ends by itself.


@pytest.mark.parametrize("code", [0, 1, 3, 134, 255])
def test_exit_code_is_passed_on(tmp_path, code):
    result = run(tmp_path, f"raise SystemExit({code})")
    assert (result.exit_code, result.signal_number, result.stopped_by) == (code, None, Stop.NONE)
    assert (result.last_signal_sent, result.survivors_killed_count) == (None, 0)


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL, signal.SIGINT])
def test_signal_that_ended_it_is_passed_on(tmp_path, number):
    code = f"import os, resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); \
signal.signal({number:d}, signal.SIG_DFL) if {number:d} != 9 else None; os.kill(os.getpid(), {number:d})"
    result = run(tmp_path, code)
    assert (result.exit_code, result.signal_number, result.stopped_by) == (None, number, Stop.NONE)


def test_exit_code_is_right_where_somebody_had_us_ignore_the_end_of_children(tmp_path):
    with disposition(signal.SIGCHLD, signal.SIG_IGN):
        assert run(tmp_path, "raise SystemExit(3)").exit_code == 3


def test_output_goes_to_the_two_files(tmp_path):
    megabyte = (
        "import sys; [stream.write('x' * 79 + '\\n') for stream in (sys.stdout, sys.stderr) for _ in range(13108)]"
    )
    result = run(tmp_path, megabyte)
    assert result.exit_code == 0
    assert (tmp_path / "stdout.txt").stat().st_size == 13108 * 80
    assert (tmp_path / "stderr.txt").read_text() == ("x" * 79 + "\n") * 13108


def test_what_a_child_appends_by_the_name_of_its_stderr_is_not_written_over(tmp_path):
    run(tmp_path, "import os; os.write(2, b'1\\n'); open('/dev/stderr', 'a').write('2\\n'); os.write(2, b'3\\n')")
    assert (tmp_path / "stderr.txt").read_text() == "1\n2\n3\n"


def test_child_reads_nothing_and_leads_a_session_of_its_own(tmp_path):
    result = run(tmp_path, "import os, sys; print(repr(sys.stdin.read()), os.getpid(), os.getsid(0), os.getpgrp())")
    assert (tmp_path / "stdout.txt").read_text().split() == ["''", *[str(result.pid)] * 3]


def test_environment_is_the_given_one_and_its_path_finds_the_program(tmp_path):
    program = tmp_path / "printer"
    program.write_text("#!/bin/sh\nexec /usr/bin/env\n")
    program.chmod(0o755)
    run(tmp_path, "", argv=("printer",), env={"PATH": str(tmp_path), "ONLY": "this"})
    printed = (tmp_path / "stdout.txt").read_text().splitlines()
    assert {f"PATH={tmp_path}", "ONLY=this"} <= set(printed)
    assert not any(line.startswith("HOME=") for line in printed)


def test_start_and_duration_are_told(tmp_path):
    result = run(tmp_path, "import time; time.sleep(0.2)")
    assert result.started_utc.endswith("+00:00")
    assert 0.2 <= result.duration_s < PATIENCE_S


def test_on_wait_hears_the_time_since_the_start(tmp_path):
    heard: list[float] = []

    def on_wait(elapsed_s: float) -> None:
        heard.append(elapsed_s)
        if len(heard) == 3:
            (tmp_path / "go").touch()

    run(tmp_path, "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)", on_wait)
    assert len(heard) >= 3
    assert heard == sorted(heard)


def test_waiting_takes_no_processor_time(tmp_path):
    before_s = time.process_time()
    result = run_process(request(tmp_path, "import time; time.sleep(0.5)"), poll_s=0.1)
    assert time.process_time() - before_s < result.duration_s / 2


def test_waiting_works_without_a_descriptor_of_the_process(tmp_path, monkeypatch):
    def refuse(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert run(tmp_path, "raise SystemExit(4)").exit_code == 4


# The deadline.


def test_deadline_interrupts_the_child(tmp_path):
    result = run(tmp_path, SLEEPER, deadline_s=0.2, interrupt_grace_s=PATIENCE_S)
    assert (result.stopped_by, result.last_signal_sent) == (Stop.DEADLINE, "SIGINT")
    assert result.signal_number == signal.SIGINT


def test_child_that_ends_in_its_grace_keeps_its_exit_code(tmp_path):
    code = """
import signal, sys, time
def finish(*_): print("written"); sys.exit(7)
signal.signal(signal.SIGINT, finish)
open("ready", "w")
time.sleep(600)
"""
    result = run(tmp_path, code, interrupt_when(tmp_path / "ready"), interrupt_grace_s=PATIENCE_S)
    assert (result.exit_code, result.stopped_by, result.last_signal_sent) == (7, Stop.INTERRUPT, "SIGINT")
    assert (tmp_path / "stdout.txt").read_text() == "written\n"


def test_child_deaf_to_sigint_gets_sigterm(tmp_path):
    with deaf_children(signal.SIGINT):
        result = run(tmp_path, SLEEPER, deadline_s=0.1, terminate_grace_s=PATIENCE_S)
    assert (result.stopped_by, result.last_signal_sent) == (Stop.DEADLINE, "SIGTERM")
    assert result.signal_number == signal.SIGTERM


def test_child_deaf_to_both_is_killed(tmp_path):
    with deaf_children(signal.SIGINT, signal.SIGTERM):
        result = run(tmp_path, SLEEPER, deadline_s=0.1)
    assert (result.stopped_by, result.last_signal_sent) == (Stop.DEADLINE, "SIGKILL")
    assert (result.exit_code, result.signal_number) == (None, signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_child_that_cannot_be_killed_does_not_hold_us_forever(tmp_path, monkeypatch):
    """As one that waits for a wedged GPU: no signal reaches it."""
    monkeypatch.setattr(process, "_signal_groups", lambda _groups, _number: None)
    monkeypatch.setattr(process, "_KILL_TRIES", 2)
    monkeypatch.setattr(process, "_KILL_GRACE_S", 0.05)
    result = run(tmp_path, SLEEPER, deadline_s=0.1)
    try:
        assert (result.exit_code, result.signal_number, result.last_signal_sent) == (None, None, "SIGKILL")
        assert is_alive(result.pid)
    finally:
        os.kill(result.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(result.pid, 0)


# What a child leaves behind.


@pytest.mark.parametrize(
    "options",
    [
        pytest.param("", id="in its group"),
        pytest.param(", preexec_fn=__import__('os').setpgrp", id="in a group of its own"),
    ],
)
def test_grandchild_that_outlives_the_child_is_ended_and_counted(tmp_path, options):
    result = run(tmp_path, GRANDCHILD.format(options=options))
    assert (result.exit_code, result.stopped_by, result.survivors_killed_count) == (0, Stop.NONE, 1)
    assert not is_alive(int((tmp_path / "stdout.txt").read_text()))
    assert result.duration_s < 0.2 + PATIENCE_S


def test_deaf_grandchild_is_killed(tmp_path):
    with deaf_children(signal.SIGINT, signal.SIGTERM):
        result = run(tmp_path, GRANDCHILD.format(options=""))
    assert (result.last_signal_sent, result.survivors_killed_count) == ("SIGKILL", 1)
    assert not is_alive(int((tmp_path / "stdout.txt").read_text()))


def test_grandchild_that_ends_soon_is_left_in_peace(tmp_path):
    code = """
import subprocess, sys
subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(0.3); open('written', 'w')"])
"""
    result = run(tmp_path, code, terminate_grace_s=PATIENCE_S)
    assert (tmp_path / "written").exists()
    assert (result.last_signal_sent, result.survivors_killed_count) == (None, 0)


def test_worker_that_still_writes_is_not_interrupted_twice(tmp_path):
    """A second signal would make rocprofv3 die without its database."""
    worker = """
import signal, time
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
open("ready", "w")
while not heard: time.sleep(0.01)
time.sleep(0.3)
open("written", "w").write(str(len(heard)))
"""
    code = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-S", "-c", {worker!r}])
{SLEEPER}
"""
    result = run(tmp_path, code, interrupt_when(tmp_path / "ready"), interrupt_grace_s=PATIENCE_S)
    assert (tmp_path / "written").read_text() == "1"
    assert (result.signal_number, result.last_signal_sent) == (signal.SIGINT, "SIGINT")
    assert result.survivors_killed_count == 0


def test_nothing_is_left_open_and_no_zombie_stays(tmp_path):
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    ended = run(tmp_path / "a", "")
    stopped = run(tmp_path / "b", SLEEPER, deadline_s=0.1)
    with pytest.raises(ToolNotFound):
        run(tmp_path, "", argv=("no-such-program",))
    with pytest.raises(ToolFailed):
        read_output((sys.executable, "-S", "-c", SLEEPER), timeout_s=0.1)
    assert descriptors() == before
    for pid in (ended.pid, stopped.pid):
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


# Interrupts of ourselves. The driver is a process of its own, its output is a pipe.

DRIVER = """
import dataclasses, json, os, sys
from pathlib import Path
from rocktools.process import ProcessRequest, run_process
folder = Path(sys.argv[1])
result = run_process(ProcessRequest(
    argv=(sys.executable, "-S", "-c", sys.argv[2]), env=dict(os.environ), cwd=folder,
    stdout_path=folder / "stdout.txt", stderr_path=folder / "stderr.txt", interrupt_grace_s=60, terminate_grace_s=60,
), poll_s=0.01)
print(json.dumps(dataclasses.asdict(result)))
"""

# Makes the file `ready`; at SIGINT `interrupted-n`; ends on its own terms, with the number of SIGINTs as exit code.
COUNTER = """
import os, signal, sys, time
heard = []
def note(*_):
    heard.append(1)
    open("interrupted-" + str(len(heard)), "w")
signal.signal(signal.SIGINT, note)
open("ready", "w")
while not {end}: time.sleep(0.01)
sys.exit(len(heard))
"""


@contextlib.contextmanager
def driver(folder: Path, code: str):
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", DRIVER, str(folder), code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            wait_for((folder / "ready").exists, "the child of the driver")
            yield running
        finally:
            running.kill()


def ended(running: subprocess.Popen) -> dict:
    """What the driver said, which must have ended cleanly."""
    printed, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0
    return json.loads(printed)


def test_interrupt_ends_the_child_and_then_the_caller_goes_on(tmp_path):
    with driver(tmp_path, COUNTER.format(end="heard")) as running:
        running.send_signal(signal.SIGINT)
        result = ended(running)
    assert (result["exit_code"], result["stopped_by"], result["last_signal_sent"]) == (1, "interrupt", "SIGINT")


def test_second_interrupt_goes_to_the_next_step_at_once(tmp_path):
    with driver(tmp_path, COUNTER.format(end="False")) as running:
        running.send_signal(signal.SIGINT)
        wait_for((tmp_path / "interrupted-1").exists, "the first step")
        time.sleep(0.25)  # closer together they count as one
        running.send_signal(signal.SIGINT)
        result = ended(running)
    assert (result["signal_number"], result["stopped_by"], result["last_signal_sent"]) == (15, "interrupt", "SIGTERM")
    assert not (tmp_path / "interrupted-2").exists()


def test_interrupt_that_arrives_twice_at_once_counts_once(tmp_path):
    with driver(tmp_path, COUNTER.format(end="os.path.exists('end')")) as running:
        running.send_signal(signal.SIGINT)
        running.send_signal(signal.SIGINT)
        wait_for((tmp_path / "interrupted-1").exists, "the first step")
        (tmp_path / "end").touch()
        result = ended(running)
    assert (result["exit_code"], result["last_signal_sent"]) == (1, "SIGINT")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_us_ends_the_child_too(tmp_path, number):
    with driver(tmp_path, COUNTER.format(end="heard")) as running:
        running.send_signal(number)
        result = ended(running)
    assert (result["exit_code"], result["stopped_by"]) == (1, "interrupt")


def test_interrupt_while_leftovers_are_waited_for_is_told(tmp_path):
    code = GRANDCHILD.format(options="") + "import os; print(os.getpid(), flush=True); open('ready', 'w')"
    with driver(tmp_path, code) as running:
        left, child = map(int, (tmp_path / "stdout.txt").read_text().split())
        wait_for(lambda: not is_alive(child), "the end of the child")
        running.send_signal(signal.SIGINT)
        result = ended(running)
    assert (result["exit_code"], result["stopped_by"], result["survivors_killed_count"]) == (0, "interrupt", 1)
    assert not is_alive(left)


def test_handlers_are_as_before(tmp_path):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
    before = [signal.getsignal(number) for number in numbers]
    run(tmp_path, "")
    assert [signal.getsignal(number) for number in numbers] == before


def test_child_of_a_background_job_still_hears_interrupts(tmp_path):
    """A shell starts background jobs of scripts with SIGINT ignored, and that would be inherited."""
    with disposition(signal.SIGINT, signal.SIG_IGN):
        run(tmp_path, "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)")
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert (tmp_path / "stdout.txt").read_text() == "True\n"


def test_interrupt_through_a_handler_of_the_caller_counts_too(tmp_path):
    def handler(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    sent = []

    def on_wait(_elapsed_s: float) -> None:
        if (tmp_path / "ready").exists() and not sent:
            sent.append(1)
            os.kill(os.getpid(), signal.SIGINT)

    with disposition(signal.SIGINT, handler):
        result = run(tmp_path, COUNTER.format(end="heard"), on_wait, interrupt_grace_s=PATIENCE_S)
        assert signal.getsignal(signal.SIGINT) is handler
    assert (result.exit_code, result.stopped_by) == (1, Stop.INTERRUPT)


def test_child_does_not_outlive_an_error_of_the_caller(tmp_path):
    pids = []

    def on_wait(_elapsed_s: float) -> None:
        if (tmp_path / "ready").exists():
            pids.append(int((tmp_path / "ready").read_text() or 0))
            raise ZeroDivisionError

    code = f"import os; open('.ready', 'w').write(str(os.getpid())); os.rename('.ready', 'ready'); {SLEEPER}"
    with pytest.raises(ZeroDivisionError):
        run(tmp_path, code, on_wait)
    assert len(pids) == 1
    assert not is_alive(pids[0])


def test_other_threads_can_run_processes_with_a_deadline(tmp_path):
    results = []
    thread = threading.Thread(target=lambda: results.append(run(tmp_path, SLEEPER, deadline_s=0.1)))
    thread.start()
    thread.join(PATIENCE_S)
    assert [result.stopped_by for result in results] == [Stop.DEADLINE]


# What cannot be started.


@pytest.mark.parametrize("name", ["stdout.txt", "stderr.txt"])
def test_log_that_exists_is_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("of an earlier run")
    with pytest.raises(UsageError, match="log-exists") as caught:
        run(tmp_path, "print('new')")
    assert str(tmp_path / name) in str(caught.value)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "of an earlier run"}


@pytest.mark.parametrize("program", ["no-such-program", "./no-such-program", "/no/such/program"])
def test_missing_program_is_named_and_leaves_no_log(tmp_path, program):
    with pytest.raises(ToolNotFound, match=f"tool-not-found: {program} was not found"):
        run(tmp_path, "", argv=(program, "--version"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text, mode, reference",
    [
        pytest.param("#!/no/such/interpreter\n", 0o755, "no-interpreter", id="script without interpreter"),
        pytest.param("#!/bin/sh\n", 0o644, "not-executable", id="script that is not executable"),
        pytest.param("echo\n", 0o755, "not-a-program", id="script without first line"),
    ],
)
@pytest.mark.parametrize("is_in_path", [True, False])
def test_program_that_cannot_be_started_is_told_from_one_that_is_missing(tmp_path, text, mode, reference, is_in_path):
    script = tmp_path / "script"
    script.write_text(text)
    script.chmod(mode)
    name = "script" if is_in_path else "./script"
    with pytest.raises(CaptureError, match=f"{reference}: {name} ") as caught:
        run(tmp_path, "", argv=(name,), env={"PATH": str(tmp_path)})
    assert not isinstance(caught.value, ToolNotFound)
    assert caught.value.where == str(script)
    assert list(tmp_path.iterdir()) == [script]


@pytest.mark.parametrize(
    "changes, reference",
    [
        pytest.param({"argv": ()}, "no-command", id="no program"),
        pytest.param({"argv": ("true", "a\0b")}, "bad-command", id="zero byte"),
        pytest.param({"argv": ("true",), "env": {"A=B": "1"}}, "bad-command", id="impossible name"),
        pytest.param({"deadline_s": 0.0}, "bad-deadline", id="deadline"),
    ],
)
def test_impossible_request_is_refused(tmp_path, changes, reference):
    with pytest.raises(UsageError, match=reference):
        run(tmp_path, "", **changes)
    assert list(tmp_path.iterdir()) == []


def test_folders_that_do_not_exist_are_named(tmp_path):
    with pytest.raises(UsageError, match="no-such-folder"):
        run(tmp_path / "absent", "")
    elsewhere = ProcessRequest(
        argv=("true",), env={}, cwd=tmp_path, stdout_path=tmp_path / "absent/out", stderr_path=tmp_path / "err"
    )
    with pytest.raises(UsageError, match="log-not-writable"):
        run_process(elsewhere)


def test_both_outputs_need_a_file_each(tmp_path):
    shared = ProcessRequest(
        argv=("true",), env={}, cwd=tmp_path, stdout_path=tmp_path / "log", stderr_path=tmp_path / "log"
    )
    with pytest.raises(UsageError, match="one-log"):
        run_process(shared)


# Tools that answer in a moment.


def test_answer_and_exit_code_are_read():
    code = "import sys; print('answer'); print('remark', file=sys.stderr); sys.exit(3)"
    answer = read_output([sys.executable, "-S", "-c", code])
    assert (answer.exit_code, answer.stdout, answer.stderr) == (3, "answer\n", "remark\n")
    assert answer.argv[0] == sys.executable


def test_signal_reads_as_a_shell_reports_it():
    assert read_output(["sh", "-c", "kill -TERM $$"]).exit_code == 128 + 15


def test_bytes_that_are_no_text_are_replaced():
    assert read_output(["printf", r"a\377b"]).stdout == "a\ufffdb"


def test_tool_gets_the_given_environment():
    assert read_output(["/usr/bin/env"], env={"ONLY": "this"}).stdout == "ONLY=this\n"


def test_tool_that_leaves_a_child_behind_does_not_make_us_wait():
    answer = read_output(["sh", "-c", "sleep 600 & echo $!"], timeout_s=PATIENCE_S)
    pid = int(answer.stdout)
    assert is_alive(pid)  # a daemon may be what it is for
    os.kill(pid, signal.SIGKILL)


def test_tool_that_hangs_is_killed_with_its_children(tmp_path):
    pid_file = tmp_path / "pid"
    command = ["sh", "-c", f"trap '' INT TERM; sleep 600 & echo $! > {pid_file}; wait"]
    for timeout_s in (0.2, 2.0, 20.0):  # a slow machine may not have started the second one in the first time
        with pytest.raises(ToolFailed, match="tool-timeout: sh gave no answer within") as caught:
            read_output(command, timeout_s=timeout_s)
        if pid_file.exists() and pid_file.read_text():
            break
    assert caught.value.where is not None
    assert "sleep 600" in caught.value.where
    wait_for(lambda: not is_alive(int(pid_file.read_text())), "the end of the grandchild")


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program"])
def test_missing_tool_is_named(program):
    with pytest.raises(ToolNotFound, match=program):
        read_output([program])


def test_executable_is_the_first_in_the_path_that_can_be_run(tmp_path):
    for folder, mode in (("a", 0o644), ("b", 0o755), ("c", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").write_text("#!/bin/sh\n")
        (tmp_path / folder / "tool").chmod(mode)
    path = ":".join(str(tmp_path / folder) for folder in ("absent", "a", "b", "c"))
    assert find_executable("tool", path=path) == tmp_path / "b/tool"
    assert find_executable(str(tmp_path / "c/tool"), path="") == tmp_path / "c/tool"
    assert find_executable("tool", path=str(tmp_path / "a")) is None
    assert find_executable("tool", path="") is None
