"""Costs worked out by hand. Each case shows its arithmetic; sizes: f32 4 bytes, bf16 and f16 2, s32 4, pred 1."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocktools.evidence import Evidence
from rocktools.hlo.cost import Cost, estimate_cost, estimate_costs
from rocktools.hlo.text_reader import parse_hlo_text

SUM = """
%sum (s1: f32[], s2: f32[]) -> f32[] {
  %s1 = f32[] parameter(0)
  %s2 = f32[] parameter(1)
  ROOT %s3 = f32[] add(%s1, %s2)
}
"""
LAST = """
%last (l1: f32[], l2: f32[]) -> f32[] {
  %l1 = f32[] parameter(0)
  ROOT %l2 = f32[] parameter(1)
}
"""


def cost_of(entry: str, called: str = "", head: str = "", name: str = "x") -> Cost:
    """Cost of `%x` in an entry computation of these lines; a line that does not begin with a name goes on."""
    entry = re.sub(r"\n\s+(?![\s%R])", " ", entry)
    text = f"HloModule m, is_scheduled=true{head}\n{called}\nENTRY %main () -> f32[] {{\n{entry}\n}}\n"
    module = parse_hlo_text(text, source="made here")
    assert module.findings == ()
    return estimate_costs(module)[name]


def numbers(cost: Cost) -> tuple[int | None, ...]:
    return cost.compute_flop, cost.transcendental_count, cost.read_bytes, cost.written_bytes


SINGLE = {
    "dot": (
        """
        %a = bf16[64,32]{1,0} parameter(0)
        %b = bf16[32,16]{1,0} parameter(1)
        ROOT %x = f32[64,16]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        "",
        (2 * 64 * 16 * 32, 0, (64 * 32 + 32 * 16) * 2, 64 * 16 * 4),
    ),
    "dot with two batch dimensions": (
        """
        %a = bf16[2,3,64,32]{3,2,1,0} parameter(0)
        %b = bf16[2,3,32,16]{3,2,1,0} parameter(1)
        ROOT %x = bf16[2,3,64,16]{3,2,1,0} dot(%a, %b), lhs_batch_dims={0,1}, lhs_contracting_dims={3},
          rhs_batch_dims={0,1}, rhs_contracting_dims={2}""",
        "",
        (2 * 2 * 3 * 64 * 16 * 32, 0, 2 * 3 * (64 * 32 + 32 * 16) * 2, 2 * 3 * 64 * 16 * 2),
    ),
    "dot of a value with itself reads it once": (
        """
        %a = f32[8,8]{1,0} parameter(0)
        ROOT %x = f32[8,8]{1,0} dot(%a, %a), lhs_contracting_dims={1}, rhs_contracting_dims={1}""",
        "",
        (2 * 8 * 8 * 8, 0, 8 * 8 * 4, 8 * 8 * 4),
    ),
    "complex dot: four products and four additions a term": (
        """
        %a = c64[4,8]{1,0} parameter(0)
        %b = c64[8,2]{1,0} parameter(1)
        ROOT %x = c64[4,2]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        "",
        (8 * 4 * 2 * 8, 0, (4 * 8 + 8 * 2) * 8, 4 * 2 * 8),
    ),
    "ragged-dot: each row meets one group": (
        """
        %a = bf16[64,32]{1,0} parameter(0)
        %b = bf16[4,32,16]{2,1,0} parameter(1)
        %g = s32[4]{0} parameter(2)
        ROOT %x = bf16[64,16]{1,0} ragged-dot(%a, %b, %g), lhs_contracting_dims={1}, rhs_contracting_dims={1},
          lhs_ragged_dims={0}, rhs_group_dims={0}""",
        "",
        (2 * 64 * 16 * 32, 0, 64 * 32 * 2 + 4 * 32 * 16 * 2 + 4 * 4, 64 * 16 * 2),
    ),
    "ragged-dot over a ragged sum: the groups share it": (
        """
        %a = bf16[32,64]{1,0} parameter(0)
        %b = bf16[64,16]{1,0} parameter(1)
        %g = s32[4]{0} parameter(2)
        ROOT %x = bf16[4,32,16]{2,1,0} ragged-dot(%a, %b, %g), lhs_contracting_dims={1}, rhs_contracting_dims={0},
          lhs_ragged_dims={1}""",
        "",
        (2 * 32 * 16 * 64, 0, (32 * 64 + 64 * 16) * 2 + 4 * 4, 4 * 32 * 16 * 2),
    ),
    # 3x3 over 8x8 with a border of 1: along one dimension 8 outputs x 3 places less the 2 in the border = 22.
    "convolution": (
        """
        %a = f32[2,8,8,16]{3,2,1,0} parameter(0)
        %k = f32[3,3,16,32]{3,2,1,0} parameter(1)
        ROOT %x = f32[2,8,8,32]{3,2,1,0} convolution(%a, %k), window={size=3x3 pad=1_1x1_1},
          dim_labels=b01f_01io->b01f""",
        "",
        (2 * 2 * 32 * 16 * 22 * 22, 0, (2 * 8 * 8 * 16 + 3 * 3 * 16 * 32) * 4, 2 * 8 * 8 * 32 * 4),
    ),
    "convolution with a group for each feature": (
        """
        %a = f32[2,8,16]{2,1,0} parameter(0)
        %k = f32[3,1,16]{2,1,0} parameter(1)
        ROOT %x = f32[2,6,16]{2,1,0} convolution(%a, %k), window={size=3}, dim_labels=b0f_0io->b0f,
          feature_group_count=16""",
        "",
        (2 * 2 * 16 * 1 * 18, 0, (2 * 8 * 16 + 3 * 16) * 4, 2 * 6 * 16 * 4),
    ),
    "MIOpen's gradient by the input: shapes of the convolution itself, no workspace": (
        """
        %g = f32[2,8,8,32]{3,2,1,0} parameter(0)
        %k = f32[3,3,16,32]{3,2,1,0} parameter(1)
        ROOT %x = (f32[2,8,8,16]{3,2,1,0}, u8[4096]{0}) custom-call(%g, %k), window={size=3x3 pad=1_1x1_1},
          dim_labels=b01f_01io->b01f, custom_call_target="__cudnn$convBackwardInput\"""",
        "",
        (2 * 2 * 32 * 16 * 22 * 22, 0, (2 * 8 * 8 * 32 + 3 * 3 * 16 * 32) * 4, 2 * 8 * 8 * 16 * 4),
    ),
    "library product with bias and C: one addition an element for each, workspace left out": (
        """
        %a = bf16[64,32]{1,0} parameter(0)
        %b = bf16[32,16]{1,0} parameter(1)
        %c = bf16[64,16]{1,0} parameter(2)
        %v = bf16[16]{0} parameter(3)
        ROOT %x = (bf16[64,16]{1,0}, s8[33554432]{0}) custom-call(%a, %b, %c, %v),
          custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":{"alpha_real":1,"beta":1,
          "dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]},
          "epilogue":"BIAS"}}""",
        "",
        (2 * 64 * 16 * 32 + 2 * 64 * 16, 0, (64 * 32 + 32 * 16 + 64 * 16 + 16) * 2, 64 * 16 * 2),
    ),
    "product of 8-bit floats with scales, and an activation": (
        """
        %a = f8e4m3fn[64,32]{1,0} parameter(0)
        %b = f8e4m3fn[32,16]{1,0} parameter(1)
        %sa = f32[] parameter(2)
        %sb = f32[] parameter(3)
        ROOT %x = (bf16[64,16]{1,0}, s8[1024]{0}) custom-call(%a, %b, %sa, %sb),
          custom_call_target="__cublas$lt$matmul$f8", backend_config={"gemm_backend_config":{"alpha_real":1,"beta":0,
          "dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]},
          "epilogue":"GELU"}}""",
        "",
        (2 * 64 * 16 * 32, 64 * 16, 64 * 32 + 32 * 16 + 2 * 4, 64 * 16 * 2),
    ),
    "reduce: of 64 elements 63 are added to the first": (
        """
        %a = f32[32,64]{1,0} parameter(0)
        %z = f32[] constant(0)
        ROOT %x = f32[32]{0} reduce(%a, %z), dimensions={1}, to_apply=%sum""",
        SUM,
        (32 * 64 - 32, 0, 32 * 64 * 4 + 4, 32 * 4),
    ),
    # Windows of 4 that end at each of 8 places: 1 + 2 + 3 + 4 * 5 = 26 elements, less one an output = 18 additions.
    "running sum: what lies in the padding is not added": (
        """
        %a = f32[8]{0} parameter(0)
        %z = f32[] constant(0)
        ROOT %x = f32[8]{0} reduce-window(%a, %z), window={size=4 pad=3_0}, to_apply=%sum""",
        SUM,
        (26 - 8, 0, 8 * 4 + 4, 8 * 4),
    ),
    "sort compares, which is no floating-point operation": (
        """
        %k = f32[16,8]{1,0} parameter(0)
        %v = s32[16,8]{1,0} parameter(1)
        ROOT %x = (f32[16,8]{1,0}, s32[16,8]{1,0}) sort(%k, %v), dimensions={1}, to_apply=%sum""",
        SUM,
        (0, 0, 16 * 8 * (4 + 4), 16 * 8 * (4 + 4)),
    ),
    "gather reads what it returns, and the indices": (
        """
        %t = bf16[1000,64]{1,0} parameter(0)
        %i = s32[5,1]{1,0} parameter(1)
        ROOT %x = bf16[5,64]{1,0} gather(%t, %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={1,64}""",
        "",
        (0, 0, 5 * 64 * 2 + 5 * 4, 5 * 64 * 2),
    ),
    "scatter that adds reads and writes what it hits": (
        """
        %t = f32[1000,64]{1,0} parameter(0)
        %i = s32[5,1]{1,0} parameter(1)
        %u = f32[5,64]{1,0} parameter(2)
        ROOT %x = f32[1000,64]{1,0} scatter(%t, %i, %u), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum""",
        SUM,
        (5 * 64, 0, 2 * 5 * 64 * 4 + 5 * 4, 5 * 64 * 4),
    ),
    "scatter that replaces does not read what was there": (
        """
        %t = f32[1000,64]{1,0} parameter(0)
        %i = s32[5,1]{1,0} parameter(1)
        %u = f32[5,64]{1,0} parameter(2)
        ROOT %x = f32[1000,64]{1,0} scatter(%t, %i, %u), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%last""",
        LAST,
        (0, 0, 5 * 64 * 4 + 5 * 4, 5 * 64 * 4),
    ),
    "dynamic-update-slice writes the update only": (
        """
        %t = f32[100,64]{1,0} parameter(0)
        %u = f32[1,64]{1,0} parameter(1)
        %i = s32[] parameter(2)
        %z = s32[] constant(0)
        ROOT %x = f32[100,64]{1,0} dynamic-update-slice(%t, %u, %i, %z)""",
        "",
        (0, 0, 64 * 4 + 2 * 4, 64 * 4),
    ),
    "select": (
        """
        %p = pred[10]{0} parameter(0)
        %a = f32[10]{0} parameter(1)
        %b = f32[10]{0} parameter(2)
        ROOT %x = f32[10]{0} select(%p, %a, %b)""",
        "",
        (0, 0, 10 * 1 + 2 * 10 * 4, 10 * 4),
    ),
    "transpose": (
        """
        %a = bf16[4,8]{1,0} parameter(0)
        ROOT %x = bf16[8,4]{1,0} transpose(%a), dimensions={1,0}""",
        "",
        (0, 0, 4 * 8 * 2, 8 * 4 * 2),
    ),
    "iota reads nothing": ("ROOT %x = s32[100]{0} iota(), iota_dimension=0", "", (0, 0, 0, 100 * 4)),
    "broadcast reads its operand once": (
        """
        %a = f32[8]{0} parameter(0)
        ROOT %x = f32[8,100]{1,0} broadcast(%a), dimensions={0}""",
        "",
        (0, 0, 8 * 4, 8 * 100 * 4),
    ),
    "pad": (
        """
        %a = f32[8]{0} parameter(0)
        %z = f32[] constant(0)
        ROOT %x = f32[10]{0} pad(%a, %z), padding=1_1""",
        "",
        (0, 0, 8 * 4 + 4, 10 * 4),
    ),
    "transcendental operations are counted apart": (
        """
        %a = f32[7]{0} parameter(0)
        ROOT %x = f32[7]{0} exponential(%a)""",
        "",
        (0, 7, 7 * 4, 7 * 4),
    ),
    "integers make no floating-point operations": (
        """
        %a = s32[7]{0} parameter(0)
        ROOT %x = s32[7]{0} add(%a, %a)""",
        "",
        (0, 0, 7 * 4, 7 * 4),
    ),
    "triangular solve: n^2 for each right-hand side": (
        """
        %a = f32[8,8]{1,0} parameter(0)
        %b = f32[8,3]{1,0} parameter(1)
        ROOT %x = f32[8,3]{1,0} triangular-solve(%a, %b), left_side=true, lower=true""",
        "",
        (8 * 8 * 3, 0, (8 * 8 + 8 * 3) * 4, 8 * 3 * 4),
    ),
}


