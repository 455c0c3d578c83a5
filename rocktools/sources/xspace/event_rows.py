"""What DEVICE_EVENTS and HOST_EVENTS have in common: key, times, annotation; and rows of lines -> rows of a plane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from rocktools.sources.rocpd.columns import IntColumn
from rocktools.sources.rocpd.parts import LabelColumn, Part, label_constant, sort_part
from rocktools.sources.xspace.events import Events
from rocktools.sources.xspace.hlo_protos import program_id_text
from rocktools.sources.xspace.opening import XSpaceFile
from rocktools.sources.xspace.plane import Line
from rocktools.sources.xspace.wire import WireError

ANNOTATION_STATS = ("program_id", "hlo_module", "hlo_op", "correlation_id")
_LONGEST_PS = 2**58  # three days

T = TypeVar("T")


def label_hosts(files: Sequence[XSpaceFile]) -> list[tuple[str, XSpaceFile]]:
    """Label and file in the order of the labels; of files of one host each but the first gets a number behind it."""
    seen: dict[str, int] = {}
    labelled = []
    for file in files:
        number = seen[file.host] = seen.get(file.host, 0) + 1
        labelled.append((file.host if number == 1 else f"{file.host}#{number}", file))
    return sorted(labelled, key=lambda pair: pair[0])


def timed_events(line: Line, stats: Iterable[str]) -> tuple[Events, np.ndarray]:
    """The events of a line that have a place in time, and their positions in the line.

    Aggregated events, which stand for many, have none.

    Raises:
        DamagedFile: bytes that are no events; a duration is negative, or an end beyond what int64 holds.
    """
    events = line.events(stats)
    duration, offset = events.duration_ps, events.offset_ps
    is_bad = (duration < 0) | (duration > _LONGEST_PS) | (offset < -_LONGEST_PS) | (offset > _LONGEST_PS)
    if is_bad.any():
        row = int(np.argmax(is_bad))
        what = f"event {row} lasts {int(duration[row])} ps from {int(offset[row])} ps on"
        raise line.damaged(WireError(line.start, what))
    rows = np.flatnonzero(events.occurrences < 0)
    return (events if len(rows) == len(events) else events.take(rows)), rows


def key_columns(run: str, host: str, device: str, line: str, rows: np.ndarray) -> dict[str, Any]:
    """The key of a line's events; `rows` are their positions in the line."""
    count = len(rows)
    return {
        "run": label_constant(run, count),
        "host": label_constant(host, count),
        "device": label_constant(device, count),
        "line": label_constant(line, count),
        "event_index": IntColumn(rows.astype(np.int64)),
    }


def time_columns(events: Events) -> dict[str, IntColumn]:
    """start_ns, end_ns and duration_ps."""
    return {
        "start_ns": IntColumn(events.start_ns),
        "end_ns": IntColumn(events.end_ns),
        "duration_ps": IntColumn(events.duration_ps),
    }


def annotation_columns(events: Events, wanted: Iterable[str]) -> dict[str, Any]:
    """Those of program_id, hlo_module, hlo_op and correlation_id that are wanted."""
    columns: dict[str, Any] = {}
    for name in ANNOTATION_STATS:
        if name not in wanted:
            continue
        stat = events.stat(name)
        if name == "correlation_id":
            columns[name] = stat.integers()
        elif name == "program_id":
            columns[name] = map_labels(stat.labels(), _unsigned)
        else:
            columns[name] = without_empty(stat.labels())
    return columns


def _unsigned(text: str) -> str:
    return program_id_text(int(text)) if text.removeprefix("-").isdecimal() else text


def map_labels(labels: LabelColumn, change: Callable[[str], str]) -> LabelColumn:
    """The labels with each name changed; names that become equal become one."""
    known: dict[str, int] = {}
    codes = [known.setdefault(change(name), len(known)) for name in labels.names]
    return LabelColumn(np.array([*codes, -1], dtype=np.int32)[labels.codes], tuple(known))


def without_empty(labels: LabelColumn) -> LabelColumn:
    """The labels with empty texts missing."""
    if "" not in labels.names:
        return labels
    places = {name: place for place, name in enumerate(name for name in labels.names if name)}
    codes = [places.get(name, -1) for name in labels.names]
    return LabelColumn(np.array([*codes, -1], dtype=np.int32)[labels.codes], tuple(places))


def look_up(labels: LabelColumn, parse: Callable[[str], T]) -> list[T]:
    """What each distinct name says, in the order of the names."""
    return [parse(name) for name in labels.names]


def spread(labels: LabelColumn, values: Sequence[int | None]) -> IntColumn:
    """The value of each row's name; missing where the row has none, or its name says nothing."""
    numbers = np.array([0 if value is None else value for value in [*values, None]], dtype=np.int64)
    is_unknown = np.array([value is None for value in [*values, None]], dtype=np.bool_)
    is_missing = is_unknown[labels.codes]
    return IntColumn(numbers[labels.codes], is_missing if is_missing.any() else None)


def join_parts(parts: Sequence[Part]) -> Part:
    """Rows of several lines, ordered by start; of equal ones the earlier part's come first."""
    if len(parts) == 1:
        return sort_part(parts[0], ("start_ns",))
    joined: dict[str, Any] = {}
    for name in parts[0]:
        pieces = [part[name] for part in parts]
        joined[name] = _join_labels(pieces) if isinstance(pieces[0], LabelColumn) else _join_ints(pieces)
    return sort_part(joined, ("start_ns",))


def _join_ints(pieces: Sequence[IntColumn]) -> IntColumn:
    is_whole = all(piece.is_missing is None for piece in pieces)
    return IntColumn(
        np.concatenate([piece.values for piece in pieces]),
        None if is_whole else np.concatenate([piece.missing for piece in pieces]),
    )


def _join_labels(pieces: Sequence[LabelColumn]) -> LabelColumn:
    known: dict[str, int] = {}
    codes = []
    for piece in pieces:
        places = [known.setdefault(name, len(known)) for name in piece.names]
        codes.append(np.array([*places, -1], dtype=np.int32)[piece.codes])
    return LabelColumn(np.concatenate(codes), tuple(known))
