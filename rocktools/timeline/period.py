"""A sequence of kernels -> its period: where a step begins again and again, found without any mark of a step.

A step of one program launches the same kernels every time. So a kernel that occurs once per step cuts the sequence
into segments with equal multisets of kernels, while one that occurs in every layer, or once per microstep, leaves some
segments longer than the others. The multiset of a segment is a difference of a running sum of random 64-bit numbers,
one per kind of kernel: all segments of all candidates are compared in one pass.

Where no two steps are equal (lost records, kernels of others), kinds that come back at nearly the same distance do.

Fails where steps differ by more than that (dynamic shapes), where a trace holds fewer than two whole steps, and where
nothing but the repeated part is in the trace. Nothing here knows times of steps, devices or names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.timeline.grouping import IntArray, group_rows

SMALLEST_STEP_COUNT = 4
"""Rows of the shortest step: fewer are a loop of one kernel, not a training step."""

SPARE_COUNT = 4
"""Rows by which a segment may be longer or shorter than the others and still be a step: a copy of the loss, a log."""

PURITY_RATIO = 0.8
"""Least share of rows between the first and the last equal segment that are in segments of about that length."""

EXPLAINED_RATIO = 0.75
"""Least share of all rows whose kind of kernel occurs in a step; and, from the first whole step on, of all kinds.

A loop of layers repeats too, and its kernels are most rows; but the kernels that a step runs once are not in it.
"""

NEARLY_RATIO = 0.005
"""Share of its rows by which a step may differ where none is equal to another."""

NEARLY_PURITY_RATIO = 0.95
"""As `PURITY_RATIO`, where none is equal to another."""

REPEATED_RATIO = 0.6
"""Share of rows that repeat at a distance slightly off the period, where a record was lost and no step begins."""

SHORTEST_RATIO = 0.5
"""Rows, in those of a step, that what comes before the first whole step must have to be a step."""

_LOOKED_BACK_COUNT = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Where a step begins: so many rows before the one kernel of a kind that it runs once."""

    anchor: int
    rows_before: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Period:
    """What repeats.

    Attributes:
        beginning: where steps begin.
        starts: position of the first row of each step, ascending.
        rows_count: rows of a step.
        is_exact: whether steps are equal as multisets; else they only have nearly the same number of rows.
        equal_count: steps that are equal in that sense, the last one included where it is whole.
        is_last_whole: whether the rows behind the last anchor hold a whole step.
        last_end: position behind the last row of the last step.
        explained_ratio: share of all rows whose kind occurs in a step.
        explained_kinds_ratio: share of the kinds that occur from the first whole step on.
    """

    beginning: Beginning
    starts: IntArray
    rows_count: int
    is_exact: bool
    equal_count: int
    is_last_whole: bool
    last_end: int
    explained_ratio: float
    explained_kinds_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Segments:
    """Stretches from one occurrence of a kind to the next of the same kind, ordered by kind, then place."""

    kind: IntArray
    start: IntArray
    length: IntArray
    multiset: IntArray


