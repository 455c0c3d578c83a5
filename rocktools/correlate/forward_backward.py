"""Matrices between dispatches -> the probability of every state of every dispatch, given the whole trace.

Two ways to the same numbers. Compiled loops, where numba is installed, go through the dispatches one by one. With numpy
alone, dispatches are taken in blocks, and blocks of the same matrices, of which a program of repeated layers has many,
are multiplied once.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from rocktools.correlate.arrays import FloatArray, IntArray
from rocktools.correlate.state_sets import MoveMatrices
from rocktools.extras import require_extra

BLOCK = 8
"""Dispatches in a block: short, so that a lost dispatch makes few blocks differ, and products cannot underflow."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """Probabilities by dispatch and state.

    Attributes:
        starts: dispatch -> where its states begin in `ratios`; one more at the end.
        ratios: probability of each state of its set, which add up to 1 for each dispatch.
    """

    starts: IntArray
    ratios: FloatArray


def is_compiling() -> bool:
    """Whether compiled loops can be had here."""
    return find_spec("numba") is not None


def find_posterior(moves: MoveMatrices, first: FloatArray, *, compile_loops: bool) -> Posterior:
    """The probability of each state of each dispatch.

    Args:
        moves: the matrices.
        first: probability of each state before the first dispatch.
        compile_loops: use numba.

    Raises:
        MissingExtra: numba is wanted and not installed.
    """
    sizes = moves.columns[moves.matrix_of]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if sizes.size == 0:
        return Posterior(starts=starts, ratios=np.zeros(0))
    if not compile_loops:
        return Posterior(starts=starts, ratios=_by_blocks(moves, first, starts))
    numba = require_extra("numba", "fast", "compiled schedule alignment")
    loops = numba.njit(cache=True, nogil=True)(run_forward_backward)
    ratios = np.empty(starts[-1])
    loops(moves.matrix_of, moves.rows, moves.columns, moves.starts, moves.values, first, starts, ratios)
    return Posterior(starts=starts, ratios=ratios)


def run_forward_backward(
    matrix_of: Any,
    rows: Any,
    columns: Any,
    matrix_starts: Any,
    values: Any,
    first: Any,
    starts: Any,
    ratios: Any,
) -> None:
    """Fill `ratios`. Plain loops, which numba compiles; arguments are the fields of the dataclasses.

    Forward probabilities are kept in `ratios` and scaled to 1, then multiplied with the backward ones in place.
    """
    count = matrix_of.size
    before = first
    for place in range(count):
        matrix = matrix_of[place]
        width, offset, at = columns[matrix], starts[place], matrix_starts[matrix]
        total = 0.0
        for column in range(width):
            value = 0.0
            for row in range(rows[matrix]):
                value += before[row] * values[at + row * width + column]
            ratios[offset + column] = value
            total += value
        for column in range(width):
            ratios[offset + column] /= total
        before = ratios[offset : offset + width]
    after = np.ones(columns[matrix_of[count - 1]])
    for place in range(count - 1, -1, -1):
        matrix = matrix_of[place]
        width, height, offset, at = columns[matrix], rows[matrix], starts[place], matrix_starts[matrix]
        total = 0.0
        for column in range(width):
            ratios[offset + column] *= after[column]
            total += ratios[offset + column]
        for column in range(width):
            ratios[offset + column] /= total
        earlier = np.zeros(height)
        largest = 0.0
        for row in range(height):
            value = 0.0
            for column in range(width):
                value += values[at + row * width + column] * after[column]
            earlier[row] = value
            largest = max(largest, value)
        for row in range(height):
            earlier[row] /= largest
        after = earlier


def _by_blocks(moves: MoveMatrices, first: FloatArray, starts: IntArray) -> FloatArray:
    """The same, by blocks of equal matrices."""
    matrices = [
        moves.values[begin:end].reshape(rows, columns)
        for begin, end, rows, columns in zip(
            moves.starts[:-1].tolist(),
            moves.starts[1:].tolist(),
            moves.rows.tolist(),
            moves.columns.tolist(),
            strict=True,
        )
    ]
    ratios = np.empty(starts[-1])
    count = moves.matrix_of.size
    whole = count // BLOCK * BLOCK
    blocks = [moves.matrix_of[:whole].reshape(-1, BLOCK)]
    kinds, kind_of = np.unique(blocks[0], axis=0, return_inverse=True)
    chains = [[matrices[matrix] for matrix in row] for row in kinds.tolist()]
    order = kind_of.reshape(-1).tolist()
    if count > whole:  # what is left over is a block of its own
        chains.append([matrices[matrix] for matrix in moves.matrix_of[whole:].tolist()])
        order.append(len(chains) - 1)
    prefixes = [_prefixes(chain) for chain in chains]
    suffixes = [_suffixes(chain) for chain in chains]
    forward, backward = _across_blocks(order, prefixes, suffixes, first)
    members: list[list[int]] = [[] for _ in chains]
    for block, kind in enumerate(order):
        members[kind].append(block)
    for kind, of_kind in enumerate(members):
        if of_kind:
            _fill(ratios, starts, np.array(of_kind), prefixes[kind], suffixes[kind], forward, backward)
    return ratios


def _prefixes(chain: list[FloatArray]) -> list[FloatArray]:
    """Products of the first matrix, the first two, ..."""
    products = [chain[0]]
    for matrix in chain[1:]:
        products.append(products[-1] @ matrix)
    return products


def _suffixes(chain: list[FloatArray]) -> list[FloatArray | None]:
    """Products of what follows the first matrix, the first two, ...; nothing follows the last."""
    products: list[FloatArray | None] = [None]
    following: FloatArray | None = None
    for matrix in reversed(chain[1:]):
        following = matrix if following is None else matrix @ following
        products.append(following)
    return products[::-1]


def _across_blocks(
    order: list[int], prefixes: list[list[FloatArray]], suffixes: list[list[FloatArray | None]], first: FloatArray
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Scaled forward probabilities before each block, and backward ones behind it."""
    wholes = [products[-1] for products in prefixes]
    forward, vector = [], first
    for kind in order:
        forward.append(vector)
        vector = vector @ wholes[kind]
        vector = vector / vector.sum()
    backward: list[FloatArray] = [first] * len(order)
    vector = np.ones(vector.size)
    for place in range(len(order) - 1, -1, -1):
        backward[place] = vector
        vector = wholes[order[place]] @ vector
        vector = vector / vector.max()
    return forward, backward


def _fill(
    ratios: FloatArray,
    starts: IntArray,
    blocks: IntArray,
    prefixes: list[FloatArray],
    suffixes: list[FloatArray | None],
    forward: list[FloatArray],
    backward: list[FloatArray],
) -> None:
    """The probabilities of all blocks of one kind."""
    before = np.stack([forward[block] for block in blocks.tolist()])
    after = np.stack([backward[block] for block in blocks.tolist()])
    for inside, (prefix, suffix) in enumerate(zip(prefixes, suffixes, strict=True)):
        joint = before @ prefix
        joint *= after if suffix is None else after @ suffix.T
        joint /= joint.sum(axis=1, keepdims=True)
        begin = starts[blocks * BLOCK + inside]
        ratios[begin[:, None] + np.arange(joint.shape[1])] = joint
