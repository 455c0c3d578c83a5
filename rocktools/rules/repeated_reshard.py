"""The same value is moved between devices again and again: neighbours in the program want other layouts of it."""

from __future__ import annotations

from collections import defaultdict

from rocktools.findings import Finding, Severity
from rocktools.hlo.dataflow import ValueSources
from rocktools.hlo.module import HloModule
from rocktools.hlo.program_summary import collective_kind
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.units import count_noun, format_duration, format_ratio

RESHARDING_RATIO = 0.02
_GATHERING = ("all-gather", "all-to-all", "collective-permute")
_PASSED_ON = frozenset({"copy", "convert", "transpose", "reshape", "bitcast-convert"})


def check_resharding(inputs: RuleInputs) -> Outcome:
    """Collectives that move a value another one has moved already, or move back what one has just moved."""
    assert inputs.exposure is not None
    assert inputs.programs is not None
    assert inputs.step_times is not None
    cells, step_ns = cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    exposed = inputs.exposure
    lengths = exposed["exposed_ns"].groupby([exposed["program_id"].astype(str), exposed["instruction"].astype(str)])
    time_of = {(str(program), str(name)): int(length) for (program, name), length in lengths.sum().items()}
    groups = [(module, names) for module in inputs.programs for names in find_reshards(module)]
    spent = [sum(time_of.get((module.label, name), 0) for name in names[1:]) / cells for module, names in groups]
    total_ns = float(sum(spent))
    if total_ns < RESHARDING_RATIO * step_ns or not groups:
        return []
    worst = max(range(len(groups)), key=lambda place: spent[place])
    module, names = groups[worst]
    finding = Finding(
        rule="repeated-reshard",
        severity=Severity.NOTE,
        where=f"{module.name}, {names[0]}",
        message=f"{count_noun(len(groups), 'value')} cross devices more than once, {' and '.join(names[:3])} for one: "
        f"what comes after the first time is exposed for {format_duration(total_ns)} of each step "
        f"({format_ratio(total_ns / step_ns)})",
        numbers={"values_count": len(groups), "resharding_ns": total_ns, "step_ns": step_ns},
        advice="layouts of producer and consumer: one sharding that both can use",
    )
    return [RuleFinding(finding=finding, explained_ns=total_ns)]


def find_reshards(module: HloModule) -> list[tuple[str, ...]]:
    """Groups of collectives that move one value: of one source, or one right behind the other; at least two."""
    search = ValueSources.of(module)
    by_source: dict[tuple[str, tuple[tuple[str, int | None], ...]], list[str]] = defaultdict(list)
    chains: dict[str, list[str]] = {}
    moving = [name for name, each in module.instructions.items() if collective_kind(module, each) in _GATHERING]
    for name in moving:
        sources = _moved(module, search, name)
        if not sources:
            continue
        before = [source for source, _ in sources if source in chains or source in moving]
        if before:
            chains[name] = [*chains.get(before[0], [before[0]]), name]
        by_source[module.instructions[name].computation, sources].append(name)
    shared = [tuple(names) for names in by_source.values() if len(names) > 1]
    ends = [tuple(names) for name, names in chains.items() if not any(name in other[:-1] for other in chains.values())]
    permutes = {"collective-permute"}
    return [*shared, *(each for each in ends if not _is_of(module, each, permutes))]


def _is_of(module: HloModule, names: tuple[str, ...], kinds: set[str]) -> bool:
    return {collective_kind(module, module.instructions[name]) for name in names} <= kinds


def _moved(module: HloModule, search: ValueSources, name: str) -> tuple[tuple[str, int | None], ...]:
    """The value that a collective of one operand moves, seen through copies of it."""
    operands = module.instructions[name].operands
    if len(operands) != 1:
        return ()
    sources = search.sources_of(operands[0], None)
    for _ in range(8):
        if len(sources) != 1 or module.instructions[sources[0][0]].opcode not in _PASSED_ON:
            break
        sources = search.sources_of(module.instructions[sources[0][0]].operands[0], None)
    return sources if len(sources) == 1 else ()


RULE = Rule(
    name="repeated-reshard",
    title="Repeated reshard",
    group=RuleGroup.TRACE_PATTERN,
    looks_at="All-gathers, all-to-alls and permutations of the compiled program that move a value which another one "
    "has moved already, or which came out of one, with nothing but copies and conversions between.",
    signature="Two gathers of one tensor in a layer; an all-to-all right behind another.",
    confirmations=(
        Confirmation(detail="collectives, their payload and time", command="rocktools collectives RUN"),
        Confirmation(detail="producer and consumers of the value", command="rocktools hlo show RUN INSTRUCTION"),
    ),
    fixes=(
        "one sharding for producer and consumer (`with_sharding_constraint` between them)",
        "gather once, and use the result twice",
    ),
    thresholds=(
        Threshold(
            name="resharding_ratio",
            value=RESHARDING_RATIO,
            meaning="exposed time of repeated movement over the step",
            source="rocktools",
        ),
    ),
    needs=("exposure", "programs", "step_times"),
    check=check_resharding,
)
