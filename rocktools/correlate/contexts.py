"""Two sequences of symbols, one of them labelled -> labels for the other, from what stands around each symbol.

A symbol's label is what its surroundings have in the labelled sequence, if they have one label only: first the symbol
alone, then with ever longer stretches before and behind it (each twice as long as the last), until nothing that is open
yet occurs in the labelled sequence. A stretch that has one label has it in every longer one, so the order of looking
does not matter; neither does where the sequences begin, how often they repeat themselves, or what is lost far away.
Near a loss, the stretch on its other side decides. What has several labels stays ambiguous.

A labelled sequence has ends. A label whose rows all stand too near to one for a long stretch stays possible for what is
like them as far as they go; otherwise the few rows far from the ends would speak for all.

Failure cases. What stands nowhere in the labelled sequence is taken for what looks like it, so that has to hold all of
a program at least once. And a loss can make surroundings that occur elsewhere, by chance. Of simulated losses of 5 %,
wrong labels had fewer than four symbols (themselves included) as in the labelled sequence on one of their sides; such
labels are not firm, unless the symbol alone has one only.

Nothing here knows what symbols and labels are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rocktools.correlate.edges import BoolArray, IntArray

HashArray = npt.NDArray[np.uint64]

_T = TypeVar("_T", bound=np.generic)

ABSENT, DISAGREE = -1, -2
"""Instead of a label: no such surroundings; surroundings with several labels."""

FIRM_REACH = 4

_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SymbolRows:
    """Sequences of symbols, one behind the other.

    Attributes:
        symbols: one number per row; equal numbers are equal symbols, also in other rows.
        sequence: which sequence a row is of, ascending.
    """

    symbols: IntArray
    sequence: IntArray

    def __len__(self) -> int:
        return int(self.symbols.size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surroundings:
    """What stands around each row at one length, as hashes; those that would leave the sequence are not valid."""

    hashes: HashArray
    is_valid: BoolArray


def _mix(left: HashArray, right: HashArray) -> HashArray:
    """A hash of two hashes in order; splitmix64's finaliser, so that sums of symbols do not collide."""
    mixed = left * _FIRST_FACTOR + (right ^ (right >> np.uint64(29))) * _SECOND_FACTOR
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _FIRST_FACTOR
    result: HashArray = mixed ^ (mixed >> np.uint64(29))
    return result


def surroundings(rows: SymbolRows) -> Iterator[tuple[Surroundings, Surroundings, Surroundings]]:
    """For lengths 1, 2, 4, ...: those before each row, those behind it, and both; the row itself is in all."""
    count = len(rows)
    hashes = _mix(rows.symbols.astype(np.uint64), np.zeros(count, dtype=np.uint64))
    is_valid: BoolArray = np.ones(count, dtype=np.bool_)
    length = 1
    while True:
        behind = Surroundings(hashes=hashes, is_valid=is_valid)
        before = Surroundings(hashes=_moved(hashes, 1 - length), is_valid=_moved(is_valid, 1 - length))
        both = Surroundings(hashes=_mix(before.hashes, behind.hashes), is_valid=before.is_valid & behind.is_valid)
        yield before, behind, both
        is_valid = is_valid & _moved(is_valid, length) & (rows.sequence == _moved(rows.sequence, length))
        hashes = _mix(hashes, _moved(hashes, length))
        length *= 2


