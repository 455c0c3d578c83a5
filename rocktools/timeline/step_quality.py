"""Windows of steps -> which are whole, which are warm-up, and whether there are two classes of them.

Rules, with what fools them:

* A step at the edge of a trace is cut where it has fewer rows than every whole step in between, but for half a percent
  of lost records. A trace that ends in the last kernels of a step of which the others vary that much passes.
* A step is warm-up where its host compiled, autotuned or loaded an executable during it; or, among the first ones,
  where it runs kernels in numbers that none of two or more later steps comes near, or takes far longer than they. That
  a program is executed for the first time in a trace says nothing: a trace may begin anywhere.
* Durations are two classes only where a gap between them is far wider than either class, so that noise is one class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.timeline.grouping import IntArray
from rocktools.timeline.step_rows import windows_of_rows

BoolArray = npt.NDArray[np.bool_]

WARMUP_ROWS_RATIO = 1.2
"""Times the rows of every later step, for an early step to be warm-up by its autotuning kernels."""

WARMUP_TIME_RATIO = 2.0
"""Times the duration of every later step, for an early step to be warm-up by its duration."""

CLASSED_STEPS_COUNT = 6
"""Fewest steps that can be two classes."""

CLASS_SHARE_RATIO = 0.1
"""Least share of steps in a class; and at least two."""

CLASS_MEDIAN_RATIO = 1.2
"""Least ratio of the classes' medians."""

CLASS_GAP_DEVIATIONS = 3.0
"""Least gap between the classes, in standard deviations of the wider one."""

_FEWEST_KNOWN_RATIO = 0.5
_TWO_STEPS_RATIO = 0.95
_LOST_RATIO = 0.005  # records that a whole step may lack against the others


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedSteps:
    """What is known of each step, in the order of the windows.

    Attributes:
        rows_count: rows that start in it.
        is_complete: whether the trace holds all of it.
        is_warmup: whether it is warm-up; the same on every device of a run.
        step_class: `light`, `heavy`, or None where there is one class.
    """

    rows_count: IntArray
    is_complete: BoolArray
    is_warmup: BoolArray
    step_class: list[str | None]


def judge_steps(
    windows: pd.DataFrame,
    rows: pd.DataFrame,
    compiling: Mapping[str, IntArray],
    host_steps: pd.DataFrame | None = None,
) -> JudgedSteps:
    """Completeness, warm-up and class of each step of one run.

    Args:
        windows: device, step_index, start_ns, end_ns, is_cut; ordered by device, step_index.
        rows: of the device timeline of that run.
        compiling: instants at which each process compiled, ascending.
        host_steps: HOST_STEPS of the run, in whose windows compiling counts; None: in the windows of the devices.
    """
    at = windows_of_rows(rows, windows)
    counts = np.bincount(at[at >= 0], minlength=len(windows)).astype(np.int64)
    steps = windows["step_index"].to_numpy()
    durations = (windows["end_ns"] - windows["start_ns"]).to_numpy()
    warmup = _compiled_in(windows, compiling, host_steps) | _early_excess(steps, counts, durations)
    is_warmup = np.isin(steps, sorted(warmup))
    is_complete = ~windows["is_cut"].to_numpy(dtype=np.bool_)
    for device in windows["device"].unique():
        mine = np.flatnonzero((windows["device"] == device).to_numpy())
        is_complete[mine] &= are_whole(counts[mine], is_warmup[mine])
    chosen = is_complete & ~is_warmup
    return JudgedSteps(
        rows_count=counts,
        is_complete=is_complete,
        is_warmup=is_warmup,
        step_class=_classes(steps, durations, chosen),
    )


def are_whole(counts: IntArray, is_warmup: BoolArray) -> BoolArray:
    """Whether each step of a device, in their order, has as many rows as a whole one; only edges can be cut."""
    whole = np.ones(counts.size, dtype=np.bool_)
    if counts.size < 2:
        return whole
    inner = counts[1:-1][~is_warmup[1:-1]]
    if inner.size:
        fewest = int((1 - _LOST_RATIO) * inner[inner >= _FEWEST_KNOWN_RATIO * np.median(inner)].min())
    else:
        fewest = int(np.ceil(_TWO_STEPS_RATIO * counts[~is_warmup].max(initial=0)))
    for edge in (0, -1):
        whole[edge] = counts[edge] >= fewest
    return whole


