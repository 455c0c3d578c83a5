"""A bundle runs alone: its scripts are executed in a folder of their own, in a process that cannot import rocktools."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from replay_programs import find_cpu_plugin, make_replay

from rocktools.errors import InputError
from rocktools.replay import bundled_inputs, bundled_pjrt, bundled_replay
from rocktools.replay.bundle_texts import render_readme
from rocktools.replay.emit import folder_name, write_bundle
from rocktools.replay.readable_texts import render_prelude

pytest.importorskip("jax")

TEXT = """HloModule made, is_scheduled=true

fused {
  p0 = f32[4,6]{0,1} parameter(0)
  p1 = f32[4,6]{0,1} parameter(1)
  ROOT a = f32[4,6]{0,1} subtract(p0, p1)
}

ENTRY main {
  x = f32[4,6]{0,1} parameter(0)
  y = f32[4,6]{0,1} parameter(1)
  ROOT fusion.7 = f32[4,6]{0,1} fusion(x, y), kind=kLoop, calls=fused
}
"""
GATHERED = """HloModule made, is_scheduled=true, num_partitions=2

ENTRY main {
  x = f32[4]{0} parameter(0)
  start = (f32[4]{0}, f32[8]{0}) all-gather-start(x), channel_id=1, replica_groups={{0,1}}, dimensions={0}, \
use_global_device_ids=true
  ROOT done = f32[8]{0} all-gather-done(start)
}
"""


@pytest.fixture(scope="module")
def replay():
    return make_replay(TEXT, "fusion.7")


@pytest.fixture
def bundle(replay, tmp_path) -> Path:
    write_bundle(replay, tmp_path / "bundle")
    return tmp_path / "bundle"


def _run(folder: Path, script: str, *arguments: str, flags: str = "") -> subprocess.CompletedProcess[str]:
    """The script in a process that finds no rocktools: -I leaves out the current folder and PYTHONPATH."""
    guard = (
        "import sys, runpy; sys.meta_path.insert(0, type('No', (), {'find_spec': staticmethod(lambda name, *_: "
        "(_ for _ in ()).throw(ImportError(name)) if name.split('.')[0] == 'rocktools' else None)})()); "
        f"sys.argv = {[script, *arguments]!r}; runpy.run_path({script!r}, run_name='__main__')"
    )
    env = {"PATH": os.environ.get("PATH", ""), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    return subprocess.run(
        [sys.executable, "-I", "-c", guard], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def test_bundle_has_everything_and_leaves_no_half(bundle):
    files = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    assert files == {
        *("README.md", "replay.hlo.pb", "replay.py", "replay_jax.py", "spec.json"),
        *(f"runtime/{name}" for name in ("bundled_inputs.py", "bundled_pjrt.py", "bundled_replay.py")),
    }
    assert [path.name for path in bundle.parent.iterdir()] == ["bundle"]


def test_modules_that_travel_know_nothing_of_rocktools(bundle):
    for path in sorted(bundle.rglob("*.py")):
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
        others = {"numpy", "jax", "ml_dtypes", "bundled_inputs", "bundled_pjrt", "bundled_replay"}
        assert imported <= {*sys.stdlib_module_names, *others}, path.name


def test_readable_script_runs_alone_and_gives_the_difference(bundle):
    ran = _run(bundle, "replay_jax.py", "--iterations", "2", "--outputs", "out")
    assert ran.returncode == 0, ran.stderr
    line = json.loads(ran.stdout)
    assert (line["schema"], line["instruction"], line["iterations_count"]) == (
        "rocktools.replay-jax-run/1",
        "fusion.7",
        2,
    )
    left, right = bundled_inputs.make_inputs(json.loads((bundle / "spec.json").read_text())["inputs"], "fusion.7")
    np.testing.assert_array_equal(np.load(bundle / "out" / "output0.npy"), left - right)


def test_readable_collective_runs_on_as_many_devices(tmp_path):
    write_bundle(make_replay(GATHERED, "start"), tmp_path / "bundle")
    ran = _run(
        tmp_path / "bundle", "replay_jax.py", "--iterations", "1", "--outputs", "out",
        flags="--xla_force_host_platform_device_count=2",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    spec = json.loads((tmp_path / "bundle" / "spec.json").read_text())
    parts = [bundled_inputs.make_inputs(spec["inputs"], "start", device=device)[0] for device in (0, 1)]
    made = np.load(tmp_path / "bundle" / "out" / "output0.npy")
    np.testing.assert_array_equal(made, [np.concatenate(parts)] * 2)


def test_readable_script_says_that_it_is_not_the_proof(bundle):
    text = (bundle / "replay_jax.py").read_text(encoding="utf-8")
    assert "It is not the proof" in ast.get_docstring(ast.parse(text))
    assert "# f32[4,6]{0,1}" in text


def test_readme_has_the_commands_of_the_profilers(bundle):
    text = (bundle / "README.md").read_text(encoding="utf-8")
    for words in ("rocprofv3 --kernel-trace", "rocprofv3 --pmc", "rocprof-compute profile", "rocktools replay prove"):
        assert words in text
    assert "| p0.x | `f32[4,6]{0,1}` | random |" in text


def test_kernel_is_counted_by_its_whole_name_and_a_collective_is_not_counted(replay, tmp_path):
    """Counting runs one kernel at a time, and the kernels of a collective wait for each other."""
    launch = {"kind": "kKernel", "kernel": "fusion_7", "grid_workgroups": [1, 1, 1], "workgroup_workitems": [24, 1, 1]}
    spec = {**replay.spec, "kernel": "fusion_7", "launches": [{**launch, "lds_bytes": 0}]}
    text = render_readme(spec, ["replay_jax.py"])
    assert "--kernel-include-regex '^fusion_7$'" in text
    assert "| kKernel | fusion_7 | 1 x 1 x 1 | 24 x 1 x 1 | 0 B |" in text
    assert "rocktools replay profile" in text
    gathered = render_readme(make_replay(GATHERED, "start").spec, ["replay_jax.py"])
    assert "--kernel-trace" in gathered
    assert "--pmc" not in gathered
    assert "rocktools replay profile" not in gathered


def test_readable_script_has_the_helpers_it_calls_and_no_others(bundle):
    called = {"_bitcast": (), "_gather": ("_vector_last",), "_scatter": ("_vector_last",)}
    for name, more in called.items():
        made = render_prelude(f"x = {name}(y)")
        defined = {node.name for node in ast.parse(made).body if isinstance(node, ast.FunctionDef)}
        assert defined == {name, *more}
    assert "def _" not in (bundle / "replay_jax.py").read_text(encoding="utf-8").partition("def prepare")[0]


def test_exact_script_without_a_plugin_says_so(bundle):
    ran = _run(bundle, "replay.py", "--plugin", "absent.so")
    assert ran.returncode == 1
    assert ran.stderr.startswith("replay.py: the plugin absent.so cannot be loaded")
    assert "Traceback" not in ran.stderr


def test_folder_that_holds_something_is_left_alone(replay, bundle):
    before = sorted(bundle.rglob("*"))
    with pytest.raises(InputError, match="folder-in-use"):
        write_bundle(replay, bundle)
    assert sorted(bundle.rglob("*")) == before


def test_bundle_needs_the_readable_form_only_where_there_is_one(tmp_path):
    foreign = TEXT.replace("fusion(x, y), kind=kLoop, calls=fused", 'custom-call(x, y), custom_call_target="te_x_ffi"')
    write_bundle(make_replay(foreign, "fusion.7"), tmp_path / "bundle")
    assert not (tmp_path / "bundle" / "replay_jax.py").exists()
    assert "There is no readable form: %fusion.7 (custom-call): the custom call te_x_ffi." in (
        tmp_path / "bundle" / "README.md"
    ).read_text(encoding="utf-8")


@pytest.mark.parametrize("name, made", [("fusion.7", "fusion.7"), ("a/b c", "a_b_c")])
def test_folders_have_names_that_shells_like(name, made):
    assert folder_name(name) == made


class _Client:
    """Stands in for a plugin: remembers what is asked, and subtracts."""

    platform, devices_count = "made", 2

    def __init__(self, plugin: str, options: dict) -> None:
        self.calls: list[str] = []
        self.values: dict[int, np.ndarray] = {}
        self.plugin, self.options = plugin, options

    def compile(self, module: bytes, options: bytes) -> int:
        self.calls.append("compile")
        return 1

    def put(self, values, dtype, order, device=0) -> int:
        self.calls.append(f"put {dtype} {list(order)} on {device}")
        self.values[len(self.values) + 1] = values
        return len(self.values)

    def execute(self, loaded, arguments):
        self.calls.append("execute")
        left, right = (self.values[each] for each in arguments[0])
        self.values[len(self.values) + 1] = left - right
        return [[len(self.values)]]

    def read(self, buffer, numpy_types):
        return self.values[buffer]

    def free(self, buffer) -> None:
        self.calls.append("free")


def _replay_with(client_type, bundle: Path, *arguments: str) -> dict:
    options = bundled_replay.parse_options([*arguments, "--plugin", "made.so"], "test")

    class Runtime:
        compile_options = staticmethod(bundled_pjrt.compile_options)
        make_inputs = staticmethod(bundled_inputs.make_inputs)
        numpy_dtype = staticmethod(bundled_inputs.numpy_dtype)

    return bundled_replay.run_replay(bundle, options, client_type, Runtime)


def test_exact_form_warms_up_iterates_and_frees_results(bundle):
    clients = []

    def make(plugin, options):
        clients.append(_Client(plugin, options))
        return clients[-1]

    line = _replay_with(make, bundle, "--iterations", "3", "--warm-up", "2", "--device", "1")
    assert clients[0].calls[:3] == ["compile", "put f32 [0, 1] on 1", "put f32 [0, 1] on 1"]
    assert clients[0].calls.count("execute") == 5
    assert clients[0].calls.count("free") == 4  # all results but the last
    assert (line["schema"], line["iterations_count"], line["devices"]) == ("rocktools.replay-run/1", 3, [1])
    assert line["outputs"][0]["dimensions"] == [4, 6]
    assert line["program_sha256"] == json.loads((bundle / "spec.json").read_text())["program"]["sha256"]


def test_program_that_was_changed_is_not_run(bundle):
    (bundle / "replay.hlo.pb").write_bytes((bundle / "replay.hlo.pb").read_bytes() + b"\x00")
    with pytest.raises(ValueError, match="not the program that spec"):
        _replay_with(_Client, bundle)


def test_device_that_is_not_there_is_named(bundle):
    with pytest.raises(ValueError, match="needs device 7, and there are 2"):
        _replay_with(_Client, bundle, "--device", "7")


def test_package_that_registers_the_custom_call_is_asked_for(bundle):
    path = bundle / "spec.json"
    spec = json.loads(path.read_text())
    spec["registration"] = {"target": "te_x_ffi", "module": "absent_package.jax", "package": "absent-package"}
    path.write_text(json.dumps(spec))
    with pytest.raises(ImportError, match=r"te_x_ffi is registered by absent_package\.jax"):
        _replay_with(_Client, bundle)


def test_shapes_are_those_of_the_program(bundle):
    """Against protobuf: the layouts of the two parameters and of the result."""
    from rocktools.hlo.proto_fields import hlo_messages

    data = (bundle / "replay.hlo.pb").read_bytes()
    signature = hlo_messages()["Module"].FromString(data).host_program_shape
    parameters, result = bundled_replay.shape_protos(data)
    assert [hlo_messages()["Shape"].FromString(each) for each in parameters] == list(signature.parameters)
    assert hlo_messages()["Shape"].FromString(result) == signature.result
    assert list(signature.result.layout.minor_to_major) == [0, 1]


@pytest.fixture(scope="module")
def cpu_plugin() -> str:
    plugin = find_cpu_plugin()
    if plugin is None:
        pytest.skip("no PJRT plugin for CPUs: the extra `dev` has one for Python below 3.12 on x86-64 Linux")
    return plugin


def _fusion(fused: str, operands: list[str], result: str) -> str:
    names = [f"x{number}" for number in range(len(operands))]
    lines = "\n".join(f"  x{number} = {shape} parameter({number})" for number, shape in enumerate(operands))
    return (
        f"HloModule made, is_scheduled=true\n\nfused {{\n{fused}\n}}\n\nENTRY main {{\n{lines}\n"
        f"  ROOT fusion.7 = {result} fusion({', '.join(names)}), kind=kLoop, calls=fused\n}}\n"
    )


EXACT = {
    "column-major": TEXT,
    "eight bits": _fusion(
        "  a = f8e4m3fn[4,6]{0,1} parameter(0)\n  ROOT c = f32[4,6]{0,1} convert(a)",
        ["f8e4m3fn[4,6]{0,1}"],
        "f32[4,6]{0,1}",
    ),
    "four bits": _fusion(
        "  a = s4[4,6]{1,0:E(4)} parameter(0)\n  ROOT c = f32[4,6]{1,0} convert(a)",
        ["s4[4,6]{1,0:E(4)}"],
        "f32[4,6]{1,0}",
    ),
    "two results": _fusion(
        "  a = bf16[4,6]{1,0} parameter(0)\n  c = f32[4,6]{1,0} convert(a)\n  n = bf16[4,6]{1,0} negate(a)\n"
        "  ROOT t = (f32[4,6]{1,0}, bf16[4,6]{1,0}) tuple(c, n)",
        ["bf16[4,6]{1,0}"],
        "(f32[4,6]{1,0}, bf16[4,6]{1,0})",
    ),
    "in place": _fusion(
        "  a = f32[5,4]{1,0} parameter(0)\n  r = f32[1,4]{1,0} parameter(1)\n  i = s32[] parameter(2)\n"
        "  z = s32[] constant(0)\n  ROOT u = f32[5,4]{1,0} dynamic-update-slice(a, r, i, z)",
        ["f32[5,4]{1,0}", "f32[1,4]{1,0}", "s32[]"],
        "f32[5,4]{1,0}",
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_form_gives_the_bits_of_the_readable_form(name, cpu_plugin, tmp_path):
    """Two ways into XLA's CPU backend: the program as it is, and lax. The bundle lies alone in another folder."""
    write_bundle(make_replay(EXACT[name], "fusion.7"), tmp_path / "bundle")
    (tmp_path / "empty").mkdir()
    alone = Path(shutil.copytree(tmp_path / "bundle", tmp_path / "empty" / "copy"))
    shutil.rmtree(tmp_path / "bundle")
    exact = _run(alone, "replay.py", "--plugin", cpu_plugin, "--iterations", "2")
    readable = _run(alone, "replay_jax.py", "--iterations", "1")
    assert exact.returncode == 0, exact.stderr
    assert json.loads(exact.stdout)["outputs"] == json.loads(readable.stdout)["outputs"]


