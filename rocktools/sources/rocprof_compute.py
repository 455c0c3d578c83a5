"""What rocprof-compute left of a workload -> COUNTED_DISPATCHES, COUNTER_VALUES, AGENTS, PROCESSES.

Two forms of `pmc_perf.csv`:

* long (from databases): a row for each dispatch and counter, read by `rocprofv3_csv`;
* wide (older, and the CSV backend): a row for each dispatch, a column for each counter. It is a join of the passes by
  row. Which counters one pass read is seen by the columns in between that the join repeats (`Kernel_ID_1`,
  `Wave_Size_2`, `Correlation_ID_3`, ...); the times in it are means over the passes, and so the times of none. Where
  the tool kept the files of single passes (`pmc_perf_0.csv`, ...), these are read instead.

Since 3.6 the tool leaves a file in the long form for each pass, `results_pmc_perf_<n>.csv` (3.9: `.csv.gz` where it is
large), and `analyze` makes pmc_perf.csv (or `.csv.gz`) of them: where they are, they are read.

`SQ_<LEVEL>.csv` are passes of their own; `SQ_ACCUM_PREV_HIRES` in one of them is that level, accumulated.

Facts of the device come from `sysinfo.csv`, which the tool fills from a table of models. Channels of L2 that the device
counted say how many dies there were, and are believed more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from rocktools.errors import NothingToRead, UnknownFormat
from rocktools.findings import Finding, Severity
from rocktools.sources.counted_rows import (
    ROW_COLUMNS,
    CountedFrames,
    build_agents,
    build_counted_frames,
    drop_broken_rows,
    parse_integers,
    parse_values,
    pass_name,
    read_text_table,
    read_whole_rows,
)
from rocktools.sources.rocpd.columns import exact_integer
from rocktools.sources.rocprofv3_csv import is_counter_csv, read_long_rows

PERF_FILE = "pmc_perf.csv"
PERF_FILES = (PERF_FILE, f"{PERF_FILE}.gz")
RESULTS = "results_pmc_perf_*.csv*"
_RESULTS_NAME = re.compile(r"results_pmc_perf_(\d+)\.csv(?:\.gz)?")
_PROCESS = "workload"
_CHANNELS_PER_XCC = 16
_HZ_PER_MHZ = 1_000_000
_ACCUMULATED = "SQ_ACCUM_PREV_HIRES"
# Columns of the wide form that describe the dispatch -> columns of the rows.
_WIDE: Mapping[str, str] = {
    "Dispatch_ID": "dispatch_id",
    "GPU_ID": "agent_id",
    "Kernel_ID": "kernel_id",
    "Queue_ID": "queue_id",
    "TID": "thread_id",
    "Grid_Size": "grid_workitems_x",
    "Workgroup_Size": "workgroup_workitems_x",
    "LDS_Per_Workgroup": "lds_bytes",
    "Scratch_Per_Workitem": "scratch_bytes",
    "Arch_VGPR": "vgpr_count",
    "Accum_VGPR": "agpr_count",
    "SGPR": "sgpr_count",
    "Start_Timestamp": "pass_start_ns",
    "End_Timestamp": "pass_end_ns",
}
_TEXT_COLUMNS = {"Kernel_Name", "Kernel_Name_1"}
# What the join repeats once for each pass.
_SEPARATOR = re.compile(r"(?:Kernel_ID|Correlation_ID|Wave_Size|XCC_Index|PID)(?:_\d+)?")
_COUNTER = re.compile(r"[A-Z][A-Z0-9]*_\w+(?:\[\d+\])?", re.ASCII)
_CHANNEL = re.compile(r"TCC_\w+\[(\d+)\]", re.ASCII)
_PMC_LIST = re.compile(r"\bpmc:\s*(\[[^\]]*\]|(?:\n\s*-\s*[\w\[\]]+)+)")
_SYSINFO: Mapping[str, str] = {
    "xcc_count": "num_xcd",
    "cu_count": "cu_per_gpu",
    "simd_per_cu_count": "simd_per_cu",
    "wave_workitems": "wave_size",
}


def is_workload(folder: Path) -> bool:
    """Whether a folder holds what rocprof-compute leaves of a workload."""
    return _joined_file(folder) is not None or bool(_results(folder))


def read_workload(path: Path, *, run: str) -> CountedFrames:
    """The counters of a workload: its folder, or a file of counters in it.

    Raises:
        InputError: a file cannot be read.
        DamagedFile: a file is no table.
        UnknownFormat: pmc_perf.csv has neither form.
        NothingToRead: there is no file of counters, or it has no whole row.
    """
    folder = path if path.is_dir() else path.parent
    results = _results(folder)
    named = path if path.is_file() and _RESULTS_NAME.fullmatch(path.name) is None else None
    perf = named or (results[0] if results else _joined_file(folder))
    if perf is None:
        raise NothingToRead("no-pmc-perf", f"it has no {PERF_FILE}", where=str(folder), hint="rocprof-compute analyze")
    findings: list[Finding] = []
    has_pass_times = True
    if perf in results:
        rows, findings = _read_results(results, folder)
    elif is_counter_csv(perf):
        rows, _, findings = read_long_rows(perf, pass_label=folder.name)
    else:
        files = _single_passes(folder)
        has_pass_times = bool(files)
        rows, findings = _read_wide([*(files or [perf]), *_levels(folder)], folder.name)
    facts, doubts = _device_facts(folder, rows)
    agents = build_agents(
        [{**facts, "agent_id": int(agent)} for agent in sorted(rows["agent_id"].dropna().unique())],
        run=run,
        processes=sorted(set(rows["process"])),
    )
    frames = build_counted_frames(rows, run=run, path=perf, tool="rocprof-compute", agents=agents, pids={})
    return CountedFrames(
        counted=frames.counted,
        values=frames.values,
        agents=frames.agents,
        processes=frames.processes,
        requested=_requested(folder),
        has_declared_facts=True,
        has_pass_times=has_pass_times,
        findings=(*findings, *doubts, *frames.findings),
    )


def _joined_file(folder: Path) -> Path | None:
    return next((path for name in PERF_FILES if (path := folder / name).is_file()), None)


def _results(folder: Path) -> list[Path]:
    """The files of single passes of 3.6 and later, in the order of their numbers; of a packed copy the first."""
    numbered: dict[int, Path] = {}
    for path in sorted(folder.glob(RESULTS)):
        match = _RESULTS_NAME.fullmatch(path.name)
        if match is not None and path.is_file():
            numbered.setdefault(int(match[1]), path)
    return [path for _, path in sorted(numbered.items())]


def _read_results(files: Sequence[Path], folder: Path) -> tuple[pd.DataFrame, list[Finding]]:
    """Rows of the files of single passes, each a pass of its own."""
    pieces: list[pd.DataFrame] = []
    findings: list[Finding] = []
    for number, path in enumerate(files):
        if not is_counter_csv(path):
            raise UnknownFormat("not-pmc-perf", "it has no counter: no counters of rocprof-compute", where=str(path))
        rows, _, doubts = read_long_rows(path, pass_label=pass_name(folder.name, number))
        pieces.append(rows)
        findings += doubts
    planned = {path.stem for path in (folder / "perfmon").glob("pmc_perf_*.yaml")}
    done = {path.name.removeprefix("results_").partition(".")[0] for path in files}
    if planned - done:
        findings.append(
            Finding(
                rule="passes-missing",
                severity=Severity.WARNING,
                where=str(folder),
                message=f"{len(planned - done)} of {len(planned)} passes left no results: "
                f"{', '.join(sorted(planned - done)[:3])}{', ...' if len(planned - done) > 3 else ''}",
                numbers={"missing_count": len(planned - done), "planned_count": len(planned)},
                advice="profile the workload again in a new folder",
            )
        )
    return pd.concat(pieces, ignore_index=True), findings


def _single_passes(folder: Path) -> list[Path]:
    """The files of single passes, in the order of their numbers."""
    numbered = [(match, path) for path in folder.glob("pmc_perf_*.csv") if (match := re.search(r"_(\d+)$", path.stem))]
    return [path for _, path in sorted(numbered, key=lambda entry: int(entry[0][1]))]


def _levels(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("SQ*_LEVEL*.csv") if not path.stem.startswith("pmc"))


def _read_wide(files: Sequence[Path], label: str) -> tuple[pd.DataFrame, list[Finding]]:
    """Rows of files in the wide form; passes are numbered through all files, those of levels last."""
    pieces: list[pd.DataFrame] = []
    findings: list[Finding] = []
    passes_count = 0
    for path in files:
        table, cut = read_whole_rows(path)
        counters = _counters_by_pass(list(table.columns))
        missing = {"Dispatch_ID", "Kernel_Name", "Start_Timestamp", "End_Timestamp"} - set(table.columns)
        if missing or not counters:
            what = f"no column {', '.join(sorted(missing))}" if missing else "no counter"
            raise UnknownFormat("not-pmc-perf", f"it has {what}: no counters of rocprof-compute", where=str(path))
        described, doubts = drop_broken_rows(_described(table), path, ("dispatch_id", "pass_start_ns", "pass_end_ns"))
        findings += [*cut, *doubts]
        for number, names in enumerate(counters, start=passes_count):
            pieces.append(_melted(table, described, names, path).assign(**{"pass": pass_name(label, number)}))
        passes_count += len(counters)
    rows = pd.concat(pieces, ignore_index=True) if pieces else pd.DataFrame(columns=list(ROW_COLUMNS))
    rows = rows[rows["value"].notna()].reset_index(drop=True)
    if rows.empty:
        raise NothingToRead("no-counter-rows", "there is no row of a counter", where=str(files[0]))
    return rows[list(ROW_COLUMNS)].drop_duplicates(["dispatch_id", "pass", "counter"], ignore_index=True), findings


def _melted(table: pd.DataFrame, described: pd.DataFrame, names: Sequence[str], path: Path) -> pd.DataFrame:
    """A row for each dispatch and counter of one pass."""
    texts = table[list(names)].iloc[described["row"]].to_numpy(dtype=object)
    rows = described.loc[described.index.repeat(len(names))].reset_index(drop=True)
    rows["counter"] = [_counter_name(name, path) for name in names] * len(described)
    rows["value"] = parse_values(pd.Series(texts.reshape(-1), dtype=object))
    return rows


def _described(table: pd.DataFrame) -> pd.DataFrame:
    """What the wide form says about each dispatch; `row` is its place in the table."""
    texts = table.fillna("")
    described = pd.DataFrame({"row": range(len(table)), "process": _PROCESS, "raw_kernel_name": texts["Kernel_Name"]})
    for name, column in _WIDE.items():
        described[column] = (
            parse_integers(texts[name]) if name in texts else pd.array([pd.NA] * len(table), dtype="Int64")
        )
    for column in ("grid_workitems_y", "grid_workitems_z", "workgroup_workitems_y", "workgroup_workitems_z"):
        described[column] = pd.array([pd.NA] * len(table), dtype="Int64")
    # The number that the tool gives a GPU differs between the runs of one workload; its place among them does not.
    described["agent_id"] = pd.array(pd.factorize(described["agent_id"], sort=True)[0], dtype="Int64")
    return described


def _counters_by_pass(columns: Sequence[str]) -> list[list[str]]:
    """The counters between the columns that the join repeats."""
    passes: list[list[str]] = [[]]
    for name in columns:
        if name in _WIDE or _SEPARATOR.fullmatch(name):
            if passes[-1]:
                passes.append([])
        elif _COUNTER.fullmatch(name) and name not in _TEXT_COLUMNS:
            passes[-1].append(name)
    return [names for names in passes if names]


def _counter_name(name: str, path: Path) -> str:
    is_level = path.stem.startswith("SQ")
    return f"{path.stem}_ACCUM" if name == _ACCUMULATED and is_level else name


def _device_facts(folder: Path, rows: pd.DataFrame) -> tuple[dict[str, object], list[Finding]]:
    """Facts of the device by sysinfo.csv, corrected by what was counted."""
    path = folder / "sysinfo.csv"
    if not path.is_file():
        return {}, []
    table = read_text_table(path)
    record = {} if table.empty else {str(key): str(value) for key, value in table.iloc[0].items()}
    facts: dict[str, object] = {"arch": record.get("gpu_arch") or None, "product": record.get("gpu_model") or None}
    for name, header in _SYSINFO.items():
        facts[name] = exact_integer(record.get(header, "")) or None
    clock = exact_integer(record.get("max_sclk", ""))
    facts["max_engine_hz"] = clock * _HZ_PER_MHZ if clock else None
    channels = {int(match[1]) for name in rows["counter"].unique() if (match := _CHANNEL.fullmatch(name))}
    counted = -(-(max(channels) + 1) // _CHANNELS_PER_XCC) if channels else None
    declared = facts["xcc_count"]
    if counted is None or not isinstance(declared, int) or counted == declared:
        return facts, []
    finding = Finding(
        rule="dies-differ",
        severity=Severity.WARNING,
        where=str(path),
        message=(
            f"it declares {declared} dies, and L2 channels up to {max(channels)} were counted, which are those of "
            f"{counted}: {counted} is used"
        ),
        numbers={"declared_count": declared, "counted_count": counted},
        advice="utilisations that rocprof-compute shows for this workload are wrong by that factor",
    )
    return {**facts, "xcc_count": counted}, [finding]


def _requested(folder: Path) -> frozenset[str]:
    """The counters that the passes asked for, by their lists in perfmon/."""
    names: set[str] = set()
    for path in sorted((folder / "perfmon").glob("*.txt")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("pmc:"):
                names |= {_counter_name(name, path) for name in line.removeprefix("pmc:").split()}
    for path in sorted((folder / "perfmon").glob("pmc_perf_*.yaml")):
        # Names under `pmc`; what is written otherwise was not asked for, as far as we know.
        for block in _PMC_LIST.findall(path.read_text(encoding="utf-8", errors="replace")):
            names |= set(_COUNTER.findall(block))
    return frozenset(names)
