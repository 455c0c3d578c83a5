"""The run directory: where a capture and an analysis meet. Its layout, and the manifest that says what is in it.

    <run>/manifest.json     what was run, with what, and what came of it (schema rocktools.run/1)
    <run>/trace/            rocprofv3 runtime traces: rocpd databases, one per process
    <run>/pmc/<group>/      one rocprofv3 process per counter group
    <run>/passes/           one record for each attempt at a pass, written when the attempt has ended
    <run>/logs/             stdout and stderr of everything that was started
    <run>/hlo/              what XLA dumped of the compiled programs

Whatever is written here is written through a temporary name, so that nothing half-written looks whole. The records of
passes are what a capture resumes from; the manifest is made of them, and rewritten when a capture goes on. A pass
counts only if its record says that its rows were verified.
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

SCHEMA = "rocktools.run/1"
MANIFEST_NAME = "manifest.json"
TRACE_FOLDER = "trace"
PMC_FOLDER = "pmc"
LOGS_FOLDER = "logs"
HLO_FOLDER = "hlo"
PASSES_FOLDER = "passes"
PASS_SCHEMA = "rocktools.pass/1"
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
    "rocktools_version": str,
}
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
class Manifest:
    """What `manifest.json` says.

    Attributes:
        argv: the command that made the run.
        created_utc: when, ISO 8601 in UTC.
        is_simulated: whether no hardware produced it.
        facts: whatever else is known about the run, by name.
        files: path inside the run -> sha256 of the file.
        passes: every attempt at every pass, in the order in which they were made.
        rocktools_version: version that wrote it.
    """

    argv: tuple[str, ...]
    created_utc: str
    is_simulated: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    passes: tuple[PassRecord, ...] = ()
    rocktools_version: str = __version__


def create_run_directory(path: Path) -> Path:
    """Make a new, empty run directory.

    Raises:
        UsageError: something is there already, or it cannot be made.
    """
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        if not path.is_dir() or any(path.iterdir()):
            raise UsageError(
                "run-directory-exists",
                "there is something at this path already, and results are never overwritten",
                where=str(path),
                hint="name a new folder",
            ) from None
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
    documents = [(path, _read_json(path, PASS_SCHEMA)) for path in sorted(folder.glob("*.json"))]
    records = [_parse_pass(document, path) for path, document in documents]
    return tuple(sorted(records, key=lambda record: (record.started_utc, record.name, record.attempt)))


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


def _read_json(path: Path, schema: str) -> dict[str, Any]:
    """The document of a file of ours.

    Raises:
        InputError: the system refuses to read it.
        DamagedFile: it is not JSON.
        UnsupportedVersion: it has another schema.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            "unreadable-file", f"the system refuses to read it: {error.strerror}", where=str(path)
        ) from error
    except (ValueError, RecursionError) as error:  # ValueError: broken, no UTF-8, or a number of thousands of digits
        raise DamagedFile("manifest-damaged", f"it is not JSON: {error}", where=str(path)) from error
    if not isinstance(document, dict) or document.get("schema") != schema:
        found = document.get("schema") if isinstance(document, dict) else None
        raise UnsupportedVersion("manifest-schema", f"its schema is {found!r}, not {schema!r}", where=str(path))
    return document


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
    document = _read_json(path, SCHEMA)
    try:
        values = _require_types({"passes": [], **document}, _MANIFEST_TYPES)
        values["argv"] = tuple(values["argv"])
        values["passes"] = tuple(_parse_pass(record, path) for record in values["passes"])
        return Manifest(**values)
    except (KeyError, TypeError) as error:
        raise DamagedFile("manifest-damaged", f"the manifest lacks or mangles {error}", where=str(path)) from error
