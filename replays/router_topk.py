"""Router of a mixture of experts: scores of all experts for each token, and weights of the best ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import measure


def add_options(parser: argparse.ArgumentParser) -> None:
    """Sizes and type."""
    sizes = {
        "tokens": (16384, "tokens to route"),
        "hidden": (6144, "length of a token"),
        "experts": (64, "experts to choose from"),
        "top-k": (2, "experts that a token goes to"),
    }
    measure.add_sizes(parser, sizes)
    measure.add_dtype(parser)


def build(options: argparse.Namespace) -> measure.Work:
    """The router that the options ask for."""
    tokens, hidden, experts, top_k, dtype = (
        options.tokens,
        options.hidden,
        options.experts,
        options.top_k,
        options.dtype,
    )
    if top_k > experts:
        raise measure.ArgumentsError(f"--top-k must be at most --experts, but is {top_k} of {experts}")

    def route(x: Any, w: Any) -> Any:
        import jax
        import jax.numpy as jnp

        scores = jax.lax.dot(x, w, preferred_element_type=jnp.float32)
        best, chosen = jax.lax.top_k(scores, top_k)
        return jax.nn.softmax(best, axis=-1), chosen

    flop = 2 * tokens * hidden * experts
    return measure.Work(
        function=route,
        operands=(
            measure.Operand(dimensions=(tokens, hidden), dtype=dtype),
            measure.Operand(dimensions=(hidden, experts), dtype=dtype),
        ),
        sizes={"tokens": tokens, "hidden": hidden, "experts": experts, "top_k": top_k},
        dtype=dtype,
        flop=flop,
        matrix_flop=flop,
        flop_counted="the product that gives the scores; not the choice, and not the softmax over the chosen",
        read_bytes=measure.byte_size(tokens * hidden + hidden * experts, dtype),
        written_bytes=measure.byte_size(tokens * top_k, "f32") + measure.byte_size(tokens * top_k, "s32"),
        bytes_counted="tokens and weights read once, chosen experts and their weights written once; not the scores",
        further={"scores_bytes": measure.byte_size(tokens * experts, "f32")},
    )


SCRIPT = measure.Script(name="router_topk", description=__doc__, add_options=add_options, build=build)


def step(devices: Sequence[Any]) -> Any:
    """The program of the default sizes, for `rocktools aot compile`."""
    return measure.build_program(SCRIPT, devices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; its exit code."""
    return measure.run(SCRIPT, arguments)


if __name__ == "__main__":
    sys.exit(main())
