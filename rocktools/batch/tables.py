"""A plan, and what came of it, as frames for people: a row for each kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from rocktools.batch.plan import BatchPlan
from rocktools.batch.state import BatchState, Job
from rocktools.evidence import Evidence
from rocktools.frames import Column, FrameSpec, require_frame

BATCH_PLAN = FrameSpec(
    name="BATCH_PLAN",
    meaning="One row for each kernel of a job that a plan profiles or refuses.",
    key=("place_index",),
    sort=("place_index",),
    columns=(
        Column("place_index", "int64", "place in the plan, from 1: what is profiled first, then what is refused"),
        Column("state", "category", "planned or refused"),
        Column("instruction", "category", "HLO instruction", "the plan names none"),
        Column("component", "category", "by the component map", "none was asked for"),
        Column("total_ns", "Int64", "time of its dispatches in the job, twins included", "no trace says"),
        Column("dispatches_count", "Int64", "dispatches in the job, twins included", "no trace says, or it is refused"),
        Column("level", "category", "of the proof of its replay", "it is refused"),
        Column("reason", "category", "why it is refused", "it is planned"),
        Column("kernel_name", "category", "kernel", "nobody knows its name"),
    ),
)

BATCH_RESULTS = FrameSpec(
    name="BATCH_RESULTS",
    meaning="One row for each job of a batch: a kernel, the peaks of the GPU, the analysis at the end.",
    key=("name",),
    sort=(),
    columns=(
        Column("name", "category", "of the workload"),
        Column("state", "category", "done, failed, interrupted, running or pending"),
        Column("attempts_count", "int64", "attempts at it"),
        Column("passes_count", "Int64", "passes that have rows of the kernel", "no kernel, or nobody could look"),
        Column("launches_count", "Int64", "launches of the kernel in each of them", "no kernel, or they differ"),
        Column("run_s", "float64", "how long the last attempt took; no time of a kernel", "it has not run"),
        Column("reason", "category", "why it is no good", "it is good, or has not run"),
        Column("what", "category", "the same in a sentence", "it is good, or has not run"),
        Column("kernel_name", "category", "kernel", "no kernel"),
    ),
)

# Where the columns of BATCH_PLAN come from; times are as good as the trace is.
PLAN_EVIDENCE: Mapping[str, Evidence] = {
    name: Evidence.MEASURED if name in ("total_ns", "dispatches_count") else Evidence.DECLARED
    for name in BATCH_PLAN.names
}

RESULT_EVIDENCE = Evidence.MEASURED
"""Of all columns of BATCH_RESULTS: what was seen of processes and files."""


def build_plan_rows(plan: BatchPlan) -> pd.DataFrame:
    """BATCH_PLAN of a plan."""
    rows: list[dict[str, Any]] = [
        {
            "state": "planned",
            "instruction": each.instruction or None,
            "component": each.component or None,
            "total_ns": each.total_ns,
            "dispatches_count": each.dispatches_count,
            "level": each.level.value,
            "reason": None,
            "kernel_name": each.kernel,
        }
        for each in plan.kernels
    ]
    rows += [
        {
            "state": "refused",
            "instruction": each.instruction,
            "component": each.component or None,
            "total_ns": each.total_ns,
            "dispatches_count": None,
            "level": None,
            "reason": each.refusal.reason,
            "kernel_name": each.kernel or None,
        }
        for each in plan.refused
    ]
    return _frame([{"place_index": number, **row} for number, row in enumerate(rows, start=1)], BATCH_PLAN)


def build_result_rows(state: BatchState) -> pd.DataFrame:
    """BATCH_RESULTS of a state."""
    return _frame([_result(job) for job in state.jobs], BATCH_RESULTS)


def _result(job: Job) -> dict[str, Any]:
    last = job.last
    return {
        "name": job.name,
        "state": job.state.value,
        "attempts_count": len(job.attempts),
        "passes_count": None if last is None else last.passes_count,
        "launches_count": None if last is None else last.launches_count,
        "run_s": None if last is None else last.duration_s,
        "reason": None if last is None else last.reason or None,
        "what": None if last is None else last.what or None,
        "kernel_name": job.kernel or None,
    }


def _frame(rows: Sequence[Mapping[str, Any]], spec: FrameSpec) -> pd.DataFrame:
    columns = {}
    for column in spec.columns:
        values = [row[column.name] for row in rows]
        columns[column.name] = pd.Series(values, dtype="object").astype(column.dtype)
    return require_frame(pd.DataFrame(columns), spec)
