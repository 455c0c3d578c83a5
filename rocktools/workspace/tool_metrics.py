"""Metrics of rocprof-compute -> quantities of ours, in our units: which of its values says the same as which of ours.

The tool gives many amounts as rates by the time of the counter pass. A rate times the mean of that time is the amount
again, so no time of a pass enters; but a mean of rates times a mean of times is not the mean of the amounts, and so
such a value is `inferred`. Counts are taken where there are both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import pandas as pd

from rocktools.evidence import Evidence

_PERCENT = 100.0
_GIGA = 1e9
_NS_PER_S = 1e9
_VALUE_NAMES = ("Avg", "Value")
_SHARE_NAMES = ("Pct of Peak", "Percent of Peak")
_TIME = ("7.2", "kernel time", "Avg")
_NANOSECONDS = ("ns", "nanoseconds")
_OTHER_NORM = re.compile(r"per[ _](?:wave(?!front)|cycle|second)|/s$", re.IGNORECASE)


class Kind(str, Enum):
    """How a value of the tool becomes one of ours."""

    PLAIN = "plain"
    COUNT = "count"  # for each launch, unless the tool was told to divide otherwise
    QUOTIENT = "quotient"  # of counters, in our unit
    PERCENT = "percent"
    RATE = "rate"  # 10^9 per second of the counter pass
    SHARE = "share"  # percent of the tool's peak

    def __str__(self) -> str:
        return self.value


QUOTIENTS = (Kind.PERCENT, Kind.SHARE, Kind.QUOTIENT)
"""Kinds whose counters the tool may have taken from several passes."""
AVERAGED = (*QUOTIENTS, Kind.RATE)
"""Kinds that were means over the ratios of single launches before 3.7."""


class ValueSource(str, Enum):
    """Whose value it is."""

    OWN = "own formula"
    TOOL = "rocprof-compute"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class ToolMetric:
    """Where the tool has a quantity.

    Attributes:
        quantity: of ours.
        table_id: of its table.
        name: of the metric, as 3.5 writes it; what differs between versions is compared without.
        kind: how it becomes ours.
    """

    quantity: str
    table_id: str
    name: str
    kind: Kind


def _of(kind: Kind, table_id: str, names: Mapping[str, str]) -> Iterator[ToolMetric]:
    for quantity, name in names.items():
        yield ToolMetric(quantity, table_id, name, kind)


TOOL_METRICS: tuple[ToolMetric, ...] = (
    *_of(
        Kind.COUNT,
        "11.3",
        {
            "total_flop": "FLOPs (Total)",
            "total_iop": "IOPs (Total)",
            "mfma_flop_f8": "F8 OPs",
            "flop_f16": "F16 OPs",
            "mfma_flop_bf16": "BF16 OPs",
            "flop_f32": "F32 OPs",
            "flop_f64": "F64 OPs",
            "mfma_flop_f6f4": "F6F4 OPs",
            "mfma_iop_i8": "INT8 OPs",
        },
    ),
    *_of(
        Kind.RATE,
        "2.1",
        {
            "valu_flop": "VALU FLOPs",
            "valu_iop": "VALU IOPs",
            "mfma_flop_f8": "MFMA FLOPs (F8)",
            "mfma_flop_bf16": "MFMA FLOPs (BF16)",
            "mfma_flop_f16": "MFMA FLOPs (F16)",
            "mfma_flop_f32": "MFMA FLOPs (F32)",
            "mfma_flop_f64": "MFMA FLOPs (F64)",
            "mfma_flop_f6f4": "MFMA FLOPs (F6F4)",
            "mfma_iop_i8": "MFMA IOPs (Int8)",
            "lds_bytes": "Theoretical LDS Bandwidth",
            "vl1d_lookup_bytes": "vL1D Cache BW",
            "l2_lookup_bytes": "L2 Cache BW",
            "fabric_read_bytes": "L2-Fabric Read BW",
            "fabric_write_bytes": "L2-Fabric Write BW",
        },
    ),
    *_of(
        Kind.RATE,
        "4.1",
        {
            "valu_flop_f16": "VALU FLOPs (F16)",
            "valu_flop_f32": "VALU FLOPs (F32)",
            "valu_flop_f64": "VALU FLOPs (F64)",
        },
    ),
    *_of(Kind.RATE, "16.3", {"l2_bytes": "L1-L2 BW"}),
    *_of(Kind.SHARE, "2.1", {"occupancy": "Wavefront Occupancy"}),
    *_of(
        Kind.PERCENT,
        "2.1",
        {
            "cu_utilisation": "CU Utilization",
            "salu_utilisation": "SALU Utilization",
            "valu_utilisation": "VALU Utilization",
            "mfma_utilisation": "MFMA Utilization",
            "vmem_utilisation": "VMEM Utilization",
            "branch_utilisation": "Branch Utilization",
            "vl1d_hit_ratio": "vL1D Cache Hit Rate",
            "l2_hit_ratio": "L2 Cache Hit Rate",
            "scalar_cache_hit_ratio": "sL1D Cache Hit Rate",
            "instruction_cache_hit_ratio": "L1I Hit Rate",
        },
    ),
    *_of(
        Kind.QUOTIENT,
        "2.1",
        {
            "active_workitems": "VALU Active Threads",
            "instructions_per_cycle": "IPC",
            "resident_waves_accumulated": "Wavefront Occupancy",
            "lds_conflicts_per_access": "LDS Bank Conflicts/Access",
            "fabric_read_latency": "L2-Fabric Read Latency",
            "fabric_write_latency": "L2-Fabric Write Latency",
            "fetch_latency": "L1I Fetch Latency",
        },
    ),
    *_of(Kind.PLAIN, "7.1", {"waves": "Total Wavefronts"}),
    *_of(
        Kind.COUNT,
        "7.2",
        {
            "instructions_per_wave": "Instructions per wavefront",
            "elapsed_cycles": "Kernel Time (Cycles)",
            "wave_cycles": "Wave Cycles",
            "dependency_wait_cycles": "Dependency Wait Cycles",
            "issue_wait_cycles": "Issue Wait Cycles",
            "active_wave_cycles": "Active Cycles",
        },
    ),
    *_of(
        Kind.COUNT,
        "10.1",
        {
            "valu_instructions": "VALU",
            "vmem_instructions": "VMEM",
            "lds_instructions": "LDS",
            "mfma_instructions": "MFMA",
            "salu_instructions": "SALU",
            "smem_instructions": "SMEM",
            "branch_instructions": "Branch",
        },
    ),
    *_of(Kind.PERCENT, "12.1", {"lds_utilisation": "Utilization", "lds_access_ratio": "Access Rate"}),
    *_of(Kind.QUOTIENT, "12.2", {"lds_latency": "LDS Latency"}),
    *_of(Kind.PERCENT, "16.1", {"vl1d_utilisation": "Utilization", "vl1d_coalescing_ratio": "Coalescing"}),
    *_of(
        Kind.PERCENT,
        "16.2",
        {"vl1d_data_stall_ratio": "Stalled on L2 Data", "vl1d_request_stall_ratio": "Stalled on L2 Req"},
    ),
    *_of(Kind.PERCENT, "17.1", {"l2_utilisation": "Utilization"}),
    *_of(
        Kind.PERCENT,
        "17.2",
        {"hbm_read_ratio": "HBM Read Traffic", "hbm_write_ratio": "HBM Write and Atomic Traffic"},
    ),
)
"""In the order of preference: of two that give the same quantity the first that has a value."""

INTENSITIES: Mapping[str, str] = {
    "fabric_intensity": "hbm",
    "l2_intensity": "l2",
    "vl1d_intensity": "l1",
    "lds_intensity": "lds",
}
"""Quantity -> level of the tool's roofline points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolValue:
    """A quantity as the tool has it.

    Attributes:
        value: in our unit.
        metric: where it stands: table, metric and which of its values.
        evidence: INFERRED where a rate had to be turned back, and of ratios, whose counters may be of several passes.
        kind: how it became ours; None for points of its roofline.
    """

    value: float
    metric: str
    evidence: Evidence
    kind: Kind | None


