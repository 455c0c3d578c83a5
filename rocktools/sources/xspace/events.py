"""The events of one line as columns, with the statistics of event metadata filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rocktools.sources.rocpd.parts import LabelColumn
from rocktools.sources.xspace.event_block import Decoder, EventBlock
from rocktools.sources.xspace.plane_facts import MetadataStat, PlaneFacts
from rocktools.sources.xspace.stat_columns import StatColumn, absent_stat, factorize

if TYPE_CHECKING:
    from rocktools.sources.xspace.plane import Line

PS_PER_NS = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Events:
    """Events of one line, in the order of the file.

    Attributes:
        metadata_id: what they are called by; `names` resolves it.
        offset_ps: from the line's timestamp; 0 for aggregated events.
        duration_ps: as recorded.
        occurrences: of aggregated events, which have no place in time; -1 for all others.
    """

    line: Line
    metadata_id: np.ndarray
    offset_ps: np.ndarray
    duration_ps: np.ndarray
    occurrences: np.ndarray
    _stats: Mapping[str, StatColumn] = field(repr=False)

    def __len__(self) -> int:
        return len(self.metadata_id)

    @property
    def start_ns(self) -> np.ndarray:
        """Start on the clock of the profile, rounded down."""
        starts: np.ndarray = self.offset_ps // PS_PER_NS + self.line.timestamp_ns
        return starts

    @property
    def end_ns(self) -> np.ndarray:
        """End on the clock of the profile, rounded down."""
        ends: np.ndarray = (self.offset_ps + self.duration_ps) // PS_PER_NS + self.line.timestamp_ns
        return ends

    @property
    def stat_names(self) -> tuple[str, ...]:
        """Statistics that at least one event has."""
        return tuple(self._stats)

    def names(self) -> LabelColumn:
        """The names of the events; "" where the plane has none for an event."""
        names = self.line.plane.facts.event_names
        distinct, inverse = factorize(self.metadata_id)
        known: dict[str, int] = {}
        codes = [known.setdefault(names.get(key, ""), len(known)) for key in distinct.tolist()]
        return LabelColumn(np.array(codes, dtype=np.int32)[inverse], tuple(known))

    def take(self, rows: np.ndarray) -> Events:
        """The events at `rows`."""
        return Events(
            line=self.line,
            metadata_id=self.metadata_id[rows],
            offset_ps=self.offset_ps[rows],
            duration_ps=self.duration_ps[rows],
            occurrences=self.occurrences[rows],
            _stats={name: column.take(rows) for name, column in self._stats.items()},
        )

    def stat(self, name: str) -> StatColumn:
        """A statistic by its name: the event's own value, else that of the event's metadata."""
        found = self._stats.get(name)
        return found if found is not None else absent_stat(len(self), self.line.content)


def read_events(line: Line, stats: Iterable[str] | None = None) -> Events:
    """All events of a line.

    Args:
        stats: names of the statistics wanted; None for all that occur.

    Raises:
        DamagedFile: bytes that are no events.
    """
    facts = line.plane.facts
    wanted = None if stats is None else {found for name in stats for found in facts.stat_ids.get(name, ())}
    columns = _Columns(line.decoder, wanted)
    for block in line.blocks(has_stats=wanted is None or bool(wanted)):
        columns.add(block)
    metadata_id = columns.joined("metadata_id")
    return Events(
        line=line,
        metadata_id=metadata_id,
        offset_ps=columns.joined("offset_ps"),
        duration_ps=columns.joined("duration_ps"),
        occurrences=columns.joined("occurrences"),
        _stats=_merge_stats(columns, facts, metadata_id, line, wanted),
    )


class _Columns:
    """Columns of the blocks so far."""

    def __init__(self, decoder: Decoder, wanted: set[int] | None) -> None:
        self._decoder = decoder
        self._wanted = wanted
        self._sizes: list[int] = []
        self._plain: dict[str, list[np.ndarray]] = {}
        # Statistic id -> number of the block -> kinds and bits of its events.
        self._stats: dict[int, dict[int, tuple[np.ndarray, np.ndarray]]] = {}

    def add(self, block: EventBlock) -> None:
        for name in ("metadata_id", "offset_ps", "duration_ps", "occurrences"):
            self._plain.setdefault(name, []).append(getattr(block, name))
        for stat_id, kinds_and_bits in self._decoder.spread_stats(block, self._wanted).items():
            self._stats.setdefault(stat_id, {})[len(self._sizes)] = kinds_and_bits
        self._sizes.append(len(block))

    @property
    def rows_count(self) -> int:
        return sum(self._sizes)

    @property
    def stat_ids(self) -> set[int]:
        return set(self._stats)

    def joined(self, name: str) -> np.ndarray:
        pieces = self._plain.pop(name, [])
        return pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros(0, dtype=np.int64), *pieces])

    def joined_stat(self, stat_id: int) -> tuple[np.ndarray, np.ndarray]:
        """Kinds and bits of one statistic for each event."""
        pieces = self._stats.pop(stat_id, {})
        kinds, bits = np.zeros(self.rows_count, dtype=np.int8), np.zeros(self.rows_count, dtype=np.int64)
        start = 0
        for number, size in enumerate(self._sizes):
            if number in pieces:
                kinds[start : start + size], bits[start : start + size] = pieces.pop(number)
            start += size
        return kinds, bits


def _merge_stats(
    columns: _Columns, facts: PlaneFacts, metadata_id: np.ndarray, line: Line, wanted: set[int] | None
) -> dict[str, StatColumn]:
    """Name -> column; where an event lacks a statistic, that of its metadata holds."""
    merged: dict[str, StatColumn] = {}
    inherited = facts.metadata_stats.keys() if wanted is None else facts.metadata_stats.keys() & wanted
    for stat_id in sorted(columns.stat_ids | inherited):
        kinds, bits = columns.joined_stat(stat_id)
        name = facts.stat_names.get(stat_id, f"statistic {stat_id}")
        if name in merged:  # two ids of one name
            _fill(kinds, bits, merged[name].kinds, merged[name].bits)
        if stat_id in facts.metadata_stats:
            _fill(kinds, bits, *_inherit(facts.metadata_stats[stat_id], metadata_id))
        if kinds.any():
            merged[name] = StatColumn(kinds=kinds, bits=bits, texts=facts.stat_names, content=line.content)
    return merged


def _fill(kinds: np.ndarray, bits: np.ndarray, other_kinds: np.ndarray, other_bits: np.ndarray) -> None:
    is_missing = kinds == 0
    kinds[is_missing], bits[is_missing] = other_kinds[is_missing], other_bits[is_missing]


def _inherit(stat: MetadataStat, metadata_id: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    places = np.minimum(np.searchsorted(stat.metadata_ids, metadata_id), len(stat.metadata_ids) - 1)
    is_there = stat.metadata_ids[places] == metadata_id
    kinds, bits = np.where(is_there, stat.kinds[places], 0).astype(np.int8), np.where(is_there, stat.bits[places], 0)
    return kinds, bits
