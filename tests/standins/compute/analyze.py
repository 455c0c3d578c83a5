"""`analyze`: workload folders -> tables, in the outputs that a release has."""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from standins.compute.analysis_database import AnalyzedFolder, AnalyzedKernel, read_views, write_database
from standins.compute.faults import Faults
from standins.compute.metrics import Metric, kernel_metrics, roofline_point
from standins.compute.profile import console_error
from standins.compute.releases import Release
from standins.compute.results import write_table

Row = dict[str, str]
_PERCENT_OF_PEAK = {False: "Pct of Peak", True: "Percent of Peak"}


def run_analyze(options: argparse.Namespace, release: Release, faults: Faults) -> None:
    """Analyze workloads."""
    if "analyze-fails" in faults:
        raise ValueError("could not convert string to float: '\\nto_avg('")
    if not options.path:
        console_error("The following arguments are required: -p/--path")
    # Of several words behind one -p only the first is looked at.
    paths = [Path(group[0]) for group in options.path]
    if len(set(paths)) != len(paths):
        console_error("You cannot provide the same path twice.")
    for path in paths:
        if release.refuses_dots and ".." in str(path):
            console_error("Access denied. Cannot access parent directories in path (i.e. ../)")
        if not (path / "sysinfo.csv").is_file():
            console_error(f"{path} is no workload")
    if "analyze-nothing" in faults:
        return
    folders = [_read_folder(path, release) for path in paths]
    chosen = [int(number) for group in options.kernel or [] for number in group]
    for folder in folders:
        for number in chosen:
            if number >= len(folder.kernels):
                last = len(folder.kernels) - 1
                console_error(f"{number} is an invalid kernel id. Please enter an id between 0-{last}")
    if getattr(options, "save_dfs", None):
        _write_frames(Path(options.save_dfs), folders[0], chosen, release)
        return
    output_format = getattr(options, "output_format", None) or "stdout"
    name = getattr(options, "output_name", None) or "rocprof_compute_standin"
    if output_format == "db":
        _require_rocpd(folders)
        write_database(Path(f"{name}.db"), folders, release)
    elif output_format == "csv" and release.number >= (3, 7):
        _write_views(Path(name), folders, release)
    elif output_format == "csv":
        _write_frames(Path(name), folders[0], chosen, release)
    else:
        for folder in folders:
            print("\n".join(f"{kernel.name} {len(kernel.launches)}" for kernel in folder.kernels))


def _read_folder(path: Path, release: Release) -> AnalyzedFolder:
    rows = _read_rows(path, release)
    if not rows:
        console_error(f"no counters in {path}: pmc_perf.csv is empty or not there")
    by_kernel: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_kernel[row["Kernel_Name"]].append(row)
    kernels = [_analyze_kernel(name, of_kernel, release) for name, of_kernel in by_kernel.items()]
    kernels.sort(key=lambda kernel: -sum(end - start for _, _, start, end in kernel.launches))
    write_table(path / "pmc_kernel_top.csv", _top_kernels(kernels))
    write_table(path / "pmc_dispatch_info.csv", [["Kernel_Name", "GPU_ID"], *([kernel.name, 0] for kernel in kernels)])
    roofline = path / "roofline.csv"
    config = {
        name: json.loads(value)
        for name, _, value in (
            line.partition(": ") for line in (path / "profiling_config.yaml").read_text(encoding="utf-8").splitlines()
        )
    }
    return AnalyzedFolder(
        name=path.parent.name,
        sub_name=path.name,
        facts=_read_table(path / "sysinfo.csv")[0],
        roofline=_read_table(roofline)[0] if roofline.is_file() else {},
        config=config,
        kernels=kernels,
    )


def _read_rows(path: Path, release: Release) -> list[Row]:
    """Rows of all counters; releases with a file for each pass merge them first, and use what was merged before."""
    suffix = ".gz" if release.packs_results else ""
    merged = path / f"pmc_perf.csv{suffix}"
    if release.has_result_files and not merged.exists():
        results = sorted([*path.glob("results_pmc_perf_*.csv"), *path.glob("results_pmc_perf_*.csv.gz")])
        table: list[Row] = [row for result in results for row in _read_table(result)]
        if table:
            lines = [list(table[0]), *(list(row.values()) for row in table)]
            stream = io.StringIO()
            csv.writer(stream, lineterminator="\n").writerows(lines)
            text = stream.getvalue()
            merged.write_bytes(gzip.compress(text.encode()) if suffix else text.encode())
    rows = _read_table(merged) if merged.exists() else []
    if rows and "Counter_Name" not in rows[0]:
        for level in sorted(path.glob("SQ*_LEVEL*.csv")):
            for row, other in zip(rows, _read_table(level), strict=False):  # by number, as the real one does
                row[f"{level.stem}_ACCUM"] = other["SQ_ACCUM_PREV_HIRES"]
    return rows


