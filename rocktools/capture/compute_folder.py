"""The folder of a workload: that nothing in it is put at risk, where the results are, and what we noted about them.

    <folder>/                             a new folder for each workload; rocprof-compute runs here
        rocktools-workload.json           what was started, when, and how it ended (schema rocktools.compute-workload/1)
        workloads/<slug>/<GPU model>/     results; a copy of the note is put there when the run has ended

Releases before 3.8 empty their target folder before they look at anything else. So a run starts only where that folder
is not there; and results without our copy of the note were emptied after we had finished with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rocktools.capture.compute_place import workload_place
from rocktools.capture.environment import redact_argv
from rocktools.errors import CaptureError, DamagedFile, UnsupportedVersion
from rocktools.rundir import load_json, write_json_file

SCHEMA = "rocktools.compute-workload/1"
MARKER_NAME = "rocktools-workload.json"
# What `analyze` makes or replaces; everything else of a workload stays as the profiler left it.
_CHANGING = frozenset({MARKER_NAME, "pmc_kernel_top.csv", "pmc_dispatch_info.csv", "log.txt"})
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "slug": str,
    "kernel_name": str,
    "version": str,
    "argv": list,
    "replay_sha256": (str, type(None)),
    "is_simulated": bool,
    "launches_count": (int, type(None)),
    "multiplexes": bool,
    "started_utc": str,
    "ended_utc": (str, type(None)),
    "exit_code": (int, type(None)),
    "signal_number": (int, type(None)),
    "files": dict,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadMarker:
    """What we know of one run of rocprof-compute.

    Attributes:
        slug: name of the workload.
        kernel_name: the kernel it is about; "" for a run for peaks.
        version: of rocprof-compute. Later releases cannot read older folders, and none says in them what it was.
        argv: what was started, secrets redacted.
        started_utc, ended_utc: ISO 8601; the end is None while it runs, or if we ended first.
        exit_code, signal_number: how it ended.
        launches_count: launches of the kernel that every pass should have; None where nobody knows.
        multiplexes: whether the passes shared one run, so that a launch counts for one pass only.
        replay_sha256: of what was profiled; None where it is no file.
        is_simulated: whether a stand-in did it.
        files: size in bytes of each file of results, by path in their folder.
    """

    slug: str
    kernel_name: str
    version: str
    argv: tuple[str, ...]
    started_utc: str
    ended_utc: str | None = None
    exit_code: int | None = None
    signal_number: int | None = None
    launches_count: int | None = None
    multiplexes: bool = False
    replay_sha256: str | None = None
    is_simulated: bool = False
    files: Mapping[str, int] = field(default_factory=dict)


def require_fresh_place(folder: Path, slug: str) -> None:
    """Let a run start only where it can destroy nothing: its target folder is not there, or is empty.

    Raises:
        CaptureError: something is there.
    """
    place = workload_place(folder, slug)
    for path in (place.parent, place):
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise CaptureError(
                "compute-place-taken",
                "rocprof-compute would put its results here, and this is no folder of its own",
                where=str(path),
                hint="name a new folder",
            )
    found = sorted(path.name for path in place.iterdir()) if place.is_dir() else []
    if found:
        raise CaptureError(
            "compute-folder-not-empty",
            f"it holds {found[0]}{f' and {len(found) - 1} more' if len(found) > 1 else ''}; rocprof-compute before 3.8 "
            "would delete all of it, and later ones would refuse",
            where=str(place),
            hint="run in a new folder",
        )


def find_results(folder: Path, slug: str) -> tuple[Path, ...]:
    """Folders of results of a workload: one after a run, none before, more than one if something interfered."""
    place = workload_place(folder, slug)
    return tuple(sorted(path for path in place.iterdir() if path.is_dir())) if place.is_dir() else ()


def write_marker(folder: Path, marker: WorkloadMarker) -> WorkloadMarker:
    """Note what is known of a run: before it starts, and again when it has ended, then with the sizes of its files.

    Returns:
        The marker as written.

    Raises:
        RocktoolsError: it cannot be written.
    """
    results = find_results(folder, marker.slug)
    has_results = marker.ended_utc is not None and len(results) == 1
    argv = redact_argv(marker.argv)
    values = {**asdict(marker), "argv": argv, "files": _sizes(results[0]) if has_results else {}}
    written = WorkloadMarker(**{**values, "argv": tuple(argv)})
    document = {"schema": SCHEMA, **values}
    if has_results:
        write_json_file(results[0] / MARKER_NAME, document)
    write_json_file(folder / MARKER_NAME, document)
    return written


def read_marker(folder: Path) -> WorkloadMarker | None:
    """The marker in a folder; None where there is none.

    Raises:
        DamagedFile: it is no marker.
        UnsupportedVersion: it is one of another schema.
        InputError: it cannot be read.
    """
    path = folder / MARKER_NAME
    if not path.is_file():
        return None
    try:
        document = load_json(path, has_bytes=True)
    except ValueError as error:
        raise DamagedFile("compute-marker-damaged", f"it is not JSON: {error}", where=str(path)) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise UnsupportedVersion("compute-marker-schema", f"its schema is {schema!r}, not {SCHEMA!r}", where=str(path))
    return WorkloadMarker(**_require_values(document, path))


def changed_files(results: Path, marker: WorkloadMarker) -> tuple[str, ...]:
    """Files of results that are gone, or have another size than when the run ended."""
    now = _sizes(results)
    return tuple(name for name, size in sorted(marker.files.items()) if now.get(name) != size)


def _sizes(results: Path) -> dict[str, int]:
    found = sorted(path for path in results.rglob("*") if path.is_file() and path.name not in _CHANGING)
    return {path.relative_to(results).as_posix(): path.stat().st_size for path in found}


def _require_values(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, kind in _TYPES.items():
        value = document.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise DamagedFile("compute-marker-damaged", f"{name} is {value!r} in it", where=str(path))
        values[name] = value
    sizes = values["files"]
    if not all(isinstance(word, str) for word in values["argv"]) or not all(
        isinstance(size, int) for size in sizes.values()
    ):
        raise DamagedFile("compute-marker-damaged", "its command line or its sizes are none", where=str(path))
    return {**values, "argv": tuple(values["argv"])}
