"""Some consecutive events of one line as columns, as both decoders make them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# XEvent's `data` is an offset, or a count of occurrences for events that were added up.
NO_OCCURRENCES = -1
# A text or bytes in a block: where it is, and how long, in one int64.
LENGTH_SHIFT = 32
OFFSET_MASK = 2**LENGTH_SHIFT - 1


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


COLUMNS = (
    "metadata_id",
    "offset_ps",
    "duration_ps",
    "occurrences",
    "stat_event",
    "stat_id",
    "stat_kind",
    "stat_bits",
)
