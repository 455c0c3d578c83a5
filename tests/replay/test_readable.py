"""Right answers are written in numpy, from what HLO says an instruction means."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from replay_programs import make_replay, run_readable

from rocktools.replay.bundled_inputs import make_inputs, numpy_dtype
from rocktools.replay.readable import identifier

pytest.importorskip("jax")

ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"


def _program(fused: str, parameters: list[str], result: str, more: str = "") -> str:
    """A module with one fusion `f` of these parameters."""
    names = [f"x{number}" for number in range(len(parameters))]
    lines = "\n".join(f"  x{number} = {shape} parameter({number})" for number, shape in enumerate(parameters))
    return (
        f"HloModule made, is_scheduled=true\n\n{more}\nfused {{\n{fused}\n}}\n\nENTRY main {{\n{lines}\n"
        f"  ROOT f = {result} fusion({', '.join(names)}), kind=kLoop, calls=fused\n}}\n"
    )


CASES = {
    "elementwise": (
        """  p0 = f32[4,6]{1,0} parameter(0)
  p1 = f32[4,6]{1,0} parameter(1)
  c = f32[] constant(0.5)
  b = f32[4,6]{1,0} broadcast(c), dimensions={}
  m = f32[4,6]{1,0} multiply(p0, b)
  t = f32[4,6]{1,0} tanh(m)
  e = f32[4,6]{1,0} exponential(p1)
  k = pred[4,6]{1,0} compare(t, p1), direction=GT
  ROOT s = f32[4,6]{1,0} select(k, t, e)""",
        ["f32[4,6]{1,0}", "f32[4,6]{1,0}"],
        "f32[4,6]{1,0}",
    ),
    "reduction and window": (
        """  p0 = f32[4,8]{1,0} parameter(0)
  z = f32[] constant(0)
  r = f32[4]{0} reduce(p0, z), dimensions={1}, to_apply=add
  w = f32[4,8]{1,0} reduce-window(p0, z), window={size=1x8 pad=0_0x7_0}, to_apply=add
  b = f32[4,8]{1,0} broadcast(r), dimensions={0}
  ROOT d = f32[4,8]{1,0} divide(w, b)""",
        ["f32[4,8]{1,0}"],
        "f32[4,8]{1,0}",
    ),
    "slices, padding, concatenation": (
        """  p0 = f32[4,6]{1,0} parameter(0)
  p1 = s32[] parameter(1)
  z = f32[] constant(-1)
  s = f32[2,3]{1,0} slice(p0), slice={[0:4:2], [1:4]}
  zero = s32[] constant(0)
  d = f32[2,3]{1,0} dynamic-slice(p0, p1, zero), dynamic_slice_sizes={2,3}
  c = f32[2,6]{1,0} concatenate(s, d), dimensions={1}
  a = f32[4,7]{1,0} pad(c, z), padding=1_1x0_1
  ROOT r = f32[4,7]{1,0} reverse(a), dimensions={0}""",
        ["f32[4,6]{1,0}", "s32[]"],
        "f32[4,7]{1,0}",
    ),
    "update in place": (
        """  p0 = f32[5,4]{1,0} parameter(0)
  p1 = f32[4]{0} parameter(1)
  p2 = s32[] parameter(2)
  zero = s32[] constant(0)
  n = f32[1,4]{1,0} bitcast(p1)
  ROOT u = f32[5,4]{1,0} dynamic-update-slice(p0, n, p2, zero)""",
        ["f32[5,4]{1,0}", "f32[4]{0}", "s32[]"],
        "f32[5,4]{1,0}",
    ),
    "several results": (
        """  p0 = bf16[4,6]{1,0} parameter(0)
  c = f32[4,6]{1,0} convert(p0)
  n = bf16[4,6]{1,0} negate(p0)
  ROOT t = (f32[4,6]{1,0}, bf16[4,6]{1,0}) tuple(c, n)""",
        ["bf16[4,6]{1,0}"],
        "(f32[4,6]{1,0}, bf16[4,6]{1,0})",
    ),
    "product": (
        """  p0 = f32[2,4,8]{2,1,0} parameter(0)
  p1 = f32[2,8,3]{2,1,0} parameter(1)
  ROOT d = f32[2,4,3]{2,1,0} dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, """
        "rhs_contracting_dims={1}",
        ["f32[2,4,8]{2,1,0}", "f32[2,8,3]{2,1,0}"],
        "f32[2,4,3]{2,1,0}",
    ),
    "gather": (
        """  p0 = f32[16,4]{1,0} parameter(0)
  p1 = s32[8]{0} parameter(1)
  ROOT g = f32[8,4]{1,0} gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, """
        "index_vector_dim=1, slice_sizes={1,4}",
        ["f32[16,4]{1,0}", "s32[8]{0}"],
        "f32[8,4]{1,0}",
    ),
    "scatter": (
        """  p0 = f32[16,4]{1,0} parameter(0)
  p1 = s32[8,1]{1,0} parameter(1)
  p2 = f32[8,4]{1,0} parameter(2)
  ROOT s = f32[16,4]{1,0} scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, """
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        ["f32[16,4]{1,0}", "s32[8,1]{1,0}", "f32[8,4]{1,0}"],
        "f32[16,4]{1,0}",
    ),
}


def _update(base, row, place):
    result = base.copy()
    result[np.clip(place, 0, 4)] = row
    return result


def _added(base, places, updates):
    result = base.copy()
    np.add.at(result, places[:, 0], updates)
    return result


def _sliced(values, start):
    first = np.clip(start, 0, 2)
    joined = np.concatenate([values[0:4:2, 1:4], values[first : first + 2, 0:3]], axis=1)
    return np.pad(joined, ((1, 1), (0, 1)), constant_values=-1)[::-1]


EXPECTED = {
    "elementwise": lambda x, y: np.where(np.tanh(x * np.float32(0.5)) > y, np.tanh(x * np.float32(0.5)), np.exp(y)),
    "reduction and window": lambda x: np.cumsum(x, axis=1) / x.sum(axis=1)[:, None],
    "slices, padding, concatenation": _sliced,
    "update in place": _update,
    "several results": lambda x: (x.astype("f4"), -x),
    "product": lambda x, y: x @ y,
    "gather": lambda x, i: x[i],
    "scatter": _added,
}


@pytest.mark.parametrize("name", CASES)
def test_readable_form_computes_what_the_instructions_mean(name):
    fused, parameters, result = CASES[name]
    replay = make_replay(_program(fused, parameters, result, ADD), "f")
    arguments = make_inputs(replay.spec["inputs"], "seed")
    if name == "reduction and window":
        arguments = [np.abs(each) + 1 for each in arguments]  # no sum near zero
    made = EXPECTED[name](*arguments)
    expected, found = made if isinstance(made, tuple) else (made,), run_readable(replay, arguments)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        # float32: up to 8 terms below 16, in another order (8 * 16 * 2**-24); exp and tanh to a few last places.
        np.testing.assert_allclose(one.astype("f8"), other.astype("f8"), rtol=16 * 2.0**-24, atol=8 * 16 * 2.0**-24)


def test_column_major_operand_is_read_by_its_layout():
    """The bitcast takes the bytes of a {0,1} array: element (i, j) of the result is element (j, i) of the operand."""
    text = _program(
        """  p0 = f32[4,6]{0,1} parameter(0)
  ROOT b = f32[6,4]{1,0} bitcast(p0)""",
        ["f32[4,6]{0,1}"],
        "f32[6,4]{1,0}",
    )
    replay = make_replay(text, "f")
    assert replay.spec["inputs"][0]["minor_to_major"] == [0, 1]
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    (found,) = run_readable(replay, [values])
    np.testing.assert_array_equal(found, values.T)


def test_bitcast_between_layouts_keeps_the_bytes():
    """f32[2,3,4]{0,2,1} in memory is 3 x 4 x 2; as f32[6,4]{0,1}, memory is 4 x 6."""
    text = _program(
        """  p0 = f32[2,3,4]{0,2,1} parameter(0)
  ROOT b = f32[6,4]{0,1} bitcast(p0)""",
        ["f32[2,3,4]{0,2,1}"],
        "f32[6,4]{0,1}",
    )
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    memory = values.transpose(1, 2, 0).reshape(-1)
    (found,) = run_readable(make_replay(text, "f"), [values])
    np.testing.assert_array_equal(found, memory.reshape(4, 6).T)


@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2", "s4", "u4", "f8e4m3fnuz"])
def test_narrow_operands_are_read_exactly(dtype):
    """Every value of these types is a float32, and a difference of two of them is exact there."""
    packed = ":E(4)" if dtype in ("s4", "u4") else ""
    text = _program(
        f"""  p0 = {dtype}[4,6]{{1,0{packed}}} parameter(0)
  p1 = {dtype}[4,6]{{1,0{packed}}} parameter(1)
  a = f32[4,6]{{1,0}} convert(p0)
  b = f32[4,6]{{1,0}} convert(p1)
  ROOT s = f32[4,6]{{1,0}} subtract(a, b)""",
        [f"{dtype}[4,6]{{1,0{packed}}}"] * 2,
        "f32[4,6]{1,0}",
    )
    replay = make_replay(text, "f")
    left, right = make_inputs(replay.spec["inputs"], "seed")
    assert left.dtype == numpy_dtype(dtype)
    assert len(np.unique(left.astype("f4"))) > 5
    (found,) = run_readable(replay, [left, right])
    np.testing.assert_array_equal(found, left.astype("f4") - right.astype("f4"))


ROUNDING = """round {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  na = bf16[] convert(a)
  nb = bf16[] convert(b)
  s = bf16[] add(na, nb)
  ROOT w = f32[] convert(s)
}
"""


def test_reducer_that_rounds_is_not_taken_for_a_sum():
    """1 + 2**-9 is 1 in bfloat16, which has 8 bits, in whatever order; as float32 it is not."""
    text = _program(
        """  p0 = f32[2]{0} parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(p0, zero), dimensions={0}, to_apply=round""",
        ["f32[2]{0}"],
        "f32[]",
        ROUNDING,
    )
    replay = make_replay(text, "f")
    assert replay.readable is not None
    assert "lax.add, " not in replay.readable.text
    (found,) = run_readable(replay, [np.array([1, 2.0**-9], np.float32)])
    assert found == 1.0


def test_reducer_in_bfloat16_that_adds_in_float32_is_a_sum():
    """Rounded once, to the nearest: the same bits as the sum in bfloat16."""
    widened = """widened {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  wa = f32[] convert(a)
  wb = f32[] convert(b)
  s = f32[] add(wa, wb)
  ROOT n = bf16[] convert(s)
}
"""
    text = _program(
        """  p0 = bf16[4,16]{1,0} parameter(0)
  z = bf16[] constant(0)
  ROOT r = bf16[4]{0} reduce(p0, z), dimensions={1}, to_apply=widened""",
        ["bf16[4,16]{1,0}"],
        "bf16[4]{0}",
        widened,
    )
    replay = make_replay(text, "f")
    assert replay.readable is not None
    assert "lax.reduce(p0, z, lax.add, (1,))" in replay.readable.text


def test_scatter_with_a_rounding_combiner_is_done_update_by_update():
    """As XLA's own: rows 3 and 5 are hit twice, and each sum is rounded to bfloat16; the other rows are not."""
    text = _program(
        """  p0 = f32[8,4]{1,0} parameter(0)
  p1 = s32[4,1]{1,0} parameter(1)
  p2 = f32[4,4]{1,0} parameter(2)
  ROOT s = f32[8,4]{1,0} scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, """
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=round",
        ["f32[8,4]{1,0}", "s32[4,1]{1,0}", "f32[4,4]{1,0}"],
        "f32[8,4]{1,0}",
        ROUNDING,
    )
    replay = make_replay(text, "f")
    base, _, updates = make_inputs(replay.spec["inputs"], "seed")
    indices = np.array([[3], [5], [3], [5]], np.int32)
    narrow = numpy_dtype("bf16")
    expected = base.copy()
    for (row,), update in zip(indices, updates, strict=True):
        expected[row] = (expected[row].astype(narrow) + update.astype(narrow)).astype(np.float32)
    (found,) = run_readable(replay, [base, indices, updates])
    np.testing.assert_array_equal(found, expected)


