"""A kernel serves several components: a row of a kernel table is no operation of the model."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.timeline.activities import Activity
from rocktools.units import format_duration, format_ratio

SHARED_RATIO = 0.05
LEAST_COMPONENTS = 2


def check_shared_kernels(inputs: RuleInputs) -> Outcome:
    """The kernel with most time that instructions of several components launch."""
    assert inputs.rows is not None
    assert inputs.step_times is not None
    rows = inputs.rows
    is_wanted = (rows["activity"] == Activity.COMPUTE.value) & rows["instruction"].notna()
    mine = rows[is_wanted.to_numpy()]
    if mine.empty:
        return CannotSay(reason="no kernel is linked to an instruction")
    named = mine[(mine["component"] != "unattributed").to_numpy()]
    grouped = named.assign(duration_ns=named["end_ns"] - named["start_ns"]).groupby("name", observed=True)
    table = grouped.agg(
        components_count=("component", "nunique"),
        instructions_count=("instruction", "nunique"),
        total_ns=("duration_ns", "sum"),
    )
    table = table[(table["components_count"] >= LEAST_COMPONENTS).to_numpy()].sort_values(
        "total_ns", ascending=False, kind="stable"
    )
    cells, step_ns = cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    if table.empty or float(table["total_ns"].iloc[0]) / cells < SHARED_RATIO * step_ns:
        return []
    first, name = table.iloc[0], str(table.index[0])
    total_ns = float(first["total_ns"]) / cells
    finding = Finding(
        rule="kernel-row-as-operation",
        severity=Severity.NOTE,
        where=name,
        message=f"{name} takes {format_duration(total_ns)} of each step ({format_ratio(total_ns / step_ns)}) for "
        f"{int(first['instructions_count'])} instructions of {int(first['components_count'])} components: its row in a "
        "table of kernels is no operation of the model",
        numbers={
            "total_ns": total_ns,
            "instructions_count": int(first["instructions_count"]),
            "components_count": int(first["components_count"]),
        },
        advice="read the ledger, or kernels by instruction",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.INFERRED)]


RULE = Rule(
    name="kernel-row-as-operation",
    title="A kernel row is no operation of the model",
    group=RuleGroup.LINT,
    looks_at="Kernels that several HLO instructions of different components launch: XLA reuses generated kernels, and "
    "library kernels of hipBLASLt bear the name of a shape, not of a layer.",
    signature="One row of a kernel table has the time of attention, experts and head together.",
    confirmations=(
        Confirmation(detail="the same kernels by instruction", command="rocktools kernels --hlo RUN"),
        Confirmation(detail="time by component", command="rocktools ledger RUN"),
    ),
    fixes=("say component and phase with a number, not the kernel's name",),
    thresholds=(
        Threshold(
            name="shared_ratio", value=SHARED_RATIO, meaning="time of the kernel over the step", source="rocktools"
        ),
    ),
    needs=("rows", "step_times"),
    check=check_shared_kernels,
)
