"""Outcomes: who ended the run, and the sentence that says so."""

from __future__ import annotations

import pytest

from rocktools.capture.outcome import Outcome, classify
from rocktools.process import ProcessResult, Stop

FATAL_LINE = (
    "F20260709 10:11:12.131415 140594547236416 tool.cpp:1514] Could not construct profile cfg failed with error code "
    "38: Request exceeds the capabilities of the hardware to collect\n*** Check failure stack trace: ***\n"
)
XLA_FATAL_LINE = (
    "F0000 00:00:1786848211.450142 3821845 shape.h:852] Check failed: buffer != nullptr ((null) vs. (null))\n"
)
USAGE = "usage: rocprofv3 [-h] [-v] [-i INPUT]\nrocprofv3: error: unrecognized arguments: --kernel-include\n"
LAUNCHER_TRACEBACK = """\
Traceback (most recent call last):
  File "/opt/rocm/bin/rocprofv3", line 1694, in <module>
    ec = main(sys.argv[1:])
  File "/opt/rocm/bin/rocprofv3", line 1650, in run
    os.execvpe(app_args[0], app_args, env=app_env)
  File "<frozen os>", line 590, in execvpe
FileNotFoundError: [Errno 2] No such file or directory: './train'
"""
APPLICATION_TRACEBACK = """\
Traceback (most recent call last):
  File "/home/user/train.py", line 12, in <module>
    main()
  File "/opt/venv/lib/python3.12/site-packages/jax/_src/api.py", line 1, in wrapper
ValueError: bad shape
"""


def result(
    exit_code: int | None = None,
    signal_number: int | None = None,
    stopped_by: Stop = Stop.NONE,
    program: str = "/opt/rocm/bin/rocprofv3",
) -> ProcessResult:
    return ProcessResult(
        argv=(program, "--kernel-trace", "--", "python", "train.py"),
        pid=4711,
        exit_code=exit_code,
        signal_number=signal_number,
        started_utc="2026-01-02T03:04:05.678+00:00",
        duration_s=12.34,
        stopped_by=stopped_by,
        last_signal_sent=None,
        survivors_killed_count=0,
    )


