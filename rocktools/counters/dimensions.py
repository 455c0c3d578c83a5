"""Units of counters and quantities as products of base symbols, so that a formula's units can be checked.

A counter that is summed over the dies, compute units or channels of a device carries them in its unit: GRBM_GUI_ACTIVE
is in xcd*cycle, and only divided by the number of dies it is in cycles. That is how the commonest mistake with these
counters (a sum over eight dies taken for elapsed cycles) becomes an error of units.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rocktools.errors import FormulaError, nearest_names

SYMBOLS: Mapping[str, str] = {
    "B": "byte",
    "KiB": "1024 bytes, as rocprofv3's FETCH_SIZE has them",
    "FLOP": "floating-point operation",
    "IOP": "integer operation",
    "mop": "unit of the MOPS counters: 512 operations",
    "instruction": "instruction of one wave",
    "wave": "wave",
    "workitem": "work-item (a lane of a wave)",
    "workgroup": "workgroup",
    "request": "request, lookup or cache line",
    "sector": "part of a cache line",
    "cycle": "cycle of the shader clock",
    "quadcycle": "four cycles",
    "s": "second",
    "xcd": "accelerator die",
    "se": "shader engine",
    "cu": "compute unit",
    "simd": "SIMD unit",
    "channel": "channel of the L2 cache",
}
"""Symbol -> what it stands for."""

_ALIASES: Mapping[str, str] = {"ratio": "1", "Hz": "cycle/s"}
_TOKEN = re.compile(r"\s*([A-Za-z]+|1|[*/])")


@dataclass(frozen=True, slots=True)
class Dimension:
    """A product of powers of symbols; sorted by symbol, no power is 0."""

    powers: tuple[tuple[str, int], ...] = ()

    def __mul__(self, other: Dimension) -> Dimension:
        return self._combined(other, 1)

    def __truediv__(self, other: Dimension) -> Dimension:
        return self._combined(other, -1)

    def _combined(self, other: Dimension, sign: int) -> Dimension:
        total = Counter(dict(self.powers))
        for symbol, power in other.powers:
            total[symbol] += sign * power
        return Dimension(tuple(sorted((symbol, power) for symbol, power in total.items() if power)))

    def __str__(self) -> str:
        """As people write it; `parse_dimension` gives the same dimension back."""
        for name, meaning in _ALIASES.items():
            if self == parse_dimension(meaning):
                return name
        above = [symbol for symbol, power in self.powers for _ in range(max(power, 0))]
        below = [symbol for symbol, power in self.powers for _ in range(max(-power, 0))]
        return "/".join(["*".join(above) or "1", *below])


RATIO = Dimension()


def parse_dimension(text: str) -> Dimension:
    """The dimension of a unit: `B/request`, `cu*cycle`, `ratio`, `1`. Products and quotients from left to right.

    Raises:
        FormulaError: it is no unit, or has an unknown symbol.
    """
    dimension, operator, position = Dimension(), "*", 0
    is_symbol_next = True
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None or (match[1] in "*/") == is_symbol_next:
            raise FormulaError("unit-syntax", f"{text!r} is no unit", hint="symbols with * and /: B/request")
        position = match.end()
        if is_symbol_next:
            symbol = _dimension_of(match[1])
            dimension = dimension * symbol if operator == "*" else dimension / symbol
        else:
            operator = match[1]
        is_symbol_next = not is_symbol_next
    if is_symbol_next:
        raise FormulaError("unit-syntax", f"{text!r} is no whole unit", hint="symbols with * and /: B/request")
    return dimension


def _dimension_of(symbol: str) -> Dimension:
    if symbol == "1":
        return RATIO
    if symbol in _ALIASES:
        return parse_dimension(_ALIASES[symbol])
    if symbol not in SYMBOLS:
        near = nearest_names(symbol, SYMBOLS) or SYMBOLS
        raise FormulaError("unknown-unit", f"there is no unit {symbol!r}", hint=f"{', '.join(near)}")
    return Dimension(((symbol, 1),))
