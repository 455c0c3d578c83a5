"""The files of one question, opened once; each frame built on demand and kept.

    with Workspace.open(["trace/"]) as workspace:
        dispatches = workspace.dispatches(["kernel_name", "start_ns", "end_ns"])

A file that the user named and that cannot be read is an error when it is the only one, and a finding of severity
"fault" when others can still be read; that damage in it shows late, when a frame is built, makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import pandas as pd

from rocktools import frames
from rocktools.errors import InputError, NothingToRead, RocktoolsError, UnknownFormat, UsageError
from rocktools.findings import Finding, Severity
from rocktools.frames import FrameSpec
from rocktools.sources.rocpd import contents, counters, dispatches, facts, health, host, memory, samples
from rocktools.sources.rocpd.columns import TableReader
from rocktools.sources.rocpd.opening import ReadableDatabase, make_readable
from rocktools.sources.rocpd.parts import Part, assemble_frame
from rocktools.sources.rocpd.schema import ProcessTables, read_processes
from rocktools.units import count_noun
from rocktools.workspace.paths import DatabasePath, find_databases, unused_label


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedProcess:
    """One profiled process in a file.

    Attributes:
        source: the file and its labels.
        tables: what the process left in it.
        database: the file, ready to be read.
        is_counter_pass: whether its dispatches were serialised by counter collection.
    """

    source: DatabasePath
    tables: ProcessTables
    database: ReadableDatabase
    is_counter_pass: bool


class Workspace:
    """Files and the frames built from them. Make one with `Workspace.open`, and close it.

    A file is open only while it is read, so that the number of files has no limit.
    """

    def __init__(
        self,
        processes: Sequence[LoadedProcess],
        databases: Sequence[ReadableDatabase],
        findings: Iterable[Finding],
        *,
        accelerate: bool | None = None,
    ) -> None:
        self.loaded = tuple(processes)
        self._databases = tuple(databases)
        self._findings = list(findings)
        self._accelerate = accelerate
        self._frames: dict[tuple[str, tuple[str, ...]], pd.DataFrame] = {}

    @classmethod
    def open(cls, arguments: Sequence[str | Path], *, accelerate: bool | None = None) -> Workspace:
        """Open everything the arguments name.

        Args:
            arguments: files, folders, patterns, `.rpdb` folders, run directories.
            accelerate: False for the standard library alone, None to use the `fast` extra where it is installed.

        Raises:
            UsageError: nothing was named.
            InputError: no file could be read; where there was one file only, its own error.
        """
        if not arguments:
            raise UsageError("no-files", "no file, folder or pattern was named")
        sources = find_databases(arguments)
        databases: list[ReadableDatabase] = []
        processes: list[LoadedProcess] = []
        findings: list[Finding] = []
        errors: list[RocktoolsError] = []
        seen: dict[str, LoadedProcess] = {}
        for source in sources:
            if source.is_unverified:
                findings.append(_unverified_but_named(source) if source.is_named else _unverified(source))
                if not source.is_named:
                    continue
            try:
                database = make_readable(source.path)
                databases.append(database)
                findings.extend(database.findings)
                for process in _load_processes(source, database):
                    first = seen.setdefault(process.tables.label, process)
                    if first is process:
                        processes.append(process)
                    elif _list_contents(first) == _list_contents(process):
                        findings.append(_process_twice(process.tables, first.source.path))
                    else:
                        other = _relabelled(process, seen)
                        seen[other.tables.label] = other
                        processes.append(other)
                        findings.append(_label_twice(process.tables, first.source.path, other.tables.label))
            except InputError as error:
                errors.append(error)
                findings.append(_unreadable(source, error))
        workspace = cls(processes, databases, findings, accelerate=accelerate)
        if not processes:
            workspace.close()
            if not errors:
                raise _nothing_verified(sources)
            raise _nothing_readable(errors, len(sources))
        return workspace

    def close(self) -> None:
        """Remove private copies; frames that were built stay valid."""
        for database in self._databases:
            database.close()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def findings(self) -> list[Finding]:
        """What opening and reading raised so far, each once."""
        unique: list[Finding] = []
        for finding in self._findings:
            if finding not in unique:
                unique.append(finding)
        return unique

    @property
    def is_simulated(self) -> bool:
        """Whether any of the files says that no hardware produced it."""
        return any(process.tables.is_simulated for process in self.loaded)

    def check_health(self) -> list[Finding]:
        """What in the files cannot be trusted; reads much of them."""
        found: list[Finding] = []
        for process in self.loaded:
            try:
                with self.reader(process) as reader:
                    found += health.check_process(reader, process.tables, is_counter_pass=process.is_counter_pass)
            except InputError as error:
                found.append(_unreadable(process.source, error))
        return found

    def dispatches(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """DISPATCHES of the traced processes (none of a counter pass). Columns beside the key; None for all."""
        wanted = None if columns is None else tuple(columns)
        return self._build(
            frames.DISPATCHES,
            wanted,
            "kernel_dispatch",
            lambda process, reader: dispatches.read_dispatches(reader, process.tables, process.source.run, wanted),
            is_wanted=lambda process: not process.is_counter_pass,
        )

    def require_dispatches(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """DISPATCHES, with at least one row.

        Raises:
            NothingToRead: there is none; what there is instead is named.
        """
        found = self.dispatches(columns)
        if found.empty:
            counted = sum(process.is_counter_pass for process in self.loaded)
            raise NothingToRead(
                "no-traced-dispatches",
                f"there is no traced dispatch in {count_noun(len(self.loaded), 'process')}"
                + (f" ({counted} of them are counter passes, whose times are not those of the job)" if counted else ""),
                where=", ".join(str(process.source.path) for process in self.loaded[:3]),
                hint=f"rocktools {'dispatches --counted' if counted else 'info'} {self.loaded[0].source.path}",
            )
        return found

    def require_counted_dispatches(self) -> pd.DataFrame:
        """COUNTED_DISPATCHES, with at least one row.

        Raises:
            NothingToRead: there is none.
        """
        found = self.counted_dispatches()
        if found.empty:
            raise NothingToRead(
                "no-counted-dispatches",
                f"there is no counter pass among {count_noun(len(self.loaded), 'process')}",
                where=", ".join(str(process.source.path) for process in self.loaded[:3]),
                hint=f"rocktools info {self.loaded[0].source.path}",
            )
        return found

    def counted_dispatches(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """COUNTED_DISPATCHES of the counter passes. Columns beside the key; None for all."""
        wanted = None if columns is None else tuple(columns)
        return self._build(
            frames.COUNTED_DISPATCHES,
            wanted,
            "kernel_dispatch",
            lambda process, reader: dispatches.read_counted_dispatches(
                reader, process.tables, process.source.run, process.source.pass_label, wanted
            ),
            is_wanted=lambda process: process.is_counter_pass,
        )

    def counter_values(self) -> pd.DataFrame:
        """COUNTER_VALUES of the counter passes."""
        return self._build(
            frames.COUNTER_VALUES,
            None,
            "pmc_event",
            lambda process, reader: counters.read_counter_values(
                reader, process.tables, process.source.run, process.source.pass_label
            ),
            is_wanted=lambda process: process.is_counter_pass,
        )

    def host_calls(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """HOST_CALLS. Columns beside the key; None for all."""
        wanted = None if columns is None else tuple(columns)
        return self._build(
            frames.HOST_CALLS,
            wanted,
            "region",
            lambda process, reader: host.read_host_calls(reader, process.tables, process.source.run, wanted),
        )

    def ranges(self) -> pd.DataFrame:
        """RANGES: roctx ranges and marks."""
        return self._build_whole(frames.RANGES, None, host.read_ranges)

    def copies(self) -> pd.DataFrame:
        """COPIES."""
        return self._build_whole(frames.COPIES, "memory_copy", memory.read_copies)

    def allocations(self) -> pd.DataFrame:
        """ALLOCATIONS."""
        return self._build_whole(frames.ALLOCATIONS, "memory_allocate", memory.read_allocations)

    def samples(self) -> pd.DataFrame:
        """SAMPLES: telemetry and other instants."""
        return self._build_whole(frames.SAMPLES, "sample", samples.read_samples)

    def agents(self) -> pd.DataFrame:
        """AGENTS, as each process saw them."""
        return self._build_whole(frames.AGENTS, "info_agent", facts.read_agents)

    def kernel_symbols(self) -> pd.DataFrame:
        """KERNEL_SYMBOLS."""
        return self._build_whole(
            frames.KERNEL_SYMBOLS,
            "info_kernel_symbol",
            lambda reader, tables, run: facts.read_kernel_symbols(reader, tables, run).part,
        )

    def processes(self) -> pd.DataFrame:
        """PROCESSES, one row for each."""
        return self._build(
            frames.PROCESSES,
            None,
            None,
            lambda process, reader: facts.read_process(
                reader,
                process.tables,
                process.source.run,
                "counters" if process.is_counter_pass else "trace",
            ),
        )

    def frame(self, name: str, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """A frame by its name in rocktools.frames.SPECS. Columns beside the key; None for all."""
        by_column: dict[str, Callable[[tuple[str, ...] | None], pd.DataFrame]] = {
            "DISPATCHES": self.dispatches,
            "COUNTED_DISPATCHES": self.counted_dispatches,
            "HOST_CALLS": self.host_calls,
        }
        whole: dict[str, Callable[[], pd.DataFrame]] = {
            "COUNTER_VALUES": self.counter_values,
            "RANGES": self.ranges,
            "COPIES": self.copies,
            "ALLOCATIONS": self.allocations,
            "SAMPLES": self.samples,
            "AGENTS": self.agents,
            "PROCESSES": self.processes,
            "KERNEL_SYMBOLS": self.kernel_symbols,
        }
        wanted = None if columns is None else tuple(columns)
        if name in by_column:
            return by_column[name](wanted)
        found = whole[name]()
        return found if wanted is None else found[list(frames.SPECS[name].select(wanted))]

    def _build_whole(
        self, spec: FrameSpec, base: str | None, read: Callable[[TableReader, ProcessTables, str], Part]
    ) -> pd.DataFrame:
        return self._build(spec, None, base, lambda process, reader: read(reader, process.tables, process.source.run))

    def _build(
        self,
        spec: FrameSpec,
        columns: tuple[str, ...] | None,
        base: str | None,
        read: Callable[[LoadedProcess, TableReader], Part],
        *,
        is_wanted: Callable[[LoadedProcess], bool] = lambda process: True,
    ) -> pd.DataFrame:
        """Read the part of each process that is wanted and has the table, and put them together; once for each call."""
        key = (spec.name, spec.select(columns))
        if key not in self._frames:
            wanted = [
                process
                for process in sorted(self.loaded, key=lambda process: (process.source.run, process.tables.label))
                if is_wanted(process) and (base is None or base in process.tables.tables)
            ]
            parts = []
            errors = []
            for process in wanted:
                try:
                    with self.reader(process) as reader:
                        parts.append(read(process, reader))
                except InputError as error:
                    errors.append(error)
                    self._findings.append(_unreadable(process.source, error))
            if errors and not parts:
                raise _nothing_readable(errors, len(wanted))
            self._frames[key] = assemble_frame(parts, spec, columns)
        return self._frames[key]

    def reader(self, process: LoadedProcess) -> TableReader:
        """A reader of the process's file, which the caller closes; its doubts go into `findings`."""
        return TableReader(process.database, findings=self._findings, accelerate=self._accelerate)


