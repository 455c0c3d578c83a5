"""Bytes of XLine.events -> EventBlock, with numpy alone: all events of a block are decoded in lock-step.

One cursor per event; each round reads one field of every event that has one left, so the work is done by a few dozen
array operations per block. Statistics are messages within events, and go the same way, one cursor each.

The rules are protobuf's: fields in any order, of a field that comes twice the last one holds, unknown fields and known
ones of another wire type are skipped. Whatever reaches beyond its message is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from rocktools.sources.xspace.event_block import LENGTH_SHIFT, NO_OCCURRENCES, EventBlock, SpreadStats, find_stats
from rocktools.sources.xspace.messages import (
    LINE_EVENTS,
    STAT_BYTES,
    STAT_DOUBLE,
    STAT_INT64,
    STAT_REF,
    STAT_STR,
    STAT_UINT64,
)
from rocktools.sources.xspace.wire import FIXED32, FIXED64, LARGEST_TAG, LENGTH, VARINT, Content, WireError, read_field

# Of one block: its arrays take about forty times as much, and a few thousand events make up for numpy's cost per call.
BLOCK_BYTES = 1 << 19

EVENT_METADATA_ID, EVENT_OFFSET, EVENT_DURATION, EVENT_STATS, EVENT_OCCURRENCES = 1, 2, 3, 4, 5
STAT_METADATA_ID = 1
_EVENT_TAG = LINE_EVENTS << 3 | LENGTH
_STATS_TAG = EVENT_STATS << 3 | LENGTH
_STAT_ID_TAG = STAT_METADATA_ID << 3 | VARINT
_UINT64_TAG, _INT64_TAG, _REF_TAG = (number << 3 | VARINT for number in (STAT_UINT64, STAT_INT64, STAT_REF))
_CUT_OFF = "a number is cut off by the end of its message"
_TOO_LONG = "a field claims more bytes than its message has left"
# Field of XStat's value -> wire type.
_VALUE_WIRE_TYPES = {
    STAT_DOUBLE: FIXED64,
    STAT_UINT64: VARINT,
    STAT_INT64: VARINT,
    STAT_STR: LENGTH,
    STAT_BYTES: LENGTH,
    STAT_REF: VARINT,
}


@dataclass(frozen=True, slots=True, eq=False)
class _Fields:
    """One field for each cursor; as wire.WireField, the value of a fixed64 included."""

    number: np.ndarray
    wire_type: np.ndarray
    bits: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def which(self, number: int, wire_type: int) -> np.ndarray:
        return np.flatnonzero((self.number == number) & (self.wire_type == wire_type))


class NumpyDecoder:
    """event_block.Decoder with numpy alone."""

    def decode_block(
        self, content: Content, octets: np.ndarray, position: int, end: int, *, has_stats: bool
    ) -> tuple[EventBlock, int]:
        starts, ends, stop = _find_events(content, position, end)
        events, stats = _decode_events(octets, starts, ends, has_stats)
        return EventBlock(**events, **stats), stop

    def spread_stats(self, block: EventBlock, wanted: Collection[int] | None) -> SpreadStats:
        return {stat_id: _spread(block, stat_id) for stat_id in find_stats(block, wanted)}


def _spread(block: EventBlock, stat_id: int) -> tuple[np.ndarray, np.ndarray]:
    which = np.flatnonzero(block.stat_id == stat_id)
    rows = block.stat_event[which]
    kinds, bits = np.zeros(len(block), dtype=np.int8), np.zeros(len(block), dtype=np.int64)
    kinds[rows], bits[rows] = block.stat_kind[which], block.stat_bits[which]
    return kinds, bits


def _find_events(content: Content, position: int, end: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Where the messages of the next events start and end, and where the search stopped.

    Raises:
        WireError: a field reaches beyond the line.
    """
    first, limit = position, min(end, position + BLOCK_BYTES)
    # A byte of `bytes` is had in half the time; the one behind the last stops the short way.
    window = bytes(content[first:limit]) + b"\x80"
    pieces: list[tuple[int, list[int]]] = []
    long_events: list[tuple[int, int]] = []
    while position < limit:
        stops = _step_over_short_events(window, position - first)
        if stops:
            pieces.append((position, stops))
            position = first + stops[-1]
            if position > end:
                start = first + (stops[-2] if len(stops) > 1 else pieces[-1][0] - first)
                raise WireError(start, f"an event reaches {position - end} bytes beyond its line")
        elif position < limit:
            found = read_field(content, position, end)
            if found.is_message(LINE_EVENTS):
                long_events.append((found.start, found.end))
            position = found.end
    return *_spans(first, pieces, long_events), position


