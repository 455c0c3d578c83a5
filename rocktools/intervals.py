"""Interval algebra: plain arrays of starts and ends -> disjoint sets, lengths, idle time, and who was active when.

Intervals are half-open [start, end) in one integer unit and one clock; nanoseconds everywhere but in the XSpace reader.
An interval with start == end covers nothing. All arithmetic is int64: a boot-time stamp near 1.3e16 does not fit into
float64. Nothing here knows what an interval stands for, changes its inputs, or loops over intervals.

Two ideas carry the module, both on starts and ends that are sorted *independently* of each other (a plain sort is the
fastest thing numpy does; an order that keeps the pairs costs twice as much):

* `i` intervals have ended and no further one has begun exactly in [end[i-1], start[i]). That is a gap of the union.
* Where at most two intervals overlap, both are active exactly in [start[i+1], end[i]). That is an intersection.

Union per group is the first idea again, with every group moved to a stretch of the axis of its own.

Memory at the peak, in bytes per interval besides the inputs (as traced, for intervals that hardly merge, the dearest
case): 41 `union` and `gaps`, 65 `union_length_by`, `union_by` and `covered_length`, 85 `sweep`, 96 `mask_lengths_by`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rocktools.errors import ContractError

IntArray = npt.NDArray[np.int64]
ArrayLike = npt.NDArray[Any]

LABELS_LIMIT = 63  # labels 0..62: a mask with bit 63 would be negative
_INT64_MAX = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """A set of instants: disjoint intervals in ascending order, none empty, none touching the next.

    Equal sets have equal arrays.

    Raises:
        ContractError: the arrays do not have that form; `union` brings any intervals into it.
    """

    start: IntArray
    end: IntArray

    def __post_init__(self) -> None:
        start, end = _checked(self.start, self.end)
        if bool((start == end).any()) or bool((start[1:] <= end[:-1]).any()):
            raise ContractError(
                "interval-not-disjoint",
                "intervals of a set must be ascending, not empty and apart from each other",
                hint="rocktools.intervals.union",
            )
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "end", end)

    def __len__(self) -> int:
        return int(self.start.size)

    @property
    def length(self) -> int:
        """How much the set covers."""
        return int((self.end - self.start).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Time cut wherever the set of active labels changes: ascending and disjoint; where two touch, their masks differ.

    Attributes:
        start, end: the segment; it may touch the next one. Time without any active label is left out.
        mask: bit `l` is set where label `l` is active; never 0.
    """

    start: IntArray
    end: IntArray
    mask: IntArray

    def __len__(self) -> int:
        return int(self.start.size)

    def where(self, *, all_of: Iterable[int] = (), none_of: Iterable[int] = ()) -> Intervals:
        """The instants at which all labels of `all_of` and none of `none_of` are active; idle time is never among them.

        Exposed communication is `where(all_of=[COMMUNICATION], none_of=[COMPUTE])`.
        """
        wanted, unwanted = mask_of(all_of), mask_of(none_of)
        keep = ((self.mask & wanted) == wanted) & ((self.mask & unwanted) == 0)
        return union(self.start[keep], self.end[keep])


@dataclass(frozen=True, slots=True, eq=False)
class GroupedIntervals:
    """One set of instants per group: ordered by group, then start; within a group disjoint, none touching the next.

    Attributes:
        start, end: the intervals; none is empty.
        group: group of each.
    """

    start: IntArray
    end: IntArray
    group: IntArray

    def __len__(self) -> int:
        return int(self.start.size)

    def gaps(self) -> GroupedIntervals:
        """The time between the intervals of each group."""
        between = self.group[1:] == self.group[:-1]
        return GroupedIntervals(self.end[:-1][between], self.start[1:][between], self.group[1:][between])


def mask_of(labels: Iterable[int]) -> int:
    """The mask in which exactly these labels are active.

    Raises:
        ContractError: a label is not in 0..62.
    """
    mask = 0
    for label in labels:
        if not 0 <= label < LABELS_LIMIT:
            raise ContractError("interval-labels", f"labels must be 0..{LABELS_LIMIT - 1}, but one is {label}")
        mask |= 1 << label
    return mask


