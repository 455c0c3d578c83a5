"""The pass over arrays against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from replay_scripts import printed_line, run_work


@pytest.mark.parametrize("dtype, tolerance", [("f32", 1e-6), ("f16", 2**-10), ("bf16", 2**-7)])
def test_pass_is_numpys(dtype, tolerance):
    (x, y), found = run_work("elementwise", "--elements", 1000, "--dtype", dtype)
    np.testing.assert_allclose(found.astype(np.float64), 1.5 * x + y, rtol=tolerance, atol=tolerance * 2)


def test_figures_are_of_the_size(capsys):
    line = printed_line(capsys, "elementwise", "--elements", 1000, "--dtype", "f32", "--iterations", 1)
    assert (line["flop"], line["matrix_flop"]) == (2000, 0)
    assert (line["read_bytes"], line["written_bytes"]) == (8000, 4000)
