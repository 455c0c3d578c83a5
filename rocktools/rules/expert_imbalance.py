"""One device computes longer in its experts, and in nothing else: tokens are routed unevenly."""

from __future__ import annotations

from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rank_lateness import (
    EXPERT_SHARE_RATIO,
    OTHERS_ALIKE_RATIO,
    STRAGGLER_RATIO,
    find_lateness,
    lateness_numbers,
    lateness_text,
)
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import mean_step_ns
from rocktools.units import format_duration


def check_expert_imbalance(inputs: RuleInputs) -> Outcome:
    """A late device whose longer compute lies in components of experts, and whose other work is like the others'."""
    assert inputs.devices_count is not None
    assert inputs.step_times is not None
    if inputs.devices_count < 2:
        return CannotSay(reason="one device only ran something, so loads cannot be compared")
    step_ns = mean_step_ns(inputs.step_times)
    found = []
    for late in find_lateness(inputs):
        if not late.is_of_experts:
            continue
        finding = Finding(
            rule="expert-imbalance",
            severity=Severity.WARNING,
            where=late.device,
            message=f"{lateness_text(late, step_ns)}: it computes "
            f"{format_duration(late.expert_excess_ns)} longer in experts, and "
            f"{format_duration(max(0.0, late.other_excess_ns))} in everything else",
            numbers=lateness_numbers(late, step_ns),
            advice="tokens of each expert from the router's metrics; load-balancing loss or bias, or a capacity limit",
        )
        found.append(RuleFinding(finding=finding, explained_ns=late.cost_ns))
    return found


RULE = Rule(
    name="expert-imbalance",
    title="Expert imbalance",
    group=RuleGroup.FAULT,
    looks_at="Compute of each GPU in components whose name holds `expert` or `moe`, against the median of the others; "
    "and the same for all other components. A slow GPU is slower in everything, an overloaded expert only in its "
    "grouped matrix products.",
    signature="The extra time of the late device is in expert products, and neither in attention nor in communication.",
    confirmations=(
        Confirmation(detail="the late device and what was asked", command="rocktools ranks RUN"),
        Confirmation(detail="experts on each device", command="rocktools ledger RUN --part buckets --format csv"),
    ),
    fixes=(
        "a load-balancing loss, or a bias of the router",
        "a capacity limit, or dropping tokens",
        "experts placed so that busy ones are on different devices",
    ),
    thresholds=(
        Threshold(
            name="lateness_ratio",
            value=STRAGGLER_RATIO,
            meaning="lateness that nothing hides, over the step",
            source="rocktools",
        ),
        Threshold(
            name="expert_share_ratio",
            value=EXPERT_SHARE_RATIO,
            meaning="part of the lateness and of the longer compute that is in experts",
            source="rocktools",
        ),
        Threshold(
            name="others_alike_ratio",
            value=OTHERS_ALIKE_RATIO,
            meaning="relative excess of other work over that of experts, at most",
            source="rocktools",
        ),
    ),
    needs=("rows", "reconciliation", "exposure", "step_times", "devices_count"),
    check=check_expert_imbalance,
)