CASES = [
    ("good end", result(0), "", Outcome.SUCCESS, "exit code 0"),
    ("good end with a worker's abort", result(0), FATAL_LINE, Outcome.SUCCESS, "exit code 0"),
    (
        "argparse of the tool",
        result(2),
        USAGE,
        Outcome.USAGE,
        "rocprofv3 refused its arguments: unrecognized arguments: --kernel-include (exit code 2)",
    ),
    (
        "argparse of a subcommand",
        result(2, program="rocprofv3-avail"),
        "usage: rocprofv3-avail list [-h]\nrocprofv3-avail list: error: unrecognized arguments: -d 0\n",
        Outcome.USAGE,
        "rocprofv3-avail refused its arguments: unrecognized arguments: -d 0 (exit code 2)",
    ),
    (
        "usage without a reason",
        result(2),
        "usage: rocprofv3 [-h]\n",
        Outcome.USAGE,
        "rocprofv3 refused its arguments (exit code 2)",
    ),
    (
        "argparse of a tool with another name",
        result(2, program="/opt/bin/my-tool"),
        "usage: my-tool [-h]\nmy-tool: error: no\n",
        Outcome.USAGE,
        "my-tool refused its arguments: no (exit code 2)",
    ),
    (
        "argparse of the application",
        result(2),
        "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --x\n",
        Outcome.APPLICATION,
        "the application failed: exit code 2",
    ),
    ("2 without usage", result(2), "", Outcome.APPLICATION, "the application failed: exit code 2"),
    (
        "launcher before 1.3",
        result(1),
        "Fatal error: No application provided\n",
        Outcome.LAUNCHER,
        "the launcher gave up: No application provided (exit code 1)",
    ),
    (
        "launcher since 1.3",
        result(1),
        "[rocprofv3] Warning: x\n[rocprofv3] Fatal error: No application provided\n",
        Outcome.LAUNCHER,
        "the launcher gave up: No application provided (exit code 1)",
    ),
    (
        "program that does not exist",
        result(1),
        LAUNCHER_TRACEBACK,
        Outcome.LAUNCHER,
        "the launcher gave up: FileNotFoundError: [Errno 2] No such file or directory: './train' (exit code 1)",
    ),
    (
        "traceback of the application",
        result(1),
        APPLICATION_TRACEBACK,
        Outcome.APPLICATION,
        "the application failed: exit code 1",
    ),
    ("1 without a word", result(1), "", Outcome.APPLICATION, "the application failed: exit code 1"),
    (
        "fatal text of another exit code",
        result(3),
        "Fatal error: out of cheese\n",
        Outcome.APPLICATION,
        "the application failed: exit code 3",
    ),
    (
        "tool, by signal",
        result(signal_number=6),
        FATAL_LINE,
        Outcome.TOOL_ABORT,
        "the profiler aborted: Could not construct profile cfg failed with error code 38: "
        "Request exceeds the capabilities of the hardware to collect (ended by SIGABRT)",
    ),
    (
        "tool, through a shell",
        result(134),
        "F0709 10:11:12.131415 4711 config.cpp:212] bad range format for '3-x'. Expected [A-B]\n",
        Outcome.TOOL_ABORT,
        "the profiler aborted: bad range format for '3-x'. Expected [A-B] (exit code 134, as after SIGABRT)",
    ),
    (
        "tool in a worker, whose parent gives up",
        result(1),
        FATAL_LINE + APPLICATION_TRACEBACK,
        Outcome.TOOL_ABORT,
        "the profiler aborted: Could not construct profile cfg failed with error code 38: "
        "Request exceeds the capabilities of the hardware to collect (exit code 1)",
    ),
    (
        "abort of XLA",
        result(signal_number=6),
        XLA_FATAL_LINE,
        Outcome.APPLICATION,
        "the application failed: ended by SIGABRT",
    ),
    (
        "abort that the tool only saw",
        result(signal_number=6),
        "W20250616 14:24:55.973751 123488 tool.cpp:1902] rocprofv3_error_signal_handler caught signal 6...\n",
        Outcome.APPLICATION,
        "the application failed: ended by SIGABRT",
    ),
    ("crash", result(signal_number=11), "", Outcome.APPLICATION, "the application failed: ended by SIGSEGV"),
    (
        "crash, through a shell",
        result(139),
        "",
        Outcome.APPLICATION,
        "the application failed: exit code 139, as after SIGSEGV",
    ),
    ("code above all signals", result(255), "", Outcome.APPLICATION, "the application failed: exit code 255"),
    (
        "signal without a name",
        result(signal_number=40),
        "",
        Outcome.APPLICATION,
        "the application failed: ended by signal 40",
    ),
    (
        "deadline",
        result(signal_number=9, stopped_by=Stop.DEADLINE),
        "",
        Outcome.TIMEOUT,
        "stopped at its deadline, after 12.3 s: ended by SIGKILL",
    ),
    (
        "deadline, and it ended well in its grace",
        result(0, stopped_by=Stop.DEADLINE),
        "",
        Outcome.TIMEOUT,
        "stopped at its deadline, after 12.3 s: exit code 0",
    ),
    (
        "hang after an abort",
        result(signal_number=9, stopped_by=Stop.DEADLINE),
        "F0709 10:11:12.131415 4711 queue.cpp:7] no queue\n",
        Outcome.TIMEOUT,
        "stopped at its deadline, after 12.3 s: ended by SIGKILL; before that the profiler aborted: no queue",
    ),
    (
        "process that cannot be killed",
        result(stopped_by=Stop.DEADLINE),
        "",
        Outcome.TIMEOUT,
        "stopped at its deadline, after 12.3 s: process 4711 did not end, not even after SIGKILL; "
        "it may wait for a GPU that needs a reset",
    ),
    (
        "interrupt",
        result(signal_number=2, stopped_by=Stop.INTERRUPT),
        USAGE,
        Outcome.INTERRUPTED,
        "interrupted after 12.3 s: ended by SIGINT",
    ),
]


@pytest.mark.parametrize(
    "ended, text, outcome, sentence", [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_outcome_and_its_sentence(ended, text, outcome, sentence):
    assert classify(ended, text) == (outcome, sentence)


def test_every_outcome_occurs_above():
    assert {case[3] for case in CASES} == set(Outcome)


def test_launcher_of_a_wheel_is_the_launcher_too():
    text = LAUNCHER_TRACEBACK.replace("/opt/rocm/bin/rocprofv3", "/opt/venv/lib/site-packages/rocm_sdk_core/_cli.py")
    outcome, _ = classify(result(1, program="/opt/venv/bin/rocprofv3"), text)
    assert outcome is Outcome.LAUNCHER


@pytest.mark.parametrize("program, outcome", [("python", Outcome.LAUNCHER), ("data.csv", Outcome.APPLICATION)])
def test_program_that_cannot_be_started_is_the_launcher_s_wherever_its_files_are(program, outcome):
    text = f"""\
Traceback (most recent call last):
  File "/elsewhere/main.py", line 1, in <module>
FileNotFoundError: [Errno 2] No such file or directory: {program!r}
"""
    assert classify(result(1), text)[0] is outcome


def test_last_of_several_tracebacks_counts():
    outcome, _ = classify(result(1), LAUNCHER_TRACEBACK + APPLICATION_TRACEBACK)
    assert outcome is Outcome.APPLICATION


def test_outcome_reads_as_its_value():
    assert f"{Outcome.TOOL_ABORT}" == "tool_abort"
