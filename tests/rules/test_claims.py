"""The file of declared results: every entry is kept, and wrong ones are named with their line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from rule_timeline import declared

from rocktools.errors import InputError, UnsupportedVersion
from rocktools.rules.claims import Claims, parse_claims, read_claims, unsaid


def test_what_is_not_said_is_none():
    claims = declared("timing: {step_s: 20.599}")
    assert claims.timing.step_s == 20.599
    assert claims.timing.samples_count is None
    assert claims.batch.devices_count is None
    assert unsaid(claims, "timing.step_s") is None
    assert unsaid(claims, "timing.step_s", "batch.devices_count") == "the claims do not say batch.devices_count"


def test_every_section_can_be_given():
    names = [field.name for field in fields(Claims) if field.name not in ("name", "source")]
    assert declared("\n".join(f"{name}: {{}}" for name in names)) == declared("")


@pytest.mark.parametrize(
    "text, what, where",
    [
        ("timing: {step_s: fast}", "a number above 0", "claims.yaml:3: timing.step_s"),
        ("timing: {step_s: -1}", "a number above 0", "timing.step_s"),
        ("timing: {step_s: true}", "a number above 0", "timing.step_s"),
        ("timing: {is_profiled: 1}", "true or false", "timing.is_profiled"),
        ("timing: {samples_count: 0}", "at least 1", "timing.samples_count"),
        ("timing: {statistic: average}", "'average'", "timing.statistic"),
        ("timing: {steps: 3}", "unknown key", "timing.steps"),
        ("times: {}", "unknown key", "times"),
        ("comparison: {changes: two}", "list of texts", "comparison.changes"),
    ],
)
def test_wrong_entries_are_named(text: str, what: str, where: str):
    with pytest.raises(InputError) as raised:
        declared(text)
    assert what in str(raised.value)
    assert where in str(raised.value)


def test_first_step_may_be_the_first():
    assert declared("timing: {first_step_index: 0}").timing.first_step_index == 0


def test_other_schemas_and_missing_files_are_refused(tmp_path: Path):
    with pytest.raises(UnsupportedVersion):
        parse_claims("schema: rocktools.claims/2\nname: x", source="f.yaml")
    with pytest.raises(InputError):
        read_claims(tmp_path / "none.yaml")
    path = tmp_path / "claims.yaml"
    path.write_text("schema: rocktools.claims/1\nname: x\n", encoding="utf-8")
    assert read_claims(path).source == str(path)
