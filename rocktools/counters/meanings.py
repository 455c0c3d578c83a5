"""What raw counters mean: unit, meaning, reduction over hardware instances, and where they mislead (meanings.yaml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rocktools.assets import find_asset_folder
from rocktools.counters.data_file import read_data_file
from rocktools.counters.dimensions import Dimension, parse_dimension

INSTANCES = ("xcd", "se", "cu", "simd", "channel")
"""Symbols of units that a counter has because it is summed over that many instances."""

PASS_DURATION = "PASS_DURATION"
"""Name, in formulas, of the time that a dispatch took in its pass: for diagnoses, never for a rate."""

_REDUCED = re.compile(r"(?P<stem>\w+)_(?P<reduction>sum|max|min)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """Architectures on which a counter does not say what its name says."""

    architectures: tuple[str, ...]
    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What one counter means.

    Attributes:
        name: raw, or the accumulated form of a level.
        dimension: unit of its sum over instances.
        meaning: one sentence.
        reduction: what a bare name stands for.
        is_never_zero: whether a 0 says that the block was not counted.
        source: where it is documented.
    """

    name: str
    dimension: Dimension
    meaning: str
    reduction: str = "sum"
    is_never_zero: bool = False
    traps: tuple[Trap, ...] = ()
    source: str = ""

    def dimension_as(self, reduction: str) -> Dimension:
        """Unit of its largest or smallest instance, or of their sum."""
        if reduction == "sum":
            return self.dimension
        kept = tuple((symbol, power) for symbol, power in self.dimension.powers if symbol not in INSTANCES)
        return Dimension(kept)


def read_meanings() -> Mapping[str, Meaning]:
    """All counters whose meaning is known, by name."""
    document = read_data_file(find_asset_folder("counters") / "meanings.yaml")
    sources = {
        key: f"{entry['document']}, {entry['version']} ({entry['date']})"
        for key, entry in document["documents"].items()
    }
    found = {
        entry["name"]: Meaning(
            name=entry["name"],
            dimension=parse_dimension(entry["unit"]),
            meaning=entry["meaning"],
            reduction=entry.get("reduction", "sum"),
            is_never_zero=entry.get("never_zero", False),
            traps=tuple(
                Trap(architectures=tuple(trap["architectures"]), text=trap["text"], source=sources[trap["document"]])
                for trap in entry.get("traps", ())
            ),
            source=sources[entry["document"]],
        )
        for entry in document["counters"]
    }
    found[PASS_DURATION] = Meaning(
        name=PASS_DURATION, dimension=parse_dimension("s"), meaning="time that the dispatch took in its pass"
    )
    return found


def split_reduction(name: str) -> tuple[str, str]:
    """A counter's raw name and the reduction that its name tells: `TCC_HIT_sum` is (`TCC_HIT`, `sum`)."""
    match = _REDUCED.fullmatch(name)
    return (match["stem"], match["reduction"]) if match else (name, "")
