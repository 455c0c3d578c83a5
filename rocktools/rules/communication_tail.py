"""Reductions of gradients overlap most of the backward pass, and then outlast it: the last bucket is exposed."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.gradient_tail import HIDDEN_RATIO, TAIL_RATIO, find_gradient_tail
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.units import format_duration, format_ratio


def check_communication_tail(inputs: RuleInputs) -> Outcome:
    """Time of reductions behind the backward pass, where they began before its end and were hidden for the most "
    "part."""
    assert inputs.rows is not None
    assert inputs.exposure is not None
    assert inputs.step_times is not None
    tail = find_gradient_tail(inputs.rows, inputs.exposure)
    if tail is None:
        return CannotSay(reason="no kernel is known to be of the backward pass")
    cells, step_ns = cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    long_ns = tail.sum_ns(cells, is_after=False)
    total_ns = float((tail.frame["end_ns"] - tail.frame["start_ns"]).sum())
    hidden_ratio = float(tail.frame["hidden_ns"].sum()) / total_ns if total_ns else 0.0
    if long_ns < TAIL_RATIO * step_ns or hidden_ratio < HIDDEN_RATIO:
        return []
    finding = Finding(
        rule="communication-tail",
        severity=Severity.NOTE,
        where="end of the backward pass",
        message=f"{format_ratio(hidden_ratio)} of the reductions of gradients is hidden, but they outlast the backward "
        f"pass by {format_duration(long_ns)} of each step ({format_ratio(long_ns / step_ns)})",
        numbers={"tail_ns": long_ns, "step_ns": step_ns, "hidden_ratio": hidden_ratio},
        advice="order and size of the last bucket; and whether one rank comes late to it (rocktools ranks)",
    )
    return [RuleFinding(finding=finding, explained_ns=long_ns, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="communication-tail",
    title="Overlap, then a long tail",
    group=RuleGroup.TRACE_PATTERN,
    looks_at="All-reduces and reduce-scatters that begin under the backward pass and end after it, where more than "
    "half of all such time is hidden.",
    signature="Communication runs beside compute nearly all the time; a last collective goes on alone.",
    confirmations=(
        Confirmation(detail="collectives with the longest transfer", command="rocktools collectives RUN"),
        Confirmation(detail="who arrives last at it", command="rocktools ranks RUN --part operations"),
    ),
    fixes=(
        "a smaller last bucket, or another order of buckets",
        "other work behind it: the optimizer of layers whose gradients are there",
        "the straggler, if one rank is late to it",
    ),
    thresholds=(
        Threshold(name="tail_ratio", value=TAIL_RATIO, meaning="the tail over the step", source="rocktools"),
        Threshold(
            name="hidden_ratio",
            value=HIDDEN_RATIO,
            meaning="hidden part of the reductions, at least",
            source="rocktools",
        ),
    ),
    needs=("rows", "exposure", "step_times"),
    check=check_communication_tail,
)
