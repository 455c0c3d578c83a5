"""A program returns what it was given, in new memory: parameters and optimizer state are there twice at the border of
a step."""

from __future__ import annotations

import re

import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.hlo.dataflow import ValueSources
from rocktools.hlo.module import HloModule
from rocktools.hlo.shapes import Shape
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.kernel_work import WorkKind
from rocktools.rules.rule import Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.units import count_noun, format_ratio, format_si

LEAST_BYTES = 16 << 20
OUTPUTS_RATIO = 0.5
LEAST_RESULTS = 2

_ALIAS = re.compile(r"\{([\d, ]*)\}\s*:\s*\(\s*(\d+)\s*,")


def check_donation(inputs: RuleInputs) -> Outcome:
    """Results that are an argument brought up to date and do not take over its memory, program by program."""
    assert inputs.programs is not None
    assert inputs.kernel_work is not None
    found = []
    for module in inputs.programs:
        twice = unshared_updates(module, inputs.kernel_work)
        size = sum(shape.size_bytes for shape in twice)
        results = sum(shape.size_bytes for shape in _results(module))
        if len(twice) < LEAST_RESULTS or size < LEAST_BYTES or size < OUTPUTS_RATIO * results:
            continue
        finding = Finding(
            rule="missing-donation",
            severity=Severity.WARNING,
            where=module.name,
            message=f"{count_noun(len(twice), 'result')} of {module.name}, {format_si(size, 'B')} on each device "
            f"({format_ratio(size / results)} of all its results), are arguments brought up to date and do not take "
            "over their memory: both are held at once",
            numbers={"unshared_bytes": size, "results_bytes": results, "results_count": len(twice)},
            advice="jax.jit(..., donate_argnums=...) for parameters and optimizer state",
        )
        found.append(RuleFinding(finding=finding, evidence=Evidence.COMPILER_ESTIMATE))
    return found


def unshared_updates(module: HloModule, kernel_work: pd.DataFrame) -> list[Shape]:
    """Results that elementwise work makes of an argument of their shape, and that do not take over its memory.

    A gradient has the shape of a parameter, too, but comes from a product or a library: it is no update.
    """
    entry = module.entry
    root = None if entry is None else entry.root
    if entry is None or root is None or not module.is_complete:
        return []
    aliases = [(_number(output), int(argument)) for output, argument in _ALIAS.findall(_aliases(module))]
    taken_results, taken_arguments = {output for output, _ in aliases}, {argument for _, argument in aliases}
    free = {each.name for each in entry.parameters if each.parameter_number not in taken_arguments}
    work = kernel_work[(kernel_work["program_id"] == module.label).to_numpy()]
    vector = set(work.loc[(work["work"] == WorkKind.VECTOR.value).to_numpy(), "instruction"].astype(str))
    search = ValueSources.of(module)
    unshared = []
    for place, shape in enumerate(_results(module)):
        made_by = search.sources_of(root.name, place if root.shape.is_tuple else None)
        if place in taken_results or len(made_by) != 1 or made_by[0][0] not in vector:
            continue
        read = {
            source
            for operand in module.instructions[made_by[0][0]].operands
            for source, _ in search.sources_of(operand, None)
        }
        same = [name for name in sorted(read & free) if _is_same(module.instructions[name].shape, shape)]
        if same:
            free.discard(same[0])
            unshared.append(shape)
    return unshared


def _is_same(one: Shape, other: Shape) -> bool:
    return str(one.without_layout()) == str(other.without_layout())


def _results(module: HloModule) -> list[Shape]:
    root = None if module.entry is None else module.entry.root
    if root is None:
        return []
    return list(root.shape.elements) if root.shape.is_tuple else [root.shape]


def _aliases(module: HloModule) -> str:
    return module.attributes.get("input_output_alias", "")


def _number(index: str) -> int:
    first = index.split(",")[0].strip()
    return int(first) if first else 0


RULE = Rule(
    name="missing-donation",
    title="Donation misses",
    group=RuleGroup.FAULT,
    looks_at="Arguments and results of the compiled program and `input_output_alias` in its first line: a donated "
    "buffer is updated in place in HBM, one that is not is held beside the new one until the step is over.",
    signature="Parameters take twice their size at the border of a step; a smaller batch fits than should.",
    confirmations=(
        Confirmation(detail="arguments, results and aliases of the program", command="rocktools memory RUN"),
        Confirmation(detail="the most that was allocated", command="rocktools memory RUN --part devices"),
    ),
    fixes=(
        "`donate_argnums` for everything that the step replaces",
        "the same sharding, dtype and layout for argument and result: otherwise a donation cannot be used",
    ),
    thresholds=(
        Threshold(name="least_bytes", value=LEAST_BYTES, meaning="results that could share memory", source="rocktools"),
        Threshold(
            name="outputs_ratio",
            value=OUTPUTS_RATIO,
            meaning="those over all results: a step replaces most of what it is given",
            source="rocktools",
        ),
        Threshold(
            name="least_results_count",
            value=LEAST_RESULTS,
            meaning="such results: a program with one is no step",
            source="rocktools",
        ),
    ),
    needs=("programs", "kernel_work"),
    check=check_donation,
)
