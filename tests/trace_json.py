"""A profile as the JSON that JAX exports of it, written from what our reader of profiles found in it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from rocktools.sources.xspace.opening import open_xspace
from rocktools.sources.xspace.plane import Line

PS_PER_US = 1_000_000


def trace_document(profile: Path) -> tuple[dict[str, Any], int]:
    """Every event of every line, and the nanosecond that its times are counted from.

    A process for each plane, times in microseconds, arguments as texts, an empty object at the end.
    """
    events: list[dict[str, Any]] = []
    file = open_xspace(profile)
    planes = [plane for plane in file.planes if plane.lines]
    origin_ns = min(line.timestamp_ns for plane in planes for line in plane.lines)
    for process, plane in enumerate(planes, start=1):
        suffix = " AMD Instinct" if plane.name.startswith("/device") else ""
        events.append(_named("process_name", process, 0, plane.name + suffix))
        for line in plane.lines:
            events.append(_named("thread_name", process, line.id, line.name))
            events += _events(line, process, origin_ns)
    file.close()
    return {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]}, origin_ns


def write_trace_json(path: Path, document: Any) -> Path:
    """The document in a file, packed if its name ends in .gz."""
    content = json.dumps(document).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def complete_event(number: int, *, process: int = 1) -> dict[str, Any]:
    """One of many events of a made trace."""
    return {"ph": "X", "pid": process, "tid": 5, "ts": 2.0 * number, "dur": 1.5, "name": "k", "args": {"hlo_op": "f.1"}}


def small_document(events_count: int = 3) -> dict[str, Any]:
    """A trace of one stream of one device."""
    names = [_named("process_name", 1, 0, "/device:GPU:0"), _named("thread_name", 1, 5, "Stream #5(Kernel)")]
    return {"traceEvents": [*names, *(complete_event(number) for number in range(events_count)), {}]}


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": name}}


def _events(line: Line, process: int, origin_ns: int) -> list[dict[str, Any]]:
    found = line.events()
    names = found.names()
    stats = {name: found.stat(name).values() for name in found.stat_names}
    first_ps = 1000 * (line.timestamp_ns - origin_ns)
    return [
        {
            "ph": "X",
            "pid": process,
            "tid": line.id,
            "name": names.names[names.codes[at]],
            "ts": (first_ps + int(found.offset_ps[at])) / PS_PER_US,
            "dur": int(found.duration_ps[at]) / PS_PER_US,
            "args": {name: str(values[at]) for name, values in stats.items() if values[at] is not None},
        }
        for at in range(len(found))
    ]
