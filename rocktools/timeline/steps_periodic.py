"""Steps that nothing marks -> windows from one beginning of the main program to the next, per device.

Where kernels are placed in executions of a program, an execution of the program that takes most time is a step. Else a
step begins where the sequence of kernels repeats. The sequence is that of one stream, since the order of kernels on
different streams changes from step to step; the windows hold the rows of all streams.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.timeline.device_windows import DeviceWindows, no_windows, window_frame
from rocktools.timeline.grouping import IntArray, codes_of, group_rows
from rocktools.timeline.period import Beginning, Period, find_period
from rocktools.timeline.step_rows import device_order


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sequence:
    """The rows of one device in the order of start."""

    device: str
    rows: pd.DataFrame
    kinds: IntArray
    stream: IntArray

    @property
    def gap_before(self) -> IntArray:
        starts, ends = self.rows["start_ns"].to_numpy(), self.rows["end_ns"].to_numpy()
        return np.append(np.int64(0), np.maximum(starts[1:] - np.maximum.accumulate(ends)[:-1], 0))[: starts.size]


def execution_windows(rows: pd.DataFrame) -> DeviceWindows:
    """Each execution of the program that takes most time, until the next one begins.

    Args:
        rows: of one run, with program_id and execution_index where kernels are linked.
    """
    placed = _placed(rows)
    if placed is None:
        return no_windows(Evidence.INFERRED, "no kernel is placed in an execution of a program")
    found: list[tuple[Any, ...]] = []
    run = str(rows["run"].iloc[0])
    spans = placed.groupby(["device", "execution_index"], observed=True).agg({"start_ns": "min", "end_ns": "max"})
    spans = spans.reset_index().sort_values(["device", "start_ns"])
    for device, own in spans.groupby("device", observed=True):
        starts, ends = own["start_ns"].tolist(), own["end_ns"].tolist()
        until = [max(start, later) for start, later in zip(starts, [*starts[1:], ends[-1]], strict=True)]
        for index, (start, end) in enumerate(zip(starts, until, strict=True)):
            found.append((run, device, device, index, None, start, end, False))
    return DeviceWindows(frame=window_frame(found), evidence=Evidence.INFERRED)


def periodic_windows(rows: pd.DataFrame) -> DeviceWindows:
    """Each repetition of the sequence of kernels, until the next one begins.

    Args:
        rows: of one run.
    """
    sequences = _sequences(rows)
    run = str(rows["run"].iloc[0]) if len(rows) else ""
    periods: list[Period] = []
    found: list[tuple[Any, ...]] = []
    for sequence in sequences:
        # The same beginning on all devices, or one's step would be half of two of the other's.
        kept = _period(sequence, periods[0].beginning if periods else None)
        if kept is not None:
            periods.append(kept[0])
            found += _windows(run, sequence, *kept)
    if not found:
        tried = "no kernel divides the sequence of any device into equal steps"
        return no_windows(Evidence.INFERRED, tried)
    findings = (_summary(periods, len(sequences)),)
    return DeviceWindows(frame=window_frame(found), evidence=Evidence.INFERRED, findings=findings)


def _placed(rows: pd.DataFrame) -> pd.DataFrame | None:
    """Rows of the program that takes most time, where they are placed in its executions."""
    if "execution_index" not in rows.columns or "program_id" not in rows.columns:
        return None
    placed = rows[(rows["execution_index"].notna() & rows["program_id"].notna()).to_numpy()]
    if placed.empty:
        return None
    durations = placed["end_ns"] - placed["start_ns"]
    by_program = durations.groupby(placed["program_id"], observed=True).sum()
    main = min(by_program.items(), key=lambda item: (-item[1], str(item[0])))[0]
    return placed[(placed["program_id"] == main).to_numpy()]


def _sequences(rows: pd.DataFrame) -> list[_Sequence]:
    """One for each device, longest first."""
    ordered = rows.iloc[device_order(rows)]
    kinds = _kinds(ordered)
    stream = codes_of(ordered["stream_id"]) if "stream_id" in ordered.columns else np.zeros(len(ordered), np.int64)
    device = codes_of(ordered["device"])
    edges = [0, *(np.flatnonzero(device[1:] != device[:-1]) + 1).tolist(), device.size] if device.size else [0]
    sequences = []
    for begin, end in itertools.pairwise(edges):
        sequences.append(
            _Sequence(
                device=str(ordered["device"].iloc[begin]),
                rows=ordered.iloc[begin:end],
                kinds=kinds[begin:end],
                stream=stream[begin:end],
            )
        )
    return sorted(sequences, key=lambda sequence: (-len(sequence.kinds), sequence.device))


def _kinds(rows: pd.DataFrame) -> IntArray:
    """What each row executes: its instruction where it is linked, else its kernel."""
    parts = [codes_of(rows["kernel_name"])]
    if "instruction" in rows.columns and "program_id" in rows.columns:
        linked = rows["instruction"].notna().to_numpy()
        parts = [np.where(linked, 0, parts[0] + 1)]
        parts += [np.where(linked, codes_of(rows[name]), 0) for name in ("program_id", "instruction")]
    return group_rows(parts).of


def _period(sequence: _Sequence, preferred: Beginning | None) -> tuple[Period, npt.NDArray[np.intp]] | None:
    """The period of a device and the rows it was found in: those of its busiest stream, or all of them."""
    busiest = int(np.bincount(sequence.stream).argmax())
    gap_before = sequence.gap_before
    for places in (np.flatnonzero(sequence.stream == busiest), np.arange(sequence.kinds.size)):
        period = find_period(sequence.kinds[places], gap_before[places], preferred)
        if period is not None:
            return period, places
    return None


def _windows(run: str, sequence: _Sequence, period: Period, places: npt.NDArray[np.intp]) -> list[tuple[Any, ...]]:
    starts_ns = sequence.rows["start_ns"].to_numpy()
    ends_ns = sequence.rows["end_ns"].to_numpy()
    begins = starts_ns[places[period.starts]].tolist()
    # Rows of other streams that start before the last row of the step belong to it too.
    last = int(places[period.last_end - 1])
    end = int(ends_ns[int(places[period.starts[-1]]) : last + 1].max())
    until = [*begins[1:], end]
    is_cut = [False] * (len(begins) - 1) + [not period.is_last_whole]
    device = sequence.device
    return [
        (run, device, device, index, None, begin, max(begin, stop), cut)
        for index, (begin, stop, cut) in enumerate(zip(begins, until, is_cut, strict=True))
    ]


def _summary(periods: list[Period], devices_count: int) -> Finding:
    steps_count, equal_count = sum(period.starts.size for period in periods), sum(p.equal_count for p in periods)
    explained_ratio = min(period.explained_ratio for period in periods)
    same = "exactly the same" if all(period.is_exact for period in periods) else "nearly the same number of"
    return Finding(
        rule="steps-by-period",
        severity=Severity.NOTE,
        where="device timeline",
        message=f"nothing marks the steps: they were taken from a repetition of {periods[0].rows_count} kernels on "
        f"the busiest stream of {len(periods)} of {devices_count} devices; {equal_count} of {steps_count} hold "
        f"{same} kernels",
        numbers={
            "kernels_count": periods[0].rows_count,
            "equal_steps_count": equal_count,
            "steps_count": steps_count,
            "explained_ratio": explained_ratio,
        },
        advice="mark steps with jax.profiler.StepTraceAnnotation or a roctx range to have them measured",
    )
