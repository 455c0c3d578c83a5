"""The runs of a workspace -> every kernel and copy in its bucket, and the steps they belong to.

Where a run has no compiled program, its kernels stay unattributed, and what can be told by their names alone is told.
Where no GPU ran anything, the instructions that the CPU backend ran stand in for kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from rocktools.attribution.attribute import attribute_dispatches
from rocktools.attribution.classify import Bucket, classify_instructions
from rocktools.attribution.collective_groups import label_replica_groups
from rocktools.attribution.collective_rates import COLLECTIVE_RATES, measure_collectives
from rocktools.attribution.components import ComponentMap
from rocktools.errors import NothingToRead
from rocktools.findings import Finding, Severity
from rocktools.frames import ATTRIBUTED, DISPATCH_EDGES, DISPATCHES, INSTRUCTIONS, FrameSpec
from rocktools.hlo.instructions import build_instructions
from rocktools.sources.rocpd.parts import assemble_frame
from rocktools.timeline.clocks import host_of
from rocktools.timeline.grouping import match_rows
from rocktools.timeline.launches import LAUNCHES, launches_of_calls, launches_of_profile
from rocktools.timeline.step_rows import StepSources, step_rows
from rocktools.timeline.steps import StepFindings, StepOptions, find_steps
from rocktools.workspace.frame_parts import part_of_frame
from rocktools.workspace.host_work import find_host_work
from rocktools.workspace.links import LinkedRun, link_runs
from rocktools.workspace.programs import FoundProgram
from rocktools.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionOptions:
    """What the user may choose.

    Attributes:
        hlo: files or folders with the compiled programs; () looks for them in the runs.
        component_map: how scopes become components.
        steps: how steps are found.
    """

    component_map: ComponentMap
    hlo: tuple[str | Path, ...] = ()
    steps: StepOptions = field(default_factory=StepOptions)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttributedRuns:
    """Everything that ran on the devices, booked.

    Attributes:
        rows: ATTRIBUTED of all runs.
        dispatches: DISPATCHES they are made of.
        edges: DISPATCH_EDGES of those.
        steps: of all runs.
        launches: LAUNCHES; None where no host calls were recorded.
        instructions: INSTRUCTIONS of the programs that have a dispatch.
        classified: run -> program id -> instruction -> bucket.
        programs: run -> the programs that were looked into.
        gpus_count: host, as in labels of devices -> GPUs of the node, whether they ran anything or not.
        findings: what linking, finding steps and booking raised.
    """

    rows: pd.DataFrame
    dispatches: pd.DataFrame
    edges: pd.DataFrame
    steps: StepFindings
    launches: pd.DataFrame | None
    instructions: pd.DataFrame
    classified: dict[str, dict[str, dict[str, Bucket]]]
    programs: dict[str, tuple[FoundProgram, ...]]
    gpus_count: dict[str, int]
    findings: tuple[Finding, ...]

    def with_host_calls(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows of ATTRIBUTED with the `host_call_id` of the call that launched each; missing for copies."""
        keys = pd.DataFrame(
            {"run": rows["run"], "process": rows["process"], "dispatch_id": rows["event_id"]}, copy=False
        )
        at = match_rows(keys, self.dispatches, DISPATCHES.key)
        at = np.where((rows["kind"] == "dispatch").to_numpy(), at, -1)
        return rows.assign(host_call_id=self.dispatches["host_call_id"].array.take(at, allow_fill=True))

    def with_replica_groups(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows of ATTRIBUTED with the `replica_group` of each collective; missing where it is one, or unknown."""
        labels = np.full(len(rows), None, dtype=object)
        for run in sorted({str(name) for name in rows["run"].unique()}):
            modules = {each.program_id: each.program.module for each in reversed(self.programs.get(run, ()))}
            mine = np.flatnonzero((rows["run"] == run).to_numpy())
            found = label_replica_groups(rows.iloc[mine], modules, self.gpus_count)
            labels[mine] = np.asarray(found.astype(object))
        return rows.assign(replica_group=pd.Categorical(labels))

    def collective_rates(self, rows: pd.DataFrame) -> pd.DataFrame:
        """COLLECTIVE_RATES of rows of ATTRIBUTED, each run with its own programs."""
        parts = []
        for label in sorted({str(name) for name in rows["run"].unique()}):
            modules = {each.program_id: each.program.module for each in reversed(self.programs.get(label, ()))}
            parts.append(measure_collectives(_of_run(rows, label), modules))
        return _together([part for part in parts if len(part)], COLLECTIVE_RATES)


def attribute_workspace(workspace: Workspace, options: AttributionOptions) -> AttributedRuns:
    """Every kernel and copy of the workspace in one bucket, with its step.

    Raises:
        InputError: a program that was named cannot be read.
        NothingToRead: there is no dispatch, and nothing that the CPU backend ran.
    """
    dispatches = workspace.dispatches()
    findings: list[Finding] = []
    try:
        runs = link_runs(workspace, options.hlo)
    except NothingToRead as error:
        if options.hlo:
            raise
        runs = []
        findings.append(_no_program(error))
    findings += [finding for run in runs for finding in run.findings]
    agents, launches = workspace.agents(), _launches(workspace)
    edges = _together([run.edges for run in runs], DISPATCH_EDGES)
    if dispatches.empty:
        work = find_host_work(runs)
        if work is None:
            workspace.require_dispatches()
            raise AssertionError("there is no dispatch, and nobody says so")
        dispatches, edges, agents = work.dispatches, work.edges, work.agents
        findings += work.findings
    steps = _find_steps(workspace, step_rows(dispatches, agents, edges), launches, options.steps)
    classified, instructions = _classify(runs, edges, options.component_map)
    rows = []
    for label in sorted({str(name) for name in dispatches["run"].unique()}):
        rows.append(
            attribute_dispatches(
                _of_run(dispatches, label),
                _of_run(edges, label),
                _of_run(agents, label),
                classified.get(label, {}),
                copies=_of_run(workspace.copies(), label),
                steps=_of_run(steps.frame, label),
                instructions=instructions.get(label),
            )
        )
    return AttributedRuns(
        rows=_together(rows, ATTRIBUTED),
        dispatches=dispatches,
        edges=edges,
        steps=steps,
        launches=launches,
        instructions=_together(list(instructions.values()), INSTRUCTIONS),
        classified=classified,
        programs={run.run: run.programs for run in runs},
        gpus_count=_count_gpus(agents),
        findings=(*findings, *steps.findings),
    )


def _count_gpus(agents: pd.DataFrame) -> dict[str, int]:
    """Host, as in labels of devices -> its GPUs, each once however many processes saw it."""
    gpus = {str(device) for device in agents.loc[(agents["kind"] == "GPU").to_numpy(), "device"]}
    return dict(Counter(host_of(device) for device in gpus))


def _find_steps(
    workspace: Workspace, rows: pd.DataFrame, launches: pd.DataFrame | None, options: StepOptions
) -> StepFindings:
    sources = StepSources(
        rows=rows,
        launches=launches,
        host_events=_none_if_empty(workspace.host_events()),
        ranges=_none_if_empty(workspace.ranges()),
    )
    steps = find_steps(sources, options)
    if not workspace.dispatches().empty:
        return steps
    # The threads that were marked are those that ran: nothing had to be carried.
    kept = tuple(finding for finding in steps.findings if finding.rule != "steps-carried-by-time")
    return replace(steps, findings=kept)


def _classify(
    runs: Sequence[LinkedRun], edges: pd.DataFrame, component_map: ComponentMap
) -> tuple[dict[str, dict[str, dict[str, Bucket]]], dict[str, pd.DataFrame]]:
    """Buckets and INSTRUCTIONS of the programs of each run that have a dispatch."""
    classified: dict[str, dict[str, dict[str, Bucket]]] = {}
    instructions: dict[str, pd.DataFrame] = {}
    linked = set(zip(edges["run"].astype(str), edges["program_id"].astype(str), strict=True))
    for run in runs:
        used = [program for program in run.programs if (run.run, program.program_id) in linked]
        modules = [program.program.module for program in used]
        classified[run.run] = {module.label: classify_instructions(module, component_map) for module in modules}
        instructions[run.run] = _together([build_instructions(module) for module in modules], INSTRUCTIONS)
    return classified, instructions


def _launches(workspace: Workspace) -> pd.DataFrame | None:
    found = [launches_of_calls(workspace.host_calls()), launches_of_profile(workspace.host_events())]
    return _none_if_empty(_together([frame for frame in found if len(frame)], LAUNCHES))


def _none_if_empty(frame: pd.DataFrame) -> pd.DataFrame | None:
    return frame if len(frame) else None


def _of_run(frame: pd.DataFrame, label: str) -> pd.DataFrame:
    return frame[frame["run"] == label].reset_index(drop=True)


def _together(frames: Sequence[pd.DataFrame], spec: FrameSpec) -> pd.DataFrame:
    if len(frames) == 1:
        return frames[0]
    return assemble_frame([part_of_frame(frame, spec) for frame in frames], spec)


def _no_program(error: NothingToRead) -> Finding:
    return Finding(
        rule="no-program-to-attribute",
        severity=Severity.WARNING,
        where=error.where or "",
        message=f"{error.what}; kernels have no phase and no component, communication is told by the names of kernels",
        advice=error.hint or "",
    )
