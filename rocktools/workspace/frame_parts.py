"""Frames that were built whole -> parts, so that they can be put together with what was read from databases."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from rocktools.frames import FrameSpec
from rocktools.sources.rocpd.columns import IntColumn
from rocktools.sources.rocpd.parts import LabelColumn, Part


def part_of_frame(frame: pd.DataFrame, spec: FrameSpec, columns: Iterable[str] | None = None) -> Part:
    """The columns of a frame as those of a part.

    Args:
        frame: keeps the contract of `spec`.
        columns: columns wanted beside the key; None for all.
    """
    return {name: _column_of(frame[name]) for name in spec.select(columns)}


def _column_of(values: pd.Series) -> object:
    """A column of a frame as that of a part."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        used = values.cat.remove_unused_categories().cat
        return LabelColumn(used.codes.to_numpy(), tuple(map(str, used.categories)))
    if str(values.dtype) in ("int64", "Int64"):
        is_missing = values.isna().to_numpy()
        return IntColumn(values.fillna(0).to_numpy(dtype=np.int64), is_missing if is_missing.any() else None)
    return values.to_numpy()
