"""What rccl-tests or nccl-tests print -> bus bandwidth by size, and the ceiling of the network.

Rows are `size count type redop root` and twice `time algbw busbw #wrong`: out of place, then in place. Times are in
microseconds, bandwidths in GB/s (10^9). Launchers put ranks before lines (`0: `, `[1,0]<stdout>:`), and other output
between them. Bus bandwidth is defined by the tests (doc/PERFORMANCE.md) as in `rocktools.analytic.collectives`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocktools.devices.device import Bandwidth, Level
from rocktools.errors import NothingToRead
from rocktools.evidence import Evidence

_GIGA = 1e9
_NUMBER = r"(\d+(?:\.\d+)?)"
_WRONG = r"(\d+(?:e[+-]?\d+)?|N/A)"
_ROW = re.compile(
    rf"(?:^|[\s:>])(\d+)\s+(\d+)\s+([a-z]\w*)\s+(\w+)\s+(-?\d+)\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+{_WRONG}"
    rf"(?:\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+{_WRONG})?\s*$"
)
_KIND = re.compile(r"Collective test (?:starting|concluded): (\w+?)_perf")
_RANK = re.compile(r"#\s+Rank\s+\d+\s.*\bPid\b")
_HEAD = re.compile(r"#\s+size\s+count\s+type\b.*\balgbw\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedSize:
    """One row of the test.

    Attributes:
        size_bytes: of the message.
        bus_bytes_per_s: the better of out of place and in place.
        is_right: whether the results were checked and right, or not checked.
    """

    size_bytes: int
    bus_bytes_per_s: float
    is_right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTest:
    """A sweep over sizes.

    Attributes:
        kind: `all_reduce`, ...; "" where the output does not say.
        ranks_count: devices that took part; 0 where the output does not say.
        sizes: in ascending order of size.
        source: the file.
    """

    kind: str
    ranks_count: int
    sizes: tuple[TestedSize, ...]
    source: str

    @property
    def best(self) -> TestedSize:
        return max(self.sizes, key=lambda row: row.bus_bytes_per_s)

    def bus_bytes_per_s(self, size_bytes: int) -> float:
        """Of the nearest tested size that is not smaller; of the largest for messages above it."""
        fitting = next((row for row in self.sizes if row.size_bytes >= size_bytes), self.sizes[-1])
        return fitting.bus_bytes_per_s

    def bandwidth(self) -> Bandwidth:
        """The highest bus bandwidth as the ceiling of the network."""
        best = self.best
        what = " ".join(
            filter(None, (self.kind.replace("_", "-"), f"of {self.ranks_count}" if self.ranks_count else ""))
        )
        return Bandwidth(
            level=Level.NETWORK,
            name=what or "collective",
            bytes_per_s=best.bus_bytes_per_s,
            evidence=Evidence.MEASURED,
            source=f"rccl-tests, {self.source}",
            note=f"bus bandwidth at {best.size_bytes:,} bytes",
        )


def looks_like_collective_test(text: str) -> bool:
    """Whether the heading of the table is in it."""
    return _HEAD.search(text) is not None


def parse_collective_test(text: str, *, source: str) -> CollectiveTest:
    """The sweep that was printed; rows with wrong results are left out.

    Raises:
        NothingToRead: there is no row with a bandwidth and right results.
    """
    rows = [found for line in text.splitlines() if (found := _ROW.search(line)) is not None]
    sizes = [row for row in map(_tested, rows) if row.is_right and row.bus_bytes_per_s > 0]
    if not sizes:
        wrong = f"; {len(rows)} rows have wrong results or no bandwidth" if rows else ""
        raise NothingToRead("collective-test-empty", f"the test gives no bandwidth{wrong}", where=source)
    kind = _KIND.search(text)
    return CollectiveTest(
        kind=kind[1] if kind else "",
        ranks_count=sum(_RANK.search(line) is not None for line in text.splitlines()),
        sizes=tuple(sorted(sizes, key=lambda row: row.size_bytes)),
        source=source,
    )


def _tested(row: re.Match[str]) -> TestedSize:
    bandwidths = [float(row[index]) for index in (8, 12) if row[index] is not None]
    return TestedSize(
        size_bytes=int(row[1]),
        bus_bytes_per_s=max(bandwidths) * _GIGA,
        is_right=all(row[index] in (None, "0", "0e+00", "N/A") for index in (9, 13)),
    )
