"""The hardware counters of an architecture: their names, their blocks, and what each takes of a pass.

Reads the data of the folder counters/ (catalog.csv, blocks.yaml, expansions.yaml, together.yaml) into one `Catalog`.
What a counter means and what can be computed from it is not known here; neither is whether a GPU agrees.

Names as a user may write them: `TCC_HIT`, `TCC_HIT_sum`, `TCC_HIT[3]` (one instance), `TCC_HIT:device=0` (one GPU).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from rocktools.assets import find_asset_folder
from rocktools.counters.data_file import read_data_file
from rocktools.counters.expansions import Expansions, Slot, read_expansions
from rocktools.errors import UsageError, nearest_names

_FORM = re.compile(r"(?P<stem>\w+)(?:\[(?P<instance>\d+)\])?(?::device=(?P<device>\d+))?", re.ASCII)


class CounterKind(str, Enum):
    """Where a counter comes from."""

    RAW = "raw"  # one event of one block
    DERIVED = "derived"  # rocprofv3 computes it from raw ones
    DEFINED = "defined"  # not in rocprofv3's list: it has to be defined for the run, as rocprof-compute does

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """One counter, as it may be asked for.

    Attributes:
        name: as rocprofv3 takes it.
        kind: where it comes from.
        block: of a raw counter; "" of any other.
        event: number of the event within the block, another one on each architecture; None where it is not raw.
        base: the raw counter that this is a form of (X for X, X_sum, X[3], X_ACCUM); "" where it combines several.
        slots: the hardware registers that one pass needs for it; None where nobody knows.
        is_level: whether it is a level read directly, which says nothing without its accumulate().
        instance: the one instance that is meant; None: all.
        device: ordinal of the one GPU that is meant; None: all.
    """

    name: str
    kind: CounterKind
    block: str = ""
    event: int | None = None
    base: str = ""
    slots: frozenset[Slot] | None = None
    is_level: bool = False
    instance: int | None = None
    device: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A hardware block.

    Attributes:
        slots_count: counters that one pass can read of it.
        prefixes: what the names of its raw counters begin with.
        meaning: what it is.
    """

    name: str
    slots_count: int
    prefixes: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioGroup:
    """Raw counters whose ratio is only sound within one pass.

    Attributes:
        counters: raw names, sorted.
        reason: why.
    """

    name: str
    counters: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Everything known of one architecture's counters.

    Attributes:
        architecture: gfx950, ...
        parts: products with it.
        counters: by name, in the order of names; without instances and other forms.
        blocks: by name.
        groups: what has to be read in one pass.
        levels: raw level counters.
        accumulators: raw counters that add up another one.
        accumulated_suffix: what rocprof-compute appends to the name of an accumulated level.
        elsewhere: counters that only other architectures have -> which.
    """

    architecture: str
    parts: tuple[str, ...]
    counters: Mapping[str, Counter]
    blocks: Mapping[str, Block]
    groups: tuple[RatioGroup, ...] = ()
    levels: tuple[str, ...] = ()
    accumulators: tuple[str, ...] = ()
    accumulated_suffix: str = "_ACCUM"
    elsewhere: Mapping[str, tuple[str, ...]]

    def require(self, name: str) -> Counter:
        """The counter of that name, in any form that a user may write.

        Raises:
            UsageError: this architecture has none, or not in that form; the nearest names are listed.
        """
        form = _FORM.fullmatch(name)
        if form is None:
            raise self._unknown(name)
        counter = self.counters.get(form["stem"]) or self._accumulated(form["stem"])
        if counter is None:
            raise self._unknown(name, form["stem"])
        instance = int(form["instance"]) if form["instance"] else None
        device = int(form["device"]) if form["device"] else None
        if instance is None:
            return counter if device is None else replace(counter, name=name, device=device)
        if counter.kind is not CounterKind.RAW:
            raise UsageError(
                "counter-instance",
                f"{counter.name} is {counter.kind} and has no instances, so there is no {name}",
                hint=f"{counter.base}[{instance}]" if counter.base else f"{counter.name}",
            )
        return replace(counter, name=name, kind=CounterKind.DEFINED, instance=instance, device=device)

    def accumulated_by(self, level: str) -> tuple[str, ...]:
        """Derived counters of rocprofv3 that accumulate this level."""
        return tuple(
            counter.name
            for counter in self.counters.values()
            if counter.kind is CounterKind.DERIVED
            and any(slot.event == level and slot.is_accumulator for slot in counter.slots or ())
        )

    def _accumulated(self, stem: str) -> Counter | None:
        """L_ACCUM of a level L."""
        level = stem.removesuffix(self.accumulated_suffix)
        if level == stem or level not in self.levels:
            return None
        return replace(self.counters[level], name=stem, kind=CounterKind.DEFINED, event=None, is_level=False)

    def _unknown(self, name: str, stem: str = "") -> UsageError:
        what = f"{self.architecture} has no counter {name!r}"
        if having := self.elsewhere.get(stem):
            what += f"; {' and '.join(having)} {'has' if len(having) == 1 else 'have'} it"
        near = nearest_names(stem or name, self.counters)
        fallback = f"rocktools counters list --arch {self.architecture}"
        return UsageError("unknown-counter", what, hint=f"{', '.join(near)}" if near else fallback)


def architectures() -> tuple[str, ...]:
    """The architectures whose counters are known."""
    return tuple(
        entry["name"] for entry in read_data_file(find_asset_folder("counters") / "blocks.yaml")["architectures"]
    )


def load_catalog(architecture: str) -> Catalog:
    """Read what is known of one architecture's counters.

    Args:
        architecture: as rocprofv3 names it: gfx942, gfx950.

    Raises:
        UsageError: it is not among those known.
    """
    folder = find_asset_folder("counters")
    facts = read_data_file(folder / "blocks.yaml")
    parts = {entry["name"]: tuple(entry["parts"]) for entry in facts["architectures"]}
    if architecture not in parts:
        known = ", ".join(f"{name} ({', '.join(products)})" for name, products in parts.items())
        raise UsageError(
            "unknown-architecture", f"the counters of {architecture!r} are not known", hint=f"known: {known}"
        )
    blocks = {
        entry["name"]: Block(
            name=entry["name"],
            slots_count=entry["slots"],
            prefixes=tuple(entry["prefixes"]),
            meaning=entry["meaning"],
        )
        for entry in facts["blocks"]
    }
    rows, elsewhere = _read_names(folder / "catalog.csv", architecture)
    block_of = {row["counter"]: row["block"] for row in rows if row["kind"] == CounterKind.RAW.value}
    expansions = read_expansions(read_data_file(folder / "expansions.yaml"), architecture, block_of)
    return Catalog(
        architecture=architecture,
        parts=parts[architecture],
        counters={row["counter"]: _counter(row, expansions) for row in rows},
        blocks=blocks,
        groups=tuple(_groups(read_data_file(folder / "together.yaml"), architecture, block_of)),
        levels=expansions.levels,
        accumulators=expansions.accumulators,
        accumulated_suffix=expansions.accumulated_suffix,
        elsewhere=elsewhere,
    )


def _read_names(path: Path, architecture: str) -> tuple[list[dict[str, str]], dict[str, tuple[str, ...]]]:
    """The rows of this architecture, sorted by name, and names that only others have."""
    ours: list[dict[str, str]] = []
    theirs: dict[str, set[str]] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            having = row["architectures"].split()
            if architecture in having:
                ours.append(row)
            else:
                theirs.setdefault(row["counter"], set()).update(having)
    names = {row["counter"] for row in ours}
    elsewhere = {name: tuple(sorted(having)) for name, having in theirs.items() if name not in names}
    return sorted(ours, key=lambda row: row["counter"]), elsewhere


def _counter(row: Mapping[str, str], expansions: Expansions) -> Counter:
    name = row["counter"]
    return Counter(
        name=name,
        kind=CounterKind(row["kind"]),
        block=row["block"],
        event=int(row["event"]) if row["event"] else None,
        base=expansions.base_of(name),
        slots=expansions.slots_of(name),
        is_level=name in expansions.levels,
    )


def _groups(facts: Mapping[str, Any], architecture: str, known: Iterable[str]) -> Iterable[RatioGroup]:
    """The ratio groups of this architecture; one per member of `each`."""
    on_architecture = set(known)
    for entry in facts["groups"]:
        if architecture not in entry.get("architectures", [architecture]):
            continue
        reason = entry["reason"]
        if "each" not in entry:
            yield RatioGroup(name=entry["name"], counters=tuple(sorted(entry["counters"])), reason=reason)
        for member in entry.get("each", ()):
            if member in on_architecture:
                counters = tuple(sorted([*entry["counters"], member]))
                yield RatioGroup(name=f"{entry['name']}/{member}", counters=counters, reason=reason)
