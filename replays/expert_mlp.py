"""Expert MLPs on rows in equal shares: down(silu(gate(x)) * up(x)), for each expert with its own matrices."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import measure


def add_options(parser: argparse.ArgumentParser) -> None:
    """Sizes and type."""
    sizes = {
        "experts": (8, "experts"),
        "capacity": (2048, "rows of each expert"),
        "hidden": (6144, "length of a row"),
        "intermediate": (16384, "length of a row between the products"),
    }
    measure.add_sizes(parser, sizes)
    measure.add_dtype(parser)


def build(options: argparse.Namespace) -> measure.Work:
    """The experts that the options ask for."""
    experts, capacity, hidden, intermediate = options.experts, options.capacity, options.hidden, options.intermediate
    dtype = options.dtype

    def apply_experts(x: Any, gate: Any, up: Any, down: Any) -> Any:
        import jax
        import jax.numpy as jnp

        gated = jax.nn.silu(jnp.einsum("ech,ehi->eci", x, gate)) * jnp.einsum("ech,ehi->eci", x, up)
        return jnp.einsum("eci,eih->ech", gated, down)

    rows, matrix = experts * capacity, experts * hidden * intermediate
    flop = 3 * 2 * rows * hidden * intermediate
    return measure.Work(
        function=apply_experts,
        operands=(
            measure.Operand(dimensions=(experts, capacity, hidden), dtype=dtype),
            measure.Operand(dimensions=(experts, hidden, intermediate), dtype=dtype),
            measure.Operand(dimensions=(experts, hidden, intermediate), dtype=dtype),
            measure.Operand(dimensions=(experts, intermediate, hidden), dtype=dtype),
        ),
        sizes={"experts": experts, "capacity": capacity, "hidden": hidden, "intermediate": intermediate},
        dtype=dtype,
        flop=flop,
        matrix_flop=flop,
        flop_counted="the three products; not the activation between them",
        read_bytes=measure.byte_size(rows * hidden + 3 * matrix, dtype),
        written_bytes=measure.byte_size(rows * hidden, dtype),
        bytes_counted="rows and matrices read once, the result written once; not what is kept between kernels",
        further={"intermediate_bytes": measure.byte_size(rows * intermediate, dtype)},
    )


SCRIPT = measure.Script(name="expert_mlp", description=__doc__, add_options=add_options, build=build)


def step(devices: Sequence[Any]) -> Any:
    """The program of the default sizes, for `rocktools aot compile`."""
    return measure.build_program(SCRIPT, devices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; its exit code."""
    return measure.run(SCRIPT, arguments)


if __name__ == "__main__":
    sys.exit(main())
