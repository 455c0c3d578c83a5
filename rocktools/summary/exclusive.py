"""Rows of a device timeline -> the time in which each ran alone on its device."""

from __future__ import annotations

import numpy as np

from rocktools.timeline.grouping import IntArray


def exclusive_lengths(start_ns: IntArray, end_ns: IntArray, device: IntArray) -> IntArray:
    """How long each row ran while no other row of its device did.

    Where exactly one row is active, the sum of the numbers of all active rows is its number: one sweep over starts and
    ends tells which, without looking at pairs.

    Args:
        start_ns, end_ns: of each row; none ends before it starts.
        device: code of its device.
    """
    count = start_ns.size
    found = np.zeros(count, dtype=np.int64)
    if count == 0:
        return found
    numbers = np.arange(1, count + 1, dtype=np.int64)
    times = np.concatenate([start_ns, end_ns])
    order = np.lexsort((times, np.concatenate([device, device])))
    times = times[order]
    active = np.cumsum(np.where(order < count, 1, -1))
    alone = np.cumsum(np.concatenate([numbers, -numbers])[order])
    # Behind the last end of a device nothing is active, so that no segment reaches into the next device.
    is_single = active[:-1] == 1
    np.add.at(found, alone[:-1][is_single] - 1, np.diff(times)[is_single])
    return found
