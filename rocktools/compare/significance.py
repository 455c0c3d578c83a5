"""Two series of durations -> how far apart they are, and whether that is more than chance.

The question asked of chance: if before and after were the same, how often would shuffled series lie as far apart? It is
answered by a permutation test on ranks (Wilcoxon's rank sum), so that one slow step does not decide; exact where there
are few enough arrangements, else by random ones with a fixed seed: the same series give the same answer. The interval
comes from the percentile bootstrap, with the same kind of seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

LEAST_SAMPLES = 5
"""Below this on either side nothing is said: of 4 + 4 values, the most extreme of 70 arrangements is no rarity."""
SIGNIFICANT_RATIO = 0.05

_EXACT_ARRANGEMENTS = 20_000
_RANDOM_ARRANGEMENTS = 20_000
_RESAMPLES = 4_000
_SEED = 20260101
_FloatArray = npt.NDArray[np.float64]


class Verdict(str, Enum):
    """What can be said of a difference."""

    SLOWER = "slower"
    FASTER = "faster"
    NOT_SIGNIFICANT = "not significant"
    CANNOT_SAY = "cannot say"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two series beside each other.

    Attributes:
        before_ns, after_ns: medians.
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


def compare_series(
    before: Sequence[float], after: Sequence[float], *, significant_ratio: float = SIGNIFICANT_RATIO
) -> Difference | None:
    """The difference of two series; None where one is empty.

    Args:
        significant_ratio: probability below which a difference is not taken for chance.
    """
    if not len(before) or not len(after):
        return None
    one, other = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    middle = float(np.median(one))
    delta = float(np.median(other)) - middle
    ratio = delta / middle if middle else None
    probability = low = high = None
    verdict, reason = Verdict.CANNOT_SAY, ""
    if min(len(one), len(other)) < LEAST_SAMPLES:
        reason = f"{len(one)} before and {len(other)} after; {LEAST_SAMPLES} on each side are the least"
    else:
        probability = permutation_probability(one, other)
        low, high = bootstrap_ratio(one, other)
        is_sure = probability < significant_ratio
        verdict = Verdict.NOT_SIGNIFICANT if not is_sure else Verdict.SLOWER if delta > 0 else Verdict.FASTER
    return Difference(
        before_ns=middle,
        after_ns=middle + delta,
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
    # Twice the ranks, ties in the middle of their places: whole numbers, so that equal sums are equal.
    values = np.concatenate([before, after])
    ordered = np.sort(values)
    ranks = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right") + 1
    size, middle = len(before), len(before) * (len(values) + 1)
    observed = abs(int(ranks[:size].sum()) - middle)
    if comb(len(values), size) <= _EXACT_ARRANGEMENTS:
        chosen = np.array(list(combinations(range(len(values)), size)), dtype=np.intp)
        return int((np.abs(ranks[chosen].sum(axis=1) - middle) >= observed).sum()) / len(chosen)
    random = np.random.default_rng(_SEED)
    chosen = random.random((_RANDOM_ARRANGEMENTS, len(values))).argsort(axis=1)[:, :size]
    as_far = int((np.abs(ranks[chosen].sum(axis=1) - middle) >= observed).sum())
    return (as_far + 1) / (_RANDOM_ARRANGEMENTS + 1)


def least_probability(before_count: int, after_count: int) -> float:
    """The smallest probability that so many samples can have: that of the two most extreme arrangements."""
    arrangements = comb(before_count + after_count, before_count)
    return 2 / arrangements if arrangements <= _EXACT_ARRANGEMENTS else 1 / (_RANDOM_ARRANGEMENTS + 1)


def bootstrap_ratio(before: _FloatArray, after: _FloatArray) -> tuple[float | None, float | None]:
    """Between which the relative difference of medians lies in 95 % of resamples."""
    random = np.random.default_rng(_SEED)
    one = np.median(random.choice(before, (_RESAMPLES, len(before))), axis=1)
    other = np.median(random.choice(after, (_RESAMPLES, len(after))), axis=1)
    there = one > 0
    if not there.any():
        return None, None
    low, high = np.quantile((other[there] - one[there]) / one[there], [0.025, 0.975])
    return float(low), float(high)


def hold_holm(probabilities: Sequence[float | None]) -> list[float | None]:
    """Each probability corrected for how many were asked at once (Holm's step-down); None stays None."""
    asked = sorted((each, place) for place, each in enumerate(probabilities) if each is not None)
    corrected: list[float | None] = [None] * len(probabilities)
    highest = 0.0
    for rank, (probability, place) in enumerate(asked):
        highest = max(highest, min(1.0, probability * (len(asked) - rank)))
        corrected[place] = highest
    return corrected
