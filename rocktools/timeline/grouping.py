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


def match_rows(left: pd.DataFrame, right: pd.DataFrame, on: Sequence[str]) -> IntArray:
    """Position in `right` of the first row with the same values in `on`, for each row of `left`; -1 where none has.

    Args:
        left, right: frames with the columns `on`, which name a row of `right`.
        on: columns; a missing value equals nothing.
    """
    if len(left) == 0 or len(right) == 0:
        return np.full(len(left), -1, dtype=np.int64)
    parts, is_missing = [], np.zeros(len(left) + len(right), dtype=np.bool_)
    for name in on:
        codes = _joint_codes(left[name], right[name])
        is_missing |= codes == 0
        parts.append(codes)
    groups = group_rows(parts)
    position = np.full(len(groups), -1, dtype=np.int64)
    of_right = groups.of[len(left) :]
    usable = np.flatnonzero(~is_missing[len(left) :])[::-1]  # backwards, so that the first one stays
    position[of_right[usable]] = usable
    found: IntArray = np.where(is_missing[: len(left)], -1, position[groups.of[: len(left)]])
    return found


def _joint_codes(left: pd.Series, right: pd.Series) -> IntArray:
    """Codes of both, one behind the other; 0 is missing."""
    if isinstance(left.dtype, pd.CategoricalDtype) and isinstance(right.dtype, pd.CategoricalDtype):
        known = {label: code for code, label in enumerate(left.cat.categories)}
        of_right = np.array([known.setdefault(label, len(known)) for label in right.cat.categories], dtype=np.int64)
        codes = right.cat.codes.to_numpy()
        translated = np.append(of_right, np.int64(-1))[codes]
        return np.concatenate([left.cat.codes.to_numpy().astype(np.int64), translated]) + 1
    return codes_of(pd.concat([left, right], ignore_index=True))
