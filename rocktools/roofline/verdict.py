"""Three times -> what bounds a point: how long it took, how long arithmetic and traffic would take at the ceilings.

The larger of the two lower bounds is the roof; the share of the time that it explains is how near the point is to it.
From 60 % on the bound is named (the threshold of Nsight Compute's "speed of light" rule); below, neither of the two
explains the time, and the cause is another: latency, occupancy, launch overhead, waiting. Bounds overlap in hardware,
so they are never added.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

BOUND_RATIO = 0.6
IMPOSSIBLE_RATIO = 1.02  # clocks boost a little, and clocks of host and device differ


class Bound(str, Enum):
    """What bounds a point."""

    COMPUTE = "compute"
    MEMORY = "memory"
    NETWORK = "network"
    NEITHER = "neither"
    ABOVE_ROOF = "above_roof"  # faster than the ceilings allow: a number or a ceiling is wrong

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What bounds a point, with the numbers.

    Attributes:
        side: the roof over the point: the larger of the two lower bounds.
        bound: the side, where it explains the time.
        roof_ratio: share of the time that the roof explains.
        headroom_ns: time above the roof; negative where the point is above it.
    """

    side: Bound
    bound: Bound
    roof_ratio: float
    headroom_ns: float


def judge(*, time_ns: float, compute_ns: float, traffic_ns: float, traffic: Bound = Bound.MEMORY) -> Verdict:
    """The verdict.

    Args:
        time_ns: what it took, above 0.
        compute_ns: FLOPs at the peaks of their formats.
        traffic_ns: bytes at the bandwidth of their level.
        traffic: what the level is called.
    """
    side = Bound.COMPUTE if compute_ns >= traffic_ns else traffic
    roof_ns = max(compute_ns, traffic_ns)
    ratio = roof_ns / time_ns
    if ratio > IMPOSSIBLE_RATIO:
        bound = Bound.ABOVE_ROOF
    else:
        bound = side if ratio >= BOUND_RATIO else Bound.NEITHER
    return Verdict(side=side, bound=bound, roof_ratio=ratio, headroom_ns=time_ns - roof_ns)
