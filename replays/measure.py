"""What a script of this folder computes -> timed calls on a device, and one line of JSON with what is known of it.

Standard library, numpy and jax: the scripts run where rocktools is not installed. Times are those of the host's clock
around a call that is waited for; what a kernel took on the device, a profiler says.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

__all__ = [
    "FLOATS", "ArgumentsError", "Operand", "Script", "Work", "add_dtype", "add_sizes", "build_program", "byte_size",
    "compute", "make_arrays", "make_parser", "numpy_dtype", "run",
]  # fmt: skip

SCHEMA = "rocktools.single-kernel/1"
FLOATS = ("bf16", "f16", "f32")
_STANDARD = {"f16": "float16", "f32": "float32", "s8": "int8", "s32": "int32"}
_OF_ML_DTYPES = {"bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
# Data repeats after so many elements: a prime, so that no two rows of a power of two are equal. Making gigabytes of
# different values would take minutes and change nothing that a kernel does.
_PERIOD = 4_194_301
_HOST_TIME = "host clock around a call that is waited for: launch and synchronisation are in it; not device time"
_HOST_TIME_CPU = f"{_HOST_TIME}; CPU backend: says nothing of any GPU"
_PACKAGES = ("jax", "jaxlib", "jax-rocm7-pjrt", "jax-rocm60-pjrt")


class ArgumentsError(ValueError):
    """Arguments that do not go together, in words for who gave them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One input.

    Attributes:
        dimensions: of the array; with several devices, of all their parts together.
        dtype: XLA's name.
        values: what it must hold; None for made-up data.
    """

    dimensions: tuple[int, ...]
    dtype: str
    values: np.ndarray[Any, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A computation, and what is known of it without running it.

    Attributes:
        function: of jax arrays, one for each operand.
        operands: its inputs.
        sizes: by the names of the options.
        dtype: of the data.
        flop: floating-point operations, of one device.
        matrix_flop: the part of them in matrix products.
        flop_counted: what `flop` counts.
        read_bytes: what one device has to read from memory at least.
        written_bytes: what it has to write at least.
        bytes_counted: what the two count.
        further: more known figures, by name with unit.
        axis: name of the axis that operands and results are spread over, where `function` runs on several devices.
        devices_count: how many of them.
    """

    function: Callable[..., Any]
    operands: tuple[Operand, ...]
    sizes: Mapping[str, int | str]
    dtype: str
    flop: int
    matrix_flop: int = 0
    flop_counted: str
    read_bytes: int
    written_bytes: int
    bytes_counted: str = "each input read once, each result written once"
    further: Mapping[str, int] = field(default_factory=dict)
    axis: str | None = None
    devices_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script of this folder.

    Attributes:
        name: of the file, without its ending.
        description: for --help.
        add_options: adds its own options to a parser.
        build: the work that options ask for; raises ArgumentsError.
    """

    name: str
    description: str
    add_options: Callable[[argparse.ArgumentParser], None]
    build: Callable[[argparse.Namespace], Work]


class _OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def make_parser(script: Script) -> argparse.ArgumentParser:
    """The options of a script, with those that all have."""
    parser = _OneLineParser(
        prog=f"{script.name}.py",
        description=script.description,
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    script.add_options(parser)
    parser.add_argument("--iterations", type=_count, default=20, help="timed calls")
    parser.add_argument("--warm-up", type=_count_or_zero, default=3, help="calls before them")
    parser.add_argument("--device", type=_count_or_zero, default=0, help="number of the (first) device")
    return parser


def add_sizes(parser: argparse.ArgumentParser, sizes: Mapping[str, tuple[int, str]]) -> None:
    """Add options of sizes: name -> default, help."""
    for name, (default, text) in sizes.items():
        parser.add_argument(f"--{name}", type=_count, default=default, help=text)


def add_dtype(parser: argparse.ArgumentParser, choices: Sequence[str] = FLOATS) -> None:
    """Add --dtype; the first choice is the default."""
    parser.add_argument("--dtype", choices=choices, default=choices[0], help="of the data, by XLA's name")


def run(script: Script, arguments: Sequence[str] | None = None) -> int:
    """Run a script and print its line; the exit code.

    Raises:
        SystemExit: arguments are wrong or jax is missing (2), or the backend failed (1).
    """
    parser = make_parser(script)
    options = parser.parse_args(arguments)
    try:
        import jax
    except ImportError as error:
        parser.error(f"jax cannot be imported: {error}")
    try:
        work = script.build(options)
        devices = _choose_devices(jax.devices(), options.device, work.devices_count)
        times_ns = _time_calls(work, devices, warm_up=options.warm_up, iterations=options.iterations)
    except ArgumentsError as error:
        parser.error(str(error))
    except (MemoryError, RuntimeError) as error:  # jax's own errors are RuntimeErrors
        parser.exit(1, f"{parser.prog}: the backend failed: {' '.join(str(error).split())[:400]}\n")
    sys.stdout.write(json.dumps(_describe(script, work, devices, options.warm_up, times_ns)) + "\n")
    return 0


def compute(work: Work, devices: Sequence[Any]) -> Any:
    """The results of one call, on devices that are here."""
    import jax

    function, sharding = _place(work, devices)
    return function(*(jax.device_put(each, sharding) for each in make_arrays(work)))


def build_program(script: Script, devices: Sequence[Any], arguments: Sequence[str] = ()) -> tuple[Any, tuple[Any, ...]]:
    """The compiled function and the shapes it takes, for devices that need not be here (`rocktools aot compile`)."""
    import jax

    work = script.build(make_parser(script).parse_args(arguments))
    function, sharding = _place(work, devices)
    return function, tuple(
        jax.ShapeDtypeStruct(each.dimensions, numpy_dtype(each.dtype), sharding=sharding) for each in work.operands
    )


def make_arrays(work: Work) -> list[np.ndarray[Any, Any]]:
    """Values of the operands, the same on every machine."""
    return [_make_array(operand, key) for key, operand in enumerate(work.operands)]


def byte_size(count: int, dtype: str) -> int:
    """Bytes of so many elements."""
    return count * numpy_dtype(dtype).itemsize


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """numpy's type of one of XLA's."""
    if dtype in _STANDARD:
        return np.dtype(_STANDARD[dtype])
    import ml_dtypes

    kind: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _OF_ML_DTYPES[dtype]))
    return kind


def _make_array(operand: Operand, key: int) -> np.ndarray[Any, Any]:
    dtype, count = numpy_dtype(operand.dtype), math.prod(operand.dimensions)
    if operand.values is not None:
        return operand.values.astype(dtype).reshape(operand.dimensions)
    # Raw bits only: streams of numpy's Generator may change between versions, those of a bit generator do not (NEP 19).
    bits = np.random.Philox(key=key).random_raw(min(count, _PERIOD))
    if dtype.kind == "i":
        values = (bits >> np.uint64(64 - 8 * dtype.itemsize)).astype(f"u{dtype.itemsize}").view(dtype)
    else:
        values = ((bits >> np.uint64(40)) / 2.0**23 - 1.0).astype(dtype)
    return np.resize(values, operand.dimensions)


def _place(work: Work, devices: Sequence[Any]) -> tuple[Any, Any]:
    """The compiled function, and where its operands belong."""
    import jax

    if work.axis is None:
        return jax.jit(work.function), jax.sharding.SingleDeviceSharding(devices[0])
    if hasattr(jax, "shard_map"):
        shard_map = jax.shard_map
    else:  # before 0.6
        from jax.experimental.shard_map import shard_map
    mesh = jax.sharding.Mesh(np.array(devices), (work.axis,))
    spread = jax.sharding.PartitionSpec(work.axis)
    function = shard_map(work.function, mesh=mesh, in_specs=spread, out_specs=spread)
    return jax.jit(function), jax.sharding.NamedSharding(mesh, spread)


def _choose_devices(present: Sequence[Any], first: int, count: int) -> Sequence[Any]:
    if first + count <= len(present):
        return present[first : first + count]
    needed = f"device {first} is" if count == 1 else f"devices {first} to {first + count - 1} are"
    hint = ""
    if present[0].platform == "cpu":
        hint = f"; the CPU backend has more with XLA_FLAGS=--xla_force_host_platform_device_count={first + count}"
    raise ArgumentsError(f"{needed} needed, but JAX sees {len(present)}, counted from 0{hint}")


def _time_calls(work: Work, devices: Sequence[Any], *, warm_up: int, iterations: int) -> list[int]:
    import jax

    function, sharding = _place(work, devices)
    operands = [jax.device_put(each, sharding) for each in make_arrays(work)]
    compiled = function.lower(*operands).compile()
    jax.block_until_ready(operands)
    times_ns = []
    for _ in range(warm_up + iterations):
        start_ns = time.perf_counter_ns()
        jax.block_until_ready(compiled(*operands))
        times_ns.append(time.perf_counter_ns() - start_ns)
    return times_ns[warm_up:]


def _describe(
    script: Script, work: Work, devices: Sequence[Any], warm_up: int, times_ns: Sequence[int]
) -> dict[str, Any]:
    lower, median, upper = np.percentile(times_ns, (25, 50, 75))
    return {
        "schema": SCHEMA,
        "script": script.name,
        "sizes": dict(work.sizes),
        "dtype": work.dtype,
        "flop": work.flop,
        "matrix_flop": work.matrix_flop,
        "flop_counted": work.flop_counted,
        "read_bytes": work.read_bytes,
        "written_bytes": work.written_bytes,
        "bytes_counted": work.bytes_counted,
        **work.further,
        "platform": devices[0].platform,
        "device_kind": devices[0].device_kind,
        "devices_count": len(devices),
        "versions": _versions(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "warm_up_count": warm_up,
        "iterations_count": len(times_ns),
        "host_times_ns": list(times_ns),
        "host_median_ns": int(median),
        "host_minimum_ns": min(times_ns),
        "host_iqr_ns": int(upper - lower),
        "host_time_is": _HOST_TIME_CPU if devices[0].platform == "cpu" else _HOST_TIME,
    }


def _versions() -> dict[str, str]:
    found = {"python": ".".join(str(part) for part in sys.version_info[:3])}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _count(text: str) -> int:
    return _whole(text, 1)


def _count_or_zero(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, but is {text!r}")
    return int(text)
