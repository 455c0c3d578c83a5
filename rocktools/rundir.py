"""The run directory: where a capture and an analysis meet. Its layout, and the manifest that says what is in it.

    <run>/manifest.json     what was run, with what, and what came of it (schema rocktools.run/1)
    <run>/trace/            rocprofv3 runtime traces: rocpd databases, one per process
    <run>/pmc/<group>/      one rocprofv3 process per counter group
    <run>/passes/           one record for each attempt at a pass, written when the attempt has ended
    <run>/logs/             stdout and stderr of everything that was started
    <run>/commands/         one record for each command of ours that captured into the run, written when it began
    <run>/hlo/              what XLA dumped of the compiled programs; of another attempt in hlo/attempt_<number>/

Whatever is written here is written through a temporary name, so that nothing half-written looks whole. The records of
passes are what a capture resumes from; the manifest is made of them and of those of commands, and rewritten when a
capture goes on. A pass counts only if its record says that its rows were verified.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rocktools import __version__
from rocktools.errors import DamagedFile, InputError, RocktoolsError, UnsupportedVersion, UsageError

_HALF_CHARACTER = "\\ud"  # one of two escapes that are a character together, and alone cannot be written
SCHEMA = "rocktools.run/1"
MANIFEST_NAME = "manifest.json"
TRACE_FOLDER = "trace"
PMC_FOLDER = "pmc"
LOGS_FOLDER = "logs"
HLO_FOLDER = "hlo"
PASSES_FOLDER = "passes"
PASS_SCHEMA = "rocktools.pass/1"
COMMANDS_FOLDER = "commands"
COMMAND_SCHEMA = "rocktools.command/1"
_READ_BYTES = 1 << 20

# What the members of our documents are in JSON; of others it is not a document of ours, whatever its schema says.
_Types = Mapping[str, type | tuple[type, ...]]
_MANIFEST_TYPES: _Types = {
    "argv": list,
    "created_utc": str,
    "is_simulated": bool,
    "facts": dict,
    "files": dict,
    "passes": list,
    "captures": list,
    "rocktools_version": str,
}
_COMMAND_TYPES: _Types = {"argv": list, "created_utc": str, "facts": dict, "findings": list}
_DATABASE_TYPES: _Types = {
    "path": str,
    "sha256": str,
    "size_bytes": int,
    "processes": list,
    "schema_version": (str, type(None)),
    "dispatches_count": int,
}
_PASS_TYPES: _Types = {
    "name": str,
    "kind": str,
    "attempt": int,
    "folder": str,
    "argv": list,
    "environment_added": dict,
    "environment_removed": list,
    "started_utc": str,
    "duration_s": (int, float),
    "exit_code": (int, type(None)),
    "signal_number": (int, type(None)),
    "outcome": str,
    "databases": list,
    "is_verified": bool,
    "findings": list,
    "facts": dict,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRecord:
    """One database that a pass left.

    Attributes:
        path: inside the run.
        sha256: of the file.
        size_bytes: of the file.
        processes: labels of the processes in it.
        schema_version: of its rocpd schema; None where it says none.
        dispatches_count: kernel dispatches in it.
    """

    path: str
    sha256: str
    size_bytes: int
    processes: tuple[str, ...]
    schema_version: str | None
    dispatches_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRecord:
    """One attempt at one pass, and what came of it.

    Attributes:
        name: of the pass: `trace`, `pmc/<group>`.
        kind: `trace`, `counters` or `replay`.
        attempt: from 1.
        folder: inside the run, where its databases are.
        argv: what was started.
        environment_added: variables that were set, secrets redacted.
        environment_removed: variables of the caller's that were taken out.
        started_utc: ISO 8601.
        duration_s: of the whole process; not a time of any kernel.
        exit_code, signal_number: of the child; None where it had none.
        outcome: what that means, in a word and a sentence.
        databases: what it left.
        is_verified: whether the rows that were asked for exist; exit codes alone prove nothing.
        findings: as `Finding.as_dict`.
        facts: what was asked for: counters, kernels, iterations.
    """

    name: str
    kind: str
    attempt: int
    folder: str
    argv: tuple[str, ...]
    environment_added: Mapping[str, str] = field(default_factory=dict)
    environment_removed: tuple[str, ...] = ()
    started_utc: str = ""
    duration_s: float = 0.0
    exit_code: int | None = None
    signal_number: int | None = None
    outcome: str = ""
    databases: tuple[DatabaseRecord, ...] = ()
    is_verified: bool = False
    findings: tuple[Mapping[str, Any], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRecord:
    """One command of ours that captured into the run.

    Attributes:
        argv: its command line, secrets redacted.
        created_utc: when it began, ISO 8601 in UTC.
        facts: what it found of host, tool and job.
        findings: of its preflight, as `Finding.as_dict`.
    """

    argv: tuple[str, ...]
    created_utc: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What `manifest.json` says.

    Attributes:
        argv: the command that made the run, secrets redacted.
        created_utc: when, ISO 8601 in UTC.
        is_simulated: whether no hardware produced it.
        facts: whatever else is known about the run, by name: as that command found it, but findings of all commands.
        files: path inside the run -> sha256 of the file.
        passes: every attempt at every pass, in the order in which they were made.
        captures: every command that captured into the run, the first included; () where the run is no capture.
        rocktools_version: version that wrote it.
    """

    argv: tuple[str, ...]
    created_utc: str
    is_simulated: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    passes: tuple[PassRecord, ...] = ()
    captures: tuple[CommandRecord, ...] = ()
    rocktools_version: str = __version__


