"""The fixed parts of replay_jax.py: what stands above the translated functions."""

from __future__ import annotations

import ast
import re

IMPORTS = """import numpy as np

import jax
import jax.numpy as jnp
from jax import lax
"""

_CONFIGURATION = """
jax.config.update("jax_enable_x64", True)  # types of HLO are explicit: none is to be narrowed
# Conversions that are left in an optimized program are meant: XLA is not to drop them.
EXACT = {"xla_allow_excess_precision": False}
"""

FUNCTIONS = '''

def _bitcast(x, before, dimensions, after):
    """The same bytes under another logical shape; `before` and `after` are the orders of dimensions, minor first."""
    x = lax.transpose(x, tuple(reversed(before)))
    x = lax.reshape(x, tuple(dimensions[each] for each in reversed(after)))
    return lax.transpose(x, tuple(int(each) for each in np.argsort(tuple(reversed(after)))))


def _vector_last(indices, dimension):
    return indices[..., None] if dimension == indices.ndim else jnp.moveaxis(indices, dimension, -1)


def _gather(x, indices, numbers, sizes, vector, *, is_sorted):
    """HLO moves an index that is out of bounds inside: `CLIP`."""
    return lax.gather(x, _vector_last(indices, vector), numbers, sizes, indices_are_sorted=is_sorted,
                      mode=lax.GatherScatterMode.CLIP)


def _scatter(function, x, indices, updates, numbers, vector, *, is_sorted, is_unique):
    """HLO leaves an update out whose index is out of bounds: `FILL_OR_DROP`."""
    return function(x, _vector_last(indices, vector), updates, numbers, indices_are_sorted=is_sorted,
                    unique_indices=is_unique, mode=lax.GatherScatterMode.FILL_OR_DROP)


def _scatter_one_by_one(function, x, indices, updates, numbers, vector, *, is_sorted, is_unique):
    """With any combination of old and new values, in the order of the updates."""
    indices = _vector_last(indices, vector)
    window = numbers.update_window_dims
    places = [each for each in range(updates.ndim) if each not in window]
    left_out = sorted((*numbers.inserted_window_dims, *numbers.operand_batching_dims))
    updates = lax.transpose(updates, (*places, *window))
    updates = updates.reshape(-1, *updates.shape[len(places):])
    sizes = iter(updates.shape[1:])
    shape = tuple(1 if each in left_out else next(sizes) for each in range(x.ndim))
    starts = [jnp.zeros(updates.shape[0], indices.dtype)] * x.ndim
    for number, dimension in enumerate(numbers.scatter_dims_to_operand_dims):
        starts[dimension] = indices[..., number].reshape(-1)
    for dimension, place in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims):
        starts[dimension] = lax.broadcasted_iota(indices.dtype, indices.shape[:-1], place).reshape(-1)

    def step(number, x):
        start = [each[number] for each in starts]
        is_inside = jnp.array(True)
        for each, size, of in zip(start, shape, x.shape):
            is_inside = is_inside & (each >= 0) & (each + size <= of)
        made = function(lax.dynamic_slice(x, start, shape), updates[number].reshape(shape))
        return jnp.where(is_inside, lax.dynamic_update_slice(x, made, start), x)

    return lax.fori_loop(0, updates.shape[0], step, x)
'''


def render_prelude(text: str) -> str:
    """What stands above translated functions: imports, settings, and those of `FUNCTIONS` that they call."""
    known = {
        node.name: ast.get_source_segment(FUNCTIONS, node) or ""
        for node in ast.parse(FUNCTIONS).body
        if isinstance(node, ast.FunctionDef)
    }
    needed: set[str] = set()
    waiting = [text]
    while waiting:
        called = {name for name in known if re.search(rf"\b{name}\(", waiting[-1])} - needed
        waiting.pop()
        needed |= called
        waiting += [known[name] for name in called]
    functions = [f"\n\n{definition}\n" for name, definition in known.items() if name in needed]
    return "".join([IMPORTS, _CONFIGURATION, *functions])
