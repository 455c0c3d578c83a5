"""What the user named -> copies of the files that commands read, and the arguments that name these copies.

A file keeps its place below the folder that gives its rows their labels (the run directory, or the folder that was
named), so that commands find and call everything as they did before. Of a run directory goes along what commands read;
what they do not read, such as the output of the job, is left out and told.
"""

from __future__ import annotations

import glob
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from rocktools.errors import InputError, NothingToRead, RocktoolsError, UnknownFormat
from rocktools.findings import Finding
from rocktools.hlo.dumps import find_dump_of
from rocktools.rundir import (
    COMMANDS_FOLDER,
    HLO_FOLDER,
    MANIFEST_NAME,
    PASSES_FOLDER,
    PMC_FOLDER,
    TRACE_FOLDER,
    read_manifest,
)
from rocktools.sources.rocpd.health import check_privacy
from rocktools.sources.rocpd.repair import scrub_database
from rocktools.units import count_noun
from rocktools.workspace.paths import SourceKind, SourcePath, find_sources, unused_label
from rocktools.workspace.workspace import Workspace

_READ_FOLDERS = {TRACE_FOLDER, PMC_FOLDER, PASSES_FOLDER, COMMANDS_FOLDER, HLO_FOLDER, "xspace", "replays"}
_JSON_TRACES = (".trace.json", ".trace.json.gz")
_INDEX_NAMES = ("index.yaml",)
_SIDECARS = ("-wal", "-journal", "-shm")


class Scrub(str, Enum):
    """What is taken out of databases."""

    NOTHING = "nothing"
    ENVIRONMENT = "environment"
    IDENTITY = "identity"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRequest:
    """A run as the user named it.

    Attributes:
        paths: files, folders, patterns.
        hlo: the compiled program, where it was named.
        counters: where counter passes are, besides.
        step_log: log of the unprofiled run; None: what the manifest of the run names, if it does.
        workload: what the program does, for expected counts; None: as the log.
    """

    paths: tuple[str, ...]
    hlo: str | None = None
    counters: tuple[str, ...] = ()
    step_log: Path | None = None
    workload: Path | None = None


@dataclass(slots=True, kw_only=True)
class CopiedInputs:
    """The copies, by the paths inside the bundle that commands take.

    Attributes:
        paths, hlo, counters, step_log, workload: as in the request.
        left_out: what is not copied, with the reason.
    """

    paths: list[str] = field(default_factory=list)
    hlo: str | None = None
    counters: list[str] = field(default_factory=list)
    step_log: str | None = None
    workload: str | None = None
    left_out: list[str] = field(default_factory=list)


def copy_inputs(request: SideRequest, bundle: Path, place: str, scrub: Scrub) -> CopiedInputs:
    """Copy everything that commands read of a run.

    Args:
        bundle: folder of the bundle.
        place: folder inside it for these inputs, not there yet.

    Raises:
        InputError: a path names nothing, or cannot be read.
        RocktoolsError: a copy cannot be written.
    """
    copier = _Copier(bundle=bundle, place=place, scrub=scrub)
    copied = CopiedInputs()
    try:
        copied.paths = [copier.copy_argument(path) for path in request.paths]
        copied.counters = [copier.copy_argument(path) for path in request.counters]
        copied.hlo = None if request.hlo is None else copier.copy_program(Path(request.hlo))
        told = copier.told_by_manifests()
        copied.step_log = copier.copy_beside(request.step_log or told.get("step_log"))
        copied.workload = copier.copy_beside(request.workload or told.get("workload"))
        copied.left_out = copier.left_out()
    except OSError as error:
        where = str(error.filename or bundle)
        raise RocktoolsError("bundle-copy", f"a copy failed: {error.strerror or error}", where=where) from error
    return copied


