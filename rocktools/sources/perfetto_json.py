"""The trace that JAX exports as JSON (`perfetto_trace.json.gz`, `*.trace.json.gz`) -> a profile (XSpace) of the same.

It is a fallback for old profiles: exporters stop at a number of events, drop what they must, and round; where the
`*.xplane.pb` is there, that is read. The events are those of the profile: process `/device:GPU:0` is a device plane,
a thread of it a stream, a thread of `/host:CPU` a host thread, and `args` are statistics. So they are written as a
profile, event by event, and everything that reads profiles reads them.

Times are microseconds with decimals (`ts`, `dur`) and become whole picoseconds. Only complete events (`ph` X) have
durations; the others, metadata aside, are counted and left out. What is read at one time is a piece of the text.
"""

from __future__ import annotations

import codecs
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from rocktools.errors import DamagedFile, InputError, NothingToRead, UnknownFormat
from rocktools.findings import Finding, Severity
from rocktools.sources.perfetto_profile import ProfileBuilder

ENDINGS = ("perfetto_trace.json.gz", ".trace.json.gz", ".trace.json", "perfetto_trace.json")
EVENT_CAPS = (1_000_000, 5_000_000)
"""Numbers of complete events at which exporters stop."""

NEAR_CAP_RATIO = 0.99
"""A count from this part of a limit up to the limit is close to it; a little above it, too, is suspicious."""

_OVER_CAP_RATIO = 1.001
_PIECE_BYTES = 1 << 20
_LONGEST_CHARACTERS = 64 << 20  # of what stands before the events, and of one event
_ARRAY = re.compile(r'"traceEvents"\s*:\s*\[')
_SKIPPED = re.compile(r"[\s,]*")
_PS_PER_US = 1_000_000
_LONGEST_US = 9 * 10**12  # in picoseconds just below 2**63
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfettoTrace:
    """What a trace held.

    Attributes:
        complete_count: events with a duration; those that were written into the profile.
        others_count: events of other kinds, metadata aside.
        processes_count, threads_count: that have a complete event.
        is_cut: whether the text ends in the middle.
        findings: doubts.
    """

    complete_count: int
    others_count: int
    processes_count: int
    threads_count: int
    is_cut: bool
    findings: tuple[Finding, ...]

    @property
    def is_truncation_suspected(self) -> bool:
        """Whether the exporter seems to have stopped at its limit, or the text is cut."""
        return self.is_cut or is_near_cap(self.complete_count)


def is_perfetto_json(path: Path) -> bool:
    """Whether a file is called like such a trace."""
    return path.name.endswith(ENDINGS)


def is_near_cap(complete_count: int) -> bool:
    """Whether a number of complete events is one at which exporters stop, or close to it."""
    return any(NEAR_CAP_RATIO * cap <= complete_count <= _OVER_CAP_RATIO * cap for cap in EVENT_CAPS)


def convert_perfetto_json(path: Path, target: Path) -> PerfettoTrace:
    """Write the events of a trace as a profile.

    Args:
        path: the trace, packed or not.
        target: the profile to write, `*.xplane.pb`.

    Raises:
        InputError: it cannot be read.
        UnknownFormat: it is no trace, or a trace of something else than JAX.
        DamagedFile: it is no JSON.
        NothingToRead: there is no complete event in it.
    """
    builder = ProfileBuilder()
    others_count = 0
    try:
        with _opened(path) as stream:
            events = _Events(_Pieces(stream), path)
            for event in events:
                others_count += not _add(builder, event)
    except OSError as error:
        raise InputError("cannot-read", f"the file cannot be read: {error.strerror}", where=str(path)) from error
    is_cut = events.is_cut
    if not builder.has_profile_names:
        raise UnknownFormat(
            "not-a-jax-trace",
            "no process of this trace is called /device:... or /host:...: it is not one that JAX exported",
            where=str(path),
        )
    if not builder.events_count:
        raise NothingToRead("no-events-in-trace", "there is no complete event in the trace", where=str(path))
    builder.write(target, hostname=host_name_of(path))
    return PerfettoTrace(
        complete_count=builder.events_count,
        others_count=others_count,
        processes_count=builder.processes_count,
        threads_count=builder.threads_count,
        is_cut=is_cut,
        findings=_findings(path, builder.events_count, is_cut=is_cut),
    )


def host_name_of(path: Path) -> str:
    """The host, where the file is called after it (`host0.trace.json.gz`); else `host`."""
    stem = path.name
    for ending in ENDINGS:
        stem = stem.removesuffix(ending)
    return stem.strip(".") or "host"


