"""One product per group of rows (ragged dot): rows [m, k], sorted by group, times [groups, k, n]."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import measure
import numpy as np


def add_options(parser: argparse.ArgumentParser) -> None:
    """Sizes, type, and how rows are shared out."""
    sizes = {
        "m": (16384, "rows of all groups together"),
        "n": (4096, "columns of the result"),
        "k": (4096, "length of the sums"),
        "groups": (8, "groups, each with a matrix of its own"),
    }
    measure.add_sizes(parser, sizes)
    measure.add_dtype(parser)
    parser.add_argument("--routing", choices=("even", "skewed", "one"), default="even", help="sizes of the groups")


def share_rows(m: int, groups: int, routing: str) -> np.ndarray[Any, Any]:
    """Rows of each group, `m` in all: equal ones, falling ones (1, 1/2, 1/3, ...), or all rows in the first."""
    if routing == "one":
        weights = np.eye(1, groups)[0]
    else:
        weights = 1.0 / np.arange(1, groups + 1) if routing == "skewed" else np.ones(groups)
    ends = np.rint(np.cumsum(weights) / weights.sum() * m).astype(np.int32)
    return np.diff(ends, prepend=np.int32(0))


def build(options: argparse.Namespace) -> measure.Work:
    """The grouped product that the options ask for."""
    m, n, k, groups, dtype = options.m, options.n, options.k, options.groups, options.dtype
    rows = share_rows(m, groups, options.routing)

    def multiply(x: Any, w: Any, rows_of_groups: Any) -> Any:
        import jax

        return jax.lax.ragged_dot(x, w, rows_of_groups, preferred_element_type=measure.numpy_dtype(dtype))

    flop = 2 * m * n * k
    used = int(np.count_nonzero(rows))
    return measure.Work(
        function=multiply,
        operands=(
            measure.Operand(dimensions=(m, k), dtype=dtype),
            measure.Operand(dimensions=(groups, k, n), dtype=dtype),
            measure.Operand(dimensions=(groups,), dtype="s32", values=rows),
        ),
        sizes={"m": m, "n": n, "k": k, "groups": groups, "routing": options.routing},
        dtype=dtype,
        flop=flop,
        matrix_flop=flop,
        flop_counted="two for each multiplication with addition of a row with the matrix of its own group",
        read_bytes=measure.byte_size(m * k + used * k * n, dtype) + measure.byte_size(groups, "s32"),
        written_bytes=measure.byte_size(m * n, dtype),
        bytes_counted="rows, sizes of groups and matrices of groups that have rows read once, the result written once",
        # What XLA does where it has no grouped kernel: every row times every matrix, with zeros for the other groups.
        further={"flop_if_every_row_meets_every_group": flop * groups},
    )


SCRIPT = measure.Script(name="grouped_gemm", description=__doc__, add_options=add_options, build=build)


def step(devices: Sequence[Any]) -> Any:
    """The program of the default sizes, for `rocktools aot compile`."""
    return measure.build_program(SCRIPT, devices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; its exit code."""
    return measure.run(SCRIPT, arguments)


if __name__ == "__main__":
    sys.exit(main())
