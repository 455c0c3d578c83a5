"""Kernel names and geometry -> the launch sites each may mean, and what is learned about that.

A symbol is a kernel name with a grid and a workgroup. One that the thunk sequence has is explained by its sites, as
exactly as XLA shares kernels. A known name with another geometry is nearly excluded. A library's symbol may mean every
site of its kind at first; learning narrows that. Everything else means no site, and stays out of the chain.

Nothing here knows an order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from rocktools.correlate.arrays import BoolArray, FloatArray, IntArray
from rocktools.correlate.kernel_families import BLIT_FAMILIES, KernelFamily, family_of
from rocktools.correlate.launch_sites import LaunchSite, SiteKind
from rocktools.correlate.names import strip_symbol

Geometry = tuple[int, int, int]


class Ground(IntEnum):
    """Why a symbol may mean its sites."""

    NONE = 0  # it means none
    FAMILY = 1  # its library serves sites of that kind
    GEOMETRY = 2  # the name is theirs, the geometry is not
    SUBSTITUTE = 3  # it keeps standing where their kernel is missing
    EXACT = 4  # name and geometry are theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSymbol:
    """One kernel name with one geometry, as dispatched.

    Attributes:
        name: clean.
        grid_workgroups: None where the trace has no geometry.
        workgroup_workitems: None where the trace has no geometry.
    """

    name: str
    grid_workgroups: Geometry | None
    workgroup_workitems: Geometry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What one symbol may mean.

    Attributes:
        ground: why.
        sites: states of the chain that may have launched it as their first kernel.
        weights: of those, how probable it is that such a site launches this symbol.
        outside: how probable it is outside of all programs.
        stay: probability, by state, that it follows a kernel of that site: as a further kernel of it, or as a stranger
            between; None where it never does without leaving the program.
        is_anyones: whether anyone's copies and fills launch it, so that it tells nothing of the pause it stands in.
    """

    ground: Ground
    sites: IntArray
    weights: FloatArray
    outside: float
    stay: FloatArray | None = None
    is_anyones: bool = False


_NO_SITES = np.zeros(0, dtype=np.int64)
_NO_WEIGHTS = np.zeros(0, dtype=np.float64)
MEANINGLESS = Meaning(ground=Ground.NONE, sites=_NO_SITES, weights=_NO_WEIGHTS, outside=1.0)

_KINDS_OF: Mapping[KernelFamily, tuple[SiteKind, ...]] = {
    KernelFamily.HIPBLASLT: (SiteKind.MATMUL, SiteKind.CONVOLUTION),
    KernelFamily.ROCBLAS: (SiteKind.MATMUL, SiteKind.CONVOLUTION),
    KernelFamily.CK: (SiteKind.MATMUL, SiteKind.CONVOLUTION),
    KernelFamily.MIOPEN: (SiteKind.CONVOLUTION,),
    KernelFamily.RCCL: (SiteKind.COLLECTIVE,),
    KernelFamily.BLIT_COPY: (SiteKind.COPY,),
    KernelFamily.BLIT_FILL: (SiteKind.FILL,),
    KernelFamily.AITER: (),
    KernelFamily.TRANSFORMER_ENGINE: (),
}
"""Kinds a family's kernels may be the first kernel of; custom calls may launch any of them."""

FIRST_STAY: Mapping[KernelFamily, float] = {
    KernelFamily.BLIT_COPY: 0.02,
    KernelFamily.BLIT_FILL: 0.02,
    KernelFamily.HIPBLASLT: 0.005,
    KernelFamily.ROCBLAS: 0.005,
    KernelFamily.RCCL: 0.001,
}
"""How probable a further kernel of the family is before anything was learned."""
_OTHER_STAY = 0.005


