"""The benchmark behind scripts/bench: how fast rocktools reads what tools wrote, as ratios to what people use now.

Makes databases and profiles with rocktools.demo in a temporary folder, and measures every method on them in processes
of their own (scripts/bench_methods.py), with a warm page cache; medians of several runs. Times are reported, never
asserted: the exit code is 1 only if two methods read different things, or a measurement failed. JAX profiles and device
timelines have sections of their own (scripts/bench_xspace.py, scripts/bench_timeline.py).

This process imports neither numpy nor pandas: Linux counts its memory into the highest memory of the processes that it
starts.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

METHODS_SCRIPT = Path(__file__).with_name("bench_methods.py")
STOCK_DATABASE = "data/rocpd/rocprofv3-mi300x.db"
SIZES = (100_000, 1_000_000, 5_000_000)
QUICK_SIZES = (100_000,)
PARTS = ("dispatches", "files", "counters", "health", "write", "xspace", "timeline", "align", "replay")
COUNTERS = ("SQ_WAVES", "SQ_INSTS_VALU", "TCC_HIT", "GRBM_GUI_ACTIVE")
FILES_COUNT = 4
TARGET_SIZE = 1_000_000
TARGET_PART_SIZE = 100_000

STANDARD = "rocktools, standard library"
FAST = "rocktools, adbc"
VIEW = "pandas, kernels view"
UNION = "pandas, union views"
COUNTER_VIEW = "pandas, counters_collection"
PROFILE_DATA = "jax.profiler.ProfileData"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Medians of one method on one subject.

    Attributes:
        part: one of `PARTS`.
        subject: what was read or written.
        method: how.
        rows_count: rows of the result (findings for health).
        total: sum(end - start) in ns, or sum of counter values; equal for all methods of a subject.
        seconds: median time.
        spread_ratio: (longest - shortest) / median.
        extra_bytes: median of the highest resident memory minus what was resident after the imports.
    """

    part: str
    subject: str
    method: str
    rows_count: int
    total: float
    seconds: float
    spread_ratio: float
    extra_bytes: int


@dataclass(frozen=True, slots=True)
class Target:
    """A promise: `method` needs `wanted_ratio` times less than `baseline` on `subject`; `remark` tells another size.

    With `budget_bytes` it is one about memory: the method needs no more than that.
    """

    name: str
    subject: str
    remark: str
    method: str
    baseline: str
    wanted_ratio: float
    is_memory: bool = False
    budget_bytes: int = 0


class Bench:
    """The databases and what was measured on them."""

    def __init__(self, folder: Path, *, repeats: int, stock: dict[str, str]) -> None:
        self.folder = folder
        self.repeats = repeats
        self.stock = stock
        self.has_accelerator = all(map(importlib.util.find_spec, ("adbc_driver_sqlite", "pyarrow")))
        self.measurements: list[Measurement] = []
        self.failures: list[str] = []

    def make(self, name: str, **shape: Any) -> Path:
        """Write a database and give it the stock views. Its writing is measured, once.

        Raises:
            SystemExit: it could not be written.
        """
        path = self.folder / name
        say(f"writing {name}")
        found = run_method("write_trace", {"files": [str(path)], "shape": shape})
        if found is None:
            raise SystemExit(f"bench: could not write {name}")
        subject = subject_of(shape["dispatches_count"], "with counters" if "counters" in shape else "dispatches")
        if self.find(subject, "write_trace") is None:
            self._add("write", subject, "write_trace", [found])
        install_views(path, self.stock)
        return path

    def measure(
        self, part: str, subject: str, method: str, label: str, task: dict[str, Any], repeats: int | None = None
    ) -> None:
        """Run a method several times; a failure is noted, and the others go on."""
        say(f"{subject}: {label}")
        runs = []
        for _ in range(repeats or self.repeats):
            for file in task["files"]:
                warm(Path(file))
            found = run_method(method, task)
            if found is None:
                self.failures.append(f"{subject}: {label}")
                return
            runs.append(found)
        self._add(part, subject, label, runs)

    def measure_rocktools(self, part: str, subject: str, method: str, files: Sequence[Path]) -> None:
        """Run a method of rocktools with the standard library alone, and with the accelerator where there is one."""
        names = [str(file) for file in files]
        self.measure(part, subject, method, STANDARD, {"files": names, "accelerate": False})
        if self.has_accelerator:
            self.measure(part, subject, method, FAST, {"files": names, "accelerate": None})

    def _add(self, part: str, subject: str, label: str, runs: list[dict[str, Any]]) -> None:
        seconds = [run["seconds"] for run in runs]
        median = statistics.median(seconds)
        self.measurements.append(
            Measurement(
                part=part,
                subject=subject,
                method=label,
                rows_count=runs[0]["count"],
                total=runs[0]["total"],
                seconds=median,
                spread_ratio=(max(seconds) - min(seconds)) / median,
                extra_bytes=int(statistics.median(run["extra_bytes"] for run in runs)),
            )
        )

    def find(self, subject: str, method: str) -> Measurement | None:
        """The measurement of that subject and method, if it was made."""
        for each in self.measurements:
            if (each.subject, each.method) == (subject, method):
                return each
        return None


