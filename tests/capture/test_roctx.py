"""ROCTx calls and the window of profiled steps: on a recorder, on a compiled stand-in library, and as a lone file."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from rocktools.capture import roctx

SOURCE = Path(roctx.__file__)

# What the real library exports, writing each call to $ROCTX_LOG; resume and pause return $ROCTX_CODE.
FAKE_C = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int level = 0;

static void note(const char* what, const char* text, uint64_t number) {
    FILE* file = fopen(getenv("ROCTX_LOG"), "a");
    fprintf(file, "%s %s %llu\n", what, text, (unsigned long long)number);
    fclose(file);
}

static int code(void) { return getenv("ROCTX_CODE") ? atoi(getenv("ROCTX_CODE")) : 0; }

void roctxMarkA(const char* text) { note("mark", text, 0); }
int roctxRangePushA(const char* text) { note("push", text, level); return level++; }
int roctxRangePop(void) { note("pop", "-", level); return level ? --level : -1; }
#ifndef WITHOUT_CONTROLS
int roctxProfilerResume(uint64_t tid) { note("resume", "-", tid); return code(); }
int roctxProfilerPause(uint64_t tid) { note("pause", "-", tid); return code(); }
#endif
"""


class Recorder:
    """A library in Python: writes down its calls and returns what it was told to."""

    def __init__(self, **codes: int) -> None:
        self.calls: list[tuple[str, object]] = []
        self.codes = codes

    def __getattr__(self, name: str):
        def call(*arguments: object) -> int:
            self.calls.append((name.removeprefix("roctx"), *arguments))
            return self.codes.get(name, 0)

        return call


def recorded(**codes: int) -> tuple[Recorder, roctx.Roctx]:
    library = Recorder(**codes)
    return library, roctx.Roctx(find=lambda: library)


def window(first: int, last: int, *, error: Exception | None = None) -> tuple[list[object], roctx.StepWindow]:
    """A window that writes down what it does; `error` is what waiting for the device raises at the end."""
    events: list[object] = []

    def synchronize() -> None:
        events.append("wait")
        if error is not None and "resume" in events:
            raise error

    steps = roctx.StepWindow(
        first,
        last,
        synchronize=synchronize,
        start=lambda: events.append("resume"),
        stop=lambda: events.append("pause"),
        enter=lambda step: events.append(f"enter {step}"),
        leave=lambda: events.append("leave"),
    )
    return events, steps


def run_loop(steps: roctx.StepWindow, events: list[object], numbers: range) -> None:
    for step in numbers:
        with steps.step(step):
            events.append(step)


# Calls


def test_calls_reach_the_library_with_bytes_and_all_threads():
    library, calls = recorded()
    assert calls.is_available()
    assert calls.resume() is True
    calls.mark("β")
    with calls.range("step 1"):
        pass
    assert calls.pause() is True
    assert library.calls == [
        ("ProfilerResume", 0),
        ("MarkA", "β".encode()),
        ("RangePushA", b"step 1"),
        ("RangePop",),
        ("ProfilerPause", 0),
    ]


def test_range_is_closed_when_its_body_raises():
    library, calls = recorded()
    with pytest.raises(KeyError), calls.range("a"):
        raise KeyError
    assert [call[0] for call in library.calls] == ["RangePushA", "RangePop"]


@pytest.mark.parametrize(
    "function, call",
    [
        ("roctxProfilerResume", lambda calls: calls.resume()),
        ("roctxProfilerPause", lambda calls: calls.pause()),
        ("roctxRangePushA", lambda calls: calls.push("a")),
        ("roctxRangePop", lambda calls: calls.pop()),
    ],
)
def test_refused_call_is_warned_about_once_and_raises_nothing(function, call):
    _, calls = recorded(**{function: -1})
    with pytest.warns(RuntimeWarning, match=f"{function} returned -1"):
        assert not call(calls)
    assert not call(calls)  # a second warning would be an error here


def test_missing_library_is_one_warning_for_all_calls():
    calls = roctx.Roctx(find=lambda: None)
    assert not calls.is_available()  # asking is not using: no warning
    with pytest.warns(RuntimeWarning, match=r"librocprofiler-sdk-roctx\.so was not found") as caught:
        calls.resume()
    assert caught[0].filename == __file__
    calls.mark("a")  # a second warning would be an error here
    calls.push("a")
    calls.pop()
    assert calls.pause() is False


def test_many_threads_search_once_and_warn_once():
    searches: list[int] = []
    calls = roctx.Roctx(find=lambda: searches.append(1))
    barrier = threading.Barrier(8)

    def use() -> None:
        barrier.wait()
        calls.mark("a")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(searches), len(caught)) == (1, 1)


# The window


