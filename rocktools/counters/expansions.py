"""What a counter takes of the hardware: names to slots, by the rules and the list of counters/expansions.yaml.

A slot stands for one register of every instance of a block. Counters that need the same slot share it, so what a pass
needs is a union of sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_REDUCTIONS = ("_sum", "_avr", "_max", "_min")


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """One register of a block.

    Attributes:
        block: the block it belongs to.
        event: the raw counter it counts, or what else it is taken by.
        use: "" where it counts the event itself; otherwise what for, so that nothing else shares it.
    """

    block: str
    event: str
    use: str = ""

    def __str__(self) -> str:
        return f"{self.event} ({self.use})" if self.use else self.event

    @property
    def is_accumulator(self) -> bool:
        """Whether it accumulates the level that the register before it reads."""
        return self.use in (_ACCUMULATED, _ACCUMULATED_LOW)


_ACCUMULATED = "accumulated"
_ACCUMULATED_LOW = "accumulated, low resolution"
_LEVEL_LOW = "level for low resolution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansions:
    """The expansions of one architecture.

    Attributes:
        block_of: raw counter -> its block.
        derived: derived counter -> its slots, where they are listed.
        levels: raw counters that have to be accumulated.
        accumulators: raw counters that do the accumulating.
        accumulated_suffix: appended to a level for its accumulated form.
    """

    block_of: Mapping[str, str]
    derived: Mapping[str, frozenset[Slot]]
    levels: tuple[str, ...]
    accumulators: tuple[str, ...]
    accumulated_suffix: str

    def base_of(self, name: str) -> str:
        """The raw counter that `name` is, or is a reduction of; "" where it is neither."""
        if name in self.block_of:
            return name
        if name in self.derived:
            events = {slot.event for slot in self.derived[name]}
            is_one = len(self.derived[name]) == 1 and events <= set(self.block_of)
            return events.pop() if is_one and name.endswith(_REDUCTIONS) else ""
        stem = name[:-4] if name.endswith(_REDUCTIONS) else ""
        return stem if stem in self.block_of else ""

    def slots_of(self, name: str) -> frozenset[Slot] | None:
        """What it takes; None where that is not known."""
        if name in self.derived:
            return self.derived[name]
        base = self.base_of(name)
        if not base:
            return None
        return _accumulated(self.block_of[base], base) if base in self.levels else _plain(self.block_of, [base])


def read_expansions(facts: Mapping[str, Any], architecture: str, block_of: Mapping[str, str]) -> Expansions:
    """The expansions of one architecture.

    Args:
        facts: the content of expansions.yaml.
        block_of: its raw counters and their blocks.
    """
    derived: dict[str, frozenset[Slot]] = {}
    for entry in facts["derived"]:
        if architecture in entry.get("architectures", [architecture]):
            slots = _listed(entry, block_of)
            derived.update(dict.fromkeys(entry["names"], slots))
    return Expansions(
        block_of=block_of,
        derived=derived,
        levels=tuple(facts["levels"]["counters"]),
        accumulators=tuple(facts["accumulators"]),
        accumulated_suffix=facts["levels"]["accumulated_suffix"],
    )


def _listed(entry: Mapping[str, Any], block_of: Mapping[str, str]) -> frozenset[Slot]:
    slots = _plain(block_of, entry["counters"])
    for level in entry.get("accumulates", ()):
        slots |= _accumulated(block_of[level], level)
    for level in entry.get("accumulates_low", ()):
        slots |= {Slot(block_of[level], level, _LEVEL_LOW), Slot(block_of[level], level, _ACCUMULATED_LOW)}
    for block, count in entry.get("own_slots", {}).items():
        slots |= {Slot(block, entry["names"][0], f"register {number}") for number in range(1, count + 1)}
    return slots


def _plain(block_of: Mapping[str, str], names: list[str]) -> frozenset[Slot]:
    return frozenset(Slot(block_of[name], name) for name in names)


def _accumulated(block: str, level: str) -> frozenset[Slot]:
    """The register of the level and the one that accumulates it."""
    return frozenset({Slot(block, level), Slot(block, level, _ACCUMULATED)})
