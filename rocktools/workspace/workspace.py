"""The files of one question, opened once; each frame built on demand and kept.

    with Workspace.open(["trace/"]) as workspace:
        dispatches = workspace.dispatches(["kernel_name", "start_ns", "end_ns"])

A file that the user named and that cannot be read is an error when it is the only one, and a finding of severity
"fault" when others can still be read; that damage in it shows late, when a frame is built, makes no difference.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType

import pandas as pd

from rocktools import frames
from rocktools.errors import InputError, NothingToRead, UsageError
from rocktools.findings import Finding
from rocktools.frames import FrameSpec
from rocktools.sources.rocpd import counters, dispatches, facts, health, host, memory, samples
from rocktools.sources.rocpd.columns import TableReader
from rocktools.sources.rocpd.parts import Part, assemble_frame
from rocktools.sources.rocpd.schema import ProcessTables
from rocktools.sources.xspace.allocators import ALLOCATORS, read_allocators
from rocktools.units import count_noun
from rocktools.workspace.frame_parts import part_of_frame
from rocktools.workspace.loading import LoadedFiles, LoadedProcess, nothing_readable, nothing_verified, unreadable
from rocktools.workspace.paths import SourcePath, find_sources
from rocktools.workspace.profiles import LoadedProfile
from rocktools.workspace.run_directories import check_capture

READ_FRAMES = (
    *("DISPATCHES", "COUNTED_DISPATCHES", "COUNTER_VALUES", "HOST_CALLS", "RANGES", "COPIES", "ALLOCATIONS", "SAMPLES"),
    *("AGENTS", "PROCESSES", "KERNEL_SYMBOLS", "DEVICE_EVENTS", "HOST_EVENTS", "PROFILED_DEVICES"),
)
"""The frames that a workspace has by itself; the others take a compiled program as well."""


class Workspace:
    """Files and the frames built from them. Make one with `Workspace.open`, and close it.

    A file is open only while it is read, so that the number of files has no limit.
    """

    def __init__(
        self,
        files: LoadedFiles,
        *,
        accelerate: bool | None = None,
    ) -> None:
        self.loaded = tuple(files.processes)
        self.replayed = tuple(files.replayed)
        self.profiles = tuple(files.profiles)
        self._databases = tuple(files.databases)
        self._findings = list(files.findings)
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
        return cls.open_sources(find_sources(arguments), accelerate=accelerate)

    @classmethod
    def open_sources(cls, sources: Sequence[SourcePath], *, accelerate: bool | None = None) -> Workspace:
        """Open files that were found before, under the labels that they were given then.

        Raises:
            InputError: as `open`.
        """
        files = LoadedFiles()
        for capture in dict.fromkeys(source.capture for source in sources):
            files.findings += [] if capture is None else check_capture(capture)
        for source in sources:
            files.load(source)
        files.mark_profiles_beside_traces()
        workspace = cls(files, accelerate=accelerate)
        if not (files.processes or files.replayed or files.profiles):
            workspace.close()
            raise nothing_readable(files.errors, len(sources)) if files.errors else nothing_verified(sources)
        return workspace

    def close(self) -> None:
        """Remove private copies; frames that were built stay valid."""
        for database in self._databases:
            database.close()
        for profile in self.profiles:
            profile.file.close()

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
        return any(process.tables.is_simulated for process in self.loaded) or any(
            profile.file.is_simulated for profile in self.profiles
        )

    def check_health(self) -> list[Finding]:
        """What in the files cannot be trusted; reads much of them."""
        found: list[Finding] = []
        for process in self.loaded:
            try:
                with self.reader(process) as reader:
                    found += health.check_process(reader, process.tables, is_counter_pass=process.is_counter_pass)
            except InputError as error:
                found.append(unreadable(process.source, error))
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
            raise self._no_dispatches()
        return found

    def _no_dispatches(self) -> NothingToRead:
        counted = sum(process.is_counter_pass for process in self.loaded) + len(self.replayed)
        paths = self._paths()
        what = f"there is no traced dispatch in {count_noun(len(paths), 'process')}"
        command = "info"
        if counted:
            what = f"{what} (counter passes among them: {counted}; their times are not those of the job)"
            command = "dispatches --counted"
        elif self.profiles:
            what = f"{what} (JAX profiles among them: {len(self.profiles)}; those of the CPU backend have no kernels)"
            command = "link"
        hint = f"rocktools {command} {shlex.quote(paths[0])}"
        return NothingToRead("no-traced-dispatches", what, where=", ".join(paths[:3]), hint=hint)

    def require_counted_dispatches(self) -> pd.DataFrame:
        """COUNTED_DISPATCHES, with at least one row.

        Raises:
            NothingToRead: there is none.
        """
        found = self.counted_dispatches()
        if found.empty:
            paths = self._paths()
            raise NothingToRead(
                "no-counted-dispatches",
                f"there is no counter pass among {count_noun(len(paths), 'process')}",
                where=", ".join(paths[:3]),
                hint=f"rocktools info {shlex.quote(paths[0])}",
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

    def device_events(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """DEVICE_EVENTS of the JAX profiles. Columns beside the key; None for all."""
        return self._build_profiled(frames.DEVICE_EVENTS, None if columns is None else tuple(columns))

    def host_events(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """HOST_EVENTS of the JAX profiles. Columns beside the key; None for all."""
        return self._build_profiled(frames.HOST_EVENTS, None if columns is None else tuple(columns))

    def profiled_devices(self) -> pd.DataFrame:
        """PROFILED_DEVICES of the JAX profiles."""
        return self._build_profiled(frames.PROFILED_DEVICES, None)

    def allocators(self) -> pd.DataFrame:
        """ALLOCATORS of the JAX profiles; one that is damaged is left out, and told."""
        parts = []
        for profile in self.profiles:
            try:
                frame = read_allocators([profile.file], run=profile.source.run)
            except InputError as error:
                self._findings.append(unreadable(profile.source, error))
                continue
            if len(frame):
                host = pd.Categorical([profile.label] * len(frame), categories=[profile.label])
                parts.append(part_of_frame(frame.assign(host=host), ALLOCATORS))
        return assemble_frame(parts, ALLOCATORS)

    def frame(self, name: str, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """A frame by its name, one of `READ_FRAMES`. Columns beside the key; None for all."""
        by_column: dict[str, Callable[[tuple[str, ...] | None], pd.DataFrame]] = {
            "DISPATCHES": self.dispatches,
            "COUNTED_DISPATCHES": self.counted_dispatches,
            "HOST_CALLS": self.host_calls,
            "DEVICE_EVENTS": self.device_events,
            "HOST_EVENTS": self.host_events,
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
            "PROFILED_DEVICES": self.profiled_devices,
        }
        wanted = None if columns is None else tuple(columns)
        if name in by_column:
            return by_column[name](wanted)
        found = whole[name]()
        return found if wanted is None else found[list(frames.SPECS[name].select(wanted))]

    def _build_profiled(self, spec: FrameSpec, columns: tuple[str, ...] | None) -> pd.DataFrame:
        return self._build(spec, columns, "", _read_nothing, is_wanted=lambda process: False)

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
                for process in self.loaded
                if is_wanted(process) and (base is None or base in process.tables.tables)
            ]
            parts = {
                (process.source.run, process.label): part
                for process in self.replayed
                if (part := process.part(spec)) is not None
            }
            errors: list[InputError] = []
            for profile in self.profiles:
                self._add_profile_part(parts, errors, profile, spec, columns)
            for process in wanted:
                try:
                    with self.reader(process) as reader:
                        parts[process.source.run, process.tables.label] = read(process, reader)
                except InputError as error:
                    errors.append(error)
                    self._findings.append(unreadable(process.source, error))
            if errors and not parts:
                raise nothing_readable(errors, len(errors))
            self._frames[key] = assemble_frame([parts[place] for place in sorted(parts)], spec, columns)
        return self._frames[key]

    def _add_profile_part(
        self,
        parts: dict[tuple[str, str], Part],
        errors: list[InputError],
        profile: LoadedProfile,
        spec: FrameSpec,
        columns: tuple[str, ...] | None,
    ) -> None:
        try:
            part = profile.part(spec, columns)
        except InputError as error:
            errors.append(error)
            self._findings.append(unreadable(profile.source, error))
            return
        if part is not None:
            # A run may have a trace and a profile, whose process labels are of another kind.
            parts[profile.source.run, profile.label] = part

    def sources(self) -> tuple[SourcePath, ...]:
        """The file of each process and profile."""
        loaded = [each.source for each in self.loaded]
        return (*loaded, *(each.source for each in self.replayed), *(each.source for each in self.profiles))

    def profiles_of(self, run: str) -> list[LoadedProfile]:
        """The JAX profiles of a run, in the order in which their rows stand in frames."""
        return sorted((each for each in self.profiles if each.source.run == run), key=lambda profile: profile.label)

    def _paths(self) -> list[str]:
        return [str(source.path) for source in self.sources()]

    def reader(self, process: LoadedProcess) -> TableReader:
        """A reader of the process's file, which the caller closes; its doubts go into `findings`."""
        return TableReader(process.database, findings=self._findings, accelerate=self._accelerate)


def _read_nothing(process: LoadedProcess, reader: TableReader) -> Part:
    """What databases have of the frames of profiles: never called, since no process is wanted."""
    raise AssertionError(process.source.path)
