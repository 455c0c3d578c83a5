"""One rank comes last at nearly every collective."""

from __future__ import annotations

from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import mean_step_ns
from rocktools.units import format_duration, format_ratio

LAST_RATIO = 0.8
WAITING_RATIO = 0.01
LEAST_COLLECTIVES = 3


def check_last_arrivals(inputs: RuleInputs) -> Outcome:
    """The device that the others wait for at most collectives, and how long they wait."""
    assert inputs.skew is not None
    assert inputs.step_times is not None
    if inputs.skew.empty:
        return CannotSay(reason="no collective was matched across devices")
    step_ns = mean_step_ns(inputs.step_times)
    found = []
    for run, own in inputs.skew.groupby("run", observed=True):
        sums = own.groupby(own["device"].astype(str))[["collectives_count", "last_count", "wait_ns"]].sum()
        shares = sums["last_count"] / sums["collectives_count"]
        device = str(shares.idxmax())
        steps = max(1, int(own["step_index"].nunique()))
        waited_ns = float(sums.drop(device)["wait_ns"].median()) / steps if len(sums) > 1 else 0.0
        count = int(sums.loc[device, "collectives_count"])
        if shares[device] < LAST_RATIO or waited_ns < WAITING_RATIO * step_ns or count < LEAST_COLLECTIVES:
            continue
        finding = Finding(
            rule="last-at-every-collective",
            severity=Severity.NOTE,
            where=f"{run}, {device}",
            message=f"{device} comes last at {format_ratio(float(shares[device]))} of {count} collectives; the others "
            f"wait {format_duration(waited_ns)} of each step ({format_ratio(waited_ns / step_ns)}) in the median",
            numbers={
                "last_ratio": float(shares[device]),
                "collectives_count": count,
                "waited_ns": waited_ns,
                "step_ns": step_ns,
            },
            advice="its work and its input, and where it is placed (rocktools ranks)",
        )
        found.append(RuleFinding(finding=finding, explained_ns=waited_ns))
    return found


RULE = Rule(
    name="last-at-every-collective",
    title="One rank late at every collective",
    group=RuleGroup.TRACE_PATTERN,
    looks_at="Which device arrives last at each RCCL collective that all were traced in on one clock, and how long the "
    "others have waited for it by then.",
    signature="RCCL kernels of one device are short, those of all the others long, in collective after collective.",
    confirmations=(
        Confirmation(detail="collectives by skew, and who came last", command="rocktools ranks RUN --part operations"),
        Confirmation(detail="why it is late", command="rocktools ranks RUN"),
    ),
    fixes=("see the rules straggler and expert-imbalance, which tell causes apart",),
    thresholds=(
        Threshold(name="last_ratio", value=LAST_RATIO, meaning="collectives at which it is last", source="rocktools"),
        Threshold(
            name="waiting_ratio", value=WAITING_RATIO, meaning="wait of the others over the step", source="rocktools"
        ),
        Threshold(
            name="least_collectives_count", value=LEAST_COLLECTIVES, meaning="matched collectives", source="rocktools"
        ),
    ),
    needs=("skew", "step_times"),
    check=check_last_arrivals,
)
