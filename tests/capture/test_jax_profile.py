"""The window of steps under the JAX profiler: on a fake jax that writes down its calls, and on the real one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from rocktools.capture import jax_profile, roctx


class FakeProfiler:
    """jax.profiler as of jax 0.8: what it is asked to do, in order."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    class ProfileOptions:
        def __init__(self) -> None:
            self.host_tracer_level = 2
            self.python_tracer_level = 1
            self.enable_hlo_proto = True

    def start_trace(self, log_dir, create_perfetto_link=False, create_perfetto_trace=False, profiler_options=None):
        self.calls.append(("start", log_dir, create_perfetto_link, vars(profiler_options)))

    def stop_trace(self) -> None:
        self.calls.append("stop")

    def StepTraceAnnotation(self, name, **arguments):
        return FakeAnnotation(self.calls, (name, arguments))


class OldProfiler(FakeProfiler):
    """jax.profiler as of jax 0.4: no options."""

    ProfileOptions = property()  # hasattr says no

    def start_trace(self, log_dir, create_perfetto_link=False, create_perfetto_trace=False):
        self.calls.append(("start", log_dir))


class PartProfiler(FakeProfiler):
    """Options, but not all of them."""

    class ProfileOptions:
        def __init__(self) -> None:
            self.host_tracer_level = 2


class FakeAnnotation:
    def __init__(self, calls: list[object], text: object) -> None:
        self.calls = calls
        self.text = text

    def __enter__(self):
        self.calls.append(self.text)
        return self

    def __exit__(self, *error: object) -> None:
        self.calls.append("leave")


@pytest.fixture
def use_jax(monkeypatch):
    """Make a fake profiler the one that `import jax` finds; returns its calls."""

    def use(profiler: FakeProfiler) -> list[object]:
        module = types.ModuleType("jax")
        module.__version__ = "0.0.test"
        module.profiler = profiler
        monkeypatch.setitem(sys.modules, "jax", module)
        return profiler.calls

    return use


def run_loop(steps: jax_profile.StepWindow, calls: list[object], numbers: range) -> None:
    for step in numbers:
        with steps.step(step):
            calls.append(step)


def test_trace_holds_the_steps_asked_for_with_options_annotations_and_waits(use_jax, tmp_path):
    calls = use_jax(FakeProfiler())
    steps = jax_profile.profiled_steps(tmp_path, 2, 3, synchronize=lambda: calls.append("wait"), environ={})
    run_loop(steps, calls, range(5))
    options = {"host_tracer_level": 2, "python_tracer_level": 0, "enable_hlo_proto": True}
    assert calls == [
        *(0, 1, "wait", ("start", str(tmp_path), False, options)),
        *(("train", {"step_num": 2}), 2, "leave"),
        *(("train", {"step_num": 3}), 3, "wait", "leave"),
        *("stop", 4),
    ]


def test_levels_are_passed_on(use_jax, tmp_path):
    calls = use_jax(FakeProfiler())
    steps = jax_profile.profiled_steps(tmp_path, 2, 2, host_tracer_level=1, python_tracer=True, environ={})
    run_loop(steps, calls, range(3))
    assert calls[2][3] == {"host_tracer_level": 1, "python_tracer_level": 1, "enable_hlo_proto": True}


def test_trace_stops_when_a_step_raises(use_jax, tmp_path):
    calls = use_jax(FakeProfiler())
    steps = jax_profile.profiled_steps(tmp_path, 2, 9, synchronize=lambda: calls.append("wait"), environ={})
    run_loop(steps, calls, range(3))
    with pytest.raises(KeyError), steps.step(3):
        raise KeyError
    assert calls[-3:] == ["wait", "leave", "stop"]


def test_trace_stops_when_waiting_for_the_device_fails(use_jax, tmp_path):
    calls = use_jax(FakeProfiler())

    def synchronize() -> None:
        if len(calls) > 3:
            raise OSError("device lost")

    steps = jax_profile.profiled_steps(tmp_path, 2, 2, synchronize=synchronize, environ={})
    with pytest.raises(OSError, match="device lost"):
        run_loop(steps, calls, range(4))
    assert calls[-2:] == ["leave", "stop"]


def test_jax_without_options_is_used_as_it_is_and_named(use_jax, tmp_path):
    calls = use_jax(OldProfiler())
    with pytest.warns(RuntimeWarning, match=r"jax 0\.0\.test takes no profiler options"):
        steps = jax_profile.profiled_steps(tmp_path, 2, 2, environ={})
    run_loop(steps, calls, range(3))
    assert ("start", str(tmp_path)) in calls


