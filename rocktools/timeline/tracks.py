"""What a timeline viewer shows, without the format of any: named tracks, slices on them, values over time.

Slices of one track nest or follow one another; those of a queue that overlap go to lanes, since a viewer would take one
inside the other for a call.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.timeline.grouping import IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One line of the viewer.

    Attributes:
        track_id: unique, above 0.
        name: as shown.
        parent_id: the track it hangs under; None for a group at the top.
        unit: of the values, on a track of values; "" on one of slices.
    """

    track_id: int
    name: str
    parent_id: int | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slices:
    """Slices of one track, in order of their start; none overlaps another unless it lies in it.

    Attributes:
        track_id: where they are.
        category: what the viewer filters by: dispatch, copy, host_call, range, step, exposed.
        names: of each.
        start_ns, end_ns: half-open, trace clock.
        arguments: column -> value of each slice; a missing value is not shown.
        flow_out, flow_in: number of the arrow that leaves, or arrives at, each; 0 for none.
    """

    track_id: int
    category: str
    names: pd.Categorical
    start_ns: IntArray
    end_ns: IntArray
    arguments: Mapping[str, pd.Series] = field(default_factory=dict)
    flow_out: IntArray | None = None
    flow_in: IntArray | None = None

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Values:
    """What one track of values shows: each holds until the next."""

    track_id: int
    time_ns: IntArray
    values: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrackSet:
    """Everything of one picture.

    Attributes:
        tracks: parents before children, in the order in which they are shown.
        slices: of the tracks without a unit.
        values: of those with one.
    """

    tracks: tuple[Track, ...]
    slices: tuple[Slices, ...]
    values: tuple[Values, ...] = ()

    @property
    def slices_count(self) -> int:
        return sum(len(each) for each in self.slices)


def disjoint_lanes(start_ns: IntArray, end_ns: IntArray) -> IntArray:
    """The lane of each interval, so that none of a lane overlaps another: always the lowest that is free.

    Args:
        start_ns, end_ns: sorted by start.
    """
    lanes = np.zeros(len(start_ns), dtype=np.int64)
    if len(start_ns) < 2 or bool((start_ns[1:] >= np.maximum.accumulate(end_ns)[:-1]).all()):
        return lanes
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    lanes_count = 0
    for place, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, lanes_count = lanes_count, lanes_count + 1
        lanes[place] = lane
        heapq.heappush(busy, (end, lane))
    return lanes


def nested_lanes(start_ns: IntArray, end_ns: IntArray) -> IntArray:
    """The lane of each interval, so that two of a lane lie in one another or apart: the lowest that takes it.

    Args:
        start_ns, end_ns: sorted by start, the longer first where starts are equal.
    """
    lanes = np.zeros(len(start_ns), dtype=np.int64)
    stacks: list[list[int]] = []
    for place, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        lane = 0
        while lane < len(stacks) and not _takes(stacks[lane], start, end):
            lane += 1
        if lane == len(stacks):
            stacks.append([])
        stacks[lane].append(end)
        lanes[place] = lane
    return lanes


def _takes(open_ends: list[int], start: int, end: int) -> bool:
    """Whether an interval lies apart from, or in, everything that is still open; forgets what has ended."""
    while open_ends and open_ends[-1] <= start:
        open_ends.pop()
    return not open_ends or end <= open_ends[-1]


def order_of_calls(start_ns: IntArray, end_ns: IntArray) -> npt.NDArray[np.intp]:
    """The order that `nested_lanes` wants."""
    order: npt.NDArray[np.intp] = np.lexsort((-end_ns, start_ns))
    return order


class TrackBuilder:
    """Collects tracks and what is on them; numbers tracks as they come."""

    def __init__(self) -> None:
        self._tracks: list[Track] = []
        self._slices: list[Slices] = []
        self._values: list[Values] = []

    def add_track(self, name: str, parent_id: int | None = None, *, unit: str = "") -> int:
        """A new track; its number."""
        track = Track(track_id=len(self._tracks) + 1, name=name, parent_id=parent_id, unit=unit)
        self._tracks.append(track)
        return track.track_id

    def add_slices(self, name: str, parent_id: int, slices: SliceRows, *, is_nested: bool = False) -> None:
        """Slices under a name: one track, and one more for each lane that overlaps need."""
        order = (
            order_of_calls(slices.start_ns, slices.end_ns) if is_nested else np.argsort(slices.start_ns, kind="stable")
        )
        ordered = slices.take(order)
        lanes = (nested_lanes if is_nested else disjoint_lanes)(ordered.start_ns, ordered.end_ns)
        for lane in range(int(lanes.max(initial=-1)) + 1):
            title = name if lane == 0 else f"{name}, overlapping {lane}"
            track_id = self.add_track(title, parent_id)
            self._slices.append(ordered.take(np.flatnonzero(lanes == lane)).on(track_id))

    def add_values(self, name: str, parent_id: int, unit: str, time_ns: IntArray, values: Any) -> None:
        """Values over time on a track of their own."""
        order = np.argsort(time_ns, kind="stable")
        track_id = self.add_track(name, parent_id, unit=unit)
        data = np.asarray(values, dtype=np.float64)
        self._values.append(Values(track_id=track_id, time_ns=time_ns[order], values=data[order]))

    def build(self) -> TrackSet:
        return TrackSet(tracks=tuple(self._tracks), slices=tuple(self._slices), values=tuple(self._values))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SliceRows:
    """Slices that have no track yet; attributes as in `Slices`, in any order."""

    category: str
    names: pd.Categorical
    start_ns: IntArray
    end_ns: IntArray
    arguments: Mapping[str, pd.Series] = field(default_factory=dict)
    flow_out: IntArray | None = None
    flow_in: IntArray | None = None

    def take(self, places: npt.NDArray[np.intp]) -> SliceRows:
        """Some of them, in this order."""
        return SliceRows(
            category=self.category,
            names=self.names.take(places),
            start_ns=self.start_ns[places],
            end_ns=self.end_ns[places],
            arguments={name: column.iloc[places] for name, column in self.arguments.items()},
            flow_out=None if self.flow_out is None else self.flow_out[places],
            flow_in=None if self.flow_in is None else self.flow_in[places],
        )

    def on(self, track_id: int) -> Slices:
        """The same on a track."""
        return Slices(
            track_id=track_id,
            category=self.category,
            names=self.names,
            start_ns=self.start_ns,
            end_ns=self.end_ns,
            arguments=self.arguments,
            flow_out=self.flow_out,
            flow_in=self.flow_in,
        )
