"""Launches in order, with durations -> when each was launched, started and ended.

One host thread launches; it is at most a bounded number of kernels ahead of the device. A stream runs its kernels in
the order of launch, mostly with a small gap, now and then starting shortly before the end of the one before. A stream
of asynchronous starts waits for what the main stream had been given before; the main stream waits where the program
says so. In a counter pass the device runs one kernel at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rocktools.demo.launch_rows import WAIT, LaunchRows

_LAUNCH_NS = 3_500
_ASYNC_LAUNCH_NS = 6_000
_LAUNCH_TO_START_NS = 4_000
_SWITCH_NS = 1_000
_GAP_NS = 350
_OVERLAPPING_RATIO = 0.04
_LONGEST_OVERLAP_NS = 500
_PAUSE_NS = 60_000
_MOST_AHEAD = 1_024
_BETWEEN_STEPS_NS = 150_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaunchTimes:
    """Of every row, ns: the host's call, and start and end on the device; those of a wait mean nothing."""

    launch_ns: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray


def time_launches(
    rows: LaunchRows,
    duration_ns: np.ndarray,
    *,
    first_ns: int,
    is_serialised: bool,
    is_queue_merged: bool,
    rng: np.random.Generator,
) -> LaunchTimes:
    """When everything happens.

    Args:
        rows: launches in order.
        duration_ns: of each; 0 for waits.
        first_ns: when the host starts to launch.
        is_serialised: whether the device runs one kernel at a time with pauses, as in a counter pass.
        is_queue_merged: whether all streams share one hardware queue: no kernel starts before the one launched before.
        rng: source of chance.
    """
    count = len(rows)
    chance = rng.random(count)
    gap = rng.exponential(_GAP_NS, count)
    gap = np.where(chance < _OVERLAPPING_RATIO, -np.minimum(gap, _LONGEST_OVERLAP_NS), gap)
    launch_cost = np.where(rows.stream == 0, _LAUNCH_NS, _ASYNC_LAUNCH_NS) * np.exp(rng.normal(0, 0.06, count))
    launch_cost[np.flatnonzero(np.diff(rows.step, prepend=rows.step[:1]))] += _BETWEEN_STEPS_NS
    launch, start, end = _run(rows, duration_ns, gap, launch_cost, is_serialised, is_queue_merged)
    return LaunchTimes(launch_ns=launch + first_ns, start_ns=start + first_ns, end_ns=end + first_ns)


def _run(
    rows: LaunchRows,
    duration_ns: np.ndarray,
    gap_ns: np.ndarray,
    launch_cost_ns: np.ndarray,
    is_serialised: bool,
    is_queue_merged: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every start depends on ends before it, across streams: a loop in plain Python, about a microsecond a row."""
    kernels, streams, async_ids = rows.kernel.tolist(), rows.stream.tolist(), rows.async_id.tolist()
    durations, gaps, costs = duration_ns.tolist(), gap_ns.tolist(), launch_cost_ns.tolist()
    free = [0.0] * (max(streams, default=0) + 1)
    pending: dict[int, float] = {}
    host = waited = last_start = last_end = 0.0
    launches, starts, ends = [0.0] * len(kernels), [0.0] * len(kernels), [0.0] * len(kernels)
    for row, kernel in enumerate(kernels):
        if kernel == WAIT:
            waited = max(waited, pending.pop(async_ids[row], 0.0))
            continue
        stream, gap = streams[row], gaps[row]
        host += costs[row]
        if row >= _MOST_AHEAD and ends[row - _MOST_AHEAD] > host:
            host = ends[row - _MOST_AHEAD]
        start = max(host + _LAUNCH_TO_START_NS, free[stream] + gap)
        if is_serialised:
            start = max(start, last_end + _PAUSE_NS * (1 + 0.0001 * gap))
        elif stream == 0:
            start = max(start, waited)
        else:
            start = max(start, free[stream] + _SWITCH_NS, free[0] + _SWITCH_NS)
        if is_queue_merged and start <= last_start:
            start = last_start + 1
        end = start + durations[row]
        free[stream] = end
        if stream:
            pending[async_ids[row]] = end
        last_start, last_end = start, max(last_end, end)
        launches[row], starts[row], ends[row] = host, start, end
    launch, start_ns = np.array(launches).astype(np.int64), np.array(starts).astype(np.int64)
    return launch, start_ns, np.maximum(np.array(ends).astype(np.int64), start_ns + 1)