@pytest.mark.parametrize("case", SINGLE)
def test_an_instruction_on_its_own(case):
    entry, called, expected = SINGLE[case]
    cost = cost_of(entry, called)
    assert numbers(cost) == expected
    assert (cost.payload_bytes, cost.reason) == (None, "")
    assert cost.evidence is Evidence.COMPILER_ESTIMATE


GROUPS = "replica_groups={{0,1,2,3}}"
COLLECTIVE = {
    # name: line, kind of additions, then flop, read, written, payload for groups of 4
    "all-gather": (f"f32[400]{{0}} all-gather(%a), {GROUPS}, dimensions={{0}}", (0, 400, 1600, 1600)),
    "all-gather-start": (
        f"(f32[100]{{0}}, f32[400]{{0}}) all-gather-start(%a), {GROUPS}, dimensions={{0}}",
        (0, 400, 1600, 1600),
    ),
    # Of 100 elements each device adds its quarter of three others: 3/4 * 100.
    "all-reduce": (f"f32[100]{{0}} all-reduce(%a), {GROUPS}, to_apply=%sum", (75, 400, 400, 400)),
    "all-reduce-start": (f"f32[100]{{0}} all-reduce-start(%a), {GROUPS}, to_apply=%sum", (75, 400, 400, 400)),
    "reduce-scatter": (
        f"f32[25]{{0}} reduce-scatter(%a), {GROUPS}, dimensions={{0}}, to_apply=%sum",
        (75, 400, 100, 400),
    ),
    "all-to-all": (f"f32[100]{{0}} all-to-all(%a), {GROUPS}, dimensions={{0}}", (0, 400, 400, 400)),
    "collective-permute-start": (
        "(f32[100]{0}, f32[100]{0}, u32[], u32[]) collective-permute-start(%a), source_target_pairs={{0,1},{1,0}}",
        (0, 400, 400, 400),
    ),
}


