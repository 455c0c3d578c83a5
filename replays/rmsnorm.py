"""RMSNorm of rows: x / sqrt(mean(x^2) + epsilon) * weight, in single precision inside."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import measure

EPSILON = 1e-6


def add_options(parser: argparse.ArgumentParser) -> None:
    """Sizes and type."""
    measure.add_sizes(parser, {"rows": (16384, "rows, each normalised by itself"), "width": (6144, "length of a row")})
    measure.add_dtype(parser)


def build(options: argparse.Namespace) -> measure.Work:
    """The norm that the options ask for."""
    rows, width, dtype = options.rows, options.width, options.dtype

    def normalise(x: Any, weight: Any) -> Any:
        import jax
        import jax.numpy as jnp

        wide = x.astype(jnp.float32)
        scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + EPSILON)
        return (wide * scale * weight.astype(jnp.float32)).astype(x.dtype)

    return measure.Work(
        function=normalise,
        operands=(
            measure.Operand(dimensions=(rows, width), dtype=dtype),
            measure.Operand(dimensions=(width,), dtype=dtype),
        ),
        sizes={"rows": rows, "width": width},
        dtype=dtype,
        # Squares, their sum (one addition fewer than elements), the mean, epsilon, and two products for each element.
        flop=rows * (width + (width - 1) + 2 + 2 * width),
        flop_counted="multiplications, additions and the mean's division, in f32; not the square root's inverse",
        read_bytes=measure.byte_size(rows * width + width, dtype),
        written_bytes=measure.byte_size(rows * width, dtype),
    )


SCRIPT = measure.Script(name="rmsnorm", description=__doc__, add_options=add_options, build=build)


def step(devices: Sequence[Any]) -> Any:
    """The program of the default sizes, for `rocktools aot compile`."""
    return measure.build_program(SCRIPT, devices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; its exit code."""
    return measure.run(SCRIPT, arguments)


if __name__ == "__main__":
    sys.exit(main())
