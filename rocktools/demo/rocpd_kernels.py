"""Made-up kernels with the names, sizes and durations of a JAX training step on AMD GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Name and mangled name of the kernel with this number. XLA's names are the symbols; library kernels carry no HLO name.
_Namer = Callable[[int], tuple[str, str]]


def _same(name: str) -> tuple[str, str]:
    return name, name


def _tensile(number: int) -> tuple[str, str]:
    rows, columns = 32 << number % 4, 32 << number // 4 % 4
    return _same(
        f"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT{rows}x{columns}x64_MI16x16x1_SN_LDSB1_GRVWA8_GRVWB8"
        f"_PGR2_PLR1_SK{number}_WS64"
    )


def _collective(number: int) -> tuple[str, str]:
    function = f"ncclDevKernel_Generic_{number}"
    mangled = f"_Z{len(function)}{function}24ncclDevKernelArgsStorageILm4096EE"
    return f"{function}(ncclDevKernelArgsStorage<4096ul>)", mangled


def _template(number: int) -> tuple[str, str]:
    name = f"void ck_tile::kentry<{number}, ck_tile::FmhaFwdKernel<__hip_bfloat16, 128> >(ck_tile::FmhaFwdArgs)"
    return name, f"_ZN7ck_tile6kentryILi{number}ENS_13FmhaFwdKernelI14__hip_bfloat16Li128EEEEEvNS_11FmhaFwdArgsE"


# Per kind: how many of ten kernels, typical duration in ns, work-items per workgroup, LDS bytes, its namer.
_KINDS: tuple[tuple[int, int, int, int, _Namer], ...] = (
    (4, 6_000, 256, 0, lambda number: _same(f"loop_fusion_{number}")),
    (2, 12_000, 1024, 4_096, lambda number: _same(f"input_reduce_fusion_{number}")),
    (1, 90_000, 512, 65_536, lambda number: _same(f"gemm_fusion_dot_{number}")),
    (1, 150_000, 256, 131_072, _tensile),
    (1, 60_000, 512, 29_440, _collective),
    (1, 40_000, 256, 32_768, _template),
)
_ORDER = tuple(kind for kind in range(len(_KINDS))) + tuple(
    kind for kind, (tenths, *_) in enumerate(_KINDS) for _ in range(tenths - 1)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """A set of kernels; all arrays have one value per kernel.

    Attributes:
        names: what people read; no two are equal.
        mangled: symbol in the code object, without `.kd`.
        typical_ns: typical duration.
        weight_ratio: share of the dispatches, adds up to 1.
        workgroup_workitems: workgroup size (x only).
        grid_workitems: grid size (x only), a multiple of the workgroup's.
        lds_bytes, scratch_bytes, vgpr_count, agpr_count, sgpr_count: as in the kernel's descriptor.
    """

    names: tuple[str, ...]
    mangled: tuple[str, ...]
    typical_ns: np.ndarray
    weight_ratio: np.ndarray
    workgroup_workitems: np.ndarray
    grid_workitems: np.ndarray
    lds_bytes: np.ndarray
    scratch_bytes: np.ndarray
    vgpr_count: np.ndarray
    agpr_count: np.ndarray
    sgpr_count: np.ndarray


def make_kernels(count: int, rng: np.random.Generator) -> Kernels:
    """`count` kernels: six kinds in turn, few of them with most of the dispatches."""
    kinds = np.array([_ORDER[number % len(_ORDER)] for number in range(count)])
    seen = [0] * len(_KINDS)
    names = []
    for kind in kinds:
        names.append(_KINDS[kind][4](seen[kind]))
        seen[kind] += 1
    facts = np.array([kind[1:4] for kind in _KINDS], dtype=np.int64)[kinds]
    weight = 1.0 / np.arange(1, count + 1) ** 0.8
    workgroups = 1 << rng.integers(3, 14, count)
    is_matrix = np.isin(kinds, (2, 3))
    return Kernels(
        names=tuple(name for name, _ in names),
        mangled=tuple(mangled for _, mangled in names),
        typical_ns=(facts[:, 0] * rng.uniform(0.5, 2.0, count)).astype(np.int64),
        weight_ratio=weight / weight.sum(),
        workgroup_workitems=facts[:, 1],
        grid_workitems=facts[:, 1] * workgroups,
        lds_bytes=facts[:, 2],
        scratch_bytes=np.where(kinds == 5, 64, 0),
        vgpr_count=8 * rng.integers(2, 33, count),
        agpr_count=np.where(is_matrix, 8 * rng.integers(4, 33, count), 0),
        sgpr_count=16 * rng.integers(1, 7, count),
    )