@pytest.mark.parametrize("kind", COLLECTIVE)
def test_a_collective_has_the_payload_of_one_device(kind):
    line, expected = COLLECTIVE[kind]
    cost = cost_of(f"%a = f32[100]{{0}} parameter(0)\nROOT %x = {line}", SUM, ", replica_count=4")
    assert (cost.compute_flop, cost.read_bytes, cost.written_bytes, cost.payload_bytes) == expected


def test_ragged_all_to_all_leaves_out_the_buffer_of_its_result():
    cost = cost_of(
        """
        %a = f32[100]{0} parameter(0)
        %r = f32[300]{0} parameter(1)
        %s = s32[4]{0} parameter(2)
        ROOT %x = f32[300]{0} ragged-all-to-all(%a, %r, %s, %s, %s, %s), replica_groups={{0,1,2,3}}"""
    )
    assert (cost.read_bytes, cost.written_bytes, cost.payload_bytes) == (100 * 4 + 4 * 4, 300 * 4, 300 * 4)


def test_no_replica_groups_means_everybody():
    entry = "%a = f32[80]{0} parameter(0)\nROOT %x = f32[80]{0} all-reduce(%a), replica_groups={}, to_apply=%sum"
    assert cost_of(entry, SUM, ", replica_count=8").compute_flop == 80 * 7 // 8


