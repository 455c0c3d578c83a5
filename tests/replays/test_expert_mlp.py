"""Experts one by one, in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from replay_scripts import printed_line, run_work

SIZES = ("--experts", 3, "--capacity", 5, "--hidden", 16, "--intermediate", 24)


@pytest.mark.parametrize("dtype, tolerance", [("f32", 1e-5), ("bf16", 2**-5)])
def test_experts_are_numpys(dtype, tolerance):
    (x, gate, up, down), found = run_work("expert_mlp", *SIZES, "--dtype", dtype)
    assert found.shape == (3, 5, 16)
    for expert in range(3):
        gated = x[expert] @ gate[expert]
        expected = (gated / (1 + np.exp(-gated)) * (x[expert] @ up[expert])) @ down[expert]
        np.testing.assert_allclose(found[expert].astype(np.float64), expected, rtol=tolerance, atol=tolerance * 4)


def test_figures_are_of_the_sizes(capsys):
    line = printed_line(capsys, "expert_mlp", *SIZES, "--iterations", 1)
    assert line["flop"] == line["matrix_flop"] == 3 * (3 * (2 * 5 * 16 * 24))
    assert line["read_bytes"] == 2 * (3 * 5 * 16 + 3 * (3 * 16 * 24))
    assert line["written_bytes"] == 2 * 3 * 5 * 16
    assert line["intermediate_bytes"] == 2 * 3 * 5 * 24