@dataclass(slots=True, kw_only=True)
class _Copier:
    """Copies into one folder of the bundle, each file once."""

    bundle: Path
    place: str
    scrub: Scrub
    _places: dict[Path, Path] = field(default_factory=dict)
    _copied: dict[Path, Path] = field(default_factory=dict)
    _roots: list[Path] = field(default_factory=list)

    def copy_argument(self, argument: str) -> str:
        """What stands for an argument in the bundle."""
        path, rest = _split_pattern(argument)
        sources = _sources_of(argument)
        traces = [] if sources else _json_traces(path)
        roots = {source.root.resolve() for source in sources if source.root is not None}
        named = path.resolve()
        base = next((root for root in sorted(roots) if named.is_relative_to(root)), None)
        if base is None:
            base = named if named.is_dir() else named.parent
        inner = named.relative_to(base)
        for root in sorted(roots):
            if root.is_relative_to(base):
                self._copy_run(root, self._place_of(base, is_file=not named.is_dir()) / root.relative_to(base))
        for file in (*(source.path for source in sources), *traces):
            self._copy_source(file, base, is_file=not named.is_dir())
        inside = self._place_of(base, is_file=not named.is_dir()) / inner / rest
        return inside.relative_to(self.bundle).as_posix()

    def copy_program(self, path: Path) -> str:
        """Copy a dump: a folder, or a file with what belongs to it."""
        target = self._new_place("hlo")
        if path.is_dir():
            for file in _files_below(path):
                self._copy(file, target / file.relative_to(path))
            return target.relative_to(self.bundle).as_posix()
        if not path.is_file():
            raise InputError("no-such-file", "there is no such file or folder", where=str(path))
        dump = find_dump_of(path)
        siblings = [] if dump is None else [f for f in path.parent.glob(f"{glob.escape(dump.stem)}.*") if f.is_file()]
        for file in {path, *siblings}:
            self._copy(file, target / file.name)
        return (target / path.name).relative_to(self.bundle).as_posix()

    def copy_beside(self, path: Path | None) -> str | None:
        """Copy a single file, at its place in its run where it is in one."""
        if path is None:
            return None
        if not path.is_file():
            raise InputError("no-such-file", "there is no such file", where=str(path))
        resolved = path.resolve()
        for root in self._roots:
            if resolved.is_relative_to(root):
                target = self._copied[root] / resolved.relative_to(root)
                break
        else:
            target = self._new_place("files") / path.name
        self._copy(path, target)
        return target.relative_to(self.bundle).as_posix()

    def told_by_manifests(self) -> dict[str, Path]:
        """Log and workload, where the manifest of a single run names them and they are there."""
        found: dict[str, Path] = {}
        if len(self._roots) != 1:
            return found
        root = self._roots[0]
        try:
            job = read_manifest(root).facts.get("job")
        except InputError:
            return found
        for name in ("step_log", "workload"):
            value = job.get(name) if isinstance(job, dict) else None
            if isinstance(value, str) and (root / value).is_file() and (root / value).resolve().is_relative_to(root):
                found[name] = root / value
        return found

    def left_out(self) -> list[str]:
        """Folders of runs with files that were not copied."""
        found: list[str] = []
        for root in self._roots:
            for folder in sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")):
                files = list(_files_below(folder))
                missing = [path for path in files if not (self._copied[root] / path.relative_to(root)).exists()]
                if missing:
                    found.append(
                        f"{root.name}/{folder.name}/: {count_noun(len(missing), 'file')} that no command reads"
                    )
        return found

    def _place_of(self, base: Path, *, is_file: bool) -> Path:
        """Where a folder lies in the bundle. A file that was named alone has no folder that counts."""
        if base not in self._places:
            top = self.bundle / self.place
            is_run = base in self._roots or (base / MANIFEST_NAME).is_file()
            self._places[base] = self._new_place("files") if is_file and not is_run else self._new_place(base.name)
            top.mkdir(parents=True, exist_ok=True)
        return self._places[base]

    def _new_place(self, name: str) -> Path:
        top = self.bundle / self.place
        taken = [path.name for path in top.iterdir()] if top.is_dir() else []
        made = top / unused_label(name or "root", taken)
        made.mkdir(parents=True)
        return made

    def _copy_run(self, root: Path, target: Path) -> None:
        """Copy what commands read of a run directory."""
        if root in self._roots:
            return
        self._roots.append(root)
        self._copied[root] = target
        for entry in sorted(root.iterdir()):
            if entry.name.startswith("."):
                continue
            if entry.is_file():
                self._copy(entry, target / entry.name)
            elif entry.is_dir() and entry.name in _READ_FOLDERS:
                for file in _files_below(entry):
                    self._copy(file, target / file.relative_to(root))

    def _copy_source(self, file: Path, base: Path, *, is_file: bool) -> None:
        """Copy a file that was found, with what belongs to it."""
        resolved = file.resolve()
        inner = resolved.relative_to(base) if resolved.is_relative_to(base) else Path(file.name)
        target = self._place_of(base, is_file=is_file) / inner
        self._copy(file, target)
        for name in _INDEX_NAMES:
            if (file.parent / name).is_file() and file.parent.suffix == ".rpdb":
                self._copy(file.parent / name, target.parent / name)

    def _copy(self, file: Path, target: Path) -> None:
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if self.scrub is not Scrub.NOTHING and file.suffix == ".db":
            try:
                scrub_database(file, target, hides_identity=self.scrub is Scrub.IDENTITY)
            except UnknownFormat:  # no trace: nothing in it is known to be taken out
                target.unlink(missing_ok=True)
            else:
                return
        if file.name.endswith(tuple(f".db{ending}" for ending in _SIDECARS)) and self.scrub is not Scrub.NOTHING:
            return
        shutil.copy2(file, target)
        for ending in _SIDECARS:
            sidecar = file.with_name(file.name + ending)
            if sidecar.is_file():
                shutil.copy2(sidecar, target.with_name(target.name + ending))