def _load_processes(source: DatabasePath, database: ReadableDatabase) -> list[LoadedProcess]:
    with TableReader(database, accelerate=False) as reader:
        return [
            LoadedProcess(
                source=source,
                tables=tables,
                database=database,
                is_counter_pass=counters.is_counter_pass(reader, tables),
            )
            for tables in read_processes(reader)
        ]


def _process_twice(tables: ProcessTables, first: Path) -> Finding:
    return Finding(
        rule="process-twice",
        severity=Severity.WARNING,
        where=str(tables.path),
        message=f"process {tables.label} was read from {first} already (a copy or a merged database); left out",
    )


def _list_contents(process: LoadedProcess) -> list[contents.Content]:
    with TableReader(process.database, accelerate=False) as reader:
        return contents.list_contents(reader, process.tables)


def _relabelled(process: LoadedProcess, taken: Iterable[str]) -> LoadedProcess:
    label = unused_label(process.tables.label, taken)
    return replace(process, tables=replace(process.tables, label=label))


def _label_twice(tables: ProcessTables, first: Path, label: str) -> Finding:
    return Finding(
        rule="process-label-twice",
        severity=Severity.WARNING,
        where=str(tables.path),
        message=f"process {tables.label} is in {first} too, with other rows; this one is shown as {label}",
        advice="rocprof-sys makes the label from machine and process ids, which containers repeat: are these two runs?",
    )