def test_unreadable_groups_cost_the_additions_only():
    entry = "%a = f32[80]{0} parameter(0)\nROOT %x = f32[80]{0} all-reduce(%a), replica_groups=odd, to_apply=%sum"
    cost = cost_of(entry, SUM)
    assert (cost.compute_flop, cost.read_bytes, cost.payload_bytes) == (None, 320, 320)
    assert "replica groups" in cost.reason


ASYNC = """
%async (p: f32[100]) -> f32[400] {
  %p = f32[100]{0} parameter(0)
  ROOT %g = f32[400]{0} all-gather(%p), replica_groups={{0,1,2,3}}, dimensions={0}
}
"""


def test_an_async_start_costs_what_it_launches_and_its_end_nothing():
    entry = """
      %a = f32[100]{0} parameter(0)
      %x = ((f32[100]{0}), f32[400]{0}) async-start(%a), calls=%async
      ROOT %y = f32[400]{0} async-done(%x)"""
    assert numbers(cost_of(entry, ASYNC)) == (0, 0, 400, 1600)
    assert cost_of(entry, ASYNC).payload_bytes == 1600
    assert cost_of(entry, ASYNC, name="y") == Cost(
        compute_flop=0, transcendental_count=0, read_bytes=0, written_bytes=0
    )
    assert cost_of(entry, ASYNC, name="g").reason == "counted in its caller x"


