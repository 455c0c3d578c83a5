"""FLOPs, bytes and messages of a step -> three times that it cannot be shorter than: compute, memory, communication.

The bounds overlap in hardware, so they are never added: the longest of them is the floor. The bandwidth of collectives
is one that was measured for the size of the message and the group; what links could carry is none, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from rocktools.devices.device import Bandwidth, Level, Peak
from rocktools.errors import UsageError
from rocktools.evidence import Evidence, weakest


class BoundKind(str, Enum):
    """What takes the time."""

    COMPUTE = "compute"
    MEMORY = "memory"
    COMMUNICATION = "communication"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """A time below which a step, or a kernel, cannot be.

    Attributes:
        kind: what takes it.
        of: of what, for people.
        duration_s: the bound.
        basis: the numbers that it is made of.
        evidence: the weakest of theirs.
    """

    kind: BoundKind
    of: str
    duration_s: float
    basis: str
    evidence: Evidence

    def share_of(self, measured_s: float) -> float:
        """The part of a measured time that the bound explains; of the compute bound it is the utilization."""
        return self.duration_s / measured_s


def compute_bound(
    useful_flop: int, *, devices_count: int, peak: Peak, of: str = "step", evidence: Evidence = Evidence.ANALYTIC
) -> LowerBound:
    """Useful FLOPs at the peaks of all devices.

    Args:
        useful_flop: of all devices.
        peak: of one device.
        evidence: of the FLOPs.

    Raises:
        UsageError: a number is not above 0.
    """
    _require_positive(useful_flop=useful_flop, devices_count=devices_count)
    return LowerBound(
        kind=BoundKind.COMPUTE,
        of=of,
        duration_s=useful_flop / devices_count / peak.flop_per_s,
        basis=f"{useful_flop / 1e12:,.1f} TFLOP / {devices_count} devices / {peak.flop_per_s / 1e12:,.1f} TFLOP/s "
        f"({peak.sparsity} {peak.dtype}, {peak.evidence})",
        evidence=weakest(evidence, peak.evidence),
    )


def memory_bound(
    traffic_bytes: float, *, bandwidth: Bandwidth, of: str = "step", evidence: Evidence = Evidence.ANALYTIC
) -> LowerBound:
    """Bytes of one device, of a step or of a kernel, at the bandwidth of their level.

    Args:
        evidence: of the bytes.

    Raises:
        UsageError: a number is not above 0, or the bandwidth is that of links.
    """
    _require_positive(traffic_bytes=traffic_bytes)
    if bandwidth.level is Level.NETWORK:
        raise UsageError("bandwidth-of-another-level", "traffic with memory is not held against links")
    return LowerBound(
        kind=BoundKind.MEMORY,
        of=of,
        duration_s=traffic_bytes / bandwidth.bytes_per_s,
        basis=f"{traffic_bytes / 1e9:,.3f} GB / {bandwidth.bytes_per_s / 1e12:.3f} TB/s "
        f"({bandwidth.level}, {bandwidth.evidence})",
        evidence=weakest(evidence, bandwidth.evidence),
    )


def communication_bound(
    bytes_per_device: float,
    *,
    bandwidth: Bandwidth,
    fixed_s: float = 0.0,
    of: str = "collectives",
    evidence: Evidence = Evidence.ANALYTIC,
) -> LowerBound:
    """A fixed time, and the bytes of one device at a bandwidth measured for such messages among these devices.

    Args:
        bytes_per_device: that each device sends.
        bandwidth: effective, of the network.
        fixed_s: latency of all messages together.
        evidence: of the bytes.

    Raises:
        UsageError: a number is not above 0, or the bandwidth is not measured, or not of the network.
    """
    _require_positive(bytes_per_device=bytes_per_device)
    if not 0 <= fixed_s < float("inf"):
        raise UsageError("bound-input", f"fixed_s must be at least 0, but is {fixed_s}")
    if bandwidth.evidence is not Evidence.MEASURED or bandwidth.level is not Level.NETWORK:
        raise UsageError(
            "bandwidth-not-measured",
            f"{bandwidth.name} at {bandwidth.bytes_per_s / 1e9:,.1f} GB/s is {bandwidth.evidence}, and collectives "
            "are held against what was measured for their size and group",
            where=bandwidth.source,
            hint="the bandwidth of such messages among these devices: rccl-tests, or `rocktools collectives`",
        )
    return LowerBound(
        kind=BoundKind.COMMUNICATION,
        of=of,
        duration_s=fixed_s + bytes_per_device / bandwidth.bytes_per_s,
        basis=f"{fixed_s * 1e6:g} µs + {bytes_per_device / 1e9:,.3f} GB / {bandwidth.bytes_per_s / 1e9:,.1f} GB/s "
        f"({bandwidth.source})",
        evidence=weakest(evidence, bandwidth.evidence),
    )


def effective_bandwidth(bytes_per_s: float, *, source: str) -> Bandwidth:
    """A measured bandwidth of collectives.

    Args:
        source: how it was measured.

    Raises:
        UsageError: it is not above 0.
    """
    _require_positive(bytes_per_s=bytes_per_s)
    return Bandwidth(
        level=Level.NETWORK,
        name="collectives",
        bytes_per_s=bytes_per_s,
        evidence=Evidence.MEASURED,
        source=source,
    )


def longest_bound(bounds: Iterable[LowerBound]) -> LowerBound:
    """The floor: the longest of bounds that may overlap. They are not added.

    Raises:
        UsageError: there is none.
    """
    found = max(bounds, key=lambda bound: bound.duration_s, default=None)
    if found is None:
        raise UsageError("no-bounds", "no bound is given")
    return found


def _require_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not 0 < number < float("inf"):
            raise UsageError("bound-input", f"{name} must be above 0, but is {number}")
