"""Kernel symbol, grid and workgroup -> HLO instruction, by the thunk sequence, without regard to order.

The sequence says which kernel each instruction launches, shared ones included, and with what geometry; what one
instruction alone launches is linked. That is likely and not certain, as programs that are not at hand may have a kernel
of the same name and geometry, and only the order tells them apart. Kernels of libraries are not in the sequence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rocktools.correlate.edges import Confidence, IntArray, Link, Method, build_dispatch_edges, build_link, group_rows
from rocktools.correlate.launch_sites import LaunchSite, build_launch_plan
from rocktools.correlate.names import strip_symbol
from rocktools.frames import GRID, WORKGROUP
from rocktools.hlo.program import CompiledProgram

Extent = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThunkIndex:
    """The kernels of one program's thunk sequence.

    Attributes:
        program_id: as in INSTRUCTIONS.
        sites: kernel symbol -> its launch sites in the order of launches; conditions that are never launched left out.
    """

    program_id: str
    sites: Mapping[str, tuple[LaunchSite, ...]]

    def find_sites(
        self, symbol: str, grid_workgroups: Extent | None, workgroup_workitems: Extent | None
    ) -> list[LaunchSite]:
        """The sites that launch this kernel with this geometry; None, or a site without one: any geometry."""
        return [
            site
            for site in self.sites.get(symbol, ())
            if _agrees(site.grid_workgroups, grid_workgroups) and _agrees(site.workgroup_workitems, workgroup_workitems)
        ]


def _agrees(written: tuple[int, ...], recorded: Extent | None) -> bool:
    return not written or recorded is None or written == recorded


def build_thunk_index(program: CompiledProgram) -> ThunkIndex | None:
    """The index of a program; None where its dump has no thunk sequence, or one that launches nothing."""
    plan = build_launch_plan(program)
    if plan is None:
        return None
    sites: dict[str, list[LaunchSite]] = defaultdict(list)
    for site in plan.sites:
        if site.kernel and site.instruction:
            sites[strip_symbol(site.kernel)].append(site)
    return ThunkIndex(program_id=plan.program_id, sites={symbol: tuple(found) for symbol, found in sites.items()})


def find_link_by_thunk(
    kernel_name: str, grid_workgroups: Extent | None, workgroup_workitems: Extent | None, indices: Iterable[ThunkIndex]
) -> Link:
    """The instruction that alone launches this kernel with this geometry, likely; several are ambiguous.

    Args:
        kernel_name: with or without `.kd`.
        grid_workgroups: None where it was not recorded.
        workgroup_workitems: None where it was not recorded.
        indices: of the programs that it may belong to.
    """
    symbol = strip_symbol(kernel_name)
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index in indices:
        for site in index.find_sites(symbol, grid_workgroups, workgroup_workitems):
            found[index.program_id, site.instruction].append(site.thunk_id)
    link = build_link(list(found), method=Method.THUNK, confidence=Confidence.LIKELY)
    thunk_ids = [thunk_id for ids in found.values() for thunk_id in ids]
    return replace(link, thunk_id=thunk_ids[0]) if len(thunk_ids) == 1 else link


def link_by_thunks(dispatches: pd.DataFrame, programs: Sequence[CompiledProgram]) -> pd.DataFrame:
    """What kernel and geometry alone say.

    Args:
        dispatches: DISPATCHES or COUNTED_DISPATCHES, at least with the key of DISPATCHES, `kernel_name` and geometry.
        programs: that the dispatches may belong to; those without a thunk sequence say nothing.

    Returns:
        DISPATCH_EDGES, one row per dispatch: method `thunk`, likely or ambiguous, or unlinked.
    """
    indices = [index for index in map(build_thunk_index, programs) if index is not None]
    geometry = {name: dispatches[name].fillna(0).astype("int64") for name in (*GRID, *WORKGROUP)}
    of, example = group_rows([dispatches["kernel_name"], *geometry.values()])
    names = dispatches["kernel_name"].iloc[example].tolist()
    grids = np.stack([geometry[name].to_numpy()[example] for name in GRID], axis=1)
    workgroups = np.stack([geometry[name].to_numpy()[example] for name in WORKGROUP], axis=1)
    links = [
        find_link_by_thunk(str(name), *read_geometry(grid, workgroup), indices)
        for name, grid, workgroup in zip(names, grids, workgroups, strict=True)
    ]
    return build_dispatch_edges(dispatches, links, of)


def read_geometry(grid_workitems: IntArray, workgroup_workitems: IntArray) -> tuple[Extent | None, Extent | None]:
    """Grid in workgroups, and workgroup; None for what has an extent of zero, which is what is missing.

    A grid that is no whole number of workgroups is rounded up, as the last workgroup is launched all the same.
    """
    x, y, z = (int(extent) for extent in workgroup_workitems)
    if min(x, y, z) < 1:
        return None, None
    i, j, k = (int(extent) for extent in grid_workitems)
    return (None if min(i, j, k) < 1 else (-(-i // x), -(-j // y), -(-k // z))), (x, y, z)
