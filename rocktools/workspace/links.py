"""The dispatches of a workspace, and the compiled programs of the same runs -> which instruction each belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from rocktools.correlate.annotations import link_annotated
from rocktools.correlate.edges import find_edges
from rocktools.correlate.link import link_dispatches
from rocktools.correlate.profiles import match_profiles
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity, has_fault
from rocktools.frames import DEVICE_EVENTS, DISPATCH_EDGES, EVENT_EDGES, require_frame
from rocktools.hlo.instructions import build_instructions
from rocktools.hlo.module import HloModule
from rocktools.sources.rocpd.parts import assemble_frame
from rocktools.sources.xspace.device_events import device_event_parts
from rocktools.sources.xspace.opening import open_xspace
from rocktools.units import count_noun
from rocktools.workspace.frame_parts import part_of_frame
from rocktools.workspace.profiles import LoadedProfile
from rocktools.workspace.programs import FoundProgram, distinct_launches
from rocktools.workspace.run_programs import RunPrograms, programs_of_runs
from rocktools.workspace.workspace import Workspace

FACTS = ("phase", "scope", "custom_call_target")
"""Columns of INSTRUCTIONS that `LinkedRun.with_instructions` puts beside a dispatch."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkedRun:
    """One run with its links.

    Attributes:
        run: label.
        dispatches: DISPATCHES of its traces, or of its profiles.
        edges: DISPATCH_EDGES, one for each of them.
        host_events: HOST_EVENTS with an instruction, of profiles of the CPU backend.
        host_edges: EVENT_EDGES of those.
        programs: that were looked into, the largest first.
        findings: what linking raised.
    """

    run: str
    dispatches: pd.DataFrame
    edges: pd.DataFrame
    host_events: pd.DataFrame
    host_edges: pd.DataFrame
    programs: tuple[FoundProgram, ...]
    findings: tuple[Finding, ...]

    def with_instructions(self) -> pd.DataFrame:
        """The dispatches with program_id, instruction, method, confidence of their link, and `FACTS` of it."""
        place = find_edges(self.edges, self.dispatches, DISPATCH_EDGES.key)
        links = self.edges.iloc[place].reset_index(drop=True)
        linked = self.dispatches.reset_index(drop=True).assign(
            **{name: links[name] for name in ("program_id", "instruction", "method", "confidence")}
        )
        return linked.assign(**self._facts(links))

    def _facts(self, links: pd.DataFrame) -> dict[str, pd.Series]:
        """Facts of the instruction of each row."""
        keys = list(zip(links["program_id"].astype(object), links["instruction"].astype(object), strict=True))
        codes, distinct = pd.factorize(pd.Series(keys, dtype=object))
        wanted = {key[0] for key in distinct if isinstance(key[0], str)}
        known: dict[tuple[object, object], tuple[object, ...]] = {}
        for program in self.programs:
            if program.program_id in wanted:
                frame = build_instructions(program.program.module)
                columns = [frame[name].astype(object) for name in ("program_id", "instruction", *FACTS)]
                known.update({(row[0], row[1]): row[2:] for row in zip(*columns, strict=True)})
        rows = [known.get(key, (None,) * len(FACTS)) for key in distinct]
        return {
            name: pd.Series(_spread([row[i] for row in rows], codes), index=links.index) for i, name in enumerate(FACTS)
        }


def _spread(values: Sequence[object], codes: np.ndarray) -> pd.Categorical:
    """One value for each code, as labels."""
    texts = [None if pd.isna(value) else str(value) for value in values]
    names = sorted({text for text in texts if text is not None})
    number = {name: position for position, name in enumerate(names)}
    of = np.array([-1 if text is None else number[text] for text in texts], dtype=np.int64)
    return pd.Categorical.from_codes(of[codes] if len(of) else codes, categories=names)


def link_runs(workspace: Workspace, hlo: Sequence[str | Path] = ()) -> list[LinkedRun]:
    """Every run of the workspace with its links, in the order of the labels.

    Args:
        hlo: as in `programs_of_runs`.

    Raises:
        InputError: what `hlo` names cannot be read.
        NothingToRead: `hlo` is (), and no run has a compiled program.
    """
    return [_link_run(workspace, run, found) for run, found in programs_of_runs(workspace, hlo).items()]


