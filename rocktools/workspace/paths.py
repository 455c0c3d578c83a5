"""What the user named -> the files to read, each with the labels its rows will carry.

A path may be a file, a folder (searched to the bottom), a pattern (`out/*/*_results.db`), an `.rpdb` folder of AMD's
rocpd package (its index names the files), or a run directory of ours (not its replays, which are runs of their own).

A file that lies in a run directory belongs to that run, however it was found: the records there say whether it may be
read, and the run gives it its labels.
"""

from __future__ import annotations

import glob
import itertools
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import yaml

from rocktools.errors import InputError, NothingToRead
from rocktools.hlo.dumps import find_dumps
from rocktools.rundir import PMC_FOLDER
from rocktools.sources.relatives import find_relative
from rocktools.workspace.run_directories import RunDirectories, RunDirectory, folders_below

DATABASE_SUFFIXES = (".db", ".rpd", ".sqlite", ".sqlite3")
# What in-process kernel replay leaves in the run directories of our captures; elsewhere such files may be anything.
_REPLAY_ENDING = "_results.json"
_PROFILE_ENDINGS = (".xplane.pb", ".xplane.pb.gz")
_RPDB_SUFFIX = ".rpdb"
_RPDB_INDEX = "index.yaml"
_PASS_FOLDER = re.compile(r"pass_\d+")


class SourceKind(str, Enum):
    """What a file holds, as far as its name and place say."""

    DATABASE = "database"
    REPLAY_JSON = "replay"  # of in-process kernel replay
    PROFILE = "profile"  # an XSpace of the JAX profiler

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePath:
    """One file to read.

    Attributes:
        path: the file.
        kind: what it holds.
        run: label of the run it belongs to.
        pass_label: label of the counter pass, should it turn out to be one.
        is_named: the user named this very file, so that it is read in any case, and a fault in it is no remark.
        is_unverified: a run directory holds it, and no record there says that its rows were verified.
        root: the run directory it lies in; None where it lies in none.
        capture: the run directory, where a capture of ours made it.
    """

    path: Path
    kind: SourceKind = SourceKind.DATABASE
    run: str
    pass_label: str
    is_named: bool
    is_unverified: bool = False
    root: Path | None = None
    capture: Path | None = None


def find_sources(arguments: Sequence[str | Path]) -> tuple[SourcePath, ...]:
    """The files behind the arguments, in their order, each once.

    Raises:
        InputError: an argument names nothing.
        NothingToRead: a folder or pattern without any database or profile.
    """
    found: dict[Path, SourcePath] = {}
    labels: dict[Path, str] = {}
    directories = RunDirectories()
    for argument in arguments:
        for path, named, is_named in _expand(str(argument), directories):
            run = directories.find(path)
            root = named if run is None else run.root
            # One label for one folder or file; a second one of the same name (two folders `trace`) gets another label.
            name = (root.resolve().name or str(root)) if root.is_dir() else path.stem
            label = labels.setdefault(root.resolve(), unused_label(name, labels.values()))
            resolved = path.resolve()
            if resolved in found:
                found[resolved] = replace(found[resolved], is_named=is_named or found[resolved].is_named)
                continue
            is_captured = run is not None and run.verified is not None
            kind = _kind_of(path, is_captured=is_captured)
            found[resolved] = SourcePath(
                path=path,
                kind=kind,
                run=label,
                pass_label=_pass_label(path, root),
                is_named=is_named,
                is_unverified=kind is not SourceKind.PROFILE and _is_unverified(resolved, run),
                root=None if run is None else run.root,
                capture=run.root if is_captured and run is not None else None,
            )
    return tuple(found.values())


def _kind_of(path: Path, *, is_captured: bool) -> SourceKind:
    if path.name.endswith(_PROFILE_ENDINGS):
        return SourceKind.PROFILE
    return SourceKind.REPLAY_JSON if is_captured and path.name.endswith(_REPLAY_ENDING) else SourceKind.DATABASE


def _is_unverified(resolved: Path, run: RunDirectory | None) -> bool:
    """Whether a capture of ours made the file, and no record of it says that the rows are there.

    A profile is written by the job itself, so that no pass accounts for it.
    """
    return run is not None and run.verified is not None and resolved not in run.verified


def _expand(text: str, directories: RunDirectories) -> list[tuple[Path, Path, bool]]:
    """(file, what names its run if no run directory does, whether the user named the file) for one argument."""
    if not text:  # an unset variable of the shell: as a path it would be the working folder
        raise InputError("no-such-file", "a path is empty: the working folder is '.'")
    try:
        return _find_named(text, directories)
    except OSError as error:
        raise InputError(
            "unreadable-file", f"the system refuses to look there: {error.strerror}", where=text
        ) from error


def _find_named(text: str, directories: RunDirectories) -> list[tuple[Path, Path, bool]]:
    path = Path(text)
    if path.is_dir():
        files = [file for file in _find_in_folder(path) if _is_wanted(file, path, directories)]
        if not files:
            raise _no_databases(path, text)
        return [(file, path.resolve(), False) for file in files]
    if path.exists():
        return [(path, path, True)]
    if glob.has_magic(text):
        matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  (a pattern with its root, as typed)
        if not matches:
            raise NothingToRead("no-databases", "no file matches this pattern", where=text)
        entries = [entry for match in matches for entry in _expand_match(Path(match), _fixed_folder(text), directories)]
        if not entries:
            raise NothingToRead(
                "no-databases", "there is no database and no JAX profile in what matches this pattern", where=text
            )
        return entries
    raise InputError("no-such-file", "there is no such file or folder", where=text)


