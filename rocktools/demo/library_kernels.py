"""What a thunk launches when it runs: kernel names, sizes and typical durations, made from its kind and its shapes.

Kernels that XLA generated are in the thunk sequence. What libraries launch is not, and is made up here in the manner of
ROCm: hipBLASLt's names as a function of the shapes (so equal shapes share a kernel, and different ones sometimes do),
a helper kernel for split-K, one RCCL kernel name for every collective, blit kernels for copies and fills, rocPRIM
merges behind a sort. Durations are a start-up time plus bytes or operations over a rate; they are nobody's measurement.

What does not follow from the shapes follows from a hash of them or of the thunk's id: the same program launches the
same kernels under every seed.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from enum import Enum

from rocktools.hlo.module import HloModule
from rocktools.hlo.shapes import DTYPE_BITS, Shape
from rocktools.hlo.thunks import Thunk

SYMBOL_ENDING = ".kd"
CLONE_ENDING = " [clone .kd]"

COLLECTIVE_NAME = "ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<5120ul>)"
COPY_NAME = "__amd_rocclr_copyBuffer"
FILL_NAME = "__amd_rocclr_fillBufferAligned"

_COLLECTIVES = frozenset(
    {
        *("kAllGather", "kAllReduce", "kReduceScatter", "kAllToAll", "kRaggedAllToAll", "kCollectivePermute"),
        *("kCollectiveBroadcast", "kCollectiveKernel", "kSend", "kRecv", "kGroup"),
    }
)
_MATMULS = frozenset({"kCublasLtMatmul", "kCublasLtGroupedMatmul", "kGemm"})
_COPIES = frozenset({"kCopy", "kDynamicMemcpy", "kDeviceToDeviceCopy"})
_FILLS = frozenset({"kPartitionId", "kReplicaId", "kMemset32BitValue", "kMemzero"})
_HOST_ONLY = frozenset({"kHostSend", "kHostRecv", "kHostExecuteStart", "kHostExecuteDone", "kInfeed", "kOutfeed"})

_LAYOUTS = ("Ailk_Bljk", "Alik_Bljk", "Ailk_Bjlk")
_MACRO_TILES = ((256, 256, 64), (256, 224, 64), (128, 256, 64), (256, 128, 64), (192, 256, 64), (256, 96, 64))
_SPLIT_K = 4
_TYPES = {"bf16": "BBS_BH", "f16": "HHS_BH", "f32": "SS_BH"}

_BYTES_PER_NS = 3_000
_LINK_BYTES_PER_NS = 250
_OPERATIONS_PER_NS = 800_000
_LONGEST_NS = 9_000_000
_SHORTEST_NS = 2_200


class Copies(str, Enum):
    """Which copy thunks leave a dispatch: those that a blit kernel does, not those of a DMA engine."""

    BLIT = "blit"
    DMA = "dma"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaunch:
    """One dispatch that a thunk makes.

    Attributes:
        name: without an ending.
        ending: `.kd`, ` [clone .kd]` or "".
        grid_workitems, workgroup_workitems: x, y, z.
        lds_bytes: of a workgroup.
        typical_ns: duration.
        spread_ratio: standard deviation of the duration's logarithm.
    """

    name: str
    ending: str = SYMBOL_ENDING
    grid_workitems: tuple[int, int, int]
    workgroup_workitems: tuple[int, int, int] = (256, 1, 1)
    lds_bytes: int = 0
    typical_ns: float
    spread_ratio: float = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryOptions:
    """How libraries do things in this run.

    Attributes:
        copies: which copy thunks leave a dispatch.
        is_k_split: whether some matmuls split K and launch a helper that adds the parts up.
        has_sort_merges: whether a sort is followed by rocPRIM merges.
        all_to_all_kernels_count: kernels of one all-to-all.
        symbol_ending: ending of kernels that are no C++ functions.
    """

    copies: Copies = Copies.MIXED
    is_k_split: bool = True
    has_sort_merges: bool = True
    all_to_all_kernels_count: int = 1
    symbol_ending: str = SYMBOL_ENDING


def choose_kernels(thunk: Thunk, module: HloModule, options: LibraryOptions) -> tuple[KernelLaunch, ...]:
    """What `thunk` launches each time it runs, in order; () where that is nothing."""
    shapes = _shapes(thunk, module)
    if thunk.kernel:
        return _generated(thunk, shapes, options)
    if thunk.kind in _MATMULS:
        return _matmul(shapes, options)
    if thunk.kind in _COLLECTIVES:
        count = options.all_to_all_kernels_count if "AllToAll" in thunk.kind else 1
        return (_collective(shapes),) * count
    if thunk.kind in _COPIES:
        return _copy(thunk, shapes, options)
    if thunk.kind in _FILLS:
        return (_blit(FILL_NAME, 1, 2_500.0, options),)
    return () if thunk.kind in _HOST_ONLY else _custom_call(thunk, options)


def _shapes(thunk: Thunk, module: HloModule) -> tuple[Shape, ...]:
    """Of the result, then of the operands; () where the module has no such instruction."""
    instruction = module.instructions.get(thunk.instruction)
    if instruction is None:
        return ()
    operands = (module.instructions.get(name) for name in instruction.operands)
    return (instruction.shape, *(operand.shape for operand in operands if operand is not None))


def _size_bytes(shapes: tuple[Shape, ...]) -> int:
    """Of the result."""
    leaves = [leaf for shape in shapes[:1] for leaf in shape.leaves() if leaf.dtype in DTYPE_BITS]
    return sum(leaf.size_bytes for leaf in leaves) or 1024


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())


def _three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return x, y, z


def _grid(workgroups: tuple[int, ...], workgroup: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (count * size for count, size in zip(_three(workgroups), _three(workgroup), strict=True))
    return x, y, z


def _generated(thunk: Thunk, shapes: tuple[Shape, ...], options: LibraryOptions) -> tuple[KernelLaunch, ...]:
    grid = _grid(thunk.grid_workgroups or (64,), thunk.workgroup_workitems or (256,))
    is_matrix = "gemm" in thunk.kernel or "dot" in thunk.kernel
    per_workitem_ns = 0.02 if is_matrix else 0.0012
    personal = 0.7 + 0.6 * (_hash(f"{thunk.thunk_id}") % 97) / 97
    typical_ns = _SHORTEST_NS + personal * (
        math.prod(grid) * per_workitem_ns + min(_size_bytes(shapes), 1 << 30) / _BYTES_PER_NS / 4
    )
    first = KernelLaunch(
        name=thunk.kernel,
        ending=options.symbol_ending,
        grid_workitems=grid,
        workgroup_workitems=_three(thunk.workgroup_workitems or (256,)),
        lds_bytes=thunk.lds_bytes or 0,
        typical_ns=min(typical_ns, _LONGEST_NS),
    )
    if not (options.has_sort_merges and thunk.kernel.startswith("sort")):
        return (first,)
    return (first, *_merges(1 + _hash(thunk.kernel) % 4))


def _merges(count: int) -> tuple[KernelLaunch, ...]:
    return tuple(
        KernelLaunch(
            name=f"void rocprim::detail::block_merge_kernel<1024u, {4 << number}u>(int*, int*)",
            ending=CLONE_ENDING,
            grid_workitems=(16 * 256, 1, 1),
            typical_ns=4_000.0 + 1_000 * number,
        )
        for number in range(count)
    )


def _matmul(shapes: tuple[Shape, ...], options: LibraryOptions) -> tuple[KernelLaunch, ...]:
    result = next(iter(shapes[0].leaves()), None) if shapes else None
    sizes = (
        result.dimensions if result and len(result.dimensions) >= 2 else (1, *(result.dimensions if result else (1,)))
    )
    contracted = max((operand.dimensions[-1] for operand in shapes[1:3] if operand.dimensions), default=64)
    key = _hash(" ".join(str(shape.without_layout()) for shape in shapes[:3]))
    tile = _MACRO_TILES[key % len(_MACRO_TILES)]
    layout = _LAYOUTS[key // 6 % len(_LAYOUTS)]
    is_split = options.is_k_split and key // 18 % 4 == 0
    types = _TYPES.get(result.dtype if result else "bf16", "BBS_BH")
    *batch, rows, columns = sizes
    workgroups = -(-rows // tile[0]) * -(-columns // tile[1]) * math.prod(batch)
    name = (
        f"Cijk_{layout}_{types}_Bias_HA_S_SAV_UserArgs_MT{tile[0]}x{tile[1]}x{tile[2]}_MI16x16x1_SN_LDSB0_AFC1_AFEM1"
        f"_ASEM1_CLR1_GSU{_SPLIT_K if is_split else 0}_ISA950_K1_WS64_WG32_8_1"
    )
    product = KernelLaunch(
        name=name,
        ending=options.symbol_ending,
        grid_workitems=(max(workgroups, 1) * 256, 1, 1),
        lds_bytes=65_536,
        typical_ns=min(6_000 + 2 * math.prod(sizes) * contracted / _OPERATIONS_PER_NS, _LONGEST_NS),
    )
    if not is_split:
        return (product,)
    helper = KernelLaunch(
        name=f"Cijk_{types.partition('_')[0]}_PostGSU{_SPLIT_K}_VW4",
        ending=options.symbol_ending,
        grid_workitems=(max(math.prod(sizes) // 1024, 1) * 256, 1, 1),
        typical_ns=_SHORTEST_NS + math.prod(sizes) * 4 / _BYTES_PER_NS,
    )
    return product, helper


def _collective(shapes: tuple[Shape, ...]) -> KernelLaunch:
    size_bytes = _size_bytes(shapes)
    channels = 64 if size_bytes > 1 << 26 else 32 if size_bytes > 1 << 22 else 8
    return KernelLaunch(
        name=COLLECTIVE_NAME,
        ending=CLONE_ENDING,
        grid_workitems=(channels * 512, 1, 1),
        workgroup_workitems=(512, 1, 1),
        lds_bytes=29_440,
        typical_ns=15_000 + size_bytes / _LINK_BYTES_PER_NS,
        spread_ratio=0.18,
    )


def _copy(thunk: Thunk, shapes: tuple[Shape, ...], options: LibraryOptions) -> tuple[KernelLaunch, ...]:
    is_blit = options.copies is Copies.BLIT or (options.copies is Copies.MIXED and _hash(f"{thunk.thunk_id}") % 2 == 0)
    size_bytes = _size_bytes(shapes)
    workgroups = min(1024, max(1, size_bytes // 4096))
    return (_blit(COPY_NAME, workgroups, 3_000 + size_bytes / _BYTES_PER_NS, options),) if is_blit else ()


def _blit(name: str, workgroups: int, typical_ns: float, options: LibraryOptions) -> KernelLaunch:
    workgroup = 512 if name == COPY_NAME else 256
    return KernelLaunch(
        name=name,
        ending=options.symbol_ending,
        grid_workitems=(workgroups * workgroup, 1, 1),
        workgroup_workitems=(workgroup, 1, 1),
        typical_ns=min(typical_ns, _LONGEST_NS),
    )


def _custom_call(thunk: Thunk, options: LibraryOptions) -> tuple[KernelLaunch, ...]:
    """One to five kernels, in the manner of a fused attention, for any other kind."""
    attention = (
        ("transformer_engine::fused_attn_rocm::populate_rng_state_kernel(long*, long const*)", CLONE_ENDING),
        ("_ZN5aiter42fmha_bwd_hd128_bf16_causal_a32_rtz_psskddvE", options.symbol_ending),
        (FILL_NAME, options.symbol_ending),
        ("void ck_tile::kentry<2, ck_tile::FmhaBwdOGradDotOKernel<128> >(ck_tile::Args)", CLONE_ENDING),
        ("void ck_fused_attn::dk_dv_reduce<__hip_bfloat16>(int, int)", CLONE_ENDING),
    )
    key = _hash(thunk.instruction or f"{thunk.thunk_id}")
    return tuple(
        KernelLaunch(
            name=name,
            ending=ending,
            grid_workitems=((1 + key % 64) * 256 * (1 + number), 1, 1),
            typical_ns=_SHORTEST_NS + 20_000.0 * (number % 2) * (1 + key % 7),
        )
        for number, (name, ending) in enumerate(attention[: 1 + key % 5])
    )
