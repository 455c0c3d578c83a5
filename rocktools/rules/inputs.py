"""What the checks look at. Everything may be missing; `absences` says why, so that a rule that cannot say can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from rocktools.devices.device import Device
from rocktools.hlo.memory_reports import BufferAssignment
from rocktools.hlo.module import HloModule
from rocktools.rules.claims import Claims
from rocktools.timeline.late_rank import LateRanks

INPUT_MEANINGS = {
    "rows": "kernels and copies of the steps that count",
    "step_times": "steps, with when they began and ended on each device",
    "reconciliation": "what ran at once in each step",
    "gaps": "times in which a device did nothing",
    "launches": "calls of the host that launched kernels",
    "host_events": "events of the host in a JAX profile",
    "host_calls": "calls of the host in a rocprofv3 trace",
    "ranges": "roctx ranges",
    "exposure": "communication, and how much of it nothing hid",
    "skew": "collectives matched across devices",
    "late_ranks": "verdicts on which device is late",
    "rates": "payload and bandwidth of collectives",
    "programs": "compiled programs",
    "kernel_work": "what the instruction of each kernel does",
    "points": "roofline points by instruction",
    "device": "peaks of the GPU",
    "assignments": "buffer assignments of XLA",
    "graph_launches": "which kernels a HIP graph launched",
    "devices_count": "devices that ran something",
    "participants_count": "participants of the largest program",
    "claims": "declared results",
}
"""Attribute of `RuleInputs` -> what it is, for people."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuleInputs:
    """Frames and documents of one question; None where there is none.

    Attributes:
        rows: ATTRIBUTED of the steps that count.
        step_times: STEP_TIMES of all steps that were found.
        reconciliation: RECONCILIATION of the steps that count.
        gaps: GAPS that end in a step that counts.
        launches: LAUNCHES.
        host_events: HOST_EVENTS of JAX profiles.
        host_calls: HOST_CALLS of rocprofv3 traces.
        ranges: RANGES.
        exposure: EXPOSURE of the steps that count.
        skew: COLLECTIVE_SKEW of the steps that count.
        late_ranks: verdicts for hosts with several devices.
        rates: COLLECTIVE_RATES of the steps that count.
        programs: compiled programs that have a kernel in the trace, the one with most time first.
        kernel_work: KERNEL_WORK of those programs.
        points: ROOFLINE by instruction, by the estimates of the program or by counters.
        device: whose peaks hold.
        assignments: program -> its buffer assignment.
        graph_launches: GRAPH_LAUNCHES of the steps that count.
        devices_count: devices that ran something in the trace.
        participants_count: devices that the program with most time was compiled for.
        gpus_count: host -> GPUs of the node.
        claims: declared results.
        absences: attribute -> why it is None.
    """

    rows: pd.DataFrame | None = None
    step_times: pd.DataFrame | None = None
    reconciliation: pd.DataFrame | None = None
    gaps: pd.DataFrame | None = None
    launches: pd.DataFrame | None = None
    host_events: pd.DataFrame | None = None
    host_calls: pd.DataFrame | None = None
    ranges: pd.DataFrame | None = None
    exposure: pd.DataFrame | None = None
    skew: pd.DataFrame | None = None
    late_ranks: LateRanks | None = None
    rates: pd.DataFrame | None = None
    programs: tuple[HloModule, ...] | None = None
    kernel_work: pd.DataFrame | None = None
    points: pd.DataFrame | None = None
    device: Device | None = None
    assignments: Mapping[str, BufferAssignment] | None = None
    graph_launches: pd.DataFrame | None = None
    devices_count: int | None = None
    participants_count: int | None = None
    gpus_count: Mapping[str, int] = field(default_factory=dict)
    claims: Claims | None = None
    absences: Mapping[str, str] = field(default_factory=dict)

    def reason_for(self, name: str) -> str:
        """Why an attribute is None, in words."""
        return self.absences.get(name) or f"there are no {INPUT_MEANINGS[name]}"
