"""Reads what a pass left, and says whether it may be used."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rocktools.capture import expectations
from rocktools.capture.expectations import Expectation
from rocktools.capture.known_texts import opened_files_in_file, scan_stderr_file
from rocktools.errors import InputError
from rocktools.findings import Finding, Severity, has_fault
from rocktools.frames import AGENTS, COUNTED_DISPATCHES, COUNTER_VALUES, PROCESSES
from rocktools.rundir import DatabaseRecord, hash_file
from rocktools.sources.rocpd import counters, dispatches, facts, health
from rocktools.sources.rocpd.columns import TableReader
from rocktools.sources.rocpd.opening import make_readable
from rocktools.sources.rocpd.parts import Part, assemble_frame
from rocktools.sources.rocpd.schema import ProcessTables, read_processes
from rocktools.sources.rocpd.strings import find_string_ids
from rocktools.sources.rocprofv3_json import JsonCounters, read_counter_json

_SPILL_PATTERN = ".rocprofv3/*.dat"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassFrames:
    """What the databases of a pass hold, as frames of the readers; traced dispatches are only counted."""

    counted: pd.DataFrame
    values: pd.DataFrame
    processes: pd.DataFrame
    agents: pd.DataFrame

    @classmethod
    def empty(cls) -> PassFrames:
        """Of a pass that counted nothing."""
        return cls(
            counted=COUNTED_DISPATCHES.empty(),
            values=COUNTER_VALUES.empty(),
            processes=PROCESSES.empty(),
            agents=AGENTS.empty(),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verification:
    """What a pass left, and what is wrong with it.

    Attributes:
        databases: every database, good or bad.
        findings: doubts; with a fault among them the pass must not be used.
        frames: what the good databases hold.
    """

    databases: tuple[DatabaseRecord, ...]
    findings: tuple[Finding, ...]
    frames: PassFrames

    @property
    def is_verified(self) -> bool:
        return not has_fault(self.findings)


def verify_pass(
    run: Path, folder: Path, expectation: Expectation, *, label: str, stderr_path: Path, spill_folder: Path
) -> Verification:
    """Check the databases of one attempt at a pass against what was asked for.

    Args:
        run: the run directory.
        folder: of the attempt; only databases in it (and not in folders of later attempts) count.
        label: of the pass, for its frames.
        stderr_path: what the tool and the job wrote there.
        spill_folder: where the tool put its temporary files.
    """
    # Kernel replay is read from JSON: the rocpd databases of its first releases add its passes up.
    pattern = "*_results.json" if expectation.kind == "replay" else "*.db"
    found = sorted(path for path in folder.rglob(pattern) if "attempt_" not in str(path.relative_to(folder)))
    has_log = stderr_path.is_file()
    findings = [*scan_stderr_file(stderr_path)] if has_log else []
    announced = opened_files_in_file(stderr_path) if has_log else []
    findings += expectations.check_files(announced, found, folder, expectation)
    findings += expectations.check_spill(spill_folder, sorted(spill_folder.glob(_SPILL_PATTERN)))
    if expectation.kind == "replay":
        records, frames = _read_replay(run, found, label, findings)
    else:
        collected = _Collected()
        records = [_read_database(run, path, label, collected, findings) for path in found]
        frames = collected.frames()
    processes_count = len({label for record in records for label in record.processes})
    findings += expectations.check_processes(processes_count, expectation, str(folder))
    if found:
        dispatches_count = sum(record.dispatches_count for record in records)
        findings += _check_rows(frames, expectation, str(folder), dispatches_count)
    return Verification(databases=tuple(records), findings=tuple(findings), frames=frames)


class _Collected:
    """Parts of all databases of a pass."""

    def __init__(self) -> None:
        self.counted: list[Part] = []
        self.values: list[Part] = []
        self.processes: list[Part] = []
        self.agents: list[Part] = []

    def frames(self) -> PassFrames:
        return PassFrames(
            counted=assemble_frame(self.counted, COUNTED_DISPATCHES),
            values=assemble_frame(self.values, COUNTER_VALUES),
            processes=assemble_frame(self.processes, PROCESSES),
            agents=assemble_frame(self.agents, AGENTS),
        )


def _read_database(run: Path, path: Path, label: str, collected: _Collected, findings: list[Finding]) -> DatabaseRecord:
    """Read one database into `collected`; what cannot be read becomes a fault."""
    labels: list[str] = []
    version: str | None = None
    dispatches_count = 0
    try:
        with make_readable(path) as database, TableReader(database, findings=findings) as reader:
            findings += database.findings
            _check_whole(reader, path, findings)
            for process in read_processes(reader):
                labels.append(process.label)
                version = process.schema_version
                dispatches_count += _read_process(reader, process, run.name, label, collected, findings)
    except InputError as error:
        findings.append(_fault_of(error, path))
    return DatabaseRecord(
        path=path.relative_to(run).as_posix(),
        sha256=hash_file(path),
        size_bytes=path.stat().st_size,
        processes=tuple(labels),
        schema_version=version,
        dispatches_count=dispatches_count,
    )


def _read_replay(
    run: Path, found: Sequence[Path], label: str, findings: list[Finding]
) -> tuple[list[DatabaseRecord], PassFrames]:
    """Read the JSON of in-process kernel replay; the tool can replay one process only, so more are a fault."""
    read: list[JsonCounters] = []
    records = []
    for path in found:
        try:
            counters_read = read_counter_json(path, run=run.name, pass_label=label)
        except InputError as error:
            findings.append(_fault_of(error, path))
            continue
        read.append(counters_read)
        records.append(
            DatabaseRecord(
                path=path.relative_to(run).as_posix(),
                sha256=hash_file(path),
                size_bytes=path.stat().st_size,
                processes=tuple(str(label) for label in counters_read.processes["process"]),
                schema_version=None,
                dispatches_count=len(counters_read.counted),
            )
        )
    if sum(len(counters_read.processes) for counters_read in read) > 1:
        findings.append(
            Finding(
                rule="replay-of-several-processes",
                severity=Severity.FAULT,
                where=str(run),
                message="kernels were replayed in more than one process, which the tool does not support",
                advice="replay a single-process script",
            )
        )
    if not read:
        return records, PassFrames.empty()
    first = read[0]
    return records, PassFrames(
        counted=first.counted, values=first.values, processes=first.processes, agents=first.agents
    )


def _fault_of(error: InputError, path: Path) -> Finding:
    return Finding(
        rule=error.reference,
        severity=Severity.FAULT,
        where=error.where or str(path),
        message=error.what,
        advice=error.hint or "",
    )


def _check_whole(reader: TableReader, path: Path, findings: list[Finding]) -> None:
    problem = str(reader.scalar("PRAGMA quick_check(1)"))
    if problem != "ok":
        findings.append(
            Finding(
                rule="rocpd-malformed",
                severity=Severity.FAULT,
                where=str(path),
                message=f"the database is damaged: {problem}",
                advice=f"rocktools rocpd recover {shlex.quote(str(path))} -o recovered.db",
            )
        )


def _read_process(
    reader: TableReader, process: ProcessTables, run: str, label: str, collected: _Collected, findings: list[Finding]
) -> int:
    is_counter_pass = counters.is_counter_pass(reader, process)
    findings += health.check_completeness(reader, process)
    collected.processes.append(facts.read_process(reader, process, run, "counters" if is_counter_pass else "trace"))
    collected.agents.append(facts.read_agents(reader, process, run))
    if "kernel_dispatch" not in process.tables:
        return 0
    if is_counter_pass:
        collected.counted.append(dispatches.read_counted_dispatches(reader, process, run, label))
        collected.values.append(counters.read_counter_values(reader, process, run, label))
        return len(collected.counted[-1]["dispatch_id"])
    findings += health.check_times(reader, process)
    findings += _check_graphs(reader, process)
    return dispatches.count_rows(reader, process.tables["kernel_dispatch"])


def _check_graphs(reader: TableReader, process: ProcessTables) -> list[Finding]:
    """Launches of HIP graphs, of which several versions of the tool lose kernels or mix up their times."""
    names = find_string_ids(reader, process, "hipGraphLaunch")
    if not names or "region" not in process.tables:
        return []
    listed = ", ".join(map(str, names))
    table = process.tables["region"].quoted
    launches_count = int(reader.scalar(f"SELECT count(*) FROM {table} WHERE name_id IN ({listed})"))
    if not launches_count:
        return []
    return [
        Finding(
            rule="graph-launches",
            severity=Severity.WARNING,
            where=str(process.path),
            message=f"{launches_count:,} HIP graphs were launched; several versions of rocprofv3 lose their kernels",
            advice="for attribution run with XLA command buffers off (rocktools trace does that unless told otherwise)",
            numbers={"launches_count": launches_count},
        )
    ]


def _check_rows(frames: PassFrames, expectation: Expectation, where: str, dispatches_count: int) -> list[Finding]:
    if expectation.kind == "trace":
        return _check_trace(dispatches_count, where)
    if frames.counted.empty:
        return [
            Finding(
                rule="nothing-counted",
                severity=Severity.FAULT,
                where=where,
                message="there are databases, but no dispatch in them has a counter value",
                advice="was the counter name known, and did the kernel run?",
            )
        ]
    checks: Sequence[Callable[[], list[Finding]]] = (
        lambda: expectations.check_kernels(frames.counted, expectation, where),
        lambda: expectations.check_iterations(frames.counted, expectation, where),
        lambda: expectations.check_counters(
            frames.values, _executions(frames.counted, expectation), expectation, where
        ),
        lambda: expectations.check_outliers(frames.values, frames.counted, where),
    )
    return [finding for check in checks for finding in check()]


def _executions(counted: pd.DataFrame, expectation: Expectation) -> int:
    """How often a counter must have a value: for every execution; one that was replayed counts once."""
    if expectation.kind != "replay":
        return len(counted)
    return len(counted[["process", "dispatch_id"]].drop_duplicates())


def _check_trace(dispatches_count: int, where: str) -> list[Finding]:
    if dispatches_count:
        return []
    return [
        Finding(
            rule="no-dispatches-in-trace",
            severity=Severity.FAULT,
            where=where,
            message="there are databases, but no kernel dispatch in any of them",
            advice="the process that uses the GPU was not traced, or this ROCm does not know the device",
        )
    ]