def test_options_that_are_not_there_are_left_alone_and_named(use_jax, tmp_path):
    calls = use_jax(PartProfiler())
    with pytest.warns(RuntimeWarning, match="no profiler option python_tracer_level, enable_hlo_proto") as caught:
        steps = jax_profile.profiled_steps(tmp_path, 2, 2, host_tracer_level=3, environ={})
    run_loop(steps, calls, range(3))
    assert caught[0].filename == __file__
    assert calls[2] == ("start", str(tmp_path), False, {"host_tracer_level": 3})


@pytest.mark.parametrize(
    "first, last, level, message",
    [
        (5, 4, 2, "first is 5 and last is 4"),
        (1, 4, 2, "first is 1, but at least 2 steps must run before"),
        (5, 6, 0, "without host events no step can be found"),
    ],
)
def test_impossible_windows_are_refused(first, last, level, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        jax_profile.profiled_steps(tmp_path, first, last, host_tracer_level=level, environ={})


@pytest.mark.parametrize(
    "name, value",
    [
        ("ROCPROFILER_LIBRARY_CTOR", "1"),
        ("ROCP_TOOL_LIBRARIES", "/opt/rocm/lib/rocprofiler-sdk/librocprofiler-sdk-tool.so"),
        ("ROCPROF_KERNEL_TRACE", "1"),
        ("LD_PRELOAD", "/a/libx.so:/opt/rocm/lib/rocprofiler-sdk/librocprofiler-sdk-tool.so"),
    ],
)
def test_process_under_rocprofv3_is_refused_with_the_variable_and_the_remedy(name, value, tmp_path):
    with pytest.raises(RuntimeError, match=f"{name}=.*a run of its own.*unset it"):
        jax_profile.profiled_steps(tmp_path, 3, 4, environ={"PATH": "/bin", name: value})


def test_own_environment_is_looked_at_by_default(monkeypatch, tmp_path):
    monkeypatch.setenv("ROCPROFILER_LIBRARY_CTOR", "1")
    with pytest.raises(RuntimeError, match="ROCPROFILER_LIBRARY_CTOR=1"):
        jax_profile.profiled_steps(tmp_path, 3, 4)


@pytest.mark.parametrize(
    "environ",
    [
        {"ROCPROFILER_LIBRARY_CTOR": "0"},
        {"ROCPROF_KERNEL_TRACE": ""},
        {"ROCPROF_LIST_AVAIL_TOOL_LIBRARY": "/a/librocprofv3-list-avail.so.1"},
        {"LD_PRELOAD": "/opt/rocm/lib/librocprofiler-sdk-roctx.so"},
    ],
)
def test_variables_that_start_no_tool_are_no_reason_to_refuse(environ, use_jax, tmp_path):
    use_jax(FakeProfiler())
    assert not jax_profile.profiled_steps(tmp_path, 3, 4, environ=environ).is_open


def test_both_files_hold_the_same_window():
    """Each must work alone, so the class stands in both, with what it needs: one text."""
    marker = "# From here on, roctx.py and jax_profile.py are the same text"
    texts = [Path(module.__file__).read_text(encoding="utf-8").partition(marker)[2] for module in (roctx, jax_profile)]
    assert "class StepWindow" in texts[0]
    assert texts[0] == texts[1]


def test_lone_file_works_beside_nothing_but_jax(tmp_path):
    shutil.copy(Path(jax_profile.__file__), tmp_path / "profile_steps.py")
    (tmp_path / "jax.py").write_text(
        "class profiler:\n"
        "    def start_trace(log_dir, profiler_options): print('start', log_dir, vars(profiler_options))\n"
        "    def stop_trace(): print('stop')\n"
        "    class ProfileOptions:\n"
        "        def __init__(self): self.host_tracer_level = self.python_tracer_level = self.enable_hlo_proto = None\n"
        "    class StepTraceAnnotation:\n"
        "        def __init__(self, name, step_num): print(name, step_num)\n"
        "        def __enter__(self): pass\n"
        "        def __exit__(self, *error): pass\n",
        encoding="utf-8",
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import profile_steps\n"
        "steps = profile_steps.profiled_steps('out', 2, 2)\n"
        "for step in range(3):\n"
        "    with steps.step(step): print('step', step)\n"
    )
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert ran.stdout.splitlines()[2:] == [
        "start out {'host_tracer_level': 2, 'python_tracer_level': 0, 'enable_hlo_proto': True}",
        "train 2",
        "step 2",
        "stop",
    ]


def test_real_jax_writes_a_profile_with_the_steps_asked_for(tmp_path):
    jax = pytest.importorskip("jax", reason="jax is not installed: the real profiler is not tried")
    step_of_state = jax.jit(lambda state: state @ state)
    state = jax.numpy.ones((8, 8))
    steps = jax_profile.profiled_steps(tmp_path, 2, 3, synchronize=lambda: state.block_until_ready(), environ={})
    for step in range(5):
        with steps.step(step):
            state = step_of_state(state)
    (profile,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    assert b"train" in profile.read_bytes()
