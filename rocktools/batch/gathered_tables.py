"""COMPUTE_QUANTITIES and times of traces -> BATCH_KERNELS, a row for each kernel, and BATCH_POINTS, one for each level.

A point is of one launch: FLOPs and bytes of a mean launch, over the time of a mean launch in a trace. Without a trace
it has an intensity, and no rate: the time of a counter pass is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from rocktools.batch.kernel_times import KernelTime
from rocktools.batch.plan import PlannedKernel
from rocktools.evidence import Absence, Evidence, weakest
from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.units import NS_PER_S, format_ratio
from rocktools.workspace.tool_eras import LINES
from rocktools.workspace.tool_metrics import INTENSITIES, ValueSource

_ABSENT = "not collected; `--part quantities` has the reason"
_NO_TIME = "no trace has the kernel: `rate_absence`"
_KEY = (
    Column("workload", "category", "label of the workload"),
    Column("kernel_name", "category", "clean kernel name"),
)

BATCH_KERNELS = FrameSpec(
    name="BATCH_KERNELS",
    meaning="One row per kernel that was profiled: what counters say of a mean launch, and its time in a trace.",
    key=("workload", "kernel_name"),
    sort=(),
    columns=(
        *_KEY,
        Column("instruction", "category", "HLO instruction that is replayed", "no plan says"),
        Column("proof", "category", "how well the replay stands in for the job's kernel", "it is no replay of a batch"),
        Column("source", "category", "raw counters through our formulas, or the tool's values"),
        Column("tool_version", "category", "version of rocprof-compute, as far as it is known"),
        Column("dispatches_count", "Int64", "launches that were counted", "the files do not say"),
        Column("traced_mean_ns", "float64", "time of a mean launch in a trace", _NO_TIME),
        Column("time_source", "category", "which trace", _NO_TIME),
        Column("compute_flop", "float64", "floating-point operations", _ABSENT),
        Column("mix", "category", "formats that were calculated in, with their share of the FLOPs", "no FLOPs"),
        Column(
            "fabric_read_bytes", "float64", "bytes read through the fabric: HBM, and what its cache serves", _ABSENT
        ),
        Column("fabric_write_bytes", "float64", "bytes written through the fabric", _ABSENT),
        Column("l2_bytes", "float64", "bytes between L2 and the vector caches", _ABSENT),
        Column("lds_moved_bytes", "float64", "bytes that LDS could move in its busy cycles", _ABSENT),
        Column("fabric_flop_per_byte", "float64", "FLOPs over bytes through the fabric", _ABSENT),
        Column("achieved_flop_per_s", "float64", "FLOPs over the time in the trace", _NO_TIME),
        Column("fabric_bytes_per_s", "float64", "bytes through the fabric over the time in the trace", _NO_TIME),
        Column("l2_bytes_per_s", "float64", "bytes of L2 over the time in the trace", _NO_TIME),
        Column("lds_bytes_per_s", "float64", "bytes of LDS over the time in the trace", _NO_TIME),
        Column("rate_absence", "category", "why there is no rate", "there is one"),
        Column("occupancy_ratio", "float64", "wave slots that are taken", _ABSENT),
        Column("valu_ratio", "float64", "cycles in which vector units work", _ABSENT),
        Column("mfma_ratio", "float64", "cycles in which matrix units work", _ABSENT),
        Column("vl1d_hit_ratio", "float64", "requests that the vector cache serves", _ABSENT),
        Column("l2_hit_ratio", "float64", "requests that L2 serves", _ABSENT),
        Column("dependency_wait_ratio", "float64", "wave cycles that wait for a result", _ABSENT),
        Column("issue_wait_ratio", "float64", "wave cycles that wait to be issued", _ABSENT),
        Column("lds_conflict_cycles", "float64", "cycles of bank conflicts for each access to LDS", _ABSENT),
        Column("absent_count", "int64", "quantities without a value, of those that were looked for"),
        Column("evidence", "category", "the weakest of the counted values in the row", "it has none"),
    ),
)

BATCH_POINTS = FrameSpec(
    name="BATCH_POINTS",
    meaning="One row per kernel and memory level: the roofline point of a mean launch.",
    key=("workload", "kernel_name", "level"),
    sort=(),
    columns=(
        *_KEY,
        Column("level", "category", "where bytes are counted: hbm (through the fabric), l2, lds"),
        Column("compute_flop", "float64", "floating-point operations", "`absence` says why"),
        Column("moved_bytes", "float64", "bytes through the level", "`absence` says why"),
        Column("intensity_flop_per_byte", "float64", "FLOPs over bytes", "no bytes, or unknown"),
        Column("traced_mean_ns", "float64", "time of a mean launch in a trace", _NO_TIME),
        Column("time_source", "category", "which trace", _NO_TIME),
        Column("achieved_flop_per_s", "float64", "FLOPs over that time", "`rate_absence` or `absence` says why"),
        Column("achieved_bytes_per_s", "float64", "bytes over that time", "`rate_absence` or `absence` says why"),
        Column("rate_absence", "category", "why there is no rate", "there is one"),
        Column("absence", "category", "why there is no point", "there is one"),
        Column("source", "category", "raw counters through our formulas, or the tool's values", "no point"),
        Column("evidence", "category", "the weakest of FLOPs and bytes", "no point"),
        Column("tool_flop_per_byte", "float64", "what the tool's own roofline has", "it has none"),
        Column("tool_version", "category", "version of rocprof-compute, as far as it is known"),
    ),
)

_PLAIN = {
    "compute_flop": "total_flop",
    "fabric_read_bytes": "fabric_read_bytes",
    "fabric_write_bytes": "fabric_write_bytes",
    "l2_bytes": "l2_bytes",
    "lds_moved_bytes": "lds_bytes",
    "occupancy_ratio": "occupancy",
    "valu_ratio": "valu_utilisation",
    "mfma_ratio": "mfma_utilisation",
    "vl1d_hit_ratio": "vl1d_hit_ratio",
    "l2_hit_ratio": "l2_hit_ratio",
    "dependency_wait_ratio": "dependency_wait_ratio",
    "issue_wait_ratio": "issue_wait_ratio",
    "lds_conflict_cycles": "lds_conflicts_per_access",
}
_PARTS = {"dependency_wait_ratio": "dependency_wait_cycles", "issue_wait_ratio": "issue_wait_cycles"}
_WHOLE = "wave_cycles"
_LEVELS = {
    "hbm": (("fabric_bytes",), ("fabric_read_bytes", "fabric_write_bytes"), "fabric_intensity"),
    "l2": (("l2_bytes",), ("l2_bytes",), "l2_intensity"),
    "lds": (("lds_bytes",), ("lds_bytes",), "lds_intensity"),
}
FORMATS = {
    **{f"mfma_flop_{dtype}": ("matrix", dtype) for dtype in ("f8", "bf16", "f16", "f32", "f64")},
    "mfma_flop_f6f4": ("matrix", "f4"),
    **{f"valu_flop_{dtype}": ("vector", dtype) for dtype in ("f16", "f32", "f64")},
}
"""Quantity -> unit and format that its FLOPs are of."""
NO_TRACE = "no trace has it (--trace PATH); the time of a counter pass is none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A value with where it comes from; several together are as good as the weakest."""

    value: float
    evidence: Evidence
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelValues:
    """The values of one kernel.

    Attributes:
        workload, kernel: which.
        found: quantity -> its value.
        absent: quantity -> why it has none.
        tool_intensities: quantity -> what the tool's roofline has.
        tool_version: of the tool.
        launches_count: that were counted; None where the files do not say.
        time: in a trace.
        planned: what the plan of its batch says.
    """

    workload: str
    kernel: str
    found: Mapping[str, Found]
    absent: Mapping[str, str]
    tool_intensities: Mapping[str, float]
    tool_version: str
    launches_count: int | None
    time: KernelTime | None
    planned: PlannedKernel | None

    def value(self, quantity: str) -> float:
        """NaN where it has none."""
        return self.found[quantity].value if quantity in self.found else math.nan

    def together(self, quantities: Sequence[str]) -> Found | None:
        """The sum of some quantities; None where one of them is missing."""
        listed = [self.found[name] for name in quantities if name in self.found]
        if len(listed) < len(quantities):
            return None
        return Found(
            value=sum(each.value for each in listed),
            evidence=weakest(*(each.evidence for each in listed)),
            source=" and ".join(sorted({each.source for each in listed})),
        )

    def moved(self, level: str) -> Found | None:
        """Bytes through a level."""
        whole, parts, _ = _LEVELS[level]
        return self.together(whole) or self.together(parts)


