"""Tracks and slices -> a native Perfetto trace: length-delimited packets of the protobuf that ui.perfetto.dev reads.

Field numbers are those of perfetto's protos/perfetto/trace (trace_packet, track_event, track_descriptor, interned_data,
debug_annotation). Texts that repeat are interned: a name is written once, and then is a number. Everything is one
sequence of packets; the viewer sorts by time and keeps the order of packets at equal times, so that on each track ends
come before what begins at the same instant.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.timeline.tracks import Slices, Track, TrackSet, Values

_SEQUENCE_ID = 1
_CLEARED, _NEEDS_STATE = 1, 2
_BEGIN, _END, _COUNTER = 1, 2, 4
_EXPLICIT_ORDER = 3
_WRITE_BYTES = 1 << 20
_GROUP_PID = 1_000_000
"""Groups become processes, which is where the viewer hangs tracks; the numbers are ours and mean nothing."""


def write_perfetto(tracks: TrackSet, stream: BinaryIO) -> int:
    """Write the whole trace; how many packets it has."""
    pieces: list[bytes] = []
    size = count = 0
    for packet in _packets(tracks):
        piece = b"\x0a" + _varint(len(packet)) + packet
        pieces.append(piece)
        size += len(piece)
        count += 1
        if size > _WRITE_BYTES:
            stream.write(b"".join(pieces))
            pieces, size = [], 0
    stream.write(b"".join(pieces))
    return count


def _packets(tracks: TrackSet) -> Iterator[bytes]:
    texts = _Interned()
    encoded = [_EncodedSlices(slices, texts) for slices in tracks.slices]
    yield texts.packet()
    ranks: dict[int | None, int] = {}
    for track in tracks.tracks:
        ranks[track.parent_id] = ranks.get(track.parent_id, -1) + 1
        yield _track_packet(track, ranks[track.parent_id])
    for slices in encoded:
        yield from slices.packets()
    for values in tracks.values:
        yield from _value_packets(values)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def _number(field: int, value: int) -> bytes:
    """An integer field; negative ones take ten octets, as int64 does."""
    return _varint(field << 3) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def _block(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, value: str) -> bytes:
    return _block(field, value.encode("utf-8", errors="replace"))


_TRUSTED = _number(10, _SEQUENCE_ID)
_STATEFUL = _TRUSTED + _number(13, _NEEDS_STATE)


class _Interned:
    """Texts by the table of InternedData they belong to, each with its number."""

    _CATEGORIES, _NAMES, _ARGUMENTS, _STRINGS = 1, 2, 3, 29

    def __init__(self) -> None:
        self._tables: dict[int, dict[str, int]] = {
            table: {} for table in (self._CATEGORIES, self._NAMES, self._ARGUMENTS, self._STRINGS)
        }

    def category(self, text: str) -> int:
        return self._of(self._CATEGORIES, text)

    def name(self, text: str) -> int:
        return self._of(self._NAMES, text)

    def argument(self, text: str) -> int:
        return self._of(self._ARGUMENTS, text)

    def string(self, text: str) -> int:
        return self._of(self._STRINGS, text)

    def _of(self, table: int, text: str) -> int:
        known = self._tables[table]
        return known.setdefault(text, len(known) + 1)

    def packet(self) -> bytes:
        """The first packet of the sequence: everything that later ones refer to."""
        entries = b"".join(
            _block(table, _number(1, number) + _text(2, text))
            for table, known in self._tables.items()
            for text, number in known.items()
        )
        return _TRUSTED + _number(13, _CLEARED) + _block(12, entries)


def _track_packet(track: Track, rank: int) -> bytes:
    descriptor = _number(1, track.track_id) + _text(2, track.name) + _number(12, rank) + _number(11, _EXPLICIT_ORDER)
    if track.parent_id is None:
        descriptor += _block(3, _number(1, _GROUP_PID + track.track_id) + _text(6, track.name))
    else:
        descriptor += _number(5, track.parent_id)
    if track.unit:
        descriptor += _block(8, _text(6, track.unit))
    return _TRUSTED + _block(60, descriptor)


class _EncodedSlices:
    """Slices of a track whose texts have been interned."""

    def __init__(self, slices: Slices, texts: _Interned) -> None:
        self._slices = slices
        on_track = _number(11, slices.track_id)
        self._end = _STATEFUL + _block(11, _number(9, _END) + on_track)
        head = _number(9, _BEGIN) + on_track + _number(3, texts.category(slices.category))
        names = [head + _number(10, texts.name(str(name))) for name in slices.names.categories]
        parts = [[names[code] for code in slices.names.codes]]
        parts += [_arguments(name, column, texts) for name, column in slices.arguments.items()]
        for field, flow in ((47, slices.flow_out), (48, slices.flow_in)):
            if flow is not None:
                tag = _varint(field << 3 | 1)
                parts.append([tag + struct.pack("<Q", number) if number else b"" for number in flow.tolist()])
        self._parts = parts

    def packets(self) -> Iterator[bytes]:
        """Begin and end of each, in the order of time on this track."""
        open_ends: list[int] = []
        starts, ends = self._slices.start_ns.tolist(), self._slices.end_ns.tolist()
        for start, end, *parts in zip(starts, ends, *self._parts, strict=True):
            while open_ends and open_ends[-1] <= start:
                yield _number(8, open_ends.pop()) + self._end
            yield _number(8, start) + _STATEFUL + _block(11, b"".join(parts))
            open_ends.append(end)
        while open_ends:
            yield _number(8, open_ends.pop()) + self._end


def _arguments(name: str, column: pd.Series, texts: _Interned) -> list[bytes]:
    """One debug annotation for each row; b"" where there is no value."""
    head = _number(1, texts.argument(name))
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = [_block(4, head + _number(17, texts.string(str(each)))) for each in column.cat.categories]
        known.append(b"")  # code -1: missing
        return [known[code] for code in column.cat.codes]
    is_there = column.notna().to_numpy()
    values: npt.NDArray[np.generic]
    if pd.api.types.is_bool_dtype(column.dtype):
        values, encode = column.fillna(False).to_numpy(dtype=np.int64), _encode_bool
    elif pd.api.types.is_integer_dtype(column.dtype):
        values, encode = column.fillna(0).to_numpy(dtype=np.int64), _encode_integer
    else:
        values, encode = column.to_numpy(dtype=np.float64, na_value=np.nan), _encode_float
    # Few values repeat over many rows: each is encoded once.
    unique, places = np.unique(values, return_inverse=True)
    encoded = [_block(4, head + encode(value)) for value in unique.tolist()]
    return [encoded[place] if there else b"" for place, there in zip(places.tolist(), is_there.tolist(), strict=True)]


def _encode_bool(value: int) -> bytes:
    return _number(2, int(bool(value)))


def _encode_integer(value: int) -> bytes:
    return _number(4, value)


def _encode_float(value: float) -> bytes:
    return b"\x29" + struct.pack("<d", value)


def _value_packets(values: Values) -> Iterable[bytes]:
    head = _number(9, _COUNTER) + _number(11, values.track_id) + _varint(44 << 3 | 1)
    for time, value in zip(values.time_ns.tolist(), values.values.tolist(), strict=True):
        yield _number(8, time) + _TRUSTED + _block(11, head + struct.pack("<d", value))


def packet_counts(tracks: TrackSet) -> Mapping[str, int]:
    """What the trace holds, for whoever asked for it."""
    return {
        "tracks": len(tracks.tracks),
        "slices": tracks.slices_count,
        "values": sum(len(each.time_ns) for each in tracks.values),
    }
