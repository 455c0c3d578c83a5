"""Tokens are counted with a global batch that was multiplied by the devices once more."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.token_count import SAME_RATIO, claimed_tokens
from rocktools.units import format_count


def check_batch(inputs: RuleInputs) -> Outcome:
    """Claimed tokens of an update against global sequences times tokens, and against that times the devices."""
    assert inputs.claims is not None
    batch = inputs.claims.batch
    missing = unsaid(
        inputs.claims, "batch.global_sequences_count", "batch.sequence_tokens_count", "batch.devices_count"
    )
    tokens = claimed_tokens(inputs.claims)
    if missing or tokens is None:
        return CannotSay(reason=missing or "the claims say neither tokens of an update, nor tokens per second and step")
    assert batch.global_sequences_count
    assert batch.sequence_tokens_count
    assert batch.devices_count
    right = batch.global_sequences_count * batch.sequence_tokens_count
    if batch.devices_count < 2 or abs(tokens / (right * batch.devices_count) - 1) > SAME_RATIO:
        return []
    finding = Finding(
        rule="batch-multiplied-twice",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"{format_count(round(tokens))} tokens of an update are {batch.devices_count} times the "
        f"{format_count(right)} of its global batch: the global batch holds all devices already",
        numbers={"claimed_tokens_count": tokens, "tokens_count": right, "devices_count": batch.devices_count},
        advice="global batch = per-device batch x devices x accumulation, once",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="batch-multiplied-twice",
    title="Global batch multiplied by the devices again",
    group=RuleGroup.LINT,
    looks_at="Declared tokens of an update, or tokens per second times the step, against global sequences times tokens "
    "of a sequence.",
    signature="Throughput that is too high by exactly the number of GPUs.",
    confirmations=(
        Confirmation(detail="shapes of the program's arguments, on each device", command="rocktools hlo list RUN"),
    ),
    fixes=("count tokens from the resolved global batch",),
    thresholds=(
        Threshold(
            name="same_ratio", value=SAME_RATIO, meaning="difference of two counts that are one", source="rocktools"
        ),
    ),
    needs=("claims",),
    check=check_batch,
)
