"""Frames with the contract of rocktools.frames, from the few values that a test cares about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from rocktools.frames import AGENTS, COUNTED_DISPATCHES, COUNTER_VALUES, PROCESSES, FrameSpec, require_frame

_FILLED = {"int64": 0, "float64": 0.0, "bool": False, "category": "x"}


def make_frame(spec: FrameSpec, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """All columns of a spec: as given, else missing where a value may be, else a filler."""
    unknown = {name for row in rows for name in row} - set(spec.names)
    assert not unknown, f"{spec.name} has no {unknown}"
    columns = {}
    for column in spec.columns:
        filler = None if column.missing or column.dtype == "Int64" else _FILLED[column.dtype]
        values = [row.get(column.name, filler) for row in rows]
        columns[column.name] = pd.Series(values, dtype="object").astype(column.dtype)
    return require_frame(pd.DataFrame(columns), spec)


def make_counted(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """COUNTED_DISPATCHES."""
    return make_frame(COUNTED_DISPATCHES, rows)


def make_values(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """COUNTER_VALUES; `value` stands for all four reductions of one instance."""
    spread = []
    for row in rows:
        value = row.get("value")
        reductions = dict.fromkeys(("sum_value", "min_value", "max_value"), value) if "value" in row else {}
        rest = {name: given for name, given in row.items() if name != "value"}
        spread.append({"instances_count": 1, **reductions, **rest})
    return make_frame(COUNTER_VALUES, spread)


def make_processes(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """PROCESSES."""
    return make_frame(PROCESSES, rows)


def make_agents(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """AGENTS."""
    return make_frame(AGENTS, rows)
