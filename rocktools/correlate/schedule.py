"""Dispatches without annotations -> the HLO instructions that launched them, by the order of the schedule.

The executable launches its thunks in one order, loops unrolled; so the dispatches of each device must follow it.
Kernels that only one instruction has are anchors; library kernels and kernels that instructions share are placed
between them. Devices are independent. All programs are looked for at once, and each dispatch belongs to the one it fits
best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.correlate.device_alignment import DeviceLinks, Schedules, align_device
from rocktools.correlate.dispatch_symbols import build_dispatch_table
from rocktools.correlate.forward_backward import is_compiling
from rocktools.correlate.lane_alignment import AlignmentOptions
from rocktools.correlate.launch_sites import LaunchPlan, build_launch_plan
from rocktools.correlate.schedule_edges import ScheduleLinks, build_schedule_edges
from rocktools.findings import Finding, Severity
from rocktools.hlo.program import CompiledProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAlignment:
    """How the dispatches of one device were read.

    Attributes:
        device: run, process and agent.
        order: `launch`, `start` or `streams`.
        dispatches_count: of the device.
        fit_ratio: linked dispatches, among all between the first and the last of them.
        lost_count: estimate of the dispatches that the trace lost.
    """

    device: str
    order: str
    dispatches_count: int
    fit_ratio: float
    lost_count: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alignment:
    """What schedule alignment found.

    Attributes:
        edges: DISPATCH_EDGES, one row per dispatch.
        findings: programs that do not fit, clocks that disagree, dumps without a thunk sequence.
        devices: how each device was read.
    """

    edges: pd.DataFrame
    findings: tuple[Finding, ...]
    devices: tuple[DeviceAlignment, ...]


def align_dispatches(
    dispatches: pd.DataFrame, program: CompiledProgram, options: AlignmentOptions | None = None
) -> Alignment:
    """The instruction that launched each dispatch, where one program ran.

    Args:
        dispatches: DISPATCHES.
        program: with its thunk sequence.
        options: thresholds and effort; None for the usual ones.

    Raises:
        MissingExtra: compiled loops are wanted, and numba is not installed.
    """
    return align_programs(dispatches, [program], options)


def align_programs(
    dispatches: pd.DataFrame, programs: Sequence[CompiledProgram], options: AlignmentOptions | None = None
) -> Alignment:
    """The instruction that launched each dispatch, where several programs ran.

    Args:
        dispatches: DISPATCHES.
        programs: those that may have run. One without a thunk sequence takes no part.
        options: thresholds and effort; None for the usual ones.

    Raises:
        MissingExtra: compiled loops are wanted, and numba is not installed.
    """
    options = options or AlignmentOptions()
    compile_loops = is_compiling() if options.compile_loops is None else options.compile_loops
    findings = [_no_sequence(program) for program in programs if program.thunks is None]
    plans, too_long = _plans_within(programs, options.most_sites_count)
    findings += [_too_long(program, options.most_sites_count) for program in too_long]
    table = build_dispatch_table(dispatches)
    depth = max((len(site.loops) for plan in plans for site in plan.sites), default=0)
    links = ScheduleLinks.empty(table.symbol_of.size, depth)
    devices: list[DeviceAlignment] = []
    if plans and table.symbol_of.size:
        schedules = Schedules.of(plans, table.symbols)
        for device, rows in table.rows_by_device():
            found = align_device(schedules, table, rows, options, compile_loops=compile_loops, where=device)
            _store(links, found)
            findings += found.findings
            devices.append(
                DeviceAlignment(
                    device=device,
                    order=found.order.value,
                    dispatches_count=rows.size,
                    fit_ratio=found.fit_ratio,
                    lost_count=found.lost_count,
                )
            )
    edges = build_schedule_edges(dispatches, links, plans, table.device_of)
    return Alignment(edges=edges, findings=tuple(findings), devices=tuple(devices))


def _plans_within(
    programs: Sequence[CompiledProgram], most_sites: int
) -> tuple[list[LaunchPlan], list[CompiledProgram]]:
    """Plans of the programs, in their order; and those that are too long to be looked for beside the ones before."""
    plans: list[LaunchPlan] = []
    too_long: list[CompiledProgram] = []
    for program in programs:
        plan = build_launch_plan(program)
        if plan is None:
            continue
        if sum(len(each.sites) for each in plans) + len(plan.sites) > most_sites:
            too_long.append(program)
        else:
            plans.append(plan)
    return plans, too_long


def _store(links: ScheduleLinks, found: DeviceLinks) -> None:
    """Put the links of one device where they belong."""
    for part in found.parts:
        rows, lane = part.rows, part.links
        graph = lane.graph
        has_site = lane.site >= 0
        site = np.where(has_site, lane.site, 0)
        links.program[rows] = np.where(has_site, graph.program_of[site], -1)
        links.site[rows] = np.where(has_site, graph.number_of[site], -1)
        links.label[rows], links.ratio[rows], links.is_own[rows] = lane.label, lane.ratio, lane.is_own
        iterations = lane.iterations
        links.execution[rows], links.is_sure[rows] = iterations.execution, iterations.is_sure
        links.counters[rows, : iterations.counters.shape[1]] = iterations.counters
        for place, candidates in lane.candidates.items():
            links.candidates[int(rows[place])] = tuple(
                (int(graph.program_of[state]), int(graph.number_of[state]), ratio) for state, ratio in candidates
            )
        if found.misfits:
            links.demote(rows[np.isin(links.program[rows], list(found.misfits))])


def _too_long(program: CompiledProgram, most_sites: int) -> Finding:
    return Finding(
        rule="program-too-long",
        severity=Severity.WARNING,
        where=program.module.source,
        message=f"{program.module.name} was not looked for: with the programs before it, it has more than "
        f"{most_sites:,} launch sites",
        numbers={"most_sites_count": most_sites},
        advice="hand in only the programs that ran, the longest first",
    )


def _no_sequence(program: CompiledProgram) -> Finding:
    return Finding(
        rule="program-without-thunks",
        severity=Severity.WARNING,
        where=program.module.source,
        message=f"{program.module.name} has no thunk sequence: its dispatches cannot be placed by their order",
        advice="dump it with --xla_dump_to, which writes *.thunk_sequence.txt and *.thunk_metadata.txt",
    )
