"""The product against numpy in double precision; figures against arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from replay_scripts import printed_line, run_work

SIZES = ("--m", 24, "--n", 40, "--k", 64)


# Sums are kept in single precision or better; the result is rounded to the type's mantissa.
@pytest.mark.parametrize(
    "dtype, result, tolerance",
    [
        ("f32", "float32", 1e-5),
        ("f16", "float16", 2**-10),
        ("bf16", "bfloat16", 2**-7),
        ("f8e4m3fn", "bfloat16", 2**-7),
        ("f8e5m2", "bfloat16", 2**-7),
        ("s8", "int32", 0),
    ],
)
def test_product_is_numpys(dtype, result, tolerance):
    (x, w), found = run_work("gemm", *SIZES, "--dtype", dtype)
    assert found.dtype.name == result
    expected = x @ w
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=tolerance * 4)


def test_figures_are_of_the_sizes(capsys):
    line = printed_line(capsys, "gemm", *SIZES, "--dtype", "bf16", "--iterations", 3, "--warm-up", 1)
    assert line["flop"] == line["matrix_flop"] == 2 * 24 * 40 * 64
    assert line["read_bytes"] == 2 * (24 * 64 + 64 * 40)
    assert line["written_bytes"] == 2 * 24 * 40
    assert line["sizes"] == {"m": 24, "n": 40, "k": 64}


def test_products_of_integers_have_no_floating_point_operations(capsys):
    line = printed_line(capsys, "gemm", *SIZES, "--dtype", "s8", "--iterations", 1)
    assert (line["flop"], line["integer_operations_count"]) == (0, 2 * 24 * 40 * 64)
    assert line["written_bytes"] == 4 * 24 * 40
