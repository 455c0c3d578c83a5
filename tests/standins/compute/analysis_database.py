"""The SQLite file of `analyze --output-format db`: schema 1.3.0, and 2.0.0 since 3.9."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from standins.compute.metrics import Metric
from standins.compute.releases import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzedKernel:
    """One kernel of a workload: launches as (id, gpu, start, end), metrics, and its point of the roofline."""

    name: str
    launches: Sequence[tuple[int, int, int, int]]
    metrics: Sequence[Metric]
    point: dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzedFolder:
    """One workload."""

    name: str
    sub_name: str
    facts: dict[str, str]
    roofline: dict[str, str]
    config: dict[str, object]
    kernels: Sequence[AnalyzedKernel]


_TABLES = {
    "workload": "workload_id INTEGER PRIMARY KEY, name, sub_name, sys_info_extdata, roofline_bench_extdata, "
    "profiling_config_extdata",
    "metadata": "id INTEGER PRIMARY KEY, compute_version, git_version, schema_version",
    "metric_definition": "metric_uuid INTEGER PRIMARY KEY, workload_id INTEGER, name, metric_id, description, "
    "table_name, sub_table_name, unit",
    "kernel": "kernel_uuid INTEGER PRIMARY KEY, workload_id INTEGER, kernel_name",
    "dispatch": "dispatch_uuid INTEGER PRIMARY KEY, kernel_uuid INTEGER, dispatch_id INTEGER, gpu_id INTEGER, "
    "start_timestamp INTEGER, end_timestamp INTEGER",
    "kernel_metric_value": "value_uuid INTEGER PRIMARY KEY, metric_uuid INTEGER, kernel_uuid INTEGER, value_name, "
    "value FLOAT",
    "workload_metric_value": "value_uuid INTEGER PRIMARY KEY, metric_uuid INTEGER, workload_id INTEGER, value_name, "
    "value FLOAT",
    "kernel_roofline_data": "roofline_uuid INTEGER PRIMARY KEY, kernel_uuid INTEGER, total_flops FLOAT, "
    "l1_cache_data FLOAT, l2_cache_data FLOAT, hbm_cache_data FLOAT",
    "workload_roofline_data": "roofline_uuid INTEGER PRIMARY KEY, workload_id INTEGER, total_flops FLOAT, "
    "l1_cache_data FLOAT, l2_cache_data FLOAT, hbm_cache_data FLOAT",
}
_SINCE_2 = {"kernel_roofline_data": ", l0_cache_data FLOAT, lds_cache_data FLOAT"}
_PC_SAMPLING = {
    "1": {
        "pcsampling": "pc_sampling_uuid INTEGER PRIMARY KEY, kernel_uuid INTEGER, source, instruction, count INTEGER"
    },
    "2": {"instruction_line": "line_uuid INTEGER PRIMARY KEY, instruction", "pc_sample_state": "state_uuid INTEGER"},
}
KERNEL_VIEW = (
    "kernel_uuid", "workload_id", "workload_name", "kernel_name", "dispatch_count", "duration_ns_sum",
    "duration_ns_min", "duration_ns_max", "duration_ns_median", "duration_ns_mean",
)  # fmt: skip
METRIC_VIEW = (
    "workload_id", "workload_name", "kernel_uuid", "kernel_name", "metric_uuid", "metric_name", "metric_id",
    "description", "table_name", "sub_table_name", "unit", "value_uuid", "value_name", "value",
)  # fmt: skip
WORKLOAD_VIEW = tuple(name for name in METRIC_VIEW if not name.startswith("kernel_"))
_DURATION = "(d.end_timestamp - d.start_timestamp)"
_MEDIAN = (
    "(SELECT avg(t) FROM (SELECT e.end_timestamp - e.start_timestamp AS t, row_number() OVER (ORDER BY "
    "e.end_timestamp - e.start_timestamp) AS n, count(*) OVER () AS m FROM compute_dispatch e WHERE "
    "e.kernel_uuid = k.kernel_uuid) WHERE n IN ((m + 1) / 2, (m + 2) / 2))"
)
_VIEWS = {
    "kernel_view": "SELECT k.kernel_uuid AS kernel_uuid, k.workload_id AS workload_id, w.name AS workload_name, "
    f"k.kernel_name AS kernel_name, count(*) AS dispatch_count, sum{_DURATION} AS duration_ns_sum, min{_DURATION} AS "
    f"duration_ns_min, max{_DURATION} AS duration_ns_max, {_MEDIAN} AS duration_ns_median, avg{_DURATION} AS "
    "duration_ns_mean FROM compute_dispatch d JOIN compute_kernel k USING (kernel_uuid) JOIN compute_workload w USING "
    "(workload_id) GROUP BY k.kernel_uuid",
    "kernel_metric_view": "SELECT w.workload_id AS workload_id, w.name AS workload_name, k.kernel_uuid AS kernel_uuid, "
    "k.kernel_name AS kernel_name, m.metric_uuid AS metric_uuid, m.name AS metric_name, m.metric_id AS metric_id, "
    "m.description AS description, m.table_name AS table_name, m.sub_table_name AS sub_table_name, m.unit AS unit, "
    "v.value_uuid AS value_uuid, v.value_name AS value_name, v.value AS value FROM compute_kernel_metric_value v JOIN "
    "compute_metric_definition m USING (metric_uuid) JOIN compute_kernel k USING (kernel_uuid) JOIN compute_workload w "
    "ON w.workload_id = m.workload_id",
    "workload_metric_view": "SELECT w.workload_id AS workload_id, w.name AS workload_name, m.metric_uuid AS "
    "metric_uuid, m.name AS metric_name, m.metric_id AS metric_id, m.description AS description, "
    "m.table_name AS table_name, m.sub_table_name AS sub_table_name, m.unit AS unit, v.value_uuid AS value_uuid, "
    "v.value_name AS value_name, v.value AS value FROM compute_workload_metric_value v JOIN "
    "compute_metric_definition m USING (metric_uuid) JOIN compute_workload w ON w.workload_id = m.workload_id",
}


def write_database(path: Path, folders: Sequence[AnalyzedFolder], release: Release) -> None:
    """All workloads in one file; an older one is replaced."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        major = release.schema_version[0]
        for name, columns in {**_TABLES, **_PC_SAMPLING[major]}.items():
            extra = _SINCE_2.get(name, "") if major == "2" else ""
            if name == "kernel" and release.number >= (3, 10):
                extra = ", short_name"
            connection.execute(f"CREATE TABLE compute_{name} ({columns}{extra})")
        for name, select in _VIEWS.items():
            connection.execute(f"CREATE VIEW compute_{name} AS {select}")
        connection.execute(
            "INSERT INTO compute_metadata VALUES (1, ?, 'standin', ?)", (release.told, release.schema_version)
        )
        for folder in folders:
            _insert_workload(connection, folder, release)
        connection.commit()


