"""A compiled program as the frame INSTRUCTIONS: where each instruction comes from, how often it runs, what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rocktools.frames import INSTRUCTIONS, nullable_int64, require_frame
from rocktools.hlo.call_graph import count_calls
from rocktools.hlo.cost import Cost, estimate_costs
from rocktools.hlo.fingerprint import fingerprint_instructions
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.scopes import FoundName, ScopePath, op_name_of, parse_op_name

_COSTS = ("compute_flop", "read_bytes", "written_bytes", "payload_bytes")


def build_instructions(module: HloModule) -> pd.DataFrame:
    """INSTRUCTIONS of one program, all instructions of all computations.

    Costs of instructions inside of fusions, reductions and asynchronous computations are missing, since they are in
    the instruction that calls these: costs times calls may be added up over all rows.
    """
    rows = sorted(module.instructions.values(), key=lambda row: (row.computation, row.position))
    columns: dict[str, Any] = {
        **_describe(module, rows),
        **_explain(module, rows),
        "calls_count": _numbers(list(map(count_calls(module).get, (row.name for row in rows)))),
        **_price(estimate_costs(module), rows),
    }
    fingerprints = fingerprint_instructions(module)
    columns["fingerprint"] = _labels([fingerprints[row.name] for row in rows])
    frame = pd.DataFrame({name: columns[name] for name in INSTRUCTIONS.names})
    return require_frame(frame, INSTRUCTIONS)


def _describe(module: HloModule, rows: Sequence[Instruction]) -> dict[str, Any]:
    return {
        "program_id": _labels([module.label] * len(rows)),
        "instruction": _labels([row.name for row in rows]),
        "computation": _labels([row.computation for row in rows]),
        "position_index": np.array([row.position for row in rows], dtype=np.int64),
        "opcode": _labels([row.opcode for row in rows]),
        "fusion_kind": _labels([row.fusion_kind or None for row in rows]),
        "shape": _labels([str(row.shape) for row in rows]),
        "custom_call_target": _labels([row.custom_call_target or None for row in rows]),
    }


def _explain(module: HloModule, rows: Sequence[Instruction]) -> dict[str, Any]:
    """Columns of what the frontend said."""
    found: list[FoundName | None] = [op_name_of(module, row) for row in rows]
    known = {name.op_name for name in found if name is not None}
    parsed = {name: parse_op_name(name) for name in known}
    paths: list[ScopePath | None] = [None if name is None else parsed[name.op_name] for name in found]
    return {
        "op_name": _labels([None if name is None else name.op_name for name in found]),
        "op_name_origin": _labels([None if name is None else name.origin for name in found]),
        "scope": _labels([None if path is None else path.scope for path in paths]),
        "phase": _labels([str(path.phase) if path is not None and path.phase else None for path in paths]),
        "source_file": _labels([row.metadata.source_file or None for row in rows]),
        "source_line": _numbers([row.metadata.source_line or None for row in rows]),
    }


def _price(costs: Mapping[str, Cost], rows: Sequence[Instruction]) -> dict[str, Any]:
    priced = [costs[row.name] for row in rows]
    return {name: _numbers([getattr(cost, name) for cost in priced]) for name in _COSTS}


def _labels(texts: Sequence[str | None]) -> pd.Categorical:
    return pd.Categorical(texts, categories=sorted({text for text in texts if text is not None}))


def _numbers(values: Sequence[int | None]) -> pd.array:
    is_missing = np.array([value is None for value in values], dtype=np.bool_)
    return nullable_int64(np.array([value or 0 for value in values], dtype=np.int64), is_missing)
