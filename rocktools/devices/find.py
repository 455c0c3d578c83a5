"""What a GPU says of itself -> which part it is, in which partition; never by its name alone.

Architecture, XCDs, compute units, clock and memory must fit. Where several parts fit (an MI350X and an MI355X whose
clock was not recorded), the recorded product name decides among them, and that is said; where it does not, nobody is
chosen. A name that contradicts the facts is told and not followed: names come from tables that are at times wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocktools.devices.device import Device
from rocktools.devices.files import read_part, shipped_parts
from rocktools.devices.part import Part
from rocktools.findings import Finding, Severity

_MEMORY_TOLERANCE_RATIO = 0.12  # GB or GiB, and what firmware keeps for itself


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """What is recorded of a GPU; None where it is not.

    Attributes:
        arch: gfx950, ...
        xcc_count, cu_count: of the logical device.
        max_engine_hz: highest shader clock.
        memory_bytes: that it can use.
        device_id: PCI device id.
        product: name of the product.
        where: whose facts these are, for findings.
    """

    arch: str | None = None
    xcc_count: int | None = None
    cu_count: int | None = None
    max_engine_hz: int | None = None
    memory_bytes: int | None = None
    device_id: int | None = None
    product: str | None = None
    where: str = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMatch:
    """What a GPU may be.

    Attributes:
        device: the device; None where several parts fit, and nothing decides between them.
        candidates: names of the parts that fit.
        findings: what is doubtful about the choice.
    """

    device: Device | None
    candidates: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


def find_device(facts: AgentFacts, parts: Sequence[Part] | None = None) -> DeviceMatch | None:
    """The device that fits the facts; None where no part does, or architecture or units are not recorded.

    Args:
        parts: to choose from; None: those that are shipped.
    """
    if facts.arch is None or (facts.cu_count is None and facts.xcc_count is None):
        return None
    known = [read_part(name) for name in shipped_parts()] if parts is None else parts
    fitting = [(part, partition) for part in known if (partition := _partition(part, facts)) is not None]
    if not fitting:
        return None
    narrowed = fitting
    findings: list[Finding] = []
    for fits in (_fits_device_id, _fits_clock, _fits_memory):
        narrowed = [each for each in narrowed if fits(each[0], facts)] or narrowed
    if not any(_fits_clock(part, facts) for part, _ in fitting):
        findings.append(_strange_clock(facts, [part for part, _ in fitting]))
    chosen = narrowed[0] if len(narrowed) == 1 else None
    named = [each for each in fitting if _is_named(each[0], facts, known)]
    if chosen is None and len(named) == 1 and named[0] in narrowed:
        chosen = named[0]
        findings.append(_by_name(facts, chosen[0], [part for part, _ in narrowed]))
    elif facts.product and named and chosen is not None and chosen not in named:
        findings.append(_contradiction(facts, chosen[0], named[0][0]))
    names = tuple(part.name for part, _ in narrowed)
    if chosen is None:
        findings.append(_ambiguous(facts, names))
        return DeviceMatch(device=None, candidates=names, findings=tuple(findings))
    return DeviceMatch(device=chosen[0].device(chosen[1]), candidates=names, findings=tuple(findings))


def _partition(part: Part, facts: AgentFacts) -> str | None:
    """The compute partition in which the part has these units; None where it has none."""
    for partition, xcd_count in part.partitions.items():
        fits_xcd = facts.xcc_count in (None, xcd_count)
        fits_cu = facts.cu_count in (None, xcd_count * part.cu_per_xcd_count)
        if part.architecture == facts.arch and fits_xcd and fits_cu:
            return partition
    return None


def _fits_device_id(part: Part, facts: AgentFacts) -> bool:
    return facts.device_id in part.device_ids


def _fits_clock(part: Part, facts: AgentFacts) -> bool:
    return facts.max_engine_hz is None or facts.max_engine_hz == part.clock_hz


def _fits_memory(part: Part, facts: AgentFacts) -> bool:
    """Of the whole package or of one of its memory domains."""
    if facts.memory_bytes is None:
        return True
    sizes = [part.memory_bytes / domains for domains in part.memory_partitions.values()]
    return any(abs(facts.memory_bytes - size) <= _MEMORY_TOLERANCE_RATIO * size for size in sizes)


def _is_named(part: Part, facts: AgentFacts, known: Sequence[Part]) -> bool:
    """Whether the product name has the name of this part, and of none with a longer name (MI300X is no MI300)."""
    product = (facts.product or "").upper()
    longer = [each.name for each in known if part.name.upper() in each.name.upper() and each.name != part.name]
    return part.name.upper() in product and not any(name.upper() in product for name in longer)


def _strange_clock(facts: AgentFacts, parts: Sequence[Part]) -> Finding:
    clocks = {f"{part.name.lower().replace('-', '_')}_hz": part.clock_hz for part in parts}
    listed = ", ".join(f"{part.name} {part.clock_hz / 1e6:.0f} MHz" for part in parts)
    return Finding(
        rule="clock-of-no-part",
        severity=Severity.WARNING,
        where=facts.where,
        message=f"the highest clock is {(facts.max_engine_hz or 0) / 1e6:.0f} MHz, which is that of no part that fits "
        f"otherwise ({listed}); peaks are computed with the clock of the part",
        numbers={"max_engine_hz": facts.max_engine_hz or 0, **clocks},
        advice="a limit on the clock lowers every peak in proportion: give measured ceilings, or take it into account",
    )


def _by_name(facts: AgentFacts, part: Part, parts: Sequence[Part]) -> Finding:
    fitting = " and ".join(each.name for each in parts)
    return Finding(
        rule="device-by-name",
        severity=Severity.NOTE,
        where=facts.where,
        message=f"the recorded units, clock and memory fit {fitting}; the product name {facts.product!r} decides for "
        f"{part.name}",
        numbers={"candidates_count": len(parts)},
        advice="--part PART, if it is another one",
    )


def _contradiction(facts: AgentFacts, part: Part, named: Part) -> Finding:
    return Finding(
        rule="device-name-contradicts",
        severity=Severity.WARNING,
        where=facts.where,
        message=f"the product name is {facts.product!r}, but clock and memory are those of {part.name} "
        f"({part.clock_hz / 1e6:.0f} MHz; {named.name} has {named.clock_hz / 1e6:.0f} MHz); the facts are followed",
        numbers={"clock_hz": part.clock_hz, "named_clock_hz": named.clock_hz},
        advice="--part PART, if the name is right",
    )


def _ambiguous(facts: AgentFacts, names: Sequence[str]) -> Finding:
    return Finding(
        rule="device-ambiguous",
        severity=Severity.WARNING,
        where=facts.where,
        message=f"what is recorded of the GPU fits {' and '.join(names)}, whose peaks differ",
        numbers={"candidates_count": len(names)},
        advice=f"--part {'|'.join(names)}",
    )
