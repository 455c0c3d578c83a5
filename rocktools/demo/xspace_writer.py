"""Plain records of planes, lines and events -> a profile as JAX writes them (XSpace), for tests and demonstrations.

Field numbers are those of tsl/profiler/protobuf/xplane.proto (package tensorflow.profiler). The reader has tables of
its own, so that a mistake in one of them shows. Texts on events are interned as the profiler interns them: a `str`
becomes a reference into the plane's statistic metadata.

Whatever is written here says that no hardware produced it: the plane of the environment has `rocktools_simulated` = 1.
"""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rocktools.protos import Field, build_messages

ENVIRONMENT_PLANE = "Task Environment"
METADATA_PLANE = "/host:metadata"
HOST_PLANE = "/host:CPU"
SIMULATED_STAT = "rocktools_simulated"
# The epoch of made profiles: 2026-01-01.
START_NS = 1_767_225_600_000_000_000


@dataclass(frozen=True, slots=True)
class Unsigned:
    """An integer that is written as uint64; a plain `int` is written as int64."""

    value: int


@dataclass(frozen=True, slots=True)
class InlineText:
    """A text that is written where it is used; a plain `str` is written as a reference."""

    text: str


StatValue = str | int | float | bytes | Unsigned | InlineText
Stats = Mapping[str, StatValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """One event.

    Attributes:
        offset_ps: from the line's timestamp.
        occurrences: for an aggregated event, which has no offset.
    """

    name: str
    offset_ps: int = 0
    duration_ps: int = 0
    stats: Stats = field(default_factory=dict)
    occurrences: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRecord:
    """A stream or a thread."""

    name: str
    events: Sequence[EventRecord] = ()
    id: int = 0
    timestamp_ns: int = 0
    display_name: str = ""
    display_id: int = 0
    duration_ps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneRecord:
    """A device, the host's threads, or facts.

    Attributes:
        stats: of the plane.
        event_stats: name of an event -> statistics of its metadata, which hold for all events of that name.
        display_names: name of an event -> what viewers show.
        event_keys: name of an event -> its key in the metadata; the others are counted from 1.
        stat_keys: the same for names of statistics, and for texts.
    """

    name: str
    lines: Sequence[LineRecord] = ()
    id: int = 0
    stats: Stats = field(default_factory=dict)
    event_stats: Mapping[str, Stats] = field(default_factory=dict)
    display_names: Mapping[str, str] = field(default_factory=dict)
    event_keys: Mapping[str, int] = field(default_factory=dict)
    stat_keys: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceRecord:
    """A whole profile."""

    planes: Sequence[PlaneRecord]
    hostnames: Sequence[str] = ("simulated",)
    errors: Sequence[str] = ()
    warnings: Sequence[str] = ()


def write_xspace(path: Path, space: SpaceRecord) -> Path:
    """Write a profile, packed if the path ends in .gz; the path."""
    content = build_xspace(space)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def build_xspace(space: SpaceRecord) -> bytes:
    """The bytes of a profile, marked as simulated."""
    messages = _build_classes()
    message: Any = messages["XSpace"]()
    message.errors.extend(space.errors)
    message.warnings.extend(space.warnings)
    message.hostnames.extend(space.hostnames)
    for plane in _mark(space.planes):
        _PlaneWriter(message.planes.add()).write(plane)
    content: bytes = message.SerializeToString(deterministic=True)
    return content


def build_plane(plane: PlaneRecord) -> bytes:
    """The bytes of one plane, without tag and length: what is written by other means may be appended to them."""
    message: Any = _build_classes()["XPlane"]()
    _PlaneWriter(message).write(plane)
    content: bytes = message.SerializeToString(deterministic=True)
    return content


def environment_plane(*, start_ns: int = START_NS, stop_ns: int | None = None) -> PlaneRecord:
    """The plane that tells when the profile was started and stopped, in nanoseconds since the epoch."""
    stats: dict[str, StatValue] = {"profile_start_time": Unsigned(start_ns), SIMULATED_STAT: 1}
    if stop_ns is not None:
        stats["profile_stop_time"] = Unsigned(stop_ns)
    return PlaneRecord(name=ENVIRONMENT_PLANE, stats=stats)


def metadata_plane(protos: Mapping[str, bytes], *, keys: Mapping[str, int] | None = None) -> PlaneRecord:
    """The plane of HLO protos.

    Args:
        protos: `module_name(program_id)` -> serialised HloProto.
        keys: key of each entry; counted from 1, as JAX of 2026 does, if None. Older versions took the program id.
    """
    return PlaneRecord(
        name=METADATA_PLANE,
        event_stats={name: {"Hlo Proto": proto} for name, proto in protos.items()},
        display_names={name: name for name in protos},
        event_keys=keys or {},
    )


def gpu_plane(ordinal: int, lines: Sequence[LineRecord], stats: Stats | None = None) -> PlaneRecord:
    """The plane of a GPU.

    Args:
        stats: facts of the device; None for what rocm-jaxlib 0.10 writes of an MI355X.
    """
    return PlaneRecord(
        name=f"/device:GPU:{ordinal}", id=ordinal, lines=lines, stats=MI355X_STATS if stats is None else stats
    )


def kernel_event(
    name: str,
    *,
    offset_ps: int,
    duration_ps: int,
    correlation_id: int,
    workgroups: tuple[int, int, int] = (1, 1, 1),
    workgroup_workitems: tuple[int, int, int] = (256, 1, 1),
    lds_bytes: int = 0,
    scratch_bytes: int = 0,
    annotation: Stats | None = None,
) -> EventRecord:
    """A dispatch as rocm-jaxlib 0.10 writes it on a device plane.

    Args:
        annotation: what `annotation_stats` gives; None for a dispatch that no HLO instruction is known for.
    """
    grid, block = (",".join(map(str, triple)) for triple in (workgroups, workgroup_workitems))
    details = f" grid:{grid} block:{block} private_mem:{scratch_bytes} group_mem:{lds_bytes} occ_pct:0"
    stats: dict[str, StatValue] = {"correlation_id": Unsigned(correlation_id), "kernel_details": details}
    stats.update(annotation or {})
    return EventRecord(name=f"{name}.kd", offset_ps=offset_ps, duration_ps=duration_ps, stats=stats)


def annotation_stats(hlo_op: str, hlo_module: str, program_id: int, scope: str = "") -> Stats:
    """The statistics that name the HLO instruction of a device or host event."""
    stats: dict[str, StatValue] = {"tf_op": "XlaModule:"}
    if scope:
        stats["name"] = scope
    return {**stats, "hlo_op": hlo_op, "hlo_module": hlo_module, "program_id": program_id}


MI355X_STATS: Stats = {
    "device_vendor": InlineText("AMD"),
    "clock_rate": 2_400_000,
    "core_count": 256,
    "memory_bandwidth": Unsigned(4_096_000_000_000),
    "memory_size": Unsigned(309_220_868_096),
    "compute_cap_major": 9,
    "compute_cap_minor": 5,
}


def _mark(planes: Iterable[PlaneRecord]) -> list[PlaneRecord]:
    """The planes, one of which tells that they are simulated."""
    marked = list(planes)
    for place, plane in enumerate(marked):
        if plane.name == ENVIRONMENT_PLANE:
            marked[place] = replace(plane, stats={**plane.stats, SIMULATED_STAT: 1})
            return marked
    return [*marked, environment_plane()]


def _build_classes() -> dict[str, Any]:
    return dict(build_messages("rocktools.demo.xspace", _MESSAGES))


class _PlaneWriter:
    """Fills one XPlane: interns names of events and statistics, and texts."""

    def __init__(self, message: Any) -> None:
        self._message = message
        self._stat_ids: dict[str, int] = {}
        self._event_ids: dict[str, int] = {}

    def write(self, plane: PlaneRecord) -> None:
        self._message.id, self._message.name = plane.id, plane.name
        self._event_ids.update(plane.event_keys)
        self._stat_ids.update(plane.stat_keys)
        self._add_stats(self._message, plane.stats)
        for name in dict.fromkeys([*plane.event_keys, *plane.event_stats, *plane.display_names]):
            self._event_id(name)
        for line in plane.lines:
            self._add_line(line)
        for name, key in self._event_ids.items():
            metadata = self._message.event_metadata[key]
            metadata.id, metadata.name = key, name
            metadata.display_name = plane.display_names.get(name, "")
            self._add_stats(metadata, plane.event_stats.get(name, {}))
        for name, key in self._stat_ids.items():
            self._message.stat_metadata[key].id, self._message.stat_metadata[key].name = key, name

    def _add_line(self, line: LineRecord) -> None:
        message = self._message.lines.add(
            id=line.id,
            name=line.name,
            timestamp_ns=line.timestamp_ns,
            display_name=line.display_name,
            display_id=line.display_id,
            duration_ps=line.duration_ps,
        )
        for event in line.events:
            added = message.events.add(metadata_id=self._event_id(event.name), duration_ps=event.duration_ps)
            if event.occurrences is None:
                added.offset_ps = event.offset_ps
            else:
                added.num_occurrences = event.occurrences
            self._add_stats(added, event.stats)

    def _add_stats(self, owner: Any, stats: Stats) -> None:
        for name, value in stats.items():
            stat = owner.stats.add(metadata_id=self._stat_id(name))
            if isinstance(value, Unsigned):
                stat.uint64_value = value.value
            elif isinstance(value, InlineText):
                stat.str_value = value.text
            elif isinstance(value, str):
                stat.ref_value = self._stat_id(value)
            elif isinstance(value, bytes):
                stat.bytes_value = value
            elif isinstance(value, float):
                stat.double_value = value
            else:
                stat.int64_value = value

    def _stat_id(self, name: str) -> int:
        return _intern(self._stat_ids, name)

    def _event_id(self, name: str) -> int:
        return _intern(self._event_ids, name)


def _intern(ids: dict[str, int], name: str) -> int:
    """The id of a name; a new one is counted on from 1, and passes by those that are taken."""
    if name not in ids:
        taken = ids.values()
        ids[name] = next(number for number in itertools.count(len(ids) + 1) if number not in taken)
    return ids[name]


_MESSAGES = {
    "XSpace": (
        Field("planes", 1, "XPlane", is_repeated=True),
        Field("errors", 2, "string", is_repeated=True),
        Field("warnings", 3, "string", is_repeated=True),
        Field("hostnames", 4, "string", is_repeated=True),
    ),
    "XPlane": (
        Field("id", 1, "int64"),
        Field("name", 2, "string"),
        Field("lines", 3, "XLine", is_repeated=True),
        Field("event_metadata", 4, "map<int64,XEventMetadata>"),
        Field("stat_metadata", 5, "map<int64,XStatMetadata>"),
        Field("stats", 6, "XStat", is_repeated=True),
    ),
    "XLine": (
        Field("id", 1, "int64"),
        Field("name", 2, "string"),
        Field("timestamp_ns", 3, "int64"),
        Field("events", 4, "XEvent", is_repeated=True),
        Field("duration_ps", 9, "int64"),
        Field("display_id", 10, "int64"),
        Field("display_name", 11, "string"),
    ),
    "XEvent": (
        Field("metadata_id", 1, "int64"),
        Field("offset_ps", 2, "int64", oneof="data"),
        Field("duration_ps", 3, "int64"),
        Field("stats", 4, "XStat", is_repeated=True),
        Field("num_occurrences", 5, "int64", oneof="data"),
    ),
    "XStat": (
        Field("metadata_id", 1, "int64"),
        Field("double_value", 2, "double", oneof="value"),
        Field("uint64_value", 3, "uint64", oneof="value"),
        Field("int64_value", 4, "int64", oneof="value"),
        Field("str_value", 5, "string", oneof="value"),
        Field("bytes_value", 6, "bytes", oneof="value"),
        Field("ref_value", 7, "uint64", oneof="value"),
    ),
    "XEventMetadata": (
        Field("id", 1, "int64"),
        Field("name", 2, "string"),
        Field("metadata", 3, "bytes"),
        Field("display_name", 4, "string"),
        Field("stats", 5, "XStat", is_repeated=True),
        Field("child_id", 6, "int64", is_repeated=True),
    ),
    "XStatMetadata": (
        Field("id", 1, "int64"),
        Field("name", 2, "string"),
        Field("description", 3, "string"),
    ),
}  # fmt: skip
