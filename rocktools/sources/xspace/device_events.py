"""Raw lines of device planes -> DEVICE_EVENTS.

Names, details and scopes are interned in a profile, so everything that is read out of a text is read once for each
distinct text and spread over the events by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rocktools.frames import DEVICE_EVENTS, GRID, WORKGROUP
from rocktools.sources.rocpd.columns import IntColumn, absent_column
from rocktools.sources.rocpd.labels import clean_kernel_name
from rocktools.sources.rocpd.parts import LabelColumn, Part, assemble_frame
from rocktools.sources.xspace.event_rows import (
    ANNOTATION_STATS,
    annotation_columns,
    join_parts,
    key_columns,
    label_hosts,
    look_up,
    map_labels,
    spread,
    time_columns,
    timed_events,
    without_empty,
)
from rocktools.sources.xspace.events import Events
from rocktools.sources.xspace.kernel_details import parse_kernel_details, parse_size_bytes
from rocktools.sources.xspace.opening import XSpaceFile
from rocktools.sources.xspace.plane import Line
from rocktools.sources.xspace.raw_lines import (
    device_planes,
    has_instructions,
    is_gpu_plane,
    raw_lines,
    stream_number,
)
from rocktools.sources.xspace.stat_columns import factorize

_KINDS = ("kernel", "copy", "memset", "memory", "other")
_KERNEL, _COPY, _MEMSET, _MEMORY, _OTHER = range(len(_KINDS))
_KERNEL_DETAILS = "kernel_details"
# Statistic -> what an event that has it is. Their spelling changed over the years.
_MEMORY_DETAILS = {
    "memcpy_details": _COPY,
    "Memset_details": _MEMSET,
    "memset_details": _MEMSET,
    "memalloc_details": _MEMORY,
    "MemFree_details": _MEMORY,
    "memfree_details": _MEMORY,
    "MemoryResidency_details": _MEMORY,
    "memory_residency_details": _MEMORY,
}
_GEOMETRY = (*GRID, *WORKGROUP, "lds_bytes", "scratch_bytes")
_SCOPE_STATS = ("prefix", "name")


def read_device_events(files: Sequence[XSpaceFile], *, run: str, columns: Iterable[str] | None = None) -> pd.DataFrame:
    """DEVICE_EVENTS of the profiles of one run, mostly one for each host.

    Args:
        run: label of the run.
        columns: columns wanted beside the key; None for all.

    Raises:
        DamagedFile: bytes that are no events.
    """
    selected = DEVICE_EVENTS.select(columns)
    parts = []
    for host, file in label_hosts(files):
        parts += device_event_parts(file, run=run, host=host, columns=selected)
    return assemble_frame(parts, DEVICE_EVENTS, selected)


def device_event_parts(file: XSpaceFile, *, run: str, host: str, columns: Iterable[str] | None = None) -> list[Part]:
    """Rows of DEVICE_EVENTS, one part for each device that has events.

    Args:
        columns: columns wanted beside the key; None for all.

    Raises:
        DamagedFile: bytes that are no events.
    """
    selected = set(DEVICE_EVENTS.select(columns)) | {"start_ns"}
    parts = []
    for device, plane in device_planes(file.planes):
        lines = [_read_line(line, selected, run, host, device, label) for label, line in raw_lines(plane)]
        if lines:
            parts.append(join_parts(lines))
    return parts


def _read_line(line: Line, selected: set[str], run: str, host: str, device: str, label: str) -> Part:
    events, rows = timed_events(line, _stats_for(selected))
    part = key_columns(run, host, device, label, rows)
    part.update(time_columns(events))
    part.update(annotation_columns(events, selected))
    _add_names(part, events, selected)
    if selected & {"kind", "size_bytes"}:
        part["kind"], part["size_bytes"] = _kinds_and_sizes(events)
    if selected & set(_GEOMETRY):
        part.update(_geometry(events))
    if "scope_hint" in selected:
        part["scope_hint"] = _scope_hint(events)
    if "stream_id" in selected:
        number = stream_number(line)
        values = np.full(len(events), number or 0, dtype=np.int64)
        part["stream_id"] = IntColumn(values) if number is not None else absent_column(len(events))
    return {name: part[name] for name in DEVICE_EVENTS.names if name in selected}


def _stats_for(selected: set[str]) -> list[str]:
    stats = [name for name in ANNOTATION_STATS if name in selected]
    if selected & {"kind", "size_bytes"}:
        stats += [_KERNEL_DETAILS, "hlo_op", *_MEMORY_DETAILS]
    if selected & set(_GEOMETRY):
        stats.append(_KERNEL_DETAILS)
    if "scope_hint" in selected:
        stats += _SCOPE_STATS
    return stats


def _add_names(part: dict[str, Any], events: Events, selected: set[str]) -> None:
    if selected & {"kernel_name", "raw_kernel_name"}:
        names = events.names()
        part["raw_kernel_name"] = names
        part["kernel_name"] = map_labels(names, clean_kernel_name)


def _kinds_and_sizes(events: Events) -> tuple[LabelColumn, IntColumn]:
    """What each event is, by the details it carries; bytes of those that move, set or allocate them."""
    count = len(events)
    kinds = np.full(count, _OTHER, dtype=np.int8)
    sizes, is_missing = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.bool_)
    if is_gpu_plane(events.line.plane):
        kinds[events.stat("hlo_op").is_present] = _KERNEL
    elif has_instructions(events.line):
        kinds[:] = _KERNEL
    for name, kind in _MEMORY_DETAILS.items():
        if name in events.stat_names:
            details = events.stat(name).labels()
            is_this = details.codes >= 0
            kinds[is_this] = kind
            found = spread(details, look_up(details, parse_size_bytes))
            is_known = is_this & ~found.missing
            sizes[is_known], is_missing[is_known] = found.values[is_known], False
    kinds[events.stat(_KERNEL_DETAILS).is_present] = _KERNEL
    return LabelColumn(kinds, _KINDS), IntColumn(sizes, is_missing)


def _geometry(events: Events) -> dict[str, IntColumn]:
    texts = events.stat(_KERNEL_DETAILS).labels()
    details = look_up(texts, parse_kernel_details)
    columns = {
        "lds_bytes": spread(texts, [one.lds_bytes for one in details]),
        "scratch_bytes": spread(texts, [one.scratch_bytes for one in details]),
    }
    for axis in range(3):
        grids = [one.grid_workitems[axis] if one.grid_workitems else None for one in details]
        workgroups = [one.workgroup_workitems[axis] if one.workgroup_workitems else None for one in details]
        columns[GRID[axis]] = spread(texts, grids)
        columns[WORKGROUP[axis]] = spread(texts, workgroups)
    return columns


def _scope_hint(events: Events) -> LabelColumn:
    """`prefix/name`, or what there is of the two."""
    prefixes, names = (without_empty(events.stat(stat).labels()) for stat in _SCOPE_STATS)
    width = len(names.names) + 1
    distinct, inverse = factorize((prefixes.codes.astype(np.int64) + 1) * width + names.codes + 1)
    texts = []
    for code in distinct.tolist():
        prefix, name = divmod(code, width)
        parts = [*prefixes.names[prefix - 1 : prefix], *names.names[name - 1 : name]]
        texts.append("/".join(parts))
    return without_empty(LabelColumn(inverse.astype(np.int32), tuple(texts)))
