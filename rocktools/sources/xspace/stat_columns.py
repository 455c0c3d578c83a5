"""Statistics of events -> columns: one value for each event, of whatever types the profile has.

A statistic is not tied to a type: `fragmentation` is a double on some events of a line and an integer on others, and
nearly all texts are references into the plane's statistic metadata. So a column keeps kind and bits, and is asked for
integers, numbers or labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rocktools.sources.rocpd.columns import IntColumn
from rocktools.sources.rocpd.parts import LabelColumn
from rocktools.sources.xspace.event_block import LENGTH_SHIFT, OFFSET_MASK, table_size
from rocktools.sources.xspace.messages import (
    STAT_BYTES,
    STAT_DOUBLE,
    STAT_INT64,
    STAT_REF,
    STAT_STR,
    STAT_UINT64,
    decode_text,
)
from rocktools.sources.xspace.wire import Content

_UINT64 = 2**64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StatColumn:
    """One statistic of some events.

    Attributes:
        kinds: number of the value's field in XStat for each event; 0 where the event has no such statistic.
        bits: the value, as in EventBlock; 0 where there is none.
        texts: what references refer to. Some are made for texts of event metadata.
        content: the bytes that texts are in.
    """

    kinds: np.ndarray
    bits: np.ndarray
    texts: Mapping[int, str]
    content: Content

    def __len__(self) -> int:
        return len(self.kinds)

    def take(self, rows: np.ndarray) -> StatColumn:
        """The events at `rows`."""
        return StatColumn(kinds=self.kinds[rows], bits=self.bits[rows], texts=self.texts, content=self.content)

    @property
    def is_present(self) -> np.ndarray:
        """Whether each event has the statistic, with a value."""
        is_present: np.ndarray = self.kinds != 0
        return is_present

    def integers(self) -> IntColumn:
        """The integers; missing where the statistic is, or is a text, a float, or too large for int64."""
        is_integer = (self.kinds == STAT_INT64) | ((self.kinds == STAT_UINT64) & (self.bits >= 0))
        return IntColumn(self.bits, None if is_integer.all() else ~is_integer)

    def floats(self) -> np.ndarray:
        """The numbers as float64; NaN where the statistic is missing, or a text."""
        values = np.full(len(self.kinds), np.nan)
        for kind, dtype in ((STAT_DOUBLE, np.float64), (STAT_INT64, np.int64), (STAT_UINT64, np.uint64)):
            which = self.kinds == kind
            values[which] = self.bits[which].view(dtype)
        return values

    def labels(self) -> LabelColumn:
        """The texts, and the numbers in decimal; missing where the statistic is, or is bytes."""
        known: dict[str, int] = {}
        codes = np.full(len(self.kinds), -1, dtype=np.int32)
        spellings: dict[int, Callable[[int], str]] = {
            STAT_REF: self._referred,
            STAT_INT64: str,
            STAT_UINT64: lambda bits: str(bits % _UINT64),
            STAT_STR: self._written,
            STAT_DOUBLE: lambda bits: repr(float(np.int64(bits).view(np.float64))),
        }
        for kind, spell in spellings.items():
            which = self.kinds == kind
            if which.any():
                is_all = bool(which.all())
                distinct, inverse = factorize(self.bits if is_all else self.bits[which])
                names = [known.setdefault(spell(bits), len(known)) for bits in distinct.tolist()]
                codes[slice(None) if is_all else which] = np.array(names, dtype=np.int32)[inverse]
        return LabelColumn(codes, tuple(known))

    def values(self) -> list[str | int | float | bytes | None]:
        """A Python value for each event: for tests and small lines."""
        return [self._value(kind, bits) for kind, bits in zip(self.kinds.tolist(), self.bits.tolist(), strict=True)]

    def _value(self, kind: int, bits: int) -> str | int | float | bytes | None:
        if kind == STAT_REF:
            return self._referred(bits)
        if kind == STAT_STR:
            return self._written(bits)
        if kind == STAT_BYTES:
            return self._raw(bits)
        if kind == STAT_DOUBLE:
            return float(np.int64(bits).view(np.float64))
        if kind == STAT_UINT64:
            return bits % _UINT64
        return bits if kind == STAT_INT64 else None

    def _referred(self, bits: int) -> str:
        return self.texts.get(bits, "")

    def _written(self, bits: int) -> str:
        return decode_text(self._raw(bits))

    def _raw(self, bits: int) -> bytes:
        start = bits & OFFSET_MASK
        return bytes(self.content[start : start + (bits >> LENGTH_SHIFT)])


def absent_stat(rows_count: int, content: Content) -> StatColumn:
    """A statistic that no event has."""
    none = np.zeros(rows_count, dtype=np.int64)
    return StatColumn(kinds=none.astype(np.int8), bits=none, texts={}, content=content)


def factorize(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values of an int64 array, ascending, and for each row the place of its value among them."""
    if len(values) == 0:
        return values, np.zeros(0, dtype=np.int64)
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest >= table_size(len(values)):
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct, inverse.reshape(-1)
    shifted = values - lowest if lowest else values
    is_there = np.zeros(highest - lowest + 1, dtype=np.bool_)
    is_there[shifted] = True
    places = np.cumsum(is_there, dtype=np.int32) - 1
    return np.flatnonzero(is_there) + lowest, places[shifted]
