"""Lanes: nothing of a lane overlaps, and no lane is more than the overlaps need."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.timeline.tracks import SliceRows, TrackBuilder, disjoint_lanes, nested_lanes, order_of_calls

_INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=25)


def _sorted(pairs: list[tuple[int, int]], *, calls: bool) -> tuple[np.ndarray, np.ndarray]:
    start = np.array([first for first, _ in pairs], dtype=np.int64)
    end = start + np.array([length for _, length in pairs], dtype=np.int64)
    order = order_of_calls(start, end) if calls else np.argsort(start, kind="stable")
    return start[order], end[order]


@given(_INTERVALS)
def test_nothing_of_a_lane_overlaps_and_there_are_as_many_lanes_as_run_at_once(pairs):
    start, end = _sorted(pairs, calls=False)
    lanes = disjoint_lanes(start, end)
    for lane in set(lanes.tolist()):
        mine = lanes == lane
        assert (start[mine][1:] >= end[mine][:-1]).all()
    # How many run at once, one without length with those it lies in: the last lane is needed by the fullest instant.
    at_once = [int(((start <= t) & (np.maximum(end, start + 1) > t)).sum()) for t in range(55)]
    assert lanes.max(initial=-1) + 1 <= max(at_once)
    if (end > start).all():
        assert lanes.max(initial=-1) + 1 == max(at_once)


@given(_INTERVALS)
def test_calls_of_a_lane_nest_or_follow_one_another(pairs):
    start, end = _sorted(pairs, calls=True)
    lanes = nested_lanes(start, end)
    for i in range(len(start)):
        for j in range(i + 1, len(start)):
            if lanes[i] == lanes[j]:
                assert end[i] <= start[j] or end[j] <= end[i]


def test_calls_that_nest_need_one_lane_and_one_that_sticks_out_another():
    start, end = np.array([0, 1, 2, 5]), np.array([10, 4, 3, 12])
    assert nested_lanes(start, end).tolist() == [0, 0, 0, 1]
    assert disjoint_lanes(start, end).tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize("is_nested", [False, True])
def test_the_builder_names_the_lanes_and_keeps_what_belongs_together(is_nested):
    builder = TrackBuilder()
    group = builder.add_track("device")
    rows = SliceRows(
        category="device",
        names=pd.Categorical(["c", "a", "b"]),
        start_ns=np.array([20, 0, 5]),
        end_ns=np.array([30, 10, 15]),
        arguments={"lds_bytes": pd.Series([3, 1, 2], dtype="Int64")},
        flow_in=np.array([0, 7, 0]),
    )
    builder.add_slices("stream 1", group, rows, is_nested=is_nested)
    tracks = builder.build()
    assert [track.name for track in tracks.tracks] == ["device", "stream 1", "stream 1, overlapping 1"]
    first, second = tracks.slices
    assert list(first.names) == ["a", "c"]
    assert first.arguments["lds_bytes"].tolist() == [1, 3]
    assert first.flow_in is not None
    assert first.flow_in.tolist() == [7, 0]
    assert list(second.names) == ["b"]
    assert tracks.slices_count == 3
