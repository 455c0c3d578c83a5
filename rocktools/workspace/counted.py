"""Counter passes of any source -> one table of counter values, executions of different passes laid side by side.

Sources are rocpd databases and run directories (through a `Workspace`), CSV files of rocprofv3 and rocpd, and workloads
of rocprof-compute. Executions are matched by process, device, kernel and ordinal, and compared by their geometry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from rocktools.correlate.passes import compare_passes, number_executions
from rocktools.counters.counter_table import EXECUTION, CounterTable, build_counter_table
from rocktools.counters.meanings import PASS_DURATION
from rocktools.errors import NothingToRead, UsageError
from rocktools.findings import Finding
from rocktools.rundir import read_pass_records
from rocktools.sources.counted_rows import CountedFrames
from rocktools.sources.rocprof_compute import PERF_FILES, RESULTS, is_workload, read_workload
from rocktools.sources.rocprofv3_csv import is_counter_csv, read_counter_csv
from rocktools.units import NS_PER_S
from rocktools.workspace.paths import unused_label
from rocktools.workspace.workspace import Workspace

_COUNTER_CSV = "*_counter_collection*.csv"
_DISPATCH = ["run", "process", "dispatch_id", "pass", "replay_pass"]
_VALUES = ["sum_value", "min_value", "max_value"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountedRuns:
    """Counter passes with their executions matched.

    Attributes:
        table: counter values by execution.
        matched: the same as rows: place of the execution, counter, pass, values.
        numbered: COUNTED_DISPATCHES with the place of each execution.
        agents: AGENTS of the runs.
        findings: doubts about the files, and passes that differ.
        is_simulated: whether any file says that no hardware produced it.
    """

    table: CounterTable
    matched: pd.DataFrame
    numbered: pd.DataFrame
    agents: pd.DataFrame
    findings: tuple[Finding, ...]
    is_simulated: bool


def read_counted_runs(arguments: Sequence[str | Path], *, architecture: str | None = None) -> CountedRuns:
    """The counter passes in everything that the arguments name.

    Args:
        arguments: rocpd databases, folders, patterns, run directories, CSV files of counters, workloads of
            rocprof-compute.
        architecture: of devices whose architecture no file tells.

    Raises:
        UsageError: nothing was named.
        InputError: a file cannot be read.
        NothingToRead: there is no counter pass.
    """
    if not arguments:
        raise UsageError("no-files", "no file, folder or pattern was named")
    labels: list[str] = []
    sources: list[CountedFrames] = []
    others: list[str | Path] = []
    is_simulated = False
    for argument in arguments:
        found = _read_csv(Path(argument), labels)
        sources += found
        if not found:
            others.append(argument)
    if others:
        with Workspace.open(others) as workspace:
            sources.append(_from_workspace(workspace))
            is_simulated = workspace.is_simulated
    return match_runs(sources, architecture=architecture, is_simulated=is_simulated)


def match_runs(
    sources: Sequence[CountedFrames], *, architecture: str | None = None, is_simulated: bool = False
) -> CountedRuns:
    """Executions of all passes of each run, laid side by side."""
    findings: list[Finding] = [finding for source in sources for finding in source.findings]
    numbered_parts, matched_parts = [], []
    for source in sources:
        for run, counted in source.counted.groupby("run", observed=True, sort=True):
            numbered = number_executions(counted, source.processes, source.agents)
            findings += compare_passes(numbered, where=str(run))
            numbered_parts.append(numbered)
            matched_parts.append(_match(source, numbered))
    agents = pd.concat([source.agents.astype(object) for source in sources], ignore_index=True)
    if architecture is not None:
        agents["arch"] = agents["arch"].where(agents["arch"].notna(), architecture)
    matched = pd.concat(matched_parts, ignore_index=True)
    declared = {str(run) for source in sources if source.has_declared_facts for run in source.counted["run"].unique()}
    requested = frozenset().union(*(source.requested for source in sources))
    return CountedRuns(
        table=build_counter_table(matched, agents, requested=requested, declared_runs=declared),
        matched=matched,
        numbered=pd.concat(numbered_parts, ignore_index=True),
        agents=agents,
        findings=tuple(findings),
        is_simulated=is_simulated,
    )


def _match(source: CountedFrames, numbered: pd.DataFrame) -> pd.DataFrame:
    """The counter values of one run by the place of their execution, and the time of each in its pass."""
    places = numbered[[*_DISPATCH, *(name for name in EXECUTION if name != "run")]]
    texts = dict.fromkeys(("run", "process", "pass"), str)
    values = source.values.astype({**texts, "counter": str})
    joined = values.merge(places.astype(texts), on=_DISPATCH, how="inner", validate="many_to_one")
    pieces = [joined[[*EXECUTION, "counter", "pass", "replay_pass", *_VALUES]]]
    if source.has_pass_times:
        durations = numbered[[*EXECUTION, "pass", "replay_pass"]].astype({"run": str, "pass": str})
        seconds = (numbered["pass_end_ns"] - numbered["pass_start_ns"]).astype("float64") / NS_PER_S
        durations = durations.assign(counter=PASS_DURATION, sum_value=seconds, min_value=seconds, max_value=seconds)
        # A dispatch whose times were not recorded took no time at all.
        pieces.append(durations[seconds > 0][pieces[0].columns])
    matched = pd.concat(pieces, ignore_index=True)
    is_replay = matched["replay_pass"].notna()
    replayed = matched["pass"] + " replay " + matched["replay_pass"].astype(str).str.zfill(3)
    matched["pass"] = matched["pass"].where(~is_replay, replayed)
    return matched.drop(columns="replay_pass")


def _from_workspace(workspace: Workspace) -> CountedFrames:
    """The counter passes of databases and run directories.

    Raises:
        NothingToRead: there is none.
    """
    counted = workspace.require_counted_dispatches()
    values = workspace.counter_values()
    if values.empty:
        raise NothingToRead(
            "no-counter-values",
            "there are counter passes, and no counter has a value",
            where=", ".join(str(source.path) for source in workspace.sources()[:3]),
            hint="were the counters' names known to rocprofv3? `rocktools counters show NAME` tells",
        )
    return CountedFrames(
        counted=counted,
        values=values,
        agents=workspace.agents(),
        processes=workspace.processes(),
        requested=_requested(workspace),
        findings=tuple(workspace.findings),
    )


def _requested(workspace: Workspace) -> frozenset[str]:
    """The counters that captures of ours asked for."""
    names: set[str] = set()
    for capture in {source.capture for source in workspace.sources()} - {None}:
        assert capture is not None
        for record in read_pass_records(capture):
            names.update(map(str, record.facts.get("counters", ())))
            names.update(str(name) for group in record.facts.get("groups", ()) for name in group)
    return frozenset(names)


def _read_csv(path: Path, labels: list[str]) -> list[CountedFrames]:
    """What a path has of counters in CSV files; nothing where it is something else."""
    if path.is_dir() and is_workload(path):
        return [read_workload(path, run=_label(path, labels))]
    if path.is_file() and path.name.endswith((".csv", ".csv.gz")):
        run = _label(path if path.name not in PERF_FILES else path.absolute().parent, labels)
        if path.name in PERF_FILES or not is_counter_csv(path):
            return [read_workload(path, run=run)]
        return [read_counter_csv(path, run=run, pass_label=path.stem)]
    if path.is_dir() and not any(path.rglob("*.db")):
        workloads = find_workloads(path)
        if workloads:
            return [read_workload(folder, run=_label(folder, labels)) for folder in workloads]
        files = sorted(path.rglob(_COUNTER_CSV))
        if files:
            run = _label(path, labels)
            return [
                _joined([read_counter_csv(file, run=run, pass_label=_pass_label(file, path, files)) for file in files])
            ]
    return []


def find_workloads(folder: Path) -> list[Path]:
    """The workloads of rocprof-compute in a folder, and in the folders below it."""
    found = {file.parent for name in (*PERF_FILES, RESULTS) for file in folder.rglob(name)}
    return sorted(each for each in found if is_workload(each))


def _label(path: Path, labels: list[str]) -> str:
    label = unused_label(path.resolve().stem if path.is_file() else path.resolve().name, labels)
    labels.append(label)
    return label


def _pass_label(file: Path, root: Path, files: Sequence[Path]) -> str:
    """The folder of a file, as rocprofv3 makes one for each pass; its name where several are in one folder."""
    is_alone = sum(other.parent == file.parent for other in files) == 1
    folder = file.parent.relative_to(root).as_posix()
    return folder if is_alone and folder != "." else file.relative_to(root).with_suffix("").as_posix()


def _joined(parts: Sequence[CountedFrames]) -> CountedFrames:
    """The files of one run together; a process label that several of them have gets another one in each."""
    taken: list[str] = []
    parts = [_relabelled(part, taken) for part in parts]
    return replace(
        parts[0],
        counted=_stacked(part.counted for part in parts),
        values=_stacked(part.values for part in parts),
        agents=_stacked(part.agents for part in parts),
        processes=_stacked(part.processes for part in parts),
        findings=tuple(finding for part in parts for finding in part.findings),
    )


def _relabelled(part: CountedFrames, taken: list[str]) -> CountedFrames:
    labels = {}
    for label in map(str, part.processes["process"]):
        labels[label] = unused_label(label, taken)
        taken.append(labels[label])

    def with_labels(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(process=frame["process"].astype(str).map(labels).astype("category"))

    return replace(
        part,
        counted=with_labels(part.counted),
        values=with_labels(part.values),
        agents=with_labels(part.agents),
        processes=with_labels(part.processes),
    )


def _stacked(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Rows of frames of one spec; labels stay categories."""
    listed = list(frames)
    dtypes = {name: str(dtype) for name, dtype in listed[0].dtypes.items()}  # "category", whatever is in it
    return pd.concat([frame.astype(object) for frame in listed], ignore_index=True).astype(dtypes)
