"""What rocprof-compute planned to count and what it left: passes, and the launches of each kernel that have numbers.

Only as much is read as the question of success needs: which launches have a number of which counter. Values are read by
rocktools.sources. Forms of files are told apart by their headers, not by the version:

* long: a row for each launch and counter (`Counter_Name`);
* wide: a row for each launch, a column for each counter.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from rocktools.capture.compute_versions import Layout
from rocktools.errors import DamagedFile

PERF_NAME = "pmc_perf.csv"
_KERNEL_SUFFIX = re.compile(r"(?: \[clone \.kd\]| \(\.kd\)|\.kd)$")
_PLAN_LINE = re.compile(r"^pmc:(.*)$", re.MULTILINE)
_PLAN_ITEM = re.compile(r"""^\s*-\s+(?:pmc:)?["']?([A-Z][A-Z0-9]*_\w+(?:\[\d+\])?)["']?\s*$""", re.MULTILINE)
_COUNTER = re.compile(r"[A-Z][A-Z0-9]*_\w+(?:\[\d+\])?", re.ASCII)
# Columns of the wide form that look like counters and are none.
_NO_COUNTER = re.compile(
    r"(?:GPU_ID|Dispatch_ID|Grid_Size|Workgroup_Size|LDS_Per_Workgroup|Scratch_Per_Workitem|Arch_VGPR|Accum_VGPR|SGPR"
    r"|Wave_Size|Kernel_Name|Kernel_ID|Correlation_I[Dd]|Queue_ID|PID|TID|GUID|XCC_Index|Start_Timestamp"
    r"|End_Timestamp)(?:_\d+)?"
)
# Levels that are accumulated go by one name in the plan, and by another in the files.
_ACCUMULATED = re.compile(r".*_ACCUM|SQ_ACCUM_PREV_HIRES")

# Id of a dispatch. Not with the number of its GPU (0, 2, 11995, 60633 in real files): nothing says that it is the same
# in every run, and `analyze` groups by the id of the dispatch.
Launch = str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPass:
    """One run of the application, as planned.

    Attributes:
        name: of its file, such as pmc_perf_0 or SQ_LEVEL_WAVES.
        counters: asked for; levels that are accumulated left out.
    """

    name: str
    counters: frozenset[str]


@dataclass(slots=True, kw_only=True)
class KernelRows:
    """The rows of one kernel in one file.

    Attributes:
        counted: counter -> launches with a number.
        empty: counter -> launches with a row and no number.
        total_ns: time of the launches in passes; good for their order only.
    """

    counted: dict[str, set[Launch]] = field(default_factory=lambda: defaultdict(set))
    empty: dict[str, set[Launch]] = field(default_factory=lambda: defaultdict(set))
    total_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """One file of results.

    Attributes:
        path: of the file.
        is_long: its form.
        columns: counters that it has columns for; empty in the long form.
        kernels: clean name -> its rows.
    """

    path: Path
    is_long: bool
    columns: frozenset[str]
    kernels: Mapping[str, KernelRows]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRows:
    """Everything that a workload has of plan and rows.

    Attributes:
        results: the folder.
        layout: how the counters lie; None where there are none.
        planned: passes.
        of_pass: name of a pass -> its own file.
        merged: pmc_perf.csv; None where it is not there, or cannot be read.
        damaged: what was said about files that cannot be read.
    """

    results: Path
    layout: Layout | None
    planned: tuple[PlannedPass, ...]
    of_pass: Mapping[str, ResultFile]
    merged: ResultFile | None
    damaged: tuple[DamagedFile, ...]

    @property
    def files(self) -> tuple[ResultFile, ...]:
        """Those whose rows count: the merged one repeats those of single passes, and may be older than they are."""
        is_repeated = self.merged is None or (self.layout is Layout.PASSES and self.of_pass)
        return (*self.of_pass.values(), *(() if is_repeated or self.merged is None else (self.merged,)))

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names that occur, those first that took longest, as `analyze -k` numbers them."""
        totals: dict[str, int] = {}
        for file in self.files:
            for name, rows in file.kernels.items():
                totals[name] = max(totals.get(name, 0), rows.total_ns)
        return tuple(sorted(totals, key=lambda name: (-totals[name], name)))


def read_workload_rows(results: Path) -> WorkloadRows:
    """Plan and rows of a workload, in any layout. A file of results that cannot be read is noted, not raised.

    Raises:
        DamagedFile: the plan cannot be read.
    """
    planned = read_planned_passes(results)
    paths: dict[str, Path] = {}
    for each in planned:
        if (path := find_result_file(results, each.name)) is not None:
            paths[each.name] = path
    # A run that serves all passes has fewer files than passes, and names of its own.
    for path in sorted([*results.glob("results_*.csv"), *results.glob("results_*.csv.gz")]):
        if path not in paths.values():
            paths[path.name.partition(".")[0]] = path
    merged_path = find_plain_or_packed(results / PERF_NAME)
    damaged: list[DamagedFile] = []
    files: dict[Path, ResultFile] = {}
    for path in [*paths.values(), *([merged_path] if merged_path is not None else [])]:
        try:
            files[path] = read_result_file(path)
        except DamagedFile as error:
            damaged.append(error)
    merged = None if merged_path is None else files.get(merged_path)
    layout = None
    if any(path.name.startswith("results_") for path in paths.values()):
        layout = Layout.PASSES
    elif merged is not None:
        layout = Layout.LONG if merged.is_long else Layout.WIDE
    elif paths:
        layout = Layout.WIDE
    return WorkloadRows(
        results=results,
        layout=layout,
        planned=planned,
        of_pass={name: files[path] for name, path in paths.items() if path in files},
        merged=merged,
        damaged=tuple(damaged),
    )


def read_planned_passes(results: Path) -> tuple[PlannedPass, ...]:
    """The passes that were planned, by the files in `perfmon/`: `.txt` to 3.5, `pmc_perf_*.yaml` since.

    A file without a counter, as releases of 2024 planned for times alone, is no pass.

    Raises:
        DamagedFile: one of them cannot be read.
    """
    folder = results / "perfmon"
    texts = sorted(folder.glob("*.txt"))
    files = texts or sorted(folder.glob("pmc_perf_*.yaml"))
    passes = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise DamagedFile("compute-plan-damaged", f"cannot read it: {error.strerror}", where=str(path)) from error
        if texts:
            words = [word for line in _PLAN_LINE.findall(text) for word in line.split()]
        else:
            words = _PLAN_ITEM.findall(text)
        counters = frozenset(word for word in words if not _ACCUMULATED.fullmatch(word))
        if words:
            passes.append(PlannedPass(name=path.stem, counters=counters))
    return tuple(passes)


def find_result_file(results: Path, pass_name: str) -> Path | None:
    """The file of one pass; None where it has none of its own."""
    stem = pass_name.removeprefix("pmc_perf_")
    for name in (f"results_{pass_name}.csv", f"results_pmc_perf_{stem}.csv", f"{pass_name}.csv"):
        if (path := find_plain_or_packed(results / name)) is not None:
            return path
    return None


def find_plain_or_packed(path: Path) -> Path | None:
    """The file, or the same with `.gz` behind its name."""
    packed = path.with_name(f"{path.name}.gz")
    return path if path.is_file() else packed if packed.is_file() else None


def read_result_file(path: Path) -> ResultFile:
    """The rows of a file of counters in either form.

    Raises:
        DamagedFile: it cannot be read, is cut off, or is no table of counters.
    """
    try:
        with _open_text(path) as stream:
            rows = csv.reader(stream)
            header = [name.strip() for name in next(rows, [])]
            columns = {name: place for place, name in reversed(list(enumerate(header)))}
            is_long = "Counter_Name" in columns
            needed = ("Kernel_Name", "Dispatch_ID", *(("Counter_Value",) if is_long else ()))
            if lacking := [name for name in needed if name not in columns]:
                raise DamagedFile("compute-results-damaged", f"it has no column {', '.join(lacking)}", where=str(path))
            counters = {} if is_long else _counter_columns(columns)
            kernels = _read_rows(_whole(rows, header, path), columns, counters)
    except (OSError, EOFError, zlib.error, UnicodeError, csv.Error) as error:
        raise DamagedFile("compute-results-damaged", f"cannot read it: {error}", where=str(path)) from error
    return ResultFile(path=path, is_long=is_long, columns=frozenset(counters), kernels=kernels)


def _open_text(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _whole(rows: Iterator[list[str]], header: list[str], path: Path) -> Iterator[list[str]]:
    for number, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(header):
            raise DamagedFile(
                "compute-results-damaged",
                f"row {number} has {len(row)} values for {len(header)} columns: was the file cut off?",
                where=str(path),
            )
        yield row


def _counter_columns(columns: Mapping[str, int]) -> dict[str, int]:
    return {
        name: place for name, place in columns.items() if _COUNTER.fullmatch(name) and not _NO_COUNTER.fullmatch(name)
    }


def _read_rows(
    rows: Iterator[list[str]], columns: Mapping[str, int], counters: Mapping[str, int]
) -> dict[str, KernelRows]:
    kernels: dict[str, KernelRows] = defaultdict(KernelRows)
    times = [columns[name] for name in ("Start_Timestamp", "End_Timestamp") if name in columns]
    timed: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    is_long = "Counter_Name" in columns
    for row in rows:
        name = clean_kernel_name(row[columns["Kernel_Name"]])
        kernel = kernels[name]
        launch = row[columns["Dispatch_ID"]]
        if is_long:
            pairs = [(row[columns["Counter_Name"]], row[columns["Counter_Value"]])]
        else:
            pairs = [(counter, row[place]) for counter, place in counters.items()]
        for counter, text in pairs:
            (kernel.counted if _is_number(text) else kernel.empty)[counter].add(launch)
        if len(times) == 2:
            timed[name].add((launch, *(row[place] for place in times)))
    for name, spans in timed.items():
        kernels[name].total_ns = sum(_nanoseconds(span[-2], span[-1]) for span in spans)
    return dict(kernels)


def clean_kernel_name(name: str) -> str:
    """A kernel's name as traces have it."""
    return _KERNEL_SUFFIX.sub("", name)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _nanoseconds(start: str, end: str) -> int:
    try:
        return int(end.partition(".")[0]) - int(start.partition(".")[0])
    except ValueError:
        return 0
