"""What rocprof-compute left, wherever it is in the files that were named -> workloads, its values, and our quantities.

Found in folders and below them: workloads (raw counters: evaluated with our own formulas), analysis databases, folders
of saved tables and of view files (the tool's own values). Raw counters and the tool's values of one workload get one
label: the name that the tool was given, which names the folder `workloads/<name>/<GPU model>` and stands in databases;
tables and views that lie in a workload's folder, or beside nothing else, get that of the workload.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from rocktools.counters.evaluate import Level, PassRule, evaluate
from rocktools.errors import InputError, NothingToRead, UsageError
from rocktools.findings import Finding, Severity
from rocktools.frames import QUANTITIES
from rocktools.sources.compute_analysis.database import is_analysis_database, read_analysis_database
from rocktools.sources.compute_analysis.results import (
    COMPUTE_KERNELS,
    COMPUTE_METRICS,
    COMPUTE_ROOFLINE,
    ComputeAnalysis,
    ComputeWorkload,
)
from rocktools.sources.compute_analysis.saved_tables import is_table_folder, read_table_folder
from rocktools.sources.compute_analysis.tool_version import ToolVersion, parse_tool_version, version_by_layout
from rocktools.sources.compute_analysis.view_files import is_view_folder, read_view_folder
from rocktools.sources.counted_rows import CountedFrames, read_text_table
from rocktools.sources.rocprof_compute import is_workload, read_workload
from rocktools.workspace.counted import find_workloads, match_runs
from rocktools.workspace.metrics import load_formulas_of
from rocktools.workspace.paths import DATABASE_SUFFIXES, unused_label

_WORKLOADS_FOLDER = "workloads"
_BATCH_PREFIX = "kernels-"  # of folders of tables that a batch has made, one for each of its workloads
_SYSINFO = "sysinfo.csv"
_ROOFLINE_FILE = "roofline.csv"

FindVersion = Callable[[Path], str | None]
"""The version of the tool that made a file or folder, where somebody noted it."""
FindPrefix = Callable[[Path], str]
"""What stands in front of the labels of workloads in a file or folder, so that those of several batches differ."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComputeResults:
    """Everything that was found.

    Attributes:
        workloads: each once, by label.
        kernels, metrics, roofline: COMPUTE_KERNELS, COMPUTE_METRICS, COMPUTE_ROOFLINE of all of them.
        quantities: QUANTITIES by kernel of all raw counters; `run` is the label of the workload.
        agents: facts of the GPUs behind raw counters; `run` as well.
        ceilings: files with measured ceilings.
        declared_dies: labels of workloads whose sysinfo.csv declares another number of dies than was counted.
        findings: of all files.
    """

    workloads: tuple[ComputeWorkload, ...]
    kernels: pd.DataFrame
    metrics: pd.DataFrame
    roofline: pd.DataFrame
    quantities: pd.DataFrame
    agents: pd.DataFrame
    ceilings: tuple[Path, ...]
    declared_dies: frozenset[str]
    findings: tuple[Finding, ...]

    def workload(self, label: str) -> ComputeWorkload:
        """The workload of that label, which is there."""
        return next(each for each in self.workloads if each.label == label)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Places of results, each once."""

    counted: tuple[Path, ...]
    databases: tuple[Path, ...]
    tables: tuple[Path, ...]
    views: tuple[Path, ...]


def read_compute_results(
    arguments: Sequence[str | Path],
    *,
    find_version: FindVersion | None = None,
    find_prefix: FindPrefix = lambda path: "",
    tool_version: str | None = None,
    mixes_passes: bool = False,
    skipped: Collection[Path] = (),
) -> ComputeResults:
    """Everything that rocprof-compute left in what the arguments name.

    Args:
        arguments: folders, analysis databases, CSV files of raw counters.
        find_version: None: nobody noted versions.
        find_prefix: by default there is none, and labels that are taken are numbered.
        tool_version: of everything whose version neither the files nor `find_version` say.
        mixes_passes: whether our formulas give ratios also where their counters come from different passes.
        skipped: folders below those that are named, in which nothing is looked for.

    Raises:
        UsageError: nothing was named, or `tool_version` is no version.
        InputError: a named file cannot be read.
        NothingToRead: there is no result.
    """
    if not arguments:
        raise UsageError("no-files", "no file, folder or pattern was named")
    stated = None
    if tool_version is not None:
        stated = parse_tool_version(tool_version, said_by="--tool-version")
        if stated is None:
            raise UsageError("bad-tool-version", f"{tool_version!r} is no version", hint="3.5, 3.10.0")
    found = _find([Path(argument) for argument in arguments], [each.resolve() for each in skipped])
    versions = _Versions(find=find_version, stated=stated)
    labels = _labels(found.counted, find_prefix)
    counted, facts, findings = _read_counted(found.counted, labels, versions)
    analyses, doubts = _read_analyses(found, labels, versions, find_prefix)
    findings += doubts
    quantities, agents, more = _evaluate(counted, PassRule.MIXED if mixes_passes else PassRule.STRICT)
    workloads: dict[str, ComputeWorkload] = dict(facts)
    for analysis in analyses:
        for workload in analysis.workloads:
            workloads[workload.label] = _merged(workloads.get(workload.label), workload)
        findings += analysis.findings
    declared = {
        str(run)
        for source in counted
        for run in source.counted["run"].unique()
        if any(finding.rule == "dies-differ" for finding in source.findings)
    }
    return ComputeResults(
        workloads=tuple(workloads.values()),
        kernels=_stacked((each.kernels for each in analyses), COMPUTE_KERNELS.empty()),
        metrics=_stacked((each.metrics for each in analyses), COMPUTE_METRICS.empty()),
        roofline=_stacked((each.roofline for each in analyses), COMPUTE_ROOFLINE.empty()),
        quantities=quantities,
        agents=agents,
        ceilings=tuple(file for folder in found.counted if (file := folder / _ROOFLINE_FILE).is_file()),
        declared_dies=frozenset(declared),
        findings=(*findings, *more),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Versions:
    """Where versions are noted."""

    find: FindVersion | None
    stated: ToolVersion | None

    def of(self, path: Path, otherwise: ToolVersion) -> ToolVersion:
        noted = self.find(path) if self.find is not None else None
        parsed = parse_tool_version(noted, said_by="the note of its run") if noted else None
        return parsed or self.stated or otherwise


def _find(arguments: Iterable[Path], skipped: Sequence[Path]) -> _Found:
    counted: dict[Path, Path] = {}
    databases: dict[Path, Path] = {}
    tables: dict[Path, Path] = {}
    views: dict[Path, Path] = {}
    for path in arguments:
        inner = [each for each in skipped if path.resolve() in each.parents]
        found = tuple([each for each in paths if not _is_below(each, inner)] for paths in _find_in(path))
        for group, paths in zip((counted, databases, tables, views), found, strict=True):
            for each in paths:
                group.setdefault(each.resolve(), each)
        if not any(found) and not inner:
            raise NothingToRead(
                "no-compute-results",
                "there is nothing that rocprof-compute leaves: no counters, no analysis database, no saved tables",
                where=str(path),
                hint="rocktools batch run, or rocprof-compute profile and analyze --output-format db",
            )
    return _Found(
        counted=tuple(counted.values()),
        databases=tuple(databases.values()),
        tables=tuple(tables.values()),
        views=tuple(views.values()),
    )


def _is_below(path: Path, folders: Sequence[Path]) -> bool:
    resolved = path.resolve()
    return any(folder in (resolved, *resolved.parents) for folder in folders)


def _find_in(path: Path) -> tuple[list[Path], list[Path], list[Path], list[Path]]:
    """Workloads, databases, folders of tables and of views in what was named.

    Raises:
        InputError: it is not there, or the system refuses to look there.
    """
    if not path.exists():
        raise InputError("no-such-file", "there is no such file or folder", where=str(path))
    if not path.is_dir():
        if path.suffix in DATABASE_SUFFIXES:
            return [], [path], [], []
        is_counters = path.name.endswith((".csv", ".csv.gz")) and is_workload(path.parent)
        return [path.parent] if is_counters else [], [], [], []
    try:
        below = sorted(path.rglob("*"))
    except OSError as error:
        raise InputError(
            "unreadable-folder", f"the system refuses to search it: {error.strerror}", where=str(path)
        ) from error
    folders = [path, *(each for each in below if each.is_dir())]
    return (
        find_workloads(path),
        [each for each in below if each.suffix in DATABASE_SUFFIXES and is_analysis_database(each)],
        [each for each in folders if is_table_folder(each)],
        [each for each in folders if is_view_folder(each)],
    )


def _labels(folders: Sequence[Path], find_prefix: FindPrefix) -> dict[Path, str]:
    """Resolved folder of raw counters -> its label."""
    labels: dict[Path, str] = {}
    for folder in folders:
        labels[folder.resolve()] = unused_label(f"{find_prefix(folder)}{_workload_name(folder)}", labels.values())
    return labels


def _workload_name(folder: Path) -> str:
    """`gemm` of `workloads/gemm/MI350`, else the name of the folder."""
    resolved = folder.resolve()
    return resolved.parent.name if resolved.parent.parent.name == _WORKLOADS_FOLDER else resolved.name


def _read_counted(
    folders: Sequence[Path], labels: Mapping[Path, str], versions: _Versions
) -> tuple[list[CountedFrames], dict[str, ComputeWorkload], list[Finding]]:
    """Raw counters; a folder that cannot be read is left out with a fault, unless it is the only one.

    Raises:
        InputError: the only one cannot be read.
    """
    sources: list[CountedFrames] = []
    workloads: dict[str, ComputeWorkload] = {}
    findings: list[Finding] = []
    for folder in folders:
        label = labels[folder.resolve()]
        try:
            facts = _sysinfo(folder)
            sources.append(read_workload(folder, run=label))
        except InputError as error:
            if len(folders) == 1:
                raise
            findings.append(_unreadable(folder, error))
            continue
        by_layout = version_by_layout(folder, frozenset(facts))
        version = versions.of(folder, by_layout)
        workloads[label] = ComputeWorkload(
            label=label, name=_told_name(facts) or label, path=folder, version=version, facts=facts
        )
    return sources, workloads, findings


def _told_name(facts: Mapping[str, str]) -> str | None:
    """The name that the tool was told: a column to 3.7, then the folder above the last of a path."""
    return facts.get("workload_name") or Path(facts.get("workload_path", "")).parent.name or None


def _sysinfo(folder: Path) -> dict[str, str]:
    path = folder / _SYSINFO
    table = read_text_table(path) if path.is_file() else pd.DataFrame()
    return {} if table.empty else {str(key): str(value) for key, value in table.iloc[0].items()}


def _unreadable(path: Path, error: InputError) -> Finding:
    return Finding(
        rule="results-left-out",
        severity=Severity.FAULT,
        where=error.where or str(path),
        message=f"it is left out: {error.what}",
        advice=error.hint or "",
    )


def _read_analyses(
    found: _Found, labels: Mapping[Path, str], versions: _Versions, find_prefix: FindPrefix
) -> tuple[list[ComputeAnalysis], list[Finding]]:
    """The tool's own values. Names of databases are those of workloads; folders belong to the workload around them."""
    taken: list[str] = []
    analyses: list[ComputeAnalysis] = []
    findings: list[Finding] = []

    def label_for(path: Path) -> Callable[[str], str]:
        def label(name: str) -> str:
            around = [labels[each] for each in (path.resolve(), *path.resolve().parents) if each in labels]
            prefix = find_prefix(path)
            of_batch = f"{prefix}{name.removeprefix(_BATCH_PREFIX)}"
            alone = of_batch if of_batch in labels.values() else f"{prefix}{name}"
            chosen = unused_label(around[0] if around else alone, taken)
            taken.append(chosen)
            return chosen

        return label

    readers: tuple[tuple[Path, Callable[..., ComputeAnalysis]], ...] = (
        *((path, read_analysis_database) for path in found.databases),
        *((path, read_table_folder) for path in found.tables),
        *((path, read_view_folder) for path in found.views),
    )
    for path, read in readers:
        try:
            analysis = read(path, label=label_for(path))
        except InputError as error:
            if len(readers) == 1 and not labels:
                raise
            findings.append(_unreadable(path, error))
            continue
        analyses.append(
            replace(
                analysis,
                workloads=tuple(
                    replace(each, version=versions.of(path, each.version)) if each.version.text is None else each
                    for each in analysis.workloads
                ),
            )
        )
    return analyses, findings