def find_period(kinds: IntArray, gap_before: IntArray, preferred: Beginning | None = None) -> Period | None:
    """The period of a sequence, or None where it has none.

    Args:
        kinds: kind of each row in the order of start, numbered from 0.
        gap_before: idle time before each row. A step begins with the very first row where that leaves whole steps only;
            else with the first that repeats, where others were before it; else where the device waits longest; where
            it never waits, with the first kernel that a step runs once.
        preferred: the beginning to use where its kernel occurs once per step: that of another device.
    """
    if kinds.size < 2 * SMALLEST_STEP_COUNT:
        return None
    running = running_multiset(kinds)
    segments = _segments(kinds, running)
    candidates: list[tuple[IntArray, int | None, int]] = []
    if (repeated := _repeated(segments, kinds, running)) is not None:
        multiset, rows_count = repeated
        is_of_step = (segments.multiset == multiset) & (segments.length == rows_count)
        candidates.append((np.unique(segments.kind[is_of_step]), multiset, rows_count))
    if (nearly := _nearly_repeated(segments)) is not None:
        candidates.append((nearly[0], None, nearly[1]))
    for anchors, multiset_of_step, rows_count in candidates:
        steps = _Steps(kinds=kinds, running=running, multiset=multiset_of_step, rows_count=rows_count)
        if preferred is not None and bool(np.isin(preferred.anchor, anchors)):
            period = steps.begin_at(preferred)
        else:
            is_anchor = np.zeros(int(kinds.max()) + 1, dtype=np.bool_)
            is_anchor[anchors] = True
            period = _best_beginning(steps, int(kinds[np.argmax(is_anchor[kinds])]), gap_before)
        if min(period.explained_ratio, period.explained_kinds_ratio) >= EXPLAINED_RATIO:
            return period
    return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Steps:
    """A sequence, and what a whole step of it holds; without a multiset, nearly so many rows."""

    kinds: IntArray
    running: IntArray
    multiset: int | None
    rows_count: int

    def begin_at(self, beginning: Beginning) -> Period:
        """The steps that begin there; one whose first rows are not in the sequence is left out."""
        places = np.flatnonzero(self.kinds == beginning.anchor).astype(np.int64) - beginning.rows_before
        starts = places[places >= 0]
        if starts.size == 0:
            starts = np.zeros(1, dtype=np.int64)
        starts = self._without_warm_up(starts)
        is_equal = self.are_equal(starts)
        first = int(starts[np.argmax(is_equal)])
        last_end = min(int(starts[-1]) + self.rows_count, self.kinds.size)
        if is_equal[-1] and last_end < self.kinds.size and self.kinds[last_end] == self.kinds[first]:
            # The rows of a step that was cut before its anchor.
            starts, is_equal = np.append(starts, last_end), np.append(is_equal, False)
        in_step = self.kinds[first : first + self.rows_count]
        # Steps before the first equal one are warm-up, with autotuning kernels in any number.
        other = np.concatenate([self.kinds[: starts[0]], self.kinds[first:]])
        is_last_whole = bool(is_equal[-1])
        return Period(
            beginning=beginning,
            starts=starts,
            rows_count=self.rows_count,
            is_exact=self.multiset is not None,
            equal_count=int(is_equal.sum()),
            is_last_whole=is_last_whole,
            last_end=last_end if is_last_whole else int(self.kinds.size),
            explained_ratio=float(np.isin(other, in_step).mean()),
            explained_kinds_ratio=float(np.isin(np.unique(self.kinds[first:]), in_step).mean()),
        )

    def _without_warm_up(self, starts: IntArray) -> IntArray:
        """Without what is far too short before the first whole step: autotuning runs a kernel that steps run once."""
        first = int(np.argmax(self.are_equal(starts)))
        is_short = np.diff(starts[: first + 1]) < SHORTEST_RATIO * self.rows_count
        return starts[int(np.flatnonzero(is_short)[-1]) + 1 :] if bool(is_short.any()) else starts

    def are_equal(self, starts: IntArray) -> npt.NDArray[np.bool_]:
        """Which of the steps with these beginnings hold exactly the repeated multiset, or nearly so many rows."""
        bounds = np.append(starts, min(int(starts[-1]) + self.rows_count, self.kinds.size))
        if self.multiset is None:
            is_near: npt.NDArray[np.bool_] = np.abs(np.diff(bounds) - self.rows_count) <= _spare(self.rows_count)
            return is_near
        # Of arrays, not of scalars: the sums wrap around, which numpy only allows without a word in arrays.
        sums = self.running[bounds[1:]] - self.running[bounds[:-1]]
        is_equal: npt.NDArray[np.bool_] = (np.diff(bounds) == self.rows_count) & (sums == self.multiset)
        return is_equal

    def first_of_all(self, start: int) -> int | None:
        """Where the rows begin to repeat, going back from a whole step; None where the trace begins within a step.

        A lost record ends the repetition too, but before it the same rows repeat at another distance.
        """
        differs = np.flatnonzero(self.kinds[:start] != self.kinds[self.rows_count : self.rows_count + start])
        if differs.size == 0:
            return None
        first = int(differs[-1]) + 1
        begin = max(0, first - _LOOKED_BACK_COUNT)
        before = self.kinds[begin:first]
        for shift in range(-SPARE_COUNT, SPARE_COUNT + 1):
            later = begin + self.rows_count + shift
            if float(np.mean(before == self.kinds[later : later + before.size])) > REPEATED_RATIO:
                return None
        return first


def _best_beginning(steps: _Steps, anchor: int, gap_before: IntArray) -> Period:
    """The steps that begin before `anchor` where whole steps or waits say so, else with it."""
    plain = steps.begin_at(Beginning(anchor=anchor, rows_before=0))
    lead = int(plain.starts[0])
    if lead < steps.rows_count:
        divided = steps.begin_at(Beginning(anchor=anchor, rows_before=lead))
        # By chance, one beginning of as many as a step has rows is like that.
        if (
            divided.is_last_whole
            and divided.last_end == steps.kinds.size
            and divided.equal_count == divided.starts.size
        ):
            return divided
    equal = plain.starts[steps.are_equal(plain.starts)]
    first = steps.first_of_all(int(equal[0]))
    if first is not None:
        return steps.begin_at(Beginning(anchor=anchor, rows_before=(int(equal[0]) - first) % steps.rows_count))
    if steps.multiset is None:
        return plain
    places = equal[:, np.newaxis] + np.arange(steps.rows_count)
    # Only rows that are the same kernel in all equal steps: what order is left to chance has no place. The shortest of
    # a row's waits, since of thousands of rows some wait long once.
    is_fixed = (steps.kinds[places] == steps.kinds[places[0]]).all(axis=0)
    waits = np.where(is_fixed, gap_before[places].min(axis=0), -1)
    longest = int(np.argmax(waits))
    if longest == 0 or waits[longest] <= 0:
        return plain
    return steps.begin_at(Beginning(anchor=anchor, rows_before=steps.rows_count - longest))


