"""Lines of host planes -> HOST_EVENTS: annotations, HIP calls, and on CPUs the HLO instructions themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from rocktools.frames import HOST_EVENTS
from rocktools.sources.rocpd.parts import Part, assemble_frame
from rocktools.sources.xspace.event_rows import (
    ANNOTATION_STATS,
    annotation_columns,
    join_parts,
    key_columns,
    label_hosts,
    time_columns,
    timed_events,
)
from rocktools.sources.xspace.opening import XSpaceFile
from rocktools.sources.xspace.plane import Line
from rocktools.sources.xspace.raw_lines import host_planes, raw_lines

# jax.profiler.StepTraceAnnotation writes it, with `_r` = 1 (the root of what is launched below it) beside it.
_STEP_STAT = "step_num"


def read_host_events(files: Sequence[XSpaceFile], *, run: str, columns: Iterable[str] | None = None) -> pd.DataFrame:
    """HOST_EVENTS of the profiles of one run, mostly one for each host.

    Args:
        run: label of the run.
        columns: columns wanted beside the key; None for all.

    Raises:
        DamagedFile: bytes that are no events.
    """
    selected = HOST_EVENTS.select(columns)
    parts = []
    for host, file in label_hosts(files):
        parts += host_event_parts(file, run=run, host=host, columns=selected)
    return assemble_frame(parts, HOST_EVENTS, selected)


def host_event_parts(file: XSpaceFile, *, run: str, host: str, columns: Iterable[str] | None = None) -> list[Part]:
    """Rows of HOST_EVENTS, one part for each plane of host threads.

    Args:
        columns: columns wanted beside the key; None for all.

    Raises:
        DamagedFile: bytes that are no events.
    """
    selected = set(HOST_EVENTS.select(columns)) | {"start_ns"}
    parts = []
    for device, plane in host_planes(file.planes):
        lines = [_read_line(line, selected, run, host, device, label) for label, line in raw_lines(plane)]
        if lines:
            parts.append(join_parts(lines))
    return parts


def _read_line(line: Line, selected: set[str], run: str, host: str, device: str, label: str) -> Part:
    stats = [name for name in ANNOTATION_STATS if name in selected]
    events, rows = timed_events(line, [*stats, _STEP_STAT] if "step_number" in selected else stats)
    part = key_columns(run, host, device, label, rows)
    part.update(time_columns(events))
    part.update(annotation_columns(events, selected))
    if "event_name" in selected:
        part["event_name"] = events.names()
    if "step_number" in selected:
        part["step_number"] = events.stat(_STEP_STAT).integers()
    return {name: part[name] for name in HOST_EVENTS.names if name in selected}
