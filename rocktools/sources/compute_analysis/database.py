"""An analysis database of rocprof-compute -> its frames; never written to, locked or copied without need.

Written by `analyze --output-format db` of 3.3 and later, several workloads in one. The views have the same names in
schemas 1.3 and 2.0 and are what is read, column by column as far as they are there; roofline points have no view, and
come from their tables (2.0 adds the levels l0 and lds). What the tool calls `total_flops` of a point is FLOPs over the
time of the counter pass in GFLOP/s, and `*_cache_data` FLOPs per byte: on a real file the first is FLOPs of all
launches over their pass time, and the second the ratio of two of its own metrics.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from rocktools.errors import DamagedFile, InputError, NothingToRead, UnknownFormat, UnsupportedVersion
from rocktools.findings import Finding, Severity
from rocktools.sources.compute_analysis.results import (
    METRIC_COLUMNS,
    ComputeAnalysis,
    ComputeWorkload,
    as_number,
    build_kernels,
    build_metrics,
    build_roofline,
)
from rocktools.sources.compute_analysis.tool_version import UNKNOWN_VERSION, ToolVersion, parse_tool_version
from rocktools.sources.rocpd.opening import MAGIC, make_readable, translate_sqlite_errors

_MARK = "compute_metadata"
_AGAIN = "write it again: rocprof-compute analyze -p WORKLOAD --output-format db"
_KNOWN_SCHEMAS = ("1", "2")
_GIGA = 1e9
_LEVELS = {"l0": "l0_cache_data", "l1": "l1_cache_data", "l2": "l2_cache_data", "lds": "lds_cache_data",
           "hbm": "hbm_cache_data"}  # fmt: skip
_KERNEL_COLUMNS = {
    "raw_kernel_name": "kernel_name",
    "dispatches_count": "dispatch_count",
    "pass_sum_ns": "duration_ns_sum",
    "pass_min_ns": "duration_ns_min",
    "pass_max_ns": "duration_ns_max",
    "pass_median_ns": "duration_ns_median",
    "pass_mean_ns": "duration_ns_mean",
}
_METRIC_COLUMNS = {
    "raw_kernel_name": "kernel_name",
    "metric_id": "metric_id",
    "metric_name": "metric_name",
    "table_name": "sub_table_name",
    "value_name": "value_name",
    "unit": "unit",
    "value": "value",
}


def is_analysis_database(path: Path) -> bool:
    """Whether a file is a database of rocprof-compute's analysis; no for one that cannot be read."""
    try:
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                return False
        with make_readable(path) as database, contextlib.closing(database.connect()) as connection:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_MARK,)).fetchone()
    except (OSError, InputError, sqlite3.Error):
        return False
    return found is not None


def read_analysis_database(path: Path, *, label: Callable[[str], str] = str) -> ComputeAnalysis:
    """Every workload, kernel, metric value and roofline point of an analysis database.

    Args:
        label: makes a unique label of a workload's name.

    Raises:
        InputError: it cannot be read.
        DamagedFile: it is damaged, or still being written.
        UnknownFormat: it is a database of something else.
        UnsupportedVersion: it has none of the views that are read.
        NothingToRead: it has no workload.
    """
    try:
        with make_readable(path) as database, contextlib.closing(database.connect()) as connection:
            reader = _Reader(path=path, connection=connection)
            with translate_sqlite_errors(path):
                analysis = _read(reader, label)
            database.require_unchanged()
    except DamagedFile as error:
        raise DamagedFile("compute-db-damaged", error.what, where=error.where, hint=_AGAIN) from error
    return ComputeAnalysis(
        workloads=analysis.workloads,
        kernels=analysis.kernels,
        metrics=analysis.metrics,
        roofline=analysis.roofline,
        findings=(*database.findings, *reader.findings),
    )


