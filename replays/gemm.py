"""One matrix product, [m, k] x [k, n]: a library call or one kernel, as XLA chooses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import measure

# What a product of these is written as, where it is not the type itself.
_RESULTS = {"f8e4m3fn": "bf16", "f8e5m2": "bf16", "s8": "s32"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Sizes and type."""
    sizes = {"m": (8192, "rows of the result"), "n": (8192, "columns of it"), "k": (8192, "length of the sums")}
    measure.add_sizes(parser, sizes)
    measure.add_dtype(parser, (*measure.FLOATS, *_RESULTS))


def build(options: argparse.Namespace) -> measure.Work:
    """The product that the options ask for."""
    m, n, k, dtype = options.m, options.n, options.k, options.dtype
    result = _RESULTS.get(dtype, dtype)

    def multiply(x: Any, w: Any) -> Any:
        import jax

        return jax.lax.dot(x, w, preferred_element_type=measure.numpy_dtype(result))

    # Integer operations are not floating-point ones: counters have them apart.
    operations = 2 * m * n * k
    flop = 0 if dtype == "s8" else operations
    return measure.Work(
        function=multiply,
        operands=(
            measure.Operand(dimensions=(m, k), dtype=dtype),
            measure.Operand(dimensions=(k, n), dtype=dtype),
        ),
        sizes={"m": m, "n": n, "k": k},
        dtype=dtype,
        flop=flop,
        matrix_flop=flop,
        flop_counted="two for each multiplication with addition; none of integers",
        read_bytes=measure.byte_size(m * k + k * n, dtype),
        written_bytes=measure.byte_size(m * n, result),
        further={"integer_operations_count": operations - flop},
    )


SCRIPT = measure.Script(name="gemm", description=__doc__, add_options=add_options, build=build)


def step(devices: Sequence[Any]) -> Any:
    """The program of the default sizes, for `rocktools aot compile`."""
    return measure.build_program(SCRIPT, devices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; its exit code."""
    return measure.run(SCRIPT, arguments)


if __name__ == "__main__":
    sys.exit(main())