# Absence -----------------------------------------------------------------------------------------------------------


def test_attention_by_a_foreign_call_has_no_cost_rather_than_none_at_all():
    cost = cost_of(
        """
        %q = bf16[2,128,16,64]{3,2,1,0} parameter(0)
        ROOT %x = (bf16[2,128,16,64]{3,2,1,0}) custom-call(%q), custom_call_target="te_fused_attn_forward_ffi\""""
    )
    assert numbers(cost) == (None, None, None, None)
    assert cost.reason == "no rule for custom calls of te_fused_attn_forward_ffi"


def test_loops_have_no_cost_of_their_own():
    called = """
%body (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %b = f32[4]{0} add(%p, %p)
}
%condition (q: f32[4]) -> pred[] {
  %q = f32[4]{0} parameter(0)
  ROOT %t = pred[] constant(true)
}
"""
    entry = """
      %a = f32[4]{0} parameter(0)
      ROOT %x = f32[4]{0} while(%a), condition=%condition, body=%body"""
    cost = cost_of(entry, called)
    assert numbers(cost) == (None, None, None, None)
    assert "counted inside" in cost.reason
    assert numbers(cost_of(entry, called, name="b")) == (4, 0, 16, 16)


@pytest.mark.parametrize(
    "line, reason",
    [
        ("ROOT %x = f32[8]{0} add(%a, %gone)", "its operand gone is not in the module"),
        ("ROOT %x = f32[8]{0} newest-opcode(%a)", "no rule for opcode newest-opcode"),
        ("ROOT %x = f32[8]{0} fusion(%a), kind=kLoop, calls=%gone", "computation gone is not in the module"),
        ("ROOT %x = f32[8]{0} dot(%a, %a), lhs_contracting_dims={9}, rhs_contracting_dims={0}", "do not fit"),
        ("ROOT %x = f32[8]{0} reduce(%a, %a), dimensions={0}, to_apply=%gone", "computation gone is not"),
        ("ROOT %x = f32[8]{0} reduce(%a, %a), dimensions={0}", "no rule for opcode reduce"),
        ("ROOT %x = f32[8]{0} convolution(%a, %a), dim_labels=x", "do not fit"),
        ('ROOT %x = f32[8]{0} custom-call(%a), custom_call_target="__cublas$gemm"', "no dimension numbers"),
        ("ROOT %x = f32[8]{0} fusion(%a), kind=kLoop, calls=%circle", "nested too deeply"),
        ("ROOT %x = f32[8]{0} fusion(%a), kind=kLoop, calls=%snake", "no operand"),
    ],
)
def test_what_cannot_be_known_is_absent_with_a_reason(line, reason):
    circle = """
%circle (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %again = f32[8]{0} fusion(%p), kind=kLoop, calls=%circle
}
%snake (n: f32[8]) -> f32[8] {
  %n = f32[8]{0} parameter(3)
  %view = f32[8]{0} bitcast(%view)
  ROOT %tail = f32[8]{0} dynamic-update-slice(%tail, %n)
}
"""
    text = (
        f"HloModule m\n{circle}\nENTRY %main (a: f32[8]) -> f32[8] {{\n  %a = f32[8]{{0}} parameter(0)\n  {line}\n}}\n"
    )
    module = parse_hlo_text(text, source="made here")
    cost = estimate_cost(module, module.instructions["x"])
    assert cost.compute_flop is None
    assert reason in cost.reason


# Real instructions -------------------------------------------------------------------------------------------------

MAXTEXT = "hlo/gfx950/maxtext-moe-pp2-ep8.train_step.after_optimizations.txt"
MIXTRAL = "hlo/gfx950-mixtral-8x22b/triton/module_0001.jit_step.gfx950_gpu_after_optimizations.txt"

