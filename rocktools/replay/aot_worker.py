"""In a process of its own: compile a program of the user's, with his jax, for devices that are not here.

What FUNCTION of his script is called with, and what it must give back, is said in `rocktools aot compile --help`. What
XLA dumps goes where XLA_FLAGS says; the rest of the answer is files:

    <folder>/request.json            script, function, plugin, topology, target
    <folder>/answer.json             versions, name of the program, memory of a device; or
    <folder>/failure.json            at which stage it failed, and with what
    <folder>/executable.serialized   what came out
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from rocktools.extras import require_extra
from rocktools.replay.compile_job import write_answer

REQUEST_NAME, ANSWER_NAME, FAILURE_NAME = "request.json", "answer.json", "failure.json"
EXECUTABLE_NAME = "executable.serialized"
_MEMORY = {
    "arguments_bytes": "argument_size_in_bytes",
    "results_bytes": "output_size_in_bytes",
    "aliased_bytes": "alias_size_in_bytes",
    "temporaries_bytes": "temp_size_in_bytes",
    "code_bytes": "generated_code_size_in_bytes",
}


def compile_program(folder: Path) -> None:
    """Compile what the request asks for; the answer, or why there is none, is files in the folder."""
    request = json.loads((folder / REQUEST_NAME).read_text(encoding="utf-8"))
    stage = "start"
    try:
        stage = "topology"
        devices = _make_devices(request)
        stage = "script"
        given = _call(Path(request["script"]), request["function"], devices)
        stage = "lowering"
        lowered = _lower(given, devices)
        stage = "compilation"
        compiled = lowered.compile()
        stage = "result"
        write_answer(folder / EXECUTABLE_NAME, compiled.runtime_executable().serialize())
        write_answer(folder / ANSWER_NAME, json.dumps(_answer(compiled)).encode("utf-8"))
    except Exception as error:  # whatever the user's script raises
        failure = {
            "stage": stage,
            "error": type(error).__name__,
            "message": str(error),
            "traceback": traceback.format_exc(),
        }
        write_answer(folder / FAILURE_NAME, json.dumps(failure).encode("utf-8"))


def _make_devices(request: dict[str, str]) -> Sequence[Any]:
    """Devices that can be compiled for, and nothing else.

    By the functions of jaxlib that `jax.experimental.topologies` stands on: that module takes registered plugins only,
    and the ROCm plugin registers itself only where a GPU is.
    """
    xla_client: Any = require_extra("jaxlib.xla_client", "aot", "compiling ahead of time")
    interface = xla_client.load_pjrt_plugin_dynamically("rocm", request["plugin"])
    xla_client.initialize_pjrt_plugin("rocm")
    topology = xla_client.make_c_api_device_topology(
        interface, "", topology=request["topology"], target_config=request["target_configuration"]
    )
    devices: Sequence[Any] = topology._make_compile_only_devices()
    return devices


def _call(script: Path, function: str, devices: Sequence[Any]) -> Any:
    """What the function of the script gives back."""
    sys.path.insert(0, str(script.parent))
    sys.argv = [str(script)]
    spec = importlib.util.spec_from_file_location(script.stem, script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{script} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module
    spec.loader.exec_module(module)
    made = getattr(module, function, None)
    if not callable(made):
        names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise AttributeError(f"{script.name} has no function {function!r}; it has {', '.join(names[:8]) or 'none'}")
    return made(devices)


def _lower(given: Any, devices: Sequence[Any]) -> Any:
    """The lowered program of what the function gave back."""
    jax = _jax()
    if hasattr(given, "compile"):
        return given
    if hasattr(given, "lower"):
        return given.lower(lowering_platforms=("rocm",))
    if not (isinstance(given, (tuple, list)) and len(given) in (2, 3) and callable(given[0])):
        raise TypeError(
            "the function must give back (function, arguments), (function, arguments, keyword arguments), "
            f"jit(f).trace(...) or jit(f).lower(...), but gave {type(given).__name__}"
        )
    function, arguments = given[0], given[1]
    keywords = given[2] if len(given) == 3 else {}
    jitted = function if hasattr(function, "trace") else jax.jit(function)
    sharding = _default_sharding(devices)
    placed = jax.tree.map(lambda leaf: _placed(leaf, sharding), (tuple(arguments), dict(keywords)))
    return jitted.trace(*placed[0], **placed[1]).lower(lowering_platforms=("rocm",))


def _jax() -> Any:
    """The user's jax, whose types differ from version to version."""
    return require_extra("jax", "aot", "compiling ahead of time")


def _default_sharding(devices: Sequence[Any]) -> Any:
    """Of arguments that have none: on the one device, or whole on each."""
    import numpy as np

    jax = _jax()
    if len(devices) == 1:
        return jax.sharding.SingleDeviceSharding(devices[0])
    mesh = jax.sharding.Mesh(np.array(devices), ("devices",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def _placed(leaf: Any, sharding: Any) -> Any:
    """The shape of an argument, on devices that can be compiled for."""
    jax = _jax()
    if isinstance(leaf, jax.ShapeDtypeStruct) and leaf.sharding is not None:
        return leaf
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:  # a number of Python
        array = jax.numpy.asarray(leaf)
        shape, dtype = array.shape, array.dtype
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def _answer(compiled: Any) -> dict[str, Any]:
    memory = compiled.memory_analysis()
    return {
        "versions": {
            "jax": metadata.version("jax"),
            "jaxlib": metadata.version("jaxlib"),
            "python": ".".join(str(part) for part in sys.version_info[:3]),
        },
        "memory": {name: int(getattr(memory, theirs)) for name, theirs in _MEMORY.items() if hasattr(memory, theirs)},
    }
