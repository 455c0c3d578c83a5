"""Utilisation does not say whose FLOPs it counts: useful ones, the compiler's, or those of counters."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup
from rocktools.units import format_ratio


def check_flop_source(inputs: RuleInputs) -> Outcome:
    """Whether a declared MFU names its FLOPs, and names useful ones."""
    assert inputs.claims is not None
    claim = inputs.claims.utilisation
    missing = unsaid(inputs.claims, "utilisation.mfu_ratio")
    if missing:
        return CannotSay(reason=missing)
    assert claim.mfu_ratio is not None
    if claim.flop_source == "analytic":
        return []
    said = (
        "does not say whose FLOPs it counts"
        if claim.flop_source is None
        else f"counts the FLOPs of {claim.flop_source}, recomputation and padding included"
    )
    finding = Finding(
        rule="flop-source-unsaid",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"a utilisation of {format_ratio(claim.mfu_ratio)} {said}",
        numbers={"mfu_ratio": claim.mfu_ratio},
        advice="useful FLOPs by the model's formula for MFU; executed ones in a column of their own, with their source",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="flop-source-unsaid",
    title="Utilisation without the source of its FLOPs",
    group=RuleGroup.LINT,
    looks_at="Whether the FLOPs of a declared MFU are useful ones (by the model), the compiler's estimate, or executed "
    "ones by SQ counters of MFMA and VALU.",
    signature="Two tools give two utilisations of one run.",
    confirmations=(
        Confirmation(detail="executed FLOPs by counters", command="rocktools metrics RUN"),
        Confirmation(detail="the compiler's FLOPs", command="rocktools hlo info RUN"),
    ),
    fixes=("three columns: useful, compiler, counters; never one",),
    needs=("claims",),
    check=check_flop_source,
)
