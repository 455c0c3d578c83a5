"""A folder of `rocprof-compute analyze --output-format csv` of 3.7 and later -> the frames of its analysis.

One file for each view of an analysis database, without the prefix and ending of its name: `kernel.csv`,
`kernel_metric.csv`, `workload_metric.csv`, with the columns of the views. The version is not in them, and neither are
facts of the device or roofline points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from rocktools.errors import NothingToRead, UnknownFormat
from rocktools.sources.compute_analysis.csv_file import CsvFile, read_csv_file
from rocktools.sources.compute_analysis.results import (
    METRIC_COLUMNS,
    ComputeAnalysis,
    ComputeWorkload,
    build_kernels,
    build_metrics,
    build_roofline,
)
from rocktools.sources.compute_analysis.tool_version import ToolVersion

KERNEL_FILE = "kernel.csv"
KERNEL_METRIC_FILE = "kernel_metric.csv"
_WORKLOAD_METRIC_FILE = "workload_metric.csv"
_VERSION = ToolVersion(text=None, least=(3, 7), below=(999, 999), said_by="a file for each view")
_KERNEL_COLUMNS = {
    "kernel_name": "raw_kernel_name",
    "dispatch_count": "dispatches_count",
    "duration_ns_sum": "pass_sum_ns",
    "duration_ns_min": "pass_min_ns",
    "duration_ns_max": "pass_max_ns",
    "duration_ns_median": "pass_median_ns",
    "duration_ns_mean": "pass_mean_ns",
}


def is_view_folder(folder: Path) -> bool:
    """Whether a folder holds the files of views."""
    return (folder / KERNEL_METRIC_FILE).is_file()


def read_view_folder(
    folder: Path, *, label: Callable[[str], str] = str, version: ToolVersion = _VERSION
) -> ComputeAnalysis:
    """The workloads, kernels and metrics of a folder of view files.

    Args:
        label: makes a unique label of a workload's name.
        version: of the tool, where it is known.

    Raises:
        InputError: a file cannot be read.
        DamagedFile: a file is no table.
        UnknownFormat: a file lacks what names its rows.
        NothingToRead: there is no row of a metric.
    """
    metrics = _read(folder / KERNEL_METRIC_FILE, ("kernel_name", "metric_name", "value_name", "value"))
    others = [
        _read(folder / name, needed) if (folder / name).is_file() else None
        for name, needed in (
            (KERNEL_FILE, ("kernel_name",)),
            (_WORKLOAD_METRIC_FILE, ("metric_name", "value_name", "value")),
        )
    ]
    kernels, whole = others
    if not metrics.rows:
        raise NothingToRead("no-metric-rows", "it has no row", where=str(folder / KERNEL_METRIC_FILE))
    parts = [part for part in (metrics, kernels, whole) if part is not None]
    names: dict[tuple[str, str], str] = {}
    for part in parts:
        for record in part.records():
            names.setdefault(_key(record, folder), "")
    labels = {key: label(key[1]) for key in names}
    kernel_rows = [
        {"workload": labels[_key(record, folder)], **_renamed(record)}
        for record in (kernels.records() if kernels else ())
    ]
    metric_rows = [
        {"workload": labels[_key(record, folder)], **_metric_row(record, is_whole=part is whole)}
        for part in (metrics, whole)
        if part is not None
        for record in part.records()
    ]
    return ComputeAnalysis(
        workloads=tuple(
            ComputeWorkload(label=text, name=key[1], path=folder, version=version) for key, text in labels.items()
        ),
        kernels=build_kernels(pd.DataFrame(kernel_rows, columns=["workload", *_KERNEL_COLUMNS.values()])),
        metrics=build_metrics(pd.DataFrame(metric_rows, columns=["workload", *METRIC_COLUMNS])),
        roofline=build_roofline([]),
        findings=tuple(finding for part in parts for finding in part.findings),
    )


def _read(path: Path, needed: tuple[str, ...]) -> CsvFile:
    file = read_csv_file(path)
    missing = [name for name in needed if name not in file.header]
    if missing:
        raise UnknownFormat(
            "not-view-files", f"it has no column {', '.join(missing)}: no view of rocprof-compute", where=str(path)
        )
    return file


def _key(record: Mapping[str, str], folder: Path) -> tuple[str, str]:
    """Id and name of the workload of a row; those of the folder where the file has none."""
    return str(record.get("workload_id") or ""), str(record.get("workload_name") or folder.resolve().name)


def _renamed(record: Mapping[str, str]) -> dict[str, object]:
    return {column: record.get(name) for name, column in _KERNEL_COLUMNS.items()}


def _metric_row(record: Mapping[str, str], *, is_whole: bool) -> dict[str, object]:
    metric_id = str(record.get("metric_id") or "")
    return {
        "raw_kernel_name": None if is_whole else record["kernel_name"],
        "metric_id": metric_id or None,
        "metric_name": record["metric_name"],
        "table_id": ".".join(metric_id.split(".")[:2]) if metric_id.count(".") > 0 else None,
        "table_name": record.get("sub_table_name") or record.get("table_name") or None,
        "value_name": record["value_name"],
        "unit": record.get("unit") or None,
        "value": record["value"],
    }
