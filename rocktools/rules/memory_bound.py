"""Much of a step is bound by HBM: many bytes for few FLOPs."""

from __future__ import annotations

from rocktools.findings import Finding, Severity
from rocktools.rules.bound_points import bound_message, bound_numbers, bound_time
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns

BOUND_RATIO = 0.3


def check_memory_bound(inputs: RuleInputs) -> Outcome:
    """Time of instructions whose bytes at the bandwidth of HBM explain most of it."""
    assert inputs.points is not None
    assert inputs.step_times is not None
    step_ns = mean_step_ns(inputs.step_times)
    found = bound_time(inputs.points, "memory", cells_count(inputs.step_times))
    if found.evidence is None or found.bound_ns < BOUND_RATIO * step_ns:
        return []
    intensity = found.intensity_flop_per_byte
    told = "" if intensity is None else f", at {intensity:.3g} FLOP/B together"
    finding = Finding(
        rule="memory-bound",
        severity=Severity.NOTE,
        where=found.largest,
        message=bound_message(found, step_ns, "HBM", told),
        numbers={
            **bound_numbers(found, step_ns),
            **({} if intensity is None else {"intensity_flop_per_byte": intensity}),
        },
        advice="fewer bytes: fuse neighbours, keep tiles in LDS, smaller formats; larger tiles reuse more",
    )
    return [RuleFinding(finding=finding, explained_ns=found.bound_ns, evidence=found.evidence)]


RULE = Rule(
    name="memory-bound",
    title="Stalls at low intensity",
    group=RuleGroup.TRACE_PATTERN,
    looks_at="Roofline points of instructions: bytes through HBM at its bandwidth, against the time that they took. By "
    "the estimates of the compiled program what L2 and the Infinity Cache save is not counted, so counters decide.",
    signature="Kernels wait for memory, with few FLOPs for each byte.",
    confirmations=(
        Confirmation(
            detail="points by instruction, and their ceilings", command="rocktools roofline RUN --by instruction"
        ),
        Confirmation(detail="bytes and waiting by counters", command="rocktools metrics RUN"),
    ),
    fixes=(
        "fuse elementwise kernels into the products beside them",
        "formats with fewer bytes",
        "reuse: larger tiles, fused attention, recomputation instead of reading",
    ),
    thresholds=(
        Threshold(
            name="bound_ratio", value=BOUND_RATIO, meaning="time of such instructions over the step", source="rocktools"
        ),
    ),
    needs=("points", "step_times"),
    check=check_memory_bound,
)