def union(start: ArrayLike, end: ArrayLike) -> Intervals:
    """What the intervals cover together; intervals that touch become one.

    Args:
        start, end: integer arrays of equal length, in any order.

    Raises:
        ContractError: an interval ends before it starts, lengths differ, or the values are not integers.
    """
    starts, ends = _not_empty(*_checked(start, end))
    return _merged(np.sort(starts), np.sort(ends))


def union_length(start: ArrayLike, end: ArrayLike) -> int:
    """How much the intervals cover together, every instant counted once.

    Raises:
        ContractError: as `union`.
    """
    return union(start, end).length


def union_length_by(start: ArrayLike, end: ArrayLike, codes: ArrayLike, groups_count: int) -> IntArray:
    """`union_length` of each group.

    Args:
        start, end: integer arrays of equal length, in any order.
        codes: group of each interval, 0..groups_count-1.
        groups_count: length of the result.

    Returns:
        One length per group; 0 for a group that covers nothing.

    Raises:
        ContractError: as `union`; or a code is out of range.
    """
    starts, ends = _checked(start, end)
    groups = _checked_codes(codes, starts.size, groups_count, "interval-codes")
    starts, ends, groups = _union_by(starts, ends, groups)
    lengths = np.zeros(groups_count, dtype=np.int64)
    np.add.at(lengths, groups, ends - starts)  # not bincount: its weights are float64
    return lengths


def union_by(start: ArrayLike, end: ArrayLike, codes: ArrayLike, groups_count: int) -> GroupedIntervals:
    """`union` of each group.

    Args:
        start, end: integer arrays of equal length, in any order.
        codes: group of each interval, 0..groups_count-1.
        groups_count: how many groups there are; one that covers nothing has no interval.

    Raises:
        ContractError: as `union_length_by`.
    """
    starts, ends = _checked(start, end)
    groups = _checked_codes(codes, starts.size, groups_count, "interval-codes")
    return GroupedIntervals(*_union_by(starts, ends, groups))


def mask_lengths_by(
    start: ArrayLike, end: ArrayLike, labels: ArrayLike, codes: ArrayLike, *, labels_count: int, groups_count: int
) -> IntArray:
    """How long each set of labels was active in each group: `length_by_mask` of the `sweep` of each group.

    Args:
        start, end: integer arrays of equal length, in any order.
        labels: what each interval is, 0..labels_count-1.
        codes: group of each interval, 0..groups_count-1.
        labels_count: how many labels there are, at most 8: the result has a column for each set of labels.
        groups_count: rows of the result.

    Returns:
        One row per group; column `m` holds the time in which exactly the labels of mask `m` were active. Column 0 is 0:
        idle time has no beginning and no end here.

    Raises:
        ContractError: as `union_length_by`; or a label is out of range.
    """
    if not 1 <= labels_count <= 8:
        raise ContractError("interval-labels", f"labels must be 1 to 8, but are {labels_count}")
    starts, ends = _checked(start, end)
    groups = _checked_codes(codes, starts.size, groups_count, "interval-codes")
    kinds = _checked_codes(labels, starts.size, labels_count, "interval-labels")
    starts, ends, both = _union_by(starts, ends, groups * np.int64(labels_count) + kinds)
    del groups, kinds
    owners, kinds = np.divmod(both, np.int64(labels_count))
    bits = np.left_shift(np.int64(1), kinds)
    times, owners = np.concatenate([starts, ends]), np.concatenate([owners, owners])
    changes = np.concatenate([bits, -bits])
    del starts, ends, both, bits, kinds
    order = _order_by_group(times, owners)
    times, owners = times[order], owners[order]
    # All that begins in a group ends in it: the running sum is 0 where the next group begins.
    masks = np.cumsum(changes[order])[:-1]
    del changes, order
    lengths = np.zeros(groups_count << labels_count, dtype=np.int64)
    busy = np.flatnonzero(masks)
    np.add.at(lengths, (owners[busy] << labels_count) + masks[busy], times[busy + 1] - times[busy])
    return lengths.reshape(groups_count, 1 << labels_count)


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """The instants in both sets."""
    starts = np.sort(np.concatenate([a.start, b.start]))[1:]
    ends = np.sort(np.concatenate([a.end, b.end]))[:-1]
    keep = starts < ends
    # Two pieces never touch: where they would, one of the two sets would touch itself.
    return Intervals(starts[keep], ends[keep])


