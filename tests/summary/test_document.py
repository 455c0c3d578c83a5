"""The document: written and read back it is the same, and its schema is that of its dataclasses."""

from __future__ import annotations

import dataclasses
import json
from random import Random
from typing import get_args, get_type_hints

import jsonschema
import pytest
from summary_documents import any_record
from summary_schema import schema_text

from rocktools.errors import DamagedFile, InputError, UnknownFormat, UnsupportedVersion
from rocktools.summary import document
from rocktools.summary.document import (
    SCHEMA_FILE,
    Missing,
    Summary,
    parse_summary,
    read_summary,
    render_summary,
)
from rocktools.units import SUFFIXES

_KEPT_SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


def test_committed_schema_is_that_of_the_dataclasses() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text()
    jsonschema.Draft202012Validator.check_schema(_KEPT_SCHEMA)


@pytest.mark.parametrize("seed", range(8))
def test_document_reads_back_as_it_was_and_keeps_its_schema(seed: int) -> None:
    summary = any_record(Summary, Random(seed))
    text = render_summary(summary)
    assert parse_summary(text, where="x") == summary
    jsonschema.validate(json.loads(text), _KEPT_SCHEMA)


def test_every_number_has_a_unit_in_its_name() -> None:
    """Identifiers and the fields whose unit stands beside them are listed, each."""
    beside = {
        *("value", "min_value", "max_value", "threshold"),  # of a quantity with its unit or its name beside it
        *("step_index", "step_number", "representative_step_index", "device_index", "source_line", "loss"),
        *("flop_per_device_per_s", "tokens_per_device_per_s", "ns_per_gflop"),
    }
    for kind in (getattr(document, name) for name in document.__all__):
        if not dataclasses.is_dataclass(kind):
            continue
        hints = get_type_hints(kind)
        for field in dataclasses.fields(kind):
            kinds = set(get_args(hints[field.name])) or {hints[field.name]}
            is_number = kinds & {int, float} and not kinds & {str}
            if is_number and field.name not in beside:
                assert field.name.endswith(tuple(SUFFIXES)), f"{kind.__name__}.{field.name}"


@pytest.mark.parametrize(
    "text, error, reference",
    [
        ("{", DamagedFile, "summary-json"),
        ("[]", UnknownFormat, "not-a-summary"),
        ('{"schema": 1}', UnknownFormat, "not-a-summary"),
        ('{"schema": "rocktools.ledger/1"}', UnknownFormat, "not-a-summary"),
        ('{"schema_version": "profile_summary.v1"}', UnknownFormat, "not-a-summary"),
        ('{"schema": "rocktools.summary/2"}', UnsupportedVersion, "summary-version"),
        ('{"schema": "rocktools.summary/1"}', DamagedFile, "summary-member"),
        ('{"schema": "rocktools.summary/1", "rocktools_version": 3}', DamagedFile, "summary-type"),
    ],
)
def test_what_is_no_summary_is_refused_by_name(text: str, error: type[InputError], reference: str) -> None:
    with pytest.raises(error) as caught:
        parse_summary(text, where="file.json")
    assert caught.value.reference == reference
    assert str(caught.value.where).startswith("file.json")


def test_file_that_is_not_there_and_file_that_is_no_text_are_told_apart(tmp_path) -> None:
    with pytest.raises(InputError, match="cannot-read"):
        read_summary(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnknownFormat, match="not-a-summary"):
        read_summary(tmp_path / "binary.json")


def test_missing_block_says_why_and_is_told_from_a_block_by_its_members() -> None:
    schema = _KEPT_SCHEMA["$defs"]["Summary"]["properties"]["ledger"]["anyOf"]
    assert {each["$ref"].rsplit("/")[-1] for each in schema} == {"LedgerBlock", "Missing"}
    assert [each.name for each in dataclasses.fields(Missing)] == ["absence", "reason"]