def require_free(path: Path) -> None:
    """Check that a run directory may be made here: nothing is there, or an empty folder.

    Raises:
        UsageError: something is there.
    """
    try:
        is_taken = path.exists() and (not path.is_dir() or any(path.iterdir()))
    except OSError as error:
        raise UsageError("run-directory", f"cannot look at it: {error.strerror}", where=str(path)) from error
    if is_taken or (path.is_symlink() and not path.exists()):
        raise UsageError(
            "run-directory-exists",
            "there is something at this path already, and results are never overwritten",
            where=str(path),
            hint="name a new folder",
        )


def create_run_directory(path: Path) -> Path:
    """Make a new, empty run directory.

    Raises:
        UsageError: something is there already, or it cannot be made.
    """
    require_free(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError("run-directory", f"cannot make it: {error.strerror}", where=str(path)) from error
    return path


def hash_files(run: Path) -> dict[str, str]:
    """sha256 of every file in a run directory but its manifest, by path inside it."""
    files = sorted(path for path in run.rglob("*") if path.is_file() and path != run / MANIFEST_NAME)
    return {path.relative_to(run).as_posix(): hash_file(path) for path in files}


def hash_file(path: Path) -> str:
    """sha256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def write_manifest(run: Path, manifest: Manifest, *, replaces: bool = False) -> Path:
    """Write the manifest of a run; it appears whole or not at all.

    Args:
        replaces: whether a manifest that is there is brought up to date (a capture that goes on).

    Raises:
        UsageError: the run has one already, and it is not to be replaced.
    """
    target = run / MANIFEST_NAME
    if target.exists() and not replaces:
        raise UsageError("manifest-exists", "the run has a manifest already", where=str(target))
    document = {
        "schema": SCHEMA,
        "rocktools_version": manifest.rocktools_version,
        "created_utc": manifest.created_utc,
        "is_simulated": manifest.is_simulated,
        "argv": list(manifest.argv),
        "facts": dict(manifest.facts),
        "captures": [_command_document(record) for record in manifest.captures],
        "passes": [_pass_document(record) for record in manifest.passes],
        "files": dict(manifest.files),
    }
    return write_json_file(target, document)


def write_pass_record(run: Path, record: PassRecord) -> Path:
    """Write the record of an attempt that has ended.

    Raises:
        UsageError: there is a record of this attempt already.
    """
    folder = run / PASSES_FOLDER
    folder.mkdir(exist_ok=True)
    target = folder / f"{record.name.replace('/', '.')}.{record.attempt}.json"
    if target.exists():
        raise UsageError("pass-record-exists", "this attempt has a record already", where=str(target))
    return write_json_file(target, {"schema": PASS_SCHEMA, **_pass_document(record)})


def read_pass_records(run: Path) -> tuple[PassRecord, ...]:
    """The records of all attempts in a run, by time; () where there is none.

    Raises:
        DamagedFile: one is not the JSON that a record is.
        UnsupportedVersion: one has another schema.
    """
    folder = run / PASSES_FOLDER
    records = [_read_pass(path) for path in sorted(folder.glob("*.json"))]
    return tuple(sorted(records, key=lambda record: (record.started_utc, record.name, record.attempt)))


def write_command_record(run: Path, record: CommandRecord) -> Path:
    """Write the record of a command that begins to capture, beside those of earlier ones."""
    folder = run / COMMANDS_FOLDER
    folder.mkdir(exist_ok=True)
    number = max(_command_numbers(folder), default=0) + 1
    return write_json_file(folder / f"{number}.json", {"schema": COMMAND_SCHEMA, **_command_document(record)})


def read_command_records(run: Path) -> tuple[CommandRecord, ...]:
    """The records of all commands that captured into a run, in their order; () where there is none.

    Raises:
        InputError: the system refuses to read one.
        DamagedFile: one is not the JSON that a record is.
        UnsupportedVersion: one has another schema.
    """
    folder = run / COMMANDS_FOLDER
    return tuple(_read_command(folder / f"{number}.json") for number in sorted(_command_numbers(folder)))


def _command_numbers(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("*.json") if path.stem.isdecimal()]


def write_json_file(target: Path, document: Mapping[str, Any]) -> Path:
    """Write a document of the run directory; it appears whole or not at all.

    Raises:
        RocktoolsError: it cannot be written (disk full, ...).
    """
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    try:
        # Lone surrogates, from arguments and file names that are not UTF-8, are spelled out; JSON turns them back.
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")
        partial.replace(target)
    except OSError as error:
        raise RocktoolsError(
            "output-failed", f"could not write: {error.strerror or error}", where=str(target)
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return target


def _pass_document(record: PassRecord) -> dict[str, Any]:
    return {**asdict(record), "argv": list(record.argv), "environment_removed": list(record.environment_removed)}


def _command_document(record: CommandRecord) -> dict[str, Any]:
    return {
        "argv": list(record.argv),
        "created_utc": record.created_utc,
        "facts": dict(record.facts),
        "findings": list(record.findings),
    }


def _read_command(path: Path) -> CommandRecord:
    try:
        document = load_json(path, has_bytes=True)
    except ValueError as error:
        raise DamagedFile(
            "command-record-damaged", f"the record of a command is not JSON: {error}", where=str(path)
        ) from error
    found = _schema_of(document)
    if found != COMMAND_SCHEMA:
        raise UnsupportedVersion(
            "command-record-schema",
            f"the schema of this record of a command is {found!r}, not {COMMAND_SCHEMA!r}",
            where=str(path),
        )
    try:
        return _parse_command(document)
    except (KeyError, TypeError) as error:
        raise DamagedFile("command-record-damaged", f"the record lacks or mangles {error}", where=str(path)) from error


def _parse_command(document: Any) -> CommandRecord:
    values = _require_types(document, _COMMAND_TYPES)
    return CommandRecord(**{**values, "argv": tuple(values["argv"]), "findings": tuple(values["findings"])})


def _read_pass(path: Path) -> PassRecord:
    try:
        document = load_json(path, has_bytes=True)
    except ValueError as error:
        raise DamagedFile(
            "pass-record-damaged", f"the record of a pass is not JSON: {error}", where=str(path)
        ) from error
    found = _schema_of(document)
    if found != PASS_SCHEMA:
        raise UnsupportedVersion(
            "pass-record-schema",
            f"the schema of this record of a pass is {found!r}, not {PASS_SCHEMA!r}",
            where=str(path),
        )
    return _parse_pass(document, path)


def _parse_pass(document: Mapping[str, Any], path: Path) -> PassRecord:
    try:
        values = _require_types(document, _PASS_TYPES)
        values["argv"] = tuple(values["argv"])
        values["environment_removed"] = tuple(values["environment_removed"])
        values["findings"] = tuple(values["findings"])
        databases = [_require_types(database, _DATABASE_TYPES) for database in values["databases"]]
        values["databases"] = tuple(
            DatabaseRecord(**{**database, "processes": tuple(database["processes"])}) for database in databases
        )
        return PassRecord(**values)
    except (KeyError, TypeError) as error:
        raise DamagedFile("pass-record-damaged", f"the record lacks or mangles {error}", where=str(path)) from error


def _require_types(document: Any, types: _Types) -> dict[str, Any]:
    """The members of a JSON object by name.

    Raises:
        TypeError, KeyError: it is no object, a member is of another type, or is not there.
    """
    if not isinstance(document, dict):
        raise TypeError(f"an object: there is {document!r}")
    for name, kind in types.items():
        if not isinstance(document[name], kind):
            raise TypeError(f"{name!r}: it is {document[name]!r}")
    return {name: document[name] for name in types}


def load_json(path: Path, *, has_bytes: bool = False) -> Any:
    """What a JSON file holds, whatever that is.

    Args:
        path: the file.
        has_bytes: texts may hold bytes that are no UTF-8, as arguments and names of files do (halves of characters).

    Raises:
        InputError: the system refuses to read it.
        ValueError: it is not JSON, or JSON that Python does not take, or a text in it is no Unicode.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        document = json.loads(text)
        if not has_bytes and _HALF_CHARACTER in text.lower():
            json.dumps(document, ensure_ascii=False).encode("utf-8")
        return document
    except OSError as error:
        raise InputError(
            "unreadable-file", f"the system refuses to read it: {error.strerror}", where=str(path)
        ) from error
    except RecursionError as error:  # a ValueError is passed on: broken, no UTF-8, a number of thousands of digits
        raise ValueError("it is nested too deeply") from error


def _schema_of(document: Any) -> Any:
    return document.get("schema") if isinstance(document, dict) else None


def read_manifest(run: Path) -> Manifest:
    """The manifest of a run.

    Raises:
        InputError: the folder has none.
        DamagedFile: it is not the JSON that a manifest is.
        UnsupportedVersion: it has another schema.
    """
    path = run / MANIFEST_NAME
    if not path.exists():
        raise InputError(
            "no-manifest", "this folder has no manifest: not a run directory, or a run that did not end", where=str(run)
        )
    try:
        document = load_json(path, has_bytes=True)
    except ValueError as error:
        raise DamagedFile("manifest-damaged", f"the manifest is not JSON: {error}", where=str(path)) from error
    found = _schema_of(document)
    if found != SCHEMA:
        raise UnsupportedVersion(
            "manifest-schema", f"the schema of the manifest is {found!r}, not {SCHEMA!r}", where=str(path)
        )
    try:
        values = _require_types({"passes": [], "captures": [], **document}, _MANIFEST_TYPES)
        values["argv"] = tuple(values["argv"])
        values["passes"] = tuple(_parse_pass(record, path) for record in values["passes"])
        values["captures"] = tuple(_parse_command(record) for record in values["captures"])
        return Manifest(**values)
    except (KeyError, TypeError) as error:
        raise DamagedFile("manifest-damaged", f"the manifest lacks or mangles {error}", where=str(path)) from error
