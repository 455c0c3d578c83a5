"""Neighbours in the wrong order -> the order in which the program launched them.

Two threads of the host may number their launches the other way round, and times of short kernels may be told so, too.
Where the path of a lane breaks, or a dispatch finds no site although the program launches its kernel, the neighbours
are exchanged if that makes the stretch far more probable. Repeated layers repeat their mistakes: each different stretch
is weighed once.

Failure case: two neighbours that run the same kernel. Their order can be wrong unseen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rocktools.correlate.arrays import BoolArray, IntArray
from rocktools.correlate.kernel_meanings import Meaning
from rocktools.correlate.launch_chain import LaunchChain
from rocktools.correlate.schedule_learning import CONFIDENT, Decoding

_REACH = 6
_LEAST_GAIN = 1e3
_STRANGER = 1e-4  # a dispatch between two of the program that it did not launch


def find_exchanges(chain: LaunchChain, meanings: Sequence[Meaning], symbols: IntArray, decoding: Decoding) -> IntArray:
    """Dispatches to be exchanged with the one behind them; no two of them are neighbours.

    Args:
        chain: of the sites.
        meanings: by symbol.
        symbols: of the dispatches, in order; each means a site.
        decoding: of the same.
    """
    weigher = _Weigher(chain, meanings)
    is_anchor = decoding.is_first & (decoding.ratio >= CONFIDENT)
    chosen: list[int] = []
    last = -2
    for place in _suspects(chain, decoding).tolist():
        for first in (place - 1, place):
            if first <= last + 1 or first < 1 or first + 2 >= symbols.size:
                continue
            if _gains(weigher, symbols, decoding.position, is_anchor, first):
                chosen.append(first)
                last = first
                break
    return np.array(chosen, dtype=np.int64)


def _suspects(chain: LaunchChain, decoding: Decoding) -> IntArray:
    """Dispatches to which the path breaks, and those without a site between two with one."""
    outside = chain.graph.outside
    position = decoding.position
    inside = np.flatnonzero(position < outside)
    if inside.size == 0:
        return inside
    is_broken = np.zeros(position.size, dtype=np.bool_)
    is_broken[inside[1:]] = ~chain.is_real[position[inside[:-1]], position[inside[1:]]]
    is_broken[inside[0] : inside[-1]] |= ~decoding.is_first[inside[0] : inside[-1]]
    return np.flatnonzero(is_broken)


def _gains(weigher: _Weigher, symbols: IntArray, position: IntArray, is_anchor: BoolArray, first: int) -> bool:
    """Whether exchanging a dispatch with the one behind it makes the stretch around them far more probable."""
    begin = next((place for place in range(first - 1, max(first - _REACH, -1), -1) if is_anchor[place]), None)
    stop = min(first + 2 + _REACH, symbols.size)
    # Behind the pair, the second anchor: the first one may have been placed by the mistake.
    anchors = [place for place in range(first + 2, stop) if is_anchor[place]][:2]
    if begin is None or not anchors:
        return False
    end = anchors[-1]
    stretch = symbols[begin + 1 : end + 1].tolist()
    exchanged = stretch.copy()
    at = first - begin - 1
    exchanged[at], exchanged[at + 1] = exchanged[at + 1], exchanged[at]
    if exchanged == stretch:
        return False
    before, behind = int(position[begin]), int(position[end])
    return weigher.weigh(before, tuple(exchanged), behind) > _LEAST_GAIN * weigher.weigh(before, tuple(stretch), behind)


class _Weigher:
    """How probable stretches are; each different one is weighed once."""

    def __init__(self, chain: LaunchChain, meanings: Sequence[Meaning]) -> None:
        self._chain = chain
        self._meanings = meanings
        self._known: dict[tuple[int, tuple[int, ...], int], float] = {}

    def weigh(self, before: int, symbols: tuple[int, ...], behind: int) -> float:
        """Probability of these symbols and of ending at a site, from another on."""
        key = (before, symbols, behind)
        if key not in self._known:
            self._known[key] = self._weigh(before, symbols, behind)
        return self._known[key]

    def _weigh(self, before: int, symbols: tuple[int, ...], behind: int) -> float:
        outside = self._chain.graph.outside
        sites, weights = np.array([before], dtype=np.int64), np.ones(1)
        for symbol in symbols:
            meaning = self._meanings[symbol]
            is_reached = self._chain.is_real[np.ix_(sites, meaning.sites)].any(axis=0)
            targets = np.append(meaning.sites[is_reached], outside)
            given = np.append(meaning.weights[is_reached], meaning.outside)
            moved = (weights @ self._chain.move[np.ix_(sites, targets)]) * given
            stay = np.full(sites.size, _STRANGER)
            if meaning.stay is not None:
                inside = sites < outside
                stay[inside] = np.maximum(stay[inside], meaning.stay[sites[inside]])
            sites, weights = np.append(targets, sites), np.append(moved, weights * stay)
        return float(weights[sites == behind].sum())


def exchanged_order(count: int, exchanges: IntArray) -> IntArray:
    """The order of so many dispatches after these exchanges."""
    order = np.arange(count)
    order[exchanges], order[exchanges + 1] = exchanges + 1, exchanges
    return order
