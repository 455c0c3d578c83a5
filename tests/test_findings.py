"""Findings: what they say, in which order, and that they travel."""

from __future__ import annotations

import dataclasses
import json
import pickle

import pytest

from rocktools.findings import Finding, Severity, has_fault, sort_findings


def finding(severity: Severity = Severity.WARNING, rule: str = "dropped-records") -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        where="a.db, rocpd_event",
        message="12 of 480 records were dropped",
        numbers={"dropped_count": 12, "records_count": 480},
        advice="raise the buffer size",
    )


def test_text_is_severity_rule_place_message_and_advice() -> None:
    assert str(finding()) == (
        "warning [dropped-records] a.db, rocpd_event: 12 of 480 records were dropped; raise the buffer size"
    )


def test_text_without_advice_ends_with_the_message() -> None:
    bare = dataclasses.replace(finding(), advice="")
    assert str(bare).endswith("were dropped")


def test_dictionary_goes_through_json() -> None:
    written = finding().as_dict()
    assert json.loads(json.dumps(written)) == written


def test_dictionary_names_every_field() -> None:
    assert list(finding().as_dict()) == [field.name for field in dataclasses.fields(Finding)]


def test_dictionary_is_a_copy() -> None:
    original = finding()
    numbers = original.as_dict()["numbers"]
    assert isinstance(numbers, dict)
    numbers.clear()
    assert original.numbers["dropped_count"] == 12


def test_finding_survives_the_way_back_from_a_worker_process() -> None:
    plain = Finding(rule="a", severity=Severity.NOTE, where="b", message="c")
    assert pickle.loads(pickle.dumps(plain)) == plain


def test_finding_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        finding().message = "nothing was dropped"  # type: ignore[misc]


def test_heaviest_findings_come_first() -> None:
    unsorted = [finding(severity) for severity in (Severity.NOTE, Severity.FAULT, Severity.WARNING)]
    assert [found.severity for found in sort_findings(unsorted)] == [Severity.FAULT, Severity.WARNING, Severity.NOTE]


def test_findings_of_one_weight_keep_their_order() -> None:
    same = [finding(rule=rule) for rule in ("second", "first", "third")]
    assert [found.rule for found in sort_findings(same)] == ["second", "first", "third"]


@pytest.mark.parametrize(
    "severities, expected",
    [
        ([], False),
        ([Severity.NOTE, Severity.WARNING], False),
        ([Severity.NOTE, Severity.FAULT], True),
    ],
)
def test_only_a_fault_is_a_fault(severities: list[Severity], expected: bool) -> None:
    assert has_fault(finding(severity) for severity in severities) is expected


def test_severity_prints_as_its_value() -> None:
    assert [f"{severity}" for severity in Severity] == ["note", "warning", "fault"]