def _moved(values: npt.NDArray[_T], by: int) -> npt.NDArray[_T]:
    """`values[i + by]` at i; zero where that is outside."""
    moved = np.zeros_like(values)
    if abs(by) < values.size:
        if by >= 0:
            moved[: values.size - by] = values[by:]
        else:
            moved[-by:] = values[:by]
    return moved


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Labelled rows in groups of equal surroundings.

    Attributes:
        hashes: of each group, ascending.
        labels: of each group: its only label, or `DISAGREE`.
        starts: where each group begins in `places`; one more at the end.
        places: labelled rows, ascending within a group.
    """

    hashes: HashArray
    labels: IntArray
    starts: IntArray
    places: IntArray

    def find_groups(self, hashes: HashArray) -> IntArray:
        """The group of each; -1 where there is none."""
        if not self.hashes.size:
            return np.full(hashes.size, -1, dtype=np.int64)
        group = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        return np.where(self.hashes[group] == hashes, group, -1)


def _tabulate(known: Surroundings, labels: IntArray, is_asked: BoolArray) -> _Table:
    places = np.flatnonzero(known.is_valid & is_asked)
    places = places[np.argsort(known.hashes[places], kind="stable")]
    hashes = known.hashes[places]
    is_first = np.concatenate(([True], hashes[1:] != hashes[:-1])) if places.size else np.zeros(0, dtype=np.bool_)
    starts = np.flatnonzero(is_first)
    if not starts.size:
        return _Table(hashes, np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64), places)
    lowest = np.minimum.reduceat(labels[places], starts)
    highest = np.maximum.reduceat(labels[places], starts)
    group_labels = np.where(lowest == highest, lowest, DISAGREE)
    return _Table(hashes[starts], group_labels, np.append(starts, places.size), places)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vote:
    """What the labelled rows say of the others.

    Attributes:
        labels: of each row: its label, `ABSENT` or `DISAGREE`.
        stretch: with how long surroundings the label was found, the row itself included; 0 where none was.
        reach: the longest stretch looked at, the row itself included, that is as in a labelled row both before and
            behind it; 0 where not even the row itself is.
        tables: what the next two point into.
        table_of: of each row with `DISAGREE`, the table with its longest equal surroundings.
        group_of: of each row with `DISAGREE`, their group in it.
    """

    labels: IntArray
    stretch: IntArray
    reach: IntArray
    tables: list[_Table]
    table_of: IntArray
    group_of: IntArray

    def is_firm(self) -> BoolArray:
        """Whether each label can be relied on."""
        is_firm: BoolArray = (self.labels >= 0) & ((self.stretch == 1) | (self.reach >= FIRM_REACH))
        return is_firm

    def places(self, row: int) -> IntArray:
        """The labelled rows with the longest equal surroundings of a row with `DISAGREE`, ascending."""
        table, group = self.tables[int(self.table_of[row])], int(self.group_of[row])
        return table.places[int(table.starts[group]) : int(table.starts[group + 1])]


def vote(known: SymbolRows, labels: IntArray, asked: SymbolRows, *, sure_reach: int = FIRM_REACH) -> Vote:
    """Labels for the rows of `asked`.

    Args:
        known: the labelled rows.
        labels: of each of them, from 0.
        asked: the rows to label.
        sure_reach: up to here, a power of two, `Vote.reach` is looked for also where the label is found already.
    """
    count = len(asked)
    found = Vote(
        labels=np.full(count, ABSENT, dtype=np.int64),
        stretch=np.zeros(count, dtype=np.int64),
        reach=np.zeros(count, dtype=np.int64),
        tables=[],
        table_of=np.full(count, -1, dtype=np.int64),
        group_of=np.full(count, -1, dtype=np.int64),
    )
    is_asked: BoolArray = np.ones(count, dtype=np.bool_)
    cut = [np.full(count, ABSENT, dtype=np.int64) for _ in range(3)]
    shorter: tuple[tuple[Surroundings, ...], tuple[Surroundings, ...]] | None = None
    for level, (of_known, of_asked) in enumerate(zip(surroundings(known), surroundings(asked), strict=False)):
        is_useful = np.isin(known.symbols, np.unique(asked.symbols[is_asked]))
        is_found = np.zeros(count, dtype=np.bool_)
        # Both sides last: of one length, they are the most particular. A row alone has no sides.
        for side in (0, 1, 2) if level else (2,):
            if shorter is not None:
                rows, cut_labels = _find_cut(
                    shorter[0][side], of_known[side], labels, is_useful, shorter[1][side], is_asked
                )
                cut[side][rows] = _join_labels(cut[side][rows], cut_labels)
            table = _tabulate(of_known[side], labels, is_useful)
            rows, groups = _look_up(table, of_asked[side], is_asked)
            is_found[rows] = True
            if side == 2:
                found.reach[rows] = 2**level
            _take(found, table, rows, groups, cut[side], 2**level)
        is_asked = is_found if 2 ** (level + 1) <= sure_reach else is_found & (found.labels == DISAGREE)
        if not bool(is_asked.any()):
            break
        shorter = of_known, of_asked
    return found


def _find_cut(
    shorter: Surroundings,
    longer: Surroundings,
    labels: IntArray,
    is_useful: BoolArray,
    shorter_asked: Surroundings,
    is_asked: BoolArray,
) -> tuple[IntArray, IntArray]:
    """Rows that are surrounded as labelled rows at the end of their sequence, as far as that goes, and their labels.

    Only labels count that no row has which is far enough from the ends: of those it is known what is around them.
    """
    is_seen = np.zeros(int(labels.max(initial=0)) + 1, dtype=np.bool_)
    is_seen[labels[longer.is_valid]] = True
    table = _tabulate(shorter, labels, ~longer.is_valid & is_useful & ~is_seen[labels])
    rows, groups = _look_up(table, shorter_asked, is_asked)
    return rows, table.labels[groups]


def _join_labels(first: IntArray, second: IntArray) -> IntArray:
    """The label of both; `DISAGREE` where they have different ones."""
    is_one = (first == second) | (first == ABSENT)
    return np.where(is_one, second, np.where(second == ABSENT, first, DISAGREE))


def _look_up(table: _Table, asked: Surroundings, is_asked: BoolArray) -> tuple[IntArray, IntArray]:
    rows = np.flatnonzero(is_asked & asked.is_valid)
    groups = table.find_groups(asked.hashes[rows])
    return rows[groups >= 0], groups[groups >= 0]


def _take(found: Vote, table: _Table, rows: IntArray, groups: IntArray, cut: IntArray, length: int) -> None:
    """Note the labels of rows that have none, and where those that have several come from."""
    is_open = found.labels[rows] < 0
    rows, groups = rows[is_open], groups[is_open]
    own = table.labels[groups]
    found.labels[rows] = _join_labels(own, cut[rows])
    found.stretch[rows[found.labels[rows] >= 0]] = length
    # Where a row may be one that was cut, those that were not are not all that it may be.
    several = (own == DISAGREE) & (cut[rows] == ABSENT)
    if bool(several.any()):
        found.table_of[rows[several]] = len(found.tables)
        found.group_of[rows[several]] = groups[several]
        found.tables.append(table)


def narrow(found: Vote, known: SymbolRows, labels: IntArray, asked: SymbolRows, *, gap: int) -> dict[int, IntArray]:
    """For rows with `DISAGREE`: the labelled rows that can be reached from their neighbours, from both sides.

    A labelled row can be reached from another if it stands behind it with at most `gap` rows between: so many may have
    been lost in a row.

    Args:
        found: of `asked`.
        known: the labelled rows.
        labels: of each of them.
        asked: the rows to label.
        gap: rows of `known` that `asked` may lack between two neighbours.
    """
    forward = _follow(found, known, labels, asked, gap + 1)
    backward = _follow(found, known, labels, asked, -(gap + 1))
    both = {row: np.intersect1d(places, backward[row], assume_unique=True) for row, places in forward.items()}
    return {row: places if places.size else found.places(row) for row, places in both.items()}


def _follow(found: Vote, known: SymbolRows, labels: IntArray, asked: SymbolRows, reach: int) -> dict[int, IntArray]:
    """What can be reached from the side where `reach` comes from: from before if it is positive."""
    anchors: dict[tuple[int, int], IntArray] = {}
    reached: dict[int, IntArray] = {}
    is_firm, step = found.is_firm(), 1 if reach > 0 else -1
    neighbour = -1
    rows = np.flatnonzero((found.labels == DISAGREE) | is_firm)
    for row in map(int, rows[::step]):
        if is_firm[row]:
            neighbour = row
            continue
        places, near = found.places(row), reached.get(neighbour)
        if near is None and neighbour >= 0:
            anchor = (int(asked.symbols[neighbour]), int(found.labels[neighbour]))
            if anchor not in anchors:
                anchors[anchor] = np.flatnonzero((known.symbols == anchor[0]) & (labels == anchor[1]))
            near = anchors[anchor]
        if near is not None and near.size and asked.sequence[neighbour] == asked.sequence[row]:
            # Rows between the two whose labels are not firm are as good as lost.
            kept = places[_is_reached(places, near, known.sequence, reach + row - neighbour - step)]
            places = kept if kept.size else places
        reached[row], neighbour = places, row
    return reached


def _is_reached(places: IntArray, near: IntArray, sequence: IntArray, reach: int) -> BoolArray:
    if reach > 0:
        index = np.searchsorted(near, places, side="left") - 1
        is_there, nearest = index >= 0, near[np.maximum(index, 0)]
    else:
        index = np.searchsorted(near, places, side="right")
        is_there, nearest = index < near.size, near[np.minimum(index, near.size - 1)]
    is_reached: BoolArray = (
        is_there & (np.abs(places - nearest) <= abs(reach)) & (sequence[places] == sequence[nearest])
    )
    return is_reached
