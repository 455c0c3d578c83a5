"""The runs of a workspace -> the compiled programs of each.

Programs are looked for where a capture leaves them: `hlo/` of the run directory, the HLO protos of a JAX profile. Files
that the user names stand in for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocktools.errors import InputError, NothingToRead
from rocktools.findings import Finding
from rocktools.hlo.module import HloModule
from rocktools.rundir import HLO_FOLDER
from rocktools.workspace.programs import (
    FoundProgram,
    find_programs,
    programs_of_profile,
    unique_programs,
    unreadable_program,
)
from rocktools.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPrograms:
    """What a run is linked to.

    Attributes:
        programs: each once, the largest first.
        profiles: JAX profiles that the user named beside the run, whose annotations speak for its traces.
        findings: what could not be read.
    """

    programs: tuple[FoundProgram, ...]
    profiles: tuple[Path, ...] = ()
    findings: tuple[Finding, ...] = ()

    def modules(self) -> dict[str, HloModule]:
        """By program id; of two programs of one id the larger."""
        return {program.program_id: program.program.module for program in reversed(self.programs)}


def programs_of_runs(workspace: Workspace, hlo: Sequence[str | Path] = ()) -> dict[str, RunPrograms]:
    """The programs of every run of the workspace, by its label, in the order of the labels.

    Args:
        hlo: files or folders with the compiled programs; () looks for them in the runs.

    Raises:
        InputError: what `hlo` names cannot be read.
        NothingToRead: `hlo` is (), and no run has a compiled program.
    """
    named = _named_programs(hlo) if hlo else None
    runs = sorted({source.run for source in workspace.sources()})
    programs = {run: named or _programs_of_run(workspace, run) for run in runs}
    if not any(found.programs for found in programs.values()):
        places = dict.fromkeys(str(source.root or source.path) for source in workspace.sources())
        raise NothingToRead(
            "no-programs",
            "there is no compiled program in the run: no hlo/ folder, and no HLO in a JAX profile",
            where=", ".join(list(places)[:3]),
            hint="--hlo FILE names a dump of XLA; rocktools trace makes one with each trace",
        )
    return programs


def _named_programs(hlo: Sequence[str | Path]) -> RunPrograms:
    places = [find_programs(path) for path in hlo]
    return RunPrograms(
        programs=unique_programs(program for place in places for program in place.programs),
        profiles=tuple(dict.fromkeys(profile for place in places for profile in place.profiles)),
        findings=tuple(finding for place in places for finding in place.findings),
    )


def _programs_of_run(workspace: Workspace, run: str) -> RunPrograms:
    found: list[FoundProgram] = []
    findings: list[Finding] = []
    roots = {source.root for source in workspace.sources() if source.run == run and source.root is not None}
    for folder in sorted(root / HLO_FOLDER for root in roots):
        if not folder.is_dir():
            continue
        try:
            place = find_programs(folder)
        except NothingToRead:  # a job that compiled nothing leaves an empty folder
            continue
        except InputError as error:
            findings.append(unreadable_program(error, folder))
        else:
            found += place.programs
            findings += place.findings
    for profile in workspace.profiles_of(run):
        try:
            found += programs_of_profile(profile.file)
        except InputError as error:
            findings.append(unreadable_program(error, profile.source.path))
    return RunPrograms(programs=unique_programs(found), findings=tuple(findings))
