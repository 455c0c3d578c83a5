"""What is doubtful about steps: found nowhere, only one, only warm-up, cut, or different from device to device."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rocktools.findings import Finding, Severity
from rocktools.timeline.grouping import IntArray

ROWS_DIFFER_RATIO = 0.02
"""Difference of a step's number of rows between devices that is worth a word."""


def no_steps_found(rows: pd.DataFrame, tried: Sequence[str], *, is_whole_used: bool) -> Finding:
    """No method found steps; what was tried is listed."""
    consequence = (
        "the whole trace counts as one step, with all that is not a step in it" if is_whole_used else "no steps"
    )
    return Finding(
        rule="no-steps-found",
        severity=Severity.WARNING,
        where=_where(rows),
        message=f"steps were not found: {'; '.join(tried)}: {consequence}",
        numbers={"rows_count": len(rows)},
        advice="give a window, or capture with jax.profiler.StepTraceAnnotation around each step",
    )


def check_steps(steps: pd.DataFrame, rows_count: IntArray, *, is_declared: bool) -> list[Finding]:
    """Doubts about the steps of one run.

    Args:
        steps: STEPS of one run.
        rows_count: rows in each of them.
        is_declared: whether the user gave the window, so that one step only is what was asked for.
    """
    if steps.empty:
        return []
    indices = steps["step_index"]
    whole = [int(step) for step in indices.unique() if bool(steps.loc[indices == step, "is_complete"].all())]
    warm = [step for step in whole if bool(steps.loc[indices == step, "is_warmup"].any())]
    count = int(indices.nunique())
    findings = []
    if count - len(whole):
        findings.append(_cut(steps, count, len(whole)))
    if whole and len(warm) == len(whole):
        findings.append(_only_warmup(steps, len(warm)))
    elif count == 1 and not is_declared and str(steps["method"].iloc[0]) != "whole":
        findings.append(_only_one(steps))
    return [*findings, *_different_devices(steps, rows_count)]


def _cut(steps: pd.DataFrame, steps_count: int, whole_count: int) -> Finding:
    return Finding(
        rule="steps-cut",
        severity=Severity.NOTE if whole_count else Severity.WARNING,
        where=_where(steps),
        message=f"{steps_count - whole_count} of {steps_count} steps are cut by the edge of the trace"
        + ("; they are left out" if whole_count else "; there is no whole one"),
        numbers={"steps_count": steps_count, "cut_steps_count": steps_count - whole_count},
    )


def _only_warmup(steps: pd.DataFrame, count: int) -> Finding:
    return Finding(
        rule="only-warmup-steps",
        severity=Severity.WARNING,
        where=_where(steps),
        message=f"all {count} whole steps are warm-up: they compile, autotune or load executables; their times are not "
        "those of training",
        numbers={"warmup_steps_count": count},
        advice="capture after at least two steps have run",
    )


def _only_one(steps: pd.DataFrame) -> Finding:
    return Finding(
        rule="one-step-only",
        severity=Severity.NOTE,
        where=_where(steps),
        message="there is one step only: nothing says how much steps vary, or whether this one is typical",
        numbers={"steps_count": 1},
        advice="capture three to five steps",
    )


def _different_devices(steps: pd.DataFrame, rows_count: IntArray) -> list[Finding]:
    """Devices that saw other steps, or other numbers of rows in the same complete step."""
    per_device = steps.groupby(steps["device"].astype(str))["step_index"].nunique()
    findings = []
    if per_device.nunique() > 1:
        fewest, most = str(per_device.idxmin()), str(per_device.idxmax())
        findings.append(
            Finding(
                rule="steps-differ-between-devices",
                severity=Severity.WARNING,
                where=_where(steps),
                message=f"{fewest} has {per_device.min()} steps and {most} has {per_device.max()}; steps are compared "
                "where both have them",
                numbers={"fewest_steps_count": int(per_device.min()), "most_steps_count": int(per_device.max())},
            )
        )
    complete = steps["is_complete"].to_numpy()
    counts = pd.Series(rows_count[complete]).groupby(steps["step_index"].to_numpy()[complete])
    spread = (counts.max() - counts.min()) / counts.max().clip(lower=1)
    uneven = spread[spread > ROWS_DIFFER_RATIO]
    if len(uneven):
        worst = int(uneven.idxmax())
        low, high = int(counts.min()[worst]), int(counts.max()[worst])
        findings.append(
            Finding(
                rule="rows-differ-between-devices",
                severity=Severity.NOTE,
                where=f"{_where(steps)}, step {worst}",
                message=f"{len(uneven)} of {len(spread)} steps hold different numbers of kernels on different devices, "
                f"step {worst} from {low} to {high}: devices do different work, or records were dropped",
                numbers={"uneven_steps_count": len(uneven), "fewest_rows_count": low, "most_rows_count": high},
            )
        )
    return findings


def _where(frame: pd.DataFrame) -> str:
    runs = [str(run) for run in frame["run"].unique()] if len(frame) else []
    return f"steps of {', '.join(runs)}" if runs else "steps"
