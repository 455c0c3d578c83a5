"""Named events -> the bytes of a profile (XSpace), with texts held once and events kept encoded.

Field numbers are those of tsl/profiler/protobuf/xplane.proto, as in sources/xspace/messages.py. Messages are put
together by hand: with protobuf's objects millions of events would not fit into memory.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocktools.sources.xspace.messages import (
    LINE_EVENTS,
    LINE_ID,
    LINE_NAME,
    PLANE_EVENT_METADATA,
    PLANE_ID,
    PLANE_LINES,
    PLANE_NAME,
    PLANE_STAT_METADATA,
    SPACE_HOSTNAMES,
    SPACE_PLANES,
    STAT_DOUBLE,
    STAT_INT64,
    STAT_REF,
)

_EVENT_METADATA, _EVENT_OFFSET, _EVENT_DURATION, _EVENT_STATS = 1, 2, 3, 4
_MAP_KEY, _MAP_VALUE, _METADATA_ID, _METADATA_NAME = 1, 2, 1, 2
_STAT_METADATA = 1
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_MASK = (1 << 64) - 1
# Exporters write every argument as a text; these are numbers in a profile.
_NUMBERS = frozenset({"step_num", "correlation_id", "program_id", "group_id", "run_id", "_r"})
_DEVICE, _HOST = "/device:", "/host:"
_HOST_PLANE = "/host:CPU"
_ORDINAL = re.compile(r"^/device:.*?(\d{1,9})$")

Key = int | str


@dataclass(slots=True)
class _Names:
    """Texts with their numbers, from 1."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers) + 1)


@dataclass(slots=True)
class _Plane:
    """One process while its events come in.

    Attributes:
        lines: thread -> its events, encoded.
        names: of events; stats: names of statistics, and texts.
        encoded: name and text of a statistic -> its bytes in an event.
    """

    lines: dict[Key, bytearray] = field(default_factory=dict)
    names: _Names = field(default_factory=_Names)
    stats: _Names = field(default_factory=_Names)
    encoded: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def stat(self, key: str, value: Any) -> bytes:
        """A statistic of an event, encoded; a text is held once, and so is what it becomes."""
        if not isinstance(value, str) or key in _NUMBERS:
            return _bytes_field(_EVENT_STATS, _stat(self.stats, key, value))
        found = self.encoded.get((key, value))
        if found is None:
            found = self.encoded[key, value] = _bytes_field(_EVENT_STATS, _stat(self.stats, key, value))
        return found


