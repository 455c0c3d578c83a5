"""ROOFLINE_WORK and a device -> ROOFLINE: one point per name, its ceilings, and what bounds it.

A point is the sum of FLOPs and of bytes over the executions whose cost is known, over the union of their intervals on
each device, devices added up: so rates are those of one device. What is not known is left out of all three, and the
share of time that was left is beside the point.

The ceiling of arithmetic is that of the point's own mix: FLOPs of each format at the peak of that format; matrix and
vector units work at once, so the slower of the two counts. Never is one peak held against another format.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from rocktools.devices.device import Device, Level, Unit, dtype_family, find_dtype_family
from rocktools.evidence import weakest
from rocktools.findings import Finding
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.intervals import union_length
from rocktools.roofline.doubts import check_points
from rocktools.roofline.verdict import Bound, Verdict, judge
from rocktools.roofline.work import WorkOrigin
from rocktools.units import NS_PER_S, format_ratio

_NO_POINT = "`refusal` says why"
_NO_FLOP = "no FLOPs"

ROOFLINE = FrameSpec(
    name="ROOFLINE",
    meaning="One row per kernel, instruction, component or replay: its point, its ceilings, and what bounds it.",
    key=("run", "name"),
    sort=("run", "name"),
    columns=(
        Column("run", "category", "label of the run"),
        Column("name", "category", "kernel, instruction, component or replay"),
        Column("mix", "category", "formats that were calculated in, with their share of the FLOPs", _NO_FLOP),
        Column("union_ns", "int64", "time covered by executions of known cost, of each device, devices added up"),
        Column("sum_ns", "int64", "durations of the same executions added up"),
        Column("covered_ratio", "float64", "share of all its durations that have a known cost", "it took no time"),
        Column("certain_ratio", "float64", "share of `sum_ns` that is certain to belong to it", "it took no time"),
        Column("executions_count", "int64", "executions of known cost"),
        Column("devices_count", "int64", "devices that it ran on"),
        Column("compute_flop", "Int64", "floating-point operations", "unknown"),
        Column("moved_bytes", "Int64", "bytes through the level", "unknown"),
        Column("intensity_flop_per_byte", "float64", "FLOPs over bytes", "no bytes, or unknown"),
        Column("achieved_flop_per_s", "float64", "FLOPs over union", _NO_POINT),
        Column("achieved_bytes_per_s", "float64", "bytes over union", _NO_POINT),
        Column("peak_flop_per_s", "float64", "ceiling of arithmetic for this mix", "no FLOPs, or no peak is known"),
        Column("bandwidth_bytes_per_s", "float64", "ceiling of traffic at the level"),
        Column("ridge_flop_per_byte", "float64", "where the two ceilings meet", "no FLOPs, or no peak is known"),
        Column("roof_flop_per_s", "float64", "the lower of both ceilings at this intensity", "no FLOPs, or no point"),
        Column("peak_ratio", "float64", "achieved over the ceiling of arithmetic", "no FLOPs, or no point"),
        Column("bandwidth_ratio", "float64", "achieved over the ceiling of traffic", _NO_POINT),
        Column("roof_ratio", "float64", "share of the time that the roof explains", _NO_POINT),
        Column("compute_bound_ns", "float64", "least time that arithmetic takes, devices added up", _NO_POINT),
        Column("traffic_bound_ns", "float64", "least time that traffic takes, devices added up", _NO_POINT),
        Column("headroom_ns", "float64", "union minus the larger of the two", _NO_POINT),
        Column("side", "category", "the roof over the point: compute, memory or network", _NO_POINT),
        Column("bound", "category", "the side where it explains the time, neither, or above_roof", _NO_POINT),
        Column("evidence", "category", "the weakest of FLOPs and bytes", "no point"),
        Column("refusal", "category", "why there is no point", "there is one"),
    ),
)

_PURE_RATIO = 0.95  # of a point's FLOPs must be in a format that the user asked for
_NEGLIGIBLE_RATIO = 0.02  # of its FLOPs may be in a format without a peak


@dataclass(frozen=True, slots=True, kw_only=True)
class PointOptions:
    """What the user may choose.

    Attributes:
        dtype: the format that points must be in; None: each its own.
        sparsity: `dense`, or `2:4` where the kernels use it.
    """

    dtype: str | None = None
    sparsity: str = "dense"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Roofline:
    """Points under their ceilings.

    Attributes:
        points: ROOFLINE, by time.
        device: whose ceilings they are.
        origin: where the numbers come from.
        dtypes: (unit, format) of the ceilings that points were held against, most FLOPs first.
        sparsity: of those ceilings.
        findings: what is doubtful.
    """

    points: pd.DataFrame
    device: Device
    origin: WorkOrigin
    dtypes: tuple[tuple[str, str], ...]
    sparsity: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mix:
    """FLOPs by unit and format, and the least time they take."""

    flop: Mapping[tuple[str, str], int]
    compute_ns: float
    without_peak: tuple[str, ...]
    without_peak_ratio: float

    @property
    def text(self) -> str | None:
        total = sum(self.flop.values())
        ordered = sorted(self.flop.items(), key=lambda item: -item[1])
        parts = [f"{dtype} {unit} {format_ratio(flop / total)}" for (unit, dtype), flop in ordered if flop]
        return ", ".join(parts) or None


def build_roofline(
    work: pd.DataFrame, device: Device, origin: WorkOrigin, options: PointOptions | None = None
) -> Roofline:
    """The points of all names, the longest first.

    Args:
        work: ROOFLINE_WORK.
        device: that the work ran on, in its partition, with measured ceilings where there are some.
        origin: where the numbers of `work` come from.

    Raises:
        UsageError: no peak is stated for the format asked for, or no bandwidth for the level.
    """
    chosen = options or PointOptions()
    wanted = None if chosen.dtype is None else dtype_family(chosen.dtype)
    builder = _Builder(device=device, origin=origin, wanted=wanted, sparsity=chosen.sparsity)
    device.bandwidth(origin.level)
    names = ["run", "name"]
    groups = work.groupby(names, observed=True, sort=True)
    rows = [builder.point(str(run), str(name), group) for (run, name), group in groups]
    frame = _frame(rows)
    order = np.argsort(-frame["union_ns"].to_numpy(), kind="stable")
    points = frame.iloc[order].reset_index(drop=True)
    used = sorted(builder.used.items(), key=lambda item: -item[1])
    return Roofline(
        points=points,
        device=device,
        origin=origin,
        dtypes=tuple(key for key, _ in used),
        sparsity=chosen.sparsity,
        findings=tuple(check_points(points, device, origin)),
    )


@dataclass(slots=True, kw_only=True)
class _Builder:
    """What all points share; `used` collects the FLOPs by unit and format."""

    device: Device
    origin: WorkOrigin
    wanted: str | None
    sparsity: str
    used: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def point(self, run: str, name: str, rows: pd.DataFrame) -> dict[str, object]:
        """One row of ROOFLINE."""
        durations = (rows["end_ns"] - rows["start_ns"]).to_numpy(dtype=np.int64)
        is_counted = rows["is_counted"].to_numpy(dtype=np.bool_)
        counted = rows[is_counted]
        sum_ns, all_ns = int(durations[is_counted].sum()), int(durations.sum())
        certain = int(durations[is_counted & rows["is_certain"].to_numpy(dtype=np.bool_)].sum())
        union_ns = sum(
            union_length(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
            for _, own in counted.groupby("device", observed=True)
        )
        mix = self._mix(counted)
        flop = int(sum(mix.flop.values())) if counted["compute_flop"].notna().any() else None
        moved = int(counted["moved_bytes"].sum()) if counted["moved_bytes"].notna().any() else None
        bandwidth = self.device.bandwidth(self.origin.level).bytes_per_s
        facts: dict[str, object] = {
            "run": run,
            "name": name,
            "mix": mix.text,
            "union_ns": union_ns,
            "sum_ns": sum_ns,
            "covered_ratio": sum_ns / all_ns if all_ns else float("nan"),
            "certain_ratio": certain / sum_ns if sum_ns else float("nan"),
            "executions_count": int((is_counted & rows["is_execution"].to_numpy(dtype=np.bool_)).sum()),
            "devices_count": rows["device"].nunique(),
            "compute_flop": flop,
            "moved_bytes": moved,
            "intensity_flop_per_byte": flop / moved if flop is not None and moved else float("nan"),
            "bandwidth_bytes_per_s": bandwidth,
        }
        refusal = self._refuse(mix, union_ns, flop, moved)
        if refusal is not None:
            return {**facts, "refusal": refusal}
        for key, value in mix.flop.items():
            self.used[key] += value
        return {**facts, **self._judged(mix, union_ns, flop or 0, moved or 0, bandwidth)}

    def _judged(self, mix: _Mix, union_ns: int, flop: int, moved: int, bandwidth: float) -> dict[str, object]:
        traffic_ns = moved / bandwidth * NS_PER_S
        level = Bound.NETWORK if self.origin.level is Level.NETWORK else Bound.MEMORY
        verdict: Verdict = judge(time_ns=union_ns, compute_ns=mix.compute_ns, traffic_ns=traffic_ns, traffic=level)
        peak = flop / mix.compute_ns * NS_PER_S if mix.compute_ns else float("nan")
        roof_ns = max(mix.compute_ns, traffic_ns)
        return {
            "achieved_flop_per_s": flop / union_ns * NS_PER_S,
            "achieved_bytes_per_s": moved / union_ns * NS_PER_S,
            "peak_flop_per_s": peak,
            "ridge_flop_per_byte": peak / bandwidth,
            "roof_flop_per_s": flop / roof_ns * NS_PER_S if flop and roof_ns else float("nan"),
            "peak_ratio": mix.compute_ns / union_ns if flop else float("nan"),
            "bandwidth_ratio": traffic_ns / union_ns,
            "roof_ratio": verdict.roof_ratio,
            "compute_bound_ns": mix.compute_ns,
            "traffic_bound_ns": traffic_ns,
            "headroom_ns": verdict.headroom_ns,
            "side": str(verdict.side),
            "bound": str(verdict.bound),
            "evidence": str(weakest(self.origin.flop_evidence, self.origin.bytes_evidence)),
        }

    def _mix(self, counted: pd.DataFrame) -> _Mix:
        """FLOPs at the peaks of their formats."""
        flop = _flop_by_kind(counted)
        seconds: dict[str, float] = defaultdict(float)
        without: list[str] = []
        lacking = 0
        for (unit, dtype), value in flop.items():
            peak = self.device.find_peak(dtype, unit, self._sparsity(unit)) if _is_known(unit, dtype) else None
            if peak is None:
                without.append(f"{dtype} {unit}")
                lacking += value
            else:
                seconds[unit] += value / peak.flop_per_s
        total = sum(flop.values())
        return _Mix(
            flop=flop,
            compute_ns=max(seconds.values(), default=0.0) * NS_PER_S,
            without_peak=tuple(without),
            without_peak_ratio=lacking / total if total else 0.0,
        )

    def _sparsity(self, unit: str) -> str:
        """Vector units know no sparsity."""
        return self.sparsity if unit == str(Unit.MATRIX) else "dense"

    def _refuse(self, mix: _Mix, union_ns: int, flop: int | None, moved: int | None) -> str | None:
        """Why there can be no point."""
        if flop is None and moved is None:
            return "neither FLOPs nor bytes are known"
        if moved is None:
            return f"bytes at the level {self.origin.level} are not known"
        if flop is None and self.origin.level is not Level.NETWORK:
            return "FLOPs are not known"
        if union_ns <= 0:
            return "it took no time"
        if mix.without_peak_ratio > _NEGLIGIBLE_RATIO:
            return f"{self.device.part} has no peak of {' and '.join(mix.without_peak)}"
        if not flop and not moved:
            return "nothing was calculated and nothing moved"
        if self.wanted is not None:
            total = sum(mix.flop.values())
            share = (
                sum(value for (_, dtype), value in mix.flop.items() if dtype == self.wanted) / total if total else 0.0
            )
            if share < _PURE_RATIO:
                return (
                    f"only {format_ratio(share)} of its FLOPs are {self.wanted}"
                    if total
                    else f"no FLOPs in {self.wanted}"
                )
        return None


def _flop_by_kind(counted: pd.DataFrame) -> dict[tuple[str, str], int]:
    """FLOPs by unit and format; what is not known of either is `unknown`."""
    values = counted["compute_flop"].fillna(0).to_numpy(dtype=np.int64)
    units, dtypes = counted["unit"].cat, counted["dtype"].cat
    codes = (units.codes.to_numpy().astype(np.int64) + 1) * (len(dtypes.categories) + 1) + dtypes.codes.to_numpy() + 1
    distinct, of = np.unique(codes, return_inverse=True)
    sums = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(sums, of, values)
    found: dict[tuple[str, str], int] = defaultdict(int)
    for code, value in zip(distinct.tolist(), sums.tolist(), strict=True):
        unit, dtype = divmod(code, len(dtypes.categories) + 1)
        if value:
            said = str(dtypes.categories[dtype - 1]) if dtype else "unknown"
            found[str(units.categories[unit - 1]) if unit else "unknown", find_dtype_family(said) or said] += value
    return dict(found)


def _is_known(unit: str, dtype: str) -> bool:
    return unit in tuple(map(str, Unit)) and find_dtype_family(dtype) is not None


def _frame(rows: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    """ROOFLINE of rows in which what is missing may be left out."""
    columns: dict[str, object] = {}
    for column in ROOFLINE.columns:
        values = [row.get(column.name) for row in rows]
        if column.dtype == "Int64":
            numbers = np.array([0 if value is None else value for value in values], dtype=np.int64)
            columns[column.name] = nullable_int64(
                numbers, np.array([value is None for value in values], dtype=np.bool_)
            )
        elif column.dtype == "category":
            known = sorted({str(value) for value in values if value is not None})
            columns[column.name] = pd.Categorical(values, categories=known)
        elif column.dtype == "float64":
            columns[column.name] = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
        else:
            columns[column.name] = np.array(values, dtype=np.int64)
    return require_frame(pd.DataFrame(columns), ROOFLINE)