@dataclass(slots=True, kw_only=True)
class _Reader:
    """The connection, and what was doubtful so far."""

    path: Path
    connection: sqlite3.Connection
    findings: list[Finding] = field(default_factory=list)

    def columns(self, name: str) -> tuple[str, ...]:
        """Of a table or view; none where it is not there."""
        # Not PRAGMA table_info: its rows differ between versions of SQLite where a view is broken.
        is_there = self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        if is_there is None:
            return ()
        cursor = self.connection.execute(f'SELECT * FROM "{name}" LIMIT 0')
        return tuple(str(entry[0]) for entry in cursor.description)

    def rows(self, name: str, wanted: Sequence[str]) -> Iterator[tuple[object, ...]]:
        """The wanted columns of a table or view; None for those that it lacks."""
        known = self.columns(name)
        listed = ", ".join(f'"{column}"' if column in known else "NULL" for column in wanted)
        yield from self.connection.execute(f'SELECT {listed} FROM "{name}"') if known else ()


def _read(reader: _Reader, label: Callable[[str], str]) -> ComputeAnalysis:
    if not reader.columns(_MARK):
        raise UnknownFormat(
            "not-compute-analysis",
            "it is an SQLite database, and no analysis of rocprof-compute",
            where=str(reader.path),
            hint="a trace goes to --trace; results are folders of workloads, and databases of `rocprof-compute analyze "
            "--output-format db`",
        )
    version, schema = _version(reader)
    lacking = [
        view
        for view, needed in (
            ("compute_kernel_view", {"kernel_name"}),
            ("compute_kernel_metric_view", {"kernel_name", "metric_name", "value_name", "value"}),
        )
        if not needed <= set(reader.columns(view))
    ]
    if lacking:
        raise UnsupportedVersion(
            "compute-db-schema",
            f"its schema {schema or 'of unknown version'} has no view {' or '.join(lacking)} that rocktools can read",
            where=str(reader.path),
            hint="analyze the workload with rocprof-compute 3.5 or later",
        )
    workloads = dict(_workloads(reader, version, schema, label))
    if not workloads:
        raise NothingToRead("compute-db-empty", "it holds no workload", where=str(reader.path), hint=_AGAIN)
    labels = {key: workload.label for key, workload in workloads.items()}
    rows = [
        {"workload": labels.get(key), **dict(zip(_KERNEL_COLUMNS, values, strict=True))}
        for key, *values in reader.rows("compute_kernel_view", ("workload_id", *_KERNEL_COLUMNS.values()))
    ]
    return ComputeAnalysis(
        workloads=tuple(workloads.values()),
        kernels=build_kernels(_known(reader, rows, ("workload", *_KERNEL_COLUMNS), "compute_kernel_view")),
        metrics=build_metrics(_metrics(reader, labels)),
        roofline=build_roofline(_points(reader, labels)),
    )


def _version(reader: _Reader) -> tuple[ToolVersion, str | None]:
    for version, schema in reader.rows(_MARK, ("compute_version", "schema_version")):
        found = parse_tool_version(str(version), said_by=f"{_MARK} of {reader.path.name}")
        text = str(schema) if schema is not None else None
        if text is not None and not text.startswith(tuple(f"{major}." for major in _KNOWN_SCHEMAS)):
            reader.findings.append(
                Finding(
                    rule="compute-db-schema-unknown",
                    severity=Severity.WARNING,
                    where=str(reader.path),
                    message=f"its schema is {text}, and those that are known are 1 and 2: what it has of their views "
                    "is read",
                    advice="compare a value or two with what rocprof-compute shows",
                )
            )
        return found or UNKNOWN_VERSION, text
    return UNKNOWN_VERSION, None


def _workloads(
    reader: _Reader, version: ToolVersion, schema: str | None, label: Callable[[str], str]
) -> Iterator[tuple[object, ComputeWorkload]]:
    wanted = ("workload_id", "name", "sys_info_extdata", "roofline_bench_extdata")
    for key, name, system, bench in reader.rows("compute_workload", wanted):
        text = str(name) if name is not None else reader.path.stem
        yield (
            key,
            ComputeWorkload(
                label=label(text),
                name=text,
                path=reader.path,
                version=version,
                schema_version=schema,
                facts={each: str(value) for each, value in _record(system).items() if value is not None},
                ceilings={
                    each: as_number(value)
                    for each, value in _record(bench).items()
                    if not isinstance(value, bool) and 0 < as_number(value) < float("inf")
                },
            ),
        )


