"""Names and geometries say which sites a kernel may be of."""

from __future__ import annotations

import numpy as np
import pytest
from aligned_programs import make_graph
from tiny_program import all_reduce, copy, kernel, matmul

from rocktools.correlate.kernel_families import KernelFamily
from rocktools.correlate.kernel_meanings import (
    Ground,
    KernelSymbol,
    build_meanings,
    may_be_part_of,
    only_sites,
)
from rocktools.correlate.launch_sites import SiteKind

NODES = [kernel("fusion.1", grid=4), kernel("fusion.2", "fusion_1", grid=4), matmul("dot.1"), copy("c.1")]
NODES += [all_reduce("all-reduce.1"), kernel("fusion.3", grid=4)]
TENSILE = "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1"
RCCL = "ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<5120ul>)"


@pytest.mark.parametrize(
    "name, workgroups, ground, sites",
    [
        ("fusion_1", 4, Ground.EXACT, [0, 1]),
        ("fusion_3", 4, Ground.EXACT, [5]),
        ("fusion_1_impl", 4, Ground.EXACT, [0, 1]),  # Triton's suffix
        ("fusion_1", 8, Ground.GEOMETRY, [0, 1]),
        ("fusion_9", 4, Ground.NONE, []),
        (TENSILE, 100, Ground.FAMILY, [2]),
        ("__amd_rocclr_copyBuffer", 1, Ground.FAMILY, [3]),
        (RCCL, 64, Ground.FAMILY, [4]),
        ("__amd_rocclr_fillBufferAligned", 1, Ground.NONE, []),  # the program has no fill
        ("Cijk_BBS_PostGSU4_VW4", 7, Ground.NONE, []),  # a helper is no site's first kernel
        ("void rocprim::detail::block_merge_kernel<1024u>(int*)", 16, Ground.NONE, []),
    ],
)
def test_a_symbol_means(name: str, workgroups: int, ground: Ground, sites: list[int]) -> None:
    symbol = KernelSymbol(name=name, grid_workgroups=(workgroups, 1, 1), workgroup_workitems=(256, 1, 1))
    [meaning] = build_meanings([symbol], make_graph(NODES).sites)
    assert meaning.ground is ground
    assert meaning.sites.tolist() == sites


def test_without_geometry_the_name_is_all_there_is() -> None:
    symbol = KernelSymbol(name="fusion_1", grid_workgroups=None, workgroup_workitems=None)
    known = KernelSymbol(name="fusion_1", grid_workgroups=(9, 1, 1), workgroup_workitems=(256, 1, 1))
    nameless, other = build_meanings([symbol, known], make_graph(NODES).sites)
    assert nameless.ground is other.ground is Ground.GEOMETRY
    # Another geometry speaks against the site, no geometry does not.
    assert nameless.weights.min() > 1000 * other.weights.max()


def test_sites_can_be_narrowed_for_libraries_only() -> None:
    symbols = [
        KernelSymbol(name=name, grid_workgroups=(4, 1, 1), workgroup_workitems=(256, 1, 1))
        for name in ("fusion_1", RCCL)
    ]
    generated, collective = build_meanings(symbols, make_graph([*NODES, all_reduce("all-reduce.2")]).sites)
    last = np.arange(7) == 6
    assert only_sites(collective, last).sites.tolist() == [6]
    assert only_sites(generated, last) is generated
    assert only_sites(collective, np.zeros(7, dtype=bool)) is collective


@pytest.mark.parametrize(
    "family, kind, expected",
    [
        (KernelFamily.TENSILE_HELPER, SiteKind.MATMUL, True),
        (KernelFamily.TENSILE_HELPER, SiteKind.COLLECTIVE, False),
        (KernelFamily.RCCL, SiteKind.MATMUL, False),
        (KernelFamily.RCCL, SiteKind.COLLECTIVE, True),
        (KernelFamily.BLIT_FILL, SiteKind.MATMUL, True),
        (KernelFamily.BLIT_FILL, SiteKind.GENERATED, False),
        (KernelFamily.ROCPRIM, SiteKind.GENERATED, True),  # passes of a sort
        (KernelFamily.ROCPRIM, SiteKind.COLLECTIVE, False),
        (KernelFamily.UNKNOWN, SiteKind.COLLECTIVE, True),
        (KernelFamily.AITER, SiteKind.LIBRARY, True),
    ],
)
def test_what_may_be_part_of_what(family: KernelFamily, kind: SiteKind, expected: bool) -> None:
    assert may_be_part_of(family, kind) is expected
