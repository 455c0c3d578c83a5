"""The transpose against numpy, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from replay_scripts import printed_line, run_work


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "s8", "s32"])
def test_transpose_is_numpys(dtype):
    (x,), found = run_work("transpose", "--rows", 5, "--columns", 7, "--dtype", dtype)
    np.testing.assert_array_equal(found.astype(np.float64), x.T)


def test_as_many_bytes_are_read_as_written(capsys):
    line = printed_line(capsys, "transpose", "--rows", 5, "--columns", 7, "--iterations", 1)
    assert (line["flop"], line["read_bytes"], line["written_bytes"]) == (0, 70, 70)
