"""When made-up dispatches, copies and host calls happen: from a shape and random numbers to int64 arrays.

Nothing here knows tables or ids of rows. Times are ns from the start of a segment; a segment is a stretch of the trace
that shares no time with the next, so that millions of dispatches need the memory of one segment.

What is imitated, from a recorded MI350X training step: on a queue dispatches follow each other in order, about one in
four without any gap, about 3 % starting up to 568 ns before the previous end; queues of one device overlap; the order
of launch is not the order of start. A launch call always ends before its kernel starts, and calls of one thread do not
overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rocktools.demo.rocpd_kernels import Kernels

_SHORTEST_NS = 1_500  # longer than any overlap, so that ends are in order too
_LONGEST_OVERLAP_NS = 568
_OVERLAPPING_RATIO = 0.03
_CHAINED_RATIO = 0.28
_LAUNCH_AHEAD_NS = 2_000
_QUEUE_BACKLOG_NS = 3_000
_COPY_BYTES_PER_NS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """Dispatches or copies of a segment with their host calls, one value per item, in order of launch.

    Attributes:
        agent_index: device, from 0.
        queue_index: queue of the device, from 0 (0 for copies).
        what: kernel number, or kind of copy.
        start_ns, end_ns: on the device.
        call_start_ns, call_end_ns: of the host call.
    """

    agent_index: np.ndarray
    queue_index: np.ndarray
    what: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    call_start_ns: np.ndarray
    call_end_ns: np.ndarray

    def taken(self, order: np.ndarray) -> Launches:
        """The same items in another order."""
        return Launches(**{name: getattr(self, name)[order] for name in self.__slots__})

    def shifted(self, by_ns: int) -> Launches:
        """The same items at another time."""
        return Launches(
            agent_index=self.agent_index,
            queue_index=self.queue_index,
            what=self.what,
            start_ns=self.start_ns + by_ns,
            end_ns=self.end_ns + by_ns,
            call_start_ns=self.call_start_ns + by_ns,
            call_end_ns=self.call_end_ns + by_ns,
        )


def no_launches() -> Launches:
    """Nothing, as a schedule."""
    none = np.zeros(0, dtype=np.int64)
    return Launches(**dict.fromkeys(Launches.__slots__, none))


def schedule_dispatches(
    count: int, *, agents_count: int, queues_count: int, is_serial: bool, kernels: Kernels, rng: np.random.Generator
) -> Launches:
    """`count` dispatches spread evenly over devices and unevenly over their queues.

    Args:
        count: at least 1.
        agents_count: devices.
        queues_count: queues per device.
        is_serial: whether a device runs one dispatch at a time with gaps between, as under counter collection.
        kernels: what is dispatched.
        rng: source of chance.
    """
    agent = np.arange(count) % agents_count
    weight = 1.0 / np.arange(1, queues_count + 1) ** 1.5
    queue = rng.choice(queues_count, count, p=weight / weight.sum())
    kernel = rng.choice(len(kernels.names), count, p=kernels.weight_ratio)
    spread = rng.lognormal(0.0, 0.08, count)
    duration = np.maximum((kernels.typical_ns[kernel] * spread).astype(np.int64), _SHORTEST_NS)

    lane = agent if is_serial else agent * queues_count + queue
    by_lane = np.argsort(lane, kind="stable")
    gap = _serial_gaps(count, rng) if is_serial else _gaps(count, rng)
    start = np.empty(count, dtype=np.int64)
    start[by_lane] = _lane_starts(lane[by_lane], duration[by_lane], gap, rng)

    # The host runs further ahead of the less busy queues: launch order is not start order.
    wanted = start - queue * _QUEUE_BACKLOG_NS
    call_duration = 1_500 + rng.exponential(1_000, count).astype(np.int64)
    call_start = np.empty(count, dtype=np.int64)
    for index in range(agents_count):
        mine = np.flatnonzero(agent == index)
        mine = mine[np.argsort(wanted[mine], kind="stable")]
        call_start[mine] = _calls_before(start[mine] - _LAUNCH_AHEAD_NS, call_duration[mine])
    launches = Launches(
        agent_index=agent,
        queue_index=queue,
        what=kernel,
        start_ns=start,
        end_ns=start + duration,
        call_start_ns=call_start,
        call_end_ns=call_start + call_duration,
    )
    return launches.taken(np.argsort(call_start, kind="stable"))


def schedule_copies(sizes_bytes: np.ndarray, *, span_ns: int, agents_count: int, rng: np.random.Generator) -> Launches:
    """One copy per size, evenly over `span_ns`, one at a time, called by one thread; `what` is the copy's number."""
    count = len(sizes_bytes)
    spacing = max(span_ns // max(count, 1), 1)
    duration = np.minimum(5_000 + sizes_bytes // _COPY_BYTES_PER_NS, max(spacing * 4 // 5, 1))
    start = spacing * np.arange(count)
    call_duration = 3_000 + rng.exponential(2_000, count).astype(np.int64)
    call_start = _calls_before(start - _LAUNCH_AHEAD_NS, call_duration)
    return Launches(
        agent_index=np.arange(count) % agents_count,
        queue_index=np.zeros(count, dtype=np.int64),
        what=np.arange(count),
        start_ns=start,
        end_ns=start + duration,
        call_start_ns=call_start,
        call_end_ns=call_start + call_duration,
    )


def _gaps(count: int, rng: np.random.Generator) -> np.ndarray:
    """Gap before each dispatch of a queue in ns; negative is an overlap."""
    chance = rng.random(count)
    gap = 1 + rng.exponential(2_500, count).astype(np.int64)
    gap[chance < _OVERLAPPING_RATIO + _CHAINED_RATIO] = 0
    overlap = -rng.integers(1, _LONGEST_OVERLAP_NS + 1, count)
    return np.where(chance < _OVERLAPPING_RATIO, overlap, gap)


def _serial_gaps(count: int, rng: np.random.Generator) -> np.ndarray:
    gap: np.ndarray = 5_000 + rng.exponential(10_000, count).astype(np.int64)
    return gap


def _lane_starts(lane: np.ndarray, duration: np.ndarray, gap: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Starts of dispatches that follow each other within each lane; the arrays are sorted by lane.

    Positive gaps of the less busy lanes are stretched, so that all lanes end at about the same time.
    """
    is_first = np.concatenate(([True], lane[1:] != lane[:-1]))
    gap = np.where(is_first, rng.integers(1, 20_000, len(lane)), gap)
    stretchable = np.where(gap > 0, gap, 0)
    total = np.bincount(lane, duration + gap)
    slack = (total.max() - total) / np.maximum(np.bincount(lane, stretchable), 1)
    gap = gap + (stretchable * slack[lane]).astype(np.int64)
    end = np.cumsum(duration + gap)
    before_lane = np.concatenate(([0], end[:-1]))[is_first]
    start: np.ndarray = end - duration - before_lane[np.cumsum(is_first) - 1]
    return start


def _calls_before(deadline: np.ndarray, duration: np.ndarray) -> np.ndarray:
    """Latest starts of calls that follow each other without overlap and each end by their deadline."""
    total = np.cumsum(duration)
    latest = np.minimum.accumulate((deadline - total)[::-1])[::-1]
    start: np.ndarray = total - duration + latest
    return start
