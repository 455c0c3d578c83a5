"""Two series of durations -> how far apart they are, and whether that is more than chance.

The question asked of chance: if before and after were the same, how often would shuffled series lie as far apart? It is
answered by a permutation test on ranks (Wilcoxon's rank sum), so that one slow step does not decide; exact where there
are few enough arrangements, else by random ones with a fixed seed: the same series give the same answer. The interval
comes from the percentile bootstrap, with the same kind of seed.

Many series that were taken in the same steps (the buckets of a ledger) are asked together: the steps are shuffled, with
all that happened in them, and each series is held against the one that then lies farthest apart (the step-down maximum
of Westfall and Young). Of all series that did not change, one in twenty comparisons calls one changed, at most. A rank
sum alone cannot win against many others where there are five steps, for chance parts some of them completely; so of two
series that are parted completely the one with the wider gap, in units of its own scatter, counts as farther apart.

Chance is that of steps, within these two runs. How much two runs of one job differ, two runs cannot tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST_SAMPLES = 5
"""Below this on either side nothing is said: of 4 + 4 values, the most extreme of 70 arrangements is no rarity."""
SIGNIFICANT_RATIO = 0.05

_EXACT_ARRANGEMENTS = 20_000
_RANDOM_ARRANGEMENTS = 20_000
_RANDOM_VALUES = 4_000_000
_RESAMPLES = 4_000
_SEED = 20260101
_TAIL = 0.9
_FloatArray = npt.NDArray[np.float64]
_IndexArray = npt.NDArray[np.intp]


class Verdict(str, Enum):
    """What can be said of a difference."""

    SLOWER = "slower"
    FASTER = "faster"
    NOT_SIGNIFICANT = "not significant"
    CANNOT_SAY = "cannot say"
    TOO_SMALL = "too small to judge"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two series beside each other.

    Attributes:
        before_ns, after_ns: medians; of `compare_tails` the 90th percentiles.
        delta_ns, delta_ratio: after minus before, and that over before; the ratio is None where before is 0.
        low_ratio, high_ratio: between which the ratio lies in 95 % of resamples; None where nothing can be said.
        probability: of a difference at least as large by chance alone; None where nothing can be said.
        before_count, after_count: samples.
        verdict: what follows.
        reason: why nothing can be said; "" otherwise.
    """

    before_ns: float
    after_ns: float
    delta_ns: float
    delta_ratio: float | None
    low_ratio: float | None
    high_ratio: float | None
    probability: float | None
    before_count: int
    after_count: int
    verdict: Verdict
    reason: str


def compare_series(before: Sequence[float], after: Sequence[float]) -> Difference | None:
    """The difference of two series; None where one is empty."""
    return _compare(before, after, 0.5, permutation_probability)


def compare_tails(before: Sequence[float], after: Sequence[float]) -> Difference | None:
    """The difference of their 90th percentiles; None where one is empty."""
    return _compare(before, after, _TAIL, tail_probability)


def _compare(
    before: Sequence[float],
    after: Sequence[float],
    quantile: float,
    probability_of: Callable[[_FloatArray, _FloatArray], float],
) -> Difference | None:
    if not len(before) or not len(after):
        return None
    one, other = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    measured = float(np.quantile(one, quantile))
    delta = float(np.quantile(other, quantile)) - measured
    ratio = delta / measured if measured else None
    probability = low = high = None
    verdict, reason = Verdict.CANNOT_SAY, ""
    if min(len(one), len(other)) < LEAST_SAMPLES:
        reason = f"{len(one)} before and {len(other)} after; {LEAST_SAMPLES} on each side are the least"
    else:
        probability = probability_of(one, other)
        low, high = bootstrap_ratio(one, other, quantile)
        is_sure = probability < SIGNIFICANT_RATIO and delta
        verdict = Verdict.NOT_SIGNIFICANT if not is_sure else Verdict.SLOWER if delta > 0 else Verdict.FASTER
    return Difference(
        before_ns=measured,
        after_ns=measured + delta,
        delta_ns=delta,
        delta_ratio=ratio,
        low_ratio=low,
        high_ratio=high,
        probability=probability,
        before_count=len(one),
        after_count=len(other),
        verdict=verdict,
        reason=reason,
    )


def permutation_probability(before: _FloatArray, after: _FloatArray) -> float:
    """How often series shuffled together lie at least as far apart in the sums of their ranks, in either direction."""
    values = np.concatenate([before, after])
    chosen = _arrangements(len(before), len(values))
    distances = np.abs(_rank_excess(values, chosen))
    return _share_as_far(distances, distances[0])


def tail_probability(before: _FloatArray, after: _FloatArray) -> float:
    """How often the 90th percentiles of series shuffled together lie at least as far apart, in either direction."""
    values = np.concatenate([before, after])
    chosen = _arrangements(len(before), len(values))
    ones = np.quantile(values[chosen], _TAIL, axis=1)
    others = np.quantile(values[_others(chosen, len(values))], _TAIL, axis=1)
    distances = np.abs(others - ones)
    return _share_as_far(distances, distances[0])