def findings_of(runs: Iterable[LinkedRun]) -> list[Finding]:
    """What linking raised, each once: runs that share a program share its findings."""
    unique: list[Finding] = []
    for finding in (finding for run in runs for finding in run.findings):
        if finding not in unique:
            unique.append(finding)
    return unique


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkedDispatches:
    """The dispatches of all runs, with their instructions.

    Attributes:
        dispatches: DISPATCHES, and beside them program_id, instruction, method, confidence and `FACTS`.
        findings: what linking raised.
        evidence: of times by instruction: inferred, where any link is not what the profiler itself wrote.
    """

    dispatches: pd.DataFrame
    findings: tuple[Finding, ...]
    evidence: Evidence


def link_dispatches_of(workspace: Workspace, hlo: Sequence[str | Path] = ()) -> LinkedDispatches:
    """Every dispatch of the workspace with its instruction.

    Args:
        hlo: as in `programs_of_runs`.

    Raises:
        InputError: what `hlo` names cannot be read.
        NothingToRead: there is no dispatch, or no compiled program.
    """
    workspace.require_dispatches(("start_ns",))
    runs = [run for run in link_runs(workspace, hlo) if len(run.dispatches)]
    tables = [run.with_instructions() for run in runs]
    for name in tables[0].columns:
        if isinstance(tables[0][name].dtype, pd.CategoricalDtype) and len(tables) > 1:
            united = union_categoricals([table[name] for table in tables])
            tables = [table.assign(**{name: table[name].cat.set_categories(united.categories)}) for table in tables]
    joined = pd.concat(tables, ignore_index=True) if len(tables) > 1 else tables[0]
    # What a profile says of a trace beside it is an annotation, too, but not one of that very dispatch.
    is_traced = any(not process.is_counter_pass for process in workspace.loaded)
    is_written = joined["method"].isin(["annotation", "none"]) & joined["confidence"].isin(["certain", "unlinked"])
    return LinkedDispatches(
        dispatches=joined,
        findings=tuple(findings_of(runs)),
        evidence=Evidence.MEASURED if not is_traced and bool(is_written.all()) else Evidence.INFERRED,
    )


def _link_run(workspace: Workspace, run: str, found: RunPrograms) -> LinkedRun:
    dispatches = workspace.dispatches()
    dispatches = dispatches[dispatches["run"] == run].reset_index(drop=True)
    modules = found.modules()
    findings = [*found.findings, *(each for one in found.programs for each in one.program.module.findings)]
    profiles = [profile for profile in workspace.profiles_of(run) if not profile.is_beside_trace]
    is_profiled = dispatches["process"].isin([profile.label for profile in profiles]).to_numpy()
    parts = []
    if not is_profiled.all():
        edges, raised = _link_trace(workspace, run, found, dispatches[~is_profiled].reset_index(drop=True))
        parts.append(edges)
        findings += raised
    for profile in profiles:
        edges, raised = _link_profile(profile, modules)
        parts.append(edges)
        findings += raised
    edges = _concatenated(parts)
    host_events, host_edges, raised = link_host_events(workspace, run, modules)
    findings += [*raised, *_check_linked(run, found, edges, findings)]
    return LinkedRun(
        run=run,
        dispatches=dispatches,
        edges=edges,
        host_events=host_events,
        host_edges=host_edges,
        programs=found.programs,
        findings=tuple(findings),
    )


def _link_trace(
    workspace: Workspace, run: str, found: RunPrograms, dispatches: pd.DataFrame
) -> tuple[pd.DataFrame, list[Finding]]:
    """DISPATCH_EDGES of what rocprofv3 traced, by a profile of the same program where there is one."""
    profiled: pd.DataFrame | None = None
    findings: list[Finding] = []
    events = _events_beside(workspace, run, found.profiles)
    if len(events):
        event_edges, findings = link_annotated(events, found.modules())
        if bool(event_edges["instruction"].notna().any()):
            match = match_profiles(events, event_edges, dispatches)
            profiled = match.edges
            findings += match.findings
    programs, alike = distinct_launches(found.programs) if profiled is None else (found.programs, ())
    linked = link_dispatches(dispatches, [each.program for each in programs], profile_edges=profiled)
    findings += alike
    return linked.edges, located_findings([*findings, *linked.findings], run)