def _add(builder: ProfileBuilder, event: Mapping[str, Any]) -> bool:
    """Take an event; False where it is of a kind that has no place in a profile."""
    kind = event.get("ph")
    arguments = event.get("args")
    details = arguments if isinstance(arguments, dict) else {}
    process, thread = _key(event.get("pid", 0)), _key(event.get("tid", 0))
    if kind == "M":
        name = str(details.get("name", ""))
        if event.get("name") == "process_name":
            builder.name_process(process, name)
        elif event.get("name") == "thread_name":
            builder.name_thread(process, thread, name)
        return True
    start, duration = _time_ps(event.get("ts")), _time_ps(event.get("dur", 0))
    if kind != "X" or start is None or duration is None:
        return not event  # JAX ends the list with an empty object
    builder.add_event(
        process,
        thread,
        name=str(event.get("name", "")),
        start_ps=start,
        duration_ps=max(0, duration),
        details=details,
    )
    return True


def _key(value: Any) -> int | str:
    """A process or thread; whole numbers mostly, and some exporters write texts."""
    return value if isinstance(value, int) and abs(value) < 1 << 63 else str(value)


def _time_ps(value: Any) -> int | None:
    """Microseconds as picoseconds; None where it is no number that a profile can hold."""
    if not isinstance(value, (int, float)) or not math.isfinite(value) or abs(value) >= _LONGEST_US:
        return None
    return round(value * _PS_PER_US)


class _Pieces:
    """The text of a file, a piece at a time. A packed file that is cut, or damaged, ends where that begins."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read(self) -> str:
        """The next piece; "" at the end."""
        while True:
            try:
                content = self._stream.read1(_PIECE_BYTES)
            except (EOFError, zlib.error, gzip.BadGzipFile):
                content = b""
            text = self._decoder.decode(content, final=not content)
            if text or not content:
                return text


class _Events:
    """The objects of the list of events, one at a time."""

    def __init__(self, pieces: _Pieces, path: Path) -> None:
        self._pieces = pieces
        self._path = path
        self._text = ""
        self._at = 0
        self.is_cut = False

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        self._find_list()
        decoder = json.JSONDecoder()
        while True:
            self._at = self._skip()
            if self._at >= len(self._text):
                if not self._more():
                    self.is_cut = True
                    return
                continue
            if self._text[self._at] == "]":
                return
            try:
                event, self._at = decoder.raw_decode(self._text, self._at)
            except ValueError as error:
                if len(self._text) - self._at > _LONGEST_CHARACTERS:
                    raise DamagedFile("perfetto-json", f"this is no JSON: {error}", where=str(self._path)) from error
                if not self._more():
                    self.is_cut = True
                    return
                continue
            except RecursionError as error:
                raise DamagedFile("perfetto-json", "it is nested too deeply", where=str(self._path)) from error
            if isinstance(event, dict):
                yield event

    def _skip(self) -> int:
        match = _SKIPPED.match(self._text, self._at)
        return self._at if match is None else match.end()

    def _more(self) -> bool:
        """Read on, and forget what was used; False at the end."""
        piece = self._pieces.read()
        self._text, self._at = self._text[self._at :] + piece, 0
        return bool(piece)

    def _find_list(self) -> None:
        """Go to the first event: of the member `traceEvents`, or of a document that is a list."""
        while self._more():
            start = self._text.lstrip()[:1]
            if start not in ("", "{", "["):
                break
            if start == "[":
                self._at = self._text.index("[") + 1
                return
            match = _ARRAY.search(self._text)
            if match is not None:
                self._at = match.end()
                return
            if len(self._text) > _LONGEST_CHARACTERS:
                break
        raise UnknownFormat(
            "not-a-perfetto-json", "this is no JSON with a list traceEvents", where=str(self._path), hint="*.xplane.pb"
        )


def _opened(path: Path) -> BufferedIOBase:
    with path.open("rb") as stream:
        is_packed = stream.read(2) == _GZIP_MAGIC
    return gzip.open(path, "rb") if is_packed else path.open("rb")


def _findings(path: Path, count: int, *, is_cut: bool) -> tuple[Finding, ...]:
    found = []
    if is_near_cap(count):
        cap = min(EVENT_CAPS, key=lambda each: abs(each - count))
        found.append(
            Finding(
                rule="perfetto-event-cap",
                severity=Severity.WARNING,
                where=path.name,
                message=f"the trace has {count:,} complete events, and exporters stop at {cap:,}: events are missing, "
                "and no sum, gap or share is whole",
                numbers={"events_count": count, "cap_count": cap},
                advice="read the *.xplane.pb of the same profile, which has no such limit",
            )
        )
    if is_cut:
        found.append(
            Finding(
                rule="perfetto-json-cut",
                severity=Severity.FAULT,
                where=path.name,
                message=f"the text ends in the middle, behind {count:,} complete events: the others are missing",
                numbers={"events_count": count},
                advice="copy it again, or read the *.xplane.pb of the same profile",
            )
        )
    return tuple(found)