def test_update_outside_is_left_out_and_index_outside_is_moved_inside():
    """HLO drops scatter updates that are out of bounds, and clamps the indices of a gather."""
    fused, parameters, result = CASES["scatter"]
    replay = make_replay(_program(fused, parameters, result, ADD), "f")
    base, updates = np.zeros((16, 4), np.float32), np.ones((8, 4), np.float32)
    indices = np.full((8, 1), 99, np.int32)
    (found,) = run_readable(replay, [base, indices, updates])
    assert found.sum() == 0
    fused, parameters, result = CASES["gather"]
    replay = make_replay(_program(fused, parameters, result, ADD), "f")
    table = np.arange(64, dtype=np.float32).reshape(16, 4)
    (found,) = run_readable(replay, [table, np.array([99] * 8, np.int32)])
    np.testing.assert_array_equal(found, np.tile(table[15], (8, 1)))


def test_sort_by_two_keys_downwards_and_upwards_gives_what_numpy_gives():
    comparator = """order {
  a0 = f32[] parameter(0)
  b0 = f32[] parameter(1)
  a1 = s32[] parameter(2)
  b1 = s32[] parameter(3)
  first = pred[] compare(b0, a0), direction=LT
  other = pred[] compare(a0, b0), direction=LT
  second = pred[] compare(a1, b1), direction=LT
  same = pred[] compare(first, other), direction=EQ
  ROOT r = pred[] select(same, second, first)
}
"""
    text = _program(
        """  p0 = f32[64]{0} parameter(0)
  i = s32[64]{0} iota(), iota_dimension=0
  ROOT s = (f32[64]{0}, s32[64]{0}) sort(p0, i), dimensions={0}, to_apply=order""",
        ["f32[64]{0}"],
        "(f32[64]{0}, s32[64]{0})",
        comparator,
    )
    values = np.repeat(np.arange(8, dtype=np.float32) - 3, 8)[np.argsort(np.arange(64) * 37 % 64)]
    keys, places = run_readable(make_replay(text, "f"), [values])
    expected = np.lexsort((np.arange(64), -values))
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(keys, values[expected])


