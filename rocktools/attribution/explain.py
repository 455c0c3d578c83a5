"""One row of ATTRIBUTED -> the path from its name to its bucket, as lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rocktools.attribution.classify import Bucket
from rocktools.units import format_duration


def explain_row(
    row: Mapping[str, Any], classified: Mapping[str, Mapping[str, Bucket]], edge: Mapping[str, Any] | None = None
) -> list[str]:
    """Why a row is booked where it is: kernel, link, the steps of the classification, bucket.

    Args:
        row: of ATTRIBUTED, column -> value.
        classified: buckets of the instructions of every program, as they were given to `attribute_dispatches`.
        edge: the row of DISPATCH_EDGES; None where it is a copy, or was not kept.
    """
    instruction, program = _text(row["instruction"]), _text(row["program_id"])
    bucket = classified.get(program or "", {}).get(instruction or "")
    duration = format_duration(int(row["end_ns"]) - int(row["start_ns"]))
    lines = [f"{row['kind']} {row['event_id']} on {row['device']}: {row['name']}, {duration}", _link_line(row, edge)]
    if bucket is not None:
        lines += bucket.trail
    if bucket is None or bucket.rule != row["rule"]:
        lines.append(f"rule: {row['rule']}")
    marks = [
        text
        for text, is_so in (
            ("inferred", row["is_inferred"]),
            ("mixed: its fusion holds another phase too", row["is_mixed"]),
        )
        if is_so
    ]
    where = f"booked as {row['activity']}, phase {row['phase']}, component {row['component']}"
    lines.append(f"{where} ({'; '.join(marks)})" if marks else where)
    return lines


def explain_instruction(name: str, bucket: Bucket) -> list[str]:
    """Why an instruction is booked where it is."""
    where = f"booked as {bucket.activity}, phase {bucket.phase}, component {bucket.component}"
    return [f"instruction {name} ({bucket.opcode})", *bucket.trail, where]


def _link_line(row: Mapping[str, Any], edge: Mapping[str, Any] | None) -> str:
    how = "" if edge is None else f" ({_text(edge['method'])}, {_text(edge['confidence'])})"
    instruction = _text(row["instruction"])
    if instruction is not None:
        return f"instruction: {instruction} of program {row['program_id']}{how}"
    candidates = None if edge is None else _text(edge["candidates"])
    if candidates is not None:
        return f"instruction: one of {edge['candidates_count'] if edge else ''}{how}: {candidates}"
    return f"instruction: none{how}"


def _text(value: Any) -> str | None:
    return None if pd.isna(value) else str(value)
