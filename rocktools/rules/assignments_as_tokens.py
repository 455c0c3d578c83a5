"""Assignments to experts are counted as tokens."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.token_count import SAME_RATIO, claimed_tokens
from rocktools.units import format_count


def check_assignments(inputs: RuleInputs) -> Outcome:
    """Claimed tokens of an update against those of the batch times the experts that each is sent to."""
    assert inputs.claims is not None
    batch = inputs.claims.batch
    missing = unsaid(
        inputs.claims, "batch.global_sequences_count", "batch.sequence_tokens_count", "batch.chosen_experts_count"
    )
    tokens = claimed_tokens(inputs.claims)
    if missing or tokens is None:
        return CannotSay(reason=missing or "the claims say neither tokens of an update, nor tokens per second and step")
    assert batch.global_sequences_count
    assert batch.sequence_tokens_count
    assert batch.chosen_experts_count
    right = batch.global_sequences_count * batch.sequence_tokens_count
    if batch.chosen_experts_count < 2 or abs(tokens / (right * batch.chosen_experts_count) - 1) > SAME_RATIO:
        return []
    finding = Finding(
        rule="assignments-as-tokens",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"{format_count(round(tokens))} tokens of an update are {batch.chosen_experts_count} times the "
        f"{format_count(right)} of its batch, as many as there are assignments of tokens to experts",
        numbers={
            "claimed_tokens_count": tokens,
            "tokens_count": right,
            "chosen_experts_count": batch.chosen_experts_count,
        },
        advice="a token sent to two experts is one token; assignments per second are a number of their own",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="assignments-as-tokens",
    title="Expert assignments counted as tokens",
    group=RuleGroup.LINT,
    looks_at="Declared tokens of an update, or tokens per second times the step, against those of the batch times the "
    "number of experts for each token.",
    signature="Throughput of a mixture of experts that is too high by exactly k.",
    confirmations=(
        Confirmation(
            detail="shapes of the router and of the dispatched tokens", command="rocktools hlo grep RUN top_k"
        ),
    ),
    fixes=("count input tokens; give assignments, before drops, a name of their own",),
    thresholds=(
        Threshold(
            name="same_ratio", value=SAME_RATIO, meaning="difference of two counts that are one", source="rocktools"
        ),
    ),
    needs=("claims",),
    check=check_assignments,
)
