"""What goes wrong with a recorded trace: records lost, its start or end missing, order and clocks not quite right.

Functions over the launches of one device and their times. They choose rows or change times; what is left of a damaged
trace is as true as before, only less of it.
"""

from __future__ import annotations

import numpy as np

from rocktools.demo.launch_rows import LaunchRows, Origin
from rocktools.demo.simulated_timing import LaunchTimes

_SWAPPABLE_NS = 20_000


def find_kept(
    rows: LaunchRows,
    times: LaunchTimes,
    *,
    loss_ratio: float,
    bursts_count: int,
    burst_dispatches_count: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Which records were kept: each is lost with `loss_ratio`, and so is every one of some stretches of time.

    Returns:
        A mask over the rows.
    """
    count = len(rows)
    kept = rng.random(count) >= loss_ratio
    by_start = np.argsort(times.start_ns, kind="stable")
    for first in rng.integers(0, max(count - burst_dispatches_count, 1), bursts_count).tolist():
        kept[by_start[first : first + burst_dispatches_count]] = False
    return kept


def find_recorded(rows: LaunchRows, times: LaunchTimes, *, cut_first_ratio: float, cut_last_ratio: float) -> np.ndarray:
    """Which launches fall into the time that was recorded.

    Args:
        cut_first_ratio: share of the first step that was over when recording began; 0 records what ran before it too.
        cut_last_ratio: share of the last step that was not recorded, and nothing after it; 0 cuts nothing.

    Returns:
        A mask over the rows.
    """
    recorded = np.ones(len(rows), dtype=bool)
    is_ours = rows.origin == Origin.PROGRAM
    if not is_ours.any():
        return recorded
    if cut_first_ratio > 0:
        recorded &= times.start_ns >= _moment(rows, times, int(rows.step[is_ours].min()), cut_first_ratio)
    if cut_last_ratio > 0:
        recorded &= times.start_ns < _moment(rows, times, int(rows.step[is_ours].max()), 1 - cut_last_ratio)
    return recorded


def _moment(rows: LaunchRows, times: LaunchTimes, step: int, ratio: float) -> int:
    """When this share of the dispatches of a step had started."""
    starts = np.sort(times.start_ns[rows.step == step])
    return int(starts[min(int(len(starts) * ratio), len(starts) - 1)])


def swap_neighbours_in_time(
    rows: LaunchRows, times: LaunchTimes, ratio: float, rng: np.random.Generator
) -> LaunchTimes:
    """Some short kernels recorded as if they had run before the one launched before them on the same stream."""
    start, end = times.start_ns.copy(), times.end_ns.copy()
    for stream in np.unique(rows.stream):
        mine = np.flatnonzero(rows.stream == stream)
        first = mine[:-1:2]
        second = mine[1::2][: len(first)]
        is_short = (end[first] - start[first] < _SWAPPABLE_NS) & (end[second] - start[second] < _SWAPPABLE_NS)
        chosen = is_short & (rng.random(len(first)) < ratio)
        first, second = first[chosen], second[chosen]
        first_ns, second_ns = end[first] - start[first], end[second] - start[second]
        begin, finish = start[first].copy(), np.maximum(end[second], end[first])
        start[second], end[second] = begin, begin + second_ns
        start[first], end[first] = finish - first_ns, finish
    return LaunchTimes(launch_ns=times.launch_ns, start_ns=start, end_ns=end)


def swap_neighbours_across_streams(
    dispatch_id: np.ndarray, rows: LaunchRows, ratio: float, rng: np.random.Generator
) -> np.ndarray:
    """The ids, some pairs that were launched one after the other on two streams exchanged."""
    swapped: np.ndarray = dispatch_id.copy()
    first = np.flatnonzero(rows.stream[:-1] != rows.stream[1:])
    first = first[np.diff(first, prepend=-2) > 1]  # no row in two pairs
    first = first[rng.random(len(first)) < ratio]
    swapped[first], swapped[first + 1] = dispatch_id[first + 1], dispatch_id[first]
    return swapped


def skew_streams(rows: LaunchRows, times: LaunchTimes, skew_ns: int) -> LaunchTimes:
    """The times of all streams but the main one, told by a clock that is `skew_ns` ahead."""
    shift = np.where(rows.stream == 0, 0, skew_ns)
    return LaunchTimes(launch_ns=times.launch_ns, start_ns=times.start_ns + shift, end_ns=times.end_ns + shift)
