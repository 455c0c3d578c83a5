"""Rows of rocprof-compute's analysis, whatever file they come from -> frames.

A value that the tool left empty stays empty, with a reason; one that is infinite (a share of a peak of 0) is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from rocktools.evidence import Absence
from rocktools.findings import Finding
from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.sources.compute_analysis.tool_version import ToolVersion
from rocktools.sources.rocpd.labels import clean_kernel_name

_MARK = " (.kd)"  # of old versions
_LARGEST_COUNT = 2**53
_WHOLE = "it is about the whole workload"
_NOT_WRITTEN = "the files do not say"
_KEY = (
    Column("workload", "category", "label of the workload"),
    Column("kernel_name", "category", "clean kernel name"),
)

COMPUTE_KERNELS = FrameSpec(
    name="COMPUTE_KERNELS",
    meaning="One row per kernel of a workload of rocprof-compute: launches, and their times in a serialised pass.",
    key=("workload", "kernel_name"),
    sort=("workload",),
    columns=(
        *_KEY,
        Column("raw_kernel_name", "category", "kernel name as written, line ends taken out"),
        Column("dispatches_count", "Int64", "launches that were counted", _NOT_WRITTEN),
        Column("pass_sum_ns", "float64", "durations of all launches in the counter pass, added up", _NOT_WRITTEN),
        Column("pass_min_ns", "float64", "shortest launch in the counter pass", _NOT_WRITTEN),
        Column("pass_max_ns", "float64", "longest launch in the counter pass", _NOT_WRITTEN),
        Column("pass_median_ns", "float64", "median launch in the counter pass", _NOT_WRITTEN),
        Column("pass_mean_ns", "float64", "mean launch in the counter pass", _NOT_WRITTEN),
    ),
)

COMPUTE_METRICS = FrameSpec(
    name="COMPUTE_METRICS",
    meaning="One row per value of a metric of rocprof-compute, of a kernel or of a whole workload, as the tool has it.",
    key=("workload", "kernel_name", "table_id", "metric_name", "value_name"),
    sort=("workload",),
    columns=(
        _KEY[0],
        Column("kernel_name", "category", "clean kernel name", _WHOLE),
        Column("metric_id", "category", "id of the metric: 2.1.24", "saved tables have none"),
        Column("metric_name", "category", "name of the metric; in tables of single channels of L2 the channel"),
        Column("table_id", "category", "id of its table: 2.1", _NOT_WRITTEN),
        Column("table_name", "category", "title of its table", _NOT_WRITTEN),
        Column("value_name", "category", "which value of the metric: Avg, Min, Max, Peak, Pct of Peak, ..."),
        Column("unit", "category", "unit of the metric, as the tool writes it", "the tool gives none"),
        Column("value", "float64", "the value, as the tool has it", "`absence` says why"),
        Column("absence", "category", "why there is no value", "there is one"),
    ),
)

COMPUTE_ROOFLINE = FrameSpec(
    name="COMPUTE_ROOFLINE",
    meaning="One row per roofline point of rocprof-compute: a kernel (or a whole workload) at one memory level.",
    key=("workload", "kernel_name", "level"),
    sort=("workload",),
    columns=(
        _KEY[0],
        Column("kernel_name", "category", "clean kernel name", _WHOLE),
        Column("level", "category", "memory level: l0, l1, l2, lds, hbm"),
        Column("intensity_flop_per_byte", "float64", "FLOPs over bytes at the level, by the tool", "it has none"),
        Column("pass_flop_per_s", "float64", "FLOPs over time in the counter pass: no rate of the job", "it has none"),
    ),
)

METRIC_COLUMNS = (
    "raw_kernel_name",
    "metric_id",
    "metric_name",
    "table_id",
    "table_name",
    "value_name",
    "unit",
    "value",
)
"""Columns of the rows that `build_metrics` takes, beside `workload`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeWorkload:
    """What the files say of one workload.

    Attributes:
        label: unique among the workloads that were read together.
        name: as the tool was told; None where the files do not say.
        path: the database or folder.
        version: of the tool.
        schema_version: of the database; None elsewhere.
        facts: of the device, by the names of sysinfo.csv, as text.
        ceilings: column of roofline.csv -> measured figure, in GB/s and GFLOP/s; empty where nothing was measured.
    """

    label: str
    name: str | None
    path: Path
    version: ToolVersion
    schema_version: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    ceilings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComputeAnalysis:
    """Frames of one result of the tool.

    Attributes:
        workloads: in the order of the file.
        kernels: COMPUTE_KERNELS.
        metrics: COMPUTE_METRICS.
        roofline: COMPUTE_ROOFLINE.
        findings: doubts about the files.
    """

    workloads: tuple[ComputeWorkload, ...]
    kernels: pd.DataFrame
    metrics: pd.DataFrame
    roofline: pd.DataFrame
    findings: tuple[Finding, ...] = ()