def kernel_values(
    rows: pd.DataFrame, *, time: KernelTime | None, planned: PlannedKernel | None, hides_lines: bool = False
) -> KernelValues:
    """The values of one kernel.

    Args:
        rows: its rows of COMPUTE_QUANTITIES.
        hides_lines: whether what the tool's roofline has at L1 and L2 may not stand beside that of other kernels.
    """
    records = rows.astype(dict.fromkeys(("quantity", "source", "evidence", "absence"), object)).to_dict("records")
    found = {
        str(row["quantity"]): Found(
            value=float(row["value"]), evidence=Evidence(row["evidence"]), source=str(row["source"])
        )
        for row in records
        if not pd.isna(row["value"])
    }
    for ratio, part in _PARTS.items():
        both = part in found and _WHOLE in found and found[_WHOLE].value > 0
        # Counts of the tool, which it takes from any pass; ours has the ratio where one pass counted both.
        if ratio not in found and both and str(ValueSource.TOOL) in (found[part].source, found[_WHOLE].source):
            found[ratio] = Found(
                value=found[part].value / found[_WHOLE].value, evidence=Evidence.INFERRED, source=str(ValueSource.TOOL)
            )
    counts = rows["dispatches_count"].dropna()
    return KernelValues(
        workload=str(records[0]["workload"]),
        kernel=str(records[0]["kernel_name"]),
        found=found,
        absent={str(row["quantity"]): str(row["absence"]) for row in records if pd.isna(row["value"])},
        tool_intensities={
            str(row["quantity"]): float(row["tool_value"])
            for row in records
            if row["quantity"] in INTENSITIES
            and not pd.isna(row["tool_value"])
            and not (hides_lines and row["quantity"] in LINES)
        },
        tool_version=str(records[0]["tool_version"]),
        launches_count=int(counts.max()) if len(counts) else None,
        time=time,
        planned=planned,
    )


