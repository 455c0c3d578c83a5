"""Step annotations of the host -> windows of host time, one per step, and the instants at which the host compiled.

A JAX profile marks a step with StepTraceAnnotation, which carries the step's number; in a rocpd trace a roctx range
does, whose text may hold the number. The windows are those of the host: work that they launched runs later on the
device, and carrying them there is not done here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.frames import RANGES, Column, FrameSpec, nullable_int64, require_frame
from rocktools.timeline.activities import labels_column

HOST_STEPS = FrameSpec(
    name="HOST_STEPS",
    meaning="One row per step that the host marked: its own window, which device work may outlast.",
    key=("run", "process", "window_index"),
    sort=("run", "process", "window_index"),
    columns=(
        *RANGES.columns[:2],
        Column("window_index", "int64", "position among the steps that the process marked, from 0"),
        Column("step_number", "Int64", "number that the job gave the step", "the range has no number in its text"),
        Column("name", "category", "name of the annotation, or text of the range"),
        Column("start_ns", "int64", "start on the host, trace clock"),
        Column("end_ns", "int64", "end on the host, trace clock"),
    ),
)

NUMBERED_STEP = re.compile(r"(?i)(?:step|train)[^0-9]{0,16}([0-9]+)")
"""Default: `step 12`, `train_step#12`, `train:12`. It reads `training took 3 s` as step 3: name ranges plainly."""

NUMBERLESS_STEP = re.compile(r"(?i)^(?:train[ _-]?)?step$|^train$")
"""Default where no range has a number: every step bears the same name."""

COMPILING = re.compile(
    r"(?i)backend_?compile|compile_?and_?load|xla ?compile|pjrt.*compile|autotun|^hipModuleLoad|^hipLibraryLoad"
)
"""Host calls and annotations that only happen while an executable is made or loaded; seen in JAX 0.8 to 0.10."""


def annotated_windows(host_events: pd.DataFrame, pattern: re.Pattern[str] | None = None) -> pd.DataFrame:
    """HOST_STEPS from the step annotations in HOST_EVENTS; the host stands for its process.

    Args:
        host_events: HOST_EVENTS.
        pattern: searched for in the annotation's name; None: of several names, the one with the most steps.
    """
    marks = host_events[host_events["step_number"].notna().to_numpy()]
    if pattern is None:
        names = Counter(str(name) for name in marks["event_name"])
        chosen = {min(names, key=lambda name: (-names[name], name))} if names else set()
    else:
        chosen = {name for name in map(str, marks["event_name"].unique()) if pattern.search(name)}
    marks = marks[marks["event_name"].astype(str).isin(chosen).to_numpy()]
    rows = zip(
        *(marks[name] for name in ("run", "host", "line", "event_name", "start_ns", "end_ns", "step_number")),
        strict=True,
    )
    return _windows(
        [(run, host, line, str(name), start, end, number) for run, host, line, name, start, end, number in rows]
    )


def range_windows(ranges: pd.DataFrame, pattern: re.Pattern[str] | None = None) -> pd.DataFrame:
    """HOST_STEPS from the roctx ranges whose text names a step.

    Args:
        ranges: RANGES.
        pattern: searched for in the text; its first group, if it has one, is the number of the step. None: `step` or
            `train` with a number behind it, and where no range is like that, the bare words.
    """
    whole = ranges[(ranges["kind"].astype(str) == "range").to_numpy()]
    texts = [str(name) for name in whole["name"].unique()]
    for tried in (NUMBERED_STEP, NUMBERLESS_STEP) if pattern is None else (pattern,):
        found = {text: match for text in texts if (match := tried.search(text))}
        if found:
            break
    else:
        return HOST_STEPS.empty()
    chosen = whole[whole["name"].astype(str).isin(found).to_numpy()]
    rows = []
    columns = (chosen[name] for name in ("run", "process", "thread_id", "name", "start_ns", "end_ns"))
    for run, process, thread, name, start, end in zip(*columns, strict=True):
        match = found[str(name)]
        digits = match.group(1) if match.re.groups else None
        number = int(digits) if digits and digits.isdecimal() else None
        rows.append((run, process, str(thread), str(name), start, end, number))
    return _windows(rows)


def compile_instants(
    host_events: pd.DataFrame | None, launches: pd.DataFrame | None
) -> dict[tuple[str, str], npt.NDArray[np.int64]]:
    """When the host began to compile, autotune or load an executable, by (run, process), ascending."""
    found: dict[tuple[str, str], list[int]] = {}
    for frame, process, name in ((host_events, "host", "event_name"), (launches, "process", "name")):
        if frame is None or frame.empty:
            continue
        names = frame[name].cat
        is_compiling = np.array([COMPILING.search(str(text)) is not None for text in names.categories], dtype=np.bool_)
        chosen = frame[np.append(is_compiling, False)[names.codes.to_numpy()]]
        for run, owner, start in zip(chosen["run"], chosen[process], chosen["start_ns"], strict=True):
            found.setdefault((str(run), str(owner)), []).append(int(start))
    return {owner: np.array(sorted(starts), dtype=np.int64) for owner, starts in found.items()}


def _windows(rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    """HOST_STEPS of (run, process, thread, name, start, end, number); of nested ones only the outermost counts."""
    ordered = sorted(rows, key=lambda row: (str(row[0]), str(row[1]), row[4], -row[5]))
    kept: list[tuple[Any, ...]] = []
    place: dict[tuple[str, str], int] = {}
    covered: dict[tuple[str, str, str], int] = {}
    indices = []
    for row in ordered:
        thread = (str(row[0]), str(row[1]), str(row[2]))
        if thread in covered and row[5] <= covered[thread]:
            continue
        covered[thread] = max(covered.get(thread, row[5]), row[5])
        indices.append(place.get(thread[:2], 0))
        place[thread[:2]] = indices[-1] + 1
        kept.append(row)
    numbers = [None if row[6] is None or pd.isna(row[6]) else int(row[6]) for row in kept]
    frame = pd.DataFrame(
        {
            "run": labels_column([row[0] for row in kept]),
            "process": labels_column([row[1] for row in kept]),
            "window_index": np.array(indices, dtype=np.int64),
            "step_number": nullable_int64(
                np.array([number or 0 for number in numbers], dtype=np.int64),
                np.array([number is None for number in numbers], dtype=np.bool_),
            ),
            "name": labels_column([row[3] for row in kept]),
            "start_ns": np.array([row[4] for row in kept], dtype=np.int64),
            "end_ns": np.array([row[5] for row in kept], dtype=np.int64),
        }
    )
    return require_frame(frame, HOST_STEPS)