def _no_databases(folder: Path, text: str) -> NothingToRead:
    what = "there is no database (*.db) and no JAX profile (*.xplane.pb) in this folder or below it"
    hint = "rocprofv3 writes one <pid>_results.db for each process, when that process exits"
    if dumps := find_dumps(folder):
        what = f"{what}; there is {dumps[0].module_path.relative_to(folder)}, a compiled program"
        hint = f"rocktools hlo info {shlex.quote(text)}; or a trace as PATH, and this as --hlo FILE"
    elif found := find_relative(folder):
        path, relative = found
        what, hint = f"{what}; there is {path.relative_to(folder)}: {relative.what}", relative.hint
    return NothingToRead("no-databases", what, where=text, hint=hint)


def _expand_match(path: Path, fixed: Path, directories: RunDirectories) -> list[tuple[Path, Path, bool]]:
    files, root = (_find_in_folder(path), path.resolve()) if path.is_dir() else ([path], fixed)
    return [(file, root, False) for file in files if _is_wanted(file, fixed, directories)]


def _is_wanted(file: Path, named: Path, directories: RunDirectories) -> bool:
    """Whether a file that was found is one to read, or to be told about; not what a capture writes beside those."""
    if directories.is_in_replays(file, named):
        return False
    run = directories.find(file)
    is_json = file.name.endswith(_REPLAY_ENDING)
    if run is None or run.verified is None:
        return not is_json
    if is_json:
        return folders_below(run.root, file)[:1] == (PMC_FOLDER,)
    # The databases of kernel replay add its passes up, so its JSON is read instead.
    return _is_named_like_a_source(file) and not run.is_in_replay_pass(file)


def _fixed_folder(pattern: str) -> Path:
    """The folder that a pattern starts from, before its first `*`: it names the run of the files that match."""
    return Path(*itertools.takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts)).resolve()


def _find_in_folder(folder: Path) -> list[Path]:
    if folder.suffix == _RPDB_SUFFIX:
        return _read_rpdb(folder)
    try:
        files = [file for file in folder.rglob("*") if _is_named_like_a_source(file) and file.is_file()]
    except OSError as error:
        raise InputError(
            "unreadable-folder",
            f"the system refuses to search it: {error.strerror}",
            where=str(error.filename or folder),
        ) from error
    return sorted(files, key=_natural_key)


def _is_named_like_a_source(file: Path) -> bool:
    return file.suffix in DATABASE_SUFFIXES or file.name.endswith((_REPLAY_ENDING, *_PROFILE_ENDINGS))


def _read_rpdb(folder: Path) -> list[Path]:
    """The files of an `.rpdb` folder: those its index names, or all its databases where there is no index.

    Raises:
        InputError: the index is no index, or names a file that is not there.
    """
    index = folder / _RPDB_INDEX
    if not index.is_file():
        return sorted(folder.glob("*.db"), key=_natural_key)
    try:
        document = yaml.safe_load(index.read_text(encoding="utf-8"))
        names = document["rocprofiler-sdk"]["rocpd"]["files"]
        files = [folder / str(name["path"] if isinstance(name, dict) else name) for name in names]
    except (yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError, OSError) as error:
        raise InputError(
            "rpdb-index",
            "the index does not list files as rocprofiler-sdk: rocpd: files",
            where=str(index),
            hint=f"name the databases themselves: {shlex.quote(str(folder))}/*.db",
        ) from error
    # An index with whole paths is still of use when the folder was copied to another machine.
    files = [file if file.is_file() else folder / file.name for file in files]
    for file in files:
        if not file.is_file():
            raise InputError("rpdb-missing-file", f"the index names {file.name}, which is not there", where=str(index))
    return files


def _pass_label(path: Path, root: Path) -> str:
    """`pass_<k>/...` of rocprofv3, `pmc/<group>/...` below the root of the run, or the file's own name."""
    below = folders_below(root, path)
    # A single file, or a pattern inside a pass, still belongs to the pass: rocprofv3 writes pass_<k>/<host>/<file>.
    for folder in reversed(below or path.resolve().parent.parts[-2:]):
        if _PASS_FOLDER.fullmatch(folder):
            return folder
    if PMC_FOLDER in below[:-1]:
        return below[below.index(PMC_FOLDER) + 1]
    return path.stem


def _natural_key(path: Path) -> tuple[object, ...]:
    """Sort key that puts rank_2 before rank_10."""
    pieces = re.split(r"(\d+)", str(path))
    return tuple((1, int(piece), "") if piece.isdecimal() else (0, 0, piece) for piece in pieces)


def unused_label(name: str, taken: Iterable[str]) -> str:
    """`name`, or `name#2`, `name#3`, ... where it is taken."""
    known = set(taken)
    candidate, number = name, 2
    while candidate in known:
        candidate, number = f"{name}#{number}", number + 1
    return candidate
