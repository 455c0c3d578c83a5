"""Planes and lines of an open profile: names and places at once, events as columns when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rocktools.errors import DamagedFile
from rocktools.sources.xspace.content import ProfileContent
from rocktools.sources.xspace.event_block import Decoder, EventBlock
from rocktools.sources.xspace.events import Events, read_events
from rocktools.sources.xspace.messages import (
    LINE_DISPLAY_ID,
    LINE_DISPLAY_NAME,
    LINE_DURATION,
    LINE_EVENTS,
    LINE_ID,
    LINE_NAME,
    LINE_TIMESTAMP,
    PLANE_EVENT_METADATA,
    PLANE_ID,
    PLANE_LINES,
    PLANE_NAME,
    PLANE_STAT_METADATA,
    PLANE_STATS,
    build_plane_facts,
    decode_text,
)
from rocktools.sources.xspace.plane_facts import PlaneFacts, StatValue, build_facts
from rocktools.sources.xspace.wire import Content, WireError, WireField, read_field, walk_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Bytes start..end of the content; those of a plane's or line's own field include its tag."""

    start: int
    end: int


class Plane:
    """One plane: a device, the host's threads, or facts about the profile.

    Attributes:
        id, name: as recorded; a device plane's id is its ordinal.
        lines: in the order of the file.
    """

    def __init__(self, source: ProfileContent, span: Span, decoder: Decoder) -> None:
        self._source = source
        self.id = 0
        self.name = ""
        self._facts_spans: list[Span] = []
        line_spans = []
        try:
            position = span.start
            for found in walk_fields(source.content, span.start, span.end):
                if found.is_message(PLANE_LINES):
                    line_spans.append(Span(start=found.start, end=found.end))
                elif found.is_message(PLANE_NAME):
                    self.name = decode_text(source.content[found.start : found.end])
                elif found.is_integer(PLANE_ID):
                    self.id = found.signed
                elif found.number in (PLANE_EVENT_METADATA, PLANE_STAT_METADATA, PLANE_STATS):
                    self._facts_spans.append(Span(start=position, end=found.end))
                position = found.end
        except WireError as error:
            raise source.damaged(error, self.place) from error
        self.lines = tuple(Line(source, self, place, decoder) for place in line_spans)

    @property
    def place(self) -> str:
        """What messages call it."""
        return f"plane {self.name!r}" if self.name else "a plane without a name"

    @cached_property
    def facts(self) -> PlaneFacts:
        """Names of events and statistics, and the plane's own statistics.

        Raises:
            DamagedFile: their messages are damaged.
        """
        from google.protobuf.message import DecodeError

        message: Any = build_plane_facts()()
        try:
            message.ParseFromString(b"".join(self._source.content[one.start : one.end] for one in self._facts_spans))
        except DecodeError as error:
            start = self._facts_spans[0].start if self._facts_spans else 0
            broken = WireError(start, f"names or statistics of a plane cannot be read ({error})")
            raise self._source.damaged(broken, self.place) from error
        return build_facts(message)

    @property
    def stats(self) -> Mapping[str, StatValue]:
        """The plane's own statistics by name."""
        return self.facts.stats


class Line:
    """One line of a plane: a stream, a thread.

    Attributes:
        plane: it belongs to.
        decoder: of its events.
    """

    def __init__(self, source: ProfileContent, plane: Plane, span: Span, decoder: Decoder) -> None:
        self._source = source
        self._span = span
        self.decoder = decoder
        self.plane = plane
        self._head, self._events_start = self._read_head()

    @property
    def id(self) -> int:
        """As recorded: a stream, a thread, or above 0xdeadbeef what a converter added."""
        return self._integer(LINE_ID)

    @property
    def name(self) -> str:
        return self._text(LINE_NAME)

    @property
    def timestamp_ns(self) -> int:
        """What the offsets of the events are counted from, on the clock of the profile."""
        return self._integer(LINE_TIMESTAMP)

    @property
    def start(self) -> int:
        """Where the line's message begins in the profile."""
        return self._span.start

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole line in the profile."""
        return self._span.end - self._span.start

    @property
    def has_events(self) -> bool:
        """Whether there is at least one."""
        return self._events_start < self._span.end

    @property
    def display_name(self) -> str:
        """What viewers show in place of the name; the name where nothing else is recorded."""
        return self._text(LINE_DISPLAY_NAME, is_behind=True) or self.name

    @property
    def display_id(self) -> int:
        """What viewers show in place of the id; 0 where nothing is recorded."""
        return self._integer(LINE_DISPLAY_ID, is_behind=True)

    @property
    def duration_ps(self) -> int:
        """As recorded; 0 where the profiler did not say."""
        return self._integer(LINE_DURATION, is_behind=True)

    @property
    def place(self) -> str:
        """What messages call it."""
        return f"line {self.name!r} (id {self.id})"

    def blocks(self, *, has_stats: bool = True) -> Iterator[EventBlock]:
        """The events, some of the file at a time.

        Args:
            has_stats: False to step over statistics.

        Raises:
            DamagedFile: bytes that are no events.
        """
        position = self._events_start
        while position < self._span.end:
            try:
                block, position = self.decoder.decode_block(
                    self._source.content, self._source.octets, position, self._span.end, has_stats=has_stats
                )
            except WireError as error:
                raise self.damaged(error) from error
            yield block

    def events(self, stats: Iterable[str] | None = None) -> Events:
        """All events.

        Args:
            stats: names of the statistics wanted; None for all that occur.

        Raises:
            DamagedFile: bytes that are no events.
        """
        return read_events(self, stats)

    def damaged(self, error: WireError) -> DamagedFile:
        """The error for the user."""
        return self._source.damaged(error, self.plane.place, self.place)

    @property
    def content(self) -> Content:
        return self._source.content

    def _read_head(self) -> tuple[dict[int, WireField], int]:
        """The fields before the first event, and where that begins."""
        head: dict[int, WireField] = {}
        position = self._span.start
        try:
            while position < self._span.end:
                found = read_field(self._source.content, position, self._span.end)
                if found.is_message(LINE_EVENTS):
                    break
                head[found.number] = found
                position = found.end
        except WireError as error:
            raise self._source.damaged(error, self.plane.place, "the head of a line") from error
        return head, position

    @cached_property
    def _whole(self) -> dict[int, WireField]:
        """Also the fields behind the events, for which all events are stepped over."""
        fields = dict(self._head)
        try:
            for found in walk_fields(self._source.content, self._events_start, self._span.end):
                if found.number != LINE_EVENTS:
                    fields[found.number] = found
        except WireError as error:
            raise self.damaged(error) from error
        return fields

    def _integer(self, number: int, *, is_behind: bool = False) -> int:
        found = self._field(number, is_behind)
        return found.signed if found is not None and found.is_integer(number) else 0

    def _text(self, number: int, *, is_behind: bool = False) -> str:
        found = self._field(number, is_behind)
        if found is None or not found.is_message(number):
            return ""
        return decode_text(self._source.content[found.start : found.end])

    def _field(self, number: int, is_behind: bool) -> WireField | None:
        # Every writer known puts id, name and timestamp before the events. One that puts nothing there is searched.
        return (self._whole if is_behind or not self._head else self._head).get(number)
