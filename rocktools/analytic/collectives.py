"""Payload and duration of a collective -> algorithm bandwidth and bus bandwidth.

The convention is that of the vendors' benchmarks (nccl-tests, doc/PERFORMANCE.md; rccl-tests has the same). Algorithm
bandwidth is payload over time; the payload is the larger of what one device puts in and gets out. Bus bandwidth is
that times a factor of the kind and of the number of devices n, chosen so that it compares with the speed of a link
whatever n is: what a device must at least send. For a payload S an all-reduce sends 2 S (n - 1) / n, an all-gather,
reduce-scatter or all-to-all S (n - 1) / n, a permutation or broadcast S.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rocktools.evidence import Evidence
from rocktools.units import NS_PER_S

_SHARED = ("all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all")
_WHOLE = ("collective-permute", "collective-broadcast", "send", "recv")
KINDS = ("all-reduce", *_SHARED, *_WHOLE)
"""Collectives that a factor is known for. The payload of a ragged all-to-all is an upper bound: its buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveBandwidth:
    """How fast a collective was.

    Attributes:
        algorithm_bytes_per_s: payload over time.
        bus_bytes_per_s: the same times the factor.
        factor_ratio: of the kind and the size of the group.
        evidence: the duration is measured, but the payload comes from the compiled program.
    """

    algorithm_bytes_per_s: float
    bus_bytes_per_s: float
    factor_ratio: float
    evidence: Evidence = Evidence.COMPILER_ESTIMATE


def bus_factor(kind: str, group_size: int) -> Fraction | None:
    """What a device must at least send, in payloads; None for a kind without a factor.

    Args:
        kind: opcode without `-start`.
        group_size: devices that take part together, at least 1. One alone sends nothing.
    """
    if kind in _WHOLE:
        return Fraction(1)
    share = Fraction(group_size - 1, group_size)
    if kind == "all-reduce":
        return 2 * share
    return share if kind in _SHARED else None


def sent_bytes(kind: str, payload_bytes: int, group_size: int) -> int | None:
    """The least that one device sends, rounded down; None for a kind without a factor."""
    factor = bus_factor(kind, group_size)
    return None if factor is None else int(payload_bytes * factor)


def collective_bandwidth(
    kind: str, *, payload_bytes: int, duration_ns: int, group_size: int
) -> CollectiveBandwidth | None:
    """Algorithm and bus bandwidth; None where the kind has no factor, or it took no time.

    Args:
        kind: opcode without `-start`.
        payload_bytes: the larger of what one device puts in and gets out.
        duration_ns: from the arrival of the last device to the end, where waiting is not to count; else of the kernel.
        group_size: devices that take part together.
    """
    factor = bus_factor(kind, group_size)
    if factor is None or duration_ns <= 0:
        return None
    algorithm = payload_bytes * NS_PER_S / duration_ns
    return CollectiveBandwidth(
        algorithm_bytes_per_s=algorithm,
        bus_bytes_per_s=float(algorithm * float(factor)),
        factor_ratio=float(factor),
    )
