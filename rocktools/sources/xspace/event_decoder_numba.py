"""Bytes of XLine.events -> EventBlock, compiled with numba: the arrays of event_decoder, several times faster.

One loop over the bytes, which knows by three ends in which message it is: the line, an event, a statistic. It is
written without a call, because numba keeps the compiled code on disk only of functions that need no other.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from rocktools.sources.xspace.event_block import LENGTH_SHIFT, NO_OCCURRENCES, EventBlock, SpreadStats, find_stats
from rocktools.sources.xspace.event_decoder import NumpyDecoder
from rocktools.sources.xspace.wire import LARGEST_TAG, Content, WireError

BLOCK_BYTES = 1 << 19
# Rows that a block has room for, in bytes of the profile. An event takes two bytes at the least and a statistic too;
# real ones take 20 and 6. A block that is full ends early.
_BYTES_PER_EVENT, _BYTES_PER_STAT = 8, 4
_FEWEST_ROWS = 64
_LARGEST_TABLE = 1 << 16

_DONE, _TOO_MANY_STATS = 0, 1
_ERRORS = {
    2: "a number is cut off by the end of its message",
    3: "a number is longer than ten bytes",
    4: "there is no such field number",
    5: "a field has a wire type that no profile uses",
    6: "a field claims more bytes than its message has left",
}


class CompiledDecoder:
    """event_block.Decoder with two compiled functions, `decode_octets` and `spread_rows` (or those themselves)."""

    def __init__(self, decode: Any, spread: Any) -> None:
        self._decode = decode
        self._spread = spread

    def decode_block(
        self, content: Content, octets: np.ndarray, position: int, end: int, *, has_stats: bool
    ) -> tuple[EventBlock, int]:
        return _run_decoder(self._decode, octets, position, end, has_stats)

    def spread_stats(self, block: EventBlock, wanted: Collection[int] | None) -> SpreadStats:
        stat_ids = find_stats(block, wanted)
        if not stat_ids or stat_ids[-1] - stat_ids[0] >= _LARGEST_TABLE:
            return NumpyDecoder().spread_stats(block, wanted)
        first = stat_ids[0]
        rows = np.full(stat_ids[-1] - first + 1, -1, dtype=np.int64)
        rows[np.array(stat_ids) - first] = np.arange(len(stat_ids))
        kinds = np.zeros((len(stat_ids), len(block)), dtype=np.int8)
        bits = np.zeros((len(stat_ids), len(block)), dtype=np.int64)
        self._spread(block.stat_event, block.stat_id, block.stat_kind, block.stat_bits, first, rows, kinds, bits)
        return {stat_id: (kinds[row], bits[row]) for row, stat_id in enumerate(stat_ids)}


def compile_decoder() -> CompiledDecoder:
    """The decoder, compiled, or read from where numba keeps compiled code (`__pycache__`, or the user's cache folder).

    Raises:
        ImportError: numba is not installed, or does not work here.
    """
    import numba

    try:
        compile_function = numba.njit(cache=True, nogil=True)
        return CompiledDecoder(compile_function(decode_octets), compile_function(spread_rows))
    except RuntimeError:  # there is no folder that numba could write into
        compile_function = numba.njit(nogil=True)
        return CompiledDecoder(compile_function(decode_octets), compile_function(spread_rows))


def _run_decoder(decode: Any, octets: np.ndarray, position: int, end: int, has_stats: bool) -> tuple[EventBlock, int]:
    """The events from `position` on, of a line that ends at `end`: some megabytes of them; and where the next begins.

    Args:
        decode: `decode_octets`, compiled or not.

    Raises:
        WireError: bytes that are no events.
    """
    limit = min(end, position + BLOCK_BYTES)
    size_bytes = limit - position
    while True:
        events = tuple(np.empty(size_bytes // _BYTES_PER_EVENT + _FEWEST_ROWS, dtype=np.int64) for _ in range(4))
        stats_room = size_bytes // _BYTES_PER_STAT + _FEWEST_ROWS
        stats = tuple(np.empty(stats_room, dtype=dtype) for dtype in (np.int32, np.int64, np.int8, np.int64))
        status, stop, events_count, stats_count = decode(octets, position, limit, end, has_stats, *events, *stats)
        if status in _ERRORS:
            raise WireError(stop, _ERRORS[status])
        if events_count or status == _DONE:
            break
        size_bytes = 4 * (end - position)  # one event with more statistics than the block has room for
    metadata_id, offset_ps, duration_ps, occurrences = (column[:events_count] for column in events)
    stat_event, stat_id, stat_kind, stat_bits = (column[:stats_count] for column in stats)
    block = EventBlock(
        metadata_id=metadata_id,
        offset_ps=offset_ps,
        duration_ps=duration_ps,
        occurrences=occurrences,
        stat_event=stat_event,
        stat_id=stat_id,
        stat_kind=stat_kind,
        stat_bits=stat_bits,
    )
    return block, stop


def decode_octets(
    octets: np.ndarray,
    position: int,
    limit: int,
    end: int,
    has_stats: bool,
    metadata_id: np.ndarray,
    offset_ps: np.ndarray,
    duration_ps: np.ndarray,
    occurrences: np.ndarray,
    stat_event: np.ndarray,
    stat_id: np.ndarray,
    stat_kind: np.ndarray,
    stat_bits: np.ndarray,
) -> tuple[int, int, int, int]:
    """Fill the columns; status, where it stopped (or what is wrong), events and statistics filled.

    `depth` is 0 in the line, 1 in an event, 2 in a statistic.
    """
    event = stat = -1
    depth = 0
    message_end = event_end = end
    start, stats_before = position, 0
    while True:
        if depth == 2 and position == message_end:
            depth, message_end = 1, event_end
        if depth == 1 and position == message_end:
            depth, message_end = 0, end
        if depth == 0:
            start, stats_before = position, stat + 1
            if position >= limit or event + 1 == len(metadata_id):
                return 0, position, event + 1, stat + 1
        # Nearly all statistics are one number, with a key below 128: without the general way, in half the time.
        if has_stats and depth == 1 and position + 6 <= message_end and octets[position] == 0x22:
            stop = position + 2 + np.int64(octets[position + 1])
            kind = octets[position + 4] >> 3
            is_number = octets[position + 4] & 7 == 0 and (kind == 3 or kind == 4 or kind == 7)
            is_short = octets[position + 1] < 0x80 and stop <= message_end and stat + 1 < len(stat_id)
            if is_number and is_short and octets[position + 2] == 0x08 and octets[position + 3] < 0x80:
                value = shift = 0
                place = position + 5
                octet = np.int64(0x80)
                while place < stop and octet >= 0x80:
                    octet = np.int64(octets[place])
                    value |= (octet & 0x7F) << shift
                    shift += 7
                    place += 1
                if place == stop and octet < 0x80 and shift <= 70:
                    stat += 1
                    stat_event[stat], stat_id[stat] = event, octets[position + 3]
                    stat_kind[stat], stat_bits[stat] = kind, value
                    position = stop
                    continue
        field = position
        tag = shift = 0
        while True:
            if position >= message_end:
                return 2, field, 0, 0
            octet = np.int64(octets[position])
            position += 1
            tag |= (octet & 0x7F) << shift
            if octet < 0x80:
                break
            shift += 7
            if shift > 63:
                return 3, field, 0, 0
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag < 0 or tag > LARGEST_TAG:
            return 4, field, 0, 0
        value = shift = 0
        if wire_type == 0 or wire_type == 2:
            while True:
                if position >= message_end:
                    return 2, position, 0, 0
                octet = np.int64(octets[position])
                position += 1
                value |= (octet & 0x7F) << shift
                if octet < 0x80:
                    break
                shift += 7
                if shift > 63:
                    return 3, position, 0, 0
        elif wire_type != 1 and wire_type != 5:
            return 5, field, 0, 0
        size = 0
        if wire_type == 2:
            size = value
        elif wire_type != 0:
            size = 8 if wire_type == 1 else 4
        if size < 0 or size > message_end - position:
            return 6, field, 0, 0
        if wire_type == 1:
            for place in range(8):
                value |= np.int64(octets[position + place]) << (8 * place)
        elif wire_type == 2:
            value = value << LENGTH_SHIFT | position
        if depth == 0 and number == 4 and wire_type == 2:
            event += 1
            metadata_id[event] = offset_ps[event] = duration_ps[event] = 0
            occurrences[event] = NO_OCCURRENCES
            depth, message_end = 1, position + size
            event_end = message_end
            continue
        if has_stats and depth == 1 and number == 4 and wire_type == 2:
            if stat + 1 == len(stat_id):
                return 1, start, event, stats_before
            stat += 1
            stat_event[stat] = event
            stat_id[stat] = stat_kind[stat] = stat_bits[stat] = 0
            depth, message_end = 2, position + size
            continue
        position += size
        if depth == 1 and wire_type == 0:
            if number == 1:
                metadata_id[event] = value
            elif number == 2:
                offset_ps[event], occurrences[event] = value, NO_OCCURRENCES
            elif number == 3:
                duration_ps[event] = value
            elif number == 5:
                offset_ps[event], occurrences[event] = 0, value
        elif depth == 2:
            if number == 1 and wire_type == 0:
                stat_id[stat] = value
            elif (
                (wire_type == 0 and (number == 3 or number == 4 or number == 7))
                or (wire_type == 1 and number == 2)
                or (wire_type == 2 and (number == 5 or number == 6))
            ):
                stat_kind[stat], stat_bits[stat] = number, value


def spread_rows(
    stat_event: np.ndarray,
    stat_id: np.ndarray,
    stat_kind: np.ndarray,
    stat_bits: np.ndarray,
    first: int,
    rows: np.ndarray,
    kinds: np.ndarray,
    bits: np.ndarray,
) -> None:
    """Put each statistic into its row and its event's column.

    Args:
        rows: row of each statistic id, from `first` on; -1 for those that are not wanted.
        kinds, bits: one row for each statistic, one column for each event.
    """
    for stat in range(len(stat_id)):
        place = stat_id[stat] - first
        if 0 <= place < len(rows):
            row = rows[place]
            if row >= 0:
                kinds[row, stat_event[stat]] = stat_kind[stat]
                bits[row, stat_event[stat]] = stat_bits[stat]