def subtraction(a: Intervals, b: Intervals) -> Intervals:
    """The instants in `a` that are not in `b`."""
    if len(a) == 0 or len(b) == 0:
        return a
    # What `b` leaves free where `a` may be.
    starts = np.concatenate([a.start[:1], b.end])
    ends = np.concatenate([b.start, a.end[-1:]])
    keep = starts < ends
    return intersection(a, Intervals(starts[keep], ends[keep]))


def covered_length(start: ArrayLike, end: ArrayLike, by: Intervals) -> IntArray:
    """How much of each interval lies in the set `by`.

    Args:
        start, end: integer arrays of equal length, in any order; they may overlap.
        by: the set.

    Returns:
        One length per interval, in the order given; 0 <= length <= end - start.

    Raises:
        ContractError: as `union`.
    """
    starts, ends = _checked(start, end)
    return _covered_before(ends, by) - _covered_before(starts, by)


def gaps(start: ArrayLike, end: ArrayLike, *, window: tuple[int, int] | None = None) -> Intervals:
    """The idle time between the intervals.

    Args:
        start, end: integer arrays of equal length, in any order.
        window: look at [window[0], window[1]), also before the first and after the last interval; None: from the first
            start to the last end.

    Raises:
        ContractError: as `union`; or the window ends before it starts.
    """
    busy = union(start, end)
    if window is None:
        return Intervals(busy.end[:-1], busy.start[1:])
    return subtraction(union(np.array(window[:1], dtype=np.int64), np.array(window[1:], dtype=np.int64)), busy)


def sweep(start: ArrayLike, end: ArrayLike, labels: ArrayLike) -> Segments:
    """Which labels were active when.

    Args:
        start, end: integer arrays of equal length, in any order.
        labels: what each interval is, 0..62. Intervals of one label may overlap; they count once.

    Raises:
        ContractError: as `union`; or a label is out of range.
    """
    starts, ends = _checked(start, end)
    groups = _checked_codes(labels, starts.size, LABELS_LIMIT, "interval-labels")
    starts, ends, groups = _union_by(starts, ends, groups)
    bits = np.left_shift(np.int64(1), groups)
    # Within a label nothing overlaps or touches any more, so a running sum of +bit and -bit is the mask itself.
    times = np.concatenate([starts, ends])
    changes = np.concatenate([bits, -bits])
    del starts, ends, groups, bits
    order = np.argsort(times, kind="stable")
    times = times[order]
    masks = np.cumsum(changes[order])
    del changes, order
    # Of several changes at one instant the last one holds. Each is another bit, so they never cancel: the mask changes.
    last = np.append(times[1:] != times[:-1], True)[: times.size]
    times, masks = times[last], masks[last]
    busy = np.flatnonzero(masks)
    return Segments(times[busy], times[busy + 1], masks[busy])


def length_by_mask(segments: Segments) -> dict[int, int]:
    """How long each set of labels was active: mask -> length, masks ascending.

    The lengths add up to the union of all intervals; those whose mask has bit `l` add up to the union of label `l`.
    """
    masks, which = np.unique(segments.mask, return_inverse=True)
    lengths = np.zeros(masks.size, dtype=np.int64)
    np.add.at(lengths, which, segments.end - segments.start)
    return dict(zip(masks.tolist(), lengths.tolist(), strict=True))


def _checked(start: ArrayLike, end: ArrayLike) -> tuple[IntArray, IntArray]:
    starts, ends = _int64(start), _int64(end)
    if starts.shape != ends.shape or starts.ndim != 1:
        raise ContractError(
            "interval-shape", f"starts and ends must be two equally long rows, but are {starts.shape} and {ends.shape}"
        )
    negative = ends < starts
    if bool(negative.any()):
        first = int(np.argmax(negative))
        raise ContractError(
            "interval-negative",
            f"{int(negative.sum())} of {starts.size} intervals end before they start",
            where=f"interval {first}: [{int(starts[first])}, {int(ends[first])})",
        )
    return starts, ends


