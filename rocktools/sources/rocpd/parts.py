"""The rows of one process as plain arrays, and many such parts -> one frame with the contract of rocktools.frames.

Frames are built once, from arrays of all processes: concatenating data frames whose categories differ would fall back
to one Python string per row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rocktools.errors import ContractError
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.sources.rocpd.columns import IntColumn, absent_column


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """Strings held once: `names[code]` for each row, code -1 where the value is missing."""

    codes: np.ndarray
    names: tuple[str, ...]

    def take(self, order: np.ndarray) -> LabelColumn:
        """The rows at `order`."""
        return LabelColumn(self.codes[order], self.names)


# Column name -> IntColumn, LabelColumn, or a numpy array of float64 or bool; all equally long.
Part = Mapping[str, Any]


def label_constant(name: str | None, rows_count: int) -> LabelColumn:
    """The same label in every row, or a missing one."""
    if name is None:
        return LabelColumn(np.full(rows_count, -1, dtype=np.int8), ())
    return LabelColumn(np.zeros(rows_count, dtype=np.int8), (_encodable(name),))


def _encodable(name: str) -> str:
    """A label that any output can write: no halves of UTF-16 pairs, as JSON escapes and odd file names bring them."""
    return name.encode("utf-8", errors="replace").decode("utf-8")


def identity_columns(process: str, run: str, rows_count: int) -> dict[str, Any]:
    """The columns that every frame's key begins with."""
    return {"run": label_constant(run, rows_count), "process": label_constant(process, rows_count)}


def label_values(values: Iterable[str | None]) -> LabelColumn:
    """One label for each value; None is missing. For small tables."""
    known: dict[str, int] = {}
    codes = [-1 if value is None else known.setdefault(_encodable(value), len(known)) for value in values]
    return LabelColumn(np.array(codes, dtype=np.int32), tuple(known))


def label_ids(ids: IntColumn, names: Mapping[int, str | None]) -> LabelColumn:
    """The name of each id; ids without a name, and missing ids, are missing."""
    known: dict[str, int] = {}
    name_ids = np.array(sorted(names), dtype=np.int64)
    name_codes = np.full(len(name_ids) + 1, -1, dtype=np.int32)  # the last one is for ids without a name
    for position, name_id in enumerate(name_ids.tolist()):
        name = names[name_id]
        if name is not None:
            name_codes[position] = known.setdefault(_encodable(name), len(known))
    return LabelColumn(name_codes[find_positions(name_ids, ids)], tuple(known))


def find_positions(sorted_ids: np.ndarray, wanted: IntColumn) -> np.ndarray:
    """Where each wanted id stands in `sorted_ids` (ascending, unique).

    Returns:
        Positions; len(sorted_ids) where an id is not there or is missing.
    """
    none = len(sorted_ids)
    if none == 0 or len(wanted) == 0:
        return np.zeros(len(wanted), dtype=np.int64)
    first, span = int(sorted_ids[0]), int(sorted_ids[-1]) - int(sorted_ids[0])
    if span <= 4 * len(wanted) + 1024:  # ids are mostly small and dense, and a table is several times faster
        table = np.full(span + 2, none, dtype=np.int64)
        table[sorted_ids - first] = np.arange(none)
        is_inside = (wanted.values >= first) & (wanted.values <= first + span)
        positions = table[np.where(is_inside, wanted.values - first, span + 1)]
    else:
        positions = np.searchsorted(sorted_ids, wanted.values)
        is_found = sorted_ids[np.minimum(positions, none - 1)] == wanted.values
        positions = np.where(is_found, positions, none)
    if wanted.is_missing is not None:
        positions = np.where(wanted.is_missing, none, positions)
    return positions


