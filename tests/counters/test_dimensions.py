"""Units as products of symbols: an abelian group, with a text for each element."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.counters.dimensions import RATIO, SYMBOLS, Dimension, parse_dimension
from rocktools.errors import FormulaError

units = st.lists(st.tuples(st.sampled_from("*/"), st.sampled_from(sorted(SYMBOLS))), max_size=5).map(
    lambda parts: parse_dimension("1" + "".join(sign + symbol for sign, symbol in parts))
)


@given(units)
def test_the_text_of_a_unit_is_the_unit_again(unit: Dimension) -> None:
    assert parse_dimension(str(unit)) == unit


@given(units, units, units)
def test_units_multiply_in_any_order_and_grouping(a: Dimension, b: Dimension, c: Dimension) -> None:
    assert a * b == b * a
    assert (a * b) * c == a * (b * c)


@given(units, units)
def test_dividing_undoes_multiplying(a: Dimension, b: Dimension) -> None:
    assert a * b / b == a
    assert a / a == RATIO


@pytest.mark.parametrize(
    "text, other",
    [
        ("B/request", "B / request"),
        ("xcd*cycle/xcd", "cycle"),
        ("ratio", "1"),
        ("Hz", "cycle/s"),
        ("B/cu/cycle", "B/cycle/cu"),
        ("cycle*wave/wave/cycle", "ratio"),
    ],
)
def test_equal_units_are_equal(text: str, other: str) -> None:
    assert parse_dimension(text) == parse_dimension(other)


@pytest.mark.parametrize("text", ["", "B/", "*B", "B request", "B^2", "(B)", "B//s", "2", "B/ /s"])
def test_what_is_no_unit_is_refused(text: str) -> None:
    with pytest.raises(FormulaError, match="unit"):
        parse_dimension(text)


def test_an_unknown_symbol_is_told_with_the_nearest() -> None:
    with pytest.raises(FormulaError) as raised:
        parse_dimension("B/requests")
    assert (raised.value.reference, raised.value.hint) == ("unknown-unit", "request")
