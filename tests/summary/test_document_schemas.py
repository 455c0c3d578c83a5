"""Answers, worksheets and experiments keep the JSON Schemas that lie beside them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest
from experiment_summaries import made_summary
from summary_documents import any_record
from summary_schema import ANSWER_FILE, EXPERIMENT_FILE, WORKSHEET_FILE, other_schemas

from rocktools.compare.experiment import Attempt, build_plan, build_record
from rocktools.compare.experiment_document import Correctness, Decision, Experiment, Record
from rocktools.compare.experiment_prediction import parse_prediction
from rocktools.summary.document import Summary
from rocktools.summary.document_json import to_plain
from rocktools.summary.query import answer_question
from rocktools.summary.query_answer import AnswerDocument, answer_json
from rocktools.summary.query_grammar import FORMS
from rocktools.summary.worksheet import WorksheetOptions, build_summary_worksheet
from rocktools.summary.worksheet_document import Worksheet, worksheet_json


def _require_valid(document: Any, path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(json.dumps(document)), schema, cls=jsonschema.Draft202012Validator)


def test_schemas_are_what_the_dataclasses_say() -> None:
    stale = [path.name for path, text in other_schemas().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "python tests/summary_schema.py renews them"


def test_answers_keep_their_schema(scoped_summary: Summary) -> None:
    for form in FORMS.values():
        question = form.split(" [")[0].replace(" N ", " 1 ").replace("OP", "custom-call.2").replace("NAME", "wi_0")
        question = "is wi_0 memory-bound?" if question == "is wi_0" else question
        _require_valid(answer_json(answer_question(scoped_summary, question)), ANSWER_FILE)


def test_worksheets_keep_their_schema(scoped_summary: Summary) -> None:
    _require_valid(worksheet_json(build_summary_worksheet(scoped_summary, WorksheetOptions())), WORKSHEET_FILE)


@pytest.mark.parametrize("kind, path", [(AnswerDocument, ANSWER_FILE), (Worksheet, WORKSHEET_FILE)])
def test_document_with_another_member_or_schema_is_refused(kind: Any, path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))["$id"]
    document = to_plain(any_record(kind, Random(1), schema=schema))
    _require_valid(document, path)
    for wrong in ({**document, "more": 1}, {**document, "schema": "other/1"}):
        with pytest.raises(jsonschema.ValidationError):
            _require_valid(wrong, path)


def test_plans_and_records_keep_their_schema() -> None:
    before, after = (made_summary([1000 + at for at in range(6)], sha256=name) for name in "ab")
    plan = build_plan(
        before,
        "a.json",
        experiment_id="E1",
        created_utc="2026-01-01T00:00:00+00:00",
        hypothesis="h",
        change="c",
        prediction=parse_prediction("-5%"),
    )
    attempt = Attempt(
        before_path="a.json",
        after_path="b.json",
        change="",
        allowed=(),
        correctness=Correctness.PASSED,
        correctness_note="",
        decision=Decision.AGAIN,
        note="",
        recorded_utc="2026-01-02T00:00:00+00:00",
    )
    record = build_record(Experiment(plan=plan, records=()), before, after, attempt)
    assert isinstance(record, Record)
    for entry in (plan, record):
        _require_valid(to_plain(entry), EXPERIMENT_FILE)
