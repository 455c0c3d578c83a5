"""Verdicts: a reason is given only where it yields the very figure, and the worst stand first."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.errors import ContractError
from rocktools.workspace.crosscheck_rows import (
    REASONS,
    CheckedFigure,
    RowChecker,
    Verdict,
    crosscheck_frame,
    is_close,
    reasons_frame,
)

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


def checked(theirs: object, ours: object, **options: object) -> CheckedFigure:
    found: list[CheckedFigure] = []
    RowChecker("xprof", "hlo_stats", 0, "row", found).add("total_ns", theirs, ours, **options)
    return found[0]


@given(NUMBERS, NUMBERS, NUMBERS)
def test_verdict_follows_from_the_three_figures(theirs: float, ours: float, expected: float) -> None:
    figure = checked(theirs, ours, explanations={"idle-by-sum": expected})
    same = math.isclose(theirs, ours, rel_tol=1e-9, abs_tol=1e-12)
    explained = math.isclose(theirs, expected, rel_tol=1e-9, abs_tol=1e-12)
    verdict = Verdict.EQUAL if same else Verdict.EXPLAINED if explained else Verdict.UNEXPLAINED
    assert figure.verdict is verdict
    assert (figure.reason == "idle-by-sum") is (verdict is Verdict.EXPLAINED)


@pytest.mark.parametrize(
    "a, b, at_most, close",
    [
        (1.0, 1.0 + 1e-10, 0.0, True),
        (1.0, 1.001, 0.0, False),
        (1000.0, 1000.4, 0.5, True),
        (1000.0, 1000.6, 0.5, False),
        ("a", "a", 0.0, True),
        ("a", "b", 9.0, False),
        ("1", 1.0, 9.0, False),
        (None, None, 0.0, True),
        (None, 0.0, 9.0, False),
    ],
)
def test_what_is_the_same_figure(a: object, b: object, at_most: float, close: bool) -> None:
    assert is_close(a, b, at_most=at_most) is close


def test_missing_is_never_zero() -> None:
    assert checked(0.0, None).verdict is Verdict.UNEXPLAINED
    assert checked("", None).verdict is Verdict.UNEXPLAINED


def test_reason_must_be_one_that_is_explained() -> None:
    with pytest.raises(ContractError, match="there is no reason 'because'"):
        checked(1.0, 2.0, explanations={"because": 1.0})


def test_unexplained_figures_come_first_and_reasons_are_counted() -> None:
    figures = [
        checked(1.0, 1.0),
        checked(1.0, 2.0, explanations={"idle-by-sum": 1.0}),
        checked(3.0, 2.0, explanations={"idle-by-sum": 1.0}),
        checked("x", "y", explanations={"fusion-without-name": "x"}),
        checked(1.0, 4.0, explanations={"idle-by-sum": 1.0}),
    ]
    frame = crosscheck_frame(figures)
    assert list(frame["verdict"]) == ["unexplained", *["explained"] * 3, "equal"]
    assert (frame.loc[2, "theirs_text"], frame.loc[2, "ours_text"]) == ("x", "y")
    assert math.isnan(frame.loc[2, "theirs_value"])
    reasons = reasons_frame(figures)
    assert list(zip(reasons["reason"], reasons["rows_count"], strict=True)) == [
        ("idle-by-sum", 2),
        ("fusion-without-name", 1),
    ]
    assert list(reasons["explanation"]) == [REASONS["idle-by-sum"], REASONS["fusion-without-name"]]


def test_no_figures_make_an_empty_table() -> None:
    assert len(crosscheck_frame([])) == 0
    assert len(reasons_frame([])) == 0
