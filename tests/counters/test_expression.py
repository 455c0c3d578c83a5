"""The grammar of formulas: printing and parsing, values beside Python's own arithmetic, units, refusals."""

from __future__ import annotations

import ast
import contextlib
import inspect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.counters import expression as module
from rocktools.counters.dimensions import RATIO, parse_dimension
from rocktools.counters.expression import (
    Choice,
    Expression,
    Name,
    Negation,
    Number,
    Operation,
    dimension_of,
    evaluate_expression,
    names_in,
    parse_expression,
    render,
    replace_names,
)
from rocktools.errors import FormulaError

NAMES = ("A", "TCC_HIT", "SQ_WAVES", "elapsed_cycles")
numbers = st.integers(0, 10**6).map(lambda value: Number(float(value)))
named = st.builds(Name, st.sampled_from(NAMES), st.sampled_from(["", "sum", "max", "min"]))
trees = st.recursive(
    numbers | named,
    lambda inner: st.one_of(
        st.builds(Operation, st.sampled_from("+-*/"), inner, inner),
        st.builds(Negation, inner),
        st.builds(Choice, st.sampled_from(["max", "min"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=12,
)


@given(trees)
def test_a_printed_expression_parses_to_the_same_tree(tree: Expression) -> None:
    assert parse_expression(render(tree)) == tree


def _by_python(tree: Expression, values: dict[Name, float]) -> float:
    """The value by Python's arithmetic on single numbers; NaN where it divides by zero."""
    if isinstance(tree, Number):
        return tree.value
    if isinstance(tree, Name):
        return values[tree]
    if isinstance(tree, Negation):
        return -_by_python(tree.inner, values)
    if isinstance(tree, Choice):
        items = [_by_python(item, values) for item in tree.items]
        if any(math.isnan(item) for item in items):
            return math.nan
        return max(items) if tree.function == "max" else min(items)
    left, right = _by_python(tree.left, values), _by_python(tree.right, values)
    if tree.sign == "+":
        return left + right
    if tree.sign == "-":
        return left - right
    if tree.sign == "*":
        return left * right
    return math.nan if right == 0 else left / right


@given(trees, st.lists(st.integers(1, 10**6), min_size=16, max_size=16))
def test_values_are_those_of_pythons_arithmetic(tree: Expression, drawn: list[int]) -> None:
    every = [Name(name, reduction) for name in NAMES for reduction in ("", "sum", "max", "min")]
    values = {name: float(value) for name, value in zip(every, drawn, strict=True)}
    wanted = _by_python(tree, values)
    found = evaluate_expression(tree, {name: np.array([value, value]) for name, value in values.items()})
    if not _divides_by_zero(tree, values):
        expected = wanted if math.isfinite(wanted) else math.nan
        assert np.allclose(found, expected, rtol=1e-12, atol=0, equal_nan=True)


def _divides_by_zero(tree: Expression, values: dict[Name, float]) -> bool:
    """IEEE arithmetic goes on with an infinity, where the oracle has NaN."""
    if isinstance(tree, Operation):
        inside = _divides_by_zero(tree.left, values) or _divides_by_zero(tree.right, values)
        return inside or (tree.sign == "/" and _by_python(tree.right, values) == 0)
    if isinstance(tree, Choice):
        return any(_divides_by_zero(item, values) for item in tree.items)
    return isinstance(tree, Negation) and _divides_by_zero(tree.inner, values)


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_is_refused_in_plain_words(text: str) -> None:
    tree = None
    with contextlib.suppress(FormulaError):  # any other error fails the test
        tree = parse_expression(text)
    assert tree is None or parse_expression(render(tree)) == tree


@given(trees, st.integers(0, 40))
def test_a_cut_expression_is_an_expression_or_is_refused(tree: Expression, length: int) -> None:
    with contextlib.suppress(FormulaError):
        parse_expression(render(tree)[:length])


@pytest.mark.parametrize(
    "text, value",
    [
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("20 - 5 - 3", 12),
        ("20 / 5 / 2", 2),
        ("20 / (5 / 2)", 8),
        ("-2 * 3 + 10", 4),
        ("max(1, 5, 3) - min(4, 2)", 3),
        ("1.5e3 / 2", 750),
        ("8 - (5 - 3)", 6),
    ],
)
def test_operators_bind_as_in_arithmetic(text: str, value: float) -> None:
    assert float(evaluate_expression(parse_expression(text), {})) == value


def test_rows_are_computed_at_once_and_missing_stays_missing() -> None:
    hits, misses = Name("TCC_HIT"), Name("TCC_MISS")
    values = {hits: np.array([3.0, 0.0, np.nan, 0.0]), misses: np.array([1.0, 5.0, 1.0, 0.0])}
    found = evaluate_expression(parse_expression("TCC_HIT / (TCC_HIT + TCC_MISS)"), values)
    assert np.array_equal(found, [0.75, 0.0, np.nan, np.nan], equal_nan=True)


def test_a_function_of_one_counter_is_its_reduction() -> None:
    assert parse_expression("max(GRBM_GUI_ACTIVE)") == Name("GRBM_GUI_ACTIVE", "max")
    assert names_in(parse_expression("max(X) + X + min(X) + X")) == (Name("X", "max"), Name("X"), Name("X", "min"))


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "the end at position 0"),
        ("TCC_HIT +", "the end at position 9"),
        ("(TCC_HIT", "where ')' should be"),
        ("TCC_HIT TCC_MISS", "'TCC_MISS' at position 8"),
        ("TCC_HIT ** 2", "'*' at position 9"),
        ("TCC_HIT % 2", "'%' at position 8 means nothing"),
        ("avg(TCC_HIT)", "there is no function avg()"),
        ("sum(TCC_HIT, TCC_MISS)", "reduces one counter"),
        ("max(2)", "reduces one counter"),
        ("2[B/]", "no whole unit"),
        ("TCC_HIT[B]", "'[B]' at position 7"),
        ("__import__('os')", "means nothing"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, complaint: str) -> None:
    with pytest.raises(FormulaError) as raised:
        parse_expression(text)
    assert complaint in raised.value.what


def test_parentheses_without_end_do_not_exhaust_the_stack() -> None:
    with pytest.raises(FormulaError, match="too deeply"):
        parse_expression("(" * 5_000 + "1" + ")" * 5_000)


DIMENSIONS = {
    "GRBM_GUI_ACTIVE": parse_dimension("xcd*cycle"),
    "xcc_count": parse_dimension("xcd"),
    "TCC_REQ": parse_dimension("request"),
    "SQ_WAVES": parse_dimension("wave"),
    "SQ_BUSY_CU_CYCLES": parse_dimension("cu*cycle"),
    "cu_count": parse_dimension("cu"),
}


@pytest.mark.parametrize(
    "text, unit",
    [
        ("128[B/request] * TCC_REQ", "B"),
        ("GRBM_GUI_ACTIVE / xcc_count", "cycle"),
        ("SQ_BUSY_CU_CYCLES / (GRBM_GUI_ACTIVE / xcc_count * cu_count)", "ratio"),
        ("max(0, TCC_REQ - TCC_REQ)", "request"),
        ("2 * TCC_REQ / SQ_WAVES", "request/wave"),
        ("-TCC_REQ", "request"),
        ("0", "ratio"),
    ],
)
def test_the_unit_of_a_value_follows_from_its_names(text: str, unit: str) -> None:
    assert dimension_of(parse_expression(text), DIMENSIONS) == parse_dimension(unit)


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("TCC_REQ + SQ_WAVES", "request and wave cannot be added to each other"),
        ("1 - TCC_REQ", "ratio and request cannot be subtracted from each other"),
        ("max(TCC_REQ, 64[B])", "request and B cannot be compared with each other"),
        ("GRBM_GUI_ACTIVE - SQ_BUSY_CU_CYCLES / cu_count", "cycle*xcd and cycle"),
    ],
)
def test_values_of_different_units_do_not_add_up(text: str, complaint: str) -> None:
    with pytest.raises(FormulaError) as raised:
        dimension_of(parse_expression(text), DIMENSIONS)
    assert raised.value.reference == "unit-mismatch"
    assert complaint in raised.value.what


def test_cycles_of_all_dies_are_no_elapsed_cycles() -> None:
    """The commonest mistake with these counters: a sum over eight dies taken for the cycles that passed."""
    wrong = parse_expression("SQ_BUSY_CU_CYCLES / (GRBM_GUI_ACTIVE * cu_count)")
    assert dimension_of(wrong, DIMENSIONS) != RATIO


def test_names_are_replaced_everywhere() -> None:
    tree = parse_expression("a / (a + max(b, -a))")
    swapped = replace_names(tree, lambda name: parse_expression("X + 1") if name.name == "a" else name)
    assert render(swapped) == "(X + 1) / (X + 1 + max(b, -(X + 1)))"


def test_nothing_is_evaluated_by_python_itself() -> None:
    called = {
        node.func.id
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "__import__", "getattr"}
