"""Renews the JSON Schemas of summaries, answers, worksheets and experiments: `python tests/summary_schema.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rocktools.compare import experiment_document
from rocktools.summary import query_answer, worksheet_document
from rocktools.summary.document import SCHEMA_FILE
from rocktools.summary.document_schema import build_schema, schema_of

_COMPARE = Path(experiment_document.__file__).parent
ANSWER_FILE = SCHEMA_FILE.with_name("answer.schema.json")
WORKSHEET_FILE = SCHEMA_FILE.with_name("worksheet.schema.json")
EXPERIMENT_FILE = _COMPARE / "experiment.schema.json"


def schema_text() -> str:
    return _text(build_schema())


def other_schemas() -> dict[Path, str]:
    """File -> what it must hold."""
    plan, record = experiment_document.Plan, experiment_document.Record
    schemas = {
        ANSWER_FILE: schema_of(query_answer.SCHEMA, "Answer to a question", query_answer.AnswerDocument),
        WORKSHEET_FILE: schema_of(worksheet_document.SCHEMA, "Component worksheet", worksheet_document.Worksheet),
        EXPERIMENT_FILE: schema_of(experiment_document.SCHEMA, "Line of a ledger of experiments", plan, record),
    }
    return {path: _text(schema) for path, schema in schemas.items()}


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    for path, text in other_schemas().items():
        path.write_text(text, encoding="utf-8")
