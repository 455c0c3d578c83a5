"""Device planes -> PROFILED_DEVICES: what the profile says of each GPU, and what was recorded on it.

Times are added up in picoseconds, as they were recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rocktools.frames import PROFILED_DEVICES
from rocktools.intervals import union_length
from rocktools.sources.rocpd.facts import int_column
from rocktools.sources.rocpd.parts import Part, assemble_frame, label_constant
from rocktools.sources.xspace.event_rows import label_hosts, timed_events
from rocktools.sources.xspace.events import PS_PER_NS
from rocktools.sources.xspace.opening import XSpaceFile
from rocktools.sources.xspace.plane import Plane
from rocktools.sources.xspace.raw_lines import device_planes, has_instructions, raw_lines
from rocktools.sources.xspace.wire import WireError

_HZ_PER_KHZ = 1000
_AMD = "AMD"
# XLA's ROCm backend reports the digits of the gfx name as compute capability; these two are of one GPU only.
_ARCHS = {(9, 4): "gfx942", (9, 5): "gfx950"}
# Recorded statistic -> column.
_FACTS = {"core_count": "cu_count", "memory_size": "memory_bytes", "memory_bandwidth": "memory_bytes_per_s"}
_LONGEST_SPAN_NS = 2**62 // PS_PER_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Activity:
    """What was recorded on the raw lines of a plane."""

    lines_count: int = 0
    events_count: int = 0
    annotated_count: int = 0
    start_ns: int | None = None
    end_ns: int | None = None
    sum_ps: int = 0
    union_ps: int = 0


def read_profiled_devices(files: Sequence[XSpaceFile], *, run: str) -> pd.DataFrame:
    """PROFILED_DEVICES of the profiles of one run, mostly one for each host.

    Args:
        run: label of the run.

    Raises:
        DamagedFile: bytes that are no events.
    """
    parts = []
    for host, file in label_hosts(files):
        parts += profiled_device_parts(file, run=run, host=host)
    return assemble_frame(parts, PROFILED_DEVICES)


def profiled_device_parts(file: XSpaceFile, *, run: str, host: str) -> list[Part]:
    """Rows of PROFILED_DEVICES, one part for each device.

    Raises:
        DamagedFile: bytes that are no events.
    """
    return [_row(run, host, label, plane) for label, plane in device_planes(file.planes)]


def _row(run: str, host: str, label: str, plane: Plane) -> Part:
    activity = _measure(plane)
    clock_khz = _integer(plane, "clock_rate")
    part: dict[str, Any] = {
        "run": label_constant(run, 1),
        "host": label_constant(host, 1),
        "device": label_constant(label, 1),
        "arch": label_constant(_arch(plane), 1),
        "vendor": label_constant(_text(plane, "device_vendor"), 1),
        "clock_hz": int_column([None if clock_khz is None else clock_khz * _HZ_PER_KHZ]),
        **{column: int_column([_integer(plane, stat)]) for stat, column in _FACTS.items()},
        "lines_count": int_column([activity.lines_count]),
        "events_count": int_column([activity.events_count]),
        "annotated_count": int_column([activity.annotated_count]),
        "start_ns": int_column([activity.start_ns]),
        "end_ns": int_column([activity.end_ns]),
        "sum_ps": int_column([activity.sum_ps]),
        "union_ps": int_column([activity.union_ps]),
    }
    return {name: part[name] for name in PROFILED_DEVICES.names}


def _measure(plane: Plane) -> _Activity:
    lines = [line for _, line in raw_lines(plane)]
    events_count = annotated_count = 0
    starts, ends, sums = [], [], 0
    base_ns = min((line.timestamp_ns for line in lines), default=0)
    for line in lines:
        events, _ = timed_events(line, ["hlo_op"])
        events_count += len(events)
        annotated_count += int((events.stat("hlo_op").labels().codes >= 0).sum())
        if has_instructions(line):  # the other lines of a TPU's plane span these
            if line.timestamp_ns - base_ns > _LONGEST_SPAN_NS:
                raise line.damaged(WireError(line.start, f"it starts at {line.timestamp_ns} ns, another at {base_ns}"))
            starts.append(events.offset_ps + (line.timestamp_ns - base_ns) * PS_PER_NS)
            ends.append(starts[-1] + events.duration_ps)
            sums += int(events.duration_ps.sum())
    start, end = (np.concatenate([np.zeros(0, dtype=np.int64), *pieces]) for pieces in (starts, ends))
    return _Activity(
        lines_count=len(lines),
        events_count=events_count,
        annotated_count=annotated_count,
        start_ns=base_ns + int(start.min()) // PS_PER_NS if len(start) else None,
        end_ns=base_ns + int(end.max()) // PS_PER_NS if len(end) else None,
        sum_ps=sums,
        union_ps=union_length(start, end),
    )


def _arch(plane: Plane) -> str | None:
    recorded = _text(plane, "gpu_device_name")
    if recorded is not None or _text(plane, "device_vendor") != _AMD:
        return recorded
    capability = (_integer(plane, "compute_cap_major"), _integer(plane, "compute_cap_minor"))
    return _ARCHS.get(capability)  # type: ignore[arg-type]  # None is no key


def _integer(plane: Plane, name: str) -> int | None:
    value = plane.stats.get(name)
    return value if isinstance(value, int) and 0 < value < 2**63 else None  # 0 is a fact the profiler did not get


def _text(plane: Plane, name: str) -> str | None:
    value = plane.stats.get(name)
    return value or None if isinstance(value, str) else None
