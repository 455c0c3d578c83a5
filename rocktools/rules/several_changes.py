"""More than one thing was changed between two runs: which of them helped is not known."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup


def check_changes(inputs: RuleInputs) -> Outcome:
    """How many changes a declared comparison names."""
    assert inputs.claims is not None
    missing = unsaid(inputs.claims, "comparison.changes")
    if missing:
        return CannotSay(reason=missing)
    changes = inputs.claims.comparison.changes
    assert changes is not None
    if len(changes) < 2:
        return []
    finding = Finding(
        rule="several-changes",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"{len(changes)} changes lie between the two runs ({', '.join(changes[:4])}): which of them did it is "
        "not known",
        numbers={"changes_count": len(changes)},
        advice="one change, one new trace, one comparison",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="several-changes",
    title="Several changes at once",
    group=RuleGroup.LINT,
    looks_at="The changes that a declared comparison names.",
    signature="A speed-up with a list of reasons.",
    confirmations=(Confirmation(detail="flags and versions of each run", command="rocktools info RUN"),),
    fixes=("undo all but one, and measure again",),
    needs=("claims",),
    check=check_changes,
)