def read_views(path: Path) -> dict[str, tuple[tuple[str, ...], list[tuple[object, ...]]]]:
    """The views of a file: name as of its CSV file -> columns and rows."""
    views = {"kernel": KERNEL_VIEW, "kernel_metric": METRIC_VIEW, "workload_metric": WORKLOAD_VIEW}
    with closing(sqlite3.connect(path)) as connection:
        return {
            name: (columns, connection.execute(f"SELECT {', '.join(columns)} FROM compute_{name}_view").fetchall())
            for name, columns in views.items()
        }


def _insert_workload(connection: sqlite3.Connection, folder: AnalyzedFolder, release: Release) -> None:
    documents = [json.dumps(each) for each in (folder.facts, folder.roofline, folder.config)]
    workload = connection.execute(
        "INSERT INTO compute_workload VALUES (NULL, ?, ?, ?, ?, ?)", (folder.name, folder.sub_name, *documents)
    ).lastrowid
    for metric_of in zip(*(kernel.metrics for kernel in folder.kernels), strict=True):
        _insert_metric(connection, workload, metric_of)
    kernels = []
    for kernel in folder.kernels:
        short = [kernel.name[:20]] if release.number >= (3, 10) else []
        marks = ", ".join("?" for _ in short)
        sql = f"INSERT INTO compute_kernel VALUES (NULL, ?, ?{', ' + marks if marks else ''})"
        kernels.append(connection.execute(sql, (workload, kernel.name, *short)).lastrowid)
        for launch in kernel.launches:
            connection.execute("INSERT INTO compute_dispatch VALUES (NULL, ?, ?, ?, ?, ?)", (kernels[-1], *launch))
        point = [kernel.point[name] for name in ("flops", "l1", "l2", "hbm")]
        beyond = ", NULL, NULL" if release.schema_version.startswith("2") else ""
        sql = f"INSERT INTO compute_kernel_roofline_data VALUES (NULL, ?, ?, ?, ?, ?{beyond})"
        connection.execute(sql, (kernels[-1], *point))
    definitions = connection.execute(
        "SELECT metric_uuid, metric_id FROM compute_metric_definition WHERE workload_id = ?", (workload,)
    ).fetchall()
    for metric_uuid, metric_id in definitions:
        for kernel_uuid, kernel in zip(kernels, folder.kernels, strict=True):
            (metric,) = (each for each in kernel.metrics if each.metric_id == metric_id)
            for name, value in metric.values.items():
                connection.execute(
                    "INSERT INTO compute_kernel_metric_value VALUES (NULL, ?, ?, ?, ?)",
                    (metric_uuid, kernel_uuid, name, value),
                )


def _insert_metric(connection: sqlite3.Connection, workload: int | None, metric_of: Sequence[Metric]) -> None:
    """One definition, and its means over all kernels."""
    first = metric_of[0]
    metric = connection.execute(
        "INSERT INTO compute_metric_definition VALUES (NULL, ?, ?, ?, '', ?, ?, ?)",
        (workload, first.name, first.metric_id, first.table, first.sub_table, first.unit),
    ).lastrowid
    for name in first.values:
        values = [each.values[name] for each in metric_of]
        known = [value for value in values if value is not None]
        connection.execute(
            "INSERT INTO compute_workload_metric_value VALUES (NULL, ?, ?, ?, ?)",
            (metric, workload, name, sum(known) / len(known) if known else None),
        )
