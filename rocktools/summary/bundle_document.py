"""What is in a bundle, and how each of its files is made: `rocktools.bundle/1`, the manifest of the folder.

A bundle holds one run, or two to be compared: its inputs, everything that commands make of them, and the command lines.
Every path is one inside the bundle, and every command line is one to give in its folder, so that the folder may lie
anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocktools.errors import DamagedFile, UnknownFormat, UnsupportedVersion
from rocktools.rundir import load_json, write_json_file
from rocktools.summary.document_json import from_plain, to_plain

SCHEMA = "rocktools.bundle/1"
BUNDLE_NAME = "bundle.json"  # not manifest.json, which would make the folder a run directory


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFile:
    """A file of the bundle.

    Attributes:
        path: inside the bundle.
        role: `input`, `summary`, `report`, `table`, `comparison` or `readme`.
        size_bytes, sha256: of the file.
    """

    path: str
    role: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOutput:
    """Something that a command makes.

    Attributes:
        path: inside the bundle.
        side: whose it is: `run`, or `before`, `after`, or `both`.
        role: as of its file.
        command: the command line, to be given in the bundle's folder.
        exit_code: that it ended with.
        reason: why there is no such file; None where there is one.
        is_regenerable: whether what it is made of is in the bundle.
    """

    path: str
    side: str
    role: str
    command: tuple[str, ...]
    exit_code: int
    reason: str | None
    is_regenerable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSide:
    """A run, or the summary of one.

    Attributes:
        name: `run`, or `before`, `after`.
        kind: `run` or `summary`: what was named.
        title: of its summary.
        has_inputs: whether the files that the summary is made of are in the bundle.
        arguments: what commands read, inside the bundle.
        left_out: what the run has and the bundle has not.
    """

    name: str
    kind: str
    title: str
    has_inputs: bool
    arguments: tuple[str, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The manifest.

    Attributes:
        schema: `SCHEMA`.
        rocktools_version: of the program that made it.
        versions: of what the tables were computed with: Python, numpy, pandas.
        created_utc: ISO 8601.
        is_simulated: whether any input says that no hardware produced it.
        scrubbed: what was taken out of databases: `nothing`, `environment` or `identity`.
        sensitive: what a reader learns that is no measurement.
        sides: one, or two that are compared.
        outputs: in the order in which they are made: later ones may read earlier ones.
        files: everything in the folder but the manifest, by path.
    """

    schema: str
    rocktools_version: str
    versions: dict[str, str]
    created_utc: str
    is_simulated: bool
    scrubbed: str
    sensitive: tuple[str, ...]
    sides: tuple[BundleSide, ...]
    outputs: tuple[BundleOutput, ...]
    files: tuple[BundleFile, ...]


def write_bundle(folder: Path, bundle: Bundle) -> Path:
    """Write the manifest into the folder.

    Raises:
        RocktoolsError: it cannot be written.
    """
    document: dict[str, Any] = to_plain(bundle)
    return write_json_file(folder / BUNDLE_NAME, document)


def read_bundle(folder: Path) -> Bundle:
    """The manifest of a folder.

    Raises:
        InputError: it cannot be read.
        UnknownFormat: the folder is no bundle; UnsupportedVersion: one of another version.
        DamagedFile: a member is not what it should be.
    """
    path = folder / BUNDLE_NAME
    if not path.is_file():
        raise UnknownFormat(
            "not-a-bundle",
            "this is no bundle: there is no bundle.json",
            where=str(folder),
            hint="rocktools bundle RUN -o DIR makes one",
        )
    try:
        document = load_json(path)
    except ValueError as error:
        raise DamagedFile("bundle-manifest", f"the manifest is no JSON: {error}", where=str(path)) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, str) or not schema.startswith("rocktools.bundle/"):
        what = f"a folder of {schema}" if isinstance(schema, str) else "no folder of rocktools"
        raise UnknownFormat(
            "not-a-bundle", f"this is {what}, not a bundle", where=str(path), hint="rocktools bundle RUN -o DIR"
        )
    if schema != SCHEMA:
        raise UnsupportedVersion("bundle-version", f"this is {schema}; this rocktools reads {SCHEMA}", where=str(path))
    bundle = from_plain(Bundle, document, where=str(path))
    for name in (*(each.path for each in bundle.files), *(each.path for each in bundle.outputs)):
        if not is_inside(name):
            raise DamagedFile("bundle-path", f"{name!r} leads out of the bundle", where=str(path))
    return bundle


def is_inside(name: str) -> bool:
    """Whether a path of a manifest stays in the folder."""
    parts = Path(name).parts
    return bool(parts) and not Path(name).is_absolute() and ".." not in parts
