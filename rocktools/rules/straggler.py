"""One device is late at the collectives of every step, and all the others wait for it."""

from __future__ import annotations

from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rank_lateness import STRAGGLER_RATIO, find_lateness, lateness_numbers, lateness_text
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import mean_step_ns
from rocktools.timeline.late_rank import LOOK_AT, LateCause

_HOW = {
    LateCause.LATE_INPUT: "it begins its steps later",
    LateCause.EXTRA_WORK: "it computes longer, with more kernels",
    LateCause.SLOWER_COMPUTE: "it computes longer, with as many kernels",
    LateCause.IDLE_WITHIN_STEP: "it stands idle longer within its steps",
    LateCause.UNEXPLAINED: "neither input nor compute nor idle time accounts for it",
}


def check_straggler(inputs: RuleInputs) -> Outcome:
    """A device that the others wait for at collectives, experts aside; or whose compute is longer than theirs."""
    assert inputs.devices_count is not None
    assert inputs.step_times is not None
    if inputs.devices_count < 2:
        return CannotSay(reason="one device only ran something, so none can be late")
    step_ns = mean_step_ns(inputs.step_times)
    found = []
    for late in find_lateness(inputs):
        if late.is_of_experts:
            continue
        seen = "the others wait for it" if late.is_matched else "no collective was matched, so nobody was seen waiting"
        finding = Finding(
            rule="straggler",
            severity=Severity.WARNING,
            where=late.device,
            message=f"{lateness_text(late, step_ns)}: {_HOW[late.cause]}; {seen}",
            numbers=lateness_numbers(late, step_ns),
            advice=f"look at {LOOK_AT[late.cause]}",
        )
        found.append(RuleFinding(finding=finding, explained_ns=late.cost_ns))
    return found


RULE = Rule(
    name="straggler",
    title="Straggler",
    group=RuleGroup.FAULT,
    looks_at="When each GPU arrives at the RCCL collectives that they share, how long each computes and stands idle. A "
    "collective ends for nobody before the last has come, so the device that waits least is the one to look at. Where "
    "the excess is in the kernels of experts alone, it is expert imbalance, another rule.",
    signature="All devices but one spend the same extra time in every collective.",
    confirmations=(
        Confirmation(detail="devices side by side, with the questions of the verdict", command="rocktools ranks RUN"),
        Confirmation(detail="clocks and power, where they were sampled", command="rocktools frame samples RUN"),
    ),
    fixes=(
        "late input: the data path of this rank",
        "more kernels: uneven shapes, layers or pipeline stages",
        "slower kernels: clocks, power cap and temperature of this GPU, or another job on it",
        "idle within steps: the host of this rank, its cores and NUMA node",
    ),
    thresholds=(
        Threshold(
            name="lateness_ratio",
            value=STRAGGLER_RATIO,
            meaning="lateness that nothing hides, over the step",
            source="rocktools: above what steps vary anyway",
        ),
    ),
    needs=("rows", "reconciliation", "exposure", "step_times", "devices_count"),
    check=check_straggler,
)
