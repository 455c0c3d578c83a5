"""Chosen experts and their weights against numpy's sort."""

from __future__ import annotations

import numpy as np
import pytest
from replay_scripts import load_script, printed_line, run_work

SIZES = ("--tokens", 10, "--hidden", 32, "--experts", 8, "--top-k", 3)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_the_best_experts_are_chosen_and_weighed(dtype):
    (x, w), (weights, chosen) = run_work("router_topk", *SIZES, "--dtype", dtype)
    scores = x @ w
    # Products of bf16 are exact in single precision, so both types give the same order as double precision.
    np.testing.assert_array_equal(chosen, np.argsort(-scores, axis=-1)[:, :3])
    best = np.exp(np.take_along_axis(scores, chosen, -1))
    np.testing.assert_allclose(weights, best / best.sum(-1, keepdims=True), rtol=1e-4)


def test_figures_are_of_the_sizes(capsys):
    line = printed_line(capsys, "router_topk", *SIZES, "--iterations", 1)
    assert line["flop"] == line["matrix_flop"] == 2 * 10 * 32 * 8
    assert line["read_bytes"] == 2 * (10 * 32 + 32 * 8)
    assert line["written_bytes"] == 10 * 3 * (4 + 4)
    assert line["scores_bytes"] == 10 * 8 * 4


def test_more_choices_than_experts_are_told(capsys):
    pytest.importorskip("jax")
    with pytest.raises(SystemExit) as raised:
        load_script("router_topk").main(["--experts", "2", "--top-k", "3"])
    assert raised.value.code == 2
    assert capsys.readouterr().err == "router_topk.py: --top-k must be at most --experts, but is 3 of 2\n"