REAL = {
    MAXTEXT: {
        # bf16[65536,6144] x bf16[6144,16384], SILU: a transcendental operation for each element of the result.
        "cublas-lt-matmul.37": (
            2 * 65536 * 16384 * 6144,
            65536 * 16384,
            (65536 * 6144 + 6144 * 16384) * 2,
            65536 * 16384 * 2,
            None,
        ),
        # bf16[32768,6144] x bf16[6144,1024]; the workspace s8[67108864] is no traffic.
        "custom-call.1168": (2 * 32768 * 1024 * 6144, 0, (32768 * 6144 + 6144 * 1024) * 2, 32768 * 1024 * 2, None),
        # bf16[32768,6144] x bf16[6144,6144] + C: one addition for each element, C is read.
        "cublas-lt-matmul.36": (
            2 * 32768 * 6144 * 6144 + 32768 * 6144,
            0,
            (2 * 32768 * 6144 + 6144 * 6144) * 2,
            32768 * 6144 * 2,
            None,
        ),
        "sort.44.0": (0, 0, 32768 * 8 * 8, 32768 * 8 * 8, None),
        # bf16[1,4,8,1,2048,6144] to everybody else
        "all-to-all-start": (0, 0, 402653184 * 2, 402653184 * 2, 402653184 * 2),
        "collective-permute-start.2": (0, 0, 4 * 8192 * 6144 * 2, 4 * 8192 * 6144 * 2, 4 * 8192 * 6144 * 2),
        # Half of bf16[1,2,48,128,768], taken behind bitcasts; two indices, s32[1] and s32[], given four times.
        "loop_dynamic_slice_fusion": (0, 0, 48 * 128 * 768 * 2 + 4 + 4, 48 * 128 * 768 * 2, None),
    },
    MIXTRAL: {
        # bf16[768,48,128] into a stack of 56 of them, in place, behind a bitcast; the index is s32[].
        "loop_dynamic_update_slice_fusion.2": (0, 0, 768 * 48 * 128 * 2 + 4, 768 * 48 * 128 * 2, None),
        # Triton: bf16[16384,6144] x bf16[6144,1024]
        "gemm_fusion_dot.57": (2 * 16384 * 1024 * 6144, 0, (16384 * 6144 + 6144 * 1024) * 2, 16384 * 1024 * 2, None),
        # two of bf16[768,8,128] from each of eight devices
        "all-gather-start.17": (0, 0, 2 * 768 * 8 * 128 * 2, 2 * 6144 * 8 * 128 * 2, 2 * 6144 * 8 * 128 * 2),
        "all-reduce-start.1": (61440 * 7 // 8, 0, 61440 * 2, 61440 * 2, 61440 * 2),
        # Gradient of the embedding: bf16[131072,768] added into bf16[32768,768]; hit again and again, each row is
        # read and written once.
        "input_scatter_fusion.1": (
            131072 * 768,
            0,
            131072 * 768 * 2 + 131072 * 4 + 32768 * 768 * 2,
            32768 * 768 * 2,
            None,
        ),
    },
    "hlo/gfx950/moe_ragged_grouped.after_optimizations.txt": {
        # f16[64,128] x f16[4,128,128] in groups of rows, s32[4]; workspace s8[784].
        "custom-call.1": (2 * 64 * 128 * 128, 0, 64 * 128 * 2 + 4 * 128 * 128 * 2 + 4 * 4, 64 * 128 * 2, None),
    },
    "hlo/gfx950/lhs_on.after_optimizations.txt": {
        "all-gather-start": (0, 0, 256 * 128 * 2, 2048 * 128 * 2, 2048 * 128 * 2),
        "gemm_fusion_dot_general.7": (2 * 2048 * 256 * 512, 0, (2048 * 512 + 512 * 256) * 2, 2048 * 256 * 2, None),
        "wrapped_add": (2048 * 256, 0, 2 * 2048 * 256 * 2, 2048 * 256 * 2, None),
    },
}


@pytest.mark.parametrize("file", REAL)
def test_real_instructions_cost_what_their_shapes_say(shared: Path, file):
    path = shared / "data" / file
    costs = estimate_costs(parse_hlo_text(path.read_text(encoding="utf-8"), source=file))
    found = {name: (*numbers(costs[name]), costs[name].payload_bytes) for name in REAL[file]}
    assert found == REAL[file]