def _record(text: object) -> dict[str, object]:
    """An object in JSON (a list of one, in some versions); nothing where it is none."""
    try:
        found = json.loads(text) if isinstance(text, (str, bytes)) else None
    except (ValueError, RecursionError):
        return {}
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


def _metrics(reader: _Reader, labels: dict[object, str]) -> pd.DataFrame:
    """Rows for `build_metrics`, of kernels and of whole workloads."""
    rows: list[dict[str, object]] = []
    for view in ("compute_kernel_metric_view", "compute_workload_metric_view"):
        wanted = ("workload_id", *_METRIC_COLUMNS.values(), "table_name")
        for key, *values, table in reader.rows(view, wanted):
            row = {"workload": labels.get(key), **dict(zip(_METRIC_COLUMNS, values, strict=True))}
            if view == "compute_kernel_metric_view" and row["raw_kernel_name"] is None:
                row["workload"] = None
            row["table_name"] = row["table_name"] or table
            row["table_id"] = _table_id(row["metric_id"])
            rows.append(row)
    return _known(reader, rows, ("workload", *METRIC_COLUMNS), "compute_kernel_metric_view")


def _table_id(metric_id: object) -> str | None:
    """`2.1` of `2.1.24`."""
    pieces = str(metric_id).split(".") if metric_id is not None else []
    return ".".join(pieces[:2]) if len(pieces) > 1 else None


def _known(reader: _Reader, rows: Sequence[dict[str, object]], columns: Sequence[str], view: str) -> pd.DataFrame:
    """The rows whose workload and names are there; a finding about the others."""
    needed = [name for name in ("workload", "metric_name", "value_name") if name in columns]
    if "metric_name" not in columns:
        needed.append("raw_kernel_name")
    kept = [row for row in rows if all(row[name] is not None for name in needed)]
    if len(kept) < len(rows):
        reader.findings.append(
            Finding(
                rule="compute-db-rows-broken",
                severity=Severity.WARNING,
                where=f"{reader.path}, {view}",
                message=f"{len(rows) - len(kept):,} of {len(rows):,} rows name no workload, kernel or metric, and are "
                "left out",
                numbers={"lost_rows_count": len(rows) - len(kept), "rows_count": len(rows)},
                advice=_AGAIN,
            )
        )
    return pd.DataFrame(kept, columns=list(columns))


def _points(reader: _Reader, labels: dict[object, str]) -> list[dict[str, object]]:
    """A row for each kernel (or whole workload) and each level that its table has."""
    kernels = {
        key: (labels.get(workload), name)
        for key, workload, name in reader.rows("compute_kernel", ("kernel_uuid", "workload_id", "kernel_name"))
    }
    found: list[dict[str, object]] = []
    whole = {key: (label, None) for key, label in labels.items()}
    for table, column, owners in (
        ("compute_kernel_roofline_data", "kernel_uuid", kernels),
        ("compute_workload_roofline_data", "workload_id", whole),
    ):
        levels = [level for level, name in _LEVELS.items() if name in reader.columns(table)]
        wanted = (column, "total_flops", *(_LEVELS[level] for level in levels))
        for key, rate, *intensities in reader.rows(table, wanted):
            label, kernel = owners.get(key, (None, None))
            if label is None:
                continue
            found += [
                {
                    "workload": label,
                    "raw_kernel_name": kernel,
                    "level": level,
                    "intensity_flop_per_byte": intensity,
                    "pass_flop_per_s": as_number(rate) * _GIGA,
                }
                for level, intensity in zip(levels, intensities, strict=True)
            ]
    return found
