"""Most of a step is matrix products near the peak of the MFMA units: less work is the only way to less time."""

from __future__ import annotations

from rocktools.findings import Finding, Severity
from rocktools.rules.bound_points import bound_message, bound_numbers, bound_time
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns

BOUND_RATIO = 0.3


def check_compute_bound(inputs: RuleInputs) -> Outcome:
    """Time of instructions whose FLOPs at the peak of their format explain most of it."""
    assert inputs.points is not None
    assert inputs.step_times is not None
    step_ns = mean_step_ns(inputs.step_times)
    found = bound_time(inputs.points, "compute", cells_count(inputs.step_times))
    if found.evidence is None or found.bound_ns < BOUND_RATIO * step_ns:
        return []
    finding = Finding(
        rule="compute-bound",
        severity=Severity.NOTE,
        where=found.largest,
        message=bound_message(found, step_ns, "the peak of the units"),
        numbers=bound_numbers(found, step_ns),
        advice="fewer FLOPs (rematerialization, padding, causal blocks), or a format with a higher peak",
    )
    return [RuleFinding(finding=finding, explained_ns=found.bound_ns, evidence=found.evidence)]


RULE = Rule(
    name="compute-bound",
    title="Compute-bound matrix products",
    group=RuleGroup.TRACE_PATTERN,
    looks_at="Roofline points of instructions: FLOPs of each format at the dense peak of that format on MFMA units or "
    "VALU, against the time that they took. From 60 % on the peak is what bounds them.",
    signature="Long matrix products, high use of the MFMA units, few gaps: that is how it should be.",
    confirmations=(
        Confirmation(
            detail="points by instruction, and their ceilings", command="rocktools roofline RUN --by instruction"
        ),
        Confirmation(detail="executed FLOPs by counters", command="rocktools metrics RUN"),
    ),
    fixes=(
        "fewer executed FLOPs: what of them is not useful?",
        "FP8 or FP4, where the model bears it: the peak of the MFMA units doubles",
    ),
    thresholds=(
        Threshold(
            name="bound_ratio", value=BOUND_RATIO, meaning="time of such instructions over the step", source="rocktools"
        ),
    ),
    needs=("points", "step_times"),
    check=check_compute_bound,
)
