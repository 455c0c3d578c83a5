"""Rows of a frame in groups of equal values, by integer codes: no loop over rows; what is missing is a value too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Rows in groups: the group of each, numbered from 0, and one row of each group."""

    of: IntArray
    example: IntArray

    def __len__(self) -> int:
        return int(self.example.size)


def codes_of(column: pd.Series) -> IntArray:
    """Equal values have equal codes, from 0; what is missing is a value like any other."""
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    codes: npt.NDArray[Any] = column.cat.codes.to_numpy() if is_category else pd.factorize(column)[0]
    return codes.astype(np.int64) + 1


def group_rows(parts: Sequence[IntArray]) -> Groups:
    """Groups of equal combinations of codes."""
    combined, size = np.zeros(parts[0].size, dtype=np.int64), 1
    for part in parts:
        values_count = int(part.max(initial=0)) + 1
        if size * values_count > np.iinfo(np.int64).max:
            combined, distinct = pd.factorize(combined)
            size = len(distinct)  # at most one per row: the product fits again
        combined = combined * values_count + part
        size *= values_count
    of, distinct = pd.factorize(combined)
    example = np.empty(len(distinct), dtype=np.int64)
    example[of] = np.arange(of.size)
    return Groups(of.astype(np.int64), example)


def extent_texts(columns: Sequence[Any]) -> list[str | None]:
    """`65536x1x1`; `?` for a missing one of the three, None where all are."""
    extents = zip(*columns, strict=True)
    texts = ("x".join("?" if extent is pd.NA else str(extent) for extent in xyz) for xyz in extents)
    return [None if text == "?x?x?" else text for text in texts]
