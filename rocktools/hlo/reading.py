"""A file -> the compiled program in it, text or proto, packed or not: told apart by what is in it, not by its name."""

from __future__ import annotations

import gzip
import re
import zlib
from dataclasses import replace
from pathlib import Path

from rocktools.errors import DamagedFile, InputError, UnknownFormat
from rocktools.findings import Finding, Severity
from rocktools.hlo.module import HloModule
from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.hlo.text_reader import parse_hlo_text

_GZIP_MAGIC = b"\x1f\x8b"
_LOOKED_AT_BYTES = 65536
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_MODULE_LINE = re.compile(rb"^HloModule\s", re.MULTILINE)
_THUNK_LINE = re.compile(rb"^\s*\d{3,}: k[A-Z]\w+", re.MULTILINE)
_PROFILE_PLANES = (b"/host:CPU", b"/device:", b"/host:metadata", b"Task Environment")


def read_hlo(path: Path | str) -> HloModule:
    """The compiled program in a file of optimized HLO text or an HLO proto; either may be packed with gzip.

    Returns:
        The module; its findings say what could not be read, and whether it is a program before optimization.

    Raises:
        UnknownFormat: it is something else; what, is said.
        DamagedFile: it is empty, or cannot be unpacked or decoded.
        InputError: there is no such file, or it cannot be opened.
    """
    path = Path(path)
    data = _unpacked(_content(path), path)
    if not data.strip():
        raise DamagedFile("hlo-file-empty", "the file is empty", where=str(path))
    if _is_text(data):
        _refuse_other_text(data, path)
        module = parse_hlo_text(data.decode("utf-8", "replace"), str(path))
    else:
        module = _read_proto(data, path)
    return module if module.is_scheduled else _with_note(module, path)


def is_hlo_text(path: Path) -> bool:
    """Whether a file, packed or not, has the first line of a module near its beginning."""
    try:
        with path.open("rb") as stream:
            start = stream.read(_LOOKED_AT_BYTES)
        if start.startswith(_GZIP_MAGIC):
            with gzip.open(path) as unpacked:
                start = unpacked.read(_LOOKED_AT_BYTES)
    except (OSError, EOFError, zlib.error):
        return False
    return _MODULE_LINE.search(start) is not None and _is_text(start)


def _content(path: Path) -> bytes:
    if path.is_dir():
        raise InputError(
            "hlo-is-a-folder",
            "this is a folder, where one file of HLO was expected",
            where=str(path),
            hint="name a file *_after_optimizations.txt or *.hlo.pb in it",
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError("cannot-read", f"the file cannot be read: {error.strerror}", where=str(path)) from error


def _unpacked(data: bytes, path: Path) -> bytes:
    if not data.startswith(_GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedFile(
            "hlo-gzip-damaged", f"the file is packed with gzip and cannot be unpacked: {error}", where=str(path)
        ) from error


def _is_text(data: bytes) -> bool:
    return _BINARY.search(data[:_LOOKED_AT_BYTES]) is None


def _refuse_other_text(data: bytes, path: Path) -> None:
    start = data[:_LOOKED_AT_BYTES]
    if _MODULE_LINE.search(start):
        return
    what = None
    if _THUNK_LINE.search(start):
        what = "the thunk sequence of a program, not the program"
    elif start.lstrip().startswith(b"thunk_metadata"):
        what = "the thunk metadata of a program, not the program"
    elif start.lstrip().startswith(b"BufferAssignment"):
        what = "the buffer assignment of a program, not the program"
    elif start.lstrip().startswith(b"module @"):
        what = "StableHLO (MLIR), the program before XLA compiled it"
    if what:
        raise UnknownFormat(
            "not-optimized-hlo",
            f"this is {what}",
            where=str(path),
            hint="name the file *_after_optimizations.txt of the same module",
        )


def _read_proto(data: bytes, path: Path) -> HloModule:
    try:
        return parse_hlo_proto(data, str(path))
    except DamagedFile as damaged:
        start = data[:_LOOKED_AT_BYTES]
        if start.startswith(b"SQLite format 3"):
            raise UnknownFormat("not-hlo", "this is an SQLite database, not HLO", where=str(path)) from damaged
        if any(name in start for name in _PROFILE_PLANES):
            raise UnknownFormat(
                "not-hlo",
                "this is a JAX profile (XSpace), not an HLO proto; profiles hold the protos of their programs",
                where=str(path),
                hint="give the profile to a command that takes profiles",
            ) from damaged
        raise


def _with_note(module: HloModule, path: Path) -> HloModule:
    note = Finding(
        rule="hlo-not-scheduled",
        severity=Severity.NOTE,
        where=str(path),
        message="the module has no schedule: it is the program before or amid optimization, not the one that ran",
        advice="name the file *_after_optimizations.txt of the same module",
    )
    return replace(module, findings=(*module.findings, note))
