"""Which version of rocprof-compute made a result: its own word, or what the layout of the files leaves possible.

Databases state it. Folders of workloads do not (`version` in sysinfo.csv is that of the file's layout): there the names
of files and columns tell a range. Versions that do the same things the same way make an era:

* before 3.5, bytes that gfx950 reads were counted as half of what they are;
* before 3.7, the roofline took 64 bytes for each line of the vector cache and of L2 (since then 128 on gfx942 and
  gfx950, so that the same kernel has half the intensity), and ratios were means over the ratios of the launches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_VERSION = re.compile(r"\s*v?(\d{1,3})\.(\d{1,3})(?:\.\d{1,4})?(?:[-+. ].*)?", re.DOTALL)
_OPTION = re.compile(r"^(\w+):", re.MULTILINE)
_FIRST = (0, 0)
_LAST = (999, 999)
LINES_OF_128_BYTES = (3, 7)
"""The version since which the roofline takes 128 bytes for a line, and ratios are sums over sums."""
WHOLE_READS = (3, 5)
"""The version since which bytes that gfx950 reads are whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolVersion:
    """The versions that can have made a result.

    Attributes:
        text: the version as the tool states it; None where only a range is known.
        least, below: (major, minor) of the first version that can, and of the first that cannot any more.
        said_by: what says so.
    """

    text: str | None
    least: tuple[int, int]
    below: tuple[int, int]
    said_by: str

    @property
    def label(self) -> str:
        """For a table: `3.5.0`, `3.7 or later`, `before 3.6`, `unknown`."""
        if self.text is not None:
            return self.text
        least, below = (".".join(map(str, each)) for each in (self.least, self.below))
        if self.least > _FIRST and self.below < _LAST:
            return f"{least} or later, before {below}"
        if self.least > _FIRST:
            return f"{least} or later"
        return f"before {below}" if self.below < _LAST else "unknown"

    def is_since(self, version: tuple[int, int]) -> bool | None:
        """Whether it is that version or a later one; None where both are possible."""
        if self.least >= version:
            return True
        return False if self.below <= version else None

    def narrowed(self, other: ToolVersion) -> ToolVersion:
        """What both leave possible; itself where it is stated, or where they contradict each other."""
        least, below = max(self.least, other.least), min(self.below, other.below)
        if self.text is not None or least >= below:
            return self
        if other.text is not None:
            return other
        said = self if (self.least, self.below) == (least, below) else other
        text = said.said_by if (said.least, said.below) == (least, below) else f"{self.said_by}, {other.said_by}"
        return ToolVersion(text=None, least=least, below=below, said_by=text)


UNKNOWN_VERSION = ToolVersion(text=None, least=_FIRST, below=_LAST, said_by="nothing")


def parse_tool_version(text: str, *, said_by: str) -> ToolVersion | None:
    """The version that a text states (`3.5.0`); None where it is none."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    version = int(match[1]), int(match[2])
    return ToolVersion(text=text.strip(), least=version, below=(version[0], version[1] + 1), said_by=said_by)


def version_by_layout(folder: Path, columns: frozenset[str] = frozenset()) -> ToolVersion:
    """The versions that write a workload's folder like this; unknown where what is there was never written together.

    Args:
        columns: of its sysinfo.csv.
    """
    least, below, said = _FIRST, _LAST, []
    for sign, is_there, first, end in _signs(folder, columns):
        if is_there:
            least, below = max(least, first), min(below, end)
            said.append(sign)
    if not said or least >= below:
        return UNKNOWN_VERSION
    return ToolVersion(text=None, least=least, below=below, said_by=", ".join(said))


def _signs(folder: Path, columns: frozenset[str]) -> Iterator[tuple[str, bool, tuple[int, int], tuple[int, int]]]:
    """What tells versions apart: in words, whether it is there, the first version that can, the first that cannot."""
    perfmon = folder / "perfmon"
    has_texts = any(perfmon.glob("*.txt"))
    options = _options(folder / "profiling_config.yaml")
    yield "perfmon/*.txt", has_texts, _FIRST, (3, 6)
    # Files of the same name defined counters of channels before.
    yield "perfmon/pmc_perf_*.yaml", any(perfmon.glob("pmc_perf_*.yaml")) and not has_texts, (3, 6), _LAST
    yield "results_pmc_perf_*.csv", any(folder.glob("results_pmc_perf_*.csv*")), (3, 6), _LAST
    yield "num_hbm_channels in sysinfo.csv", "num_hbm_channels" in columns, _FIRST, (3, 8)
    yield "num_memory_channels in sysinfo.csv", "num_memory_channels" in columns, (3, 8), _LAST
    yield "hip_trace in profiling_config.yaml", "hip_trace" in options, _FIRST, (3, 6)
    yield "bench_only in profiling_config.yaml", "bench_only" in options, (3, 7), _LAST


def _options(path: Path) -> frozenset[str]:
    """Options of the run, as the tool noted them."""
    try:
        return frozenset(_OPTION.findall(path.read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return frozenset()
