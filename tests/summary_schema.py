"""Renews rocktools/summary/summary.schema.json from the dataclasses: `python tests/summary_schema.py`."""

from __future__ import annotations

import json

from rocktools.summary.document import SCHEMA_FILE
from rocktools.summary.document_schema import build_schema


def schema_text() -> str:
    return json.dumps(build_schema(), indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
