"""Reads a Perfetto trace back: packets by perfetto's own message classes, begins and ends replayed to slices."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass
class ReadSlice:
    track: str
    group: str
    name: str
    category: str
    start_ns: int
    end_ns: int
    arguments: dict[str, Any] = field(default_factory=dict)
    flows_out: list[int] = field(default_factory=list)
    flows_in: list[int] = field(default_factory=list)


@dataclass
class ReadTrace:
    tracks: dict[int, Any]
    slices: list[ReadSlice]
    values: dict[str, list[tuple[int, float]]]


def read_perfetto(content: bytes) -> ReadTrace:
    """The trace as a viewer would take it: sorted by time, in the order of the file where times are equal."""
    messages = pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto brings the messages"
    )
    trace = messages.Trace()
    trace.ParseFromString(content)
    packets = list(trace.packet)
    assert packets[0].sequence_flags == 1
    interned = packets[0].interned_data
    names = {entry.iid: entry.name for entry in interned.event_names}
    categories = {entry.iid: entry.name for entry in interned.event_categories}
    arguments = {entry.iid: entry.name for entry in interned.debug_annotation_names}
    strings = {entry.iid: entry.str.decode() for entry in interned.debug_annotation_string_values}
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in packets if p.HasField("track_descriptor")}
    events = sorted((p for p in packets if p.HasField("track_event")), key=lambda packet: packet.timestamp)
    open_slices: dict[int, list[ReadSlice]] = defaultdict(list)
    found: list[ReadSlice] = []
    values: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for packet in events:
        event = packet.track_event
        track = tracks[event.track_uuid]
        if event.type == event.TYPE_COUNTER:
            assert track.HasField("counter")
            values[track.name].append((packet.timestamp, event.double_counter_value))
        elif event.type == event.TYPE_SLICE_END:
            open_slices[event.track_uuid].pop().end_ns = packet.timestamp
        else:
            assert event.type == event.TYPE_SLICE_BEGIN
            assert packet.sequence_flags == 2
            begun = ReadSlice(
                track=track.name,
                group=tracks[track.parent_uuid].name,
                name=names[event.name_iid],
                category=categories[event.category_iids[0]],
                start_ns=packet.timestamp,
                end_ns=-1,
                arguments={arguments[a.name_iid]: _value(a, strings) for a in event.debug_annotations},
                flows_out=list(event.flow_ids),
                flows_in=list(event.terminating_flow_ids),
            )
            found.append(begun)
            open_slices[event.track_uuid].append(begun)
    assert not any(open_slices.values())
    return ReadTrace(tracks=tracks, slices=found, values=dict(values))


def _value(annotation: Any, strings: dict[int, str]) -> Any:
    kind = annotation.WhichOneof("value")
    value = getattr(annotation, kind)
    return strings[value] if kind == "string_value_iid" else value
