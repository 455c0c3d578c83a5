"""Kernels that only transpose, copy or reshape: bytes through HBM, and no arithmetic."""

from __future__ import annotations

import numpy as np

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.kernel_work import WorkKind, union_per_step_ns, work_of_rows
from rocktools.rules.rule import Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.timeline.activities import Activity, operation_names
from rocktools.units import count_noun, format_duration, format_ratio

FORMATTING_RATIO = 0.05


def check_data_formatting(inputs: RuleInputs) -> Outcome:
    """Share of a step in which kernels run that only move data within the device."""
    assert inputs.rows is not None
    assert inputs.step_times is not None
    assert inputs.kernel_work is not None
    rows, cells, step_ns = inputs.rows, cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    is_formatting = (work_of_rows(rows, inputs.kernel_work) == WorkKind.FORMATTING.value).to_numpy()
    is_mine = is_formatting & (rows["activity"] != Activity.COMMUNICATION.value).to_numpy()
    formatting_ns = union_per_step_ns(rows, is_mine, cells)
    if formatting_ns < FORMATTING_RATIO * step_ns:
        return []
    names = operation_names(rows)
    mine = rows[is_mine]
    lengths = (mine["end_ns"] - mine["start_ns"]).groupby(names.codes[np.flatnonzero(is_mine)]).sum()
    worst = int(lengths.idxmax())
    worst_ns = float(lengths.max()) / cells
    finding = Finding(
        rule="data-formatting",
        severity=Severity.WARNING,
        where=names.texts[worst],
        message=f"{format_duration(formatting_ns)} of each step ({format_ratio(formatting_ns / step_ns)}) only "
        f"transposes, copies or reshapes, in {count_noun(len(lengths), 'operation')}; most of it in "
        f"{names.texts[worst]}: {format_duration(worst_ns)}",
        numbers={
            "formatting_ns": formatting_ns,
            "step_ns": step_ns,
            "share_ratio": formatting_ns / step_ns,
            "operations_count": len(lengths),
            "worst_ns": worst_ns,
        },
        advice="find the JAX operation that wants the other layout, and let both sides agree on one",
    )
    return [RuleFinding(finding=finding, explained_ns=formatting_ns, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="data-formatting",
    title="Data formatting tax",
    group=RuleGroup.FAULT,
    looks_at="Kernels whose instruction, or everything in whose fusion, is a transpose, copy, reshape or a slice "
    "around one. They use neither MFMA nor VALU, only HBM bandwidth. Conversions of the format and slices of stacked "
    "layers are not counted. A kernel without an instruction is told by its name, `loop_transpose_fusion`.",
    signature="`loop_transpose_fusion`, `wrapped_transpose`, `copy` again and again between matrix products.",
    confirmations=(
        Confirmation(detail="which instructions they are, and their time", command="rocktools kernels --hlo RUN"),
        Confirmation(
            detail="the JAX operation and source line behind one", command="rocktools explain RUN --instruction NAME"
        ),
    ),
    fixes=(
        "an order of dimensions in einsum and dot_general that both neighbours can use",
        "no change of dtype or layout in the middle of a layer",
        "one sharding on both sides of an operation: a reshard brings copies with it",
    ),
    thresholds=(
        Threshold(
            name="formatting_ratio",
            value=FORMATTING_RATIO,
            meaning="time of such kernels over the step",
            source="a practice of reading op profiles: about 5 %",
        ),
    ),
    needs=("rows", "step_times", "kernel_work"),
    check=check_data_formatting,
)
