"""A figure of memory does not say whether the compiler reserved it or the job was seen to hold it."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.units import format_ratio, format_si

SAME_RATIO = 0.01


def check_memory_kind(inputs: RuleInputs) -> Outcome:
    """Memory without a kind; or one that is said to be observed and is exactly what the compiler reserves."""
    assert inputs.claims is not None
    claim = inputs.claims.memory
    missing = unsaid(inputs.claims, "memory.used_bytes")
    if missing:
        return CannotSay(reason=missing)
    assert claim.used_bytes is not None
    reserved = [each.total_bytes for each in (inputs.assignments or {}).values()]
    static = next((size for size in reserved if abs(claim.used_bytes / size - 1) <= SAME_RATIO), None)
    if claim.kind == "static" or (claim.kind == "observed" and static is None):
        return []
    what = "do not say whether they are static or observed" if claim.kind is None else "are said to be observed"
    beside = (
        ""
        if static is None
        else f", within {format_ratio(SAME_RATIO)} of the {format_si(static, 'B')} that XLA reserves for a program"
    )
    finding = Finding(
        rule="memory-kind-unsaid",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"{format_si(claim.used_bytes, 'B')} of memory {what}{beside}",
        numbers={"used_bytes": claim.used_bytes, **({} if static is None else {"reserved_bytes": static})},
        advice="two figures: arguments, results, aliases and temporaries by the compiler; and a high-water mark at run "
        "time",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="memory-kind-unsaid",
    title="Static or observed memory",
    group=RuleGroup.LINT,
    looks_at="Whether a declared amount of HBM is static (the buffer assignment of XLA, a peak in program order) or "
    "observed (allocators, telemetry), and the buffer assignments that are there.",
    signature="One figure of memory for two different questions.",
    confirmations=(Confirmation(detail="both, side by side", command="rocktools memory RUN"),),
    fixes=("both figures, each with its name",),
    thresholds=(
        Threshold(name="same_ratio", value=SAME_RATIO, meaning="difference to a buffer assignment", source="rocktools"),
    ),
    needs=("claims",),
    check=check_memory_kind,
)
