"""What `--xla_dump_to` leaves in a folder -> one `Dump` per program, and a dump -> the program with its thunks.

Names of files are XLA's (`dump.cc`): `module_0001.jit_step.gfx950_gpu_after_optimizations.txt`; the same words after
any other beginning are taken, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rocktools.errors import InputError, NothingToRead
from rocktools.findings import Finding, Severity
from rocktools.hlo.module import HloModule
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.reading import is_hlo_text, read_hlo
from rocktools.hlo.thunk_reader import read_thunk_sequence
from rocktools.hlo.thunks import ThunkSequence

# The target is between the name and `after_optimizations`; CUDA's has a point in it (sm_9.0_gpu).
_TARGET = r"(?:sm_\d+\.\d+\w*?_|[^.]*_)?"
_KINDS = {
    "proto": rf"{_TARGET}after_optimizations\.hlo\.pb(?:\.gz)?",
    "text": rf"{_TARGET}after_optimizations\.(?:txt|hlo)(?:\.gz)?",
    "buffers": rf"{_TARGET}after_optimizations-buffer-assignment\.txt",
    "memory": rf"{_TARGET}after_optimizations-memory-usage-report\.txt",
    "final_thunks": r"thunk_sequence_after_thunk_passes\.txt",
    "thunks": r"thunk_sequence\.txt",
    "thunk_metadata": r"thunk_metadata\.txt",
}
_FILE = re.compile(r"(?P<stem>.+?)\.(?:" + "|".join(f"(?P<{kind}>{form})" for kind, form in _KINDS.items()) + ")")
_OTHER_TEXTS = (".txt", ".hlo", ".txt.gz", ".hlo.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """The files of one program, as XLA wrote them; None where one is missing.

    Attributes:
        stem: what their names begin with: `module_0001.jit_step`.
        proto_path: `*.hlo.pb`.
        text_path: `*_after_optimizations.txt`.
        thunk_sequence_path: the sequence after the thunk passes where there is one: it is the one that runs.
        thunk_metadata_path: instructions of the thunks.
        buffer_assignment_path: `*-buffer-assignment.txt`.
        memory_report_path: `*-memory-usage-report.txt`.
    """

    stem: str
    proto_path: Path | None = None
    text_path: Path | None = None
    thunk_sequence_path: Path | None = None
    thunk_metadata_path: Path | None = None
    buffer_assignment_path: Path | None = None
    memory_report_path: Path | None = None

    @property
    def module_path(self) -> Path:
        """The file to read the module from: the proto rather than the text, as it holds the program's id."""
        path = self.proto_path or self.text_path
        assert path is not None
        return path


def find_dumps(folder: Path | str) -> list[Dump]:
    """The dumps in a folder and below, by path.

    Where no file has a name that XLA gives, every file of HLO text is taken for a dump of its own.
    """
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    dumps = _group(files)
    if dumps:
        return dumps
    texts = [path for path in files if path.name.endswith(_OTHER_TEXTS) and is_hlo_text(path)]
    return [Dump(stem=path.name.removesuffix(".gz").rpartition(".")[0], text_path=path) for path in texts]


def find_dump_of(path: Path | str) -> Dump | None:
    """The dump that a file belongs to, with its siblings; None where its name is none of a dump, or has no module."""
    path = Path(path)
    found = _FILE.fullmatch(path.name)
    if found is None:
        return None
    siblings = [each for each in sorted(path.parent.glob("*")) if each.is_file()]
    dump = next((each for each in _group(siblings) if each.stem == found["stem"]), None)
    if dump is None:
        return None
    # Who names one of two forms of the module means that one.
    if found["text"]:
        return replace(dump, text_path=path, proto_path=None)
    return replace(dump, proto_path=path) if found["proto"] else dump


def read_program(dump: Dump | Path | str) -> CompiledProgram:
    """The module and the thunks of a dump.

    Args:
        dump: a dump, one of its files, a file of HLO by any other name, or a folder with one dump.

    Returns:
        What of it could not be read is in the findings of the module.

    Raises:
        NothingToRead: the folder has no dump, or the file's dump no module.
        InputError: the module cannot be read, or the folder has several dumps.
    """
    if not isinstance(dump, Dump):
        dump = _dump_at(Path(dump))
    module = _read_module(dump)
    if dump.thunk_sequence_path is None:
        return CompiledProgram(module=module, thunks=None)
    thunks, doubts = _read_thunks(dump, dump.thunk_sequence_path)
    return CompiledProgram(module=_with_findings(module, doubts), thunks=thunks)


def _group(files: Iterable[Path]) -> list[Dump]:
    """Dumps that have a module, from files in any order."""
    found: dict[tuple[Path, str], dict[str, Path]] = {}
    for path in files:
        match = _FILE.fullmatch(path.name)
        if match is not None:
            kind = next(kind for kind in _KINDS if match[kind])
            found.setdefault((path.parent, match["stem"]), {}).setdefault(kind, path)
    return [
        Dump(
            stem=stem,
            proto_path=paths.get("proto"),
            text_path=paths.get("text"),
            thunk_sequence_path=paths.get("final_thunks", paths.get("thunks")),
            thunk_metadata_path=paths.get("thunk_metadata"),
            buffer_assignment_path=paths.get("buffers"),
            memory_report_path=paths.get("memory"),
        )
        for (_, stem), paths in found.items()
        if "proto" in paths or "text" in paths
    ]


def _dump_at(path: Path) -> Dump:
    if not path.is_dir():
        dump = find_dump_of(path)
        if dump is not None:
            return dump
        if path.exists() and _FILE.fullmatch(path.name):
            raise NothingToRead(
                "dump-without-module",
                "there is no file *_after_optimizations of this module beside it",
                where=str(path),
            )
        return Dump(stem=path.name, text_path=path)
    dumps = find_dumps(path)
    if not dumps:
        raise NothingToRead(
            "no-dump",
            "there is no optimized HLO in this folder",
            where=str(path),
            hint="set XLA_FLAGS=--xla_dump_to=FOLDER when the program is compiled",
        )
    if len(dumps) > 1:
        stems = ", ".join(str(dump.module_path.parent.relative_to(path) / dump.stem) for dump in dumps[:6])
        raise InputError(
            "several-dumps",
            f"there are {len(dumps)} programs in this folder: {stems}{', ...' if len(dumps) > 6 else ''}",
            where=str(path),
            hint="name a file of one of them",
        )
    return dumps[0]


def _read_module(dump: Dump) -> HloModule:
    """The module; from its text where the proto is damaged, and there is a text."""
    try:
        return read_hlo(dump.module_path)
    except InputError as error:
        if dump.proto_path is None or dump.text_path is None:
            raise
        module = read_hlo(dump.text_path)
        return _with_findings(module, [_doubt(error, dump.proto_path, "its text was read instead")])


def _read_thunks(dump: Dump, path: Path) -> tuple[ThunkSequence | None, list[Finding]]:
    try:
        return read_thunk_sequence(path, dump.thunk_metadata_path), []
    except InputError as error:
        return None, [_doubt(error, path, "the order of launches is that of the schedule")]


def _doubt(error: InputError, path: Path, instead: str) -> Finding:
    return Finding(
        rule="dump-file-unreadable",
        severity=Severity.WARNING,
        where=str(path),
        message=f"{error.what}; {instead}",
    )


def _with_findings(module: HloModule, findings: list[Finding]) -> HloModule:
    return replace(module, findings=(*module.findings, *findings)) if findings else module
