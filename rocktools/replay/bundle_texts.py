"""The generated texts of a bundle: replay.py, replay_jax.py, README.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rocktools.replay.readable import ReadableProgram
from rocktools.replay.readable_texts import render_prelude

RUNTIME_FOLDER = "runtime"


def render_replay_script(spec: Mapping[str, Any]) -> str:
    """replay.py: the exact form."""
    return f'''#!/usr/bin/env python3
"""Replay of {_title(spec)}.

The exact form: replay.hlo.pb holds the instruction as the job compiled it, and the plugin that JAX uses compiles it
without running any pass, so that the job's kernel comes out. `rocktools replay prove` says whether it did.
Needs Python, numpy, jax and the plugin; nothing of rocktools.

usage: python replay.py [--iterations N] [--warm-up N] [--device N] [--inputs random|zeros|DIR] [--outputs DIR]
                        [--flush-cache] [--plugin FILE]
"""

import json
import os
import pathlib
import sys
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "{RUNTIME_FOLDER}"))
# A graph hides its kernels from profilers that replay kernels; the plugin reads this when it is loaded.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_enable_command_buffer="
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import bundled_inputs
import bundled_pjrt
import bundled_replay

options = bundled_replay.parse_options(sys.argv[1:], {_title(spec)!r})
runtime = types.SimpleNamespace(
    compile_options=bundled_pjrt.compile_options,
    make_inputs=bundled_inputs.make_inputs,
    numpy_dtype=bundled_inputs.numpy_dtype,
)
try:
    result = bundled_replay.run_replay(HERE, options, bundled_pjrt.PjrtClient, runtime)
except (OSError, ValueError, TypeError, ImportError, bundled_pjrt.PjrtError) as error:
    sys.exit(f"replay.py: {{error}}")
print(json.dumps(result))
'''


def render_readable_script(spec: Mapping[str, Any], program: ReadableProgram) -> str:
    """replay_jax.py: the readable form."""
    count = program.devices_count
    return f'''#!/usr/bin/env python3
"""Readable form of {_title(spec)}: one line for each HLO instruction.

For reading, editing and experiments. It is not the proof: XLA compiles it anew, and may fuse, tile and name it
otherwise than the job's kernel. The exact form is replay.py.
Needs Python and jax; nothing of rocktools.

usage: python replay_jax.py [--iterations N] [--inputs random|zeros|DIR] [--outputs DIR]
"""

import argparse
import hashlib
import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "{RUNTIME_FOLDER}"))

{render_prelude(program.text)}

{program.text}

{_MAIN_OF_MANY.format(count=count, function=program.function) if count > 1 else _MAIN.format(function=program.function)}
{_MAIN_TAIL}'''


_MAIN = '''def prepare(spec, source):
    """The compiled function and its arguments, laid out as in the job."""
    from bundled_inputs import make_inputs

    device = jax.devices()[0]
    values = make_inputs(spec["inputs"], spec["seed"], source)
    arguments = [jax.device_put(value, _place(entry, device)) for value, entry in zip(values, spec["inputs"])]
    return jax.jit({function}, compiler_options=EXACT), arguments


def _place(entry, device):
    sharding = jax.sharding.SingleDeviceSharding(device)
    order = list(reversed(entry["minor_to_major"]))
    if order == list(range(len(order))) or device.platform == "cpu":
        return sharding
    try:
        from jax.experimental.layout import Format, Layout
    except ImportError:  # jax before 0.7 has other names for them
        from jax.experimental.layout import DeviceLocalLayout as Layout
        from jax.experimental.layout import Layout as Format
    return Format(Layout(tuple(order)), sharding)
'''

_MAIN_OF_MANY = '''def prepare(spec, source):
    """The compiled function over {count} devices, and its arguments: the device's own one behind the other."""
    from bundled_inputs import make_inputs

    devices = jax.devices()[:{count}]
    if len(devices) < {count}:
        sys.exit(f"replay_jax.py: needs {count} devices, and there are {{len(devices)}}")
    mesh = jax.sharding.Mesh(np.array(devices), ("devices",))
    spread = jax.sharding.PartitionSpec("devices")
    each = [make_inputs(spec["inputs"], spec["seed"], source, device) for device in range({count})]
    sharding = jax.sharding.NamedSharding(mesh, spread)
    arguments = [jax.device_put(np.stack(values), sharding) for values in zip(*each)]

    def of_one_device(*stacked):
        results = {function}(*(value[0] for value in stacked))
        return jax.tree.map(lambda value: value[None], results)

    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    check = {{"check_vma": False}} if hasattr(jax, "shard_map") else {{"check_rep": False}}
    spread_out = shard_map(of_one_device, mesh=mesh, in_specs=spread, out_specs=spread, **check)
    return jax.jit(spread_out, compiler_options=EXACT), arguments