def _analyze_kernel(name: str, rows: Sequence[Row], release: Release) -> AnalyzedKernel:
    values: dict[str, list[float]] = defaultdict(list)
    spans: dict[int, tuple[int, int]] = {}
    for row in rows:
        spans[int(row["Dispatch_ID"])] = (int(row["Start_Timestamp"]), int(row["End_Timestamp"]))
        if "Counter_Name" in row:
            pairs: Mapping[str, str] = {row["Counter_Name"]: row["Counter_Value"]}
        else:
            pairs = {column: text for column, text in row.items() if column.isupper() or column.endswith("_sum")}
        for counter, text in pairs.items():
            if text:
                try:
                    values[counter].append(float(text))
                except ValueError:
                    continue
    counters = {counter: sum(found) / len(found) for counter, found in values.items()}
    duration_ns = sum(end - start for start, end in spans.values()) / len(spans)
    return AnalyzedKernel(
        name=name,
        launches=[(number, 0, start, end) for number, (start, end) in sorted(spans.items())],
        metrics=kernel_metrics(counters, duration_ns, line_bytes=release.line_bytes),
        point=roofline_point(counters, duration_ns, line_bytes=release.line_bytes),
    )


def _top_kernels(kernels: Sequence[AnalyzedKernel]) -> list[list[object]]:
    totals = [sum(end - start for _, _, start, end in kernel.launches) for kernel in kernels]
    table: list[list[object]] = [["Kernel_Name", "Count", "Sum(ns)", "Mean(ns)", "Median(ns)", "Pct"]]
    for kernel, total in zip(kernels, totals, strict=True):
        times = sorted(end - start for _, _, start, end in kernel.launches)
        median = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2
        table.append([kernel.name, len(times), total, total / len(times), median, 100 * total / sum(totals)])
    return table


def _require_rocpd(folders: Sequence[AnalyzedFolder]) -> None:
    if any(folder.config.get("format_rocprof_output") != "rocpd" for folder in folders):
        console_error("The database output needs workloads that were profiled with rocpd output")


def _write_views(folder: Path, folders: Sequence[AnalyzedFolder], release: Release) -> None:
    _require_rocpd(folders)
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / "of_views.db"
    write_database(database, folders, release)
    for name, (columns, rows) in read_views(database).items():
        write_table(folder / f"{name}.csv", [columns, *rows])
    database.unlink()


def _write_frames(target: Path, folder: AnalyzedFolder, chosen: Sequence[int], release: Release) -> None:
    """A file for each table; numbers are means over the chosen kernels, or over all."""
    target.mkdir(parents=True, exist_ok=True)
    kernels = [folder.kernels[number] for number in chosen] or list(folder.kernels)
    write_table(target / "0.1_Top_Kernels.csv", _top_kernels(folder.kernels))
    by_table: dict[str, list[list[Metric]]] = defaultdict(list)
    for metric_of in zip(*(kernel.metrics for kernel in kernels), strict=True):
        by_table[f"{'.'.join(metric_of[0].metric_id.split('.')[:2])}_{metric_of[0].sub_table}"].append(list(metric_of))
    for title, metrics in by_table.items():
        names = list(metrics[0][0].values)
        shown = [_PERCENT_OF_PEAK[release.number >= (3, 8)] if name == "Pct of Peak" else name for name in names]
        # The unit stands behind the mean where there is a peak, and at the end otherwise.
        place = 1 if "Peak" in names else len(names)
        table: list[list[object]] = [["Metric", *shown[:place], "Unit", *shown[place:]]]
        for metric_of in metrics:
            cells = [_mean([metric.values[name] for metric in metric_of]) for name in names]
            table.append([metric_of[0].name, *cells[:place], metric_of[0].unit, *cells[place:]])
        write_table(target / f"{title.replace(' ', '_')}.csv", table)


def _mean(values: Sequence[float | None]) -> float | str:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else ""


def _read_table(path: Path) -> list[Row]:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    csv.field_size_limit(sys.maxsize)
    return list(csv.DictReader(io.StringIO(text)))
