"""What schedule alignment found, as arrays over dispatches -> DISPATCH_EDGES."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from rocktools.correlate.arrays import BoolArray, FloatArray, IntArray
from rocktools.correlate.dispatch_symbols import number_rows
from rocktools.correlate.edges import SHOWN_CANDIDATES, Confidence, Method
from rocktools.correlate.lane_links import AMBIGUOUS, CERTAIN, LIKELY, UNLINKED
from rocktools.correlate.launch_sites import LaunchPlan
from rocktools.frames import DISPATCH_EDGES, nullable_int64, require_frame

CONFIDENCES: Mapping[int, Confidence] = {
    UNLINKED: Confidence.UNLINKED,
    AMBIGUOUS: Confidence.AMBIGUOUS,
    LIKELY: Confidence.LIKELY,
    CERTAIN: Confidence.CERTAIN,
}
_METHODS = (Method.NONE, Method.SCHEDULE, Method.THUNK)


@dataclass(slots=True, kw_only=True, eq=False)
class ScheduleLinks:
    """What was found, by dispatch; filled device by device.

    Attributes:
        program: number of the plan, -1 where it has none.
        site: number of the site within the plan, -1 where it has none.
        label: `UNLINKED` to `CERTAIN`.
        ratio: probability of the instruction; NaN where no model gave one.
        is_own: whether its name and geometry belong to one instruction only.
        execution: -1 where not placed.
        counters: (dispatches, depth) iterations of the enclosing loops; -1 where there is none.
        is_sure: whether both can be relied on.
        candidates: of ambiguous ones: (program, site) and probability, most probable first.
    """

    program: IntArray
    site: IntArray
    label: IntArray
    ratio: FloatArray
    is_own: BoolArray
    execution: IntArray
    counters: IntArray
    is_sure: BoolArray
    candidates: dict[int, tuple[tuple[int, int, float], ...]] = field(default_factory=dict)

    @classmethod
    def empty(cls, count: int, depth: int) -> ScheduleLinks:
        """Nothing found for so many dispatches."""
        return cls(
            program=np.full(count, -1, dtype=np.int64),
            site=np.full(count, -1, dtype=np.int64),
            label=np.full(count, UNLINKED, dtype=np.int64),
            ratio=np.full(count, np.nan),
            is_own=np.zeros(count, dtype=np.bool_),
            execution=np.full(count, -1, dtype=np.int64),
            counters=np.full((count, depth), -1, dtype=np.int64),
            is_sure=np.zeros(count, dtype=np.bool_),
        )

    def demote(self, rows: IntArray) -> None:
        """Let none of these be more than ambiguous; their instruction becomes the candidate."""
        linked = rows[self.label[rows] >= LIKELY]
        self.label[linked] = AMBIGUOUS
        for row in linked.tolist():
            self.candidates[row] = ((int(self.program[row]), int(self.site[row]), float(self.ratio[row])),)


def build_schedule_edges(
    dispatches: pd.DataFrame, links: ScheduleLinks, plans: Sequence[LaunchPlan], device_of: IntArray
) -> pd.DataFrame:
    """DISPATCH_EDGES.

    Args:
        dispatches: DISPATCHES, at least its key.
        links: of the same rows.
        plans: the programs, in the order of their numbers.
        device_of: number of the device of each row; executions are counted on each by itself.
    """
    order = _sorted_order(dispatches)
    is_linked = links.label >= LIKELY
    texts, count = _candidate_texts(links, plans)
    program = np.where(is_linked, links.program, _programs_of_candidates(links))
    instructions = [[site.instruction for site in plan.sites] for plan in plans]
    thunk_ids = [np.array([site.thunk_id for site in plan.sites], dtype=np.int64) for plan in plans]
    offsets = np.concatenate([[0], np.cumsum([len(plan.sites) for plan in plans])]).astype(np.int64)
    number = np.where(is_linked, offsets[np.maximum(links.program, 0)] + links.site, -1)
    thunk_id = np.append(np.concatenate(thunk_ids), -1)[number] if thunk_ids else number
    method = np.where(links.label == UNLINKED, 0, np.where(is_linked & links.is_own, 2, 1))
    execution = _executions(links, device_of)
    labels = [CONFIDENCES[label].value for label in sorted(CONFIDENCES)]
    columns: dict[str, Any] = {
        **{name: _by_label(dispatches[name]) for name in DISPATCH_EDGES.key},
        "program_id": _texts([plan.program_id for plan in plans], program),
        "instruction": _texts([name or None for names in instructions for name in names], number),
        "method": _texts([method.value for method in _METHODS], method),
        "confidence": _texts(labels, links.label),
        "probability_ratio": np.where(links.label == UNLINKED, np.nan, links.ratio),
        "candidates_count": count,
        "candidates": texts,
        "thunk_id": nullable_int64(np.maximum(thunk_id, 0), thunk_id < 0),
        "execution_index": nullable_int64(np.maximum(execution, 0), execution < 0),
        "iterations": _iteration_texts(links),
        "is_iteration_sure": links.is_sure & (links.label != UNLINKED),
    }
    frame = pd.DataFrame(columns)
    if order is not None:
        frame = frame.take(order).reset_index(drop=True)
    return require_frame(frame, DISPATCH_EDGES)


def _sorted_order(dispatches: pd.DataFrame) -> IntArray | None:
    """The order of the contract; None where the rows have it."""
    keys = [_by_label(dispatches[name]) for name in DISPATCH_EDGES.sort]
    codes = [np.asarray(key.codes if isinstance(key, pd.Categorical) else key) for key in keys]
    order = np.lexsort(codes[::-1])
    return None if bool((np.diff(order) == 1).all()) else order.astype(np.int64)


def _by_label(column: pd.Series) -> Any:
    """The column; a category's labels in alphabetical order, in which the contract sorts rows."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column.array
    return column.cat.set_categories(sorted(column.cat.categories)).array