'''

_MAIN_TAIL = """
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--inputs", default="random", help="random, zeros (an experiment), or a folder of .npy files")
    parser.add_argument("--outputs", help="folder to leave the results in, as .npy")
    options = parser.parse_args()
    spec = json.loads((HERE / "spec.json").read_text(encoding="utf-8"))
    function, arguments = prepare(spec, options.inputs)
    results = jax.block_until_ready(function(*arguments))
    times_ns = []
    for _ in range(options.iterations):
        start_ns = time.perf_counter_ns()
        jax.block_until_ready(function(*arguments))
        times_ns.append(time.perf_counter_ns() - start_ns)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(results)]
    if options.outputs:
        pathlib.Path(options.outputs).mkdir(parents=True, exist_ok=True)
        for place, leaf in enumerate(leaves):
            np.save(pathlib.Path(options.outputs) / f"output{place}.npy", leaf)
    print(json.dumps({
        "schema": "rocktools.replay-jax-run/1",
        "instruction": spec["instruction"],
        "platform": jax.default_backend(),
        "iterations_count": options.iterations,
        "inputs": options.inputs,
        "host_median_ns": int(np.median(times_ns)) if times_ns else None,
        "outputs": [{"dtype": str(leaf.dtype), "dimensions": list(leaf.shape),
                     "sha256": hashlib.sha256(leaf.tobytes()).hexdigest()} for leaf in leaves],
    }))
"""


_PROFILE = " `rocktools replay profile` does all of it at once, and gives the point under the roofline."


def render_readme(spec: Mapping[str, Any], files: Sequence[str]) -> str:
    """README.md: what is in the folder, how to run, profile and prove it."""
    lines = [
        f"# Replay of {_title(spec)}",
        "",
        f"One instruction of {spec['origin']['module']}, taken out by rocktools {spec['rocktools_version']}. What it "
        "needs is in this folder and in the environment of the job: Python, numpy, jax, the PJRT plugin.",
        "",
        "    python replay.py                     # the job's kernel, compiled from replay.hlo.pb as it is",
    ]
    if "replay_jax.py" in files:
        lines.append("    python replay_jax.py                 # the same computation to read and edit; not the proof")
    else:
        lines.append(f"There is no readable form: {spec['readable']['refusal']}.")
    lines += [
        "",
        *_profiling_lines(spec),
        "",
        "A replay stands in for the job's kernel after its proof only: `rocktools replay prove` with this folder."
        + (_PROFILE if spec["kind"] == "kernel" and spec["kernel"] else ""),
        "",
        "| input | shape | values |",
        "|---|---|---|",
    ]
    lines += [f"| {each['name']} | `{each['shape']}` | {_values_text(each)} |" for each in spec["inputs"]]
    lines += [
        "",
        "Values are the same on every machine; `--inputs DIR` takes captured ones "
        "(`rocktools capture-operands`), `--inputs zeros` is an experiment: zeros let the clock rise.",
    ]
    if spec["launches"]:
        lines += ["", "What the job launches for it:", "", *_launch_lines(spec["launches"])]
    if spec["warnings"]:
        lines += ["", "Know that:", "", *(f"- {each}" for each in spec["warnings"])]
    return "\n".join([*lines, ""])


def _profiling_lines(spec: Mapping[str, Any]) -> list[str]:
    """Commands that profile it; what only copies memory has a time, and no counters."""
    lines = [
        "Profile it. The time of its kernels:",
        "",
        "    rocprofv3 --kernel-trace --memory-copy-trace --marker-trace -d trace -o replay -- python replay.py",
    ]
    if spec["kind"] == "copy":
        return lines
    if spec["kind"] == "collective":
        return [*lines, "", "No counters: they take one kernel at a time, and these kernels wait for each other."]
    # Kernels of libraries have names of their own: Tensile's, those of whoever wrote a custom call.
    name = "Cijk_" if spec["kind"] == "library" else spec["kernel"]
    whole = name if spec["kind"] == "library" else f"^{name}$"
    counting, analysing = ("", "") if not name else (f" --kernel-include-regex '{whole}'", f" -k '{whole}'")
    return [
        *lines,
        "",
        "Hardware events:",
        "",
        f"    rocprofv3 --pmc SQ_WAVES{counting} -d pmc -o replay -- python replay.py",
        f"    rocprof-compute profile -n replay{analysing} -- python replay.py",
    ]


def _launch_lines(launches: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| kind | kernel | workgroups | work-items of each | LDS |", "|---|---|---|---|---|"]
    for each in launches:
        grid, workgroup = (
            " x ".join(map(str, each[name] or ())) for name in ("grid_workgroups", "workgroup_workitems")
        )
        shared = "" if each["lds_bytes"] is None else f"{each['lds_bytes']} B"
        lines.append(f"| {each['kind']} | {each['kernel'] or ''} | {grid} | {workgroup} | {shared} |")
    return lines


def _values_text(entry: Mapping[str, Any]) -> str:
    role, bound = str(entry["role"]), entry.get("bound")
    if role == "index":
        flags = [word for word, name in (("sorted", "is_sorted"), ("distinct", "is_unique")) if entry.get(name)]
        return f"random indices from 0 to {bound}{', ' if flags else ''}{', '.join(flags)}"
    if role == "start":
        return f"{bound // 2 if bound else 0}: the middle of 0 to {bound}"
    if role == "group-sizes":
        return f"{bound} rows dealt to the groups at random"
    texts = {
        "data": "random",
        "positive": "random, positive",
        "sort-key": "a random order",
        "predicate": "random",
        "init": "0",
        "integer": "random, 0 to 6",
        "random-state": "random bits",
        "device-number": "number of the device",
    }
    return texts[role]


def _title(spec: Mapping[str, Any]) -> str:
    """For docstrings: without what would end one."""
    kernel = f" (kernel {spec['kernel']})" if spec["kernel"] and spec["kernel"] != spec["instruction"] else ""
    title = f"{spec['instruction']}{kernel} of {spec['origin']['module']}"
    return "".join(letter for letter in title if letter.isprintable() and letter not in '"\\')