def _silu(x):
    return x / (1 + np.exp(-x))


def _gelu(x):
    """The approximation with tanh (Hendrycks and Gimpel 2016)."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    "epilogue, activation",
    [("BIAS", lambda x: x), ("BIAS_RELU", lambda x: np.maximum(x, 0)), ("BIAS_SILU", _silu), ("BIAS_GELU", _gelu)],
)
def test_library_product_with_scaling_and_epilogue_gives_what_numpy_gives(epilogue, activation):
    config = (
        f'{{"gemm_backend_config":{{"alpha_real":2,"beta":0,"epilogue":"{epilogue}","dot_dimension_numbers":'
        '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}'
    )
    call = f'custom_call_target="__cublas$lt$matmul", backend_config={config}'
    text = f"""HloModule made, is_scheduled=true

ENTRY main {{
  a = f32[4,8]{{1,0}} parameter(0)
  b = f32[8,3]{{1,0}} parameter(1)
  c = f32[3]{{0}} parameter(2)
  ROOT m = (f32[4,3]{{1,0}}, s8[16]{{0}}) custom-call(a, b, c), {call}
}}
"""
    replay = make_replay(text, "m")
    left, right, bias = make_inputs(replay.spec["inputs"], "seed")
    found, workspace = run_readable(replay, [left, right, bias])
    # 8 products of numbers below 4, each rounded once on both sides: 8 * 16 * 2**-23 absolute, doubled by alpha.
    expected = activation((2 * (left @ right) + bias).astype("f8"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=2 * 8 * 16 * 2.0**-23)
    assert workspace.shape == (16,)


GROUPED = (
    '{"grouped_gemm_backend_config":{"ragged_dot_dimension_numbers":{"dot_dimension_numbers":'
    '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["1"]},"lhs_ragged_dimensions":["0"],"rhs_group_dimensions":["0"]}}}'
)


def test_grouped_product_multiplies_each_row_with_its_groups_matrix():
    call = f'custom_call_target="__cublas$lt$groupedMatmul", backend_config={GROUPED}'
    text = f"""HloModule made, is_scheduled=true