def split_classes(durations: IntArray) -> BoolArray | None:
    """Which durations are of the heavy class; None where they are one class.

    Two classes are what divides the sorted logarithms with the least sum of squares, if each has enough members, their
    medians differ, and the gap between them is wide against both.
    """
    count = durations.size
    if count < CLASSED_STEPS_COUNT or int(durations.min()) <= 0:
        return None
    order = np.argsort(durations, kind="stable")
    logs = np.log(durations[order].astype(np.float64))
    spread = [float(logs[:cut].var() * cut + logs[cut:].var() * (count - cut)) for cut in range(1, count)]
    cut = int(np.argmin(spread)) + 1
    light, heavy = logs[:cut], logs[cut:]
    enough = min(light.size, heavy.size) >= max(2, int(np.ceil(CLASS_SHARE_RATIO * count)))
    apart = float(np.median(heavy) - np.median(light)) >= float(np.log(CLASS_MEDIAN_RATIO))
    wide = float(heavy[0] - light[-1]) >= CLASS_GAP_DEVIATIONS * max(float(light.std()), float(heavy.std()))
    if not (enough and apart and wide):
        return None
    is_heavy = np.zeros(count, dtype=np.bool_)
    is_heavy[order[cut:]] = True
    return is_heavy


def _compiled_in(windows: pd.DataFrame, compiling: Mapping[str, IntArray], host_steps: pd.DataFrame | None) -> set[int]:
    """Steps during which a process compiled."""
    warmup: set[int] = set()
    if host_steps is None:
        instants = np.sort(np.concatenate([*compiling.values(), np.zeros(0, np.int64)]))
        spans = zip(windows["step_index"], windows["start_ns"], windows["end_ns"], strict=True)
        return {int(step) for step, start, end in spans if _any_in(instants, start, end)}
    known = dict(
        zip(windows["step_number"].dropna(), windows["step_index"][windows["step_number"].notna()], strict=True)
    )
    columns = ("process", "window_index", "step_number", "start_ns", "end_ns")
    for process, index, number, start, end in zip(*(host_steps[name] for name in columns), strict=True):
        if _any_in(compiling.get(str(process), np.zeros(0, np.int64)), start, end):
            warmup.add(int(index if pd.isna(number) else known.get(number, -1)))
    return warmup


def _any_in(instants: IntArray, start: int, end: int) -> bool:
    return bool(np.searchsorted(instants, end) > np.searchsorted(instants, start))


def _early_excess(steps: IntArray, counts: IntArray, durations: IntArray) -> set[int]:
    """The first steps, as long as each stands out from all later ones on the device where it does least."""
    found: set[int] = set()
    for step in np.unique(steps):
        later, mine = steps > step, steps == step
        # One later step is no measure of what is usual: it may as well be the one that is cut.
        if np.unique(steps[later]).size < 2:
            break
        many = bool((counts[mine] > WARMUP_ROWS_RATIO * counts[later].max()).all())
        slow = bool((durations[mine] > WARMUP_TIME_RATIO * durations[later].max()).all())
        if not (many or slow):
            break
        found.add(int(step))
    return found


def _classes(steps: IntArray, durations: IntArray, is_chosen: BoolArray) -> list[str | None]:
    """The class of each step by its duration on the device where it takes longest."""
    numbers = np.unique(steps[is_chosen])
    longest = np.array([int(durations[is_chosen & (steps == number)].max()) for number in numbers], dtype=np.int64)
    is_heavy = split_classes(longest)
    if is_heavy is None:
        return [None] * steps.size
    of_step = {int(number): "heavy" if heavy else "light" for number, heavy in zip(numbers, is_heavy, strict=True)}
    return [of_step.get(int(step)) if chosen else None for step, chosen in zip(steps, is_chosen, strict=True)]
