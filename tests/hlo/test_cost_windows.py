"""Positions of windows, against counting them one by one."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rocktools.hlo.cost_windows import (
    WindowDimension,
    count_convolution_flop,
    count_positions,
    parse_window,
)
from rocktools.hlo.shapes import Shape


def test_a_window_is_read_with_everything_it_may_have():
    assert parse_window("{size=3x5 stride=2x1 pad=1_0x-2_3 lhs_dilate=1x2 rhs_dilate=4x1}") == (
        WindowDimension(size=3, stride=2, padding_low=1, window_dilation=4),
        WindowDimension(size=5, padding_low=-2, base_dilation=2),
    )
    assert parse_window("") == ()


@given(
    st.integers(1, 6), st.integers(1, 5), st.integers(-4, 6), st.integers(1, 4), st.integers(1, 4), st.integers(1, 9),
    st.integers(0, 9),
)  # fmt: skip
def test_positions_are_those_that_meet_an_element(size, stride, padding, holes, dilation, base_length, output_length):
    window = WindowDimension(
        size=size, stride=stride, padding_low=padding, base_dilation=holes, window_dilation=dilation
    )
    met = 0
    for output, place in itertools.product(range(output_length), range(size)):
        position = output * stride + place * dilation - padding
        met += position % holes == 0 and 0 <= position // holes < base_length
    assert count_positions(window, base_length, output_length) == met


def test_a_convolution_over_nothing_is_a_product():
    shapes = [Shape(dtype="f32", dimensions=dimensions) for dimensions in ((4, 8), (8, 3), (4, 3))]
    assert count_convolution_flop({"dim_labels": "bf_io->bf"}, *shapes) == 2 * 4 * 3 * 8
