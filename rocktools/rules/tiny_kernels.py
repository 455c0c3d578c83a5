"""Many kernels of a few microseconds with gaps between them: the device waits for launches."""

from __future__ import annotations

import numpy as np

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.timeline.activities import Activity
from rocktools.units import count_noun, format_duration, format_ratio

IDLE_RATIO = 0.1
SHORT_NS = 20_000
LEAST_GAPS = 10


def check_launch_gaps(inputs: RuleInputs) -> Outcome:
    """Idle time within steps, where the kernels are short and the gaps many."""
    assert inputs.rows is not None
    assert inputs.gaps is not None
    assert inputs.step_times is not None
    cells, step_ns = cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    gaps = inputs.gaps[~inputs.gaps["is_between_steps"].to_numpy()]
    kernels = inputs.rows[(inputs.rows["activity"] == Activity.COMPUTE.value).to_numpy()]
    if gaps.empty or kernels.empty:
        return []
    median_ns = float(np.median((kernels["end_ns"] - kernels["start_ns"]).to_numpy()))
    idle_ns = float(gaps["duration_ns"].sum()) / cells
    per_step = len(gaps) / cells
    if idle_ns < IDLE_RATIO * step_ns or median_ns > SHORT_NS or per_step < LEAST_GAPS:
        return []
    host_ns = float(gaps.loc[(gaps["cause"] == "host_wait").to_numpy(), "duration_ns"].sum()) / cells
    finding = Finding(
        rule="tiny-kernels",
        severity=Severity.WARNING,
        where="within steps",
        message=f"{count_noun(len(kernels) // cells, 'kernel')} a step, of {format_duration(median_ns)} in the median, "
        f"leave the device idle for {format_duration(idle_ns)} of {format_duration(step_ns)} "
        f"({format_ratio(idle_ns / step_ns)}) in {per_step:.0f} gaps; in {format_duration(host_ns)} of that the host "
        "was late",
        numbers={
            "idle_ns": idle_ns,
            "step_ns": step_ns,
            "share_ratio": idle_ns / step_ns,
            "median_kernel_ns": median_ns,
            "gaps_per_step_count": per_step,
            "host_wait_ns": host_ns,
        },
        advice="one jitted step instead of many calls; fusion; command buffers (HIP graphs)",
    )
    return [RuleFinding(finding=finding, explained_ns=idle_ns, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="tiny-kernels",
    title="Many tiny kernels with gaps",
    group=RuleGroup.TRACE_PATTERN,
    looks_at="Gaps of whole devices within steps, and how long kernels are beside them. A launch through HIP takes a "
    "few microseconds of the host: kernels that are shorter leave the device waiting.",
    signature="A comb of short kernels; busy time is far below the step, in no long gap.",
    confirmations=(
        Confirmation(detail="gaps by what comes behind them, and by cause", command="rocktools gaps RUN"),
        Confirmation(detail="kernels by count and mean duration", command="rocktools kernels RUN"),
    ),
    fixes=(
        "everything of a step in one jax.jit",
        "larger fusions, and larger shapes for each kernel",
        "command buffers, which launch many kernels at once",
    ),
    thresholds=(
        Threshold(
            name="idle_ratio",
            value=IDLE_RATIO,
            meaning="idle time within steps over the step",
            source="XProf 2.23.1: core idle above 10 %",
        ),
        Threshold(name="short_ns", value=SHORT_NS, meaning="median duration of kernels, at most", source="rocktools"),
        Threshold(name="least_gaps_count", value=LEAST_GAPS, meaning="gaps in each step", source="rocktools"),
    ),
    needs=("rows", "gaps", "step_times"),
    check=check_launch_gaps,
)
