"""What the user named -> the database files to read, each with the labels its rows will carry.

A path may be a file, a folder (searched to the bottom), a pattern (`out/*/*_results.db`), an `.rpdb` folder of AMD's
rocpd package (its index names the files), or a run directory of ours (not its replays, which are runs of their own).
"""

from __future__ import annotations

import glob
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from rocktools.errors import InputError, NothingToRead
from rocktools.rundir import MANIFEST_NAME, PASSES_FOLDER, PMC_FOLDER, read_pass_records

DATABASE_SUFFIXES = (".db", ".rpd", ".sqlite", ".sqlite3")
_RPDB_SUFFIX = ".rpdb"
_RPDB_INDEX = "index.yaml"
_PASS_FOLDER = re.compile(r"pass_\d+")
_REPLAYS_FOLDER = "replays"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabasePath:
    """One file to read.

    Attributes:
        path: the file.
        run: label of the run it belongs to.
        pass_label: label of the counter pass, should it turn out to be one.
        is_named: the user named this very file, so that not being able to read it is an error and not a remark.
        is_unverified: a run directory holds it, and no record there says that its rows were verified.
    """

    path: Path
    run: str
    pass_label: str
    is_named: bool
    is_unverified: bool = False


def find_databases(arguments: Sequence[str | Path]) -> tuple[DatabasePath, ...]:
    """The database files behind the arguments, in their order, each once.

    Raises:
        InputError: an argument names nothing.
        NothingToRead: a folder or pattern without any database.
    """
    found: dict[Path, DatabasePath] = {}
    runs: dict[Path, str] = {}
    verified: dict[Path, frozenset[Path] | None] = {}
    for argument in arguments:
        for path, root, is_named in _expand(str(argument)):
            # One label for one folder or file; a second one of the same name (two folders `trace`) gets another label.
            name = (root.name or str(root)) if root.is_dir() else path.stem
            run = runs.setdefault(root.resolve(), unused_label(name, runs.values()))
            resolved = path.resolve()
            if root not in verified:
                verified[root] = _verified_databases(root)
            known = verified[root]
            if resolved not in found:
                found[resolved] = DatabasePath(
                    path=path,
                    run=run,
                    pass_label=_pass_label(path),
                    is_named=is_named,
                    is_unverified=not is_named and known is not None and resolved not in known,
                )
    return tuple(found.values())


def _expand(text: str) -> list[tuple[Path, Path, bool]]:
    """(file, root that names the run, whether the user named the file) for one argument."""
    if not text:  # an unset variable of the shell: as a path it would be the working folder
        raise InputError("no-such-file", "a path is empty: the working folder is '.'")
    try:
        return _find_named(text)
    except OSError as error:
        raise InputError(
            "unreadable-file", f"the system refuses to look there: {error.strerror}", where=text
        ) from error


def _find_named(text: str) -> list[tuple[Path, Path, bool]]:
    path = Path(text)
    if path.is_dir():
        files = _find_in_folder(path)
        if not files:
            raise NothingToRead(
                "no-databases",
                "there is no database (*.db) in this folder or below it",
                where=text,
                hint="rocprofv3 writes one <pid>_results.db for each process, when that process exits",
            )
        return [(file, path.resolve(), False) for file in files]
    if path.exists():
        return [(path, path, True)]
    if glob.has_magic(text):
        matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  (a pattern with its root, as typed)
        if not matches:
            raise NothingToRead("no-databases", "no file matches this pattern", where=text)
        entries = [entry for match in matches for entry in _expand_match(Path(match), _fixed_folder(text))]
        if not entries:
            raise NothingToRead("no-databases", "there is no database in what matches this pattern", where=text)
        return entries
    raise InputError("no-such-file", "there is no such file or folder", where=text)


def _verified_databases(root: Path) -> frozenset[Path] | None:
    """The databases of a run directory that a capture of ours has verified; None where it is no such directory."""
    if not (root / PASSES_FOLDER).is_dir():
        return None
    records = [record for record in read_pass_records(root) if record.is_verified]
    return frozenset((root / database.path).resolve() for record in records for database in record.databases)


def _expand_match(path: Path, fixed: Path) -> list[tuple[Path, Path, bool]]:
    if path.is_dir():
        return [(file, path.resolve(), False) for file in _find_in_folder(path)]
    return [(path, fixed, False)]


def _fixed_folder(pattern: str) -> Path:
    """The folder that a pattern starts from, before its first `*`: it names the run of the files that match."""
    return Path(*itertools.takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts)).resolve()


def _find_in_folder(folder: Path) -> list[Path]:
    if folder.suffix == _RPDB_SUFFIX:
        return _read_rpdb(folder)
    try:
        files = [file for file in folder.rglob("*") if file.suffix in DATABASE_SUFFIXES and file.is_file()]
    except OSError as error:
        raise InputError(
            "unreadable-folder",
            f"the system refuses to search it: {error.strerror}",
            where=str(error.filename or folder),
        ) from error
    if (folder / MANIFEST_NAME).is_file():  # replays ran one kernel by itself: they are no part of the job's time
        files = [file for file in files if file.relative_to(folder).parts[0] != _REPLAYS_FOLDER]
    return sorted(files, key=_natural_key)


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
            hint=f"name the databases themselves: {folder}/*.db",
        ) from error
    # An index with whole paths is still of use when the folder was copied to another machine.
    files = [file if file.is_file() else folder / file.name for file in files]
    for file in files:
        if not file.is_file():
            raise InputError("rpdb-missing-file", f"the index names {file.name}, which is not there", where=str(index))
    return files


def _pass_label(path: Path) -> str:
    """`pmc/<group>/...` of a run directory, `pass_<k>/...` of rocprofv3, or the file's own name."""
    folders = path.resolve().parent.parts
    for folder in reversed(folders):
        if _PASS_FOLDER.fullmatch(folder):
            return folder
    if PMC_FOLDER in folders[:-1]:
        last = len(folders) - 1 - folders[::-1].index(PMC_FOLDER)
        if last + 1 < len(folders):
            return folders[last + 1]
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
