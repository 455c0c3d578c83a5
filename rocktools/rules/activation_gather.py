"""An all-gather of activations in every layer: a PartitionSpec that says nothing made XLA replicate them."""

from __future__ import annotations

import pandas as pd

from rocktools.findings import Finding, Severity
from rocktools.hlo.call_graph import find_enclosing_loops
from rocktools.hlo.dataflow import ValueSources
from rocktools.hlo.module import HloModule
from rocktools.hlo.program_summary import collective_kind
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.kernel_work import WorkKind
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.units import format_duration, format_ratio, format_si

GATHERING_RATIO = 0.02
_DEEPEST = 12


def check_activation_gathers(inputs: RuleInputs) -> Outcome:
    """All-gathers within a loop of the forward pass whose operand was calculated in that loop from matrix products."""
    assert inputs.exposure is not None
    assert inputs.programs is not None
    assert inputs.kernel_work is not None
    assert inputs.step_times is not None
    gathers = {
        (module.label, name)
        for module in inputs.programs
        for name in find_activation_gathers(module, inputs.kernel_work)
    }
    exposed = inputs.exposure
    mine = exposed[(exposed["collective"] == "all-gather").to_numpy()]
    if mine.empty:
        return CannotSay(reason="no all-gather ran")
    keys = list(zip(mine["program_id"].astype(str), mine["instruction"].astype(str), strict=True))
    mine = mine[[key in gathers for key in keys]]
    cells, step_ns = cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    spent_ns = float((mine["end_ns"] - mine["start_ns"]).sum()) / cells
    if mine.empty or spent_ns < GATHERING_RATIO * step_ns:
        return []
    lengths = (mine["end_ns"] - mine["start_ns"]).groupby(mine["instruction"].astype(str)).sum()
    worst = str(lengths.idxmax())
    payload = mine.loc[(mine["instruction"] == worst).to_numpy(), "payload_bytes"].iloc[0]
    per_step = len(mine) / cells
    size = "" if pd.isna(payload) else f" of {format_si(int(payload), 'B')}"
    finding = Finding(
        rule="activation-gather",
        severity=Severity.NOTE,
        where=worst,
        message=f"{per_step:.0f} all-gathers{size} in each step gather activations within the loop over layers: "
        f"{format_duration(spent_ns)} of each step ({format_ratio(spent_ns / step_ns)}), of which "
        f"{format_duration(float(mine['exposed_ns'].sum()) / cells)} is exposed",
        numbers={
            "gathers_per_step_count": per_step,
            "gathering_ns": spent_ns,
            "exposed_ns": float(mine["exposed_ns"].sum()) / cells,
            "step_ns": step_ns,
        },
        advice="is it meant (sequence or tensor parallelism)? if not, say the sharding of this activation",
    )
    return [RuleFinding(finding=finding, explained_ns=float(mine["exposed_ns"].sum()) / cells)]


def find_activation_gathers(module: HloModule, kernel_work: pd.DataFrame) -> list[str]:
    """All-gathers in a loop whose operand comes from a matrix product of the same loop, through any elementwise "
    "work."""
    work = kernel_work[(kernel_work["program_id"] == module.label).to_numpy()]
    kinds = dict(zip(work["instruction"].astype(str), work["work"].astype(str), strict=True))
    search = ValueSources.of(module)
    gathers = [
        name
        for name, instruction in module.instructions.items()
        if collective_kind(module, instruction) == "all-gather" and name in kinds and instruction.operands
    ]
    return [
        name
        for name in gathers
        if find_enclosing_loops(module, module.instructions[name]) and _is_calculated(module, search, kinds, name)
    ]


def _is_calculated(module: HloModule, search: ValueSources, kinds: dict[str, str], gather: str) -> bool:
    """Whether what it gathers comes from a matrix product in its own computation."""
    home = module.instructions[gather].computation
    seen = {gather}
    waiting = [(gather, 0)]
    while waiting:
        name, depth = waiting.pop()
        for operand in module.instructions[name].operands:
            for source, _ in search.sources_of(operand, None):
                each = module.instructions[source]
                if source in seen or each.computation != home:
                    continue
                seen.add(source)
                if kinds.get(source) == WorkKind.MATRIX.value:
                    return True
                if kinds.get(source) in (WorkKind.VECTOR.value, WorkKind.FORMATTING.value) and depth < _DEEPEST:
                    waiting.append((source, depth + 1))
    return False


RULE = Rule(
    name="activation-gather",
    title="All-gather of activations in each layer",
    group=RuleGroup.FAULT,
    looks_at="What all-gathers within loops gather, by the data flow of the compiled program: slices of stacked "
    "weights (which FSDP means to gather), or results of matrix products of the same layer. XLA inserts the second "
    "where an activation has no sharding of its own, as after `PartitionSpec(None)`. It is a note: sequence and tensor "
    "parallelism do it on purpose.",
    signature="An all-gather of tokens times hidden size in every layer, forward and backward.",
    confirmations=(
        Confirmation(detail="payload and group of the gather", command="rocktools collectives RUN"),
        Confirmation(
            detail="the instruction, its operand and source line", command="rocktools hlo show RUN INSTRUCTION"
        ),
    ),
    fixes=(
        "`with_sharding_constraint` on the activation, with the axis of the batch named",
        "the same PartitionSpec on both sides of the layer",
    ),
    thresholds=(
        Threshold(
            name="gathering_ratio", value=GATHERING_RATIO, meaning="such gathers over the step", source="rocktools"
        ),
    ),
    needs=("exposure", "programs", "kernel_work", "step_times"),
    check=check_activation_gathers,
)