def test_window_waits_before_it_resumes_and_before_it_pauses():
    events, steps = window(2, 3)
    run_loop(steps, events, range(6))
    assert events == [
        *(0, 1),
        *("wait", "resume", "enter 2", 2, "leave"),
        *("enter 3", 3, "wait", "leave", "pause"),
        *(4, 5),
    ]  # fmt: skip
    assert steps.is_done
    assert not steps.is_open


def test_before_and_after_do_the_same_as_step():
    events, steps = window(2, 3)
    other_events, other_steps = window(2, 3)
    run_loop(steps, events, range(6))
    for step in range(6):
        other_steps.before(step)
        other_events.append(step)
        other_steps.after(step)
    assert other_events == events


def test_loop_that_calls_only_before_closes_at_the_step_after_the_last():
    events, steps = window(2, 3)
    for step in range(6):
        steps.before(step)
    assert events == ["wait", "resume", "enter 2", "leave", "enter 3", "wait", "leave", "pause"]


def test_window_opens_once_though_step_numbers_start_over():
    events, steps = window(2, 2)
    run_loop(steps, events, range(4))
    run_loop(steps, events, range(4))
    assert events.count("resume") == events.count("pause") == 1


def test_loop_that_breaks_is_closed_by_the_window_around_it():
    events, steps = window(2, 9)
    with steps:
        for step in range(12):
            if step == 4:
                break
            with steps.step(step):
                pass
    assert events[-4:] == ["enter 3", "leave", "wait", "pause"]


def test_exception_in_a_step_closes_the_window_and_goes_on():
    events, steps = window(2, 9)
    run_loop(steps, events, range(3))
    with pytest.raises(KeyError), steps.step(3):
        raise KeyError
    assert events[-4:] == ["enter 3", "wait", "leave", "pause"]


def test_interrupted_job_is_not_made_to_wait_for_a_device_that_may_hang():
    events, steps = window(2, 9)
    run_loop(steps, events, range(3))
    with pytest.raises(KeyboardInterrupt), steps.step(3):
        raise KeyboardInterrupt
    assert events[-3:] == ["enter 3", "leave", "pause"]


def test_device_that_fails_after_the_step_failed_does_not_hide_the_first_error():
    events, steps = window(2, 9, error=OSError("device lost"))
    run_loop(steps, events, range(2))
    with pytest.warns(RuntimeWarning, match="device lost"), pytest.raises(KeyError), steps, steps.step(2):
        raise KeyError
    assert events[-2:] == ["leave", "pause"]


def test_device_that_fails_at_the_end_is_the_error_and_the_window_closes_all_the_same():
    events, steps = window(2, 2, error=OSError("device lost"))
    with pytest.raises(OSError, match="device lost"):
        run_loop(steps, events, range(4))
    assert events[-2:] == ["leave", "pause"]


def test_start_that_fails_is_not_tried_again():
    starts: list[int] = []

    def start() -> None:
        starts.append(1)
        raise OSError("another trace is running")

    steps = roctx.StepWindow(
        2, 5, synchronize=None, start=start, stop=starts.clear, enter=lambda step: None, leave=lambda: None
    )
    steps.before(0)
    steps.before(1)
    with pytest.raises(OSError, match="another trace"):
        steps.before(2)
    steps.before(3)
    assert starts == [1]
    assert steps.is_done


def test_loop_that_begins_past_the_window_is_told_that_nothing_is_profiled():
    events, steps = window(10, 12)
    with pytest.warns(RuntimeWarning, match=r"at step 1000, past steps 10 to 12: nothing is profiled"):
        run_loop(steps, events, range(1000, 1003))
    assert events == [1000, 1001, 1002]


def test_resumed_loop_that_begins_inside_the_window_is_told_that_it_compiles_there():
    events, steps = window(10, 12)
    with pytest.warns(RuntimeWarning, match="only 0 steps ran before step 11") as caught:
        run_loop(steps, events, range(11, 14))
    assert caught[0].filename == __file__
    assert events.count("resume") == events.count("pause") == 1


def test_profiled_steps_resumes_pushes_pops_and_pauses():
    library, calls = recorded()
    steps = roctx.profiled_steps(3, 4, roctx=calls)
    for step in range(6):
        with steps.step(step):
            pass
    assert library.calls == [
        ("ProfilerResume", 0),
        ("RangePushA", b"step 3"),
        ("RangePop",),
        ("RangePushA", b"step 4"),
        ("RangePop",),
        ("ProfilerPause", 0),
    ]


@pytest.mark.parametrize(
    "first, last, message",
    [(5, 4, "first is 5 and last is 4"), (0, 4, "first is 0, but the first step"), (-1, 4, "first is -1")],
)
def test_impossible_windows_are_refused(first, last, message):
    with pytest.raises(ValueError, match=message):
        roctx.profiled_steps(first, last)


