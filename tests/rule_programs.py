"""HLO texts of a few instructions, for the tests of rules."""

from __future__ import annotations

STEP = """HloModule jit_step, is_scheduled=true

%fused_transpose (a: f32[64,128]) -> f32[128,64] {
  %a = f32[64,128]{1,0} parameter(0)
  ROOT %t = f32[128,64]{1,0} transpose(%a), dimensions={1,0}
}

%fused_work (b: f32[64,128]) -> f32[128,64] {
  %b = f32[64,128]{1,0} parameter(0)
  %u = f32[128,64]{1,0} transpose(%b), dimensions={1,0}
  ROOT %e = f32[128,64]{1,0} exponential(%u)
}

%fused_lookup (table: f32[64,128], at: s32[16,1]) -> f32[16,128] {
  %table = f32[64,128]{1,0} parameter(0)
  %at = s32[16,1]{1,0} parameter(1)
  ROOT %g = f32[16,128]{1,0} gather(%table, %at), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,128}
}

ENTRY %main (p: f32[64,128], i: s32[16,1]) -> f32[64,64] {
  %p = f32[64,128]{1,0} parameter(0)
  %i = s32[16,1]{1,0} parameter(1)
  %exp.1 = f32[64,128]{1,0} exponential(%p)
  %loop_transpose_fusion.1 = f32[128,64]{1,0} fusion(%exp.1), kind=kLoop, calls=%fused_transpose
  %loop_transpose_fusion.2 = f32[128,64]{1,0} fusion(%exp.1), kind=kLoop, calls=%fused_work
  %loop_gather_fusion.1 = f32[16,128]{1,0} fusion(%p, %i), kind=kLoop, calls=%fused_lookup
  ROOT %dot.1 = f32[64,64]{1,0} dot(%exp.1, %loop_transpose_fusion.1), lhs_contracting_dims={1}, \
rhs_contracting_dims={0}
}
"""
"""A product, elementwise work, a pure transposition, one with work in it, and a look-up."""

UPDATE = """HloModule jit_update, is_scheduled=true, entry_computation_layout={(f32[4194304]{0}, f32[4194304]{0}, \
f32[4194304]{0})->(f32[4194304]{0}, f32[4194304]{0})}

%fused_adam (w: f32[4194304], m: f32[4194304], g: f32[4194304]) -> (f32[4194304], f32[4194304]) {
  %w = f32[4194304]{0} parameter(0)
  %m = f32[4194304]{0} parameter(1)
  %g = f32[4194304]{0} parameter(2)
  %new_m = f32[4194304]{0} add(%m, %g)
  %new_w = f32[4194304]{0} subtract(%w, %new_m)
  ROOT %both = (f32[4194304]{0}, f32[4194304]{0}) tuple(%new_w, %new_m)
}

ENTRY %main (w0: f32[4194304], m0: f32[4194304], g0: f32[4194304]) -> (f32[4194304], f32[4194304]) {
  %w0 = f32[4194304]{0} parameter(0)
  %m0 = f32[4194304]{0} parameter(1)
  %g0 = f32[4194304]{0} parameter(2)
  %adam = (f32[4194304]{0}, f32[4194304]{0}) fusion(%w0, %m0, %g0), kind=kLoop, calls=%fused_adam
  %w1 = f32[4194304]{0} get-tuple-element(%adam), index=0
  %m1 = f32[4194304]{0} get-tuple-element(%adam), index=1
  ROOT %out = (f32[4194304]{0}, f32[4194304]{0}) tuple(%w1, %m1)
}
"""
"""An optimizer whose two results, of 16 MiB each, replace two of its arguments; nothing is donated."""
