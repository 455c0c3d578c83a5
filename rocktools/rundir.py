"""The run directory: where a capture and an analysis meet. Its layout, and the manifest that says what is in it.

    <run>/manifest.json     what was run, with what, and what came of it (schema rocktools.run/1)
    <run>/trace/            rocprofv3 runtime traces: rocpd databases, one per process
    <run>/pmc/<group>/      one rocprofv3 process per counter group
    <run>/logs/             stdout and stderr of everything that was started

A manifest is written last and through a temporary name: a folder without one is a run that did not finish.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocktools import __version__
from rocktools.errors import DamagedFile, InputError, UnsupportedVersion, UsageError

SCHEMA = "rocktools.run/1"
MANIFEST_NAME = "manifest.json"
TRACE_FOLDER = "trace"
PMC_FOLDER = "pmc"
LOGS_FOLDER = "logs"
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What `manifest.json` says.

    Attributes:
        argv: the command that made the run.
        created_utc: when, ISO 8601 in UTC.
        is_simulated: whether no hardware produced it.
        facts: whatever else is known about the run, by name.
        files: path inside the run -> sha256 of the file.
        rocktools_version: version that wrote it.
    """

    argv: tuple[str, ...]
    created_utc: str
    is_simulated: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
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


def write_manifest(run: Path, manifest: Manifest) -> Path:
    """Write the manifest of a run; it appears whole or not at all.

    Raises:
        UsageError: the run has one already.
    """
    target = run / MANIFEST_NAME
    if target.exists():
        raise UsageError("manifest-exists", "the run has a manifest already", where=str(target))
    document = {
        "schema": SCHEMA,
        "rocktools_version": manifest.rocktools_version,
        "created_utc": manifest.created_utc,
        "is_simulated": manifest.is_simulated,
        "argv": list(manifest.argv),
        "facts": dict(manifest.facts),
        "files": dict(manifest.files),
    }
    partial = target.with_name(f".{MANIFEST_NAME}.{os.getpid()}.partial")
    try:
        partial.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def read_manifest(run: Path) -> Manifest:
    """The manifest of a run.

    Raises:
        InputError: the folder has none.
        DamagedFile: it is not the JSON that a manifest is.
        UnsupportedVersion: it has another schema.
    """
    path = run / MANIFEST_NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            "no-manifest", "this folder has no manifest: not a run directory, or a run that did not end", where=str(run)
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DamagedFile("manifest-damaged", f"the manifest is not JSON: {error}", where=str(path)) from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        schema = document.get("schema") if isinstance(document, dict) else None
        raise UnsupportedVersion("manifest-schema", f"its schema is {schema!r}, not {SCHEMA!r}", where=str(path))
    try:
        return Manifest(
            argv=tuple(document["argv"]),
            created_utc=str(document["created_utc"]),
            is_simulated=bool(document["is_simulated"]),
            facts=dict(document["facts"]),
            files=dict(document["files"]),
            rocktools_version=str(document["rocktools_version"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile("manifest-damaged", f"the manifest lacks or mangles {error}", where=str(path)) from error
