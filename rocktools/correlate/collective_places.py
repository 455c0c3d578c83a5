"""Collectives that look alike -> those of a profile that run beside the same computation.

RCCL runs one generic kernel for every collective, so a row of them may look the same at each. What tells them apart is
where they start between the kernels of the computation. That place moves by a few kernels from run to run, as
collectives run beside computation, so it is compared with some room. Two collectives closer than that stay ambiguous.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rocktools.correlate.edges import BoolArray, IntArray

_ROOM = 2
"""Kernels of the computation before and behind that a start may move by."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StartOrder:
    """Rows in the order in which they started.

    Attributes:
        row: of each place.
        device: of each place, ascending.
        is_collective: of each place.
    """

    row: IntArray
    device: IntArray
    is_collective: BoolArray

    def computation_around(self, count: int) -> dict[int, IntArray]:
        """Collective -> rows of the `count` computing kernels before it, and as many behind, on its device."""
        computing = np.flatnonzero(~self.is_collective)
        found = {}
        for place in np.flatnonzero(self.is_collective).tolist():
            behind = int(np.searchsorted(computing, place))
            near = computing[max(behind - count, 0) : behind + count]
            found[int(self.row[place])] = self.row[near[self.device[near] == self.device[place]]]
        return found


def tabulate_places(known: StartOrder, labels: IntArray) -> dict[int, frozenset[int]]:
    """Label of a collective -> labels of the kernels that it started beside, over all of its executions.

    Args:
        known: the rows of the profile.
        labels: of each row, from 0; 0 is none.
    """
    found: dict[int, set[int]] = {}
    for row, near in known.computation_around(1 + _ROOM).items():
        found.setdefault(int(labels[row]), set()).update(labels[near].tolist())
    return {label: frozenset(near - {0}) for label, near in found.items()}


def choose_by_place(
    candidates: Mapping[int, IntArray], asked: StartOrder, labels: IntArray, places: Mapping[int, frozenset[int]]
) -> dict[int, IntArray]:
    """Collectives among `candidates` -> the labels that fit to where they started; only those where some do.

    Args:
        candidates: row -> the labels that it may have.
        asked: the rows of the trace.
        labels: of each row; 0 or less where it has none to rely on.
        places: as `tabulate_places` gives it.
    """
    chosen = {}
    for row, near in asked.computation_around(1).items():
        if row not in candidates:
            continue
        beside = {label for label in labels[near].tolist() if label > 0}
        fitting = [label for label in np.unique(candidates[row]).tolist() if beside <= places.get(label, frozenset())]
        if beside and fitting:
            chosen[row] = np.array(fitting, dtype=np.int64)
    return chosen