def plain_kernel_name(text: str) -> str:
    """A name as it was before the tool cut it into lines of 40 characters, blanks included, for a table."""
    return text.replace("\r", "").replace("\n", "").rstrip().removesuffix(_MARK)


def build_kernels(rows: pd.DataFrame) -> pd.DataFrame:
    """COMPUTE_KERNELS.

    Args:
        rows: workload, raw_kernel_name, and any of the other columns, in base units; what is not there is missing.
    """
    names = [plain_kernel_name(str(name)) for name in rows["raw_kernel_name"]]
    columns = {
        "workload": rows["workload"],
        "kernel_name": [clean_kernel_name(name) or "kernel" for name in names],
        "raw_kernel_name": names,
    }
    for name in COMPUTE_KERNELS.names[3:]:
        values = [_finite(value) for value in rows[name]] if name in rows else [math.nan] * len(rows)
        columns[name] = _counts(values) if name == "dispatches_count" else values
    return _frame(columns, COMPUTE_KERNELS, len(rows))


def _counts(values: Sequence[float]) -> list[int | None]:
    """Whole numbers; the tool writes some of them as 3.0."""
    return [int(value) if 0 <= value < _LARGEST_COUNT and value == int(value) else None for value in values]


def build_metrics(rows: pd.DataFrame) -> pd.DataFrame:
    """COMPUTE_METRICS.

    Args:
        rows: workload and `METRIC_COLUMNS`; `value` as number or text. A missing `raw_kernel_name`: the whole workload.
    """
    raw = rows["raw_kernel_name"]
    known = {
        name: clean_kernel_name(plain_kernel_name(str(name))) or "kernel"
        for name in raw.unique()
        if not pd.isna(name)
    }  # fmt: skip
    numbers = pd.Series([as_number(value) for value in rows["value"]], index=rows.index, dtype="float64")
    is_infinite = np.isinf(numbers)
    values = numbers.mask(is_infinite)
    absence = pd.Series(None, index=rows.index, dtype=object)
    absence[values.isna()] = str(Absence.NOT_COLLECTED)
    absence[is_infinite] = str(Absence.UNDEFINED)
    columns: dict[str, object] = {name: rows[name] for name in ("workload", *METRIC_COLUMNS[1:-1])}
    columns |= {"kernel_name": raw.map(known), "value": values, "absence": absence}
    return _frame(columns, COMPUTE_METRICS, len(rows))


def build_roofline(rows: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    """COMPUTE_ROOFLINE from its rows, `raw_kernel_name` instead of the clean one; None: the whole workload."""
    columns: dict[str, object] = {
        name: [row.get(name) for row in rows] for name in COMPUTE_ROOFLINE.names if name != "kernel_name"
    }
    raw = [row.get("raw_kernel_name") for row in rows]
    columns["kernel_name"] = [None if name is None else clean_kernel_name(plain_kernel_name(str(name))) for name in raw]
    for name in ("intensity_flop_per_byte", "pass_flop_per_s"):
        columns[name] = [_finite(value) for value in columns[name]]  # type: ignore[attr-defined]
    return _frame(columns, COMPUTE_ROOFLINE, len(rows))


def _finite(value: object) -> float:
    number = as_number(value)
    return number if math.isfinite(number) else math.nan


def as_number(value: object) -> float:
    """A number as it is, also in text; NaN for what is none."""
    try:
        return math.nan if value is None or isinstance(value, bytes) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _frame(columns: Mapping[str, object], spec: FrameSpec, rows_count: int) -> pd.DataFrame:
    frame = pd.DataFrame({name: list(columns[name]) for name in spec.names}, index=range(rows_count))  # type: ignore[call-overload]
    for column in spec.columns:
        if column.dtype == "category":
            texts = frame[column.name].astype(object)
            frame[column.name] = texts.where(texts.isna(), texts.map(str)).where(texts.notna(), None)
    return require_frame(frame.astype({column.name: column.dtype for column in spec.columns}), spec)