class ProfileBuilder:
    """Takes events in any order, and writes the profile at the end.

    Attributes:
        events_count: that were taken.
    """

    def __init__(self) -> None:
        self.events_count = 0
        self._planes: dict[Key, _Plane] = {}
        self._processes: dict[Key, str] = {}
        self._threads: dict[tuple[Key, Key], str] = {}

    @property
    def processes_count(self) -> int:
        """Processes with an event."""
        return len(self._planes)

    @property
    def threads_count(self) -> int:
        """Threads with an event."""
        return sum(len(plane.lines) for plane in self._planes.values())

    @property
    def has_profile_names(self) -> bool:
        """Whether a process is called like a plane of a profile."""
        return any(name.startswith((_DEVICE, _HOST)) for name in self._processes.values())

    def name_process(self, process: Key, name: str) -> None:
        self._processes[process] = name

    def name_thread(self, process: Key, thread: Key, name: str) -> None:
        self._threads[process, thread] = name

    def add_event(
        self, process: Key, thread: Key, *, name: str, start_ps: int, duration_ps: int, details: Mapping[str, Any]
    ) -> None:
        """One event; its details become statistics."""
        plane = self._planes.get(process)
        if plane is None:
            plane = self._planes.setdefault(process, _Plane())
        content = b"".join(
            [
                _EVENT_METADATA_TAG,
                _varint(plane.names.number(name)),
                _EVENT_OFFSET_TAG,
                _varint(start_ps & _MASK),
                _EVENT_DURATION_TAG,
                _varint(duration_ps),
                *(plane.stat(key, value) for key, value in details.items()),
            ]
        )
        line = plane.lines.get(thread)
        if line is None:
            line = plane.lines.setdefault(thread, bytearray())
        line += _LINE_EVENTS_TAG
        line += _varint(len(content))
        line += content
        self.events_count += 1

    def write(self, target: Path, *, hostname: str) -> None:
        """Write the profile.

        Args:
            hostname: of the machine, which the trace does not tell.
        """
        with target.open("wb") as stream:
            for number, (process, plane) in enumerate(sorted(self._planes.items(), key=lambda item: str(item[0]))):
                pieces = self._pieces(process, plane, number)
                stream.write(_tag(SPACE_PLANES, _BYTES) + _varint(sum(map(len, pieces))))
                stream.writelines(pieces)
            stream.write(_bytes_field(SPACE_HOSTNAMES, _encoded(hostname)))

    def _pieces(self, process: Key, plane: _Plane, number: int) -> list[bytes | bytearray]:
        """The message of a plane, in pieces: its events are not copied."""
        name = _plane_name(self._processes.get(process, ""))
        ordinal = _ORDINAL.search(name)
        pieces: list[bytes | bytearray] = [
            _varint_field(PLANE_ID, int(ordinal[1]) if ordinal else number),
            _bytes_field(PLANE_NAME, _encoded(name)),
        ]
        for place, (thread, events) in enumerate(sorted(plane.lines.items(), key=lambda item: str(item[0]))):
            title = self._threads.get((process, thread), str(thread))
            head = _varint_field(LINE_ID, thread if isinstance(thread, int) else place)
            head += _bytes_field(LINE_NAME, _encoded(title))
            pieces += [_tag(PLANE_LINES, _BYTES) + _varint(len(head) + len(events)), head, events]
        for tag, names in ((PLANE_EVENT_METADATA, plane.names), (PLANE_STAT_METADATA, plane.stats)):
            for text, key in names.numbers.items():
                metadata = _varint_field(_METADATA_ID, key) + _bytes_field(_METADATA_NAME, _encoded(text))
                pieces.append(_bytes_field(tag, _varint_field(_MAP_KEY, key) + _bytes_field(_MAP_VALUE, metadata)))
        return pieces


def _plane_name(process_name: str) -> str:
    """`/device:GPU:0` of a device, without what viewers add behind it; everything else is of the host."""
    first = process_name.split(" ")[0]
    return first if first.startswith((_DEVICE, _HOST)) else _HOST_PLANE


def _stat(names: _Names, key: str, value: Any) -> bytes:
    content = _varint_field(_STAT_METADATA, names.number(key))
    if key in _NUMBERS and isinstance(value, str) and value.lstrip("-").isdecimal():
        value = int(value)
    if isinstance(value, float):
        return content + _tag(STAT_DOUBLE, _FIXED64) + struct.pack("<d", value)
    if isinstance(value, int) and -(1 << 63) <= value <= _MASK:
        return content + _varint_field(STAT_INT64, value)
    text = value if isinstance(value, str) else str(value)
    return content + _varint_field(STAT_REF, names.number(text))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")


def _varint_field(number: int, value: int) -> bytes:
    return _tag(number, _VARINT) + _varint(value & _MASK)


def _bytes_field(number: int, content: bytes | bytearray) -> bytes:
    return _tag(number, _BYTES) + _varint(len(content)) + bytes(content)


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    """A whole number that is not negative, seven bits in each byte, the lowest first."""
    if value < _SHORT_COUNT:
        return _SHORT[value]
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)


# Most numbers are lengths and references: those of up to two bytes are ready.
_SHORT_COUNT = 1 << 14
_SHORT = [bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80, number >> 7]) for number in range(1 << 14)]
_EVENT_METADATA_TAG, _EVENT_OFFSET_TAG = _tag(_EVENT_METADATA, _VARINT), _tag(_EVENT_OFFSET, _VARINT)
_EVENT_DURATION_TAG, _LINE_EVENTS_TAG = _tag(_EVENT_DURATION, _VARINT), _tag(LINE_EVENTS, _BYTES)