ENTRY main {{
  a = f32[10,4]{{1,0}} parameter(0)
  b = f32[3,4,2]{{2,1,0}} parameter(1)
  n = s32[3]{{0}} parameter(2)
  ROOT m = f32[10,2]{{1,0}} custom-call(a, b, n), {call}
}}
"""
    replay = make_replay(text, "m")
    assert replay.spec["inputs"][2]["role"] == "group-sizes"
    rows, matrices, sizes = make_inputs(replay.spec["inputs"], "seed")
    assert sizes.sum() == 10
    (found,) = run_readable(replay, [rows, matrices, sizes])
    expected = np.stack([row @ matrices[group] for row, group in zip(rows, np.repeat(range(3), sizes), strict=True)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * 16 * 2.0**-23)


@pytest.mark.parametrize(
    "line, reason",
    [
        ('ROOT r = f32[4]{0} custom-call(p0), custom_call_target="te_mine_ffi"', "the custom call te_mine_ffi"),
        (
            "k = pred[4]{0} compare(p0, p0), direction=LT, type=TOTALORDER\n  ROOT r = f32[4]{0} select(k, p0, p0)",
            "total order",
        ),
        ("ROOT r = f32[4]{0} map(p0), dimensions={0}, to_apply=once", "no such instruction"),
    ],
)
def test_what_lax_cannot_say_is_refused_by_name(line, reason):
    once = "once {\n  a = f32[] parameter(0)\n  ROOT n = f32[] negate(a)\n}\n"
    text = _program(f"  p0 = f32[4]{{0}} parameter(0)\n  {line}", ["f32[4]{0}"], "f32[4]{0}", once)
    replay = make_replay(text, "f")
    assert replay.readable is None
    assert replay.refusal.startswith("%")
    assert reason in replay.refusal


def test_each_instruction_is_a_line_with_its_shape():
    fused, parameters, result = CASES["elementwise"]
    replay = make_replay(_program(fused, parameters, result), "f")
    assert replay.readable is not None
    lines = replay.readable.text.splitlines()
    assert sorted(line.split(" = ")[0].strip() for line in lines if " = " in line) == sorted("cbmteksf")
    assert "    t = lax.tanh(m)  # f32[4,6]{1,0}" in lines
    ast.parse(replay.readable.text)


@pytest.mark.parametrize("name, made", [("add.1", "add_1"), ("lambda", "v_lambda"), ("1x", "v_1x"), ("jnp", "v_jnp")])
def test_names_become_identifiers(name, made):
    assert identifier(name) == made
