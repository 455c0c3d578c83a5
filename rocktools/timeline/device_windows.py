"""Windows on devices, as a method found them -> numbered alike on every device, ready to become STEPS.

Each method finds windows for one owner at a time (a process, or a device) and numbers them in order. Here the numbers
of several owners are made to mean the same step: by the job's own step numbers where all have them, else by order,
moved where an owner saw fewer steps than the others. Completeness, warm-up and classes are decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding
from rocktools.frames import nullable_int64
from rocktools.timeline.activities import labels_column
from rocktools.timeline.grouping import IntArray, codes_of, group_rows

WINDOW_COLUMNS = ("run", "owner", "device", "window_index", "step_number", "start_ns", "end_ns", "is_cut")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceWindows:
    """What one method found.

    Attributes:
        frame: `WINDOW_COLUMNS`: one row per window and device; `owner` is who counted it, `is_cut` whether the method
            itself saw that the trace holds only a part of it.
        evidence: how the windows were obtained.
        findings: doubts.
        tried: what was looked for, for the case that nothing was found.
    """

    frame: pd.DataFrame
    evidence: Evidence
    findings: tuple[Finding, ...] = ()
    tried: tuple[str, ...] = ()


def no_windows(evidence: Evidence, tried: str, findings: tuple[Finding, ...] = ()) -> DeviceWindows:
    """The result of a method that found nothing; `tried` says why."""
    return DeviceWindows(frame=window_frame([]), evidence=evidence, findings=findings, tried=(tried,))


def window_frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """A frame of `WINDOW_COLUMNS` from tuples in that order; a step number may be None."""
    columns: dict[str, list[Any]] = {name: [row[place] for row in rows] for place, name in enumerate(WINDOW_COLUMNS)}
    numbers = [None if pd.isna(number) else int(number) for number in columns["step_number"]]
    return pd.DataFrame(
        {
            **{name: labels_column(columns[name]) for name in ("run", "owner", "device")},
            "window_index": np.array(columns["window_index"], dtype=np.int64),
            "step_number": nullable_int64(
                np.array([number or 0 for number in numbers], dtype=np.int64),
                np.array([number is None for number in numbers], dtype=np.bool_),
            ),
            "start_ns": np.array(columns["start_ns"], dtype=np.int64),
            "end_ns": np.array(columns["end_ns"], dtype=np.int64),
            "is_cut": np.array(columns["is_cut"], dtype=np.bool_),
        }
    )


def number_steps(windows: pd.DataFrame) -> pd.DataFrame:
    """One row per run, device and step: windows of several owners that are the same step on one device become one.

    Args:
        windows: `WINDOW_COLUMNS`.

    Returns:
        run, device, step_index, step_number, start_ns, end_ns, is_cut; ordered by run, device, step_index.
    """
    if windows.empty:
        return windows.drop(columns=["owner"]).rename(columns={"window_index": "step_index"})
    indexed = windows.assign(step_index=np.zeros(len(windows), dtype=np.int64))
    for run in windows["run"].unique():
        mine = (windows["run"] == run).to_numpy()
        indexed.loc[mine, "step_index"] = _step_indices(windows[mine])
    groups = group_rows([codes_of(indexed[name]) for name in ("run", "device", "step_index")])
    frame = indexed.iloc[groups.example][["run", "device", "step_index", "step_number"]].reset_index(drop=True)
    frame["start_ns"] = _reduce(np.minimum, groups.of, len(groups), indexed["start_ns"].to_numpy())
    frame["end_ns"] = _reduce(np.maximum, groups.of, len(groups), indexed["end_ns"].to_numpy())
    frame["is_cut"] = _reduce(np.maximum, groups.of, len(groups), indexed["is_cut"].to_numpy().astype(np.int64)) > 0
    return frame.sort_values(["run", "device", "step_index"], ignore_index=True)


def _step_indices(windows: pd.DataFrame) -> IntArray:
    """The step of each window of one run."""
    numbers = windows["step_number"]
    once = windows[["owner", "device", "step_number"]].drop_duplicates()
    if bool(numbers.notna().all()) and len(once) == len(windows):
        return np.unique(numbers.to_numpy(dtype=np.int64), return_inverse=True)[1].astype(np.int64)
    starts: dict[str, dict[int, int]] = {}
    rows = zip(windows["owner"].astype(str), windows["window_index"], windows["start_ns"], strict=True)
    for owner, index, start in rows:
        known = starts.setdefault(owner, {})
        known[index] = min(known.get(index, start), start)
    offsets = align_owners({owner: [known[i] for i in sorted(known)] for owner, known in starts.items()})
    order = {owner: {index: place for place, index in enumerate(sorted(known))} for owner, known in starts.items()}
    pairs = zip(windows["owner"].astype(str), windows["window_index"], strict=True)
    return np.array([order[owner][index] + offsets[owner] for owner, index in pairs], dtype=np.int64)


def align_owners(starts: Mapping[str, list[int]]) -> dict[str, int]:
    """By how many steps each owner's first step is behind the first of the owner that saw most.

    Owners on one clock are moved to where their starts are nearest; where none is nearer than half a step, clocks
    differ (nodes) and the order alone counts.
    """
    reference = max(sorted(starts), key=lambda owner: len(starts[owner]))
    longest = np.array(starts[reference], dtype=np.int64)
    pitch = float(np.median(np.diff(longest))) if longest.size > 1 else 0.0
    offsets = {}
    for owner, own in starts.items():
        distances = [
            float(np.median(np.abs(longest[offset : offset + len(own)] - np.array(own, dtype=np.int64))))
            for offset in range(longest.size - len(own) + 1)
        ]
        best = int(np.argmin(distances))
        offsets[owner] = best if distances[best] < pitch / 2 else 0
    return offsets


def _reduce(how: np.ufunc, of: IntArray, groups_count: int, values: npt.NDArray[np.int64]) -> IntArray:
    """Smallest or largest value of each group."""
    result = np.empty(groups_count, dtype=np.int64)
    result[of[::-1]] = values[::-1]  # any value of the group to begin with
    how.at(result, of, values)
    return result
