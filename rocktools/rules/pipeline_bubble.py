"""Regular empty regions: stages of a pipeline wait for their first microbatch, and for the last ones of the others."""

from __future__ import annotations

import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.units import format_duration, format_ratio

BUBBLE_RATIO = 0.05
REGULAR_RATIO = 0.25
LEAST_STEPS = 3
BUBBLES_COUNT = 2
LONGEST_RATIO = 0.5

_STAGES = ("collective-permute", "send", "recv")


def check_bubbles(inputs: RuleInputs) -> Outcome:
    """The two longest times in which a device waits for another stage, or is idle, alike from step to step."""
    assert inputs.exposure is not None
    assert inputs.gaps is not None
    assert inputs.step_times is not None
    mine = inputs.exposure[inputs.exposure["collective"].isin(_STAGES).to_numpy()]
    if mine.empty:
        return CannotSay(reason="nothing is sent from stage to stage: no collective-permute, send or recv ran")
    if inputs.step_times.loc[inputs.step_times["is_counted"].to_numpy(), "step_index"].nunique() < LEAST_STEPS:
        return CannotSay(reason=f"fewer than {LEAST_STEPS} steps count, so what is regular cannot be told")
    step_ns = mean_step_ns(inputs.step_times)
    empty = _empty_per_step(mine, inputs.gaps)
    if float(empty["empty_ns"].sum()) < LONGEST_RATIO * float(empty["all_ns"].sum()):
        return []
    means = empty.groupby(["run", "device"], observed=True)["empty_ns"].agg(["mean", "std"])
    means = means[(means["std"] <= REGULAR_RATIO * means["mean"]).to_numpy()]
    bubble_ns = float(means["mean"].sum()) / max(1, empty[["run", "device"]].drop_duplicates().shape[0])
    if bubble_ns < BUBBLE_RATIO * step_ns:
        return []
    device = str(means["mean"].idxmax()[1])
    most_ns = float(means["mean"].max())
    transfers = len(mine) / cells_count(inputs.step_times)
    finding = Finding(
        rule="pipeline-bubble",
        severity=Severity.WARNING,
        where=device,
        message=f"devices are empty for {format_duration(bubble_ns)} of each step "
        f"({format_ratio(bubble_ns / step_ns)}), alike in every step, around {transfers:.0f} transfers between stages; "
        f"{device} for {format_duration(most_ns)}",
        numbers={
            "bubble_ns": bubble_ns,
            "step_ns": step_ns,
            "share_ratio": bubble_ns / step_ns,
            "transfers_per_step_count": transfers,
            "most_ns": most_ns,
        },
        advice="more microbatches, stages of equal work, an interleaved schedule",
    )
    return [RuleFinding(finding=finding, explained_ns=bubble_ns, evidence=Evidence.INFERRED)]


def _empty_per_step(transfers: pd.DataFrame, gaps: pd.DataFrame) -> pd.DataFrame:
    """Exposed transfers between stages and idle time within the step, by device and step: all, and the two longest."""
    keys = ["run", "device", "step_index"]
    idle = gaps[~gaps["is_between_steps"].to_numpy()][[*keys, "duration_ns"]].rename(
        columns={"duration_ns": "empty_ns"}
    )
    exposed = transfers[[*keys, "exposed_ns"]].rename(columns={"exposed_ns": "empty_ns"})
    plain = [
        frame.astype({"run": "object", "device": "object", "step_index": "int64"})
        for frame in (idle, exposed)
        if len(frame)
    ]
    regions = pd.concat(plain, ignore_index=True).sort_values([*keys, "empty_ns"], ascending=False, ignore_index=True)
    grouped = regions.groupby(keys)["empty_ns"]
    longest = regions[(grouped.cumcount() < BUBBLES_COUNT).to_numpy()].groupby(keys)["empty_ns"].sum()
    return pd.DataFrame({"all_ns": grouped.sum(), "empty_ns": longest}).reset_index()


RULE = Rule(
    name="pipeline-bubble",
    title="Pipeline bubbles",
    group=RuleGroup.TRACE_PATTERN,
    looks_at="Time in which a device waits in collective-permutes, sends and receives between stages, or does nothing "
    "within a step, where most of it is in two long regions that are the same from step to step. With p stages and m "
    "microbatches the share is (p - 1) / (m + p - 1) at best.",
    signature="Empty regions of equal length at the beginning and the end of each step, shifted from stage to stage.",
    confirmations=(
        Confirmation(detail="idle and exposed time of each device", command="rocktools overlap RUN"),
        Confirmation(detail="transfers between stages", command="rocktools collectives RUN"),
    ),
    fixes=(
        "more microbatches in a step",
        "stages of equal work: embedding and head count too",
        "an interleaved or zero-bubble schedule",
    ),
    thresholds=(
        Threshold(name="bubble_ratio", value=BUBBLE_RATIO, meaning="such time over the step", source="rocktools"),
        Threshold(
            name="longest_ratio",
            value=LONGEST_RATIO,
            meaning="the two longest empty regions of a step over all of them, at least",
            source="rocktools: filling and draining are two regions",
        ),
        Threshold(
            name="regular_ratio",
            value=REGULAR_RATIO,
            meaning="standard deviation over steps, relative to the mean, at most",
            source="rocktools",
        ),
    ),
    needs=("exposure", "gaps", "step_times"),
    check=check_bubbles,
)
