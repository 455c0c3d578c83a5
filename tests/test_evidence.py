"""Evidence weakens, never strengthens; absences have names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.evidence import Absence, Evidence, weakest

evidences = st.sampled_from(Evidence)


def test_evidence_is_ordered_from_measured_to_inferred() -> None:
    assert [str(evidence) for evidence in Evidence] == [
        "measured",
        "counter",
        "compiler_estimate",
        "analytic",
        "declared",
        "inferred",
    ]


@given(evidences)
def test_weakest_of_one_is_itself(a: Evidence) -> None:
    assert weakest(a) is a


@given(evidences, evidences)
def test_weakest_does_not_depend_on_the_order(a: Evidence, b: Evidence) -> None:
    assert weakest(a, b) is weakest(b, a)


@given(evidences, evidences, evidences)
def test_weakest_does_not_depend_on_the_grouping(a: Evidence, b: Evidence, c: Evidence) -> None:
    assert weakest(weakest(a, b), c) is weakest(a, weakest(b, c)) is weakest(a, b, c)


@given(evidences)
def test_weakest_of_the_same_is_the_same(a: Evidence) -> None:
    assert weakest(a, a) is a


@given(evidences)
def test_measured_weakens_nothing(a: Evidence) -> None:
    assert weakest(a, Evidence.MEASURED) is a


@given(evidences)
def test_nothing_strengthens_inferred(a: Evidence) -> None:
    assert weakest(a, Evidence.INFERRED) is Evidence.INFERRED


@given(evidences, st.lists(evidences))
def test_weakest_is_one_of_its_inputs(a: Evidence, others: list[Evidence]) -> None:
    assert weakest(a, *others) in [a, *others]


def test_the_alphabet_has_no_say_in_strength() -> None:
    assert weakest(Evidence.MEASURED, Evidence.ANALYTIC) is Evidence.ANALYTIC


@pytest.mark.parametrize("member", [*Evidence, *Absence], ids=str)
def test_member_prints_as_its_value(member: Evidence | Absence) -> None:
    assert f"{member}" == str(member) == member.value == member.name.lower()


def test_no_word_is_both_evidence_and_absence() -> None:
    assert not {str(evidence) for evidence in Evidence} & {str(absence) for absence in Absence}
