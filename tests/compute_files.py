"""What `rocprof-compute analyze` writes, written here from the layouts that its versions are known to have.

Nothing of the product is used, so that what is read back is compared with what was meant, not with a shared mistake.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Values = Mapping[tuple[str, str], float | str | None]
"""(metric id, value name) -> value."""

DEFINITIONS: Mapping[str, tuple[str, str, str, str | None]] = {
    "2.1.0": ("VALU FLOPs", "System Speed-of-Light", "System Speed-of-Light", "Gflop/s"),
    "2.1.5": ("MFMA FLOPs (F32)", "System Speed-of-Light", "System Speed-of-Light", "Gflop/s"),
    "4.1.1": ("VALU FLOPs (F32)", "Roofline", "Roofline Performance Rates", "Gflop/s"),
    "2.1.11": ("VALU Utilization", "System Speed-of-Light", "System Speed-of-Light", "Percent"),
    "2.1.17": ("Wavefront Occupancy", "System Speed-of-Light", "System Speed-of-Light", "Wavefronts"),
    "2.1.24": ("L2-Fabric Read BW", "System Speed-of-Light", "System Speed-of-Light", "Gb/s"),
    "2.1.25": ("L2-Fabric Write BW", "System Speed-of-Light", "System Speed-of-Light", "Gb/s"),
    "7.1.2": ("Total Wavefronts", "Wavefront", "Wavefront Launch Stats", "Wave"),
    "7.2.0": ("Kernel Time", "Wavefront", "Wavefront Runtime Stats", "Nanoseconds"),
    "11.3.0": ("FLOPs (Total)", "Compute Units - Compute Pipeline", "Arithmetic Operations", "Flops per kernel"),
    "11.3.5": ("F32 OPs", "Compute Units - Compute Pipeline", "Arithmetic Operations", "Flops per kernel"),
    "16.3.9": ("L1-L2 BW", "Vector L1 Data Cache", "vL1D cache access metrics", "Gb/s"),
    "18.2.3": ("3", "L2 Cache (per Channel)", "L2 Cache Hit Rate (Percent)", None),
}
"""Metric id -> name, table, sub-table, unit."""


@dataclass(frozen=True)
class Kernel:
    """A kernel as the tool saw it.

    Attributes:
        launches_ns: durations in the counter pass.
        values: of its metrics.
        points: level -> FLOPs per byte; the table lacks levels of schema 2 in schema 1.
        flop_per_ns: of its roofline point.
    """

    name: str
    launches_ns: Sequence[int] = (1_000,)
    values: Values = field(default_factory=dict)
    points: Mapping[str, float] = field(default_factory=dict)
    flop_per_ns: float = 0.0


@dataclass(frozen=True)
class Workload:
    """A workload with its kernels."""

    name: str
    kernels: Sequence[Kernel]
    system: Mapping[str, object] = field(default_factory=lambda: {"gpu_arch": "gfx950", "num_xcd": 8})
    bench: Mapping[str, object] = field(default_factory=dict)
    values: Values = field(default_factory=dict)


def write_analysis(
    path: Path, workloads: Sequence[Workload], *, version: str = "3.5.0", schema: str = "1.3.0", has_views: bool = True
) -> Path:
    """An analysis database; schema 2 has more columns, and numbers kernels and metrics otherwise."""
    is_second = schema.startswith("2")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")  # many small files, and no power cut
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.executescript(_tables(is_second) + (_VIEWS if has_views else ""))
    connection.execute("INSERT INTO compute_metadata VALUES (1, ?, 'abc', ?)", (version, schema))
    kernel_id, metric_id, value_id, dispatch_id = (1_000_000_000, 500, 9, 0) if is_second else (0, 0, 0, 0)
    for number, workload in enumerate(workloads, start=1):
        connection.execute(
            "INSERT INTO compute_workload VALUES (?, ?, 'MI350', ?, ?, '{}')",
            (number, workload.name, json.dumps(workload.system), json.dumps(workload.bench)),
        )
        metrics: dict[str, int] = {}
        for key in sorted({key for owner in (workload, *workload.kernels) for key, _ in owner.values}):
            metric_id += 1
            metrics[key] = metric_id
            name, table, sub_table, unit = DEFINITIONS[key]
            connection.execute(
                "INSERT INTO compute_metric_definition VALUES (?, ?, ?, ?, 'what it is', ?, ?, ?)",
                (metric_id, number, name, key, table, sub_table, unit),
            )
        for (key, value_name), value in workload.values.items():
            value_id += 1
            connection.execute(
                "INSERT INTO compute_workload_metric_value VALUES (?, ?, ?, ?, ?)",
                (value_id, metrics[key], number, value_name, value),
            )
        for kernel in workload.kernels:
            kernel_id += 1
            _insert(connection, "compute_kernel", (kernel_id, number, kernel.name, *([kernel.name[:9]] * is_second)))
            start = 10_000
            for duration in kernel.launches_ns:
                dispatch_id += 1
                _insert(
                    connection,
                    "compute_dispatch",
                    (dispatch_id, kernel_id, dispatch_id, *([77] * is_second), 2, start, start + duration),
                )
                start += duration + 5
            for (key, value_name), value in kernel.values.items():
                value_id += 1
                _insert(
                    connection,
                    "compute_kernel_metric_value",
                    (value_id, metrics[key], kernel_id, value_name, value),
                )
            if kernel.points:
                levels = ("l0", "l1", "l2", "hbm", "lds") if is_second else ("l1", "l2", "hbm")
                found = [kernel.points.get(level) for level in levels]
                _insert(connection, "compute_kernel_roofline_data", (kernel_id, kernel_id, kernel.flop_per_ns, *found))
    connection.commit()
    connection.close()
    return path


def _insert(connection: sqlite3.Connection, table: str, values: Sequence[object]) -> None:
    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", tuple(values))


def _tables(is_second: bool) -> str:
    short = ", short_name VARCHAR" if is_second else ""
    pid = ", pid INTEGER" if is_second else ""
    points = (
        "total_flops FLOAT, l0_cache_data FLOAT, l1_cache_data FLOAT, l2_cache_data FLOAT, hbm_cache_data FLOAT, "
        "lds_cache_data FLOAT"
        if is_second
        else "total_flops FLOAT, l1_cache_data FLOAT, l2_cache_data FLOAT, hbm_cache_data FLOAT"
    )
    return f"""
    CREATE TABLE compute_workload (workload_id INTEGER PRIMARY KEY, name VARCHAR, sub_name VARCHAR,
        sys_info_extdata JSON, roofline_bench_extdata JSON, profiling_config_extdata JSON);
    CREATE TABLE compute_metadata (id INTEGER PRIMARY KEY, compute_version VARCHAR, git_version VARCHAR,
        schema_version VARCHAR);
    CREATE TABLE compute_metric_definition (metric_uuid INTEGER PRIMARY KEY, workload_id INTEGER, name VARCHAR,
        metric_id VARCHAR, description TEXT, table_name VARCHAR, sub_table_name VARCHAR, unit VARCHAR);
    CREATE TABLE compute_kernel (kernel_uuid INTEGER PRIMARY KEY, workload_id INTEGER, kernel_name VARCHAR{short});
    CREATE TABLE compute_dispatch (dispatch_uuid INTEGER PRIMARY KEY, kernel_uuid INTEGER, dispatch_id INTEGER{pid},
        gpu_id INTEGER, start_timestamp INTEGER, end_timestamp INTEGER);
    CREATE TABLE compute_kernel_metric_value (value_uuid INTEGER PRIMARY KEY, metric_uuid INTEGER,
        kernel_uuid INTEGER, value_name VARCHAR, value FLOAT);
    CREATE TABLE compute_workload_metric_value (value_uuid INTEGER PRIMARY KEY, metric_uuid INTEGER,
        workload_id INTEGER, value_name VARCHAR, value FLOAT);
    CREATE TABLE compute_kernel_roofline_data (roofline_uuid INTEGER PRIMARY KEY, kernel_uuid INTEGER, {points});
    CREATE TABLE compute_workload_roofline_data (roofline_uuid INTEGER PRIMARY KEY, workload_id INTEGER, {points});
    """


_VIEWS = """
    CREATE VIEW compute_kernel_view AS SELECT k.kernel_uuid, k.workload_id, w.name AS workload_name, k.kernel_name,
        count(d.dispatch_id) AS dispatch_count, sum(d.end_timestamp - d.start_timestamp) AS duration_ns_sum,
        min(d.end_timestamp - d.start_timestamp) AS duration_ns_min,
        max(d.end_timestamp - d.start_timestamp) AS duration_ns_max,
        avg(d.end_timestamp - d.start_timestamp) AS duration_ns_median,
        avg(d.end_timestamp - d.start_timestamp) AS duration_ns_mean
        FROM compute_dispatch d JOIN compute_kernel k USING (kernel_uuid) JOIN compute_workload w USING (workload_id)
        GROUP BY k.kernel_uuid;
    CREATE VIEW compute_kernel_metric_view AS SELECT w.workload_id, w.name AS workload_name, k.kernel_uuid,
        k.kernel_name, m.metric_uuid, m.name AS metric_name, m.metric_id, m.description, m.table_name,
        m.sub_table_name, m.unit, v.value_uuid, v.value_name, v.value
        FROM compute_kernel_metric_value v JOIN compute_metric_definition m USING (metric_uuid)
        JOIN compute_kernel k ON k.kernel_uuid = v.kernel_uuid JOIN compute_workload w ON w.workload_id = k.workload_id;
    CREATE VIEW compute_workload_metric_view AS SELECT w.workload_id, w.name AS workload_name, m.metric_uuid,
        m.name AS metric_name, m.metric_id, m.description, m.table_name, m.sub_table_name, m.unit, v.value_uuid,
        v.value_name, v.value
        FROM compute_workload_metric_value v JOIN compute_metric_definition m USING (metric_uuid)
        JOIN compute_workload w ON w.workload_id = v.workload_id;
