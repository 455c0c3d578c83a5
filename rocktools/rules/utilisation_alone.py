"""A share of busy time is the only number: a busy device may be waiting in a collective."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup
from rocktools.units import format_ratio


def check_busy_alone(inputs: RuleInputs) -> Outcome:
    """Whether a declared busy share comes with a step time and a utilisation by FLOPs."""
    assert inputs.claims is not None
    missing = unsaid(inputs.claims, "utilisation.busy_ratio")
    if missing:
        return CannotSay(reason=missing)
    claim, timing = inputs.claims.utilisation, inputs.claims.timing
    assert claim.busy_ratio is not None
    has_time = timing.step_s is not None or timing.tokens_per_s is not None
    if has_time and claim.mfu_ratio is not None:
        return []
    finding = Finding(
        rule="utilisation-alone",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"a busy share of {format_ratio(claim.busy_ratio)} stands without "
        f"{'a step time' if not has_time else 'a utilisation by FLOPs'}: a kernel that waits for others is busy, too",
        numbers={"busy_ratio": claim.busy_ratio},
        advice="step time, throughput and MFU beside it; what ran at once (rocktools overlap)",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="utilisation-alone",
    title="Average utilisation alone",
    group=RuleGroup.LINT,
    looks_at="A declared share of busy time, as monitors show it, and whether step time and MFU stand beside it.",
    signature="Every GPU is 99 % busy, and the job is slow.",
    confirmations=(
        Confirmation(detail="compute and exposed communication of busy time", command="rocktools overlap RUN"),
    ),
    fixes=("optimise the step, not the monitor",),
    needs=("claims",),
    check=check_busy_alone,
)