def build_kernel_rows(kernels: Sequence[KernelValues]) -> pd.DataFrame:
    """BATCH_KERNELS, in the order given."""
    return _frame([_kernel_row(kernel) for kernel in kernels], BATCH_KERNELS)


def build_points(kernels: Sequence[KernelValues]) -> pd.DataFrame:
    """BATCH_POINTS, in the order given."""
    return _frame([_point(kernel, level) for kernel in kernels for level in _LEVELS], BATCH_POINTS)


def _kernel_row(kernel: KernelValues) -> dict[str, object]:
    values = {column: kernel.value(quantity) for column, quantity in _PLAIN.items()}
    fabric = kernel.moved("hbm")
    used = [kernel.found[quantity] for quantity in _PLAIN.values() if quantity in kernel.found]
    point = _point(kernel, "hbm")
    planned = kernel.planned
    return {
        "workload": kernel.workload,
        "kernel_name": kernel.kernel,
        "instruction": planned.instruction or None if planned is not None else None,
        "proof": None if planned is None else str(planned.level),
        "source": " and ".join(sorted({each.source for each in used})) or "none",
        "tool_version": kernel.tool_version,
        "dispatches_count": kernel.launches_count,
        "traced_mean_ns": math.nan if kernel.time is None else kernel.time.mean_ns,
        "time_source": None if kernel.time is None else kernel.time.source,
        **values,
        "mix": format_mix(kernel),
        "fabric_flop_per_byte": point["intensity_flop_per_byte"],
        "achieved_flop_per_s": _rate(kernel, values["compute_flop"]),
        "fabric_bytes_per_s": _rate(kernel, math.nan if fabric is None else fabric.value),
        "l2_bytes_per_s": _rate(kernel, values["l2_bytes"]),
        "lds_bytes_per_s": _rate(kernel, values["lds_moved_bytes"]),
        "rate_absence": NO_TRACE if kernel.time is None else None,
        "absent_count": len(_PLAIN) - len(used),
        "evidence": str(weakest(*(each.evidence for each in used))) if used else None,
    }


def _rate(kernel: KernelValues, amount: float) -> float:
    return amount / kernel.time.mean_ns * NS_PER_S if kernel.time is not None and kernel.time.mean_ns else math.nan


def format_mix(kernel: KernelValues) -> str | None:
    """Formats with their share of the FLOPs, the largest first; None where nothing was calculated, or nobody knows."""
    parts = {name: kernel.value(name) for name in FORMATS if kernel.value(name) > 0}
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    texts = [f"{FORMATS[name][1]} {FORMATS[name][0]} {format_ratio(value / total)}" for name, value in ordered]
    return ", ".join(texts) or None


def _point(kernel: KernelValues, level: str) -> dict[str, object]:
    flop, moved = kernel.together(("total_flop",)), kernel.moved(level)
    _, parts, intensity = _LEVELS[level]
    row: dict[str, object] = {
        "workload": kernel.workload,
        "kernel_name": kernel.kernel,
        "level": level,
        "compute_flop": math.nan if flop is None else flop.value,
        "moved_bytes": math.nan if moved is None else moved.value,
        "intensity_flop_per_byte": math.nan,
        "traced_mean_ns": math.nan if kernel.time is None else kernel.time.mean_ns,
        "time_source": None if kernel.time is None else kernel.time.source,
        "achieved_flop_per_s": _rate(kernel, math.nan if flop is None else flop.value),
        "achieved_bytes_per_s": _rate(kernel, math.nan if moved is None else moved.value),
        "rate_absence": NO_TRACE if kernel.time is None else None,
        "tool_flop_per_byte": kernel.tool_intensities.get(intensity, math.nan),
        "tool_version": kernel.tool_version,
    }
    if flop is None or moved is None:
        names = ["total_flop"] if flop is None else []
        names += [name for name in parts if moved is None and name not in kernel.found]
        reasons = [f"{name}: {kernel.absent.get(name, str(Absence.NOT_COLLECTED))}" for name in names]
        return {**row, "absence": "; ".join(reasons)}
    return {
        **row,
        "intensity_flop_per_byte": flop.value / moved.value if moved.value else math.nan,
        "source": " and ".join(sorted({flop.source, moved.source})),
        "evidence": str(weakest(flop.evidence, moved.evidence)),
    }


def _frame(rows: Sequence[Mapping[str, object]], spec: FrameSpec) -> pd.DataFrame:
    columns = {name: [row.get(name) for row in rows] for name in spec.names}
    frame = pd.DataFrame(columns, index=range(len(rows)))
    for column in spec.columns:
        if column.dtype == "category":
            texts = frame[column.name].astype(object)
            frame[column.name] = texts.where(texts.notna(), None)
    return require_frame(frame.astype({each.name: each.dtype for each in spec.columns}), spec)
