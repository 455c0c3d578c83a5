"""Steps marked on the host -> windows on the devices: from the first start to the last end of what each launched.

A device runs behind its host, so a step's window on the host is not its window on the device. A row is carried by the
host call that launched it; where calls were not recorded, by the roctx range that was open at launch; where that is not
recorded either, by the time at which it starts, which is only as good as the host's waiting at the end of each step.

Launches between two marked steps belong to none. Where they are many, the mark ends before its launches do (a jitted
step returns while another thread still launches), and a step then lasts until the next one begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.timeline.device_windows import DeviceWindows, no_windows, window_frame
from rocktools.timeline.grouping import IntArray, codes_of, group_rows, match_rows
from rocktools.timeline.launches import find_launch_times
from rocktools.timeline.step_rows import StepSources, windows_of_rows

OUTSIDE_LIMIT_RATIO = 0.05
"""More launches than this between marked steps: marks end before their launches do."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Carried:
    """The window of each row (-1: none), and how that was found."""

    window: IntArray
    evidence: Evidence
    findings: tuple[Finding, ...]


def carry_windows(sources: StepSources, host_steps: pd.DataFrame) -> DeviceWindows:
    """The windows of each marked step on the devices it launched work on.

    Args:
        sources: rows of one run, and their launches.
        host_steps: HOST_STEPS of that run.
    """
    if host_steps.empty:
        return no_windows(Evidence.MEASURED, "no step is marked on the host")
    carried = _carry(sources, host_steps)
    rows, inside = sources.rows, np.flatnonzero(carried.window >= 0)
    if inside.size == 0:
        tried = f"{len(host_steps)} steps are marked on the host, but no row of a device was launched in one"
        return no_windows(carried.evidence, tried, carried.findings)
    groups = group_rows([codes_of(rows["device"])[inside], carried.window[inside]])
    starts, ends = np.full(len(groups), np.iinfo(np.int64).max), np.full(len(groups), np.iinfo(np.int64).min)
    np.minimum.at(starts, groups.of, rows["start_ns"].to_numpy()[inside])
    np.maximum.at(ends, groups.of, rows["end_ns"].to_numpy()[inside])
    examples = inside[groups.example]
    marked = host_steps.iloc[carried.window[examples]]
    frame = window_frame(
        list(
            zip(
                marked["run"],
                marked["process"],
                rows["device"].iloc[examples],
                marked["window_index"],
                marked["step_number"],
                starts.tolist(),
                np.maximum(starts, ends).tolist(),
                [False] * len(groups),
                strict=True,
            )
        )
    )
    return DeviceWindows(frame=frame, evidence=carried.evidence, findings=carried.findings)


def _carry(sources: StepSources, host_steps: pd.DataFrame) -> _Carried:
    rows = sources.rows
    times = find_launch_times(rows, sources.launches)
    if bool(times.is_known.any()):
        launched = rows[["run", "process"]].assign(start_ns=times.start_ns)
        window, findings = _within(launched, host_steps, times.is_known)
        if bool((window >= 0).any()):
            return _Carried(window=window, evidence=Evidence.MEASURED, findings=findings)
    by_range = _by_range(rows, host_steps)
    if bool((by_range >= 0).any()):
        return _Carried(window=by_range, evidence=Evidence.MEASURED, findings=())
    window, findings = _within(rows[["run", "process", "start_ns"]], host_steps, np.ones(len(rows), np.bool_))
    return _Carried(window=window, evidence=Evidence.INFERRED, findings=(_by_time(rows, window), *findings))


def _within(
    launched: pd.DataFrame, host_steps: pd.DataFrame, is_known: npt.NDArray[np.bool_]
) -> tuple[IntArray, tuple[Finding, ...]]:
    """The marked step in which each known instant lies; steps last until the next where many lie in between."""
    window = np.where(is_known, windows_of_rows(launched, host_steps, owner="process"), -1)
    longer = host_steps.assign(end_ns=_until_next(host_steps))
    extended = np.where(is_known, windows_of_rows(launched, longer, owner="process"), -1)
    outside, total = int(((window < 0) & (extended >= 0)).sum()), int((extended >= 0).sum())
    if total == 0 or outside / total <= OUTSIDE_LIMIT_RATIO:
        return window, ()
    finding = Finding(
        rule="launches-outside-steps",
        severity=Severity.NOTE,
        where="steps marked on the host",
        message=f"{outside} of {total} rows were launched after the mark of a step had ended and before the next "
        "began; each belongs to the step before it",
        numbers={"outside_rows_count": outside, "rows_count": total},
        advice="wait for the result inside the annotation (jax.block_until_ready) to have steps end where they do",
    )
    return extended, (finding,)


def _until_next(host_steps: pd.DataFrame) -> IntArray:
    """For each marked step the start of the next of its process; for the last, as long as the longest of the others."""
    starts, ends = host_steps["start_ns"].to_numpy(), host_steps["end_ns"].to_numpy()
    owner = group_rows([codes_of(host_steps[name]) for name in ("run", "process")]).of
    until = ends.copy()
    for number in range(int(owner.max(initial=-1)) + 1):
        mine = np.flatnonzero(owner == number)
        mine = mine[np.argsort(starts[mine], kind="stable")]
        pitch = np.diff(starts[mine])
        until[mine[:-1]] = starts[mine[1:]]
        if pitch.size:
            until[mine[-1]] = starts[mine[-1]] + int(pitch.max())
    longer: IntArray = np.maximum(until, ends)
    return longer


def _by_range(rows: pd.DataFrame, host_steps: pd.DataFrame) -> IntArray:
    """The marked step whose text is that of the range open at launch; texts that several steps have say nothing."""
    none = np.full(len(rows), -1, dtype=np.int64)
    if "range" not in rows.columns or not bool(rows["range"].notna().any()):
        return none
    is_shared = host_steps.duplicated(["run", "process", "name"], keep=False).to_numpy()
    positions = np.flatnonzero(~is_shared)
    named = host_steps.iloc[positions].rename(columns={"name": "range"})
    at = match_rows(rows, named, ("run", "process", "range"))
    if positions.size == 0:
        return none
    carried: IntArray = np.where(at < 0, -1, positions[at])
    return carried


def _by_time(rows: pd.DataFrame, window: IntArray) -> Finding:
    inside = int((window >= 0).sum())
    return Finding(
        rule="steps-carried-by-time",
        severity=Severity.WARNING,
        where="steps marked on the host",
        message=f"no host call is recorded for the rows of the devices, so {inside} of {len(rows)} were put into the "
        "step during which they start; what a step left running counts for the next",
        numbers={"inside_rows_count": inside, "rows_count": len(rows)},
        advice="record HIP calls too (rocprofv3 --runtime-trace)",
    )
