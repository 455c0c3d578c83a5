"""A folder of `rocprof-compute analyze --save-dfs` (3.0 to 3.3) -> the frames of its analysis.

One file for each table, `<id>_<title>.csv`, the title with blanks as underscores. Rows are named `Metric` (or `Channel`
in tables of single channels of L2); every other column but `Unit` is a value. There are no ids of metrics. Kernel
names are cut into lines of 40 characters. A share of a peak is `Pct of Peak`, later `Percent of Peak`; it is `inf`
where the peak is 0. Without `-k` or `-d` all values are means over all launches of all kernels: they belong to a kernel
only where the list of kernels has one.

Two workloads in one call give columns of one name, and cells like `427.97 (0.22%)`: refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pandas as pd

from rocktools.errors import InputError, NothingToRead, UnknownFormat
from rocktools.findings import Finding, Severity
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

_FILE = re.compile(r"(?P<table>\d+\.\d+)(?:_(?P<title>.+))?\.csv")
_KERNELS = "0.1"
_SYSTEM = "1.1"
_LISTS = ("0.1", "0.2")
_NAMES = ("Metric", "Channel", "Xcd")
_NOT_VALUES = {*_NAMES, "Unit", "Tips", "Metric_ID", "Description", "coll_level", "Info", ""}
_REPEATED = re.compile(r"(?:Abs Diff|Avg|Value)")
_TIME_COLUMN = re.compile(r"(?P<what>Sum|Mean|Median|Min|Max)\((?P<unit>ns|us|ms|s)\)")
_NS_PER = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
# A folder of tables says nothing of the version, but no other version writes one.
_VERSION = ToolVersion(text=None, least=(3, 0), below=(3, 4), said_by="a folder of --save-dfs")


def is_table_folder(folder: Path) -> bool:
    """Whether a folder holds tables of `--save-dfs`: the list of kernels, or a table of metrics."""
    if not folder.is_dir():
        return False
    found = [path for path in folder.glob("*.csv") if _FILE.fullmatch(path.name)]
    return any(_table_id(path) not in (_SYSTEM, *_LISTS) for path in found)


def read_table_folder(
    folder: Path, *, label: Callable[[str], str] = str, version: ToolVersion = _VERSION
) -> ComputeAnalysis:
    """The kernels and metrics of a folder of tables.

    Args:
        label: makes a unique label of the folder's name.
        version: of the tool, where it is known.

    Raises:
        InputError: a file cannot be read.
        DamagedFile: a file is no table.
        UnknownFormat: the tables compare two workloads.
        NothingToRead: there is no table of metrics.
    """
    try:
        paths = sorted((path for path in folder.iterdir() if _FILE.fullmatch(path.name)), key=_order)
    except OSError as error:
        raise InputError("unreadable-folder", f"cannot list it: {error.strerror}", where=str(folder)) from error
    files = {path: read_csv_file(path) for path in paths}
    if all(_table_id(path) in (_SYSTEM, *_LISTS) for path in files):
        raise NothingToRead(
            "no-saved-tables",
            "it has no table of metrics",
            where=str(folder),
            hint="rocprof-compute analyze -p WORKLOAD --save-dfs DIR (3.0 to 3.3), --output-format db later",
        )
    name = label(folder.resolve().name)
    listed = [row for path, file in files.items() if _table_id(path) == _KERNELS for row in _kernel_rows(file, path)]
    only = listed[0]["raw_kernel_name"] if len(listed) == 1 else None
    rows = [
        {"workload": name, "raw_kernel_name": only, **row}
        for path, file in files.items()
        if _table_id(path) not in (_SYSTEM, *_LISTS)
        for row in _metric_rows(file, path)
    ]
    findings = [finding for file in files.values() for finding in file.findings]
    if only is None:
        findings.append(_mixed(folder, len(listed)))
    kernels = pd.DataFrame([{"workload": name, **row} for row in listed], columns=["workload", *_KERNEL_COLUMNS])
    return ComputeAnalysis(
        workloads=(ComputeWorkload(label=name, name=None, path=folder, version=version),),
        kernels=build_kernels(kernels),
        metrics=build_metrics(pd.DataFrame(rows, columns=["workload", *METRIC_COLUMNS])),
        roofline=build_roofline([]),
        findings=tuple(findings),
    )


_KERNEL_COLUMNS = ("raw_kernel_name", "dispatches_count", "pass_sum_ns", "pass_mean_ns", "pass_median_ns",
                   "pass_min_ns", "pass_max_ns")  # fmt: skip


def _table_id(path: Path) -> str:
    match = _FILE.fullmatch(path.name)
    return match["table"] if match else ""


def _order(path: Path) -> tuple[tuple[int, ...], str]:
    return tuple(int(piece) for piece in _table_id(path).split(".")), path.name


def _kernel_rows(file: CsvFile, path: Path) -> Iterator[dict[str, object]]:
    if "Kernel_Name" not in file.header:
        raise UnknownFormat("not-saved-tables", "it has no column Kernel_Name", where=str(path))
    for record in file.records():
        row: dict[str, object] = {
            "raw_kernel_name": record["Kernel_Name"],
            "dispatches_count": record.get("Count"),
        }
        for column, text in record.items():
            match = _TIME_COLUMN.fullmatch(column)
            if match is not None:
                row[f"pass_{match['what'].lower()}_ns"] = _scaled(text, _NS_PER[match["unit"]])
        yield row


def _scaled(text: str, factor: int) -> float | None:
    try:
        return float(text) * factor
    except ValueError:
        return None


def _metric_rows(file: CsvFile, path: Path) -> Iterator[Mapping[str, object]]:
    """A row for each value of a table of metrics; nothing of a table that has none."""
    named = next((name for name in _NAMES if name in file.header), None)
    if named is None:
        return
    if any(_REPEATED.fullmatch(name) and file.header.count(name) > 1 for name in file.header) or (
        "Abs Diff" in file.header
    ):
        raise UnknownFormat(
            "saved-tables-compared",
            "it compares two workloads: columns of one name, and cells with a difference in them",
            where=str(path),
            hint="one call of rocprof-compute analyze for each workload; rocktools batch compare A B compares",
        )
    match = _FILE.fullmatch(path.name)
    title = (match["title"] or "").replace("_", " ") if match else ""
    columns = [name for name in file.header if name not in _NOT_VALUES]
    for record in file.records():
        for column in columns:
            yield {
                "metric_id": None,
                "metric_name": _whole_number(record[named]) if named != "Metric" else record[named],
                "table_id": _table_id(path),
                "table_name": title or None,
                "value_name": column,
                "unit": record.get("Unit") or None,
                "value": record[column],
            }


def _whole_number(text: str) -> str:
    """`17` of `17.0`."""
    return text.removesuffix(".0")


def _mixed(folder: Path, kernels_count: int) -> Finding:
    what = f"of {kernels_count} kernels together" if kernels_count else "of kernels that it does not list"
    return Finding(
        rule="saved-tables-mixed",
        severity=Severity.WARNING,
        where=str(folder),
        message=f"the values of these tables are means over all launches {what}, and belong to none of them",
        numbers={"kernels_count": kernels_count},
        advice="one kernel for each workload (rocktools batch), or analyze -k N --save-dfs DIR for each kernel",
    )
