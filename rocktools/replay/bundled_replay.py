"""Running a replay: the plugin that JAX uses, warm-up, iterations inside a roctx range, one line of JSON.

One file, standard library and numpy: it is copied into each bundle and must know nothing of rocktools. Times in the
line are the host's, for a first look: what a kernel took, a profiler says.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["RunOptions", "find_plugin", "parse_options", "run_replay", "shape_protos"]

_ROCTX = ("librocprofiler-sdk-roctx.so", "librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so.0")
# Twice what the last level cache of an MI355X holds (256 MiB).
_FLUSHED_BYTES = 512 * 2**20
RunOptions = argparse.Namespace


def parse_options(arguments: Sequence[str], description: str) -> RunOptions:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--iterations", type=int, default=20, help="how often the kernel runs in the measured range")
    parser.add_argument("--warm-up", type=int, default=3, help="how often it runs before")
    parser.add_argument("--device", type=int, default=0, help="number of the (first) device")
    parser.add_argument("--inputs", default="random", help="random, zeros (an experiment), or a folder of .npy files")
    parser.add_argument("--outputs", help="folder to leave the results in, as .npy")
    parser.add_argument("--flush-cache", action="store_true", help="overwrite the caches before each iteration")
    parser.add_argument("--plugin", help="PJRT plugin; default: the one that JAX uses")
    options = parser.parse_args(arguments)
    if options.iterations < 1 or options.warm_up < 0 or options.device < 0:
        parser.error("--iterations must be at least 1, --warm-up and --device at least 0")
    return options


def find_plugin() -> str:
    """The shared library of the PJRT plugin that JAX uses on this machine, ROCm's before any other.

    Raises:
        FileNotFoundError: no plugin is installed.
    """
    found = importlib.util.find_spec("jax_plugins")
    folders = [pathlib.Path(each) for each in (found.submodule_search_locations or ())] if found else []
    libraries = [each for folder in folders for each in sorted(folder.glob("*/*plugin*.so"))]
    libraries.sort(key=lambda each: "rocm" not in each.parent.name)
    if not libraries:
        raise FileNotFoundError("no PJRT plugin is installed: pip install jax-rocm7-pjrt, or name one with --plugin")
    with contextlib.suppress(ImportError):  # the library alone may do
        # Its package prepares what the library needs (where ROCm is).
        importlib.import_module(f"jax_plugins.{libraries[0].parent.name}")
    return str(libraries[0])


def run_replay(
    folder: pathlib.Path, options: RunOptions, make_client: Callable[..., Any], runtime: Any
) -> dict[str, Any]:
    """Run the replay in `folder`; what it printed as a line.

    Args:
        make_client: of bundled_pjrt: `PjrtClient`.
        runtime: with `compile_options` of bundled_pjrt, and `make_inputs` and `numpy_dtype` of bundled_inputs.

    Raises:
        ValueError: the program is not the one that spec.json describes, or there are too few devices.
    """
    spec = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
    module = (folder / "replay.hlo.pb").read_bytes()
    digest = hashlib.sha256(module).hexdigest()
    if digest != spec["program"]["sha256"]:
        raise ValueError("replay.hlo.pb is not the program that spec.json describes: extract the kernel again")
    _import_registrations(spec)
    plugin = options.plugin or find_plugin()
    client = make_client(plugin, _client_options(plugin))
    devices = list(range(options.device, options.device + spec["devices_count"]))
    if devices[-1] >= client.devices_count:
        raise ValueError(f"the replay needs device {devices[-1]}, and there are {client.devices_count}")
    argument_shapes, result_shape = shape_protos(module)
    loaded = client.compile(module, runtime.compile_options(argument_shapes, result_shape, devices))
    buffers = [
        _put_inputs(client, spec, runtime, options.inputs, place, device) for place, device in enumerate(devices)
    ]
    times_ns, results = _iterate(client, loaded, buffers, options, spec)
    outputs = [client.read(each, runtime.numpy_dtype) for each in results[0]]
    if options.outputs:
        _save(outputs, pathlib.Path(options.outputs))
    return {
        "schema": "rocktools.replay-run/1",
        "instruction": spec["instruction"],
        "kernel": spec["kernel"],
        "program_sha256": digest,
        "platform": client.platform,
        "plugin": plugin,
        "versions": _versions(),
        "devices": devices,
        "iterations_count": options.iterations,
        "warm_up_count": options.warm_up,
        "is_cache_flushed": options.flush_cache,
        "inputs": options.inputs,
        "host_median_ns": int(np.median(times_ns)),
        "host_minimum_ns": int(min(times_ns)),
        "outputs": [_describe(each) for each in outputs],
    }


def _put_inputs(client: Any, spec: Mapping[str, Any], runtime: Any, source: str, place: int, device: int) -> list[int]:
    """The inputs of the partition `place`, on a device, laid out as in the job."""
    arrays = runtime.make_inputs(spec["inputs"], spec["seed"], source, place)
    return [
        client.put(values, entry["dtype"], entry["minor_to_major"], device)
        for entry, values in zip(spec["inputs"], arrays, strict=True)
    ]


def _describe(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    digest = hashlib.sha256(values.tobytes()).hexdigest()
    return {"dtype": str(values.dtype), "dimensions": list(values.shape), "sha256": digest}


def _save(outputs: Sequence[np.ndarray[Any, Any]], folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for place, values in enumerate(outputs):
        np.save(folder / f"output{place}.npy", values)


def _iterate(
    client: Any, loaded: int, buffers: list[list[int]], options: RunOptions, spec: Mapping[str, Any]
) -> tuple[list[int], list[list[int]]]:
    """Host times of the measured iterations, and the results of the last one."""
    roctx = _load_roctx()
    times_ns: list[int] = []
    results: list[list[int]] = []
    flushing = np.zeros(_FLUSHED_BYTES, np.uint8) if options.flush_cache else None
    for number in range(options.warm_up + options.iterations):
        if number == options.warm_up and roctx:
            roctx.roctxRangePushA(f"replay {spec['instruction']}".encode())
        for each in (buffer for one in results for buffer in one):
            client.free(each)
        if flushing is not None:
            for device in range(options.device, options.device + len(buffers)):
                client.free(client.put(flushing, "u8", [0], device))
        start_ns = time.perf_counter_ns()
        results = client.execute(loaded, buffers)
        if number >= options.warm_up:
            times_ns.append(time.perf_counter_ns() - start_ns)
    if roctx:
        roctx.roctxRangePop()
    return times_ns, results


def _client_options(plugin: str) -> dict[str, Any]:
    """Memory is taken when it is needed: a profiler and its buffers live in the same device."""
    if "rocm" in plugin:
        return {"platform_name": "ROCM", "preallocate": False}
    return {"platform_name": "cuda", "preallocate": False} if "cuda" in plugin else {}


def _import_registrations(spec: Mapping[str, Any]) -> None:
    """Import what registers the custom call, in the process and for the plugin that JAX has loaded.

    Raises:
        ImportError: the package is missing.
    """
    registration = spec.get("registration") or {}
    names = [name for name in str(registration.get("module") or "").split(",") if name]
    if not names:
        return
    try:
        importlib.import_module("jax").devices()  # the plugin takes registrations once JAX has initialised it
        for name in names:
            importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"the custom call {registration['target']} is registered by {registration['module']} (package "
            f"{registration['package']}), which cannot be imported: {error}"
        ) from error


def _load_roctx() -> Any | None:
    for name in _ROCTX:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if hasattr(library, "roctxRangePushA"):
            library.roctxRangePushA.argtypes = [ctypes.c_char_p]
            return library
    return None


def _versions() -> dict[str, str]:
    found = {}
    for name in ("jax", "jaxlib", "jax-rocm7-pjrt", "jax-rocm7-plugin", "jax-rocm60-pjrt", "transformer-engine-jax"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def shape_protos(module: bytes) -> tuple[list[bytes], bytes]:
    """The serialised shapes of the parameters and of the result, from HloModuleProto.host_program_shape."""
    signature = next(value for field, value in _fields(module) if field == 4)
    shapes = [(field, value) for field, value in _fields(signature)]
    parameters = [value for field, value in shapes if field == 1]
    return parameters, next(value for field, value in shapes if field == 2)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Fields of a serialised message that have a length, by number."""
    position = 0

    def varint() -> int:
        nonlocal position
        found = shift = 0
        while True:
            byte = message[position]
            position += 1
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7

    while position < len(message):
        tag = varint()
        if tag & 7 == 0:
            varint()
        elif tag & 7 == 2:
            size = varint()
            yield tag >> 3, message[position : position + size]
            position += size
        else:
            position += 8 if tag & 7 == 1 else 4
