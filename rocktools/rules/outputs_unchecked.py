"""A speed-up was accepted without comparing what the model puts out."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup


def check_outputs(inputs: RuleInputs) -> Outcome:
    """Whether a declared comparison compared results."""
    assert inputs.claims is not None
    claim = inputs.claims.comparison
    missing = unsaid(inputs.claims, "comparison.speedup_ratio")
    if missing:
        return CannotSay(reason=missing)
    assert claim.speedup_ratio is not None
    if claim.outputs_checked:
        return []
    said = "were not compared" if claim.outputs_checked is False else "are not said to have been compared"
    finding = Finding(
        rule="outputs-unchecked",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"a speed-up of {claim.speedup_ratio:.3g} times is claimed, but the outputs of both runs {said}",
        numbers={"speedup_ratio": claim.speedup_ratio},
        advice="loss and gradients of some steps, within the tolerance of the format",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="outputs-unchecked",
    title="Speed-up without an output check",
    group=RuleGroup.LINT,
    looks_at="Whether a declared comparison says that results were compared.",
    signature="Faster, and nobody looked whether it is still right.",
    confirmations=(Confirmation(detail="a replay against the job's kernel", command="rocktools replay prove --help"),),
    fixes=("compare losses and gradients before times",),
    needs=("claims",),
    check=check_outputs,
)
