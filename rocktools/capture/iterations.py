"""Which executions of a kernel are counted: `3`, `10-12`, `1-4,9` -> rocprofv3's `[1-4] [9-9]`.

rocprofv3 counts from 1 for each kernel symbol on each device, over the kernels that its filter lets through. What it
does not say: `[1,5]` is the set of 1 and 5, a range that runs backwards adds nothing, and an empty set means *all*. So
the grammar is ours, and only `[a-b]` with 1 <= a <= b is ever handed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocktools.errors import UsageError

# rocprofv3 expands the ranges into a hash set of single numbers.
_MOST_ITERATIONS = 1_000_000
# Any integer of the tool holds this, and no kernel runs more often.
_LAST_ITERATION = 2**31 - 1
_PART = re.compile(r"\s*([0-9]+)(?:\s*-\s*([0-9]+))?\s*")


@dataclass(frozen=True, slots=True)
class Iterations:
    """Ranges of executions, 1-based, both ends included, ascending and disjoint."""

    ranges: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """How many executions of one kernel on one device."""
        return sum(last - first + 1 for first, last in self.ranges)

    @property
    def last(self) -> int:
        return self.ranges[-1][1]

    def arguments(self) -> list[str]:
        """As rocprofv3 wants them, one argument for each range."""
        return [f"[{first}-{last}]" for first, last in self.ranges]

    def __str__(self) -> str:
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.ranges)

    def __contains__(self, iteration: int) -> bool:
        return any(first <= iteration <= last for first, last in self.ranges)


def parse_iterations(text: str) -> Iterations:
    """Parse `3`, `10-12` or `1-4,9`.

    Raises:
        UsageError: it is none of these, starts at 0, runs backwards, or is more than rocprofv3 bears.
    """
    ranges = []
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise UsageError(
                "bad-iterations", f"{part.strip()!r} in {text!r} is no number and no range", hint="3, 10-12 or 1-4,9"
            )
        first, last = (_number(digits, text) for digits in (match[1], match[2] or match[1]))
        if first < 1:
            raise UsageError("bad-iterations", f"iterations count from 1, and {text!r} asks for {first}")
        if first > last:
            raise UsageError(
                "bad-iterations",
                f"{part.strip()!r} runs backwards, which rocprofv3 would take for all iterations",
                hint=f"{last}-{first}",
            )
        ranges.append((first, last))
    merged = _merge(sorted(ranges))
    iterations = Iterations(tuple(merged))
    if iterations.count > _MOST_ITERATIONS:
        raise UsageError("bad-iterations", f"{text!r} asks for {iterations.count:,} iterations; the most is 1,000,000")
    return iterations


def _number(digits: str, text: str) -> int:
    # Python itself refuses to read thousands of digits.
    number = int(digits) if len(digits) < 100 else _LAST_ITERATION + 1
    if number > _LAST_ITERATION:
        raise UsageError("bad-iterations", f"{text[:40]!r} asks for an iteration beyond {_LAST_ITERATION:,}")
    return number


def _merge(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in ranges:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
