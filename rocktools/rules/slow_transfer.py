"""Nobody is late, but the transfers of one device take longer than those of the others."""

from __future__ import annotations

from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rank_lateness import STRAGGLER_RATIO, is_partly_traced
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import mean_step_ns
from rocktools.timeline.late_rank import LateCause
from rocktools.units import format_duration, format_ratio


def check_transfers(inputs: RuleInputs) -> Outcome:
    """A device that comes in time and whose collectives end later than those of the others."""
    assert inputs.late_ranks is not None
    assert inputs.step_times is not None
    if is_partly_traced(inputs):
        return CannotSay(
            reason=f"{inputs.devices_count} of {inputs.participants_count} participants were traced: waiting for the "
            "others looks like transfer"
        )
    step_ns = mean_step_ns(inputs.step_times)
    found = []
    for verdict in inputs.late_ranks.verdicts:
        if verdict.cause is not LateCause.LONGER_TRANSFER or verdict.device is None:
            continue
        longer_ns = verdict.branches[-1].value_ns
        if longer_ns < STRAGGLER_RATIO * step_ns:
            continue
        finding = Finding(
            rule="slow-transfer",
            severity=Severity.WARNING,
            where=verdict.device,
            message=f"collectives of {verdict.device} transfer {format_duration(longer_ns)} longer than those of the "
            f"others in each step of {format_duration(step_ns)} ({format_ratio(longer_ns / step_ns)}), though it "
            "arrives in time",
            numbers={"longer_transfer_ns": longer_ns, "step_ns": step_ns, "share_ratio": longer_ns / step_ns},
            advice="look at the placement of this rank, its xGMI links and its NIC, and at what else uses them",
        )
        found.append(RuleFinding(finding=finding, explained_ns=longer_ns))
    return found


RULE = Rule(
    name="slow-transfer",
    title="Slow links of one device",
    group=RuleGroup.FAULT,
    looks_at="The time from the last arrival at a collective to its end on each device, where all participants were "
    "traced on one clock. It is the transfer itself: xGMI within a node, the NIC beyond.",
    signature="All devices arrive together, and one ends later, in collective after collective.",
    confirmations=(
        Confirmation(detail="waiting and transfer of each device", command="rocktools ranks RUN --part skew"),
        Confirmation(
            detail="bandwidth of a collective on each device", command="rocktools collectives RUN --by device"
        ),
    ),
    fixes=(
        "another placement of the rank",
        "the state of its links and NIC: errors, retraining, a lower width",
        "other traffic at the same time: checkpoints, data, another job",
    ),
    thresholds=(
        Threshold(
            name="longer_ratio", value=STRAGGLER_RATIO, meaning="longer transfer over the step", source="rocktools"
        ),
    ),
    needs=("late_ranks", "step_times"),
    check=check_transfers,
)
