"""The files of a workspace -> the processes in them, each once; what cannot be read, or should not be, is named."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rocktools.errors import InputError, NothingToRead, RocktoolsError, UnknownFormat
from rocktools.findings import Finding, Severity
from rocktools.hlo.dumps import find_dump_of
from rocktools.hlo.reading import is_hlo_text
from rocktools.sources.rocpd import contents, counters, health
from rocktools.sources.rocpd.columns import TableReader
from rocktools.sources.rocpd.opening import ReadableDatabase, make_readable
from rocktools.sources.rocpd.schema import ProcessTables, read_processes
from rocktools.sources.xspace.detect import is_xspace
from rocktools.workspace.paths import DATABASE_SUFFIXES, SourceKind, SourcePath, unused_label
from rocktools.workspace.profiles import LoadedProfile, load_profile
from rocktools.workspace.replays import ReplayedProcess, load_replays


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedProcess:
    """One profiled process in a file.

    Attributes:
        source: the file and its labels.
        tables: what the process left in it.
        database: the file, ready to be read.
        is_counter_pass: whether its dispatches were serialised by counter collection.
    """

    source: SourcePath
    tables: ProcessTables
    database: ReadableDatabase
    is_counter_pass: bool


@dataclass(slots=True)
class LoadedFiles:
    """What was loaded so far.

    Attributes:
        databases: files that are open for reading, to be closed.
        processes: in databases.
        replayed: in JSON of in-process kernel replay.
        profiles: of JAX, open for reading, to be closed.
        findings: what opening raised.
        errors: of files that could not be read.
    """

    databases: list[ReadableDatabase] = field(default_factory=list)
    processes: list[LoadedProcess] = field(default_factory=list)
    replayed: list[ReplayedProcess] = field(default_factory=list)
    profiles: list[LoadedProfile] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    errors: list[RocktoolsError] = field(default_factory=list)

    def load(self, source: SourcePath) -> None:
        """Add the processes of a file; one that cannot be read, or was not verified, becomes a finding."""
        if source.is_unverified:
            self.findings.append(_unverified_but_named(source) if source.is_named else unverified(source))
            if not source.is_named:
                return
        try:
            if _is_profile(source):
                self._add_profile(load_profile(source))
                return
            if source.kind is SourceKind.REPLAY_JSON:
                for replayed in load_replays(source):
                    self._add_replayed(replayed)
                return
            _refuse_program(source)
            database = make_readable(source.path)
            self.databases.append(database)
            self.findings.extend(database.findings)
            for process in _load_processes(source, database):
                self.findings.extend(health.check_recovered(process.tables))
                self._add(process)
        except InputError as error:
            self.errors.append(error)
            self.findings.append(unreadable(source, error))

    def _add(self, process: LoadedProcess) -> None:
        label, path = process.tables.label, process.tables.path
        known = {other.tables.label: other for other in self.processes}
        first = known.get(label)
        if first is None:
            self.processes.append(process)
        elif _list_contents(first) == _list_contents(process):
            self.findings.append(_process_twice(label, path, first.source.path))
        else:
            other = _relabelled(process, known)
            self.processes.append(other)
            self.findings.append(_label_twice(process.tables, first.source.path, other.tables.label))

    def _add_profile(self, profile: LoadedProfile) -> None:
        taken = [other.label for other in self.profiles if other.source.run == profile.source.run]
        profile.label = unused_label(profile.label, taken)
        self.profiles.append(profile)

    def mark_profiles_beside_traces(self) -> None:
        """Kernels of a run that was traced and profiled at once are counted once: those of the trace."""
        traced = {process.source.run for process in self.processes if not process.is_counter_pass}
        for profile in self.profiles:
            if profile.source.run in traced:
                profile.is_beside_trace = True
                self.findings.append(_profile_beside_trace(profile))

    def _add_replayed(self, process: ReplayedProcess) -> None:
        twin = next((other for other in self.replayed if other.is_same_as(process)), None)
        if twin is not None:
            self.findings.append(_process_twice(process.label, process.source.path, twin.source.path))
            return
        # The label is made of a process id, which other runs repeat: that it is taken means nothing.
        label = unused_label(process.label, [other.label for other in self.replayed])
        self.replayed.append(process.relabelled(label))


def _is_profile(source: SourcePath) -> bool:
    """By its name; a file that was named, and is called otherwise, by what is in it."""
    if source.kind is SourceKind.PROFILE:
        return True
    return source.is_named and source.path.suffix not in DATABASE_SUFFIXES and is_xspace(source.path)


def _refuse_program(source: SourcePath) -> None:
    """Tell apart early what is easily named in the wrong place: `link dump.txt`.

    Raises:
        UnknownFormat: it is a compiled program.
    """
    path = source.path
    if source.is_named and path.suffix not in DATABASE_SUFFIXES and (find_dump_of(path) or is_hlo_text(path)):
        raise UnknownFormat(
            "not-a-trace",
            "this is a compiled program (HLO), not a trace",
            where=str(path),
            hint=f"rocktools hlo info {shlex.quote(str(path))}; or a trace as PATH, and this as --hlo FILE",
        )


def _profile_beside_trace(profile: LoadedProfile) -> Finding:
    return Finding(
        rule="profile-beside-trace",
        severity=Severity.NOTE,
        where=str(profile.source.path),
        message="its kernels are left out: the run has a trace of rocprofv3 with the same kernels",
        advice="name the file itself to see its kernels; DEVICE_EVENTS and the compiled programs are read in any case",
    )


def _load_processes(source: SourcePath, database: ReadableDatabase) -> list[LoadedProcess]:
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


def _process_twice(label: str, path: Path, first: Path) -> Finding:
    return Finding(
        rule="process-twice",
        severity=Severity.WARNING,
        where=str(path),
        message=f"process {label} was read from {first} already (a copy or a merged database); left out",
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


def unverified(source: SourcePath) -> Finding:
    """What a capture left half done is not read unless it is named."""
    return Finding(
        rule="pass-not-verified",
        severity=Severity.WARNING,
        where=str(source.path),
        message="left out: its pass failed or did not end, so rows may be missing from it",
        advice="name the file itself to read it all the same",
    )


def _unverified_but_named(source: SourcePath) -> Finding:
    return Finding(
        rule="pass-not-verified",
        severity=Severity.WARNING,
        where=str(source.path),
        message="read because it was named: its pass failed or did not end, so rows may be missing from it",
        advice="name the run directory to read what was verified",
    )


def nothing_verified(sources: Sequence[SourcePath]) -> RocktoolsError:
    return NothingToRead(
        "nothing-verified",
        f"no pass of this run was verified; {len(sources)} databases of failed passes are left out",
        where=str(sources[0].path),
        hint="go on with the capture (--resume), or name a file itself to read it all the same",
    )


def unreadable(source: SourcePath, error: RocktoolsError) -> Finding:
    """A database of another tool in a folder is only worth a remark; one that the user named is not."""
    is_remark = isinstance(error, UnknownFormat) and not source.is_named
    return Finding(
        rule=error.reference,
        severity=Severity.NOTE if is_remark else Severity.FAULT,
        where=error.where or str(source.path),
        message=f"left out: {error.what}",
        advice=error.hint or "",
    )


def nothing_readable(errors: Sequence[RocktoolsError], files_count: int) -> RocktoolsError:
    if len(errors) == 1:
        return errors[0]
    listed = "\n".join(f"    {error.where}: {error.what}" for error in errors[:10])
    more = f"\n    and {len(errors) - 10} more" if len(errors) > 10 else ""
    return InputError("nothing-readable", f"none of the {files_count} files can be read:\n{listed}{more}")
