"""The transpose of a matrix, in memory: as many bytes read as written, and no arithmetic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import measure


def add_options(parser: argparse.ArgumentParser) -> None:
    """Sizes and type."""
    measure.add_sizes(parser, {"rows": (16384, "rows of the input"), "columns": (16384, "columns of the input")})
    measure.add_dtype(parser, (*measure.FLOATS, "s8", "s32"))


def build(options: argparse.Namespace) -> measure.Work:
    """The transpose that the options ask for."""
    rows, columns, dtype = options.rows, options.columns, options.dtype

    def transpose(x: Any) -> Any:
        return x.T

    return measure.Work(
        function=transpose,
        operands=(measure.Operand(dimensions=(rows, columns), dtype=dtype),),
        sizes={"rows": rows, "columns": columns},
        dtype=dtype,
        flop=0,
        flop_counted="there are none",
        read_bytes=measure.byte_size(rows * columns, dtype),
        written_bytes=measure.byte_size(rows * columns, dtype),
    )


SCRIPT = measure.Script(name="transpose", description=__doc__, add_options=add_options, build=build)


def step(devices: Sequence[Any]) -> Any:
    """The program of the default sizes, for `rocktools aot compile`."""
    return measure.build_program(SCRIPT, devices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; its exit code."""
    return measure.run(SCRIPT, arguments)


if __name__ == "__main__":
    sys.exit(main())
