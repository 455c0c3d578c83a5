"""One duration, or a few without a spread, is called a step time."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.units import count_noun

LEAST_SAMPLES = 5


def check_samples(inputs: RuleInputs) -> Outcome:
    """Samples and spread of a declared step time."""
    assert inputs.claims is not None
    claim = inputs.claims.timing
    if claim.step_s is None and claim.tokens_per_s is None:
        return CannotSay(reason="the claims say no step time and no throughput")
    missing = unsaid(inputs.claims, "timing.samples_count")
    if missing:
        return CannotSay(reason=missing)
    assert claim.samples_count is not None
    is_honest = claim.samples_count == 1 and claim.statistic == "single"
    if is_honest or (claim.samples_count >= LEAST_SAMPLES and claim.spread_s is not None):
        return []
    statistic = claim.statistic or "step time"
    beside = "" if claim.spread_s is not None else ", without a spread"
    finding = Finding(
        rule="one-duration-as-median",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"the {statistic} is of {count_noun(claim.samples_count, 'update')}{beside}: whether another run would "
        "give the same is not known",
        numbers={"samples_count": claim.samples_count},
        advice="several updates after warm-up, the median and a measure of dispersion; one sample is called one sample",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="one-duration-as-median",
    title="One duration called a median",
    group=RuleGroup.LINT,
    looks_at="How many updates a declared step time is made of, by which statistic, and with which spread.",
    signature="A step time with five digits from one step.",
    confirmations=(
        Confirmation(detail="the steps of a trace, and their lengths", command="rocktools ledger RUN --part steps"),
    ),
    fixes=("at least five updates after warm-up, median and spread",),
    thresholds=(
        Threshold(name="least_samples_count", value=LEAST_SAMPLES, meaning="updates with a spread", source="rocktools"),
    ),
    needs=("claims",),
    check=check_samples,
)
