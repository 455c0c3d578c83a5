"""Names of kernels as profilers wrote them, and the library that each belongs to."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rocktools.correlate.kernel_families import (
    BLIT_FAMILIES,
    FAMILY_RULES,
    NAMED_AFTER_INSTRUCTIONS,
    KernelFamily,
    family_of,
    is_library_kernel,
)

HIPBLASLT = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT320x224x64_MI16x16x1_SN_LDSB0_AFC1_WS64_WG64_4_1"
ROCBLAS = "Cijk_Ailk_Bljk_BBS_BH_MT256x128x32_MI16x16x16x1_SN_1LDSB1_APM1_ABV0_ACED0_WS64_WG64_4_1_WGM32"
CK_TILE = (
    "void ck_tile::kentry<ck_tile::gfx950_t, 2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync<...>>>"
)

FAMILIES = [
    (HIPBLASLT, KernelFamily.HIPBLASLT),
    ("CustomGSUs_Cijk_Ailk_Bljk_HHS_BH_MT16x128x16_MI16x16x1_prefetch2", KernelFamily.HIPBLASLT),
    (ROCBLAS, KernelFamily.ROCBLAS),
    ("Cijk_SS_BiasS_HAS_ScaleAlphaVec_PostGSU16_VW1", KernelFamily.TENSILE_HELPER),
    ("Cijk_B_GB", KernelFamily.TENSILE_HELPER),
    ("ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<5120ul>)", KernelFamily.RCCL),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", KernelFamily.RCCL),
    ("mscclKernel_Sum_hip_bfloat16_Simple_false", KernelFamily.RCCL),
    (CK_TILE, KernelFamily.CK),
    ("_ZN5aiter42fmha_bwd_hd128_bf16_causal_a32_rtz_psskddvE", KernelFamily.AITER),
    (
        "transformer_engine::fused_attn_rocm::populate_rng_state_kernel(long*, long const*, long)",
        KernelFamily.TRANSFORMER_ENGINE,
    ),
    ("void ck_fused_attn::dk_dv_reduce<std::bfloat16_t>(unsigned long)", KernelFamily.TRANSFORMER_ENGINE),
    ("Im3d2Col", KernelFamily.MIOPEN),
    ("miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", KernelFamily.MIOPEN),
    ("igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_bt128x128x32", KernelFamily.MIOPEN),
    ("SubTensorOpWithScalar1d", KernelFamily.MIOPEN),
    (
        "void rocprim::ROCPRIM_400400_NS::detail::trampoline_kernel<...reduce_impl<...>>(...)",
        KernelFamily.ROCPRIM,
    ),
    (
        "RedzoneAllocatorKernelImpl(unsigned char*, unsigned char, unsigned long, unsigned int*)",
        KernelFamily.AUTOTUNING,
    ),
    ("stream_executor::gpu::RepeatBufferKernelImpl(char*, long, long)", KernelFamily.AUTOTUNING),
    ("void xla_fp_comparison<hip_bfloat16>(hip_bfloat16*, hip_bfloat16*, float)", KernelFamily.AUTOTUNING),
    ("void stream_executor::gpu::RaggedAllToAllKernelImpl<8l>(void const*)", KernelFamily.XLA_RUNTIME),
    ("__amd_rocclr_copyBuffer", KernelFamily.BLIT_COPY),
    ("__amd_rocclr_fillBufferAligned2D", KernelFamily.BLIT_FILL),
    ("__amd_rocclr_streamOpsWait", KernelFamily.BLIT_OTHER),
    ("gemm_fusion_dot_general_1", KernelFamily.TRITON),
    ("triton_softmax_3", KernelFamily.TRITON),
    ("loop_add_fusion_17", KernelFamily.UNKNOWN),
    ("input_convert_transpose_fusion", KernelFamily.UNKNOWN),
    ("wrapped_slice_7", KernelFamily.UNKNOWN),
    ("sort_8_1", KernelFamily.UNKNOWN),
    ("bit_extract_kernel(unsigned int*, unsigned int const*, unsigned long)", KernelFamily.UNKNOWN),
    ("copy_fusion_2", KernelFamily.UNKNOWN),
    ("", KernelFamily.UNKNOWN),
]


@pytest.mark.parametrize(("name", "family"), FAMILIES, ids=[name[:32] or "empty" for name, _ in FAMILIES])
def test_family_of_a_name(name, family):
    assert family_of(name) is family


@pytest.mark.parametrize("suffix", [".kd", " [clone .kd]"])
def test_the_suffix_of_kernel_descriptors_changes_no_family(suffix):
    assert [family_of(name + suffix) for name, _ in FAMILIES] == [family for _, family in FAMILIES]


def test_only_generated_kernels_may_be_named_after_an_instruction():
    assert not is_library_kernel("loop_fusion_3")
    assert not is_library_kernel("gemm_fusion_dot_3.kd")
    assert is_library_kernel(HIPBLASLT)
    assert is_library_kernel("__amd_rocclr_copyBuffer.kd")


def test_every_family_but_the_unknown_has_a_rule_with_a_source():
    assert {rule.family for rule in FAMILY_RULES} == set(KernelFamily) - {KernelFamily.UNKNOWN}
    assert all(len(rule.source) > 20 for rule in FAMILY_RULES)
    assert BLIT_FAMILIES.isdisjoint(NAMED_AFTER_INSTRUCTIONS)


# What XLA calls its fusions and wrapped instructions; rename_fusions.cc and the fusion wrapper.
GENERATED = ("loop_", "input_", "output_", "wrapped_", "fusion", "sort_", "gemm_fusion_")


@pytest.mark.parametrize("run", ["maxtext-ep-mixtral-ex8", "maxtext-ch6-bf16"])
def test_kernels_of_real_jobs_are_libraries_or_generated(shared, run):
    """Every kernel of two MaxText jobs: what XLA did not generate has a family."""
    path = Path(shared) / "data/xplane/maxtext_mi300x_opstats" / f"{run}.kernels.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        names = {row["name"] for row in csv.DictReader(stream)}
    assert len(names) > 50
    assert {name for name in names if not is_library_kernel(name)} == {
        name for name in names if name.startswith(GENERATED)
    }
