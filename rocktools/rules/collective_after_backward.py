"""Gradients are reduced only when the backward pass is over: nothing of it is left to hide them under."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.gradient_tail import TAIL_RATIO, find_gradient_tail
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.units import count_noun, format_duration, format_ratio


def check_late_reductions(inputs: RuleInputs) -> Outcome:
    """Exposed time of all-reduces and reduce-scatters that begin after the last backward kernel."""
    assert inputs.rows is not None
    assert inputs.exposure is not None
    assert inputs.step_times is not None
    tail = find_gradient_tail(inputs.rows, inputs.exposure)
    if tail is None:
        return CannotSay(reason="no kernel is known to be of the backward pass")
    cells, step_ns = cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    late_ns = tail.sum_ns(cells, is_after=True)
    if late_ns < TAIL_RATIO * step_ns:
        return []
    count = int(tail.frame["is_after"].sum())
    finding = Finding(
        rule="collective-after-backward",
        severity=Severity.NOTE,
        where="end of the backward pass",
        message=f"{format_duration(late_ns)} of each step ({format_ratio(late_ns / step_ns)}) reduces gradients after "
        f"the backward pass has ended, in {count_noun(count, 'collective')} of which nothing was hidden",
        numbers={"late_reductions_ns": late_ns, "step_ns": step_ns, "collectives_count": count},
        advice="when are buckets sent? smaller ones begin earlier; a reduction inside of the layers' loop hides best",
    )
    return [RuleFinding(finding=finding, explained_ns=late_ns, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="collective-after-backward",
    title="Collective begins after the backward pass",
    group=RuleGroup.TRACE_PATTERN,
    looks_at="All-reduces and reduce-scatters that begin when the last compute kernel of the backward pass has ended.",
    signature="Matrix products end; then RCCL kernels run alone until the optimizer begins.",
    confirmations=(
        Confirmation(detail="hidden and exposed communication of each step", command="rocktools overlap RUN"),
        Confirmation(detail="collectives by phase", command="rocktools collectives RUN --by kind"),
    ),
    fixes=(
        "reduce gradients layer by layer, inside of the loop",
        "asynchronous collectives and the latency-hiding scheduler",
        "smaller buckets (combine thresholds of XLA)",
    ),
    thresholds=(Threshold(name="tail_ratio", value=TAIL_RATIO, meaning="such time over the step", source="rocktools"),),
    needs=("rows", "exposure", "step_times"),
    check=check_late_reductions,
)