def joint_probabilities(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> list[float]:
    """For each series, how often chance would part any of those that are no farther apart than it as far as it is.

    Args:
        before, after: as many series, taken in the same steps: all before as long, and all after.
    """
    if not before:
        return []
    values = np.concatenate([np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)], axis=1)
    size = len(before[0])
    chosen = _arrangements(size, values.shape[1])
    distances = np.stack([_distances(series, size, chosen) for series in values])
    probabilities = [0.0] * len(values)
    highest = 0.0
    # From the least apart: each is held against itself and those before it. Then back, for none may be surer than one
    # that is farther apart.
    order = np.argsort(distances[:, 0], kind="stable")
    farthest = np.maximum.accumulate(distances[order], axis=0)
    for place in range(len(order) - 1, -1, -1):
        share = _share_as_far(farthest[place], distances[order[place], 0])
        highest = max(highest, share)
        probabilities[int(order[place])] = highest
    return probabilities


def _distances(values: _FloatArray, size: int, chosen: _IndexArray) -> _FloatArray:
    """How far apart each arrangement of one series lies: by ranks, and where it is parted completely by the gap."""
    excess = _rank_excess(values, chosen)
    distances = np.abs(excess).astype(np.float64)
    ordered, complete = np.sort(values), size * (len(values) - size)
    distances[excess == -complete] += _gap_share(ordered[:size], ordered[size:])
    distances[excess == complete] += _gap_share(ordered[: len(values) - size], ordered[len(values) - size :])
    return distances


def _gap_share(lower: _FloatArray, upper: _FloatArray) -> float:
    """Distance of two medians in units of the scatter around them, from 0 to 1 (none at all): less than one rank."""
    gap = float(np.median(upper) - np.median(lower))
    scatter = float(np.median(np.concatenate([np.abs(each - np.median(each)) for each in (lower, upper)])))
    return gap / (gap + scatter) if gap > 0 else 0.0


def _arrangements(size: int, total: int) -> _IndexArray:
    """Places of the first series in each arrangement, the observed one first: all there are, or random ones."""
    if comb(total, size) <= _EXACT_ARRANGEMENTS:
        return np.array(list(combinations(range(total), size)), dtype=np.intp)
    random = np.random.default_rng(_SEED)
    shuffled = random.random((_random_count(total), total)).argsort(axis=1)[:, :size]
    return np.concatenate([np.arange(size, dtype=np.intp)[np.newaxis], shuffled])


def _random_count(total: int) -> int:
    """Fewer of long series, which need the memory, and do not need the finest probabilities."""
    return max(_RANDOM_ARRANGEMENTS // 10, min(_RANDOM_ARRANGEMENTS, _RANDOM_VALUES // total))


def _others(chosen: _IndexArray, total: int) -> _IndexArray:
    is_other = np.ones((len(chosen), total), dtype=bool)
    np.put_along_axis(is_other, chosen, False, axis=1)
    return np.nonzero(is_other)[1].reshape(len(chosen), -1)


def _rank_excess(values: _FloatArray, chosen: _IndexArray) -> _IndexArray:
    """Twice the rank sum of each arrangement, over that of an even mixture."""
    # Twice the ranks, ties in the middle of their places: whole numbers, so that equal sums are equal.
    ordered = np.sort(values)
    ranks = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right") + 1
    return np.asarray(ranks[chosen].sum(axis=1) - chosen.shape[1] * (len(values) + 1), dtype=np.intp)


def _share_as_far(distances: npt.NDArray[Any], observed: float) -> float:
    """Of arrangements, the observed one among them, so that no share is 0."""
    return float((distances >= observed).mean())


def least_probability(before_count: int, after_count: int) -> float:
    """The smallest probability that so many samples can have: that of the two most extreme arrangements."""
    total = before_count + after_count
    arrangements = comb(total, before_count)
    return 2 / arrangements if arrangements <= _EXACT_ARRANGEMENTS else 1 / (_random_count(total) + 1)


def bootstrap_ratio(
    before: _FloatArray, after: _FloatArray, quantile: float = 0.5
) -> tuple[float | None, float | None]:
    """Between which the relative difference of their medians, or of another quantile, lies in 95 % of resamples."""
    random = np.random.default_rng(_SEED)
    one = np.quantile(random.choice(before, (_RESAMPLES, len(before))), quantile, axis=1)
    other = np.quantile(random.choice(after, (_RESAMPLES, len(after))), quantile, axis=1)
    there = one > 0
    if not there.any():
        return None, None
    low, high = np.quantile((other[there] - one[there]) / one[there], [0.025, 0.975])
    return float(low), float(high)