def subject_of(count: int, what: str) -> str:
    return f"{count:,} {what}"


def say(text: str) -> None:
    """Progress, for people who watch."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def warm(path: Path) -> None:
    """Read a file once, so that it is in the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 22):
            pass


def run_method(method: str, task: dict[str, Any]) -> dict[str, Any] | None:
    """One measurement in a process of its own; None if it failed (its own words went to stderr)."""
    command = [sys.executable, str(METHODS_SCRIPT), method, json.dumps(task)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return None
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def read_stock_views(path: Path | None) -> dict[str, str]:
    """CREATE VIEW texts of a real rocprofv3 file, by name, for any suffix; {} without one."""
    if path is None:
        return {}
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'").fetchall()
    # The data views name no suffix; the pass-throughs, which do, are the same in every file.
    return {name: sql for name, sql in found if not name.startswith("rocpd_")}


def install_views(path: Path, views: dict[str, str]) -> None:
    """Put these views in place of those of the same name."""
    with closing(sqlite3.connect(path)) as connection:
        for name, text in views.items():
            connection.execute(f'DROP VIEW IF EXISTS "{name}"')
            connection.execute(text)
        connection.commit()


def view_text(path: Path, name: str) -> str:
    with closing(sqlite3.connect(path)) as connection:
        [(text,)] = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchall()
    return str(text)


def bench_sizes(bench: Bench, sizes: Sequence[int], parts: Sequence[str]) -> None:
    """One file of each size: reading dispatches, and the health checks apart."""
    for size in sizes:
        path = bench.make(f"trace-{size}.db", dispatches_count=size, seed=size)
        subject = subject_of(size, "dispatches")
        if "dispatches" in parts:
            bench.measure("dispatches", subject, "view of dispatches", VIEW, {"files": [str(path)]})
            bench.measure_rocktools("dispatches", subject, "rocktools dispatches", [path])
        if "health" in parts:
            bench.measure_rocktools("health", f"health of {subject}", "rocktools health", [path])
        path.unlink()


def bench_files(bench: Bench, size: int) -> None:
    """Several files against attaching them and uniting every table."""
    paths = [
        bench.make(f"rank-{rank}.db", dispatches_count=size, seed=rank, pid=5000 + rank) for rank in range(FILES_COUNT)
    ]
    subject = files_subject(size)
    task = {"files": [str(path) for path in paths], "kernels_view": view_text(paths[0], "kernels")}
    bench.measure("files", subject, "union views of dispatches", UNION, task)
    bench.measure_rocktools("files", subject, "rocktools dispatches", paths)
    for path in paths:
        path.unlink()


def files_subject(size: int) -> str:
    return f"{FILES_COUNT} files x {size:,}"


def bench_counters(bench: Bench, size: int) -> None:
    """Counter values against the view that sums them."""
    path = bench.make(
        f"counters-{size}.db", dispatches_count=size, counters=COUNTERS, instances_count=8, has_host_calls=False, seed=3
    )
    subject = subject_of(size, "x 4 counters x 8")
    bench.measure("counters", subject, "view of counters", COUNTER_VIEW, {"files": [str(path)]})
    bench.measure_rocktools("counters", subject, "rocktools counters", [path])
    path.unlink()


def targets(sizes: Sequence[int], part_size: int) -> list[Target]:
    """What was promised; the size nearest to the promised one stands in where that was not measured."""
    nearest = min(sizes, key=lambda size: abs(size - TARGET_SIZE))
    one = subject_of(nearest, "dispatches"), "" if nearest == TARGET_SIZE else f"promised for {TARGET_SIZE:,}"
    promised_part = "" if part_size == TARGET_PART_SIZE else f"promised for {TARGET_PART_SIZE:,}"
    four = files_subject(part_size), promised_part
    counted = subject_of(part_size, "x 4 counters x 8"), promised_part
    return [
        Target("time, standard library", *one, STANDARD, VIEW, 2.5),
        Target("memory, standard library", *one, STANDARD, VIEW, 4.0, is_memory=True),
        Target("time, adbc", *one, FAST, VIEW, 6.0),
        Target("four files, standard library", *four, STANDARD, UNION, 30.0),
        Target("four files, adbc", *four, FAST, UNION, 30.0),
        Target("counters, standard library", *counted, STANDARD, COUNTER_VIEW, 5.0),
        Target("counters, adbc", *counted, FAST, COUNTER_VIEW, 5.0),
    ]


def ratio_of(bench: Bench, subject: str, method: str, baseline: str, *, is_memory: bool) -> float | None:
    """How many times less `method` needs than `baseline`; None where one of them was not measured."""
    ours, theirs = bench.find(subject, method), bench.find(subject, baseline)
    if ours is None or theirs is None:
        return None
    if is_memory:
        return theirs.extra_bytes / max(ours.extra_bytes, 1)
    return theirs.seconds / ours.seconds


def disagreements(measurements: Sequence[Measurement]) -> list[str]:
    """Subjects whose methods did not read the same rows."""
    first: dict[tuple[str, str], Measurement] = {}
    found = []
    for each in measurements:
        if each.part in ("health", "write"):
            continue
        other = first.setdefault((each.part, each.subject), each)
        if (each.rows_count, each.total) != (other.rows_count, other.total):
            found.append(
                f"{each.subject}: {other.method} read {other.rows_count:,} rows, total {other.total:,}; "
                f"{each.method} read {each.rows_count:,} rows, total {each.total:,}"
            )
    return found


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table: first columns left, numbers right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if k < 2 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def render_measurements(bench: Bench) -> str:
    rows = []
    for each in bench.measurements:
        baselines = {"dispatches": VIEW, "files": UNION, "counters": COUNTER_VIEW, "xspace": PROFILE_DATA}
        baseline = baselines.get(each.part, "")
        ratios = [ratio_of(bench, each.subject, each.method, baseline, is_memory=kind) for kind in (False, True)]
        is_rate = each.part != "health"
        rows.append(
            (
                each.subject,
                each.method,
                f"{each.seconds:.3f}",
                f"{each.rows_count / each.seconds:,.0f}" if is_rate else "",
                f"{each.extra_bytes / 1e6:,.0f}",
                f"{100 * each.spread_ratio:.0f} %",
                *(f"{ratio:.1f}x" if ratio else "" for ratio in ratios),
            )
        )
    return table(("what", "how", "s", "rows/s", "extra MB", "spread", "faster", "smaller"), rows)


def render_targets(bench: Bench, wanted: Sequence[Target]) -> tuple[str, list[dict[str, Any]]]:
    """The table of promises, and the same for the JSON file."""
    rows, records = [], []
    for target in wanted:
        ours = bench.find(target.subject, target.method)
        if target.budget_bytes:
            ratio = target.budget_bytes / ours.extra_bytes if ours is not None else None
        else:
            ratio = ratio_of(bench, target.subject, target.method, target.baseline, is_memory=target.is_memory)
        verdict = "not measured" if ratio is None else "reached" if ratio >= target.wanted_ratio else "NOT reached"
        shown = "" if ratio is None else f"{ratio:.1f}x"
        rows.append((target.name, target.subject, shown, f"{target.wanted_ratio:g}x", verdict, target.remark))
        records.append({**asdict(target), "ratio": ratio, "verdict": verdict})
    return table(("target", "on", "ratio", "wanted", "", ""), rows), records


def machine() -> dict[str, Any]:
    """What the figures depend on; nothing that names the machine."""
    versions: dict[str, str | None] = {}
    for name in ("rocktools", "numpy", "pandas", "pyarrow", "adbc-driver-sqlite", "numba", "protobuf", "jaxlib"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.machine()}",
        "cpus_count": os.cpu_count(),
        "load_average": list(os.getloadavg()),
        "versions": versions,
    }


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="100,000 dispatches and a profile of 10 MB only")
    parser.add_argument("--sizes", type=_sizes, help="dispatches per file, separated by commas")
    parser.add_argument(
        "--part-size", type=int, default=100_000, help="dispatches per file for several files and counters"
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs behind each median (default 3)")
    parser.add_argument("--only", type=_parts, default=PARTS, help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--stock-db", type=Path, help="real rocprofv3 file to take the stock views from")
    parser.add_argument("--results", type=Path, default=Path("bench-results"), help="folder for the JSON file")
    parser.add_argument(
        "--folder", type=Path, help="where the databases are made (default: the system's temporary folder)"
    )
    return parser.parse_args(arguments)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(float(size)) for size in text.split(","))


def _parts(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    if unknown := set(chosen) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}")
    return chosen


def find_stock_database(given: Path | None) -> Path | None:
    """The given file, or the one under ROCKTOOLS_SHARED."""
    if given is None and (shared := os.environ.get("ROCKTOOLS_SHARED")):
        given = Path(shared) / STOCK_DATABASE
    return given


def write_results(folder: Path, record: dict[str, Any]) -> Path:
    """Write the JSON file under a new name."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    path = folder / f"{now:%Y-%m-%dT%H-%M-%SZ}.json"
    with path.open("x", encoding="utf-8") as file:
        json.dump({"schema": "rocktools.bench/1", "date": f"{now:%Y-%m-%dT%H:%M:%SZ}", **record}, file, indent=2)
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
    stock_database = find_stock_database(options.stock_db)
    if stock_database is not None and not stock_database.is_file():
        print(f"bench: no such file: {stock_database}", file=sys.stderr)
        return 2
    load = os.getloadavg()[0]
    wanted = targets(sizes, options.part_size)
    with tempfile.TemporaryDirectory(prefix="rocktools-bench-", dir=options.folder) as folder:
        bench = Bench(Path(folder), repeats=options.repeats, stock=read_stock_views(stock_database))
        if {"dispatches", "health", "write"} & set(options.only):
            bench_sizes(bench, sizes, options.only)
        if "files" in options.only:
            bench_files(bench, options.part_size)
        if "counters" in options.only:
            bench_counters(bench, options.part_size)
        if "xspace" in options.only:
            from bench_xspace import bench_xspace

            wanted += bench_xspace(bench, is_quick=options.quick)
        if "timeline" in options.only:
            from bench_timeline import bench_timeline

            wanted += bench_timeline(bench, is_quick=options.quick)
        if "align" in options.only:
            from bench_align import bench_align

            wanted += bench_align(bench, is_quick=options.quick)
        if "replay" in options.only:
            from bench_replay import bench_replay

            wanted += bench_replay(bench, is_quick=options.quick)
    say("")
    views = "the stock views of a real file" if bench.stock else "our own views (no --stock-db, no ROCKTOOLS_SHARED)"
    promised, records = render_targets(bench, wanted)
    print(f"Baseline: {views}. Medians of {options.repeats}; load average at the start {load:.1f}.")
    print(f"{render_measurements(bench)}\n\n{promised}")
    differences = disagreements(bench.measurements)
    record = {
        "stock_views": bool(bench.stock),
        "repeats": options.repeats,
        "machine": machine(),
        "measurements": [asdict(each) for each in bench.measurements],
        "targets": records,
        "disagreements": differences,
        "failures": bench.failures,
    }
    print(f"\nwritten: {write_results(options.results, record)}")
    for text in differences:
        print(f"bench: results disagree: {text}", file=sys.stderr)
    for text in bench.failures:
        print(f"bench: failed: {text}", file=sys.stderr)
    return 1 if differences or bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
