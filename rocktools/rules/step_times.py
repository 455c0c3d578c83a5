"""RECONCILIATION of all steps -> how long each took on its device, from the end of the step before to its own end.

The time before the first kernel of a step belongs to it: the device waits there for the host, for data, for a compiler.
Shares of findings are of that time. For the first step of a trace it is the span of its rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.timeline.activities import labels_column
from rocktools.timeline.grouping import match_rows

_KEY = ("run", "device", "step_index")

STEP_TIMES = FrameSpec(
    name="STEP_TIMES",
    meaning="One row per step and device: when its work began and ended, and the time since the step before.",
    key=_KEY,
    sort=_KEY,
    columns=(
        Column("run", "category", "label of the run"),
        Column("device", "category", "label of the device, as in AGENTS"),
        Column("step_index", "int64", "step, as in STEPS"),
        Column("start_ns", "int64", "first start of a row of the step, trace clock"),
        Column("end_ns", "int64", "last end of a row of the step, trace clock"),
        Column("busy_ns", "int64", "time in which anything ran"),
        Column("period_ns", "Int64", "from the end of the step before to its own end", "no step before it"),
        Column("is_complete", "bool", "whether the trace holds the whole step"),
        Column("is_warmup", "bool", "whether it compiles, autotunes, or is the first of its executable"),
        Column("is_counted", "bool", "whether numbers are made of it"),
    ),
)


def build_step_times(reconciliation: pd.DataFrame, steps: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """STEP_TIMES.

    Args:
        reconciliation: RECONCILIATION of all steps.
        steps: STEPS, all that were found.
        counted: STEPS that numbers are made of.
    """
    frame = reconciliation[reconciliation["step_index"].notna().to_numpy()]
    frame = frame.astype({"run": "object", "device": "object", "step_index": "int64"})
    frame = frame.sort_values(list(_KEY), ignore_index=True)
    end_ns = frame["start_ns"] + frame["span_ns"]
    before = end_ns.groupby([frame["run"], frame["device"]], sort=False).shift(1)
    follows = frame["step_index"].groupby([frame["run"], frame["device"]], sort=False).diff() == 1
    is_known = (before.notna() & follows).to_numpy()
    period = np.where(is_known, end_ns - before.where(is_known, 0), 0).astype(np.int64)
    at = match_rows(frame, steps, _KEY)
    values: dict[str, Any] = {
        "run": labels_column(frame["run"]),
        "device": labels_column(frame["device"]),
        "step_index": frame["step_index"],
        "start_ns": frame["start_ns"],
        "end_ns": end_ns,
        "busy_ns": frame["busy_ns"],
        "period_ns": nullable_int64(np.maximum(period, 0), ~is_known),
        **{name: np.append(steps[name].to_numpy(), False)[at] for name in ("is_complete", "is_warmup")},
        "is_counted": match_rows(frame, counted, _KEY) >= 0,
    }
    return require_frame(pd.DataFrame({name: values[name] for name in STEP_TIMES.names}), STEP_TIMES)


def lengths_of(step_times: pd.DataFrame) -> pd.Series:
    """How long each step took: its period, or its span where nothing came before it."""
    span = step_times["end_ns"] - step_times["start_ns"]
    return step_times["period_ns"].fillna(span).astype("int64")


def mean_step_ns(step_times: pd.DataFrame) -> float:
    """How long a step that counts took, mean over devices and steps; over all steps where none counts."""
    chosen = step_times[step_times["is_counted"].to_numpy()]
    chosen = step_times if chosen.empty else chosen
    known = chosen[chosen["period_ns"].notna().to_numpy()]
    return float(lengths_of(chosen if known.empty else known).mean())


def cells_count(step_times: pd.DataFrame) -> int:
    """Steps that count, each on each of its devices: what sums over rows are divided by."""
    return max(1, int(step_times["is_counted"].sum()))