def _checked_codes(codes: ArrayLike, size: int, groups_count: int, reference: str) -> IntArray:
    groups = _int64(codes)
    if groups.shape != (size,):
        raise ContractError("interval-shape", f"{size} intervals need as many codes, but there are {groups.shape}")
    if size and not 0 <= int(groups.min()) <= int(groups.max()) < groups_count:
        raise ContractError(
            reference,
            f"codes must be 0..{groups_count - 1}, but range from {int(groups.min())} to {int(groups.max())}",
        )
    return groups


def _int64(values: ArrayLike) -> IntArray:
    array = np.asarray(values)
    if array.size == 0:
        return array.astype(np.int64)
    # float64 holds no instant near 1.3e16 exactly, and uint64 wraps around: both are refused, not converted.
    if not np.can_cast(array.dtype, np.int64, "safe"):
        raise ContractError("interval-dtype", f"interval values must be int64, but are {array.dtype}")
    return array.astype(np.int64, copy=False)


def _not_empty(starts: IntArray, ends: IntArray) -> tuple[IntArray, IntArray]:
    keep = starts < ends
    return (starts, ends) if bool(keep.all()) else (starts[keep], ends[keep])


def _merged(starts: IntArray, ends: IntArray) -> Intervals:
    """The union of intervals that are not empty, from their starts and ends, each sorted."""
    is_gap = starts[1:] > ends[:-1]
    first = np.append(True, is_gap)[: starts.size]
    last = np.append(is_gap, True)[: starts.size]
    return Intervals(starts[first], ends[last])


def _union_by(starts: IntArray, ends: IntArray, groups: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Starts, ends and group of the union of each group, ordered by group, then start."""
    keep = starts < ends
    if not bool(keep.all()):
        starts, ends, groups = starts[keep], ends[keep], groups[keep]
    if starts.size == 0:
        return starts, ends, groups
    lowest = int(starts.min())
    stride = int(ends.max()) - lowest + 1  # + 1: the end of a group does not touch the start of the next
    if (int(groups.max()) + 1) * stride > _INT64_MAX:
        # Many groups over clocks far apart: the same with the ranks of the times, of which there are few enough.
        times = np.unique(np.concatenate([starts, ends]))
        starts, ends, groups = _union_by(np.searchsorted(times, starts), np.searchsorted(times, ends), groups)
        return times[starts], times[ends], groups
    shift = groups * np.int64(stride)
    shift -= np.int64(lowest)
    shifted = starts + shift
    shifted.sort()
    shift += ends
    shift.sort()
    merged = _merged(shifted, shift)
    del shifted, shift
    groups = merged.start // np.int64(stride)
    shift = groups * np.int64(stride)
    shift -= np.int64(lowest)
    return merged.start - shift, merged.end - shift, groups


def _order_by_group(times: IntArray, groups: IntArray) -> npt.NDArray[np.intp]:
    """What brings the instants into the order of their groups, and of time within each."""
    if times.size == 0:
        return np.zeros(0, dtype=np.intp)
    lowest = int(times.min())
    stride = int(times.max()) - lowest + 1
    if (int(groups.max()) + 1) * stride > _INT64_MAX:
        return np.lexsort((times, groups))
    return np.argsort(groups * np.int64(stride) + (times - np.int64(lowest)), kind="stable")


def _covered_before(times: IntArray, by: Intervals) -> IntArray:
    """How much of the set lies before each instant."""
    if len(by) == 0:
        return np.zeros(times.size, dtype=np.int64)
    # In ascending order the binary search finds its way in cached memory: 15 times as fast as in random order.
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    begun = np.searchsorted(by.start, ordered, side="right")
    before = np.append(np.int64(0), np.cumsum(by.end - by.start))[begun]
    current = begun - 1  # -1, before the first: the result of the next line is masked
    before -= np.where(begun > 0, np.maximum(by.end[current] - ordered, 0), 0)
    result = np.empty_like(before)
    result[order] = before
    return result
