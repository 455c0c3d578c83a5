"""Probabilities of states agree with an enumeration of all paths; numpy and numba agree with each other."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocktools.correlate.forward_backward import BLOCK, find_posterior
from rocktools.correlate.state_sets import MoveMatrices

COMPILE = [pytest.param(False, id="numpy"), pytest.param(True, id="numba")]


def make_moves(rng: np.random.Generator, sizes: list[int], repeats: bool) -> tuple[MoveMatrices, list[np.ndarray]]:
    """Random matrices between sets of these sizes; set 0 stands before the first dispatch."""
    shapes = list(pairwise(sizes))
    known: dict[tuple[int, int], int] = {}
    matrices: list[np.ndarray] = []
    matrix_of = []
    for shape in shapes:
        if repeats and shape in known:
            matrix_of.append(known[shape])
            continue
        known[shape] = len(matrices)
        matrix_of.append(len(matrices))
        # Impossible cells too, as in real matrices; the last column is always possible.
        matrix = rng.uniform(0, 1, shape) * (rng.uniform(0, 1, shape) > 0.3) * 10.0 ** rng.integers(-9, 1, shape)
        matrix[:, -1] = np.maximum(matrix[:, -1], 1e-6)
        matrices.append(matrix)
    starts = np.concatenate([[0], np.cumsum([matrix.size for matrix in matrices])])
    moves = MoveMatrices(
        matrix_of=np.array(matrix_of),
        rows=np.array([matrix.shape[0] for matrix in matrices]),
        columns=np.array([matrix.shape[1] for matrix in matrices]),
        starts=starts,
        values=np.concatenate([matrix.ravel() for matrix in matrices]),
    )
    return moves, [matrices[number] for number in matrix_of]


def enumerate_paths(matrices: list[np.ndarray], first: np.ndarray) -> np.ndarray:
    """Probability of each state of each dispatch: every path, weighed by the product of its steps."""
    widths = [len(first), *(matrix.shape[1] for matrix in matrices)]
    sums = [np.zeros(width) for width in widths[1:]]
    for path in product(*map(range, widths)):
        weight = first[path[0]]
        for matrix, origin, target in zip(matrices, path[:-1], path[1:], strict=True):
            weight *= matrix[origin, target]
        for total, state in zip(sums, path[1:], strict=True):
            total[state] += weight
    return np.concatenate([total / total.sum() for total in sums])


def require(compile_loops: bool) -> None:
    if compile_loops:
        pytest.importorskip("numba")


@pytest.mark.parametrize("compile_loops", COMPILE)
@pytest.mark.parametrize("seed", range(5))
def test_probabilities_are_those_of_all_paths(compile_loops: bool, seed: int) -> None:
    require(compile_loops)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 8).tolist()
    moves, matrices = make_moves(rng, sizes, repeats=bool(seed % 2))
    first = rng.uniform(0.1, 1, sizes[0])
    found = find_posterior(moves, first, compile_loops=compile_loops)
    assert found.starts.tolist() == [0, *np.cumsum(sizes[1:]).tolist()]
    assert found.ratios == pytest.approx(enumerate_paths(matrices, first), rel=1e-9)


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 5 * BLOCK + 3), repeats=st.booleans())
def test_blocks_and_compiled_loops_agree(seed: int, count: int, repeats: bool) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, count + 1).tolist()
    moves, _ = make_moves(rng, sizes, repeats)
    first = rng.uniform(0.1, 1, sizes[0])
    by_blocks, compiled = (find_posterior(moves, first, compile_loops=each).ratios for each in (False, True))
    assert by_blocks == pytest.approx(compiled, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("compile_loops", COMPILE)
def test_no_dispatch_has_no_probability(compile_loops: bool) -> None:
    require(compile_loops)
    nothing = np.zeros(0, dtype=np.int64)
    moves = MoveMatrices(matrix_of=nothing, rows=nothing, columns=nothing, starts=np.zeros(1), values=np.zeros(0))
    assert find_posterior(moves, np.ones(1), compile_loops=compile_loops).ratios.size == 0


@pytest.mark.parametrize("compile_loops", COMPILE)
def test_long_improbable_stretches_do_not_underflow(compile_loops: bool) -> None:
    """Every step costs 1e-16: a product over a thousand of them is no double."""
    require(compile_loops)
    count = 1003
    moves = MoveMatrices(
        matrix_of=np.zeros(count, dtype=np.int64),
        rows=np.array([2]),
        columns=np.array([2]),
        starts=np.array([0, 4]),
        values=np.array([2e-16, 1e-30, 1e-30, 1e-16]),
    )
    found = find_posterior(moves, np.ones(2), compile_loops=compile_loops).ratios.reshape(-1, 2)
    assert np.isfinite(found).all()
    assert found[:, 0] == pytest.approx(np.ones(count))
