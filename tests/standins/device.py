"""The made-up hardware: which counters a GPU has, how many fit into one pass, how many instances each has.

Capacities are those that rocprofv3's hardware layer enforces per block; a group that needs more ends in an abort at the
first counted dispatch (launch) or in exit code 1 (rocprofv3-avail pmc-check).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

COUNTERS_FILE = Path(__file__).with_name("counters.txt")
ARCHITECTURES = ("gfx942", "gfx950")

# Hardware events per block and pass. SQC counters are in SQ's budget, as their block in the table says.
CAPACITY: Mapping[str, int] = {
    "SQ": 8,
    "TCC": 4,
    "TCP": 4,
    "TA": 2,
    "TD": 2,
    "TCA": 4,
    "SPI": 6,
    "GRBM": 2,
    "GRBM_SE": 4,
    "CPC": 2,
    "CPF": 2,
    "CPG": 2,
    "GDS": 4,
    "SX": 4,
    "RLC": 2,
    "SDMA": 2,
    "GCEA": 2,
    "ATC": 4,
    "RPB": 4,
    "RMI": 4,
    "UMC": 11,
}

# Rows that a raw counter leaves per dispatch: XCDs x places in one. TCP, TA and TD sit in every CU of the real device;
# 8 per XCD keep the files small.
INSTANCES: Mapping[str, int] = {"SQ": 32, "TCC": 128, "TCP": 64, "TA": 64, "TD": 64, "SPI": 32, "TCA": 16}
_INSTANCES_OTHERWISE = 8
_DIMENSIONS: Mapping[str, str] = {
    "SQ": "DIMENSION_XCC[0:7] DIMENSION_SHADER_ENGINE[0:3]",
    "SPI": "DIMENSION_XCC[0:7] DIMENSION_SHADER_ENGINE[0:3]",
    "TCC": "DIMENSION_XCC[0:7] DIMENSION_INSTANCE[0:15]",
    "TCA": "DIMENSION_XCC[0:7] DIMENSION_INSTANCE[0:1]",
}

_SECTION = re.compile(r"(\w+) ((?:gfx\w+ ?)+):")
_REDUCTIONS = {"_sum": "sum", "_max": "max", "_avr": "avr", "_min": "min"}
_ACCUMULATE = re.compile(r"accumulate\((\w+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """One counter of a device.

    Attributes:
        name: as asked for.
        block: hardware block; empty for derived counters and constants.
        made_of: raw counters that a derived one reads; `accumulate(X)` takes two slots.
        reduction: sum, max, avr or min of its one raw counter; empty otherwise.
        is_constant: whether it is a property of the device, and no counter.
    """

    name: str
    block: str = ""
    made_of: tuple[str, ...] = ()
    reduction: str = ""
    is_constant: bool = False

    @property
    def instances_count(self) -> int:
        """Rows it leaves per dispatch."""
        return INSTANCES.get(self.block, _INSTANCES_OTHERWISE) if self.block else 1

    @property
    def dimensions(self) -> str:
        """As rocprofv3-avail prints them."""
        return _DIMENSIONS.get(self.block, "DIMENSION_XCC[0:7]") if self.block else "DIMENSION_INSTANCE[0:0]"

    @property
    def expression(self) -> str:
        """How a derived counter is computed; empty for the others."""
        if self.reduction:
            return f"reduce({self.made_of[0]},{self.reduction})"
        return "/".join(part.replace(")", ",HIGH_RES)") for part in self.made_of)


def load_counters(architecture: str) -> dict[str, Counter]:
    """Every counter of an architecture, by name, in the order of the table."""
    counters: dict[str, Counter] = {}
    section, is_wanted = "", False
    for line in COUNTERS_FILE.read_text(encoding="utf-8").splitlines():
        if match := _SECTION.fullmatch(line):
            section, is_wanted = match[1], architecture in match[2].split()
        elif is_wanted and line and not line.startswith("#"):
            for word in line.split():
                for counter in _read_word(section, word):
                    counters[counter.name] = counter
    return counters


def _read_word(section: str, word: str) -> Iterable[Counter]:
    if section == "constant":
        yield Counter(name=word, is_constant=True)
    elif section == "derived":
        name, _, parts = word.partition("=")
        yield Counter(name=name, made_of=tuple(parts.split(",")) if parts else ())
    else:
        name = word.rstrip("+")
        yield Counter(name=name, block=section)
        if word.endswith("+"):
            yield Counter(name=f"{name}_sum", made_of=(name,), reduction="sum")


def hardware_events(names: Iterable[str], counters: Mapping[str, Counter]) -> dict[str, set[str]]:
    """Block -> hardware events that a group needs. `X` and `X_sum` share one; accumulate() takes a second one."""
    events: dict[str, set[str]] = {}
    for name in names:
        counter = counters[name]
        parts = counter.made_of or ((name,) if counter.block else _raw_behind(name, counters))
        for part in parts:
            match = _ACCUMULATE.fullmatch(part)
            raw = match[1] if match else part
            slots = events.setdefault(counters[raw].block, set())
            slots.add(raw)
            if match:
                slots.add(f"accumulated {raw}")
    return events


def _raw_behind(name: str, counters: Mapping[str, Counter]) -> tuple[str, ...]:
    """The raw counter that `X_max` and the like reduce, where the table has it."""
    raw = name[:-4] if name[-4:] in _REDUCTIONS else ""
    return (raw,) if raw in counters and counters[raw].block else ()


def fits_one_pass(names: Iterable[str], counters: Mapping[str, Counter], smaller: str = "") -> bool:
    """Whether no block is asked for more events than it has.

    Args:
        smaller: `BLOCK=N`, for a device whose block has fewer.
    """
    capacity = dict(CAPACITY)
    block, _, limit = smaller.partition("=")
    if limit:
        capacity[block] = int(limit)
    counted = [name for name in names if not counters[name].is_constant]
    needed = hardware_events(counted, counters)
    return all(len(events) <= capacity.get(block, 1) for block, events in needed.items())
