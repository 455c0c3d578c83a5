"""Counters into passes: never more than a block can read at once, ratio groups whole, as few passes as possible.

Pure: it knows the capacities of the catalogue and asks no GPU. `rocprofv3-avail pmc-check` is asked elsewhere, and is
not the stricter of the two: its check counts accumulate() as one event (packet_construct.cpp, can_collect), while two
registers are programmed for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rocktools.counters.catalog import Catalog, Counter, CounterKind, RatioGroup
from rocktools.counters.expansions import Slot
from rocktools.counters.pass_search import PassPlan, capacity_bound, find_passes
from rocktools.errors import UsageError
from rocktools.findings import Finding, Severity
from rocktools.units import count_noun

_NAMES_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockUse:
    """What a pass takes of one block."""

    block: str
    used_count: int
    limit_count: int

    def __str__(self) -> str:
        return f"{self.block} {self.used_count}/{self.limit_count}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPass:
    """Counters that one run of the program reads.

    Attributes:
        counters: names, by block and name. A counter may be in several passes, with each of its ratio groups.
        slots: what it takes of each block that it uses.
        groups: ratio groups that it holds whole.
        is_known: whether what its counters take is known; if not, only pmc-check can tell whether they fit.
    """

    counters: tuple[str, ...]
    slots: tuple[BlockUse, ...]
    groups: tuple[str, ...] = ()
    is_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """The passes that a set of counters needs.

    Attributes:
        passes: in the order in which they are to be run.
        least_passes_count: what the capacities alone make necessary, whatever has to stay together.
        is_least: whether fewer passes than these are proven impossible.
        findings: groups that had to be split, passes above the least number, counters that will disappoint.
    """

    passes: tuple[PackedPass, ...]
    least_passes_count: int
    is_least: bool
    findings: tuple[Finding, ...]


def pack_counters(catalog: Catalog, names: Iterable[str], *, together: Sequence[RatioGroup] | None = None) -> Packing:
    """The fewest passes that read all these counters.

    The answer does not depend on the order of `names`; names given twice count once.

    Args:
        names: in any form that `Catalog.require` knows.
        together: ratio groups to keep whole where all their counters are asked for; None: those of the catalogue.

    Raises:
        UsageError: a counter is unknown, or alone too big for a pass.
    """
    counters = _required(catalog, names)
    for counter in counters:
        _require_fit(catalog, counter)
    known = [counter for counter in counters if counter.slots is not None]
    bundles, findings = _bundles(catalog, known, catalog.groups if together is None else together)
    limits = {name: block.slots_count for name, block in catalog.blocks.items()}
    alone = [counter.slots for counter in known if counter.slots]
    plan = find_passes([*alone, *(bundle.slots for bundle in bundles)], limits)
    passes = [*_passes(catalog, known, bundles, plan), *_unknown_passes(counters)]
    least = capacity_bound(alone, limits)
    if len(plan.passes) > least:
        without_groups = len(find_passes(alone, limits).passes)
        findings.append(_above_bound(catalog, passes, least, without_groups, plan))
    return Packing(
        passes=tuple(passes),
        least_passes_count=max(least, 1 if known else 0) + len(counters) - len(known),
        is_least=plan.is_least,
        findings=(*findings, *_doubts(catalog, counters)),
    )


def check_group(catalog: Catalog, names: Iterable[str]) -> list[Finding]:
    """What is wrong with a pass that the user has put together; a fault for each block that cannot hold its part.

    Raises:
        UsageError: a counter is unknown.
    """
    counters = _required(catalog, names)
    findings = [
        Finding(
            rule="pass-too-big",
            severity=Severity.FAULT,
            where=f"{catalog.architecture} {use.block}",
            message=f"{use.block} can count {use.limit_count} events at once, this pass needs {use.used_count}: "
            f"{_shown([counter.name for counter in counters if use.block in _blocks(counter)])}",
            numbers={"need_count": use.used_count, "have_count": use.limit_count},
            advice="rocprofv3 aborts inside the first dispatch; split it, or leave the grouping to rocktools",
        )
        for use in _uses(catalog, counters)
        if use.used_count > use.limit_count
    ]
    return [*findings, *_doubts(catalog, counters)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bundle:
    """A ratio group that is to be kept whole, with the counters that were asked for of it."""

    group: RatioGroup
    names: frozenset[str]
    slots: frozenset[Slot]


def _required(catalog: Catalog, names: Iterable[str]) -> list[Counter]:
    """The counters of these names, each once, by block and name."""
    counters = {counter.name: counter for counter in map(catalog.require, names)}
    return sorted(counters.values(), key=lambda counter: (_blocks(counter), counter.name))


def _blocks(counter: Counter) -> tuple[str, ...]:
    return tuple(sorted({slot.block for slot in counter.slots or ()}))


def _uses(catalog: Catalog, counters: Iterable[Counter]) -> list[BlockUse]:
    """What these counters take together."""
    taken: frozenset[Slot] = frozenset().union(*(counter.slots or () for counter in counters))
    counts = {block: sum(slot.block == block for slot in taken) for block in sorted({slot.block for slot in taken})}
    return [
        BlockUse(block=block, used_count=count, limit_count=catalog.blocks[block].slots_count)
        for block, count in counts.items()
    ]


def _too_big(catalog: Catalog, counters: Iterable[Counter]) -> BlockUse | None:
    """The block that cannot hold them in one pass."""
    return next((use for use in _uses(catalog, counters) if use.used_count > use.limit_count), None)


def _require_fit(catalog: Catalog, counter: Counter) -> None:
    use = _too_big(catalog, [counter])
    if use is not None:
        raise UsageError(
            "counter-too-big",
            f"{counter.name} needs {use.used_count} slots of {use.block} at once, and there are {use.limit_count}",
            hint=f"ask for its parts: {_shown(sorted({slot.event for slot in counter.slots or ()}))}",
        )


def _bundles(
    catalog: Catalog, counters: Sequence[Counter], groups: Iterable[RatioGroup]
) -> tuple[list[_Bundle], list[Finding]]:
    """The ratio groups that were asked for as a whole and fit into a pass; a finding for each that does not fit."""
    by_base: dict[str, list[Counter]] = {}
    for counter in counters:
        if counter.base:
            by_base.setdefault(counter.base, []).append(counter)
    bundles, findings = [], []
    for group in sorted(groups, key=lambda group: (group.name, group.counters)):
        if not all(name in by_base for name in group.counters):
            continue
        members = [counter for name in group.counters for counter in by_base[name]]
        use = _too_big(catalog, members)
        if use is not None:
            findings.append(_split_group(catalog, group, use))
            continue
        slots = frozenset().union(*(counter.slots or () for counter in members))
        names = frozenset(counter.name for counter in members)
        bundles.append(_Bundle(group=group, names=names, slots=slots))
    return bundles, findings


def _passes(
    catalog: Catalog, counters: Sequence[Counter], bundles: Sequence[_Bundle], plan: PassPlan
) -> list[PackedPass]:
    """Names into the passes of the plan: each group where it is whole, then every counter that is nowhere yet."""
    listed: list[set[str]] = [set() for _ in plan.passes] or [set()]
    for bundle in bundles:
        listed[_first_holding(plan, bundle.slots)].update(bundle.names)
    for counter in counters:
        if not any(counter.name in names for names in listed):
            listed[_first_holding(plan, counter.slots or frozenset())].add(counter.name)
    packed = []
    for names in filter(None, listed):
        members = [counter for counter in counters if counter.name in names]
        whole = [bundle.group.name for bundle in bundles if bundle.names <= names]
        packed.append(
            PackedPass(
                counters=tuple(counter.name for counter in members),
                slots=tuple(_uses(catalog, members)),
                groups=tuple(sorted(set(whole))),
            )
        )
    return packed


def _first_holding(plan: PassPlan, slots: frozenset[Slot]) -> int:
    """The first pass with all these slots; the first of all for a counter that needs none."""
    return next((number for number, taken in enumerate(plan.passes) if slots <= taken), 0)


def _unknown_passes(counters: Iterable[Counter]) -> list[PackedPass]:
    return [
        PackedPass(counters=(counter.name,), slots=(), is_known=False) for counter in counters if counter.slots is None
    ]


def _shown(names: Sequence[str]) -> str:
    """The names, cut with a count of what was cut."""
    cut = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {cut} more" if cut > 0 else "")


def _split_group(catalog: Catalog, group: RatioGroup, use: BlockUse) -> Finding:
    return Finding(
        rule="ratio-group-split",
        severity=Severity.WARNING,
        where=f"{catalog.architecture} {group.name}",
        message=f"its counters ({_shown(group.counters)}) need {use.used_count} slots of {use.block} and one pass has "
        f"{use.limit_count}, so they come from different runs",
        numbers={"need_count": use.used_count, "have_count": use.limit_count},
        advice="compare them only if the program repeats exactly",
    )


def _above_bound(
    catalog: Catalog, passes: Sequence[PackedPass], least: int, without_groups: int, plan: PassPlan
) -> Finding:
    """Why there are more passes than the capacities ask for."""
    count = len(plan.passes)
    reasons = []
    if count > without_groups:
        repeated = _repeated(passes)
        reasons.append(
            f"ratio groups kept whole take {count - without_groups} more"
            + (f" (read in more than one pass: {_shown(repeated)})" if repeated else "")
        )
    if without_groups > least:
        reasons.append(f"counters that need several slots at once take {without_groups - least} more")
    if not plan.is_least:
        reasons.append("fewer may be possible, the search gave up")
    return Finding(
        rule="more-passes-than-capacity",
        severity=Severity.NOTE,
        where=catalog.architecture,
        message=f"{count_noun(count, 'pass')} where the capacities alone would allow {least}: {'; '.join(reasons)}",
        numbers={"passes_count": count, "least_passes_count": least},
    )


def _repeated(passes: Iterable[PackedPass]) -> list[str]:
    counts: dict[str, int] = {}
    for packed in passes:
        for name in packed.counters:
            counts[name] = counts.get(name, 0) + 1
    return sorted(name for name, count in counts.items() if count > 1)


def _doubts(catalog: Catalog, counters: Sequence[Counter]) -> list[Finding]:
    """Counters that will be collected and still not give what one hopes, or may not be collected at all."""
    findings = [_level_alone(catalog, counter) for counter in counters if _is_level_alone(counter, counters)]
    by_hand = [counter.name for counter in counters if counter.base in catalog.accumulators]
    if by_hand:
        findings.append(
            Finding(
                rule="accumulator-by-hand",
                severity=Severity.WARNING,
                where=catalog.architecture,
                message=f"{_shown(by_hand)} adds up whatever counter comes before it, and rocprofv3 sorts them",
                numbers={"counters_count": len(by_hand)},
                advice="ask for a counter with accumulate() in it, such as MeanOccupancyPerCU",
            )
        )
    defined = [counter.name for counter in counters if counter.kind is CounterKind.DEFINED]
    if defined:
        findings.append(
            Finding(
                rule="counter-not-built-in",
                severity=Severity.WARNING,
                where=catalog.architecture,
                message=f"rocprofv3 does not list {_shown(defined)}, and leaves out what it does not know",
                numbers={"counters_count": len(defined)},
                advice="define them with rocprofv3 --extra-counters, or ask for the counter without [n] and _ACCUM",
            )
        )
    unknown = [counter.name for counter in counters if counter.slots is None]
    if unknown:
        findings.append(
            Finding(
                rule="slots-unknown",
                severity=Severity.WARNING,
                where=catalog.architecture,
                message=f"what {_shown(unknown)} takes of a pass is not known",
                numbers={"counters_count": len(unknown)},
                advice="only rocprofv3-avail pmc-check on the GPU can confirm that it fits",
            )
        )
    return findings


def _is_level_alone(counter: Counter, counters: Iterable[Counter]) -> bool:
    if not counter.is_level:
        return False
    taken: frozenset[Slot] = frozenset().union(*(other.slots or () for other in counters if not other.is_level))
    return not any(slot.event == counter.base and slot.is_accumulator for slot in taken)


def _level_alone(catalog: Catalog, counter: Counter) -> Finding:
    instead = catalog.accumulated_by(counter.base)
    return Finding(
        rule="level-not-accumulated",
        severity=Severity.WARNING,
        where=f"{catalog.architecture} {counter.name}",
        message="it is a level of the moment and reads 0 unless it is accumulated over time",
        advice=f"ask for {' or '.join(instead)}" if instead else "",
    )
