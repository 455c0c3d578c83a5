"""The arrays that schedule alignment works with, and sums over groups of them, typed once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def sum_by(group: IntArray, values: FloatArray, count: int) -> FloatArray:
    """The sum of the values of each of `count` groups."""
    return np.bincount(group, weights=values, minlength=count).astype(np.float64)


def count_by(group: IntArray, count: int) -> IntArray:
    """How often each of `count` groups occurs."""
    return np.bincount(group, minlength=count).astype(np.int64)


def largest_cells(ratios: FloatArray, starts: IntArray, owner: IntArray) -> tuple[FloatArray, IntArray]:
    """The largest value of each stretch of a flat array, and where it is; of equal ones the first.

    Args:
        ratios: the values, stretch after stretch.
        starts: where each stretch begins; one more at the end. None is empty.
        owner: the stretch of each value.
    """
    largest = np.maximum.reduceat(ratios, starts[:-1])
    cells = np.flatnonzero(ratios == largest[owner])
    cell = np.empty(largest.size, dtype=np.int64)
    cell[owner[cells[::-1]]] = cells[::-1]
    return largest, cell
