"""Launches of one device in the order of launch, as int64 arrays that can be cut, joined and mixed.

A row is a dispatch, or a place where the main stream waits for an asynchronous start. Where a row comes from, the
hidden truth, travels with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from rocktools.demo.launch_schedule import NO_SITE, Schedule

WAIT = -1  # in place of a kernel
NO_STEP = -1


class Origin(IntEnum):
    """Who launched a dispatch."""

    PROGRAM = 0
    WARM_UP = 1  # autotuning, and whatever ran before the first step
    OTHER_EXECUTABLE = 2
    FOREIGN = 3  # of nobody, in the middle of a step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaunchRows:
    """Launches in order; one value per row.

    Attributes:
        kernel: index into a table of kernels; `WAIT` where the main stream waits.
        stream: 0 is the main stream.
        async_id: of the asynchronous start that launched it or is waited for; -1 elsewhere.
        site: index into the sites of the program; -1 where the program did not launch it.
        kernel_index: which of its thunk's kernels.
        step: which execution of the program; `NO_STEP` where the program did not launch it.
        iterations: (rows, loops): iteration of each enclosing loop; -1 where there is none.
        origin: an `Origin`.
    """

    kernel: np.ndarray
    stream: np.ndarray
    async_id: np.ndarray
    site: np.ndarray
    kernel_index: np.ndarray
    step: np.ndarray
    iterations: np.ndarray
    origin: np.ndarray

    def __len__(self) -> int:
        return len(self.kernel)

    def taken(self, rows: np.ndarray) -> LaunchRows:
        """The rows of these numbers, or where a mask is true."""
        return LaunchRows(**{one.name: getattr(self, one.name)[rows] for one in fields(self)})


def join_rows(parts: Sequence[LaunchRows]) -> LaunchRows:
    """One after the other; at least one part."""
    names = [one.name for one in fields(LaunchRows)]
    return LaunchRows(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def mix_rows(rows: LaunchRows, strange: LaunchRows, after: np.ndarray) -> LaunchRows:
    """`strange` among `rows`, each behind the row that `after` (one number per strange row) names."""
    order = np.argsort(np.concatenate((np.arange(len(rows)), after + 0.5)), kind="stable")
    return join_rows([rows, strange]).taken(order)


def strange_rows(kernels: np.ndarray, origin: Origin, *, loops_count: int) -> LaunchRows:
    """Launches of these kernels on the main stream that are none of the program's."""
    count = len(kernels)
    none = np.full(count, -1)
    return LaunchRows(
        kernel=kernels.astype(np.int64),
        stream=np.zeros(count, dtype=np.int64),
        async_id=none,
        site=none,
        kernel_index=none,
        step=none,
        iterations=np.full((count, loops_count), -1),
        origin=np.full(count, int(origin)),
    )


def program_rows(schedule: Schedule, kernels: Sequence[Sequence[int]], *, step: int) -> LaunchRows:
    """One execution of the program.

    Args:
        schedule: what it launches.
        kernels: of each site, the kernels that it launches, as indices into the table.
        step: number of the execution.
    """
    counts = np.array([len(each) for each in kernels], dtype=np.int64)
    first = np.cumsum(counts) - counts
    table = np.array([kernel for each in kernels for kernel in each], dtype=np.int64)
    is_wait = schedule.site == NO_SITE
    site = np.where(is_wait, 0, schedule.site)
    operation_counts = np.where(is_wait, 1, counts[site]) if len(counts) else is_wait.astype(np.int64)
    operation = np.repeat(np.arange(len(site)), operation_counts)
    kernel_index = np.arange(len(operation)) - np.repeat(
        np.cumsum(operation_counts) - operation_counts, operation_counts
    )
    is_wait, site = is_wait[operation], site[operation]
    kernel = np.full(len(operation), WAIT)
    kernel[~is_wait] = table[first[site[~is_wait]] + kernel_index[~is_wait]]
    stream = np.zeros(len(operation), dtype=np.int64)
    stream[~is_wait] = schedule.stream_of_site[site[~is_wait]]
    return LaunchRows(
        kernel=kernel,
        stream=stream,
        async_id=schedule.async_id[operation],
        site=np.where(is_wait, NO_SITE, site),
        kernel_index=kernel_index,
        step=np.full(len(operation), step),
        iterations=schedule.iterations[operation],
        origin=np.full(len(operation), int(Origin.PROGRAM)),
    )
