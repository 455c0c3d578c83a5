"""Claims -> how many tokens an update counts, said or computed from throughput and step."""

from __future__ import annotations

from rocktools.rules.claims import Claims

SAME_RATIO = 0.005
"""Difference of two counts of tokens that are meant to be one: throughputs are printed with three digits and more."""


def claimed_tokens(claims: Claims) -> float | None:
    """Tokens of an update by the claims; None where they do not say."""
    if claims.batch.tokens_per_update_count is not None:
        return float(claims.batch.tokens_per_update_count)
    if claims.timing.tokens_per_s is not None and claims.timing.step_s is not None:
        return claims.timing.tokens_per_s * claims.timing.step_s
    return None
