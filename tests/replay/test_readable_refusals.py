"""Everything that has no readable form, and the reason that is given for each."""

from __future__ import annotations

import numpy as np
import pytest

from rocktools.hlo.proto_fields import hlo_messages
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.replay.readable import render_readable
from rocktools.replay.readable_literals import NotTranslatable, literal_expression, read_literal

REDUCERS = """add {
  left = f32[] parameter(0)
  right = f32[] parameter(1)
  ROOT sum = f32[] add(left, right)
}

own {
  one = f32[] parameter(0)
  other = f32[] parameter(1)
  ROOT power = f32[] power(one, other)
}
"""
PRODUCT = 'ROOT r = f32[4,4]{1,0} custom-call(x, x), custom_call_target="__cublas$lt$matmul", backend_config='
NUMBERS = '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}'
EIGHT = PRODUCT.replace("custom-call(x, x)", "custom-call(x, x, y)").replace("$matmul", "$matmul$f8")

CASES = [
    ("ROOT r = f32[4]{0} reduce-window(v, y), window={size=2 rhs_reversal=1}, to_apply=add", "window that is reversed"),
    ("t = (f32[4]{0}, f32[4]{0}) tuple(v, v)\n  ROOT r = f32[8]{0} bitcast(t)", "a bitcast of a tuple"),
    ("ROOT r = s16[8]{0} bitcast(v)", "a bitcast of f32 to s16, which differ in width"),
    ("ROOT r = f32[4,4]{1,0} convolution(x, x), window={}", "a convolution without labels of its dimensions"),
    ("ROOT r = u32[4]{0} rng-bit-generator(v), algorithm=rng_default", "random bits without the state behind them"),
    ("ROOT r = (f32[2]{0}, s32[2]{0}) topk(v), k=2, largest=false", "the smallest values of a top-k"),
    ("ROOT r = (f32[4]{0}, f32[4]{0}) scatter(v, v, n, v, v), to_apply=add", "a scatter of several arrays"),
    ("ROOT r = f6e2m3fn[4]{0} convert(v)", "jax has no type for f6e2m3fn"),
    ("c = f32[] constant(1)\n  ROOT r = f32[] negate(c)", "a constant without its values"),
    ("ROOT r = pred[4]{0} compare(v, v)", "an attribute is missing or strange"),
    ("ROOT r = f32[4]{0} all-reduce(v), replica_groups={{0,1}}, to_apply=own", "reduces with something of its own"),
    ("ROOT r = (f32[4]{0}, f32[4]{0}) all-to-all(v, v), replica_groups={{0,1}}", "all-to-all of 2 operands"),
    ("ROOT r = f32[4]{0} all-reduce(v), replica_groups={{0,?}}, to_apply=add", "the groups of devices"),
    (PRODUCT + '{"gemm_backend_config":{"epilogue":"SWISH",' + NUMBERS + "}}", "a product with the epilogue SWISH"),
    (PRODUCT + '{"gemm_backend_config":{"alpha_imag":1,' + NUMBERS + "}}", "a product scaled by a complex number"),
    (PRODUCT + '{"gemm_backend_config":{}}', "a product whose backend_config has no dimension numbers"),
    (EIGHT + '{"gemm_backend_config":{' + NUMBERS + "}}", "eight-bit operands with more than two scales"),
    (PRODUCT.replace("matmul", "groupedMatmul") + "{}", "a grouped product whose backend_config has no dimension"),
    ("ROOT r = f32[4]{0} fft(v), fft_type=FFT, fft_length={4}", "lax has no such instruction"),
]


@pytest.mark.parametrize("lines, reason", CASES)
def test_instruction_without_a_form_is_named_with_the_reason(lines, reason):
    text = (
        f"HloModule made, is_scheduled=true\n\n{REDUCERS}\nENTRY main {{\n  x = f32[4,4]{{1,0}} parameter(0)\n"
        f"  v = f32[4]{{0}} parameter(1)\n  y = f32[] parameter(2)\n  n = s32[4,1]{{1,0}} parameter(3)\n  {lines}\n}}\n"
    )
    module = parse_hlo_text(text, "made")
    assert module.entry is not None
    assert module.entry.root is not None
    with pytest.raises(NotTranslatable) as raised:
        render_readable(module, {}, devices_count=2)
    assert reason in str(raised.value)
    assert str(raised.value).startswith("%")


def test_program_without_an_entry_has_none():
    with pytest.raises(NotTranslatable, match="a program without an entry"):
        render_readable(parse_hlo_text(f"HloModule made\n\n{REDUCERS}", "made"), {})


def literal(dtype: int, count: int, **values: object) -> object:
    made = hlo_messages()["Literal"](**values)
    made.shape.element_type = dtype
    made.shape.dimensions.append(count)
    made.shape.layout.minor_to_major.append(0)
    return made


def test_constants_that_cannot_be_read_are_refused():
    """11 is f32 among the element types of XLA, 15 c64."""
    assert read_literal(literal(11, 2, f32s=[1, 2])).tolist() == [1, 2]
    with pytest.raises(NotTranslatable, match="a constant of 4 elements has the values of 2"):
        read_literal(literal(11, 4, f32s=[1, 2]))
    with pytest.raises(NotTranslatable, match="constants of type c64 are not read"):
        read_literal(literal(15, 1))


def test_constants_that_no_script_can_hold_are_refused():
    assert literal_expression(np.zeros(10**6, np.float32), "f32") == "jnp.full((1000000,), 0.0, jnp.float32)"
    with pytest.raises(NotTranslatable, match="a constant of 1025 elements is too large for a script"):
        literal_expression(np.arange(1025, dtype=np.float32), "f32")
    with pytest.raises(NotTranslatable, match="jax has no type for f6e2m3fn"):
        literal_expression(np.zeros(2, np.float32), "f6e2m3fn")
