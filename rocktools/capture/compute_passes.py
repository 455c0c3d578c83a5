"""How many times rocprof-compute runs an application to count what is asked for: an estimate with its evidence.

Figures are those of the planner of August 2025 (3.3), run with ten different hash seeds: the same each time. Later
releases regroup counters, so for them they are only near.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rocktools.capture.compute_versions import ComputeVersion, compute_facts
from rocktools.errors import CaptureError
from rocktools.evidence import Evidence

DEFAULT_BLOCKS: tuple[str, ...] = ()
_COUNTED_RELEASE = (3, 3)
_ARCHITECTURES = ("gfx950", "gfx942", "gfx90a")
# Architecture -> blocks asked for -> runs. No blocks: everything.
_COUNTED: Mapping[str, Mapping[frozenset[str], int]] = {
    "gfx950": {
        frozenset(): 20,
        frozenset({"2"}): 6,
        frozenset({"2", "4", "7", "10", "11"}): 9,
        frozenset({"10", "11", "16", "17"}): 15,
    },
    "gfx942": {frozenset(): 12, frozenset({"10", "11", "16", "17"}): 9},
    "gfx90a": {frozenset(): 12},
}
_ROOFLINE_RUNS = 3
_SET_RUNS = 1
# Launches for each pass, beside those that the estimate names, so that a pass more than expected still finds its own.
_LAUNCHES_MARGIN = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesEstimate:
    """How often an application is started, and how many passes that serves.

    Attributes:
        runs_count: starts of the application.
        passes_count: groups of counters; with multiplexing all of them share one run.
        evidence: DECLARED where the vendor's planner said so, INFERRED where it is carried over.
        basis: where the figure comes from, in words.
    """

    runs_count: int
    passes_count: int
    evidence: Evidence
    basis: str

    @property
    def launches_needed_count(self) -> int:
        """Launches of the kernel in one run that multiplexing needs: one for each pass, and some more."""
        return math.ceil(self.passes_count * _LAUNCHES_MARGIN)


def estimate_passes(
    version: ComputeVersion,
    architecture: str,
    *,
    blocks: tuple[str, ...] = DEFAULT_BLOCKS,
    set_name: str | None = None,
    multiplexes: bool = False,
    is_roofline: bool = False,
) -> PassesEstimate:
    """Runs of the application for one workload.

    Args:
        version: of rocprof-compute.
        architecture: of the GPU, such as gfx950.
        blocks: as for `--block`; none for everything.
        set_name: as for `--set`.
        multiplexes: whether all passes share one run.
        is_roofline: the run for peaks, `--roof-only`.

    Raises:
        CaptureError: the version is not known, or has no multiplexing.
    """
    facts = compute_facts(version)
    if multiplexes and not facts.has_multiplexing:
        raise CaptureError(
            "compute-no-multiplexing",
            f"rocprof-compute {version} cannot count all passes in one run of the application",
            hint="use 3.5 or later, or leave multiplexing out",
        )
    if set_name is not None:
        passes_count, is_exact, what = _SET_RUNS, True, "one set is one pass"
    elif is_roofline:
        passes_count, is_exact, what = _ROOFLINE_RUNS, True, "the counters of a roofline"
    else:
        passes_count, is_exact, what = _block_passes(architecture, blocks)
    is_exact = is_exact and facts.release == _COUNTED_RELEASE
    basis = f"{what}, as 3.3 plans it" + (
        "" if facts.release == _COUNTED_RELEASE else f", carried over to {facts.name}"
    )
    return PassesEstimate(
        runs_count=1 if multiplexes else passes_count,
        passes_count=passes_count,
        evidence=Evidence.DECLARED if is_exact else Evidence.INFERRED,
        basis=basis,
    )


def _block_passes(architecture: str, blocks: tuple[str, ...]) -> tuple[int, bool, str]:
    """Passes, whether exactly this was counted, and what was."""
    name = architecture.partition(":")[0]
    known = _COUNTED.get(name)
    if known is None:
        known, name = _COUNTED["gfx950"], f"gfx950 (nothing is known of {name})"
    is_known = architecture.partition(":")[0] in _COUNTED
    panels = frozenset(block.partition(".")[0] for block in blocks)
    wanted = frozenset(blocks)
    if wanted in known:
        what = f"blocks {' '.join(blocks)}" if blocks else "everything"
        return known[wanted], is_known, f"{what} on {name}"
    # A part of a block needs at most what the block needs; blocks that nobody counted need at most everything.
    covering = [(count, counted) for counted, count in known.items() if counted and panels <= counted]
    if covering and all(panel.isdecimal() for panel in panels):
        count, counted = min(covering, key=lambda entry: entry[0])
        return count, False, f"at most that of blocks {' '.join(sorted(counted, key=int))} on {name}"
    return known[frozenset()], False, f"at most that of everything on {name}"