def _step_over_short_events(window: bytes, place: int) -> list[int]:
    """Where the events of less than 128 bytes from `place` on end, up to the first other field."""
    stops: list[int] = []
    append = stops.append
    last = len(window) - 1
    while place < last and window[place] == _EVENT_TAG and (size := window[place + 1]) < 0x80:
        place += size + 2
        append(place)
    return stops


def _spans(
    first: int, pieces: list[tuple[int, list[int]]], long_events: list[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of all events, in the order of the bytes."""
    starts, ends = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for position, stops in pieces:
        end = np.array(stops, dtype=np.int64) + first
        ends.append(end)
        starts.append(np.concatenate([[position], end[:-1]]) + 2)
    if long_events:
        spans = np.array(long_events, dtype=np.int64)
        starts.append(spans[:, 0])
        ends.append(spans[:, 1])
    start, stop = np.concatenate(starts), np.concatenate(ends)
    if not long_events:
        return start, stop
    order = np.argsort(start, kind="stable")
    return start[order], stop[order]


def _decode_events(
    octets: np.ndarray, starts: np.ndarray, ends: np.ndarray, has_stats: bool
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Columns of the events, and of their statistics."""
    count = len(starts)
    metadata_id, offset, duration = (np.zeros(count, dtype=np.int64) for _ in range(3))
    occurrences = np.full(count, NO_OCCURRENCES, dtype=np.int64)
    stats_count = np.zeros(count, dtype=np.int64)
    rounds: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    cursor = starts.copy()
    active = np.flatnonzero(cursor < ends)
    while active.size:
        if has_stats:
            active = _step_over_stats(octets, active, cursor, ends, stats_count, rounds)
            if not active.size:
                break
        fields = _read_fields(octets, cursor[active], ends[active])
        for number, column in ((EVENT_METADATA_ID, metadata_id), (EVENT_DURATION, duration)):
            which = fields.which(number, VARINT)
            column[active[which]] = fields.bits[which]
        which = fields.which(EVENT_OFFSET, VARINT)
        offset[active[which]] = fields.bits[which]
        occurrences[active[which]] = NO_OCCURRENCES
        which = fields.which(EVENT_OCCURRENCES, VARINT)
        occurrences[active[which]] = fields.bits[which]
        offset[active[which]] = 0
        if has_stats:
            which = fields.which(EVENT_STATS, LENGTH)
            event = active[which]
            rounds.append((event, stats_count[event], fields.start[which], fields.end[which]))
            stats_count[event] += 1
        cursor[active] = fields.end
        active = active[fields.end < ends[active]]
    events = {"metadata_id": metadata_id, "offset_ps": offset, "duration_ps": duration, "occurrences": occurrences}
    return events, _decode_stats(octets, stats_count, rounds)


def _step_over_stats(
    octets: np.ndarray,
    active: np.ndarray,
    cursor: np.ndarray,
    ends: np.ndarray,
    stats_count: np.ndarray,
    rounds: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]],
) -> np.ndarray:
    """Note the statistics at the cursors of `active` events, round by round; the events that then need the general way.

    The common case by hand, in a tenth of the operations: statistics of less than 128 bytes.
    """
    left = [active[:0]]
    while active.size:
        position = cursor[active]
        is_short = (octets[position] == _STATS_TAG) & (position + 1 < ends[active])
        is_short[is_short] = octets[position[is_short] + 1] < 0x80
        if not is_short.all():
            left.append(active[~is_short])
            active, position = active[is_short], position[is_short]
        start = position + 2
        stop = start + octets[position + 1]
        _refuse(position, stop > ends[active], _TOO_LONG)
        rounds.append((active, stats_count[active], start, stop))
        stats_count[active] += 1
        cursor[active] = stop
        active = active[stop < ends[active]]
    return np.concatenate(left) if len(left) > 1 else left[0]