def running_multiset(kinds: IntArray) -> IntArray:
    """Sums of random numbers, one per kind: equal differences are equal multisets (but for one in 2**64 or so)."""
    weights = _mixed(np.arange(int(kinds.max(initial=0)) + 1, dtype=np.uint64))
    sums: IntArray = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weights[kinds], dtype=np.uint64)]).view(np.int64)
    return sums


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """splitmix64 (Steele, Lea, Flood 2014): a fixed permutation of 64-bit numbers that looks random."""
    mixed: npt.NDArray[np.uint64] = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _segments(kinds: IntArray, running: IntArray) -> _Segments:
    places = np.argsort(kinds, kind="stable")
    follows = kinds[places[1:]] == kinds[places[:-1]]
    start, end = places[:-1][follows], places[1:][follows]
    return _Segments(kind=kinds[start], start=start, length=end - start, multiset=running[end] - running[start])


def _repeated(segments: _Segments, kinds: IntArray, running: IntArray) -> tuple[int, int] | None:
    """Multiset and length of the segment that explains the sequence best."""
    long_enough = np.flatnonzero(segments.length >= SMALLEST_STEP_COUNT)
    if long_enough.size == 0:
        return None
    of_kind, multiset = segments.kind[long_enough], segments.multiset[long_enough]
    groups = group_rows([of_kind, pd.factorize(multiset)[0].astype(np.int64)])
    counts = np.bincount(groups.of, minlength=len(groups))
    examples = long_enough[groups.example]
    lengths = segments.length[examples]
    last = np.full(int(kinds.max()) + 1, -1, dtype=np.int64)
    last[kinds] = np.arange(kinds.size)
    tails = last[segments.kind[examples]]
    fits = tails + lengths <= kinds.size
    is_tail = fits & (running[np.minimum(tails + lengths, kinds.size)] - running[tails] == segments.multiset[examples])
    counts = counts + is_tail
    best: tuple[float, int, int, int] | None = None
    for place in _worth_a_look(counts * lengths, segments.multiset[examples], counts >= 2):
        purity = _purity(segments, int(examples[place]), bool(is_tail[place]))
        score = (round(purity, 2), int(counts[place] * lengths[place]))
        if purity >= PURITY_RATIO and (best is None or score > best[:2]):
            best = (*score, int(segments.multiset[examples[place]]), int(lengths[place]))
    return None if best is None else best[2:]


def _nearly_repeated(segments: _Segments) -> tuple[IntArray, int] | None:
    """Kinds that come back at nearly the same distance, and that distance; of several, the one that covers most.

    A kind of a layer comes back at two distances at least, that of layers and that to the next pass.
    """
    if segments.kind.size == 0:
        return None
    order = np.lexsort((segments.length, segments.kind))
    kind, length = segments.kind[order], segments.length[order]
    begins = np.flatnonzero(np.append(True, kind[1:] != kind[:-1]))
    counts = np.diff(np.append(begins, kind.size))
    medians = length[begins + counts // 2]
    near = np.abs(length - np.repeat(medians, counts)) <= np.repeat(_spare(medians), counts)
    covered, total = np.add.reduceat(np.where(near, length, 0), begins), np.add.reduceat(length, begins)
    is_regular = (np.add.reduceat(near.astype(np.int64), begins) >= 2) & (medians >= SMALLEST_STEP_COUNT)
    is_regular &= covered >= NEARLY_PURITY_RATIO * total
    if not bool(is_regular.any()):
        return None
    best = int(medians[np.argmax(np.where(is_regular, covered, -1))])
    anchors = kind[begins][is_regular & (np.abs(medians - best) <= _spare(np.int64(best)))]
    return anchors, best


def _spare(rows_count: Any) -> Any:
    """Rows by which a step of so many may differ where none is equal to another."""
    return SPARE_COUNT + NEARLY_RATIO * rows_count


def _worth_a_look(covered: IntArray, multiset: IntArray, is_eligible: npt.NDArray[np.bool_]) -> list[int]:
    """Those that cover most, one per multiset (a step is one, wherever it begins), and no more than so many."""
    order = np.argsort(-covered, kind="stable")
    order = order[is_eligible[order]]
    first = np.sort(np.unique(multiset[order], return_index=True)[1])[:64]
    places: list[int] = order[first].tolist()
    return places


def _purity(segments: _Segments, example: int, is_tail: bool) -> float:
    """Share of the rows from the first equal segment to the last whose segment is about as long as the equal ones."""
    begin, end = np.searchsorted(segments.kind, [segments.kind[example], segments.kind[example] + 1])
    lengths = segments.length[begin:end]
    equal = np.flatnonzero(segments.multiset[begin:end] == segments.multiset[example])
    reach = slice(int(equal[0]), len(lengths) if is_tail else int(equal[-1]) + 1)
    near = np.abs(lengths[reach] - segments.length[example]) <= SPARE_COUNT
    tail = int(segments.length[example]) if is_tail else 0
    return float((lengths[reach][near].sum() + tail) / (lengths[reach].sum() + tail))