def tool_values(kernel_metrics: pd.DataFrame, pass_mean_ns: float | None) -> dict[str, ToolValue]:
    """Quantity -> what the tool has of it, for one kernel of a workload.

    Args:
        kernel_metrics: its rows of COMPUTE_METRICS.
        pass_mean_ns: mean launch in the counter pass, which the tool divided by; None: by its own metric of that.
    """
    wanted = {each.table_id for each in TOOL_METRICS}
    rows = kernel_metrics[kernel_metrics["table_id"].isin(wanted).to_numpy() & kernel_metrics["value"].notna()]
    known: dict[tuple[str, str, str], tuple[float, str, str]] = {}
    for table, name, value_name, unit, value in zip(
        rows["table_id"], rows["metric_name"], rows["value_name"], rows["unit"], rows["value"], strict=True
    ):
        key = (str(table), plain_name(str(name)), str(value_name))
        known.setdefault(key, (float(value), str(name), "" if pd.isna(unit) else str(unit)))
    mean_ns = pass_mean_ns
    if mean_ns is None and _TIME in known and known[_TIME][2].lower() in _NANOSECONDS:
        mean_ns = known[_TIME][0]
    found: dict[str, ToolValue] = {}
    for metric in TOOL_METRICS:
        if metric.quantity in found:
            continue
        names = _SHARE_NAMES if metric.kind is Kind.SHARE else _VALUE_NAMES
        entry = next(
            (
                (*known[key], value_name)
                for value_name in names
                if (key := (metric.table_id, plain_name(metric.name), value_name)) in known
            ),
            None,
        )
        if entry is None:
            continue
        value, name, unit, value_name = entry
        turned = _turned(value, unit, metric.kind, mean_ns)
        if turned is not None:
            is_count = metric.kind in (Kind.COUNT, Kind.PLAIN)
            evidence = Evidence.COUNTER if is_count else Evidence.INFERRED
            text = f"{metric.table_id} {name}" + (f", {value_name}" if value_name not in _VALUE_NAMES else "")
            found[metric.quantity] = ToolValue(value=turned, metric=text, evidence=evidence, kind=metric.kind)
    return found