def _events_beside(workspace: Workspace, run: str, named: Sequence[Path]) -> pd.DataFrame:
    """DEVICE_EVENTS of the profiles that lie in the run beside its trace, and of those that were named."""
    frames = [profile.events() for profile in workspace.profiles_of(run) if profile.is_beside_trace]
    for path in named:
        with open_xspace(path) as file:
            # Profiles of one host may be named together; as runs of their own they cannot be taken for one.
            parts = device_event_parts(file, run=str(path), host=file.host)
            frames.append(assemble_frame(parts, DEVICE_EVENTS))
    return assemble_frame([part_of_frame(frame, DEVICE_EVENTS) for frame in frames if len(frame)], DEVICE_EVENTS)


def located_findings(findings: Iterable[Finding], place: str) -> list[Finding]:
    """Findings of what knows frames only, with the run or the file that the frame is of."""
    return [
        finding if finding.where.startswith(place) else replace(finding, where=f"{place}, {finding.where}")
        for finding in findings
    ]


def _check_linked(run: str, found: RunPrograms, edges: pd.DataFrame, findings: Sequence[Finding]) -> Iterator[Finding]:
    """A run with dispatches of which none is linked, where nothing else says so."""
    if edges.empty or bool(edges["instruction"].notna().any()) or has_fault(findings):
        return
    names = ", ".join(dict.fromkeys(program.name for program in found.programs[:3]))
    yield Finding(
        rule="nothing-linked",
        severity=Severity.WARNING,
        where=run,
        message=(
            f"none of {count_noun(len(edges), 'dispatch')} is linked to {count_noun(len(found.programs), 'program')}"
            f" ({names})"
            if names
            else f"the run has no compiled program, so none of {count_noun(len(edges), 'dispatch')} is linked"
        ),
        numbers={"dispatches_count": len(edges), "programs_count": len(found.programs)},
        advice="--hlo FILE names the dump of the program that ran" if not names else "is the dump that of this run?",
    )


def _link_profile(profile: LoadedProfile, modules: Mapping[str, HloModule]) -> tuple[pd.DataFrame, list[Finding]]:
    """DISPATCH_EDGES of the kernels of a profile."""
    events, kernels = profile.events(), profile.kernels()
    edges, findings = link_annotated(events, modules)
    place = find_edges(edges, events.iloc[kernels.event_rows].reset_index(drop=True), EVENT_EDGES.key)
    links = edges.iloc[place].reset_index(drop=True)
    rows = len(links)
    given = {**{name: kernels.dispatches[name] for name in DISPATCH_EDGES.key}}
    given |= {name: links[name] for name in EVENT_EDGES.names if name in DISPATCH_EDGES.names and name not in given}
    given |= {
        "thunk_id": pd.Series([pd.NA] * rows, dtype="Int64"),
        "execution_index": pd.Series([pd.NA] * rows, dtype="Int64"),
        "iterations": pd.Series([None] * rows, dtype=pd.CategoricalDtype([])),
        "is_iteration_sure": pd.Series(np.zeros(rows, dtype=bool)),
    }
    frame = require_frame(pd.DataFrame({name: given[name] for name in DISPATCH_EDGES.names}), DISPATCH_EDGES)
    return frame, located_findings(findings, str(profile.source.path))


def link_host_events(
    workspace: Workspace, run: str, modules: Mapping[str, HloModule]
) -> tuple[pd.DataFrame, pd.DataFrame, list[Finding]]:
    """The annotated events of the host where there is no GPU: the CPU backend runs instructions on host threads.

    Returns:
        HOST_EVENTS, EVENT_EDGES of those, and what linking raised.
    """
    events = workspace.host_events()
    devices = workspace.profiled_devices()
    has_device = set(devices.loc[devices["events_count"] > 0, "host"].astype(str))
    is_ours = (events["run"] == run) & events["hlo_op"].notna() & ~events["host"].astype(str).isin(has_device)
    chosen = events[is_ours].reset_index(drop=True)
    if chosen.empty:
        return chosen, EVENT_EDGES.empty(), []
    edges, findings = link_annotated(chosen, modules)
    return chosen, edges, located_findings(findings, run)


def _concatenated(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """DISPATCH_EDGES in one frame, categories and all."""
    return assemble_frame([part_of_frame(part, DISPATCH_EDGES) for part in parts], DISPATCH_EDGES)
