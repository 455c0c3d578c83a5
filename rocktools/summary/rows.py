"""Rows of frames -> dataclasses of the document, in plain Python values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
import pandas as pd

_Row = TypeVar("_Row")


def build_rows(kind: type[_Row], frame: pd.DataFrame, **others: Sequence[Any]) -> tuple[_Row, ...]:
    """One object of a dataclass for each row of a frame.

    Args:
        kind: whose fields are columns of the frame; other columns are left out.
        others: values of the fields that the frame lacks, or has otherwise, one for each row.
    """
    hints = get_type_hints(kind)
    columns = []
    names = [each.name for each in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in names:
        values = others[name] if name in others else plain_values(frame[name])
        convert = _converter(hints[name])
        columns.append(values if convert is None else [None if each is None else convert(each) for each in values])
    return tuple(kind(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True))


def plain_values(column: pd.Series) -> list[Any]:
    """Values of a column as Python knows them; None for what is missing."""
    values = column.astype(object).tolist()
    return [plain_value(value) for value in values]


def plain_value(value: Any) -> Any:
    """One value as Python knows it; None where it is missing."""
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    """What makes a value what its hint says; None where it is that already."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    if len(kinds) == 1 and isinstance(kinds[0], type) and (kinds[0] is float or issubclass(kinds[0], Enum)):
        convert: Callable[[Any], Any] = kinds[0]
        return convert
    return None