def _decode_stats(
    octets: np.ndarray,
    stats_count: np.ndarray,
    rounds: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Columns of the statistics, whose messages were found round by round, in the order of the bytes."""
    first = np.cumsum(stats_count) - stats_count
    count = int(stats_count.sum())
    starts, ends = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for event, ordinal, start, end in rounds:
        place = first[event] + ordinal
        starts[place], ends[place] = start, end
    stat_id, bits = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    kind = np.zeros(count, dtype=np.int8)
    is_done = _decode_short_stats(octets, starts, ends, stat_id, kind, bits)
    cursor = starts
    active = np.flatnonzero(~is_done & (cursor < ends))
    while active.size:
        fields = _read_fields(octets, cursor[active], ends[active])
        which = fields.which(STAT_METADATA_ID, VARINT)
        stat_id[active[which]] = fields.bits[which]
        for number, wire_type in _VALUE_WIRE_TYPES.items():
            which = fields.which(number, wire_type)
            if which.size:
                kind[active[which]] = number
                bits[active[which]] = fields.bits[which]
        cursor[active] = fields.end
        active = active[fields.end < ends[active]]
    event = np.repeat(np.arange(len(stats_count), dtype=np.int32), stats_count)
    return {"stat_event": event, "stat_id": stat_id, "stat_kind": kind, "stat_bits": bits}


def _decode_short_stats(
    octets: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    stat_id: np.ndarray,
    kind: np.ndarray,
    bits: np.ndarray,
) -> np.ndarray:
    """Fill the columns for statistics that are a key below 128 and one number, as nearly all are; which those are."""
    sizes = ends - starts
    is_short = (sizes > 3) & (sizes <= 13)
    rows = np.flatnonzero(is_short)
    start, size = (starts, sizes) if len(rows) == len(starts) else (starts[rows], sizes[rows])
    tag = octets[start + 2]
    is_kept = (octets[start] == _STAT_ID_TAG) & (octets[start + 1] < 0x80)
    is_kept &= (tag == _UINT64_TAG) | (tag == _INT64_TAG) | (tag == _REF_TAG)
    place = start + 3
    octet = octets[place]
    value = (octet & 0x7F).astype(np.int64)
    is_kept &= (octet >= 0x80) == (size > 4)
    longer = np.flatnonzero(size > 4)
    shift = 7
    while longer.size:
        octet = octets[place[longer] + shift // 7]
        value[longer] |= (octet & 0x7F).astype(np.int64) << shift
        is_longer = size[longer] > 4 + shift // 7
        is_kept[longer] &= (octet >= 0x80) == is_longer
        longer = longer[is_longer]
        shift += 7
    if not is_kept.all():
        rows, start, tag, value = rows[is_kept], start[is_kept], tag[is_kept], value[is_kept]
    stat_id[rows] = octets[start + 1]
    kind[rows] = tag >> 3
    bits[rows] = value
    is_done = np.zeros(len(starts), dtype=np.bool_)
    is_done[rows] = True
    return is_done


def _read_fields(octets: np.ndarray, cursor: np.ndarray, ends: np.ndarray) -> _Fields:
    """The field at each cursor, in messages that end at `ends`; cursors are before their ends."""
    tags, position = _read_varints(octets, cursor, ends)
    wire_type = (tags & 7).astype(np.int8)
    number = tags >> np.uint64(3)
    _refuse(cursor, (number == 0) | (tags > LARGEST_TAG), "there is no such field number")
    is_odd = (wire_type != VARINT) & (wire_type != LENGTH)
    bits = np.zeros(len(cursor), dtype=np.uint64)
    if not is_odd.any():
        bits, position = _read_varints(octets, position, ends)
    else:
        _refuse(
            cursor,
            is_odd & (wire_type != FIXED64) & (wire_type != FIXED32),
            "a field has a wire type that no profile uses",
        )
        which = np.flatnonzero(~is_odd)
        bits[which], position[which] = _read_varints(octets, position[which], ends[which])
    # What is left to skip of the value. Where the length is not one, it is compared as unsigned: it may be any number.
    size = np.where(wire_type == LENGTH, bits, np.uint64(0))
    size[wire_type == FIXED64] = 8
    size[wire_type == FIXED32] = 4
    _refuse(cursor, size > (ends - position).astype(np.uint64), _TOO_LONG)
    end = position + size.astype(np.int64)
    values = bits.view(np.int64)
    is_length = wire_type == LENGTH
    values = np.where(is_length, values << LENGTH_SHIFT | position, values)
    which = np.flatnonzero(wire_type == FIXED64)
    if which.size:
        places = position[which][:, None] + np.arange(8)
        values[which] = np.ascontiguousarray(octets[places]).view("<i8")[:, 0]
    return _Fields(number.astype(np.int64), wire_type, values, position, end)


def _read_varints(octets: np.ndarray, cursor: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The unsigned number at each cursor, and where it ends."""
    _refuse(cursor, cursor >= ends, _CUT_OFF)
    octet = octets[cursor]
    values = (octet & 0x7F).astype(np.uint64)
    after = cursor + 1
    active = np.flatnonzero(octet >= 0x80)
    shift = 7
    while active.size:
        position = after[active]
        _refuse(position, position >= ends[active], _CUT_OFF)
        if shift > 63:
            raise WireError(int(cursor[active[0]]), "a number is longer than ten bytes")
        octet = octets[position]
        values[active] |= (octet & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[active] = position + 1
        active = active[octet >= 0x80]
        shift += 7
    return values, after


def _refuse(position: np.ndarray, is_bad: np.ndarray, what: str) -> None:
    if is_bad.any():
        raise WireError(int(position[np.argmax(is_bad)]), what)
