"""What all scripts have in common: the line they print, inputs, errors."""

from __future__ import annotations

import ast
import json
import sys

import numpy as np
import pytest
from replay_scripts import FOLDER, NAMES, build_work, load_script, printed_line, run_script

GEMM = ("--m", 8, "--n", 8, "--k", 8)
SMALL = {
    "attention": ("--heads", 2, "--kv-heads", 1, "--queries", 8, "--keys", 8, "--head-dim", 8),
    "elementwise": ("--elements", 64),
    "expert_mlp": ("--experts", 2, "--capacity", 4, "--hidden", 8, "--intermediate", 8),
    "gemm": GEMM,
    "grouped_gemm": ("--m", 8, "--n", 8, "--k", 8, "--groups", 2),
    "memory_copy": ("--mebibytes", 1),
    "rmsnorm": ("--rows", 4, "--width", 8),
    "router_topk": ("--tokens", 4, "--hidden", 8, "--experts", 4),
    "transpose": ("--rows", 4, "--columns", 8),
}


def test_line_says_what_was_timed_and_how(capsys):
    line = printed_line(capsys, "gemm", *GEMM, "--iterations", 5, "--warm-up", 2)
    times_ns = line["host_times_ns"]
    assert line["schema"] == "rocktools.single-kernel/1"
    assert (line["script"], line["dtype"]) == ("gemm", "bf16")
    assert (line["iterations_count"], line["warm_up_count"], len(times_ns)) == (5, 2, 5)
    assert line["host_minimum_ns"] == min(times_ns)
    assert line["host_median_ns"] == sorted(times_ns)[2]
    assert line["host_iqr_ns"] == sorted(times_ns)[3] - sorted(times_ns)[1]
    device = pytest.importorskip("jax").devices()[0]
    assert (line["platform"], line["device_kind"]) == (device.platform, device.device_kind)
    assert line["devices_count"] == 1
    assert "not device time" in line["host_time_is"]
    assert ("CPU backend" in line["host_time_is"]) == (device.platform == "cpu")
    assert line["versions"]["jax"]


def test_inputs_are_the_same_each_time_and_differ_from_each_other():
    pytest.importorskip("jax")
    measure, work = load_script("measure"), build_work("gemm", *GEMM, "--dtype", "f32")
    first, second = measure.make_arrays(work), measure.make_arrays(work)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(*first)
    # Philox with key 0, counter 0: its first word, as numpy has had it since 1.17.
    word = int(np.random.Philox(key=0).random_raw())
    assert first[0].flat[0] == np.float32((word >> 40) / 2**23 - 1)
    assert all(np.abs(each).max() <= 1 for each in first)


def test_long_inputs_repeat_after_a_prime_number_of_elements():
    measure = load_script("measure")
    operand = measure.Operand(dimensions=(4_194_301 + 2,), dtype="s8")
    values = measure._make_array(operand, 0)
    assert np.array_equal(values[-2:], values[:2])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--m", "0"], "argument --m: must be a whole number of at least 1, but is '0'"),
        (["--m", "x"], "argument --m: must be a whole number of at least 1, but is 'x'"),
        (["--warm-up", "-1"], "argument --warm-up: must be a whole number of at least 0, but is '-1'"),
        (["--dtype", "f31"], "argument --dtype: invalid choice: 'f31'"),
        (["--rows", "3"], "unrecognized arguments: --rows 3"),
        ([*map(str, GEMM), "--device", "99"], "device 99 is needed, but JAX sees "),
    ],
)
def test_wrong_arguments_are_told_in_one_line(capsys, arguments, message):
    pytest.importorskip("jax")
    with pytest.raises(SystemExit) as raised:
        load_script("gemm").main(arguments)
    assert raised.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"gemm.py: {message}")
    assert printed.err.count("\n") == 1


def test_more_devices_of_the_cpu_are_a_flag_away():
    jax = pytest.importorskip("jax")
    measure, devices = load_script("measure"), jax.devices("cpu")[:1]
    with pytest.raises(measure.ArgumentsError) as raised:
        measure._choose_devices(devices, 2, 4)
    assert str(raised.value) == (
        "devices 2 to 5 are needed, but JAX sees 1, counted from 0; the CPU backend has more with "
        "XLA_FLAGS=--xla_force_host_platform_device_count=6"
    )


def test_missing_jax_is_told_in_one_line(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(SystemExit) as raised:
        load_script("gemm").main([])
    assert raised.value.code == 2
    assert capsys.readouterr().err.startswith("gemm.py: jax cannot be imported: ")


def test_failure_of_the_backend_is_told_in_one_line(capsys, monkeypatch):
    pytest.importorskip("jax")

    def fail(*_arguments, **_options):
        raise RuntimeError("RESOURCE_EXHAUSTED:\n out of memory")

    monkeypatch.setattr(load_script("measure"), "_time_calls", fail)
    with pytest.raises(SystemExit) as raised:
        load_script("gemm").main([])
    assert raised.value.code == 1
    assert capsys.readouterr().err == "gemm.py: the backend failed: RESOURCE_EXHAUSTED: out of memory\n"


@pytest.mark.parametrize("name", [*NAMES, "measure"])
def test_scripts_import_nothing_but_python_numpy_and_jax(name):
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    imported = {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    roots = {each.split(".")[0] for each in imported}
    assert roots <= {*sys.stdlib_module_names, "numpy", "ml_dtypes", "jax", "measure"}


@pytest.mark.parametrize("name", NAMES)
def test_no_script_hides_a_module_of_python(name):
    """Python puts the folder of the script first on its path."""
    assert name not in sys.stdlib_module_names


@pytest.mark.parametrize("name", [name for name in NAMES if name != "collective"])
def test_script_runs_alone(name):
    pytest.importorskip("jax")
    ran = run_script(name, *SMALL[name], "--iterations", 2)
    assert ran.returncode == 0, ran.stderr
    line = json.loads(ran.stdout)
    assert (line["script"], line["iterations_count"]) == (name, 2)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("collective", "router_topk")])
def test_counted_bytes_are_those_of_the_arrays(name):
    """Where no array is left out of the count and results have the type of the data."""
    jax = pytest.importorskip("jax")
    measure, work = load_script("measure"), build_work(name, *SMALL[name])
    result = np.asarray(measure.compute(work, jax.devices("cpu")))
    assert work.read_bytes == sum(each.nbytes for each in measure.make_arrays(work))
    assert work.written_bytes == result.nbytes
