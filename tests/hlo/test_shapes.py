"""Shapes as text and back, their sizes, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.errors import InputError
from rocktools.hlo.shapes import DTYPE_BITS, Shape, parse_shape

# Text, element type, dimensions, layout, bytes by hand.
ARRAYS = [
    ("f32[]", "f32", (), None, 4),
    ("f32[]{}", "f32", (), None, 4),
    ("bf16[4,128]{1,0}", "bf16", (4, 128), "1,0", 4 * 128 * 2),
    ("bf16[4,128]{0,1:T(8,128)(2,1)S(5)}", "bf16", (4, 128), "0,1:T(8,128)(2,1)S(5)", 4 * 128 * 2),
    ("u32[]{:T(128)}", "u32", (), ":T(128)", 4),
    ("pred[3]", "pred", (3,), None, 3),
    ("f32[0,8]{1,0}", "f32", (0, 8), "1,0", 0),
    ("f8e4m3fn[16]{0}", "f8e4m3fn", (16,), "0", 16),
    ("c64[2]{0}", "c64", (2,), "0", 16),
    ("token[]", "token", (), None, 0),
    ("opaque[]", "opaque", (), None, 0),
    # Types below a byte take one, unless their layout packs them: XLA's ShapeUtil::ByteSizeOfElements.
    ("s4[3]{0}", "s4", (3,), "0", 3),
    ("s4[3]{0:E(4)}", "s4", (3,), "0:E(4)", 2),
    ("f4e2m1fn[7,2]{1,0:E(4)}", "f4e2m1fn", (7, 2), "1,0:E(4)", 7),
    ("f32[2,3]{1,0:P(f32[3]{0})}", "f32", (2, 3), "1,0:P(f32[3]{0})", 24),
]


@pytest.mark.parametrize("text, dtype, dimensions, layout, size_bytes", ARRAYS)
def test_an_array_is_read_with_its_layout(text, dtype, dimensions, layout, size_bytes):
    shape = parse_shape(text)
    assert (shape.dtype, shape.dimensions, shape.layout) == (dtype, dimensions, layout)
    assert shape.size_bytes == size_bytes


def test_dimensions_that_are_only_bounded_are_told():
    shape = parse_shape("f32[<=8,4]{1,0}")
    assert (shape.dimensions, shape.dynamic) == ((8, 4), (0,))
    assert str(shape) == "f32[<=8,4]{1,0}"


def test_tuples_nest_and_their_comments_are_dropped():
    shape = parse_shape("((f32[2]{0}, s8[3]{0}), /*index=1*/token[], ())")
    assert [leaf.dtype for leaf in shape.leaves()] == ["f32", "s8", "token"]
    assert shape.size_bytes == 11
    assert shape.elements_count == 5
    assert str(shape) == "((f32[2]{0}, s8[3]{0}), token[], ())"


def test_a_buffer_has_the_size_of_what_is_in_it():
    shape = parse_shape("b(f32[8]{0})")
    assert (shape.dtype, shape.size_bytes, shape.is_tuple) == ("buffer", 32, False)
    assert [leaf.dtype for leaf in shape.leaves()] == ["f32"]


def test_without_a_written_layout_the_last_dimension_varies_fastest():
    assert parse_shape("f32[2,3,4]").minor_to_major == (2, 1, 0)
    assert parse_shape("f32[2,3,4]{0,2,1:T(8)}").minor_to_major == (0, 2, 1)
    assert parse_shape("f32[2,3]{0,1}").without_layout() == parse_shape("f32[2,3]")


REFUSED = [
    *("", "f32", "f32[", "f32[2", "f32[2]{0", "(f32[2]", "f32[2] x", "[2]", "f32[-1]", "f32[?]", "F32[2]"),
    *("f32[2]{1}", "f32[2,2]{0,0}", "f32[2]{x}", "(f32[2] f32[2])", "(f32[2],,)", "b()", "b(f32[], f32[])"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_shape_is_refused_with_its_place(text):
    with pytest.raises(InputError, match="not a shape of HLO") as caught:
        parse_shape(text)
    assert caught.value.where.startswith("column ")


def test_tuples_without_an_end_of_nesting_are_refused_not_followed():
    with pytest.raises(InputError, match="nested more than"):
        parse_shape("(" * 5000 + ")" * 5000)


def test_an_unknown_element_type_is_kept_and_has_no_size():
    shape = parse_shape("f6e9m9[2]")
    with pytest.raises(KeyError):
        _ = shape.size_bytes


@st.composite
def shapes(draw: st.DrawFn, *, depth: int = 2) -> Shape:
    if depth and draw(st.integers(0, 3)) == 0:
        return Shape(dtype="tuple", elements=tuple(draw(st.lists(shapes(depth=depth - 1), max_size=7))))
    dimensions = tuple(draw(st.lists(st.integers(0, 300), max_size=4)))
    order = draw(st.permutations(range(len(dimensions))))
    extra = draw(st.sampled_from(["", ":T(8,128)", ":T(8,128)(2,1)S(1)", ":E(4)", ":S(5)"]))
    layout = ",".join(map(str, order)) + extra
    return Shape(
        dtype=draw(st.sampled_from(sorted(DTYPE_BITS))),
        dimensions=dimensions,
        layout=draw(st.sampled_from([None, layout or None])),
        dynamic=tuple(sorted(draw(st.sets(st.sampled_from(range(len(dimensions))))) if dimensions else ())),
    )


@given(shapes())
def test_what_is_printed_is_read_back_the_same(shape):
    assert parse_shape(str(shape)) == shape


@given(st.text(alphabet="f32[]{}(),:TSE<=*/ b", max_size=40))
def test_any_text_is_a_shape_or_an_input_error(text):
    try:
        shape = parse_shape(text)
    except InputError:
        return
    assert parse_shape(str(shape)) == shape
