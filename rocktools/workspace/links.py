"""The dispatches of a workspace, and the compiled programs of the same runs -> which instruction each belongs to.

Programs are looked for where a capture leaves them: `hlo/` of the run directory, the HLO protos of a JAX profile. Files
that the user names stand in for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from rocktools.correlate.annotations import link_annotated
from rocktools.correlate.edges import find_edges
from rocktools.correlate.link import link_dispatches
from rocktools.correlate.schedule import align_programs
from rocktools.errors import NothingToRead
from rocktools.findings import Finding
from rocktools.frames import DISPATCH_EDGES, EVENT_EDGES, require_frame
from rocktools.hlo.instructions import build_instructions
from rocktools.hlo.module import HloModule
from rocktools.rundir import HLO_FOLDER
from rocktools.workspace.profiles import LoadedProfile
from rocktools.workspace.programs import FoundProgram, find_programs, programs_of_profile, unique_programs
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
        hlo: files or folders with the compiled programs; () looks for them in the runs.

    Raises:
        InputError: what `hlo` names cannot be read.
        NothingToRead: `hlo` is (), and no run has a compiled program.
    """
    named = _named_programs(hlo)
    runs = sorted({source.run for source in workspace.sources()})
    programs = {run: named or _programs_of_run(workspace, run) for run in runs}
    if not any(programs.values()):
        raise NothingToRead(
            "no-programs",
            "there is no compiled program in the run: no hlo/ folder, and no HLO in a JAX profile",
            where=", ".join(str(source.path) for source in list(workspace.sources())[:3]),
            hint="--hlo FILE names a dump of XLA; rocktools trace makes one with each trace",
        )
    return [_link_run(workspace, run, programs[run]) for run in runs]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkedDispatches:
    """The dispatches of all runs, with their instructions.

    Attributes:
        dispatches: DISPATCHES, and beside them program_id, instruction, method, confidence and `FACTS`.
        findings: what linking raised.
    """

    dispatches: pd.DataFrame
    findings: tuple[Finding, ...]


def link_dispatches_of(workspace: Workspace, hlo: Sequence[str | Path] = ()) -> LinkedDispatches:
    """Every dispatch of the workspace with its instruction.

    Args:
        hlo: as in `link_runs`.

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
    return LinkedDispatches(dispatches=joined, findings=tuple(finding for run in runs for finding in run.findings))


def _named_programs(hlo: Sequence[str | Path]) -> tuple[FoundProgram, ...]:
    found: list[FoundProgram] = []
    for path in hlo:
        found += find_programs(path).programs
    return unique_programs(found)


def _programs_of_run(workspace: Workspace, run: str) -> tuple[FoundProgram, ...]:
    found: list[FoundProgram] = []
    for root in sorted(
        {source.root for source in workspace.sources() if source.run == run and source.root is not None}
    ):
        if (root / HLO_FOLDER).is_dir():
            try:
                found += find_programs(root / HLO_FOLDER).programs
            except NothingToRead:
                continue
    for profile in _profiles(workspace, run):
        found += programs_of_profile(profile.file)
    return unique_programs(found)


def _profiles(workspace: Workspace, run: str) -> list[LoadedProfile]:
    return [profile for profile in workspace.profiles if profile.source.run == run]


def _link_run(workspace: Workspace, run: str, programs: tuple[FoundProgram, ...]) -> LinkedRun:
    dispatches = workspace.dispatches()
    dispatches = dispatches[dispatches["run"] == run].reset_index(drop=True)
    modules = {program.program_id: program.program.module for program in reversed(programs)}
    findings = [finding for program in programs for finding in program.program.module.findings]
    profiles = [profile for profile in _profiles(workspace, run) if not profile.is_beside_trace]
    is_profiled = dispatches["process"].isin([profile.label for profile in profiles]).to_numpy()
    parts = []
    if not is_profiled.all():
        traced = link_dispatches(
            dispatches[~is_profiled].reset_index(drop=True), [each.program for each in programs], align=align_programs
        )
        parts.append(traced.edges)
        findings += traced.findings
    for profile in profiles:
        edges, raised = _link_profile(profile, modules)
        parts.append(edges)
        findings += raised
    host_events, host_edges, raised = _link_host_events(workspace, run, modules)
    return LinkedRun(
        run=run,
        dispatches=dispatches,
        edges=_concatenated(parts),
        host_events=host_events,
        host_edges=host_edges,
        programs=programs,
        findings=(*findings, *raised),
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
    return require_frame(pd.DataFrame({name: given[name] for name in DISPATCH_EDGES.names}), DISPATCH_EDGES), findings


def _link_host_events(
    workspace: Workspace, run: str, modules: Mapping[str, HloModule]
) -> tuple[pd.DataFrame, pd.DataFrame, list[Finding]]:
    """The annotated events of the host where there is no GPU: the CPU backend runs instructions on host threads."""
    events = workspace.host_events()
    devices = workspace.profiled_devices()
    has_device = set(devices.loc[devices["events_count"] > 0, "host"].astype(str))
    is_ours = (events["run"] == run) & events["hlo_op"].notna() & ~events["host"].astype(str).isin(has_device)
    chosen = events[is_ours].reset_index(drop=True)
    if chosen.empty:
        return chosen, EVENT_EDGES.empty(), []
    edges, findings = link_annotated(chosen, modules)
    return chosen, edges, findings


def _concatenated(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """DISPATCH_EDGES in one frame, categories and all."""
    from rocktools.sources.rocpd.parts import assemble_frame
    from rocktools.workspace.frame_parts import part_of_frame

    return assemble_frame([part_of_frame(part, DISPATCH_EDGES) for part in parts], DISPATCH_EDGES)
