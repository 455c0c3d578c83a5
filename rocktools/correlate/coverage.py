"""Edges and the rows they are of -> how much is linked, by which method and how surely, and what is not, and why.

Counts and time stand side by side, as the many kernels that a join misses may take no time, or the few all of it. Times
are durations added up: shares of work, not of wall time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.correlate.edges import Confidence, IntArray, Method, find_edges, group_rows
from rocktools.correlate.kernel_families import BLIT_FAMILIES, NAMED_AFTER_INSTRUCTIONS, KernelFamily, family_of
from rocktools.frames import DISPATCH_EDGES, EVENT_EDGES, Column, FrameSpec, nullable_int64, require_frame

_PS_PER_NS = 1000
_NO_TIME = "times of a counter pass are none of the job's"
_TIME = (
    Column("total_ns", "Int64", "durations added up, those that end before they start left out", _NO_TIME),
    Column("time_ratio", "float64", "`total_ns` over that of all rows", f"{_NO_TIME}, or nothing took any time"),
)
_COUNT = Column("dispatches_count", "int64", "dispatches, or events of a JAX profile")

COVERAGE = FrameSpec(
    name="COVERAGE",
    meaning="One row per method and confidence: the dispatches or events that were linked so; strongest method first.",
    key=("method", "confidence"),
    sort=("method", "confidence"),
    columns=(
        *(DISPATCH_EDGES.column(name) for name in ("method", "confidence")),
        _COUNT,
        Column("dispatches_ratio", "float64", "`dispatches_count` over that of all rows"),
        *_TIME,
    ),
)

UNLINKED_KERNELS = FrameSpec(
    name="UNLINKED_KERNELS",
    meaning="One row per kernel and reason of dispatches or events without an instruction, the largest total first.",
    key=("kernel_name", "confidence", "reason"),
    sort=("total_ns", "dispatches_count", "kernel_name", "confidence", "reason"),
    columns=(
        Column("kernel_name", "category", "clean kernel name; name of the event where it ran on a host"),
        Column("confidence", "category", "`ambiguous` or `unlinked`"),
        Column("family", "category", "library it belongs to, by its name; `unknown` where XLA or a user made it"),
        Column("reason", "category", "why there is no instruction"),
        _COUNT,
        *_TIME,
        Column("candidates", "category", "of one of the rows, as in the edges", "no candidate"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coverage:
    """How much is linked.

    Attributes:
        frame: COVERAGE.
        unlinked: UNLINKED_KERNELS, all of them.
        dispatches_count: all dispatches or events.
        linked_count: those that have an instruction: certain or likely.
        total_ns: durations of all added up; None where the rows have no times. So is the next.
        linked_ns: of those that have an instruction.
    """

    frame: pd.DataFrame
    unlinked: pd.DataFrame
    dispatches_count: int
    linked_count: int
    total_ns: int | None
    linked_ns: int | None


def build_coverage(edges: pd.DataFrame, rows: pd.DataFrame) -> Coverage:
    """What the edges cover of their rows.

    Args:
        edges: DISPATCH_EDGES or EVENT_EDGES.
        rows: DISPATCHES, COUNTED_DISPATCHES, DEVICE_EVENTS or HOST_EVENTS that the edges are of; rows without an edge
            are none of theirs and left out.
    """
    key = DISPATCH_EDGES.key if "dispatch_id" in edges.columns else EVENT_EDGES.key
    place = find_edges(edges, rows, key)
    rows, edges = rows[place >= 0].reset_index(drop=True), edges.iloc[place[place >= 0]].reset_index(drop=True)
    durations = _durations_ps(rows)
    has_instruction = edges["instruction"].notna().to_numpy(dtype=np.bool_)
    return Coverage(
        frame=_by_method(edges, durations),
        unlinked=_unlinked(edges, rows, durations),
        dispatches_count=len(rows),
        linked_count=int(has_instruction.sum()),
        total_ns=None if durations is None else int(durations.sum()) // _PS_PER_NS,
        linked_ns=None if durations is None else int(durations[has_instruction].sum()) // _PS_PER_NS,
    )


def _durations_ps(rows: pd.DataFrame) -> IntArray | None:
    """None for rows of a counter pass."""
    if "duration_ps" in rows.columns:
        exact: IntArray = rows["duration_ps"].to_numpy(dtype=np.int64)
        return exact
    if "start_ns" not in rows.columns:
        return None
    durations: IntArray = rows["end_ns"].to_numpy(dtype=np.int64) - rows["start_ns"].to_numpy(dtype=np.int64)
    return np.maximum(durations, 0) * _PS_PER_NS


def _by_method(edges: pd.DataFrame, durations: IntArray | None) -> pd.DataFrame:
    of, example = group_rows([edges["method"], edges["confidence"]])
    counts = np.bincount(of, minlength=example.size)
    frame = pd.DataFrame(
        {
            "method": _ranked(edges["method"].iloc[example], [str(method) for method in Method]),
            "confidence": _ranked(edges["confidence"].iloc[example], [str(confidence) for confidence in Confidence]),
            "dispatches_count": counts,
            "dispatches_ratio": counts / max(len(edges), 1),
            **_times(of, example.size, durations, 0 if durations is None else int(durations.sum())),
        }
    )
    return require_frame(frame.sort_values(list(COVERAGE.sort), ignore_index=True), COVERAGE)


def _ranked(values: pd.Series, ranks: Sequence[str]) -> pd.Categorical:
    return pd.Categorical(values.astype("object").tolist(), categories=ranks)


def _times(of: IntArray, size: int, durations: IntArray | None, whole_ps: int) -> dict[str, object]:
    """The columns `_TIME` of each group; `whole_ps` is what the ratios are over."""
    if durations is None:
        return {
            "total_ns": nullable_int64(np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.bool_)),
            "time_ratio": np.full(size, np.nan),
        }
    # Not a bincount, whose weights are float64: picoseconds of a long trace are beyond its digits.
    totals = np.zeros(size, dtype=np.int64)
    np.add.at(totals, of, durations)
    return {
        "total_ns": nullable_int64(totals // _PS_PER_NS, np.zeros(size, dtype=np.bool_)),
        "time_ratio": totals / whole_ps if whole_ps else np.full(size, np.nan),
    }


def _unlinked(edges: pd.DataFrame, rows: pd.DataFrame, durations: IntArray | None) -> pd.DataFrame:
    is_unlinked = edges["instruction"].isna().to_numpy(dtype=np.bool_)
    names = rows["kernel_name" if "kernel_name" in rows.columns else "event_name"][is_unlinked]
    edges = edges[is_unlinked]
    is_named = pd.Series((edges["method"] == Method.NAME.value).to_numpy(dtype=np.bool_))
    is_single = pd.Series((edges["candidates_count"] == 1).to_numpy(dtype=np.bool_))
    of, example = group_rows([names, edges["confidence"], is_named, is_single])
    kernel_names = [str(name) for name in names.iloc[example]]
    confidences = [str(confidence) for confidence in edges["confidence"].iloc[example]]
    families = [family_of(name) for name in kernel_names]
    own = None if durations is None else durations[is_unlinked]
    frame = pd.DataFrame(
        {
            "kernel_name": _labels(kernel_names),
            "confidence": _labels(confidences),
            "family": _labels([str(family) for family in families]),
            "reason": _labels(
                [
                    _no_candidate(family)
                    if confidence == Confidence.UNLINKED.value
                    else _REASONS[bool(is_named.iloc[row]), bool(is_single.iloc[row])]
                    for family, confidence, row in zip(families, confidences, example.tolist(), strict=True)
                ]
            ),
            "dispatches_count": np.bincount(of, minlength=example.size),
            **_times(of, example.size, own, 0 if durations is None else int(durations.sum())),
            "candidates": _labels(edges["candidates"].iloc[example].astype("object").tolist()),
        }
    )
    ascending = [name not in ("total_ns", "dispatches_count") for name in UNLINKED_KERNELS.sort]
    frame = frame.sort_values(list(UNLINKED_KERNELS.sort), ascending=ascending, ignore_index=True)
    return require_frame(frame, UNLINKED_KERNELS)


_REASONS = {
    (False, False): "several instructions may have launched it",
    (False, True): "its place in the program is not sure enough",
    (True, False): "several instructions have its name, or look as if they shared such a kernel",
    (True, True): "nothing but its name speaks for the instruction",
}
"""Whether only a name speaks for candidates, and whether there is one only -> why an ambiguous row is not linked."""


def _no_candidate(family: KernelFamily) -> str:
    if family is KernelFamily.AUTOTUNING:
        return "XLA's autotuning, before the program runs"
    if family in BLIT_FAMILIES:
        return "copy or fill by the HIP runtime, which any instruction or the host may cause"
    if family in NAMED_AFTER_INSTRUCTIONS:
        return "no instruction of the programs at hand has a kernel of this name"
    return f"kernels of {family} have no HLO name, and the schedule of no program places it"


def _labels(texts: Sequence[str | float | None]) -> pd.Categorical:
    """Texts whose categories are in alphabetical order, so that sorting them sorts by the text."""
    values = [text if isinstance(text, str) else None for text in texts]
    return pd.Categorical(values, categories=sorted({text for text in values if text is not None}))