def _merged(counted: ComputeWorkload | None, analysed: ComputeWorkload) -> ComputeWorkload:
    """One workload of its raw counters and the tool's values; the version is that of the values."""
    if counted is None:
        return analysed
    return replace(
        counted,
        version=analysed.version.narrowed(counted.version),
        schema_version=analysed.schema_version,
        facts={**analysed.facts, **counted.facts},
        ceilings=analysed.ceilings or counted.ceilings,
    )


def _evaluate(
    sources: Sequence[CountedFrames], pass_rule: PassRule
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[Finding, ...]]:
    """QUANTITIES by kernel of raw counters, and the GPUs."""
    if not sources:
        return QUANTITIES.empty(), pd.DataFrame(), ()
    counted = match_runs(sources)
    evaluated = evaluate(counted.table, load_formulas_of(counted), level=Level.KERNEL, pass_rule=pass_rule)
    return evaluated.frame, counted.agents, (*counted.findings, *evaluated.findings)


def _stacked(frames: Iterable[pd.DataFrame], empty: pd.DataFrame) -> pd.DataFrame:
    """Rows of frames of one spec; labels stay categories."""
    listed = [frame for frame in frames if len(frame)]
    if not listed:
        return empty
    if len(listed) == 1:
        return listed[0]
    dtypes = {name: str(dtype) for name, dtype in empty.dtypes.items()}
    return pd.concat([frame.astype(object) for frame in listed], ignore_index=True).astype(dtypes)