def _texts(values: Sequence[str | None], of: IntArray) -> pd.Categorical:
    """The text of each row's number; missing where that is negative or None."""
    labels = sorted({value for value in values if value is not None})
    codes = {label: code for code, label in enumerate(labels)}
    of_value = np.array([*(-1 if value is None else codes[value] for value in values), -1], dtype=np.int64)
    return pd.Categorical.from_codes(of_value[np.where(of < 0, len(values), of)], categories=labels)


def _programs_of_candidates(links: ScheduleLinks) -> IntArray:
    """The program of an ambiguous dispatch, where all its candidates are of one."""
    program = np.full(links.label.size, -1, dtype=np.int64)
    for row, candidates in links.candidates.items():
        programs = {each[0] for each in candidates}
        if len(programs) == 1:
            program[row] = programs.pop()
    return program


def _candidate_texts(links: ScheduleLinks, plans: Sequence[LaunchPlan]) -> tuple[pd.Categorical, IntArray]:
    count = (links.label >= LIKELY).astype(np.int64)
    codes = np.full(links.label.size, -1, dtype=np.int64)
    numbers: dict[str, int] = {}
    for row, candidates in links.candidates.items():
        is_one_program = len({program for program, _, _ in candidates}) == 1
        names = dict.fromkeys(_candidate_name(plans[program], site, is_one_program) for program, site, _ in candidates)
        count[row] = len(names)
        if names:
            codes[row] = numbers.setdefault(", ".join(list(names)[:SHOWN_CANDIDATES]), len(numbers))
    return _texts(list(numbers), codes), count


def _candidate_name(plan: LaunchPlan, site: int, is_one_program: bool) -> str:
    found = plan.sites[site]
    name = found.instruction or f"thunk {found.thunk_id}"
    return name if is_one_program else f"{plan.program_id}/{name}"


def _executions(links: ScheduleLinks, device_of: IntArray) -> IntArray:
    """Executions of each program on each device, from 0."""
    result = np.full(links.execution.size, -1, dtype=np.int64)
    placed = np.flatnonzero((links.execution >= 0) & (links.label >= LIKELY))
    if placed.size == 0:
        return result
    owner, _ = number_rows([device_of[placed], links.program[placed]])
    span = int(links.execution[placed].max()) + 1
    keys, inverse = np.unique(owner * span + links.execution[placed], return_inverse=True)
    first = np.searchsorted(keys // span, np.arange(int(owner.max()) + 1))
    result[placed] = inverse.reshape(-1) - first[owner]
    return result


def _iteration_texts(links: ScheduleLinks) -> pd.Categorical:
    depth = links.counters.shape[1]
    if depth == 0 or links.label.size == 0:
        return pd.Categorical.from_codes(np.full(links.label.size, -1, dtype=np.int64), categories=[])
    number, first = number_rows([links.counters[:, level] for level in range(depth)])
    texts = ["/".join(str(value) for value in links.counters[row].tolist() if value >= 0) for row in first.tolist()]
    of = np.where(links.label >= LIKELY, number, -1)
    return _texts([text or None for text in texts], of)
