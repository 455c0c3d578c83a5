"""Allocator events of a JAX profile -> ALLOCATORS: how much each allocator of XLA held, and the most it ever did.

XLA's allocators write an event for each allocation and release, with their own state in its statistics
(`tsl/framework/bfc_allocator.cc`: MemoryAllocation, MemoryDeallocation). The high-water mark is that of the allocator
since it was made, so it may be older than the profile; what it held while the profile was taken stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.sources.rocpd.columns import IntColumn
from rocktools.sources.xspace.event_rows import label_hosts
from rocktools.sources.xspace.opening import XSpaceFile
from rocktools.sources.xspace.plane import Line
from rocktools.sources.xspace.raw_lines import host_planes, raw_lines

ALLOCATORS = FrameSpec(
    name="ALLOCATORS",
    meaning="One row per allocator that wrote events into a JAX profile: what it held, by its own account.",
    key=("run", "host", "allocator"),
    sort=("run", "host", "allocator"),
    columns=(
        Column("run", "category", "label of the run"),
        Column("host", "category", "host that the profile was taken on"),
        Column("allocator", "category", "name of the allocator: `GPU_0_bfc` serves the first GPU of the process"),
        Column("peak_bytes", "int64", "most that was in use at one time since the allocator was made"),
        Column("most_allocated_bytes", "int64", "most that was in use at one time within the profile"),
        Column("least_available_bytes", "int64", "least that was left to be allocated within the profile"),
        Column("allocations_count", "int64", "allocations in the profile"),
        Column("releases_count", "int64", "releases in the profile"),
    ),
)

_ALLOCATION, _RELEASE = "MemoryAllocation", "MemoryDeallocation"
_NAME = "allocator_name"
_SIZES = ("peak_bytes_in_use", "bytes_allocated", "bytes_available")


def read_allocators(files: Sequence[XSpaceFile], *, run: str) -> pd.DataFrame:
    """ALLOCATORS of the profiles of one run.

    Args:
        run: label of the run.

    Raises:
        DamagedFile: bytes that are no events.
    """
    rows: list[dict[str, Any]] = []
    for host, file in label_hosts(files):
        found: dict[str, dict[str, int]] = {}
        for _, plane in host_planes(file.planes):
            if {_ALLOCATION, _RELEASE} & set(plane.facts.event_names.values()):
                for _, line in raw_lines(plane):
                    _add_line(line, found)
        rows += [{"run": run, "host": host, "allocator": name, **sizes} for name, sizes in sorted(found.items())]
    return _frame(rows)


def _add_line(line: Line, found: dict[str, dict[str, int]]) -> None:
    """Take the allocator events of one thread into account."""
    events = line.events((_NAME, *_SIZES))
    names = events.names()
    is_allocation = np.isin(names.codes, _codes(names.names, _ALLOCATION))
    is_release = np.isin(names.codes, _codes(names.names, _RELEASE))
    rows = np.flatnonzero(is_allocation | is_release)
    if not rows.size:
        return
    chosen = events.take(rows)
    allocators = chosen.stat(_NAME).labels()
    sizes: dict[str, IntColumn] = {name: chosen.stat(name).integers() for name in _SIZES}
    is_whole = ~np.any([column.missing for column in sizes.values()], axis=0)
    for code, allocator in enumerate(allocators.names):
        mine = (allocators.codes == code) & is_whole
        if not mine.any():
            continue
        peak, held, left = (sizes[name].values[mine] for name in _SIZES)
        known = found.get(allocator)
        found[allocator] = {
            "peak_bytes": max(int(peak.max()), known["peak_bytes"] if known else 0),
            "most_allocated_bytes": max(int(held.max()), known["most_allocated_bytes"] if known else 0),
            "least_available_bytes": min([int(left.min()), *([known["least_available_bytes"]] if known else [])]),
            "allocations_count": int(is_allocation[rows][mine].sum()) + (known["allocations_count"] if known else 0),
            "releases_count": int(is_release[rows][mine].sum()) + (known["releases_count"] if known else 0),
        }


def _codes(names: Sequence[str], wanted: str) -> list[int]:
    return [code for code, name in enumerate(names) if name == wanted]


def _frame(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for column in ALLOCATORS.columns:
        values = [row[column.name] for row in rows]
        if column.dtype == "category":
            columns[column.name] = pd.Categorical(values, categories=list(dict.fromkeys(values)))
        else:
            columns[column.name] = np.array(values, dtype=np.int64)
    return require_frame(pd.DataFrame(columns), ALLOCATORS)
