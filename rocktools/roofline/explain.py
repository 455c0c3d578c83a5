"""Why is it bound by memory? A point of ROOFLINE -> the same in sentences, with every number and its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rocktools.devices.device import Level, Unit, find_dtype_family
from rocktools.errors import UsageError, nearest_names
from rocktools.roofline.points import Roofline
from rocktools.roofline.verdict import BOUND_RATIO, Bound
from rocktools.units import count_noun, format_duration, format_ratio, format_si

_UNEXPLAINED = (
    "waiting for data (latency), too few waves, launch overhead, uneven work, or something else on the device"
)


def explain_point(roofline: Roofline, name: str) -> list[str]:
    """Lines for people, for every run that has the name.

    Raises:
        UsageError: there is no such name; the nearest ones are listed.
    """
    points = roofline.points
    found = points[(points["name"] == name).to_numpy()]
    if not len(found):
        near = nearest_names(name, map(str, points["name"].unique()))
        raise UsageError(
            "unknown-point",
            f"no point is called {name!r}",
            hint=", ".join(near) or "run it without --explain for a list",
        )
    lines: list[str] = []
    for _, row in found.iterrows():
        lines += _explain(roofline, row.to_dict())
    return lines


def _explain(roofline: Roofline, row: Mapping[str, Any]) -> list[str]:
    lines = [f"{row['name']}  ({row['run']}, {roofline.device.label}, level {roofline.origin.level})"]
    lines.append(f"  {roofline.origin.sentence}")
    lines.append(
        f"  time: {format_duration(row['union_ns'])} covered by {count_noun(int(row['executions_count']), 'execution')}"
        f" of known cost on {count_noun(int(row['devices_count']), 'device')}"
        f" ({format_ratio(row['covered_ratio'])} of all its time"
        f"; {format_ratio(row['certain_ratio'])} of that certain to belong to it)"
    )
    for what, column, unit in (("FLOPs", "compute_flop", "FLOP"), ("bytes", "moved_bytes", "B")):
        value = row[column]
        shown = "unknown" if pd.isna(value) else f"{format_si(float(value), unit)} ({int(value):,})"
        mix = f": {row['mix']}" if what == "FLOPs" and pd.notna(row["mix"]) else ""
        lines.append(f"  {what}: {shown}{mix}")
    if pd.notna(row["refusal"]):
        return [*lines, f"  no point: {row['refusal']}"]
    return [*lines, *_ceilings(roofline, row), *_verdict(roofline, row)]


def _ceilings(roofline: Roofline, row: Mapping[str, Any]) -> list[str]:
    """Both roofs with their sources."""
    bandwidth = roofline.device.bandwidth(roofline.origin.level)
    lines = []
    if pd.notna(row["peak_flop_per_s"]):
        lines.append(
            f"  arithmetic takes at least {format_duration(row['compute_bound_ns'])}: "
            f"{format_si(row['peak_flop_per_s'], 'FLOP/s')} is the ceiling of this mix; it achieved "
            f"{format_si(row['achieved_flop_per_s'], 'FLOP/s')}, {format_ratio(row['peak_ratio'])}"
        )
        lines += [f"    {text}" for text in _peaks(roofline, str(row["mix"]))]
    lines.append(
        f"  traffic takes at least {format_duration(row['traffic_bound_ns'])}: "
        f"{format_si(bandwidth.bytes_per_s, 'B/s')} is the ceiling of {bandwidth.name}; it achieved "
        f"{format_si(row['achieved_bytes_per_s'], 'B/s')}, {format_ratio(row['bandwidth_ratio'])}"
    )
    note = f"; {bandwidth.note}" if bandwidth.note else ""
    lines.append(f"    {bandwidth.evidence}: {bandwidth.source}{note}")
    if pd.notna(row["ridge_flop_per_byte"]) and pd.notna(row["intensity_flop_per_byte"]):
        side = "below" if row["intensity_flop_per_byte"] < row["ridge_flop_per_byte"] else "above"
        lines.append(
            f"  intensity: {row['intensity_flop_per_byte']:.4g} FLOP/B, {side} the ridge at "
            f"{row['ridge_flop_per_byte']:.4g} FLOP/B"
        )
    return lines


def _peaks(roofline: Roofline, mix: str) -> list[str]:
    """Source of the peak of every format in the mix."""
    lines = []
    for part in mix.split(", "):
        dtype, unit = part.split(" ")[:2]
        is_known = unit in tuple(map(str, Unit)) and find_dtype_family(dtype) is not None
        peak = roofline.device.find_peak(dtype, unit) if is_known else None
        if peak is not None:
            note = f"; {peak.note}" if peak.note else ""
            lines.append(
                f"{dtype} {unit}: {format_si(peak.flop_per_s, 'FLOP/s')}, {peak.evidence}: {peak.source}{note}"
            )
    return lines


def _verdict(roofline: Roofline, row: Mapping[str, Any]) -> list[str]:
    side, bound = str(row["side"]), str(row["bound"])
    share = format_ratio(row["roof_ratio"])
    if bound == str(Bound.ABOVE_ROOF):
        text = f"above the {side} roof ({share} of the time is asked for): a number or a ceiling is wrong, no verdict"
    elif bound == str(Bound.NEITHER):
        text = (
            f"bound by neither: the {side} roof explains {share} of the time, less than {format_ratio(BOUND_RATIO)}; "
            f"look for {_UNEXPLAINED}"
        )
    else:
        text = f"{bound}-bound: the {side} roof explains {share} of the time"
    lines = [f"  {text}"]
    if row["headroom_ns"] > 0:
        lines.append(f"  headroom: {format_duration(row['headroom_ns'])}, if it ran at that roof")
    if roofline.origin.level is Level.HBM and str(row["side"]) == str(Bound.MEMORY):
        lines.append(f"  the bytes are {roofline.origin.bytes_label}; the true HBM traffic may be less")
    return lines
