"""One pass over arrays, alpha * x + y: two inputs read, one result written, two operations for each element."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import measure

ALPHA = 1.5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Size and type."""
    measure.add_sizes(parser, {"elements": (2**28, "of each array")})
    measure.add_dtype(parser)


def build(options: argparse.Namespace) -> measure.Work:
    """The pass that the options ask for."""
    count, dtype = options.elements, options.dtype

    def add_scaled(x: Any, y: Any) -> Any:
        return ALPHA * x + y

    return measure.Work(
        function=add_scaled,
        operands=(
            measure.Operand(dimensions=(count,), dtype=dtype),
            measure.Operand(dimensions=(count,), dtype=dtype),
        ),
        sizes={"elements": count},
        dtype=dtype,
        flop=2 * count,
        flop_counted="one multiplication and one addition for each element, of bf16 in f32",
        read_bytes=measure.byte_size(2 * count, dtype),
        written_bytes=measure.byte_size(count, dtype),
    )


SCRIPT = measure.Script(name="elementwise", description=__doc__, add_options=add_options, build=build)


def step(devices: Sequence[Any]) -> Any:
    """The program of the default sizes, for `rocktools aot compile`."""
    return measure.build_program(SCRIPT, devices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; its exit code."""
    return measure.run(SCRIPT, arguments)


if __name__ == "__main__":
    sys.exit(main())
