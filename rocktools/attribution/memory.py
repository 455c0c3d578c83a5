"""Device memory, static and dynamic, side by side: what the compiler reserved, and the most that was allocated.

Two different things: the compiler's figure is of one program, the allocator's of everything on the device, pools that
frameworks reserve in advance included. Both are per device. What counts is the device with most: a sum over devices
says nothing about whether a shard fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.hlo.memory_reports import BufferAssignment
from rocktools.timeline.activities import labels_column

_RELEASES = frozenset({"FREE", "RECLAIM"})

HIGH_WATER = FrameSpec(
    name="HIGH_WATER",
    meaning="One row per device: the most memory that was allocated at one time, and what the compiler reserved.",
    key=("run", "device"),
    sort=("run", "device"),
    columns=(
        Column("run", "category", "label of the run"),
        Column("device", "category", "label of the device, as in AGENTS"),
        Column("allocated_bytes", "int64", "most that allocations in the trace held at one time"),
        Column("peak_ns", "int64", "when that was, trace clock"),
        Column("allocations_count", "int64", "allocations on the device"),
        Column("unreleased_bytes", "int64", "still allocated at the end of the trace"),
        Column("reserved_bytes", "Int64", "what the program takes by its buffer assignment", "no report was given"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceMemory:
    """What is known about device memory.

    Attributes:
        frame: HIGH_WATER.
        critical_device: the device with most; None where no allocation was recorded.
        highest_bytes: of that device; None likewise.
        findings: what makes the figures too small or too large.
    """

    frame: pd.DataFrame
    critical_device: str | None
    highest_bytes: int | None
    findings: tuple[Finding, ...]


def find_high_water(
    allocations: pd.DataFrame, agents: pd.DataFrame, assignment: BufferAssignment | None = None
) -> DeviceMemory:
    """The high-water mark of each GPU.

    Allocations that began before the trace did are not in it, so the figure is a lower bound.

    Args:
        allocations: ALLOCATIONS. Virtual address ranges and scratch are left out: the first take no memory, the second
            is not allocated by the job.
        agents: AGENTS with its key, `device` and `kind`.
        assignment: of the program that ran; None: unknown.
    """
    keys = ("run", "process", "agent_id", "kind", "device")
    gpus = {
        (run, process, int(agent)): str(device)
        for run, process, agent, kind, device in zip(*(agents[name] for name in keys), strict=True)
        if kind == "GPU"
    }
    held: dict[tuple[str, str], _Held] = {}
    owners: dict[tuple[Any, Any, int] | None, tuple[tuple[str, str], int]] = {}
    unknown_count = 0
    columns = ("run", "process", "kind", "level", "start_ns", "size_bytes", "address", "agent_id")
    ordered = allocations.sort_values(["start_ns", "run", "process", "allocation_id"], kind="stable")
    for run, process, kind, level, start_ns, size, address, agent in zip(
        *(ordered[name].tolist() for name in columns), strict=True
    ):
        if level in ("VIRTUAL", "SCRATCH"):
            continue
        place = None if pd.isna(address) else (run, process, int(address))
        if kind in _RELEASES:
            if place is None or place not in owners:
                unknown_count += 1
                continue
            owner, released = owners.pop(place)
            held[owner].now -= released
        elif not pd.isna(agent) and not pd.isna(size) and (run, process, int(agent)) in gpus:
            if place in owners:  # a reallocation, or an address whose release was not recorded
                owner, released = owners.pop(place)
                held[owner].now -= released
            owner = (str(run), gpus[run, process, int(agent)])
            held.setdefault(owner, _Held()).allocate(int(size), int(start_ns))
            if place is not None:
                owners[place] = (owner, int(size))
    frame = _frame(held, assignment)
    critical = max(sorted(held), key=lambda owner: held[owner].most) if held else None
    return DeviceMemory(
        frame=frame,
        critical_device=critical[1] if critical else None,
        highest_bytes=held[critical].most if critical else None,
        findings=_unknown_finding(unknown_count),
    )


@dataclass(slots=True)
class _Held:
    """A device's allocations while they are gone through."""

    now: int = 0
    most: int = 0
    most_ns: int = 0
    count: int = 0

    def allocate(self, size: int, time_ns: int) -> None:
        self.now += size
        self.count += 1
        if self.now > self.most:
            self.most, self.most_ns = self.now, time_ns


def _frame(held: dict[tuple[str, str], _Held], assignment: BufferAssignment | None) -> pd.DataFrame:
    owners = sorted(held)
    rows = [held[owner] for owner in owners]
    reserved = np.full(len(rows), assignment.total_bytes if assignment else 0, dtype=np.int64)
    frame = pd.DataFrame(
        {
            "run": labels_column([run for run, _ in owners]),
            "device": labels_column([device for _, device in owners]),
            "allocated_bytes": np.array([row.most for row in rows], dtype=np.int64),
            "peak_ns": np.array([row.most_ns for row in rows], dtype=np.int64),
            "allocations_count": np.array([row.count for row in rows], dtype=np.int64),
            "unreleased_bytes": np.array([row.now for row in rows], dtype=np.int64),
            "reserved_bytes": nullable_int64(reserved, np.full(len(rows), assignment is None)),
        }
    )
    return require_frame(frame, HIGH_WATER)


def _unknown_finding(count: int) -> tuple[Finding, ...]:
    if count == 0:
        return ()
    return (
        Finding(
            rule="release-without-allocation",
            severity=Severity.NOTE,
            where="ALLOCATIONS",
            message=f"{count} releases are of memory that was allocated before the trace began, or on the host: "
            "the high-water mark is a lower bound",
            numbers={"releases_count": count},
        ),
    )
