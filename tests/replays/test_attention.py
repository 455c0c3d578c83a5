"""Attention against numpy: all scores at once, softmax, product."""

from __future__ import annotations

import numpy as np
import pytest
from replay_scripts import load_script, printed_line, run_work

SIZES = ("--batch", 2, "--heads", 4, "--kv-heads", 2, "--queries", 12, "--keys", 12, "--head-dim", 16)


def _attend(q, k, v, is_causal):
    k, v = (np.repeat(each, q.shape[2] // each.shape[2], axis=2) for each in (k, v))
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if is_causal:
        scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("mask", [(), ("--causal",)])
@pytest.mark.parametrize("dtype, tolerance", [("f32", 1e-5), ("bf16", 2**-6)])
def test_attention_is_numpys(mask, dtype, tolerance):
    (q, k, v), found = run_work("attention", *SIZES, *mask, "--dtype", dtype)
    np.testing.assert_allclose(found.astype(np.float64), _attend(q, k, v, bool(mask)), rtol=tolerance, atol=tolerance)


def test_figures_are_of_the_sizes(capsys):
    line = printed_line(capsys, "attention", *SIZES, "--causal", "--iterations", 1)
    pairs, seen = 2 * 4 * 12 * 12, 2 * 4 * sum(range(1, 13))
    assert line["flop"] == line["matrix_flop"] == 2 * (2 * pairs * 16)
    assert line["unmasked_flop"] == 2 * (2 * seen * 16)
    assert line["read_bytes"] == 2 * (2 * 12 * 4 * 16 + 2 * (2 * 12 * 2 * 16))
    assert line["written_bytes"] == 2 * (2 * 12 * 4 * 16)
    assert line["scores_count"] == pairs


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--heads", "6", "--kv-heads", "4"], "--heads must be a multiple of --kv-heads, but 6 is none of 4"),
        (["--causal", "--keys", "8", "--queries", "4"], "--causal needs as many queries as keys, but they are 4 and 8"),
    ],
)
def test_sizes_that_do_not_go_together_are_told(capsys, arguments, message):
    pytest.importorskip("jax")
    with pytest.raises(SystemExit) as raised:
        load_script("attention").main(arguments)
    assert raised.value.code == 2
    assert capsys.readouterr().err == f"attention.py: {message}\n"
