"""Which run directory of ours a file lies in, and what the records there say about it.

A user may name a run, a folder inside it, a pattern, or a folder of many runs: what may be read depends on where a file
lies, never on how it was named.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from rocktools.errors import InputError
from rocktools.findings import Finding, Severity
from rocktools.rundir import MANIFEST_NAME, PASSES_FOLDER, PassRecord, read_manifest, read_pass_records

_PLAN_NAME = "plan.json"  # of rocktools.capture, which analysis does not import
_REPLAYS_FOLDER = "replays"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDirectory:
    """A run directory.

    Attributes:
        root: the folder.
        verified: the files of each pass's last verified attempt; None where no capture of ours ran, so that none
            could fail.
        replay_folders: where passes of in-process kernel replay left their files.
    """

    root: Path
    verified: frozenset[Path] | None = None
    replay_folders: tuple[Path, ...] = ()

    def is_in_replay_pass(self, file: Path) -> bool:
        return any(file.resolve().is_relative_to(folder) for folder in self.replay_folders)


class RunDirectories:
    """The run directories around files. Each folder is looked at once."""

    def __init__(self) -> None:
        self._known: dict[Path, RunDirectory | None] = {}

    def find(self, file: Path) -> RunDirectory | None:
        """The nearest run directory around a file; a replay inside a run is a run of its own, with or without records.

        Raises:
            InputError: its records cannot be read.
        """
        for place in _places(file):
            for folder in place.parents:
                run = self._look_at(folder)
                if run is None:
                    continue
                first, *others = place.relative_to(folder).parts
                if first != _REPLAYS_FOLDER or not others:
                    return run
                return RunDirectory(root=Path(folder, first, *others[:-1][:1]))
        return None

    def is_in_replays(self, file: Path, named: Path) -> bool:
        """Whether a run holds the file among its replays, and the user named (`named`) something further out."""
        return any(
            folder.name == _REPLAYS_FOLDER
            and not any(place.is_relative_to(folder) for place in _places(named))
            and self._look_at(folder.parent) is not None
            for place in _places(file)
            for folder in place.parents
        )

    def _look_at(self, folder: Path) -> RunDirectory | None:
        if folder not in self._known:
            self._known[folder] = _read_run_directory(folder)
        return self._known[folder]


def check_capture(run: Path) -> list[Finding]:
    """What is wrong with a capture as a whole, beside its single passes."""
    try:
        facts = read_manifest(run).facts
    except InputError as error:
        return [
            Finding(
                rule="capture-unfinished",
                severity=Severity.WARNING,
                where=str(run),
                message=f"the capture has not ended, or was killed: {error.what}",
                advice="go on with it: the same command and --resume",
            )
        ]
    differences = facts.get("differences")
    findings = [
        Finding(**{**difference, "severity": Severity(difference["severity"])})
        for difference in (differences if isinstance(differences, list) else [])
    ]
    if not findings and facts.get("is_complete") is False:
        findings.append(
            Finding(
                rule="capture-incomplete",
                severity=Severity.WARNING,
                where=str(run),
                message="a pass has no verified result, so that counters may be missing",
                advice="go on with it: the same command and --resume",
            )
        )
    return findings


def folders_below(root: Path, file: Path) -> tuple[str, ...]:
    """Names of the folders between `root` and a file in it; () where it is not in it."""
    for place in _places(file):
        for base in _places(root):
            if place != base and place.is_relative_to(base):
                return place.relative_to(base).parts[:-1]
    return ()


def _places(path: Path) -> tuple[Path, Path]:
    """Where a path is, as it is spelled and behind its links: a run may hold links, and links may lead into a run."""
    return Path(os.path.abspath(path)), path.resolve()  # noqa: PTH100  (Path.absolute keeps `..`)


def _attempt_of(record: PassRecord) -> int:
    return record.attempt


def _read_run_directory(folder: Path) -> RunDirectory | None:
    """What the records of a folder say; None where it is no run directory.

    Raises:
        InputError: a record cannot be read.
    """
    has_plan = _is_ours(folder / _PLAN_NAME)
    has_records = any(_is_ours(path) for path in sorted((folder / PASSES_FOLDER).glob("*.json")))
    if not (has_plan or has_records):
        return RunDirectory(root=folder) if _is_ours(folder / MANIFEST_NAME) else None
    records = read_pass_records(folder)
    # The last one: a pass that did not agree with the others is repeated, and has two.
    good = {record.name: record for record in sorted(records, key=_attempt_of) if record.is_verified}
    return RunDirectory(
        root=folder,
        verified=frozenset(
            (folder / database.path).resolve() for record in good.values() for database in record.databases
        ),
        replay_folders=tuple((folder / record.folder).resolve() for record in records if record.kind == "replay"),
    )


def _is_ours(path: Path) -> bool:
    """Whether a file is a document of a run; other programs write a `manifest.json` and a `passes/` too."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and str(document.get("schema")).startswith("rocktools.")
