"""Copies against numpy, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from replay_scripts import printed_line, run_work


@pytest.mark.parametrize("form", ["kernel", "memcpy"])
def test_copy_has_the_bits_or_all_of_them_inverted(form):
    (x,), found = run_work("memory_copy", "--mebibytes", 1, "--form", form)
    values = x.astype(np.int32)
    np.testing.assert_array_equal(found, values if form == "memcpy" else ~values)


def test_traffic_is_what_was_asked_for(capsys):
    line = printed_line(capsys, "memory_copy", "--mebibytes", 2, "--iterations", 1)
    assert (line["flop"], line["read_bytes"], line["written_bytes"]) == (0, 2 * 1024**2, 2 * 1024**2)