"""


def write_view_files(database: Path, folder: Path) -> Path:
    """The views of a database as `--output-format csv` writes them: a file for each."""
    folder.mkdir()
    connection = sqlite3.connect(database)
    for view, name in (
        ("compute_kernel_view", "kernel.csv"),
        ("compute_kernel_metric_view", "kernel_metric.csv"),
        ("compute_workload_metric_view", "workload_metric.csv"),
    ):
        cursor = connection.execute(f"SELECT * FROM {view}")
        with (folder / name).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow([entry[0] for entry in cursor.description])
            writer.writerows(cursor)
    connection.close()
    return folder


def write_table(folder: Path, name: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """One table of `--save-dfs`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)
    return folder / name


def wrapped_name(name: str, width: int = 40) -> str:
    """A kernel name as `--save-dfs` has it."""
    return "\n".join(name[start : start + width] for start in range(0, len(name), width))


def write_saved_tables(
    folder: Path, kernels: Sequence[tuple[str, int, float]], metrics: Sequence[tuple[str, object, str, object, object]]
) -> Path:
    """Tables of kernels (name, launches, mean ns) and of speed of light (metric, avg, unit, peak, share)."""
    rows = [
        (wrapped_name(name), float(count), mean * count, mean, mean, 100.0 / len(kernels))
        for name, count, mean in kernels
    ]
    header = ("Kernel_Name", "Count", "Sum(ns)", "Mean(ns)", "Median(ns)", "Pct")
    write_table(folder, "0.1_Top_Kernels.csv", header, rows)
    write_table(folder, "2.1_System_Speed-of-Light.csv", ("Metric", "Avg", "Unit", "Peak", "Pct of Peak"), metrics)
    return folder


