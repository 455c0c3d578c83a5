"""The fixed parts of replay_jax.py: what stands above and below the translated functions."""

from __future__ import annotations

PRELUDE = '''import numpy as np

import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_enable_x64", True)  # types of HLO are explicit: none is to be narrowed


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
'''
