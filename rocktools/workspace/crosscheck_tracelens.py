"""Sheets of TraceLens and the events that they were made of -> figure by figure, theirs and ours.

Its timeline is of the whole capture, without steps, and so is ours here. It sorts events into computation,
communication and copies by their names; ours go by kind of event and by HLO instruction. Both say how long each class
ran (unions), and what of it nothing else covers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.intervals import mask_lengths_by
from rocktools.sources.tracelens_tables import TraceLensTables
from rocktools.timeline.activities import ACTIVITIES, Activity
from rocktools.workspace.crosscheck_events import ProfileEvents
from rocktools.workspace.crosscheck_rows import CheckedFigure, Figure, RowChecker, is_close

_TOOL = "tracelens"
_NS_PER_MS = 1e6
_PRINTED_NS = 1.0  # times go through float microseconds
_COPIES = ("copy", "memcpy", "memset")
_COMMUNICATION = "nccl"
_CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "GEMM": ("Cijk", "gemm", "nvjet", "cublasLt"),
    "FA BWD": ("FmhaBwd",),
    "FA FWD": ("FmhaFwd",),
    "FA V3": ("kernel_func",),
    "Conv": ("FillBuffer",),
    "TE": ("transformer_engine",),
    "Communication": (_COMMUNICATION,),
}
"""Category -> substrings of names; the first that fits counts."""

Timeline = dict[str, float]


def check_tracelens(tables: TraceLensTables, events: ProfileEvents, booked: pd.DataFrame) -> list[CheckedFigure]:
    """Every figure that both sides have.

    Args:
        booked: ATTRIBUTED of the whole capture.
    """
    found: list[CheckedFigure] = []
    ours = _timelines(booked, [str(each) for each in booked["activity"]])
    named = _timelines(events.frame, [_class_of(str(name)) for name in events.frame["raw_kernel_name"]])
    for sheet, rows in tables.sheets.items():
        if sheet in ("gpu_timeline", "gpu_events_averages"):
            _check_timeline(sheet, rows, ours, named, found)
        elif sheet == "kernel_launchers_summary":
            _check_kernels(sheet, rows, events, found)
        else:
            _check_categories(sheet, rows, events, found)
    return found


def _check_timeline(
    sheet: str,
    rows: Sequence[Mapping[str, str]],
    ours: Sequence[Timeline],
    named: Sequence[Timeline],
    found: list[CheckedFigure],
) -> None:
    for index, row in enumerate(rows):
        name = row["type"]
        check = RowChecker(_TOOL, sheet, index, name, found)
        if not ours or name not in ours[0]:
            check.add("row", "listed", None)
            continue
        theirs = float(row["time ms"]) * _NS_PER_MS
        by_name: Figure = _mean(named, name)
        if named and is_close(theirs, named[0][name], at_most=_PRINTED_NS):
            by_name = named[0][name]
        explanations = {"first-device-only": ours[0][name], "classes-by-name": by_name}
        check.add("time_ns", theirs, _mean(ours, name), at_most=_PRINTED_NS, explanations=explanations)


def _check_kernels(
    sheet: str, rows: Sequence[Mapping[str, str]], events: ProfileEvents, found: list[CheckedFigure]
) -> None:
    every, annotated = _by_name(_kernels(events.frame)), _by_name(_kernels(events.annotated))
    all_ns = sum(time for time, _ in every.values())
    listed_ns = sum(float(row["total_direct_kernel_time_ms"]) for row in rows) * _NS_PER_MS
    for index, row in enumerate(rows):
        name = row["name"].removesuffix(" [clone .kd]").removesuffix(".kd")
        check = RowChecker(_TOOL, sheet, index, name, found)
        if name not in every:
            check.add("row", "listed", None)
            continue
        theirs_ns = float(row["total_direct_kernel_time_ms"]) * _NS_PER_MS
        time_ns, count = every.pop(name)
        some_ns, some_count = annotated.get(name, (0.0, 0))
        check.add("occurrences_count", float(row["Count"]), float(count), explanations={"annotated-only": some_count})
        check.add("total_ns", theirs_ns, time_ns, at_most=_PRINTED_NS, explanations={"annotated-only": some_ns})
        if row.get("Percentage (%)"):
            shares = {"share-of-listed": theirs_ns / listed_ns if listed_ns else None}
            check.add("share_ratio", float(row["Percentage (%)"]) / 100, time_ns / all_ns, explanations=shares)
    for place, name in enumerate(every):
        check = RowChecker(_TOOL, sheet, len(rows) + place, name, found)
        check.add("row", None, "listed", explanations={} if name in annotated else {"annotated-only": None})


def _check_categories(
    sheet: str, rows: Sequence[Mapping[str, str]], events: ProfileEvents, found: list[CheckedFigure]
) -> None:
    sums = [_by_category(_by_name(_kernels(frame))) for frame in (events.frame, events.annotated)]
    for index, row in enumerate(rows):
        category = row["op category"]
        key = category if category in _CATEGORIES else ""
        theirs = (float(row["total_direct_kernel_time_ms"]) * _NS_PER_MS, float(row["Count"]))
        check = RowChecker(_TOOL, sheet, index, category, found)
        for place, quantity in enumerate(("total_ns", "occurrences_count")):
            expected = [side.get(key, (0.0, 0))[place] for side in sums]
            close = [value for value in expected if is_close(theirs[place], float(value), at_most=_PRINTED_NS)]
            explanations: dict[str, Figure] = {"categories-by-substring": float(close[0])} if close else {}
            check.add(quantity, theirs[place], None, at_most=_PRINTED_NS, explanations=explanations)


def _kernels(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[(frame["kind"] == "kernel").to_numpy()]


def _by_name(frame: pd.DataFrame) -> dict[str, tuple[float, int]]:
    """Kernel -> nanoseconds and executions, over all devices."""
    groups = frame.groupby(frame["kernel_name"].astype(object), sort=True)["duration_ps"].agg(["sum", "count"])
    return {str(name): (int(row["sum"]) / 1000, int(row["count"])) for name, row in groups.iterrows()}


def _by_category(kernels: Mapping[str, tuple[float, int]]) -> dict[str, tuple[float, int]]:
    sums: dict[str, tuple[float, int]] = {}
    for name, (time_ns, count) in kernels.items():
        category = next((one for one, parts in _CATEGORIES.items() if any(part in name for part in parts)), "")
        before = sums.get(category, (0.0, 0))
        sums[category] = (before[0] + time_ns, before[1] + count)
    return sums


def _class_of(name: str) -> str:
    """The class of an event by its name alone, as TraceLens has it."""
    if name.lower().startswith(_COPIES):
        return Activity.COPY.value
    return Activity.COMMUNICATION.value if name.startswith(_COMMUNICATION) else Activity.COMPUTE.value


def _timelines(rows: pd.DataFrame, classes: Iterable[str]) -> list[Timeline]:
    """How long each class ran on each device, in the order of the devices' numbers."""
    labels = np.array([[each.value for each in ACTIVITIES].index(name) for name in classes], dtype=np.int64)
    start, end = rows["start_ns"].to_numpy(dtype=np.int64), rows["end_ns"].to_numpy(dtype=np.int64)
    keep = end >= start
    owners = rows["device"].astype(str)
    devices = sorted(owners.unique(), key=lambda name: (len(name), name))
    codes = owners.map({name: code for code, name in enumerate(devices)}).to_numpy(dtype=np.int64)
    lengths = mask_lengths_by(
        start[keep], end[keep], labels[keep], codes[keep], labels_count=len(ACTIVITIES), groups_count=len(devices)
    )
    spans = [int(end[codes == code].max() - start[codes == code].min()) for code in range(len(devices))]
    return [_timeline(row, span) for row, span in zip(lengths, spans, strict=True)]


def _timeline(lengths: npt.NDArray[np.int64], span_ns: int) -> Timeline:
    """Rows of the sheet from how long each set of classes was active; bits in the order of ACTIVITIES."""
    compute, communication, copy = (1 << place for place in range(3))

    def active(all_of: int, none_of: int = 0) -> float:
        return float(sum(int(t) for mask, t in enumerate(lengths) if mask & all_of == all_of and not mask & none_of))

    busy = active(0)
    return {
        "computation_time": active(compute),
        "exposed_comm_time": active(communication, compute),
        "exposed_memcpy_time": active(copy, compute | communication),
        "busy_time": busy,
        "idle_time": span_ns - busy,
        "total_time": float(span_ns),
        "total_comm_time": active(communication),
        "total_memcpy_time": active(copy),
    }


def _mean(timelines: Sequence[Timeline], name: str) -> float | None:
    return sum(each[name] for each in timelines) / len(timelines) if timelines else None
