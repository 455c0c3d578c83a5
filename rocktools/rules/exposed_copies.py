"""The device does nothing but copy: memory moves between host and device while no kernel runs."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.timeline.activities import Activity
from rocktools.units import format_count, format_duration, format_ratio

COPYING_RATIO = 0.05


def check_copies(inputs: RuleInputs) -> Outcome:
    """Share of a step in which a copy runs, and neither compute nor communication."""
    assert inputs.rows is not None
    assert inputs.reconciliation is not None
    assert inputs.step_times is not None
    cells, step_ns = cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    exposed_ns = float(inputs.reconciliation["exposed_copy_ns"].sum()) / cells
    if exposed_ns < COPYING_RATIO * step_ns:
        return []
    copies = inputs.rows[(inputs.rows["activity"] == Activity.COPY.value).to_numpy()]
    lengths = (copies["end_ns"] - copies["start_ns"]).groupby(copies["name"].astype(str)).sum()
    worst = str(lengths.idxmax())
    count = int((copies["name"] == worst).sum())
    finding = Finding(
        rule="exposed-copies",
        severity=Severity.WARNING,
        where=worst,
        message=f"{format_duration(exposed_ns)} of each step ({format_ratio(exposed_ns / step_ns)}) is copying with no "
        f"kernel beside it; most of it in {format_count(count)} of {worst}",
        numbers={"exposed_copy_ns": exposed_ns, "step_ns": step_ns, "share_ratio": exposed_ns / step_ns},
        advice="copy the next batch while the step runs; keep on the device what is read back in every step",
    )
    return [RuleFinding(finding=finding, explained_ns=exposed_ns, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="exposed-copies",
    title="Exposed copies",
    group=RuleGroup.FAULT,
    looks_at="H2D, D2H and D2D copies within a step, by the DMA engines or by copy kernels, while neither a compute "
    "kernel nor RCCL runs.",
    signature="Long HOST_TO_DEVICE or DEVICE_TO_HOST rows with empty streams beside them.",
    confirmations=(
        Confirmation(detail="every copy with direction and size", command="rocktools frame copies RUN"),
        Confirmation(detail="exposed copies of each step", command="rocktools overlap RUN"),
    ),
    fixes=(
        "prefetch batches to the device, from pinned host memory",
        "offload of activations or optimizer state only where compute hides it",
        "no arrays that are fetched to the host in every step",
    ),
    thresholds=(
        Threshold(
            name="copying_ratio", value=COPYING_RATIO, meaning="exposed copies over the step", source="rocktools"
        ),
    ),
    needs=("rows", "reconciliation", "step_times"),
    check=check_copies,
)
