"""Conventions: described, changed by text, and refused where a text does not fit."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

import pytest

from rocktools.analytic.conventions import change_conventions, describe_conventions
from rocktools.analytic.step_conventions import MfuNumerator, StepConventions
from rocktools.analytic.useful_flop import CONVENTIONS, FlopConventions
from rocktools.errors import UsageError

RECORDS = [FlopConventions(), StepConventions(), *CONVENTIONS.values()]


@pytest.mark.parametrize("record", RECORDS)
def test_every_convention_says_what_it_decides(record):
    described = describe_conventions(record)
    assert [each.name for each in described] == [field.name for field in fields(record)]
    assert all(len(each.meaning.split()) >= 2 for each in described)


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_described_can_be_set_again(record):
    settings = {each.name: each.value for each in describe_conventions(record)}
    assert change_conventions(type(record)(), settings) == record


def test_defaults_are_not_changed_and_others_are():
    described = describe_conventions(FlopConventions(causal_factor=Fraction(1, 3)))
    assert {each.name: (each.value, each.default) for each in described if each.is_changed} == {
        "causal_factor": ("1/3", "0.5")
    }


@pytest.mark.parametrize(
    "name, text, value",
    [
        ("score_passes", "3", Fraction(3)),
        ("score_passes", "5/2", Fraction(5, 2)),
        ("causal_factor", "0.1", Fraction(1, 10)),
        ("mfu_numerator", "all_parameters", MfuNumerator.ALL_PARAMETERS),
    ],
)
def test_texts_become_values_exactly(name, text, value):
    assert getattr(change_conventions(StepConventions(), {name: text}), name) == value


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("score_passes", "-1", "a number from 0 to 1,000,000"),
        ("score_passes", "1e400", "a number from 0 to 1,000,000"),
        ("score_passes", "two", "a number from 0 to 1,000,000"),
        ("score_passes", "1/0", "a number from 0 to 1,000,000"),
        ("mfu_numerator", "all", "matmul_weights_and_core"),
        ("score_pases", "1", "score_passes"),
    ],
)
def test_texts_that_do_not_fit_are_refused(name, text, words):
    with pytest.raises(UsageError, match=words):
        change_conventions(StepConventions(), {name: text})
    with pytest.raises(UsageError, match="true or false"):
        change_conventions(FlopConventions(), {"counts_head": "1"})
