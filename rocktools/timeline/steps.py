"""Everything that may tell where steps are -> STEPS: which windows of each device count as a step of the job.

Methods, in the order in which they are tried: marks of the host carried to the devices (`annotation`, `range`), the
period of the device's own kernels (`period`), and the whole trace. A window given by the user goes before all. Each run
finds its own, and every result says by which method. What a step is made of is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.errors import UsageError
from rocktools.evidence import Evidence
from rocktools.findings import Finding
from rocktools.frames import STEPS, require_frame
from rocktools.timeline.activities import labels_column, require_columns
from rocktools.timeline.device_windows import DeviceWindows, no_windows, number_steps, window_frame
from rocktools.timeline.grouping import codes_of, group_rows
from rocktools.timeline.host_windows import HOST_STEPS, annotated_windows, compile_instants, range_windows
from rocktools.timeline.step_findings import check_steps, no_steps_found
from rocktools.timeline.step_quality import judge_steps
from rocktools.timeline.step_rows import STEP_ROW_COLUMNS, StepSources
from rocktools.timeline.steps_annotated import carry_windows
from rocktools.timeline.steps_periodic import execution_windows, periodic_windows


class StepMethod(str, Enum):
    """How steps are found, in order of preference; a window is used where the user gives one."""

    WINDOW = "window"
    ANNOTATION = "annotation"
    RANGE = "range"
    PERIOD = "period"
    WHOLE = "whole"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWindow:
    """A window given by the user.

    Attributes:
        start_ns, end_ns: trace clock; or, with `is_offset`, counted from the first start of a row of the run.
    """

    start_ns: int
    end_ns: int
    is_offset: bool = False

    def __post_init__(self) -> None:
        if self.start_ns >= self.end_ns:
            raise UsageError(
                "empty-window",
                f"a window must end after it starts, but is {self.start_ns} to {self.end_ns} ns",
                hint="give the start first",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """What the user may choose.

    Attributes:
        method: the one method to use; None: the first that finds steps.
        pattern: regular expression for the name of the annotation or range; its first group is the number of a range's
            step.
        window: an explicit window, which is then the only step.
    """

    method: StepMethod | None = None
    pattern: str | None = None
    window: StepWindow | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepFindings:
    """The steps, and what is doubtful about them.

    Attributes:
        frame: STEPS, all that were found.
        host_steps: HOST_STEPS: the marks they were carried from; empty where none were.
        findings: doubts.
    """

    frame: pd.DataFrame
    host_steps: pd.DataFrame
    findings: tuple[Finding, ...]

    @property
    def counted(self) -> pd.DataFrame:
        """STEPS that numbers should be made of: complete on every device of the run, and not warm-up.

        Where no step of a run is like that, all its complete ones, and where none is complete, all.
        """
        return counted_steps(self.frame)


def find_steps(sources: StepSources, options: StepOptions | None = None) -> StepFindings:
    """The steps of each run.

    Args:
        sources: rows of the device timeline, and what the host recorded.
        options: the user's choices; None: none.

    Raises:
        UsageError: the pattern is not a regular expression, or a window was asked for and not given.
        ContractError: rows lack a column.
    """
    chosen = options or StepOptions()
    require_columns(sources.rows, STEP_ROW_COLUMNS)
    pattern = _compiled(chosen.pattern)
    if chosen.method is StepMethod.WINDOW and chosen.window is None:
        raise UsageError("no-window", "steps by window need a window", hint="give its start and end")
    frames: list[pd.DataFrame] = []
    marks: list[pd.DataFrame] = []
    findings: list[Finding] = []
    for run in sorted({str(name) for name in sources.rows["run"].unique()}):
        found = _find_in_run(_of_run(sources, run), chosen, pattern)
        frames.append(found.frame)
        marks.append(found.host_steps)
        findings += found.findings
    return StepFindings(
        frame=_together(frames, STEPS.empty(), STEPS.sort, ("run", "device", "method", "step_class", "evidence")),
        host_steps=_together(marks, HOST_STEPS.empty(), HOST_STEPS.sort, ("run", "process", "name")),
        findings=tuple(findings),
    )


def counted_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """STEPS that numbers should be made of; see `StepFindings.counted`."""
    kept = np.zeros(len(steps), dtype=np.bool_)
    keys = [codes_of(steps["run"]), codes_of(steps["step_index"])]
    of_step = group_rows(keys).of if len(steps) else np.zeros(0, np.int64)
    complete, warmup = steps["is_complete"].to_numpy(), steps["is_warmup"].to_numpy()
    is_cut, is_early = (_any_of(of_step, flags) for flags in (~complete, warmup))
    for run in steps["run"].unique():
        mine = (steps["run"] == run).to_numpy()
        for wanted in (mine & ~is_cut & ~is_early, mine & ~is_cut, mine):
            if bool(wanted.any()):
                kept |= wanted
                break
    return steps[kept].reset_index(drop=True)


def _find_in_run(sources: StepSources, options: StepOptions, pattern: re.Pattern[str] | None) -> StepFindings:
    """The steps of one run by the first method that finds any."""
    no_marks = HOST_STEPS.empty()
    tried: list[str] = []
    for method in _methods(options):
        marks = _marks(method, sources, pattern)
        found = _search(method, sources, options, marks)
        tried += [f"{method}: {text}" for text in found.tried]
        if not found.frame.empty:
            result = _judged(method, found, sources, no_marks if marks is None else marks)
            is_last_resort = method is StepMethod.WHOLE and options.method is None
            missing = (no_steps_found(sources.rows, tried, is_whole_used=True),) if is_last_resort else ()
            return replace(result, findings=(*missing, *result.findings))
    missing = (no_steps_found(sources.rows, tried, is_whole_used=False),)
    return StepFindings(frame=STEPS.empty(), host_steps=no_marks, findings=missing)


def _methods(options: StepOptions) -> Sequence[StepMethod]:
    if options.method is not None:
        return (options.method,)
    if options.window is not None:
        return (StepMethod.WINDOW,)
    return tuple(method for method in StepMethod if method is not StepMethod.WINDOW)


def _marks(method: StepMethod, sources: StepSources, pattern: re.Pattern[str] | None) -> pd.DataFrame | None:
    """HOST_STEPS of a method that has marks; None where there is nothing to read them from."""
    if method is StepMethod.ANNOTATION and sources.host_events is not None:
        return annotated_windows(sources.host_events, pattern)
    if method is StepMethod.RANGE and sources.ranges is not None:
        return range_windows(sources.ranges, pattern)
    return None


def _search(
    method: StepMethod, sources: StepSources, options: StepOptions, marks: pd.DataFrame | None
) -> DeviceWindows:
    rows = sources.rows
    if method in (StepMethod.ANNOTATION, StepMethod.RANGE):
        if marks is None:
            frame = "HOST_EVENTS of a JAX profile" if method is StepMethod.ANNOTATION else "roctx ranges"
            return no_windows(Evidence.MEASURED, f"there are no {frame}")
        return carry_windows(sources, marks)
    if method is StepMethod.PERIOD:
        placed = execution_windows(rows)
        if not placed.frame.empty:
            return placed
        periodic = periodic_windows(rows)
        return replace(periodic, tried=(*placed.tried, *periodic.tried)) if periodic.frame.empty else periodic
    first, last = int(rows["start_ns"].min()), int(rows["end_ns"].max())
    if method is StepMethod.WHOLE:
        return _one_window(rows, Evidence.MEASURED, lambda start, end: (start, end))
    assert options.window is not None
    origin = first if options.window.is_offset else 0
    start_ns, end_ns = options.window.start_ns + origin, options.window.end_ns + origin
    if start_ns >= last or end_ns <= first:
        return no_windows(
            Evidence.DECLARED, f"nothing runs from {start_ns} to {end_ns} ns: rows are at {first} to {last}"
        )
    return _one_window(rows, Evidence.DECLARED, lambda start, end: (start_ns, end_ns))


def _one_window(rows: pd.DataFrame, evidence: Evidence, window: Callable[[int, int], tuple[int, int]]) -> DeviceWindows:
    """One window on each device, made from its first start and last end."""
    spans = rows.groupby("device", observed=True).agg({"run": "first", "start_ns": "min", "end_ns": "max"})
    found: list[tuple[Any, ...]] = []
    for device, run, start, end in zip(spans.index, spans["run"], spans["start_ns"], spans["end_ns"], strict=True):
        found.append((run, device, device, 0, None, *window(int(start), max(int(start), int(end))), False))
    return DeviceWindows(frame=window_frame(found), evidence=evidence)


def _judged(method: StepMethod, found: DeviceWindows, sources: StepSources, marks: pd.DataFrame) -> StepFindings:
    """STEPS of the windows that a method found in one run."""
    windows = number_steps(found.frame)
    compiling = {process: at for (_, process), at in compile_instants(sources.host_events, sources.launches).items()}
    judged = judge_steps(windows, sources.rows, compiling, None if marks.empty else marks)
    count = len(windows)
    frame = pd.DataFrame(
        {
            **{name: windows[name].array for name in ("run", "device", "step_index", "step_number")},
            "start_ns": windows["start_ns"].to_numpy(),
            "end_ns": windows["end_ns"].to_numpy(),
            "method": labels_column([method.value] * count),
            "is_complete": judged.is_complete,
            "is_warmup": judged.is_warmup,
            "step_class": labels_column(judged.step_class),
            "evidence": labels_column([found.evidence.value] * count),
        }
    )
    findings = (*found.findings, *check_steps(frame, judged.rows_count, is_declared=method is StepMethod.WINDOW))
    return StepFindings(frame=require_frame(frame, STEPS), host_steps=marks, findings=findings)


def _of_run(sources: StepSources, run: str) -> StepSources:
    """What is about one run."""

    def only(frame: pd.DataFrame | None) -> pd.DataFrame | None:
        return None if frame is None else frame[(frame["run"] == run).to_numpy()]

    rows = sources.rows[(sources.rows["run"] == run).to_numpy()].reset_index(drop=True)
    others = (only(frame) for frame in (sources.launches, sources.host_events, sources.ranges))
    launches, host_events, ranges = others
    return StepSources(rows=rows, launches=launches, host_events=host_events, ranges=ranges)


def _together(
    frames: Sequence[pd.DataFrame], empty: pd.DataFrame, sort: Sequence[str], labels: Sequence[str]
) -> pd.DataFrame:
    """The frames of several runs as one, whose labels are categories again."""
    filled = [frame for frame in frames if not frame.empty]
    if not filled:
        return empty
    texts = [frame.astype(dict.fromkeys(labels, "object")) for frame in filled]
    joined = pd.concat(texts, ignore_index=True)
    joined = joined.assign(**{name: labels_column(joined[name]) for name in labels})
    return joined.sort_values(list(sort), ignore_index=True)


def _any_of(groups: npt.NDArray[np.int64], flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether any row of each row's group has the flag."""
    has = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.bool_)
    has[groups[flags]] = True
    return has[groups]


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(
            "bad-regex",
            f"{pattern!r} is not a regular expression: {error}",
            hint="escape what is meant literally, as in '\\(' and '\\*'",
        ) from error
