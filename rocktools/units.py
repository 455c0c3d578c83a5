"""Units: the suffixes that column names end in, and the only place where numbers are scaled for people.

Names carry base units (`_ns`, `_bytes`, `_flop`, ...). Prefixes exist in rendered text only; they are decimal, also for
bytes, as in the vendors' bandwidth figures.
"""

from __future__ import annotations

import math
from types import MappingProxyType

SUFFIXES = MappingProxyType(
    {
        "_ns": "ns",
        "_ps": "ps",
        "_s": "s",
        "_bytes": "B",
        "_flop": "FLOP",
        "_flop_per_s": "FLOP/s",
        "_bytes_per_s": "B/s",
        "_flop_per_byte": "FLOP/B",
        "_cycles": "cycles",
        "_hz": "Hz",
        "_count": "count",
        "_workitems": "work-items",
        "_workgroups": "workgroups",
        "_ratio": "ratio",
    }
)

NS_PER_S = 1_000_000_000
PS_PER_NS = 1_000

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def unit_of(column_name: str) -> str | None:
    """The unit a column's name ends in, or None where it carries none (`grid_workitems_x` is in work-items).

    A suffix that only names what a rate is per says nothing: `tokens_per_s` is not in seconds.
    """
    stem = column_name[:-2] if column_name.endswith(("_x", "_y", "_z")) else column_name
    matches = [suffix for suffix in SUFFIXES if stem.endswith(suffix)]
    if not matches:
        return None
    suffix = max(matches, key=len)
    return None if stem.removesuffix(suffix).endswith("_per") else SUFFIXES[suffix]


def format_duration(duration_ns: float) -> str:
    """A duration for people, four significant digits: 950 ns, 10.92 µs, 342.5 µs, 20.76 s."""
    for divisor, name in ((1.0, "ns"), (1e3, "µs"), (1e6, "ms")):
        # The rounded value decides, so that 999.96 µs becomes 1 ms and not 1000 µs.
        if float(f"{abs(duration_ns) / divisor:.4g}") < 1000:
            return f"{_four_digits(duration_ns / divisor)} {name}"
    return f"{_four_digits(duration_ns / NS_PER_S)} s"


def format_si(value: float, unit: str) -> str:
    """A quantity for people, decimal prefix, four significant digits: 4.194 MB, 2.517 PFLOP/s."""
    magnitude = abs(value)
    step = 0
    while step < len(_PREFIXES) - 1 and float(f"{magnitude:.4g}") >= 1000:
        magnitude /= 1000
        step += 1
    return f"{_four_digits(math.copysign(magnitude, value))} {_PREFIXES[step]}{unit}"


def format_ratio(ratio: float) -> str:
    """A ratio as percent with one decimal; what is not zero never looks like zero."""
    if 0 < abs(ratio) < 0.0005:
        return "<0.1 %" if ratio > 0 else ">-0.1 %"
    return f"{100 * ratio:.1f} %"


def format_count(count: int) -> str:
    """An exact integer with thousands separated."""
    return f"{count:,}"


def count_noun(count: int, noun: str) -> str:
    """A count with its noun: 1 dispatch, 12,000 dispatches."""
    plural = f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
    return f"{format_count(count)} {noun if count == 1 else plural}"


def _four_digits(value: float) -> str:
    rounded = float(f"{value:.4g}")
    if rounded == int(rounded):
        return str(int(rounded))
    if abs(rounded) < 1e-4:
        return f"{rounded:.4g}"  # zeros in a row cannot be counted at a glance
    digits = max(0, 3 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.{digits}f}"
