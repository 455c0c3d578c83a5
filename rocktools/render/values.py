"""Columns of a frame as plain Python values, exact, for the writers that need text."""

from __future__ import annotations

import numpy as np
import pandas as pd


def python_values(series: pd.Series) -> list[object]:
    """The values as int, float, bool and str; None where missing. Integers never pass through a float.

    Cells that are none of these (in a column of dtype object) become their str().
    """
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        lookup = np.empty(len(dtype.categories) + 1, dtype=object)
        lookup[:-1] = python_values(pd.Series(dtype.categories))
        return list(lookup[series.cat.codes.to_numpy()])  # code -1, missing, is the last one: None
    if isinstance(dtype, np.dtype) and dtype.kind in "iub":
        return list(series.tolist())
    if pd.api.types.is_float_dtype(dtype):
        floats = series.to_numpy(dtype=np.float64, na_value=np.nan)
        values = floats.astype(object)
        values[np.isnan(floats)] = None
        return list(values.tolist())
    is_missing = series.isna().to_numpy()
    if pd.api.types.is_integer_dtype(dtype):
        # Filled first: some versions of pandas turn a nullable column with a gap into floats on the way to objects.
        values = series.fillna(0).to_numpy(dtype=dtype.numpy_dtype).astype(object)
    else:
        values = series.to_numpy(dtype=object, copy=True)
    values[is_missing] = None
    if pd.api.types.is_object_dtype(dtype):
        return [_plain(value) for value in values]
    return list(values.tolist())


def is_number_dtype(dtype: object) -> bool:
    """Whether values of this dtype are numbers; flags are not."""
    return bool(pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype))


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
