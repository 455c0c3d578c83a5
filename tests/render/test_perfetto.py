"""Perfetto traces, read back by perfetto's own message classes."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from perfetto_reader import ReadTrace, read_perfetto

from rocktools.render.perfetto import packet_counts, write_perfetto
from rocktools.timeline.tracks import SliceRows, TrackBuilder, TrackSet

_TIME = 150_000_000_000_000
_ROW = st.tuples(
    st.integers(0, 60),
    st.integers(1, 20),
    st.sampled_from(["gemm", "größe", ""]),
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.none(), st.floats(allow_nan=False)),
    st.one_of(st.none(), st.sampled_from(["wi_0", "attention"])),
    st.booleans(),
)


def _written(tracks: TrackSet) -> ReadTrace:
    stream = io.BytesIO()
    write_perfetto(tracks, stream)
    return read_perfetto(stream.getvalue())


@settings(max_examples=60, deadline=None)
@given(st.lists(_ROW, max_size=20), st.booleans())
def test_every_slice_comes_back_with_its_arguments(rows, is_nested):
    builder = TrackBuilder()
    group = builder.add_track("device gpu0")
    start = np.array([_TIME + row[0] for row in rows], dtype=np.int64)
    builder.add_slices(
        "stream 1",
        group,
        SliceRows(
            category="device",
            names=pd.Categorical([row[2] for row in rows], categories=["gemm", "größe", ""]),
            start_ns=start,
            end_ns=start + np.array([row[1] for row in rows], dtype=np.int64),
            arguments={
                "lds_bytes": pd.Series([row[3] for row in rows], dtype="Int64"),
                "roof_ratio": pd.Series([row[4] for row in rows], dtype="float64"),
                "component": pd.Series(pd.Categorical([row[5] for row in rows], categories=["wi_0", "attention"])),
                "is_inferred": pd.Series([row[6] for row in rows], dtype="bool"),
            },
        ),
        is_nested=is_nested,
    )
    read = _written(builder.build())
    assert {slice_.track.split(",")[0] for slice_ in read.slices} <= {"stream 1"}
    got = [
        (s.start_ns - _TIME, s.end_ns - s.start_ns, s.name, *(s.arguments.get(name) for name in _NAMES))
        for s in read.slices
    ]
    assert sorted(got, key=repr) == sorted(rows, key=repr)


_NAMES = ("lds_bytes", "roof_ratio", "component", "is_inferred")


def test_tracks_hang_under_their_group_in_order_and_values_have_a_unit():
    builder = TrackBuilder()
    first, second = builder.add_track("device gpu0"), builder.add_track("host")
    builder.add_values("power", first, "W", np.array([7, 5]), [350.0, 300.5])
    rows = SliceRows(category="call", names=pd.Categorical(["hipLaunch"]), start_ns=np.array([5]), end_ns=np.array([9]))
    builder.add_slices("thread 1", second, rows)
    tracks = builder.build()
    read = _written(tracks)
    by_name = {track.name: track for track in read.tracks.values()}
    assert by_name["power"].parent_uuid == by_name["device gpu0"].uuid
    assert by_name["power"].counter.unit_name == "W"
    assert by_name["host"].sibling_order_rank == 1
    assert by_name["device gpu0"].process.pid != by_name["host"].process.pid
    assert read.values == {"power": [(5, 300.5), (7, 350.0)]}
    assert packet_counts(tracks) == {"tracks": 4, "slices": 1, "values": 2}


def test_arrows_lead_from_call_to_dispatch():
    builder = TrackBuilder()
    host, device = builder.add_track("host"), builder.add_track("device")
    one = {"names": pd.Categorical(["x"]), "start_ns": np.array([5]), "end_ns": np.array([9])}
    builder.add_slices("calls", host, SliceRows(category="calls", flow_out=np.array([3]), **one))
    builder.add_slices("stream", device, SliceRows(category="device", flow_in=np.array([3]), **one))
    call, dispatch = _written(builder.build()).slices
    assert (call.flows_out, call.flows_in) == ([3], [])
    assert (dispatch.flows_out, dispatch.flows_in) == ([], [3])


def test_what_ends_where_the_next_begins_is_closed_first():
    builder = TrackBuilder()
    group = builder.add_track("device")
    names = pd.Categorical(["outer", "first", "second", "after"])
    start, end = np.array([0, 0, 5, 10]), np.array([10, 5, 10, 12])
    builder.add_slices(
        "calls", group, SliceRows(category="calls", names=names, start_ns=start, end_ns=end), is_nested=True
    )
    read = _written(builder.build())
    assert [(s.name, s.start_ns, s.end_ns) for s in read.slices] == [
        ("outer", 0, 10), ("first", 0, 5), ("second", 5, 10), ("after", 10, 12),
    ]  # fmt: skip
