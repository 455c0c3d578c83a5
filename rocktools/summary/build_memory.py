"""Reports of XLA and allocations of traces -> the block of memory, by the functions behind `rocktools memory`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rocktools.attribution.memory import find_high_water
from rocktools.errors import InputError
from rocktools.evidence import Absence, Evidence
from rocktools.findings import Finding
from rocktools.summary.document import (
    AllocatorPeak,
    DeviceHighWater,
    LiveValue,
    MemoryBlock,
    Missing,
    ProgramReserve,
)
from rocktools.summary.gathered import Gathered
from rocktools.summary.rows import build_rows
from rocktools.workspace.device_memory import (
    ReportedMemory,
    buffers_frame,
    program_memory_frame,
    read_reported_memory,
)

_LIVE_COUNT = 50
_RESERVED = dict.fromkeys(
    (
        *("total_bytes", "argument_bytes", "output_bytes", "alias_bytes", "temporary_bytes", "constant_bytes"),
        *("live_bytes", "held_bytes", "size_bytes", "reserved_bytes"),
    ),
    Evidence.COMPILER_ESTIMATE,
)


def build_memory(
    gathered: Gathered, paths: Sequence[str | Path], programs: Sequence[str | Path]
) -> tuple[MemoryBlock | Missing, tuple[Finding, ...]]:
    """What programs reserve, and what was allocated.

    Args:
        paths: that the user named; programs: dumps of XLA, besides.
    """
    try:
        reported = read_reported_memory([*paths, *programs])
    except InputError as error:
        reported = ReportedMemory(programs=(), findings=())
        reason = error.what
    else:
        reason = "there is no buffer assignment of a program, and no allocation in a trace"
    largest = reported.programs[0].assignment if reported.programs else None
    devices = find_high_water(gathered.allocations, gathered.agents, largest)
    if not (reported.programs or len(devices.frame) or len(gathered.allocators)):
        return Missing(absence=Absence.NOT_COLLECTED, reason=reason), ()
    block = MemoryBlock(
        evidence=Evidence.MEASURED,
        evidence_of=_RESERVED,
        highest_bytes=devices.highest_bytes,
        critical_device=devices.critical_device,
        programs=build_rows(ProgramReserve, program_memory_frame(reported.programs)),
        live=build_rows(LiveValue, buffers_frame(reported.programs[:1], is_at_peak=True).head(_LIVE_COUNT)),
        devices=build_rows(DeviceHighWater, devices.frame),
        allocators=build_rows(AllocatorPeak, gathered.allocators),
    )
    return block, (*reported.findings, *devices.findings)