@pytest.mark.parametrize("first", [1, 2])
def test_early_window_is_warned_about(first):
    with pytest.warns(RuntimeWarning, match=f"begins at step {first}") as caught:
        roctx.profiled_steps(first, 9)
    assert caught[0].filename == __file__


# A compiled library, in processes of their own


@pytest.fixture(scope="session")
def compiler() -> str:
    found = shutil.which("cc")
    if found is None:
        pytest.skip("no C compiler: the stand-in for librocprofiler-sdk-roctx.so cannot be built")
    return found


def build_library(compiler: str, path: Path, *options: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(FAKE_C, encoding="utf-8")
    subprocess.run([compiler, "-shared", "-fPIC", *options, "-o", str(path), str(source)], check=True)
    return path


def run_alone(folder: Path, script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `script` with nothing but a copy of roctx.py, and no site-packages."""
    shutil.copy(SOURCE, folder / "region.py")
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\nimport region\n{script}"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        env={"PATH": os.environ["PATH"], "ROCTX_LOG": str(folder / "log"), **environ},
        capture_output=True,
        text=True,
        check=True,
    )


def logged(folder: Path) -> list[str]:
    return (folder / "log").read_text(encoding="utf-8").splitlines()


LOOP = """
import sys
steps = region.profiled_steps(3, 4, synchronize=lambda: region.mark("wait"))
for step in range(6):
    with steps.step(step):
        region.mark(str(step))
"""


@pytest.mark.parametrize("place", ["preloaded", "linker", "ROCM_PATH"])
def test_real_calling_convention_wherever_the_library_is_found(place, compiler, tmp_path):
    name = "librocprofiler-sdk-roctx.so" + (".1" if place == "linker" else "")
    library = build_library(compiler, tmp_path / "rocm" / "lib" / name)
    environ = {
        "preloaded": {"LD_PRELOAD": str(library)},
        "linker": {"LD_LIBRARY_PATH": str(library.parent)},
        "ROCM_PATH": {"ROCM_PATH": str(tmp_path / "rocm")},
    }[place]
    ran = run_alone(tmp_path, LOOP, **environ)
    assert ran.stderr == ""
    assert logged(tmp_path) == [
        "mark 0 0",
        "mark 1 0",
        "mark 2 0",
        "mark wait 0",
        "resume - 0",
        "push step 3 0",
        "mark 3 0",
        "pop - 1",
        "push step 4 0",
        "mark 4 0",
        "mark wait 0",
        "pop - 1",
        "pause - 0",
        "mark 5 0",
    ]


def test_library_without_profiler_controls_is_passed_over(compiler, tmp_path):
    old = build_library(compiler, tmp_path / "libroctx64.so", "-DWITHOUT_CONTROLS")
    library = build_library(compiler, tmp_path / "rocm" / "lib" / "librocprofiler-sdk-roctx.so")
    run_alone(tmp_path, "region.resume()", LD_PRELOAD=str(old), ROCM_PATH=str(library.parents[1]))
    assert logged(tmp_path) == ["resume - 0"]


def test_code_of_the_library_is_reported(compiler, tmp_path):
    library = build_library(compiler, tmp_path / "librocprofiler-sdk-roctx.so")
    ran = run_alone(tmp_path, "assert not region.resume()", LD_PRELOAD=str(library), ROCTX_CODE="7")
    assert "roctxProfilerResume returned 7" in ran.stderr


def test_window_that_is_open_when_the_interpreter_ends_is_closed(compiler, tmp_path):
    library = build_library(compiler, tmp_path / "librocprofiler-sdk-roctx.so")
    script = """
steps = region.profiled_steps(3, 9, synchronize=lambda: region.mark("wait"))
for step in range(5):
    steps.before(step)
"""
    run_alone(tmp_path, script, LD_PRELOAD=str(library))
    assert logged(tmp_path)[-3:] == ["mark wait 0", "pop - 1", "pause - 0"]


def test_lone_file_does_nothing_and_says_so_once_where_there_is_no_library(tmp_path):
    if Path("/opt/rocm/lib/librocprofiler-sdk-roctx.so").exists():
        pytest.skip("ROCm is installed here: the library is found")
    ran = run_alone(tmp_path, LOOP + "print(region.is_available(), sorted(m for m in sys.modules if 'rocktools' in m))")
    assert ran.stdout == "False []\n"
    assert ran.stderr.count("RuntimeWarning") == 1


@pytest.mark.parametrize("name", ["roctx.py", "jax_profile.py"])
def test_job_side_imports_the_standard_library_only(name):
    tree = ast.parse(SOURCE.with_name(name).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "." * node.level for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module.split(".")[0] for module in imported} <= sys.stdlib_module_names
