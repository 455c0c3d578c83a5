"""Symbols in order -> the small sets of states that each dispatch allows, and the matrices between neighbours.

A dispatch allows the sites its symbol may mean, the outside, and, for a symbol that may follow the kernels of any site,
the sites that the dispatch before it allowed: the program stays there. Of the many sites that a library's symbol, or a
kernel that many sites share, may mean, those count that can be reached from there. Real programs repeat themselves, so
there are few different sets and few different matrices, however long the trace is. Both are kept flat, one behind the
other.

State numbers: a site's own number where the dispatch is its first kernel; `outside`; `outside + 1 + site` where the
program stays at a site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rocktools.correlate.arrays import FloatArray, IntArray
from rocktools.correlate.kernel_meanings import Meaning
from rocktools.correlate.launch_chain import LaunchChain

PAUSE_EDGES_NS = 1000.0 * 1.4 ** np.arange(36)
"""Pauses are compared by bucket, so that equal matrices are found."""
_PAUSE_TOLERANCE_NS = 500.0
_FEW_SITES = 16
"""A kernel that no more sites share shows where the program is, wherever it seemed to be before."""
_IMPROBABLE = 1e-8  # against the most probable state; a jump costs as much
_NO_PAUSE = 0.01  # how improbable it is that a lost kernel leaves no pause


@dataclass(frozen=True, kw_only=True, eq=False)
class StateSets:
    """Which states each dispatch allows.

    Attributes:
        set_of: dispatch -> set; one more set, with number 0, stands before the first dispatch.
        symbol_of: set -> symbol; -1 for set 0.
        starts: set -> where its states begin in `states`; one more at the end.
        states: of all sets.
    """

    set_of: IntArray
    symbol_of: IntArray
    starts: IntArray
    states: IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class MoveMatrices:
    """The matrix from the states of one dispatch to those of the next, for every dispatch.

    Attributes:
        matrix_of: dispatch -> matrix that leads to it.
        rows, columns: by matrix.
        starts: matrix -> where its values begin in `values`, rows first; one more at the end.
        values: of all matrices.
    """

    matrix_of: IntArray
    rows: IntArray
    columns: IntArray
    starts: IntArray
    values: FloatArray


def build_state_sets(symbols: IntArray, meanings: Sequence[Meaning], chain: LaunchChain) -> StateSets:
    """The sets of these dispatches.

    Args:
        symbols: symbol of each dispatch, in order; each means at least one site.
        meanings: by symbol.
        chain: how the program moves.
    """
    growing = _GrowingSets(meanings, chain)
    plain = np.full(len(meanings), -1, dtype=np.int64)
    for symbol in np.unique(symbols).tolist():
        if meanings[symbol].stay is None and meanings[symbol].sites.size <= _FEW_SITES:
            plain[symbol] = growing.add_plain(symbol)
    set_of = plain[symbols]
    known: dict[tuple[int, int], int] = {}
    found, previous_place = 0, -2
    following = np.flatnonzero(set_of < 0)
    before_of = np.concatenate([[0], set_of])[following].tolist()
    for place, before, symbol in zip(following.tolist(), before_of, symbols[following].tolist(), strict=True):
        key = (found if place == previous_place + 1 else before, symbol)
        found = known.get(key, -1)
        if found < 0:
            found = known[key] = growing.add_following(*key)
        set_of[place] = found
        previous_place = place
    states = growing.states
    sizes = np.array([each.size for each in states], dtype=np.int64)
    return StateSets(
        set_of=set_of,
        symbol_of=np.array(growing.symbol_of, dtype=np.int64),
        starts=np.concatenate([[0], np.cumsum(sizes)]),
        states=np.concatenate(states),
    )


class _GrowingSets:
    """The sets found so far, each with how probable its states are by what came before, pauses aside.

    What can be reached by jumps only is left out, and what is as improbable. After a lost stretch that is too much:
    then dispatches are strangers, until a kernel of few sites shows where the program is.
    """

    def __init__(self, meanings: Sequence[Meaning], chain: LaunchChain) -> None:
        outside = chain.graph.outside
        self._meanings = meanings
        self._chain = chain
        self._numbers: dict[tuple[int, bytes, bytes], int] = {}
        # Before the first dispatch the program may stand anywhere: set 0. Nothing stays there.
        self.states: list[IntArray] = [np.arange(outside + 1, dtype=np.int64)]
        self.symbol_of = [-1]
        self._weights: list[FloatArray] = [np.ones(outside + 1)]

    def add_plain(self, symbol: int) -> int:
        """The set of a symbol whose sites do not depend on what was before."""
        meaning = self._meanings[symbol]
        states = np.append(meaning.sites, self._chain.graph.outside)
        return self._add(symbol, states, np.append(meaning.weights, meaning.outside))

    def add_following(self, before: int, symbol: int) -> int:
        """The set of a symbol behind a dispatch with that set."""
        meaning, outside = self._meanings[symbol], self._chain.graph.outside
        origins, weights = self.states[before], self._weights[before]
        origins = np.where(origins > outside, origins - outside - 1, origins)
        targets = np.append(meaning.sites, outside)
        given = np.append(meaning.weights, meaning.outside)
        arrived = (weights @ self._chain.move[np.ix_(origins, targets)]) * given
        states = targets
        if meaning.stay is not None and before > 0:
            stays, at = np.unique(origins[origins < outside], return_inverse=True)
            stayed = np.bincount(at.reshape(-1), weights=weights[origins < outside], minlength=stays.size)
            states = np.concatenate([targets, outside + 1 + stays])
            arrived = np.concatenate([arrived, stayed * meaning.stay[stays]])
        is_kept = arrived > _IMPROBABLE * arrived.max()
        if before > 0:
            is_kept[: targets.size] &= self._chain.is_real[np.ix_(origins, targets)].any(axis=0)
        is_kept[meaning.sites.size] = True
        return self._add(symbol, states[is_kept], arrived[is_kept])

    def _add(self, symbol: int, states: IntArray, weights: FloatArray) -> int:
        weights = weights / weights.max()
        # Histories that differ and come to the same are one.
        key = (symbol, states.tobytes(), np.round(np.log10(weights)).astype(np.int8).tobytes())
        if key not in self._numbers:
            self._numbers[key] = len(self.states)
            self.states.append(states)
            self.symbol_of.append(symbol)
            self._weights.append(weights)
        return self._numbers[key]


def build_move_matrices(
    sets: StateSets, meanings: Sequence[Meaning], chain: LaunchChain, pauses_ns: FloatArray
) -> MoveMatrices:
    """The matrices between neighbouring dispatches.

    Args:
        sets: of the dispatches.
        meanings: by symbol.
        chain: how the program moves.
        pauses_ns: idle time before each dispatch; infinite where it is not known.
    """
    before = np.concatenate([[0], sets.set_of[:-1]])
    buckets = np.searchsorted(PAUSE_EDGES_NS, pauses_ns)
    buckets_count = PAUSE_EDGES_NS.size + 1
    sets_count = sets.starts.size - 1
    keys, key_of = np.unique((before * sets_count + sets.set_of) * buckets_count + buckets, return_inverse=True)
    pairs, pair_of = np.unique(keys // buckets_count, return_inverse=True)
    cells = _Cells.of(sets, *np.divmod(pairs, sets_count))
    needed = _needed_pauses(cells, chain)
    longest = np.concatenate([PAUSE_EDGES_NS + _PAUSE_TOLERANCE_NS, [np.inf]])[keys % buckets_count]
    # Of one pair, buckets in which equally many cells need more time than there was make equal matrices.
    penalised = _count_above(cells, needed, pair_of.reshape(-1), longest)
    kinds = pair_of.reshape(-1) * (int(penalised.max()) + 1) + penalised
    _, first, kind_of = np.unique(kinds, return_index=True, return_inverse=True)
    return _expand(
        cells,
        _cell_values(cells, meanings, chain),
        needed,
        pair_of.reshape(-1)[first],
        longest[first],
        kind_of.reshape(-1)[key_of.reshape(-1)],
    )


def _count_above(cells: _Cells, needed: FloatArray, pair_of: IntArray, longest: FloatArray) -> IntArray:
    """For each (pair, longest possible pause): cells of the pair that need more."""
    is_needing = needed > 0
    # One number line: the pairs one behind the other, in each the needed pauses. They are below 1e9 ns.
    span = 1e10
    line = np.sort(cells.matrix[is_needing] * span + np.minimum(needed[is_needing], 1e9))
    upto = np.searchsorted(line, pair_of * span + np.minimum(longest, 2e9), side="right")
    end = np.searchsorted(line, (pair_of + 1) * span)
    return np.asarray(end - upto, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cells:
    """Every cell of every matrix: where it is from, where it leads to."""

    rows: IntArray
    columns: IntArray
    starts: IntArray
    matrix: IntArray
    origin: IntArray
    target: IntArray
    symbol: IntArray

    @classmethod
    def of(cls, sets: StateSets, before: IntArray, after: IntArray) -> _Cells:
        sizes = np.diff(sets.starts)
        rows, columns = sizes[before], sizes[after]
        starts = np.concatenate([[0], np.cumsum(rows * columns)])
        matrix = np.repeat(np.arange(before.size), rows * columns)
        cell = np.arange(starts[-1]) - starts[matrix]
        row, column = np.divmod(cell, columns[matrix])
        return cls(
            rows=rows,
            columns=columns,
            starts=starts,
            matrix=matrix,
            origin=sets.states[sets.starts[before][matrix] + row],
            target=sets.states[sets.starts[after][matrix] + column],
            symbol=sets.symbol_of[after][matrix],
        )


def _cell_values(cells: _Cells, meanings: Sequence[Meaning], chain: LaunchChain) -> FloatArray:
    outside = chain.graph.outside
    weights, stays, total_stay = _tables(meanings, outside)
    origin = np.where(cells.origin > outside, cells.origin - outside - 1, cells.origin)
    is_stay = cells.target > outside
    target = np.where(is_stay, 0, cells.target)
    leave = 1 - total_stay[origin]
    moved = chain.move[origin, target] * weights[cells.symbol, target] * leave
    site = np.where(is_stay, cells.target - outside - 1, 0)
    stayed = np.where(origin == site, stays[cells.symbol, site], 0.0)
    return np.where(is_stay, stayed, moved)


def _tables(meanings: Sequence[Meaning], outside: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    weights = np.zeros((len(meanings), outside + 1))
    stays = np.zeros((len(meanings), outside + 1))
    for symbol, meaning in enumerate(meanings):
        weights[symbol, meaning.sites] = meaning.weights
        weights[symbol, outside] = meaning.outside
        if meaning.stay is not None:
            stays[symbol, :outside] = meaning.stay
    return weights, stays, np.minimum(stays.max(axis=0), 0.9) if len(meanings) else np.zeros(outside + 1)


def _needed_pauses(cells: _Cells, chain: LaunchChain) -> FloatArray:
    outside = chain.graph.outside
    origin = np.where(cells.origin > outside, cells.origin - outside - 1, cells.origin)
    is_move = (cells.target < outside) & (origin < outside)
    needed = chain.needed_pause_ns[np.where(is_move, origin, 0), np.where(is_move, cells.target, 0)]
    return np.where(is_move, needed, 0.0)


def _expand(
    cells: _Cells,
    values: FloatArray,
    needed: FloatArray,
    pairs: IntArray,
    longest: FloatArray,
    matrix_of: IntArray,
) -> MoveMatrices:
    """One matrix for each of these (pair, longest possible pause)."""
    sizes = np.diff(cells.starts)[pairs]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    source = np.arange(starts[-1]) + np.repeat(cells.starts[:-1][pairs] - starts[:-1], sizes)
    is_too_short = needed[source] > np.repeat(longest, sizes)
    return MoveMatrices(
        matrix_of=matrix_of,
        rows=cells.rows[pairs],
        columns=cells.columns[pairs],
        starts=starts,
        values=np.where(is_too_short, _NO_PAUSE, 1.0) * values[source],
    )
