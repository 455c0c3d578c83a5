"""Where a number comes from, and why a number is missing.

Every value that leaves rocktools carries one `Evidence`; every value that is not there carries one `Absence`.
Missing is never zero.
"""

from __future__ import annotations

from enum import Enum


class Evidence(str, Enum):
    """How a value was obtained, strongest first (the order of definition is the order of strength)."""

    MEASURED = "measured"
    COUNTER = "counter"
    COMPILER_ESTIMATE = "compiler_estimate"
    ANALYTIC = "analytic"
    DECLARED = "declared"
    INFERRED = "inferred"

    def __str__(self) -> str:
        return self.value


class Absence(str, Enum):
    """Why there is no value."""

    NOT_COLLECTED = "not_collected"
    NOT_ON_ARCH = "not_on_arch"
    COUNTER_MISSING = "counter_missing"
    IMPOSSIBLE_ZERO = "impossible_zero"
    DIFFERENT_PASS = "different_pass"
    REPLAY_OVERCOUNT = "replay_overcount"
    UNDEFINED = "undefined"  # a ratio of nothing to nothing
    AMBIGUOUS = "ambiguous"
    FUSED_ELSEWHERE = "fused_elsewhere"
    NOT_ATTRIBUTED = "not_attributed"

    def __str__(self) -> str:
        return self.value


_STRENGTH = {evidence: rank for rank, evidence in enumerate(Evidence)}


def weakest(first: Evidence, *others: Evidence) -> Evidence:
    """The evidence of a result computed from inputs with these evidences: the weakest of them."""
    return max((first, *others), key=_STRENGTH.__getitem__)
