"""STEPS -> the steps of the job and of each device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.summary.document import DeviceSteps, JobStep, StepClass, Steps, StepSample
from rocktools.summary.gathered import Timed
from rocktools.summary.rows import build_rows, plain_value
from rocktools.summary.statistics import describe_durations
from rocktools.timeline.grouping import match_rows
from rocktools.timeline.step_quality import (
    CLASS_GAP_DEVIATIONS,
    CLASS_MEDIAN_RATIO,
    CLASS_SHARE_RATIO,
    CLASSED_STEPS_COUNT,
)

CLASS_RULE = (
    f"two classes where at least {CLASSED_STEPS_COUNT} steps count: the split of the sorted logarithms of durations "
    f"with the least sum of squares, if each class has two steps and {CLASS_SHARE_RATIO:.0%} of them, the medians are "
    f"{CLASS_MEDIAN_RATIO} times apart, and the gap is {CLASS_GAP_DEVIATIONS:g} standard deviations of the wider class"
)


def build_steps(timed: Timed) -> Steps:
    """The steps of a trace; its times are those of a profiled run."""
    frame = timed.runs.steps.frame
    is_counted = match_rows(frame, timed.steps, ("run", "device", "step_index")) >= 0
    frame = frame.assign(duration_ns=(frame["end_ns"] - frame["start_ns"]).astype("int64"), is_counted=is_counted)
    series = _job_steps(frame)
    counted = [each for each in series if each.is_counted]
    return Steps(
        method=", ".join(sorted({str(name) for name in frame["method"]})),
        evidence=Evidence(max(frame["evidence"].astype(str), key=[str(each) for each in Evidence].index)),
        warmup_steps_count=sum(each.is_warmup for each in series),
        cut_steps_count=sum(not each.is_complete for each in series),
        statistics=describe_durations([each.duration_ns for each in counted]),
        classes=_classes(counted),
        class_rule=CLASS_RULE,
        series=series,
        devices=_devices(frame),
    )


def _job_steps(frame: pd.DataFrame) -> tuple[JobStep, ...]:
    found = []
    for (run, step), rows in frame.groupby(["run", "step_index"], observed=True, sort=True):
        durations = rows["duration_ns"].to_numpy()
        devices = rows["device"].astype(str).to_numpy()
        longest = durations == durations.max()
        classes = rows["step_class"].dropna()
        found.append(
            JobStep(
                run=str(run),
                step_index=int(step),
                step_number=plain_value(rows["step_number"].iloc[0]),
                duration_ns=int(durations.max()),
                mean_ns=float(durations.mean()),
                min_ns=int(durations.min()),
                critical_device=min(devices[longest]),
                devices_count=len(rows),
                is_counted=bool(rows["is_counted"].all()),
                is_complete=bool(rows["is_complete"].all()),
                is_warmup=bool(rows["is_warmup"].any()),
                step_class=str(classes.iloc[0]) if len(classes) else None,
            )
        )
    return tuple(found)


def _devices(frame: pd.DataFrame) -> tuple[DeviceSteps, ...]:
    found = []
    for (run, device), rows in frame.groupby(["run", "device"], observed=True, sort=True):
        ordered = rows.sort_values("step_index")
        counted = ordered.loc[ordered["is_counted"], "duration_ns"].to_numpy()
        found.append(
            DeviceSteps(
                run=str(run),
                device=str(device),
                statistics=describe_durations(counted),
                samples=build_rows(StepSample, ordered),
            )
        )
    return tuple(found)


def _classes(counted: Sequence[JobStep]) -> tuple[StepClass, ...]:
    """Light, then heavy; () where steps are alike, or of several runs whose classes are their own."""
    found = []
    for name in ("light", "heavy"):
        mine = [each for each in counted if each.step_class == name]
        statistics = describe_durations([each.duration_ns for each in mine])
        if statistics is None:
            continue
        nearest = min(mine, key=lambda each: (abs(each.duration_ns - statistics.median_ns), each.step_index))
        found.append(
            StepClass(
                name=name,
                steps_count=len(mine),
                fraction_ratio=len(mine) / len(counted),
                statistics=statistics,
                representative_step_index=nearest.step_index,
                period_steps_count=_period([each.step_index for each in mine]),
            )
        )
    return tuple(found)


def _period(indexes: Sequence[int]) -> int | None:
    """The distance of neighbours where it is always the same, and there are at least three."""
    distances = np.diff(np.array(indexes, dtype=np.int64))
    is_regular = distances.size >= 2 and bool((distances == distances[0]).all())
    return int(distances[0]) if is_regular and distances[0] > 0 else None
