"""The norm against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from replay_scripts import printed_line, run_work

SIZES = ("--rows", 6, "--width", 64)


@pytest.mark.parametrize("dtype, tolerance", [("f32", 1e-5), ("f16", 2**-10), ("bf16", 2**-7)])
def test_norm_is_numpys(dtype, tolerance):
    (x, weight), found = run_work("rmsnorm", *SIZES, "--dtype", dtype)
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=1e-6)


def test_figures_are_of_the_sizes(capsys):
    line = printed_line(capsys, "rmsnorm", *SIZES, "--iterations", 1)
    # A row: 64 squares, 63 additions, the mean, epsilon, 64 times the scale, 64 times the weight.
    assert line["flop"] == 6 * (64 + 63 + 1 + 1 + 64 + 64)
    assert line["matrix_flop"] == 0
    assert (line["read_bytes"], line["written_bytes"]) == (2 * (6 * 64 + 64), 2 * 6 * 64)
