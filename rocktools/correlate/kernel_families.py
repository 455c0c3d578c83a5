"""Kernel names -> the library a kernel belongs to. A library kernel carries no HLO name: nothing joins it by its own.

One table, tried from top to bottom; a name that no row knows is `unknown`, which is what most kernels of XLA's code
generators are (`loop_fusion_3`), as are the kernels of users. Only the name decides. The target of a custom call does
not: a `__cublas$gemm` may run a kernel of hipBLASLt. Nothing here knows a program.

The sources say where names of the kind stand: in a profile of an MI300X or MI355X, or in the text of the library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class KernelFamily(str, Enum):
    """What a kernel belongs to."""

    HIPBLASLT = "hipBLASLt"
    ROCBLAS = "rocBLAS"
    TENSILE_HELPER = "Tensile helper"
    RCCL = "RCCL"
    CK = "CK"
    AITER = "AITER"
    MIOPEN = "MIOpen"
    TRANSFORMER_ENGINE = "Transformer Engine"
    TRITON = "Triton"
    BLIT_COPY = "blit copy"
    BLIT_FILL = "blit fill"
    BLIT_OTHER = "blit other"
    ROCPRIM = "rocPRIM"
    XLA_RUNTIME = "XLA runtime"
    AUTOTUNING = "autotuning"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class FamilyRule:
    """One row of the table.

    Attributes:
        family: what a kernel belongs to in whose name `pattern` is found.
        pattern: searched for in the name as recorded or clean, mangled or not.
        source: where names of this kind were seen, or are made.
    """

    family: KernelFamily
    pattern: re.Pattern[str]
    source: str


def _rule(family: KernelFamily, pattern: str, source: str) -> FamilyRule:
    return FamilyRule(family, re.compile(pattern), source)


_MATMUL = r"Ci[j-z]{1,6}_A[i-z]+_B[i-z]+_"
"""A contraction by Tensile: the indices of C, A and B. Its helpers, which have no A and B, lack the other two."""

FAMILY_RULES: Sequence[FamilyRule] = (
    _rule(
        KernelFamily.HIPBLASLT,
        rf"{_MATMUL}.*(?:_UserArgs_|_Bias_|_SAV_)|^Custom(?:GSUs)?_{_MATMUL}",
        "profiles of MI300X and MI355X: arguments by the user, bias and scale vectors, which rocBLAS has not",
    ),
    _rule(KernelFamily.ROCBLAS, _MATMUL, "profile of an MI300X, JAX 0.8: no UserArgs, 2-D and 3-D grids"),
    _rule(
        KernelFamily.TENSILE_HELPER,
        r"^Ci[j-z]{1,6}_[A-Z]",
        "Tensile, ContractionSolution.cpp: outputConversionKernelName adds _PostGSU, betaOnlyKernelName _GB, to C and "
        "a type",
    ),
    _rule(
        KernelFamily.RCCL,
        r"nccl(?:Dev)?Kernel|mscclKernel|^(?:void )?rccl\w*Kernel|nccl(?:Symk|Symmetric)",
        "profiles of MI300X: ncclDevKernel_Generic_2 for every collective; RCCL, msccl_kernel.h",
    ),
    _rule(
        KernelFamily.TRANSFORMER_ENGINE,
        r"transformer_engine(?:::|\d)|ck_fused_attn(?:::|\d)",
        "profile of an MI355X: populate_rng_state_kernel, ck_fused_attn::dk_dv_reduce",
    ),
    _rule(
        KernelFamily.AITER,
        r"\baiter::|_ZN5aiter|^fmha_(?:fwd|bwd)_hd\d+_|\bmfma_moe\d",
        "profiles of MI300X and MI355X: _ZN5aiter42fmha_bwd_hd128_bf16_causal_a32_rtz_psskddvE",
    ),
    _rule(
        KernelFamily.CK,
        r"\bck_tile::|_ZN7ck_tile|\bck::|_ZN2ck\d|\bkattr_no_packed_fp32_ops|\bkentry<",
        "profile of an MI355X: void ck_tile::kentry<ck_tile::gfx950_t, 2, ck_tile::FmhaFwdKernel<...>>",
    ),
    _rule(
        KernelFamily.MIOPEN,
        r"(?i)\bmiopen|^Im[23]d2Col|^Col2Im[23]d|^naive_conv_|^igemm_(?:fwd|bwd|wrw)_|^batched_transpose_\d"
        r"|^SubTensorOp|^(?:gcnAsm|xdlops_)\w*[Cc]onv|^wrw_reduction_hip",
        "profile of an MI300X, JAX 0.8: Im3d2Col; MIOpen, src/kernels",
    ),
    _rule(
        KernelFamily.ROCPRIM,
        r"rocprim(?:::|\d)|hipcub(?:::|\d)",
        "rocPRIM: every kernel is in namespace rocprim, which hipCUB calls, and XLA for large sorts and scans",
    ),
    _rule(
        KernelFamily.AUTOTUNING,
        r"RedzoneAllocatorKernel|RepeatBufferKernel|repeat_buffer_kernel|xla_(?:fp|int)_comparison|DelayKernel",
        "XLA, stream_executor: redzone_allocator_kernel_lib.cu.h, repeat_buffer_kernel.cu.h, buffer comparator and "
        "delay_kernel",
    ),
    _rule(
        KernelFamily.XLA_RUNTIME,
        r"stream_executor::|_ZN15stream_executor|\bxla::gpu::|_ZN3xla|(?:AllReduce|RaggedAllToAll|MultiGpuBarrier)Kernel",
        "XLA, stream_executor/gpu: all_reduce_kernel_lib.cu.h, ragged_all_to_all_device_kernel_lib.cu.h, "
        "multi_gpu_barrier_kernel.cu.h: one-shot collectives within a process, top-k, checks",
    ),
    _rule(
        KernelFamily.BLIT_COPY, r"^__amd_rocclr_(?:batch)?[Cc]opy", "profiles of MI300X and MI355X; rocclr, blitcl.cpp"
    ),
    _rule(KernelFamily.BLIT_FILL, r"^__amd_rocclr_fill", "profiles of MI300X and MI355X; rocclr, blitcl.cpp"),
    _rule(
        KernelFamily.BLIT_OTHER,
        r"^__amd_rocclr_",
        "database of rocprofv3 on an MI300X: streamOpsWait, streamOpsWrite, batchMemOp, initHeap",
    ),
    _rule(
        KernelFamily.TRITON,
        r"^gemm_fusion_|^triton_|^nested_gemm_fusion|_impl(?:_\d+)?$",
        "profile of an MI355X: gemm_fusion_dot_3; XLA, gemm_fusion.cc and the Triton emitter; named after a fusion",
    ),
)
"""Tried in this order. Namespaces of Tensile, CK and rocPRIM can stand in the arguments of one another's kernels."""

NAMED_AFTER_INSTRUCTIONS = frozenset({KernelFamily.TRITON, KernelFamily.UNKNOWN})
"""Families whose kernels may have the name of an HLO instruction; those of all others never have."""

BLIT_FAMILIES = frozenset({KernelFamily.BLIT_COPY, KernelFamily.BLIT_FILL, KernelFamily.BLIT_OTHER})
"""Kernels of the HIP runtime, which any copy or memset may launch, also one within a custom call."""


def family_of(kernel_name: str) -> KernelFamily:
    """The first family of the table whose pattern is found in the name; `UNKNOWN` where none is.

    Args:
        kernel_name: with or without `.kd` and ` [clone .kd]`, mangled or not.
    """
    name = kernel_name.removesuffix(" [clone .kd]").removesuffix(".kd")
    for rule in FAMILY_RULES:
        if rule.pattern.search(name):
            return rule.family
    return KernelFamily.UNKNOWN


def is_library_kernel(kernel_name: str) -> bool:
    """Whether the name is a library's or the runtime's, so that it says nothing about the HLO instruction."""
    return family_of(kernel_name) not in NAMED_AFTER_INSTRUCTIONS