def _split_pattern(argument: str) -> tuple[Path, str]:
    """The folder that a pattern starts from, and the pattern below it; a path that is no pattern, and ""."""
    path = Path(argument)
    if path.exists() or not glob.has_magic(argument):
        return path, ""
    parts = path.parts
    first = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:first]), str(Path(*parts[first:]))


def _sources_of(argument: str) -> tuple[SourcePath, ...]:
    """The files behind an argument; () where it has only traces in JSON."""
    path = Path(argument)
    if path.is_file() and path.name.endswith(_JSON_TRACES):
        return ()
    try:
        return find_sources([argument])
    except NothingToRead:
        if not _json_traces(path):
            raise
        return ()


def _json_traces(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [file for file in _files_below(path) if file.name.endswith(_JSON_TRACES)]


def _files_below(folder: Path) -> Iterator[Path]:
    """Files, links followed, in the order of their paths; what a writer has not finished is none."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.endswith(".partial"):
            yield path


def sensitive_facts(bundle: Path, copied: CopiedInputs, scrub: Scrub) -> tuple[str, ...]:
    """What the copies tell that is no measurement, in sentences.

    Raises:
        InputError: none of the copies can be read.
    """
    facts: list[str] = []
    with Workspace.open([bundle / path for path in copied.paths]) as workspace:
        found: list[Finding] = []
        for process in workspace.loaded:
            with workspace.reader(process) as reader:
                found += check_privacy(reader, process.tables)
        kinds = {source.kind for source in workspace.sources()}
        has_run = any(source.root is not None for source in workspace.sources())
    if found:
        variables = sum(int(finding.numbers.get("variables_count", 0)) for finding in found)
        facts.append(
            f"{count_noun(len(found), 'database')} with the environment of the job "
            f"({count_noun(variables, 'variable')}), which may include secrets; --scrub takes it out"
        )
    if SourceKind.DATABASE in kinds and scrub is not Scrub.IDENTITY:
        facts.append("databases: host names, command lines and paths; --scrub identity takes them out")
    if has_run:
        facts.append("manifests: host name, command lines, and variables that were set, secrets redacted by name")
    if SourceKind.PROFILE in kinds:
        facts.append("profiles: host name, names and paths of the source code")
    if has_run or copied.hlo is not None:
        facts.append("compiled programs: names and paths of the source code, and the shapes of the model")
    if copied.step_log is not None:
        facts.append("the log of the job: its configuration")
    return tuple(facts)
