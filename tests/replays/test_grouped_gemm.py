"""Each row times the matrix of its group, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from replay_scripts import load_script, printed_line, run_work

SIZES = ("--m", 24, "--n", 16, "--k", 32, "--groups", 4)


@pytest.mark.parametrize("routing", ["even", "skewed", "one"])
@pytest.mark.parametrize("dtype, tolerance", [("f32", 1e-5), ("bf16", 2**-7)])
def test_rows_meet_the_matrix_of_their_group(routing, dtype, tolerance):
    (x, w, rows), found = run_work("grouped_gemm", *SIZES, "--dtype", dtype, "--routing", routing)
    groups = np.repeat(np.arange(4), rows.astype(int))
    expected = np.stack([row @ w[group] for row, group in zip(x, groups, strict=True)])
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=tolerance * 4)


@pytest.mark.parametrize(
    "m, groups, routing, rows",
    [
        (24, 4, "even", [6, 6, 6, 6]),
        (10, 4, "even", [2, 3, 3, 2]),  # ends at 2.5, 5, 7.5, 10; halves go to the even number
        (11, 3, "skewed", [6, 3, 2]),  # 11 / (1 + 1/2 + 1/3) = 6
        (7, 3, "one", [7, 0, 0]),
        (2, 4, "even", [0, 1, 1, 0]),
    ],
)
def test_all_rows_are_shared_out(m, groups, routing, rows):
    assert load_script("grouped_gemm").share_rows(m, groups, routing).tolist() == rows


def test_matrices_of_empty_groups_are_not_counted_as_read(capsys):
    line = printed_line(capsys, "grouped_gemm", *SIZES, "--routing", "one", "--iterations", 1)
    assert line["read_bytes"] == 2 * (24 * 32 + 1 * 32 * 16) + 4 * 4
    assert line["written_bytes"] == 2 * 24 * 16
    assert line["flop"] == line["matrix_flop"] == 2 * 24 * 16 * 32
    assert line["flop_if_every_row_meets_every_group"] == 4 * line["flop"]