ROUNDING = """HloModule made, is_scheduled=true

round {
  left = f32[] parameter(0)
  right = f32[] parameter(1)
  narrow_left = bf16[] convert(left)
  narrow_right = bf16[] convert(right)
  sum = bf16[] add(narrow_left, narrow_right)
  ROOT wide = f32[] convert(sum)
}

fused {
  a = f32[2]{0} parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(a, zero), dimensions={0}, to_apply=round
}

ENTRY main {
  x = f32[2]{0} parameter(0)
  ROOT fusion.7 = f32[] fusion(x), kind=kLoop, calls=fused
}
"""


def test_both_forms_round_where_the_reducer_rounds(cpu_plugin, tmp_path):
    """1 + 2**-9 is 1 in bfloat16, which has 8 bits, in whatever order; as float32 it is not."""
    write_bundle(make_replay(ROUNDING, "fusion.7"), tmp_path / "bundle")
    (tmp_path / "operands").mkdir()
    np.save(tmp_path / "operands" / "p0.x.npy", np.array([1, 2.0**-9], np.float32))
    for script, more in (("replay.py", ("--plugin", cpu_plugin)), ("replay_jax.py", ())):
        ran = _run(
            tmp_path / "bundle", script, *more, "--iterations", "1", "--inputs", "../operands", "--outputs", script[:-3]
        )
        assert ran.returncode == 0, ran.stderr
        assert np.load(tmp_path / "bundle" / script[:-3] / "output0.npy") == 1.0


def test_exact_collective_runs_on_as_many_devices(cpu_plugin, tmp_path):
    text = """HloModule made, is_scheduled=true, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  ROOT r = f32[8]{0} all-reduce(x), channel_id=1, replica_groups={{0,3},{1,2}}, use_global_device_ids=true, to_apply=add
}
"""
    write_bundle(make_replay(text, "r"), tmp_path / "bundle")
    ran = _run(tmp_path / "bundle", "replay.py", "--plugin", cpu_plugin, "--iterations", "2", "--outputs", "out")
    assert ran.returncode == 0, ran.stderr
    spec = json.loads((tmp_path / "bundle" / "spec.json").read_text())
    first, last = (bundled_inputs.make_inputs(spec["inputs"], "r", device=device)[0] for device in (0, 3))
    np.testing.assert_array_equal(np.load(tmp_path / "bundle" / "out" / "output0.npy"), first + last)