def lookup(sorted_ids: np.ndarray, facts: IntColumn, wanted: IntColumn) -> IntColumn:
    """`facts` (one row for each of `sorted_ids`) at each wanted id; missing where the id or its fact is missing."""
    if len(sorted_ids) == 0:
        return absent_column(len(wanted))
    positions = find_positions(sorted_ids, wanted)
    is_missing = positions == len(sorted_ids)
    positions = np.minimum(positions, len(sorted_ids) - 1)
    is_missing |= facts.missing[positions]
    return IntColumn(facts.values[positions], is_missing if is_missing.any() else None)


def part_length(part: Part) -> int:
    """Rows of a part that has at least one integer column."""
    return next(len(column) for column in part.values() if isinstance(column, IntColumn))


def sort_part(part: Part, by: Sequence[str]) -> Part:
    """The rows ordered by integer columns `by` (first is foremost); those that the part lacks do not count.

    Rows of a database are mostly in order already, which one comparison of neighbours tells.
    """
    keys = [column.values for name in by if isinstance(column := part.get(name), IntColumn)]
    if not keys or _is_sorted(keys):
        return part
    order = np.lexsort(keys[::-1])
    return {
        name: column.take(order) if isinstance(column, IntColumn | LabelColumn) else column[order]
        for name, column in part.items()
    }


def _is_sorted(keys: Sequence[np.ndarray]) -> bool:
    is_tie = np.ones(max(len(keys[0]) - 1, 0), dtype=np.bool_)
    for key in keys:
        if (is_tie & (key[1:] < key[:-1])).any():
            return False
        is_tie &= key[1:] == key[:-1]
    return True


def filter_part(part: Part, is_kept: np.ndarray) -> Part:
    """The rows where `is_kept` is True."""
    order = np.flatnonzero(is_kept)
    return {
        name: column.take(order) if isinstance(column, IntColumn | LabelColumn) else column[order]
        for name, column in part.items()
    }


def assemble_frame(parts: Sequence[Part], spec: FrameSpec, columns: Iterable[str] | None = None) -> pd.DataFrame:
    """One frame from the parts, in their order.

    Args:
        parts: each with every selected column, all columns of one part equally long.
        columns: columns wanted beside the key; None for all.

    Raises:
        ContractError: a part breaks the contract of the frame.
    """
    selected = spec.select(columns)
    if not parts:
        return spec.empty(selected)
    arrays = {name: _concatenate([part[name] for part in parts], spec.column(name)) for name in selected}
    return require_frame(pd.DataFrame(arrays, copy=False), spec, selected)


def _concatenate(pieces: Sequence[Any], column: Column) -> object:
    if column.dtype == "category":
        return _concatenate_labels([piece for piece in pieces if isinstance(piece, LabelColumn)])
    if column.dtype in ("int64", "Int64"):
        return _concatenate_ints([piece for piece in pieces if isinstance(piece, IntColumn)], column)
    return np.concatenate([np.asarray(piece) for piece in pieces])


def _concatenate_ints(pieces: Sequence[IntColumn], column: Column) -> object:
    values = pieces[0].values if len(pieces) == 1 else np.concatenate([piece.values for piece in pieces])
    if column.dtype == "Int64":
        mask = pieces[0].missing if len(pieces) == 1 else np.concatenate([piece.missing for piece in pieces])
        return nullable_int64(values, mask)
    if any(piece.is_missing is not None and piece.is_missing.any() for piece in pieces):
        raise ContractError("part-missing", f"column {column.name} has missing values, and its contract allows none")
    return values


def _concatenate_labels(pieces: Sequence[LabelColumn]) -> pd.Categorical:
    known: dict[str, int] = {}
    codes = []
    for piece in pieces:
        translation = np.array([known.setdefault(name, len(known)) for name in piece.names] + [-1], dtype=np.int32)
        codes.append(translation[piece.codes])  # code -1 takes the last entry, which is -1
    merged = codes[0] if len(codes) == 1 else np.concatenate(codes)
    return pd.Categorical.from_codes(merged, categories=pd.Index(list(known)))
