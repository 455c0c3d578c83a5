"""Useful FLOPs of components and the times that they took -> useful rates: which component is far from the peak.

The times are sums of durations on one device, those of a ledger. So a rate is no roofline point: what a component
moves, and what it calculates again, is in its time and not in its FLOPs. Rematerialized work has no useful FLOPs, and
no rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rocktools.analytic.rates import useful_rate
from rocktools.analytic.useful_flop import FlopLedger
from rocktools.devices.device import Peak
from rocktools.evidence import Evidence

FORWARD, BACKWARD = "forward", "backward"

FLOP_COMPONENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "attention": ("attention projections", "attention core"),
        "router": ("router",),
        "expert_mlp": ("experts", "shared experts"),
        "mlp": ("mlp",),
        "lm_head": ("head",),
    }
)
"""Component of a component map -> components of a ledger of useful FLOPs. All others have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentTime:
    """How long a row of a ledger took.

    Attributes:
        phase: `forward` or `backward`.
        title: of the row.
        components: of the component map, that the row adds up.
        duration_s: summed, mean of devices and steps.
    """

    phase: str
    title: str
    components: tuple[str, ...]
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentRate:
    """The useful rate of a row.

    Attributes:
        phase, title, duration_s: as in `ComponentTime`.
        useful_flop: of all devices.
        flop_per_s: useful, of each device.
        peak_ratio: of the peak.
        evidence: the FLOPs are by formula.
    """

    phase: str
    title: str
    duration_s: float
    useful_flop: int
    flop_per_s: float
    peak_ratio: float
    evidence: Evidence = Evidence.ANALYTIC


def rate_components(
    times: Sequence[ComponentTime], ledger: FlopLedger, *, devices_count: int, peak: Peak
) -> tuple[ComponentRate, ...]:
    """Rates of the rows that have useful FLOPs and took time.

    Args:
        ledger: useful FLOPs of the step that was timed, of all devices.
        peak: of one device, of the format of the products.
    """
    known = {row.component for row in ledger.rows}
    rates = []
    for time in times:
        named = [name for component in time.components for name in FLOP_COMPONENTS.get(component, ()) if name in known]
        if not named or time.duration_s <= 0:
            continue
        row = ledger.row(*named)
        flop = row.forward_flop if time.phase == FORWARD else row.backward_flop
        rate = useful_rate(flop, devices_count=devices_count, duration_s=time.duration_s)
        rates.append(
            ComponentRate(
                phase=time.phase,
                title=time.title,
                duration_s=time.duration_s,
                useful_flop=flop,
                flop_per_s=rate,
                peak_ratio=rate / peak.flop_per_s,
            )
        )
    return tuple(rates)