def build_meanings(symbols: Sequence[KernelSymbol], sites: Sequence[LaunchSite]) -> list[Meaning]:
    """What each symbol may mean before a trace was looked at."""
    exact: dict[tuple[str, Geometry | None, Geometry | None], list[int]] = {}
    by_name: dict[str, list[int]] = {}
    by_kind: dict[SiteKind, list[int]] = {}
    for state, site in enumerate(sites):
        if site.kind is SiteKind.GENERATED:
            name = strip_symbol(site.kernel)
            exact.setdefault((name, padded(site.grid_workgroups), padded(site.workgroup_workitems)), []).append(state)
            by_name.setdefault(name, []).append(state)
        else:
            by_kind.setdefault(site.kind, []).append(state)
    return [_meaning_of(symbol, exact, by_name, by_kind, len(sites)) for symbol in symbols]


def _meaning_of(
    symbol: KernelSymbol,
    exact: Mapping[tuple[str, Geometry | None, Geometry | None], list[int]],
    by_name: Mapping[str, list[int]],
    by_kind: Mapping[SiteKind, list[int]],
    sites_count: int,
) -> Meaning:
    name = strip_symbol(symbol.name)
    if found := exact.get((name, symbol.grid_workgroups, symbol.workgroup_workitems)):
        return _equal_weights(Ground.EXACT, found, weight=1.0, outside=1e-3)
    if found := by_name.get(name):
        if symbol.grid_workgroups is None:  # the name is all there is
            return _equal_weights(Ground.GEOMETRY, found, weight=1.0, outside=1e-2)
        return _equal_weights(Ground.GEOMETRY, found, weight=1e-4, outside=1e-2)
    family = family_of(symbol.name)
    if family not in _KINDS_OF:
        return MEANINGLESS
    kinds = (*_KINDS_OF[family], SiteKind.LIBRARY)
    found = sorted(state for kind in kinds for state in by_kind.get(kind, ()))
    if not found:
        return MEANINGLESS
    base = FIRST_STAY.get(family, _OTHER_STAY)
    return Meaning(
        ground=Ground.FAMILY,
        sites=np.array(found, dtype=np.int64),
        weights=np.full(len(found), 0.3),
        outside=0.1,
        stay=np.full(sites_count, base),
        is_anyones=family in BLIT_FAMILIES,
    )


def _equal_weights(ground: Ground, sites: Sequence[int], *, weight: float, outside: float) -> Meaning:
    return Meaning(
        ground=ground,
        sites=np.array(sites, dtype=np.int64),
        weights=np.full(len(sites), weight),
        outside=outside,
    )


def only_sites(meaning: Meaning, is_possible: BoolArray) -> Meaning:
    """The same, of those sites only; unchanged where none of them is left, or its kernels are XLA's own."""
    kept = is_possible[meaning.sites]
    if meaning.ground is not Ground.FAMILY or not kept.any():
        return meaning
    return replace(meaning, sites=meaning.sites[kept], weights=meaning.weights[kept])


def padded(sizes: Sequence[int]) -> Geometry | None:
    """Three sizes, 1 where there are fewer; None where there are none."""
    if not sizes:
        return None
    x, y, z = (*sizes, 1, 1)[:3]
    return int(x), int(y), int(z)


def may_be_part_of(family: KernelFamily, kind: SiteKind) -> bool:
    """Whether a kernel of that family can be a further kernel of such a site.

    A collective is no part of a matrix product, nor the other way round; a copy is no part of a generated kernel.
    """
    if kind is SiteKind.LIBRARY:
        return True
    if kind in (SiteKind.COPY, SiteKind.FILL):
        return family in BLIT_FAMILIES
    if kind is SiteKind.GENERATED:  # XLA's sorts, which go on with a library's passes
        return family in (KernelFamily.ROCPRIM, KernelFamily.UNKNOWN)
    if family in (KernelFamily.BLIT_COPY, KernelFamily.BLIT_FILL, KernelFamily.BLIT_OTHER):
        return kind is not SiteKind.COLLECTIVE
    if family is KernelFamily.ROCPRIM:
        return False
    if family is KernelFamily.TENSILE_HELPER:
        return kind in (SiteKind.MATMUL, SiteKind.CONVOLUTION)
    kinds = _KINDS_OF.get(family)
    return kinds is None or kind in kinds
