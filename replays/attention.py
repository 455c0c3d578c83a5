"""Attention as plain products and a softmax: several kernels, since XLA fuses no flash attention of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import measure


def add_options(parser: argparse.ArgumentParser) -> None:
    """Sizes, type, and the mask."""
    sizes = {
        "batch": (1, "sequences"),
        "heads": (32, "heads of queries"),
        "kv-heads": (8, "heads of keys and values, each shared by as many heads of queries"),
        "queries": (4096, "queries of a sequence"),
        "keys": (4096, "keys of a sequence"),
        "head-dim": (128, "length of a head's vectors"),
    }
    measure.add_sizes(parser, sizes)
    measure.add_dtype(parser)
    parser.add_argument("--causal", action="store_true", help="no query sees keys that come after it")


def build(options: argparse.Namespace) -> measure.Work:
    """The attention that the options ask for."""
    batch, heads, kv_heads, head_dim = options.batch, options.heads, options.kv_heads, options.head_dim
    queries, keys, dtype = options.queries, options.keys, options.dtype
    if heads % kv_heads:
        raise measure.ArgumentsError(f"--heads must be a multiple of --kv-heads, but {heads} is none of {kv_heads}")
    if options.causal and queries != keys:
        raise measure.ArgumentsError(f"--causal needs as many queries as keys, but they are {queries} and {keys}")
    is_causal = bool(options.causal)

    def attend(q: Any, k: Any, v: Any) -> Any:
        import jax

        return jax.nn.dot_product_attention(q, k, v, is_causal=is_causal, implementation="xla")

    pairs = batch * heads * queries * keys
    seen = batch * heads * queries * (queries + 1) // 2 if is_causal else pairs
    q_count, kv_count = batch * queries * heads * head_dim, batch * keys * kv_heads * head_dim
    return measure.Work(
        function=attend,
        operands=(
            measure.Operand(dimensions=(batch, queries, heads, head_dim), dtype=dtype),
            measure.Operand(dimensions=(batch, keys, kv_heads, head_dim), dtype=dtype),
            measure.Operand(dimensions=(batch, keys, kv_heads, head_dim), dtype=dtype),
        ),
        sizes={
            "batch": batch,
            "heads": heads,
            "kv_heads": kv_heads,
            "queries": queries,
            "keys": keys,
            "head_dim": head_dim,
            "mask": "causal" if is_causal else "none",
        },
        dtype=dtype,
        flop=4 * pairs * head_dim,
        matrix_flop=4 * pairs * head_dim,
        flop_counted="the two products over all pairs of query and key, masked ones too; not the softmax",
        read_bytes=measure.byte_size(q_count + 2 * kv_count, dtype),
        written_bytes=measure.byte_size(q_count, dtype),
        bytes_counted="queries, keys and values read once, the result written once; not the scores between kernels",
        further={"unmasked_flop": 4 * seen * head_dim, "scores_count": pairs},
    )


SCRIPT = measure.Script(name="attention", description=__doc__, add_options=add_options, build=build)


def step(devices: Sequence[Any]) -> Any:
    """The program of the default sizes, for `rocktools aot compile`."""
    return measure.build_program(SCRIPT, devices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; its exit code."""
    return measure.run(SCRIPT, arguments)


if __name__ == "__main__":
    sys.exit(main())
