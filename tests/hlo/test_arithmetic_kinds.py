"""Units and formats of arithmetic, for the ceiling that an instruction is held against."""

from __future__ import annotations

import collections

import pytest

from rocktools.hlo.arithmetic_kinds import ArithmeticKind, find_arithmetic_kinds
from rocktools.hlo.text_reader import parse_hlo_text

MODULE = """HloModule kinds

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

product {
  x = bf16[64,128]{1,0} parameter(0)
  y = bf16[128,32]{1,0} parameter(1)
  d = f32[64,32]{1,0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT scaled = f32[64,32]{1,0} multiply(d, d)
}

ENTRY main {
  p = bf16[64,128]{1,0} parameter(0)
  q = bf16[128,32]{1,0} parameter(1)
  e = f8e4m3fn[64,128]{1,0} parameter(2)
  f = f8e5m2[128,32]{1,0} parameter(3)
  i = s8[64,128]{1,0} parameter(4)
  j = s8[128,32]{1,0} parameter(5)
  r = f32[64,128]{1,0} parameter(6)
  s = f32[128,32]{1,0} parameter(7)
  z = f32[] constant(0)
  fused = f32[64,32]{1,0} fusion(p, q), kind=kCustom, calls=product
  eight = f32[64,32]{1,0} dot(e, f), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  whole = s32[64,32]{1,0} dot(i, j), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  wide = f32[64,32]{1,0} dot(r, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  split = f32[64,32]{1,0} dot(r, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_bf16_bf16_f32_x3
  called = (f32[64,32]{1,0}, s8[256]{0}) custom-call(p, q), custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}
  total = f32[64]{0} reduce(r, z), dimensions={1}, to_apply=add
  unknown = f32[64,32]{1,0} custom-call(p, q), custom_call_target="somebody$attention"
  integers = s8[64,128]{1,0} add(i, i)
  ROOT sums = f32[64,128]{1,0} add(r, r)
}
"""  # noqa: E501
EXPECTED = [
    ("fused", "matrix", "bf16"),
    ("eight", "matrix", "f8"),
    ("whole", "matrix", "s8"),
    ("wide", "matrix", "f32"),
    ("split", "matrix", "bf16"),
    ("called", "matrix", "bf16"),
    ("total", "vector", "f32"),
    ("sums", "vector", "f32"),
]


@pytest.mark.parametrize("name, unit, dtype", EXPECTED)
def test_products_are_matrix_work_in_the_format_of_their_operands(name, unit, dtype):
    kind = find_arithmetic_kinds(parse_hlo_text(MODULE, "made"))[name]
    assert (kind.unit, kind.dtype[: len(dtype)]) == (unit, dtype)


@pytest.mark.parametrize("name", ["unknown", "integers", "p"])
def test_what_calculates_nothing_or_has_no_rule_has_no_kind(name):
    assert name not in find_arithmetic_kinds(parse_hlo_text(MODULE, "made"))


def test_products_of_a_real_step_are_all_bf16(shared):
    from mixtral_program import mixtral_program

    module = mixtral_program(shared, "triton").module
    kinds = find_arithmetic_kinds(module)
    counts = collections.Counter(kinds[name] for name in module.instructions if name.startswith("gemm_fusion_dot"))
    assert set(counts) == {ArithmeticKind("matrix", "bf16")}