def roofline_values(kernel_points: pd.DataFrame) -> dict[str, ToolValue]:
    """Intensities of the tool's roofline points of one kernel.

    Args:
        kernel_points: its rows of COMPUTE_ROOFLINE. Intensities of a kernel without FLOPs are 0 for all levels, and so
            say nothing of its bytes.
    """
    by_level = {
        str(level): float(value)
        for level, value in zip(kernel_points["level"], kernel_points["intensity_flop_per_byte"], strict=True)
        if not pd.isna(value)
    }
    return {
        quantity: ToolValue(
            value=by_level[level], metric=f"roofline point at {level}", evidence=Evidence.INFERRED, kind=None
        )
        for quantity, level in INTENSITIES.items()
        if level in by_level
    }


def plain_name(name: str) -> str:
    """A metric's name without what differs between versions: trademark, case, remarks."""
    return name.replace("™", "").replace("(deprecated)", "").strip().lower()


def _turned(value: float, unit: str, kind: Kind, pass_mean_ns: float | None) -> float | None:
    if kind in (Kind.PERCENT, Kind.SHARE):
        return value / _PERCENT
    if kind is Kind.RATE:
        return None if pass_mean_ns is None else value * _GIGA * pass_mean_ns / _NS_PER_S
    if kind is Kind.COUNT and _OTHER_NORM.search(unit):
        return None
    return value
