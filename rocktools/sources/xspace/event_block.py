"""Some consecutive events of one line as columns, and what makes them of bytes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rocktools.sources.xspace.wire import Content

# XEvent's `data` is an offset, or a count of occurrences for events that were added up.
NO_OCCURRENCES = -1
# A text or bytes in a block: where it is, and how long, in one int64.
LENGTH_SHIFT = 32
OFFSET_MASK = 2**LENGTH_SHIFT - 1
_LARGEST_TABLE = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventBlock:
    """Events, and their statistics in the order of the events.

    Attributes:
        metadata_id: key in the plane's event metadata.
        offset_ps: from the line's timestamp; 0 for aggregated events.
        duration_ps: as recorded.
        occurrences: of an aggregated event; `NO_OCCURRENCES` for all others.
        stat_event: index in this block of the event that the statistic belongs to; ascending.
        stat_id: key in the plane's statistic metadata.
        stat_kind: number of the value's field in XStat; 0 without a value.
        stat_bits: the value's 64 bits; of texts and bytes their offset in the content, and their length above
            `LENGTH_SHIFT`.
    """

    metadata_id: np.ndarray
    offset_ps: np.ndarray
    duration_ps: np.ndarray
    occurrences: np.ndarray
    stat_event: np.ndarray
    stat_id: np.ndarray
    stat_kind: np.ndarray
    stat_bits: np.ndarray

    def __len__(self) -> int:
        return len(self.metadata_id)


# A statistic -> its kinds, its bits: for each event of a block.
SpreadStats = dict[int, tuple[np.ndarray, np.ndarray]]


class Decoder(Protocol):
    """Two ways to decode events, which give the same arrays: with numpy alone, and compiled."""

    def decode_block(
        self, content: Content, octets: np.ndarray, position: int, end: int, *, has_stats: bool
    ) -> tuple[EventBlock, int]:
        """The events from `position` on, of a line that ends at `end`: some of them.

        Args:
            content, octets: the same bytes.
            has_stats: False to step over statistics, which takes a fraction of the time.

        Returns:
            The block, and where the next one begins.

        Raises:
            WireError: bytes that are no events.
        """

    def spread_stats(self, block: EventBlock, wanted: Collection[int] | None) -> SpreadStats:
        """Kind and bits for each event, of the statistics that occur; of one that comes twice the last one holds.

        Args:
            wanted: statistic ids; None for all.
        """


def find_stats(block: EventBlock, wanted: Collection[int] | None) -> list[int]:
    """The statistics of a block that are wanted, ascending; None for all."""
    return [key for key in distinct_values(block.stat_id).tolist() if wanted is None or key in wanted]


def distinct_values(values: np.ndarray) -> np.ndarray:
    """The distinct values of an int64 array, ascending."""
    if len(values) == 0:
        return values
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest >= table_size(len(values)):
        ordered = np.sort(values)  # not numpy.unique: on large arrays its hash table takes ten times as long
        distinct: np.ndarray = ordered[np.append(True, ordered[1:] != ordered[:-1])]
        return distinct
    is_there = np.zeros(highest - lowest + 1, dtype=np.bool_)
    is_there[values - lowest if lowest else values] = True
    return np.flatnonzero(is_there) + lowest


def table_size(count: int) -> int:
    """Up to how many entries a table serves `count` look-ups better than a sort."""
    return min(_LARGEST_TABLE, 4 * count + 1024)
