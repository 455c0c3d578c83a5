"""Which planes are devices and hosts, and which lines hold what was recorded rather than what a converter derived.

Saved profiles of GPUs hold streams only. Converters add lines (`XLA Modules`, `Steps`, ...) that merge neighbouring
events and so count gaps as work; they number them from 0xdeadbeef. Profiles of TPUs have lines of the same names as
recorded ones, so a name says nothing without the plane.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rocktools.sources.xspace.plane import Line, Plane

FIRST_DERIVED_ID = 0xDEADBEEF
# tsl/profiler and xprof: names of the lines that a converter adds to a GPU's plane.
_DERIVED_NAMES = (
    "Steps",
    "Launch Stats",
    "Framework Name Scope",
    "Framework Ops",
    "TensorFlow Name Scope",
    "TensorFlow Ops",
    "XLA Modules",
    "XLA Ops",
    "XLA TraceMe",
    "Source code",
    "Source Code",
    "HLO Modules",
    "HLO Ops",
)
_DERIVED_FROM_STREAM = re.compile(rf"(?:{'|'.join(_DERIVED_NAMES)}) - from #.*")
_STREAM = re.compile(r"Stream #(\d+)")
_GPU_PLANE, _TPU_PLANE, _HOST_PLANE = "/device:GPU:", "/device:TPU:", "/host:"
# Lines of a TPU's plane whose events are instructions; the others span them, or count something.
_TPU_INSTRUCTIONS = frozenset({"XLA Ops", "Async XLA Ops"})
_DIGITS = re.compile(r"(\d+)")


def is_gpu_plane(plane: Plane) -> bool:
    """Whether it is the plane of a GPU."""
    return plane.name.startswith(_GPU_PLANE)


def device_planes(planes: Sequence[Plane]) -> list[tuple[str, Plane]]:
    """Label and plane of each GPU and TPU, also of those without events, in the order of their numbers."""
    return _labelled(plane for plane in planes if plane.name.startswith((_GPU_PLANE, _TPU_PLANE)))


def host_planes(planes: Sequence[Plane]) -> list[tuple[str, Plane]]:
    """Label and plane of each plane of host threads: one, or one for each tracer where they were not merged."""
    return _labelled(plane for plane in planes if plane.name.startswith(_HOST_PLANE) and plane.lines)


def _labelled(planes) -> list[tuple[str, Plane]]:  # type: ignore[no-untyped-def]
    ordered = sorted(planes, key=lambda plane: natural_order(plane.name))
    times = Counter(plane.name for plane in ordered)
    seen: Counter[str] = Counter()
    labelled = []
    for plane in ordered:
        seen[plane.name] += 1
        # One plane comes twice where profiles were put together by appending their bytes.
        label = plane.name if times[plane.name] == 1 else f"{plane.name}#{seen[plane.name]}"
        labelled.append((label, plane))
    return labelled


def is_derived(line: Line) -> bool:
    """Whether a converter added the line to a GPU's plane. Thread ids may be any number, so of hosts none is."""
    if not is_gpu_plane(line.plane) or _STREAM.match(line.name):
        return False
    return (
        line.id % 2**64 >= FIRST_DERIVED_ID
        or line.name in _DERIVED_NAMES
        or _DERIVED_FROM_STREAM.fullmatch(line.name) is not None
    )


def raw_lines(plane: Plane) -> list[tuple[str, Line]]:
    """Label and line of each recorded line that has events, in the order of their labels."""
    lines = [line for line in plane.lines if line.has_events and not is_derived(line)]
    times = Counter(line.name for line in lines)
    seen: Counter[tuple[str, int]] = Counter()
    labelled = []
    for line in lines:
        label = line.name if times[line.name] == 1 else f"{line.name}#{line.id}"
        seen[label, line.id] += 1
        if seen[label, line.id] > 1:
            label = f"{label}#{seen[label, line.id]}"
        labelled.append((label, line))
    return sorted(labelled, key=lambda pair: natural_order(pair[0]))


def has_instructions(line: Line) -> bool:
    """Whether the line's events are executions on the device, rather than spans over them or counters."""
    return is_gpu_plane(line.plane) or line.name in _TPU_INSTRUCTIONS


def stream_number(line: Line) -> int | None:
    """The number in `Stream #2` or `Stream #17(Kernel)`: a HIP stream in new profiles, a hardware queue in old ones."""
    match = _STREAM.match(line.name)
    return int(match.group(1)) if match else None


def natural_order(text: str) -> tuple[tuple[int, int | str], ...]:
    """A key that puts `GPU:2` before `GPU:10`."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in _DIGITS.split(text))
