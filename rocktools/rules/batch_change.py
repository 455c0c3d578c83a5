"""Two runs with different batches are compared, and the gain is put down to a kernel."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup
from rocktools.units import format_count


def check_batches(inputs: RuleInputs) -> Outcome:
    """Global batches of the two runs of a declared comparison."""
    assert inputs.claims is not None
    claim = inputs.claims.comparison
    missing = unsaid(inputs.claims, "comparison.sequences_before_count", "comparison.sequences_after_count")
    if missing:
        return CannotSay(reason=missing)
    assert claim.sequences_before_count is not None
    assert claim.sequences_after_count is not None
    if claim.sequences_before_count == claim.sequences_after_count:
        return []
    about = " and the gain is said to be that of a kernel" if claim.is_about_a_kernel else ""
    finding = Finding(
        rule="batch-change-as-speedup",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"the batch went from {format_count(claim.sequences_before_count)} to "
        f"{format_count(claim.sequences_after_count)} sequences{about}: the two runs do different work",
        numbers={
            "sequences_before_count": claim.sequences_before_count,
            "sequences_after_count": claim.sequences_after_count,
        },
        advice="compare at one batch; report the effect of the batch as an experiment of its own",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="batch-change-as-speedup",
    title="Batch change called a speed-up",
    group=RuleGroup.LINT,
    looks_at="The global batches before and after, of a declared comparison.",
    signature="Tokens per second rise with the batch, and a kernel gets the credit.",
    confirmations=(
        Confirmation(detail="shapes of the same products in both programs", command="rocktools hlo list RUN"),
    ),
    fixes=("one change at a time, at one batch",),
    needs=("claims",),
    check=check_batches,
)