LONG_HEADER = (
    "GPU_ID,GUID,Correlation_Id,Dispatch_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,"
    "Arch_VGPR,Accum_VGPR,SGPR,Kernel_Name,Start_Timestamp,End_Timestamp,Kernel_ID,Counter_Name,Counter_Value"
)


def write_pass(
    folder: Path,
    number: int,
    counters: Mapping[str, Sequence[float]],
    *,
    kernel: str = "k",
    durations_ns: Sequence[int] = (1_000, 1_100),
    is_packed: bool = False,
) -> Path:
    """The results of one pass, as 3.6 and later leave them: counter -> its value in each launch."""
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(LONG_HEADER.split(","))
    for launch, duration in enumerate(durations_ns):
        start = 1_000_000 * (number + 1) + 10_000 * launch
        for name, values in counters.items():
            writer.writerow(
                (
                    *(2, f"guid-{number}", launch + 1, launch, 1_024, 256, 0, 0, 16, 0, 32, kernel, start),
                    *(start + duration, 7, name, values[launch]),
                )
            )
    path = folder / f"results_pmc_perf_{number}.csv{'.gz' if is_packed else ''}"
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content, mtime=0) if is_packed else content)
    return path


def write_sysinfo(folder: Path, **facts: object) -> Path:
    """sysinfo.csv with these columns."""
    folder.mkdir(parents=True, exist_ok=True)
    text = f"{','.join(facts)}\n{','.join(map(str, facts.values()))}\n"
    (folder / "sysinfo.csv").write_text(text, encoding="utf-8")
    return folder
