"""What parameters mean, on small fused computations; bounds are worked out by hand."""

from __future__ import annotations

import pytest

from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.replay.roles import Meaning, Role, find_meaning

ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
LESS = "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = pred[] compare(a, b), direction=LT\n}\n"
GROUPED = (
    '{"grouped_gemm_backend_config":{"ragged_dot_dimension_numbers":{"dot_dimension_numbers":'
    '{"lhs_contracting_dimensions":["1"]},"lhs_ragged_dimensions":["0"]}}}'
)
CASES = {
    "rows that are gathered": (
        """  t = f32[16,4]{1,0} parameter(0)
  p = s32[8]{0} parameter(1)
  ROOT g = f32[8,2]{1,0} gather(t, p), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, """
        "index_vector_dim=1, slice_sizes={1,2}, indices_are_sorted=true",
        1,
        # 16 rows, slices of one: the last start is 15.
        Meaning(role=Role.INDEX, bound=15, is_sorted=True, uses=("gather",)),
    ),
    "rows through arithmetic and a convert": (
        """  t = f32[16,4]{1,0} parameter(0)
  p = u8[8]{0} parameter(1)
  w = s32[8]{0} convert(p)
  c = s32[] constant(3)
  b = s32[8]{0} broadcast(c), dimensions={}
  i = s32[8]{0} add(w, b)
  ROOT g = f32[8,4]{1,0} gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, """
        "index_vector_dim=1, slice_sizes={1,4}",
        1,
        Meaning(role=Role.INDEX, bound=15, uses=("gather",)),
    ),
    "distinct rows of a scatter": (
        """  t = f32[16,4]{1,0} parameter(0)
  p = s32[8,1]{1,0} parameter(1)
  u = f32[8,4]{1,0} parameter(2)
  ROOT s = f32[16,4]{1,0} scatter(t, p, u), update_window_dims={1}, inserted_window_dims={0}, """
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=add",
        1,
        Meaning(role=Role.INDEX, bound=15, is_unique=True, uses=("scatter",)),
    ),
    "start of a slice": (
        """  t = f32[56,4]{1,0} parameter(0)
  n = s32[] parameter(1)
  z = s32[] constant(0)
  ROOT d = f32[6,4]{1,0} dynamic-slice(t, n, z), dynamic_slice_sizes={6,4}""",
        1,
        Meaning(role=Role.START, bound=50, uses=("dynamic-slice",)),  # 56 - 6
    ),
    "start of an update": (
        """  t = f32[56,4]{1,0} parameter(0)
  u = f32[1,4]{1,0} parameter(1)
  n = s32[] parameter(2)
  z = s32[] constant(0)
  ROOT d = f32[56,4]{1,0} dynamic-update-slice(t, u, n, z)""",
        2,
        Meaning(role=Role.START, bound=55, uses=("dynamic-update-slice",)),
    ),
    "what is sorted": (
        "  k = f32[8]{0} parameter(0)\n  ROOT s = f32[8]{0} sort(k), dimensions={0}, to_apply=less",
        0,
        Meaning(role=Role.SORT_KEY),
    ),
    "predicate": (
        """  c = pred[8]{0} parameter(0)
  x = f32[8]{0} parameter(1)
  y = f32[8]{0} negate(x)
  ROOT s = f32[8]{0} select(c, x, y)""",
        0,
        Meaning(role=Role.PREDICATE),
    ),
    "start of a reduction": (
        """  x = f32[8]{0} parameter(0)
  z = f32[] parameter(1)
  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add""",
        1,
        Meaning(role=Role.INIT),
    ),
    "sizes of groups": (
        """  x = bf16[128,64]{1,0} parameter(0)
  w = bf16[8,64,32]{2,1,0} parameter(1)
  n = s32[8]{0} parameter(2)
  ROOT r = bf16[128,32]{1,0} custom-call(x, w, n), custom_call_target="__cublas$lt$groupedMatmul", backend_config="""
        + GROUPED,
        2,
        Meaning(role=Role.GROUP_SIZES, bound=128),
    ),
    "what a root is taken of": (
        "  x = bf16[8]{0} parameter(0)\n  w = f32[8]{0} convert(x)\n  ROOT r = f32[8]{0} rsqrt(w)",
        0,
        Meaning(role=Role.POSITIVE),
    ),
    "what is squared before a root": (
        "  x = f32[8]{0} parameter(0)\n  w = f32[8]{0} multiply(x, x)\n  ROOT r = f32[8]{0} rsqrt(w)",
        0,
        Meaning(role=Role.DATA),
    ),
    "second moments of an optimizer": (
        """  v = f32[8]{0} parameter(0)
  g = f32[8]{0} parameter(1)
  c = f32[] parameter(2)
  b = f32[8]{0} broadcast(c), dimensions={}
  w = f32[8]{0} multiply(v, b)
  s = f32[8]{0} multiply(g, b)
  q = f32[8]{0} multiply(s, g)
  t = f32[8]{0} add(w, q)
  d = f32[8]{0} divide(t, b)
  ROOT r = f32[8]{0} sqrt(d)""",
        0,
        Meaning(role=Role.POSITIVE),
    ),
    "gradients beside them": (
        """  v = f32[8]{0} parameter(0)
  g = f32[8]{0} parameter(1)
  h = f32[8]{0} multiply(g, v)
  q = f32[8]{0} multiply(h, g)
  t = f32[8]{0} add(v, q)
  ROOT r = f32[8]{0} sqrt(t)""",
        1,
        Meaning(role=Role.DATA),  # squared
    ),
    "what is subtracted before a root": (
        """  x = f32[8]{0} parameter(0)
  y = f32[8]{0} parameter(1)
  s = f32[8]{0} subtract(x, y)
  ROOT r = f32[8]{0} sqrt(s)""",
        1,
        Meaning(role=Role.DATA),
    ),
    "plain data": ("  x = f32[8]{0} parameter(0)\n  ROOT r = f32[8]{0} negate(x)", 0, Meaning(role=Role.DATA)),
    "quantised data": ("  x = s8[8]{0} parameter(0)\n  ROOT r = f32[8]{0} convert(x)", 0, Meaning(role=Role.DATA)),
    "a counter": ("  x = s32[] parameter(0)\n  ROOT r = s32[] negate(x)", 0, Meaning(role=Role.INTEGER)),
    "state of a generator": (
        """  x = u64[2]{0} parameter(0)
  ROOT r = (u64[2]{0}, u32[8]{0}) rng-bit-generator(x), algorithm=rng_three_fry""",
        0,
        Meaning(role=Role.RANDOM_STATE),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_meaning_of_a_parameter_is_found_where_it_is_used(name):
    lines, number, expected = CASES[name]
    module = parse_hlo_text(f"HloModule made, is_scheduled=true\n\n{ADD}\n{LESS}\nENTRY main {{\n{lines}\n}}\n", "made")
    assert module.is_complete, module.findings
    assert module.entry is not None
    assert find_meaning(module, module.entry, module.entry.parameters[number]) == expected


def test_meaning_is_found_inside_of_fusions():
    module = parse_hlo_text(
        """HloModule made, is_scheduled=true

inner {
  t = f32[9]{0} parameter(0)
  n = s32[] parameter(1)
  ROOT d = f32[2]{0} dynamic-slice(t, n), dynamic_slice_sizes={2}
}

ENTRY main {
  n = s32[] parameter(0)
  t = f32[9]{0} parameter(1)
  ROOT f = f32[2]{0} fusion(t, n), kind=kLoop, calls=inner
}
""",
        "made",
    )
    assert module.entry is not None
    first, second = (find_meaning(module, module.entry, each) for each in module.entry.parameters)
    assert first == Meaning(role=Role.START, bound=7, uses=("dynamic-slice",))
    assert second == Meaning(role=Role.DATA)
