"""Profiles of the CPU backend -> what threads of the host ran, in the shape of dispatches and their links.

There the host is the device: XLA's threads run instructions one by one, several at a time, and the profiler names each.
All threads of a host are one device, so durations added up are time of threads, and unions are time on the clock. The
event of a loop lasts as long as everything in it, which has events of its own: it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.correlate.edges import find_edges
from rocktools.findings import Finding, Severity
from rocktools.frames import AGENTS, DISPATCH_EDGES, DISPATCHES, EVENT_EDGES, FrameSpec, require_frame
from rocktools.timeline.activities import labels_column
from rocktools.units import count_noun
from rocktools.workspace.links import LinkedRun

_AGENT_ID = 0
_CONTROL = ("while", "conditional", "call")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostWork:
    """What ran on hosts.

    Attributes:
        dispatches: DISPATCHES: one row per instruction that a thread ran, numbered by start within its host.
        edges: DISPATCH_EDGES of them.
        agents: AGENTS: each host as one device.
        findings: that it is no GPU.
    """

    dispatches: pd.DataFrame
    edges: pd.DataFrame
    agents: pd.DataFrame
    findings: tuple[Finding, ...]


def find_host_work(runs: Sequence[LinkedRun]) -> HostWork | None:
    """The instructions that threads of hosts ran; None where no profile has any."""
    found = [_linked_events(run) for run in runs if len(run.host_events)]
    if not found:
        return None
    events, edges = (pd.concat(frames, ignore_index=True) for frames in zip(*found, strict=True))
    places = [events[name].astype(str) for name in ("host", "run")]
    order = np.lexsort((events["event_index"], events["start_ns"], *places))
    events, edges = events.iloc[order].reset_index(drop=True), edges.iloc[order].reset_index(drop=True)
    numbers = events.groupby(["run", "host"], sort=False).cumcount().to_numpy(dtype=np.int64)
    key = {"run": labels_column(events["run"]), "process": labels_column(events["host"])}
    names = labels_column(events["event_name"].astype(object))
    given: dict[str, Any] = {
        "dispatch_id": numbers,
        "agent_id": np.full(len(events), _AGENT_ID, dtype=np.int64),
        "kernel_id": np.zeros(len(events), dtype=np.int64),
        "kernel_name": names,
        "raw_kernel_name": names,
        "start_ns": events["start_ns"].to_numpy(dtype=np.int64),
        "end_ns": events["end_ns"].to_numpy(dtype=np.int64),
    }
    shared = [name for name in EVENT_EDGES.names if name in DISPATCH_EDGES.names and name != "run"]
    links = {name: _labels(edges[name]) for name in shared}
    hosts = events[["run", "host"]].drop_duplicates()
    agents: dict[str, Any] = {
        "run": labels_column(hosts["run"]),
        "process": labels_column(hosts["host"]),
        "agent_id": np.full(len(hosts), _AGENT_ID, dtype=np.int64),
        "device": labels_column([f"{host}:cpu" for host in hosts["host"]]),
        "kind": labels_column(["CPU"] * len(hosts)),
    }
    return HostWork(
        dispatches=_filled({**key, **given}, DISPATCHES, len(events)),
        edges=_filled(
            {**key, "dispatch_id": numbers, **links, "is_iteration_sure": np.zeros(len(events), dtype=np.bool_)},
            DISPATCH_EDGES,
            len(events),
        ),
        agents=_filled(agents, AGENTS, len(hosts)),
        findings=(_host_finding(events),),
    )


def _linked_events(run: LinkedRun) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The events of a run, without those of loops and calls, and the edge of each in their order."""
    edges = run.host_edges.iloc[find_edges(run.host_edges, run.host_events, EVENT_EDGES.key)]
    is_kept = ~_enclosing(run, edges)
    return run.host_events[is_kept].astype({"run": object, "host": object}), edges[is_kept]


def _enclosing(run: LinkedRun, edges: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which events are of loops and calls whose inside was recorded too: their time is counted there."""
    names = list(zip(edges["program_id"].astype(str), edges["instruction"].astype(str), strict=True))
    recorded = set(names)
    modules = {program.program_id: program.program.module for program in run.programs}
    enclosing = set()
    for program_id, name in recorded:
        module = modules.get(program_id)
        instruction = None if module is None else module.instructions.get(name)
        if module is None or instruction is None or instruction.opcode not in _CONTROL:
            continue
        inside = (each.name for called in instruction.called for each in module.computations[called].instructions)
        if any((program_id, each) in recorded for each in inside):
            enclosing.add((program_id, name))
    return np.array([name in enclosing for name in names], dtype=np.bool_)


def _labels(column: pd.Series) -> Any:
    is_category = isinstance(column.dtype, pd.CategoricalDtype) or column.dtype == object
    return labels_column(column.astype(object)) if is_category else column.array


def _filled(given: dict[str, Any], spec: FrameSpec, rows_count: int) -> pd.DataFrame:
    """The frame with what is given; everything else was not recorded."""
    columns = {}
    for column in spec.columns:
        if column.name in given:
            columns[column.name] = given[column.name]
        elif column.dtype == "category":
            columns[column.name] = pd.Categorical([None] * rows_count, categories=pd.Index([], dtype=object))
        else:
            columns[column.name] = pd.array([pd.NA] * rows_count, dtype=column.dtype)
    return require_frame(pd.DataFrame(columns), spec)


def _host_finding(events: pd.DataFrame) -> Finding:
    hosts = sorted({str(host) for host in events["host"]})
    threads = count_noun(len(events[["run", "host", "line"]].drop_duplicates()), "thread")
    return Finding(
        rule="work-of-the-cpu-backend",
        severity=Severity.NOTE,
        where=", ".join(hosts),
        message=f"no GPU ran anything: {count_noun(len(events), 'instruction')} that {threads} of the host ran are "
        "taken; sums are time of threads, and only unions compare with the clock",
        numbers={"instructions_count": len(events)},
    )
