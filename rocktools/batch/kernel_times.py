"""Traces, or the plan of a batch -> how long a launch of each kernel takes in the job. Never the counter passes.

The mean over all launches: rates are sum over sum then. Kernels that overlap others are slower than alone, and that is
their time in the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rocktools.batch.plan import PlannedKernel
from rocktools.errors import NothingToRead
from rocktools.findings import Finding
from rocktools.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """How long a kernel takes.

    Attributes:
        mean_ns: of a launch.
        launches_count: that it is the mean of.
        source: what says so.
    """

    mean_ns: float
    launches_count: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracedTimes:
    """Times of all kernels of some traces.

    Attributes:
        by_kernel: kernel name -> its time.
        findings: of the files.
        is_simulated: whether no hardware produced them.
    """

    by_kernel: Mapping[str, KernelTime]
    findings: tuple[Finding, ...] = ()
    is_simulated: bool = False


def read_times(traces: Sequence[str | Path]) -> TracedTimes:
    """The times of the kernels in traces; nothing where none is named.

    Raises:
        InputError: a trace cannot be read.
        NothingToRead: there is no dispatch in them: counter passes have no time.
    """
    if not traces:
        return TracedTimes(by_kernel={})
    with Workspace.open(traces) as workspace:
        dispatches = workspace.dispatches(["kernel_name", "start_ns", "end_ns"])
        findings, is_simulated = tuple(workspace.findings), workspace.is_simulated
    if dispatches.empty:
        raise NothingToRead(
            "no-dispatches-in-trace",
            "there is no dispatch of a trace in it; those of counter passes run one at a time and give no time",
            where=", ".join(map(str, traces[:3])),
            hint="rocktools trace -o DIR -- CMD...",
        )
    durations = dispatches["end_ns"] - dispatches["start_ns"]
    groups = pd.DataFrame({"name": dispatches["kernel_name"].astype(str), "ns": durations}).groupby("name")["ns"]
    table = groups.agg(["mean", "count"])
    return TracedTimes(
        by_kernel={
            str(name): KernelTime(mean_ns=float(mean), launches_count=int(count), source="trace")
            for name, mean, count in zip(table.index, table["mean"], table["count"], strict=True)
        },
        findings=findings,
        is_simulated=is_simulated,
    )


def time_of(kernel: str, traced: TracedTimes, planned: PlannedKernel | None) -> KernelTime | None:
    """The time of a kernel: by the traces that were named, else by the plan of its batch."""
    found = traced.by_kernel.get(kernel)
    if found is not None:
        return found
    if planned is None or not planned.total_ns or not planned.dispatches_count:
        return None
    mean_ns = planned.total_ns / planned.dispatches_count
    return KernelTime(mean_ns=mean_ns, launches_count=planned.dispatches_count, source="trace of the plan")
