"""A copy of known traffic: each byte read once and written once, with its bits inverted or as it is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import measure


def add_options(parser: argparse.ArgumentParser) -> None:
    """Size, and what makes the copy."""
    measure.add_sizes(parser, {"mebibytes": (1024, "to copy, in units of 2^20 bytes")})
    parser.add_argument(
        "--form",
        choices=("kernel", "memcpy"),
        default="kernel",
        help="kernel: inverts the bits, so that XLA writes a kernel; memcpy: XLA asks the runtime for a plain copy",
    )


def build(options: argparse.Namespace) -> measure.Work:
    """The copy that the options ask for."""
    size_bytes = options.mebibytes * 2**20
    form = options.form

    def copy(x: Any) -> Any:
        import jax.numpy as jnp

        return jnp.invert(x) if form == "kernel" else jnp.copy(x)

    return measure.Work(
        function=copy,
        operands=(measure.Operand(dimensions=(size_bytes // 4,), dtype="s32"),),
        sizes={"mebibytes": options.mebibytes, "form": form},
        dtype="s32",
        flop=0,
        flop_counted="there are none",
        read_bytes=size_bytes,
        written_bytes=size_bytes,
    )


SCRIPT = measure.Script(name="memory_copy", description=__doc__, add_options=add_options, build=build)


def step(devices: Sequence[Any]) -> Any:
    """The program of the default sizes, for `rocktools aot compile`."""
    return measure.build_program(SCRIPT, devices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; its exit code."""
    return measure.run(SCRIPT, arguments)


if __name__ == "__main__":
    sys.exit(main())
