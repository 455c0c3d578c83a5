"""What weakens the points of a roofline: points above their roof, parts left out, refusals, shared ceilings."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from rocktools.devices.device import Device
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.roofline.verdict import Bound
from rocktools.roofline.work import TimeSource, WorkOrigin
from rocktools.units import count_noun, format_duration, format_ratio, format_si


def check_points(points: pd.DataFrame, device: Device, origin: WorkOrigin) -> Iterator[Finding]:
    """What weakens the points.

    Args:
        points: ROOFLINE.
    """
    above = points[(points["bound"] == str(Bound.ABOVE_ROOF)).to_numpy()]
    if len(above):
        yield _above_roof(above, len(points), device, origin)
    partly = points[(points["covered_ratio"] < 0.9) & points["refusal"].isna()]
    for name, ratio in zip(partly["name"], partly["covered_ratio"], strict=True):
        yield Finding(
            rule="point-of-a-part",
            severity=Severity.WARNING,
            where=str(name),
            message=f"FLOPs and bytes are known for {format_ratio(float(ratio))} of its time; the point is of these",
            numbers={"covered_ratio": float(ratio)},
            advice="counters know the rest: rocktools pmc",
        )
    refused = points[points["refusal"].notna()]
    if len(refused):
        total = int(points["sum_ns"].sum())
        lost = int(refused["sum_ns"].sum())
        yield Finding(
            rule="points-refused",
            severity=Severity.NOTE,
            where=device.label,
            message=f"{count_noun(len(refused), 'name')} of {len(points)} have no point "
            f"({format_duration(lost)} of known cost, of {format_duration(total)}); column `refusal` says why",
            numbers={"refused_count": len(refused), "refused_ns": lost},
        )
    if origin.time_source != TimeSource.TRACE:
        yield Finding(
            rule="times-of-a-counter-pass",
            severity=Severity.WARNING,
            where=device.label,
            message="times are those of a counter pass, in which kernels run one at a time, and not those of the job",
            advice="name the trace of the same job as well",
        )
    yield from _doubts_about_ceilings(device, origin)


def _doubts_about_ceilings(device: Device, origin: WorkOrigin) -> Iterator[Finding]:
    bandwidth = device.bandwidth(origin.level)
    if bandwidth.sharing_count > 1 and bandwidth.evidence is not Evidence.MEASURED:
        yield Finding(
            rule="bandwidth-is-shared",
            severity=Severity.WARNING,
            where=device.label,
            message=f"{format_si(bandwidth.bytes_per_s, 'B/s')} are shared by {bandwidth.sharing_count} logical "
            "devices: a point far below may be at its share",
            numbers={"sharing_count": bandwidth.sharing_count, "bytes_per_s": bandwidth.bytes_per_s},
        )


def _above_roof(above: pd.DataFrame, points_count: int, device: Device, origin: WorkOrigin) -> Finding:
    """All of them in one finding, by the one that lies highest."""
    by_estimate = origin.bytes_evidence is not Evidence.COUNTER
    highest = above.iloc[int(above["roof_ratio"].to_numpy().argmax())]
    ratio, side = float(highest["roof_ratio"]), str(highest["side"])
    if side == str(Bound.COMPUTE):
        cause = "FLOPs are over-counted, or were calculated in another format than the module says"
    elif by_estimate:
        cause = "caches served what the estimate counts as traffic, or a buffer is counted that was not touched"
    else:
        cause = "the memory-side cache served it: fabric bytes are an upper bound of HBM bytes"
    return Finding(
        rule="point-above-roof",
        severity=Severity.WARNING,
        where=device.label,
        message=f"{count_noun(len(above), 'name')} of {points_count} would have taken longer at their roof than they "
        f"did ({format_duration(int(above['union_ns'].sum()))}); {highest['name']} most: {format_ratio(ratio)} of its "
        f"time by the {side} roof. {cause}",
        numbers={"above_count": len(above), "points_count": points_count, "highest_ratio": ratio},
        advice="counters decide: rocktools pmc" if by_estimate else "",
    )