def _unverified(source: DatabasePath) -> Finding:
    return Finding(
        rule="pass-not-verified",
        severity=Severity.WARNING,
        where=str(source.path),
        message="left out: its pass failed or did not end, so rows may be missing from it",
        advice="name the file itself to read it all the same",
    )


def _unverified_but_named(source: DatabasePath) -> Finding:
    return Finding(
        rule="pass-not-verified",
        severity=Severity.WARNING,
        where=str(source.path),
        message="read because it was named: its pass failed or did not end, so rows may be missing from it",
        advice="name the run directory to read what was verified",
    )


def _nothing_verified(sources: Sequence[DatabasePath]) -> RocktoolsError:
    return NothingToRead(
        "nothing-verified",
        f"no pass of this run was verified; {len(sources)} databases of failed passes are left out",
        where=str(sources[0].path),
        hint="go on with the capture (--resume), or name a file itself to read it all the same",
    )


def _unreadable(source: DatabasePath, error: RocktoolsError) -> Finding:
    """A database of another tool in a folder is only worth a remark; one that the user named is not."""
    is_remark = isinstance(error, UnknownFormat) and not source.is_named
    return Finding(
        rule=error.reference,
        severity=Severity.NOTE if is_remark else Severity.FAULT,
        where=error.where or str(source.path),
        message=f"left out: {error.what}",
        advice=error.hint or "",
    )


def _nothing_readable(errors: Sequence[RocktoolsError], files_count: int) -> RocktoolsError:
    if len(errors) == 1:
        return errors[0]
    listed = "\n".join(f"    {error.where}: {error.what}" for error in errors[:10])
    more = f"\n    and {len(errors) - 10} more" if len(errors) > 10 else ""
    return InputError("nothing-readable", f"none of the {files_count} files can be read:\n{listed}{more}")
