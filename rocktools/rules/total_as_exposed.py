"""The total time of communication was taken for what it costs, though compute hides a part of it."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.units import format_ratio

APART_RATIO = 0.05


def check_exposed_claim(inputs: RuleInputs) -> Outcome:
    """A declared share of exposed communication against the measured exposed, total and summed shares."""
    assert inputs.claims is not None
    assert inputs.reconciliation is not None
    assert inputs.step_times is not None
    missing = unsaid(inputs.claims, "communication.exposed_ratio")
    if missing:
        return CannotSay(reason=missing)
    claimed = inputs.claims.communication.exposed_ratio
    assert claimed is not None
    per_step = cells_count(inputs.step_times) * mean_step_ns(inputs.step_times)
    exposed, total, summed = (
        float(inputs.reconciliation[name].sum()) / per_step
        for name in ("exposed_communication_ns", "communication_ns", "communication_sum_ns")
    )
    nearest = min((exposed, total, summed), key=lambda each: abs(each - claimed))
    if nearest == exposed or claimed - exposed < APART_RATIO:
        return []
    finding = Finding(
        rule="total-as-exposed",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"communication is said to cost {format_ratio(claimed)} of the step, but {format_ratio(exposed)} is "
        f"exposed; {format_ratio(total)} is its total, hidden or not, and {format_ratio(summed)} the sum of its "
        "kernels",
        numbers={"claimed_ratio": claimed, "exposed_ratio": exposed, "total_ratio": total, "summed_ratio": summed},
        advice="what compute covers costs nothing: say exposed communication, by interval sets",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="total-as-exposed",
    title="Total taken for exposed time",
    group=RuleGroup.LINT,
    looks_at="A declared share of exposed communication, against the unions and sums of the trace.",
    signature="The cost of communication is the total row of a kernel table.",
    confirmations=(Confirmation(detail="hidden, exposed and total communication", command="rocktools overlap RUN"),),
    fixes=("exposed time for cost, totals for ranking kernels only",),
    thresholds=(
        Threshold(
            name="apart_ratio", value=APART_RATIO, meaning="claimed minus exposed share of the step", source="rocktools"
        ),
    ),
    needs=("claims", "reconciliation", "step_times"),
    check=check_exposed_claim,
)
