"""Runs and their compiled programs -> the frames that take both: programs, links, and what is booked by them.

Where steps and components can be chosen, the choices are those of `rocktools ledger` without options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.attribution.ledger import book_rows, build_ledger
from rocktools.correlate.annotations import link_annotated
from rocktools.evidence import Evidence
from rocktools.findings import Finding
from rocktools.frames import ATTRIBUTED, DISPATCH_EDGES, EVENT_EDGES, INSTRUCTIONS, PROGRAMS, STEPS, FrameSpec
from rocktools.hlo.instructions import build_instructions
from rocktools.sources.rocpd.parts import assemble_frame
from rocktools.timeline.grouping import match_rows
from rocktools.workspace.attributed import AttributionOptions, attribute_workspace
from rocktools.workspace.frame_parts import part_of_frame
from rocktools.workspace.links import findings_of, link_host_events, link_runs, located_findings
from rocktools.workspace.programs import list_programs, unique_programs
from rocktools.workspace.run_programs import programs_of_runs
from rocktools.workspace.workspace import Workspace

_BOOKED_FRAMES = ("STEPS", "ATTRIBUTED", "LEDGER")
LINKED_FRAMES = ("PROGRAMS", "INSTRUCTIONS", "DISPATCH_EDGES", "EVENT_EDGES", *_BOOKED_FRAMES)
"""Names of the frames that `linked_frame` builds."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkedFrame:
    """A frame, how its values came about, and what building it raised."""

    frame: pd.DataFrame
    evidence: Evidence
    findings: tuple[Finding, ...]


def linked_frame(workspace: Workspace, name: str, hlo: Sequence[str | Path] = ()) -> LinkedFrame:
    """One of `LINKED_FRAMES` by its name, of all runs together.

    Args:
        hlo: files or folders with the compiled programs; () looks for them in the runs.

    Raises:
        InputError: what `hlo` names, or a profile, cannot be read.
        NothingToRead: no run has a compiled program, or nothing ran.
    """
    if name == DISPATCH_EDGES.name:
        runs = link_runs(workspace, hlo)
        frame = _together([run.edges for run in runs], DISPATCH_EDGES)
        return LinkedFrame(frame=frame, evidence=Evidence.INFERRED, findings=tuple(findings_of(runs)))
    if name == EVENT_EDGES.name:
        return _event_edges(workspace, hlo)
    if name in _BOOKED_FRAMES:
        return _booked_frame(workspace, name, hlo)
    found = programs_of_runs(workspace, hlo)
    every = unique_programs(program for run in found.values() for program in run.programs)
    if name == PROGRAMS.name:
        listed = [list_programs(of_run.programs, run=run) for run, of_run in found.items()]
        frame = _together([each.sort_values("program_id", kind="stable") for each in listed], PROGRAMS)
    else:
        ordered = sorted(every, key=lambda program: program.program_id)
        frame = _together([build_instructions(program.program.module) for program in ordered], INSTRUCTIONS)
    raised = [finding for run in found.values() for finding in run.findings]
    raised += [finding for program in every for finding in program.program.module.findings]
    return LinkedFrame(frame=frame, evidence=Evidence.COMPILER_ESTIMATE, findings=tuple(_unique(raised)))


def _booked_frame(workspace: Workspace, name: str, hlo: Sequence[str | Path]) -> LinkedFrame:
    runs = attribute_workspace(workspace, AttributionOptions(component_map=read_shipped_map(), hlo=tuple(hlo)))
    if name == STEPS.name:
        frame = runs.steps.frame
    elif name == ATTRIBUTED.name:
        frame = runs.rows
    else:
        counted = match_rows(runs.rows, runs.steps.counted, STEPS.key) >= 0
        frame = build_ledger(book_rows(runs.rows[counted].reset_index(drop=True)))
    return LinkedFrame(frame=frame, evidence=Evidence.INFERRED, findings=runs.findings)


def _event_edges(workspace: Workspace, hlo: Sequence[str | Path]) -> LinkedFrame:
    """Of the events of devices, and of the host where the CPU backend ran the program."""
    frames: list[pd.DataFrame] = []
    findings: list[Finding] = []
    for run, found in programs_of_runs(workspace, hlo).items():
        modules = found.modules()
        findings += found.findings
        for profile in workspace.profiles_of(run):
            events = profile.events()
            if len(events):
                edges, raised = link_annotated(events, modules)
                frames.append(edges)
                findings += located_findings(raised, str(profile.source.path))
        _, edges, raised = link_host_events(workspace, run, modules)
        frames.append(edges)
        findings += raised
    frame = _together([each for each in frames if len(each)], EVENT_EDGES)
    frame = frame.assign(**{name: _in_alphabetical_order(frame[name]) for name in ("run", "host", "device", "line")})
    frame = frame.sort_values(list(EVENT_EDGES.sort), kind="stable", ignore_index=True)
    return LinkedFrame(frame=frame, evidence=Evidence.INFERRED, findings=tuple(_unique(findings)))


def _in_alphabetical_order(labels: pd.Series) -> pd.Series:
    return labels.cat.reorder_categories(sorted(labels.cat.categories))


def _together(frames: Sequence[pd.DataFrame], spec: FrameSpec) -> pd.DataFrame:
    return assemble_frame([part_of_frame(frame, spec) for frame in frames], spec)


def _unique(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for place, finding in enumerate(findings) if finding not in findings[:place]]
