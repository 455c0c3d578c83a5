"""The small parts of a plane, parsed once: names of events and statistics, statistics of the plane and of metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rocktools.sources.xspace.messages import STAT_DOUBLE, STAT_INT64, STAT_REF, STAT_UINT64, decode_text
from rocktools.sources.xspace.wire import signed

# Ids of texts that event metadata carries: downwards from here. Keys of a profile are small and positive.
FIRST_MADE_ID = -(2**62)

StatValue = str | int | float | bytes
_KINDS = {
    "uint64_value": STAT_UINT64,
    "int64_value": STAT_INT64,
    "ref_value": STAT_REF,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetadataStat:
    """A statistic that event metadata carries for all its events.

    Attributes:
        metadata_ids: ascending.
        kinds, bits: as in StatColumn.
    """

    metadata_ids: np.ndarray
    kinds: np.ndarray
    bits: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaneFacts:
    """What the events of a plane refer to.

    Attributes:
        event_names: by metadata id.
        display_names: by metadata id, where one is set.
        stat_names: by statistic id; references are such ids too. From FIRST_MADE_ID down: texts of event metadata.
        stat_ids: name -> the ids that have it, mostly one.
        stats: statistics of the plane by name.
        metadata_stats: statistic id -> its values in event metadata.
        metadata_bytes: statistic name -> metadata id -> bytes.
    """

    event_names: Mapping[int, str]
    display_names: Mapping[int, str]
    stat_names: Mapping[int, str]
    stat_ids: Mapping[str, tuple[int, ...]]
    stats: Mapping[str, StatValue]
    metadata_stats: Mapping[int, MetadataStat]
    metadata_bytes: Mapping[str, Mapping[int, bytes]] = field(repr=False)


def build_facts(message: Any) -> PlaneFacts:
    """The facts in a message of the class that messages.build_plane_facts makes."""
    texts = {key: decode_text(metadata.name) for key, metadata in message.stat_metadata.items()}
    ids: dict[str, list[int]] = {}
    for key in sorted(texts):
        ids.setdefault(texts[key], []).append(key)
    names, display_names = {}, {}
    made_texts: dict[str, int] = {}
    collected: dict[int, list[tuple[int, int, int]]] = {}
    in_bytes: dict[str, dict[int, bytes]] = {}
    for key in sorted(message.event_metadata):
        metadata = message.event_metadata[key]
        names[key] = decode_text(metadata.name)
        if metadata.display_name:
            display_names[key] = decode_text(metadata.display_name)
        for stat in metadata.stats:
            which = stat.WhichOneof("value")
            if which == "bytes_value":
                in_bytes.setdefault(texts.get(stat.metadata_id, ""), {})[key] = stat.bytes_value
            elif which is not None:
                collected.setdefault(stat.metadata_id, []).append((key, *_kind_and_bits(stat, which, made_texts)))
    return PlaneFacts(
        event_names=names,
        display_names=display_names,
        stat_names={**texts, **{made: text for text, made in made_texts.items()}},
        stat_ids={name: tuple(found) for name, found in ids.items()},
        stats=_plane_stats(message.stats, texts),
        metadata_stats={stat_id: _metadata_stat(rows) for stat_id, rows in collected.items()},
        metadata_bytes=in_bytes,
    )


def _kind_and_bits(stat: Any, which: str, made_texts: dict[str, int]) -> tuple[int, int]:
    """A value as in StatColumn. A text is given an id of its own."""
    if which == "str_value":
        return STAT_REF, made_texts.setdefault(decode_text(stat.str_value), FIRST_MADE_ID - len(made_texts))
    value = getattr(stat, which)
    if which == "double_value":
        return STAT_DOUBLE, int(np.float64(value).view(np.int64))
    return _KINDS[which], signed(value)


def _metadata_stat(rows: list[tuple[int, int, int]]) -> MetadataStat:
    last = {row[0]: row for row in rows}  # of a statistic that comes twice the last one holds
    keys, kinds, bits = zip(*last.values(), strict=True)
    return MetadataStat(
        metadata_ids=np.array(keys, dtype=np.int64),
        kinds=np.array(kinds, dtype=np.int8),
        bits=np.array(bits, dtype=np.int64),
    )


def _plane_stats(stats: Iterable[Any], texts: Mapping[int, str]) -> dict[str, StatValue]:
    values: dict[str, StatValue] = {}
    for stat in stats:
        which = stat.WhichOneof("value")
        name = texts.get(stat.metadata_id)
        if which is None or name is None:
            continue
        value = getattr(stat, which)
        if which == "ref_value":
            value = texts.get(value, "")
        elif which == "str_value":
            value = decode_text(value)
        values[name] = value
    return values
