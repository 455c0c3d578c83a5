"""ROOFLINE by instruction -> the time of points that one of the two ceilings bounds, and the largest of them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from rocktools.units import format_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTime:
    """Points that a ceiling bounds.

    Attributes:
        bound_ns: their time, per device and step.
        known_ns: time of all points that have a verdict.
        points_count: how many they are.
        largest: the one with most time; "" where there is none.
        largest_ns: its time, per device and step.
        largest_ratio: share of its time that the ceiling explains.
        intensity_flop_per_byte: of all of them together; None without FLOPs.
        evidence: of the weakest point, as text.
    """

    bound_ns: float
    known_ns: float
    points_count: int
    largest: str
    largest_ns: float
    largest_ratio: float
    intensity_flop_per_byte: float | None
    evidence: str


def bound_time(points: pd.DataFrame, bound: str, cells: int) -> BoundTime:
    """The points of ROOFLINE with this bound."""
    known = points[points["bound"].notna().to_numpy()]
    mine = known[(known["bound"] == bound).to_numpy()].sort_values("union_ns", ascending=False, kind="stable")
    flop, moved = (float(mine[name].fillna(0).sum()) for name in ("compute_flop", "moved_bytes"))
    first = None if mine.empty else mine.iloc[0]
    return BoundTime(
        bound_ns=float(mine["union_ns"].sum()) / cells,
        known_ns=float(known["union_ns"].sum()) / cells,
        points_count=len(mine),
        largest="" if first is None else str(first["name"]),
        largest_ns=0.0 if first is None else float(first["union_ns"]) / cells,
        largest_ratio=0.0 if first is None else float(first["roof_ratio"]),
        intensity_flop_per_byte=flop / moved if moved else None,
        evidence="" if first is None else str(first["evidence"]),
    )


def largest_text(found: BoundTime) -> str:
    """The largest point, and how much of its time the ceiling explains."""
    return f"{found.largest}, of whose time the ceiling explains {format_ratio(found.largest_ratio)}"
