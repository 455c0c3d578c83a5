"""ROOFLINE by instruction -> the time of points that one of the two ceilings bounds, and the largest of them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from rocktools.evidence import Evidence, weakest
from rocktools.units import count_noun, format_duration, format_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTime:
    """Points that a ceiling bounds.

    Attributes:
        bound_ns: their time, per device and step.
        points_count: how many they are.
        largest: the one with most time; "" where there is none.
        largest_ratio: share of its time that the ceiling explains.
        intensity_flop_per_byte: of those whose FLOPs and bytes are both known, together; None where there are none.
        evidence: the weakest of them; None where there is none.
    """

    bound_ns: float
    points_count: int
    largest: str
    largest_ratio: float
    intensity_flop_per_byte: float | None
    evidence: Evidence | None


def bound_time(points: pd.DataFrame, bound: str, cells: int) -> BoundTime:
    """The points of ROOFLINE with this bound."""
    known = points[points["bound"].notna().to_numpy()]
    mine = known[(known["bound"] == bound).to_numpy()].sort_values("union_ns", ascending=False, kind="stable")
    told = mine.dropna(subset=["compute_flop", "moved_bytes"])
    flop, moved = (float(told[name].sum()) for name in ("compute_flop", "moved_bytes"))
    first = None if mine.empty else mine.iloc[0]
    return BoundTime(
        bound_ns=float(mine["union_ns"].sum()) / cells,
        points_count=len(mine),
        largest="" if first is None else str(first["name"]),
        largest_ratio=0.0 if first is None else float(first["roof_ratio"]),
        intensity_flop_per_byte=flop / moved if moved else None,
        evidence=None if mine.empty else weakest(*(Evidence(str(each)) for each in mine["evidence"].unique())),
    )


def bound_message(found: BoundTime, step_ns: float, by: str, more: str = "") -> str:
    """How much of a step it is, in how many instructions, and the largest of them."""
    return (
        f"{format_duration(found.bound_ns)} of each step ({format_ratio(found.bound_ns / step_ns)}) is bound by {by}, "
        f"in {count_noun(found.points_count, 'instruction')}{more}; the largest is {found.largest}, of whose time the "
        f"ceiling explains {format_ratio(found.largest_ratio)}"
    )


def bound_numbers(found: BoundTime, step_ns: float) -> dict[str, int | float]:
    """What the message says, as numbers."""
    return {
        "bound_ns": found.bound_ns,
        "step_ns": step_ns,
        "share_ratio": found.bound_ns / step_ns,
        "points_count": found.points_count,
        "largest_roof_ratio": found.largest_ratio,
    }
