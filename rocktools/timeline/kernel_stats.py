"""DISPATCHES and AGENTS -> one row per kernel with its times: the table behind `rocktools kernels`.

Three ways to say how long a kernel took stand side by side, as each answers another question: `total_ns` adds up all
its dispatches, `union_ns` counts every instant of a device once and may be compared with wall time, and the mean,
median and extremes are of single dispatches. A device is a label of AGENTS, so what several processes run on one device
is one union. Nothing here knows steps, HLO or counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.errors import ContractError
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.frames import DISPATCHES, GRID, INSTRUCTIONS, WORKGROUP, Column, FrameSpec, nullable_int64, require_frame
from rocktools.intervals import union_length_by
from rocktools.timeline.devices import index_devices
from rocktools.timeline.dispatch_list import compile_match
from rocktools.timeline.grouping import Groups, IntArray, codes_of, extent_texts, group_rows
from rocktools.units import count_noun

BoolArray = npt.NDArray[np.bool_]


class By(str, Enum):
    """What a kernel's dispatches are split by."""

    KERNEL = "kernel"
    DEVICE = "device"
    STREAM = "stream"
    SHAPE = "shape"
    INSTRUCTION = "instruction"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelStats:
    """The table, and what it is a part of.

    Attributes:
        frame: keeps the contract of `KERNEL_STATS[by]`; the largest total first.
        by: what a kernel's dispatches are split by.
        findings: doubts about the dispatches.
        dispatches_count: all dispatches handed in, also those that `match` leaves out; so are the next four.
        total_ns: their durations added up.
        critical_device: the device that is busy longest; None where there is no dispatch.
        union_ns: time that device was busy, overlaps counted once.
        window_ns: from the first start to the last end on that device.
        matched_count: dispatches that the rows are made of: all of them, or those that `match` lets through.
        matched_ns: their durations added up.
        evidence: of every value.
    """

    frame: pd.DataFrame
    by: By
    findings: tuple[Finding, ...]
    dispatches_count: int
    total_ns: int
    critical_device: str | None
    union_ns: int
    window_ns: int
    matched_count: int
    matched_ns: int
    evidence: Evidence = Evidence.MEASURED

    @property
    def spec(self) -> FrameSpec:
        return KERNEL_STATS[self.by]


_RESOURCES = ("lds_bytes", "scratch_bytes", "vgpr_count", "agpr_count", "sgpr_count")
_SHAPE = (*GRID, *WORKGROUP, *_RESOURCES)

DISPATCH_COLUMNS = (
    *("run", "process", "dispatch_id", "agent_id", "kernel_name", "start_ns", "end_ns", "stream_id"),
    *_SHAPE,
)
"""The columns of DISPATCHES that `kernel_stats` reads."""

_NO_TIME = "every dispatch of the row ends before it starts"


def _shape_columns(missing: str) -> tuple[Column, ...]:
    return (
        Column("grid_workitems", "category", "grid in work-items (not workgroups), as XxYxZ", missing),
        Column("workgroup_workitems", "category", "workgroup in work-items, as XxYxZ", missing),
        *(Column(name, "Int64", DISPATCHES.column(name).meaning, missing) for name in _RESOURCES),
    )


LINK_COLUMNS = ("program_id", "instruction", "phase", "scope", "custom_call_target", "method", "confidence")
"""What `By.INSTRUCTION` needs of each dispatch beside `DISPATCH_COLUMNS`."""

_WEAKEST_LAST = {
    "method": ("annotation", "thunk", "schedule", "name", "none"),
    "confidence": ("certain", "likely", "ambiguous", "unlinked"),
}
_NO_INSTRUCTION = "no instruction is linked"


def _link_columns() -> tuple[Column, ...]:
    return (
        Column("program_id", "category", "program of the instruction", _NO_INSTRUCTION),
        Column("instruction", "category", "HLO instruction that launched it", _NO_INSTRUCTION),
        Column("phase", "category", INSTRUCTIONS.column("phase").meaning, "no instruction, or its path says nothing"),
        Column("scope", "category", INSTRUCTIONS.column("scope").meaning, "no instruction, or it has no op_name"),
        Column("custom_call_target", "category", "what a custom call calls", "no custom call"),
        Column("method", "category", "how the links were found, the weakest way of the row's dispatches"),
        Column("confidence", "category", "how sure they are, the least sure of the row's dispatches"),
    )


def _spec(by: By, splits: Sequence[Column], *, is_of_one_device: bool) -> FrameSpec:
    where = "the row's device" if is_of_one_device else "the device where that is most, never added over devices"
    devices = (
        Column("devices_count", "int64", "devices it ran on"),
        Column("critical_device", "category", "device that `union_ns` is of; the first label of equals"),
    )
    variants = (
        Column("variants_count", "int64", "different combinations of grid, workgroup, LDS, scratch and registers"),
        *_shape_columns("ran in several variants (--by shape lists them), or not recorded"),
    )
    key = ("program_id", "instruction") if by is By.INSTRUCTION else tuple(column.name for column in splits)
    return FrameSpec(
        name="KERNEL_STATS" if by is By.KERNEL else f"KERNEL_STATS_BY_{by.name}",
        meaning=f"One row per kernel{' and ' + by.value if by is not By.KERNEL else ''}, the largest total first.",
        key=("kernel_name", *key),
        sort=("total_ns", "kernel_name", *key),
        columns=(
            Column("kernel_name", "category", "clean kernel name, as in DISPATCHES"),
            *splits,
            Column("dispatches_count", "int64", "dispatches, also those that end before they start"),
            Column("total_ns", "int64", "durations added up, over all devices of the row"),
            Column(
                "share_ratio",
                "float64",
                "`total_ns` over that of all dispatches, also those that --match leaves out",
                "no dispatch took any time",
            ),
            Column("union_ns", "int64", f"time covered, overlaps counted once, on {where}"),
            *(() if is_of_one_device else devices),
            Column("mean_ns", "float64", "mean duration", _NO_TIME),
            Column("median_ns", "float64", "median duration", _NO_TIME),
            Column("min_ns", "Int64", "shortest duration", _NO_TIME),
            Column("max_ns", "Int64", "longest duration", _NO_TIME),
            *(() if by is By.SHAPE else variants),
        ),
    )


_DEVICE = Column("device", "category", "label of the device, as in AGENTS")
_STREAM = Column("stream_id", "Int64", "HIP stream; unique within one process only", "not recorded")

KERNEL_STATS: Mapping[By, FrameSpec] = MappingProxyType(
    {
        By.KERNEL: _spec(By.KERNEL, (), is_of_one_device=False),
        By.DEVICE: _spec(By.DEVICE, (_DEVICE,), is_of_one_device=True),
        By.STREAM: _spec(By.STREAM, (_DEVICE, _STREAM), is_of_one_device=True),
        By.SHAPE: _spec(By.SHAPE, _shape_columns("not recorded"), is_of_one_device=False),
        By.INSTRUCTION: _spec(By.INSTRUCTION, _link_columns(), is_of_one_device=False),
    }
)
"""What the frame of each `By` looks like."""


def kernel_stats(
    dispatches: pd.DataFrame, agents: pd.DataFrame, *, by: By = By.KERNEL, match: str | None = None
) -> KernelStats:
    """Times and shapes of each kernel.

    Dispatches that end before they start are counted, but give no time; a finding says how many there are.

    Args:
        dispatches: DISPATCHES, at least with `DISPATCH_COLUMNS`; by instruction, with `LINK_COLUMNS` beside them.
        agents: AGENTS, at least with the key and `device`.
        by: what a kernel's dispatches are split by.
        match: regular expression searched for in the clean kernel name; None: all kernels.

    Raises:
        UsageError: `match` is not a regular expression.
        ContractError: `dispatches` lacks a column, as counted dispatches do: they have no times to report.
    """
    pattern = None if match is None else compile_match(match)
    needed = (*DISPATCH_COLUMNS, *(LINK_COLUMNS if by is By.INSTRUCTION else ()))
    lacking = [name for name in needed if name not in dispatches.columns]
    if lacking:
        raise ContractError("frame-columns", f"DISPATCHES must have the columns {lacking} for the times of kernels")
    timed = _timed(dispatches, agents)
    findings = [*_negative_durations(dispatches, timed), *_unknown_agents(timed)]
    chosen, chosen_timed = dispatches, timed
    if pattern is not None:
        names = dispatches["kernel_name"].cat
        is_match = np.array([pattern.search(name) is not None for name in names.categories], dtype=np.bool_)
        kept = is_match[names.codes.to_numpy()] if len(is_match) else np.zeros(len(dispatches), dtype=np.bool_)
        chosen, chosen_timed = dispatches.loc[kept, list(needed)], timed.only(kept)
        if not bool(kept.any()):
            findings += nothing_matched(dispatches, pattern.pattern)
    if by is By.STREAM:
        findings += _shared_stream_ids(chosen, chosen_timed)
    device, union_ns, window_ns = _busiest(timed)
    return KernelStats(
        frame=_frame(chosen, chosen_timed, by, total_ns=timed.total_ns),
        by=by,
        findings=tuple(findings),
        dispatches_count=len(dispatches),
        total_ns=timed.total_ns,
        critical_device=device,
        union_ns=union_ns,
        window_ns=window_ns,
        matched_count=len(chosen),
        matched_ns=chosen_timed.total_ns,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Timed:
    """What the arithmetic needs of each dispatch, in the order of the frame.

    Attributes:
        device: index into `labels`, which are ascending.
        has_time: whether the dispatch does not end before it starts.
        unknown: labels made up for agents that AGENTS lacks.
    """

    start_ns: IntArray
    end_ns: IntArray
    device: IntArray
    has_time: BoolArray
    labels: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def total_ns(self) -> int:
        return int((self.end_ns - self.start_ns)[self.has_time].sum())

    def unions(self, groups: IntArray, groups_count: int) -> IntArray:
        """The time each group of dispatches covers."""
        kept = self.has_time
        return union_length_by(self.start_ns[kept], self.end_ns[kept], groups[kept], groups_count)

    def only(self, kept: BoolArray) -> _Timed:
        return _Timed(
            start_ns=self.start_ns[kept],
            end_ns=self.end_ns[kept],
            device=self.device[kept],
            has_time=self.has_time[kept],
            labels=self.labels,
            unknown=self.unknown,
        )


def _timed(dispatches: pd.DataFrame, agents: pd.DataFrame) -> _Timed:
    devices = index_devices(dispatches, agents)
    start_ns, end_ns = dispatches["start_ns"].to_numpy(), dispatches["end_ns"].to_numpy()
    return _Timed(
        start_ns=start_ns,
        end_ns=end_ns,
        device=devices.of,
        has_time=end_ns >= start_ns,
        labels=devices.labels,
        unknown=devices.unknown,
    )


def _busiest(timed: _Timed) -> tuple[str | None, int, int]:
    """The device that is busy longest, its union and its window."""
    if not timed.labels:
        return None, 0, 0
    unions = timed.unions(timed.device, len(timed.labels))
    device = int(np.argmax(unions))
    own = timed.has_time & (timed.device == device)
    window_ns = int(timed.end_ns[own].max() - timed.start_ns[own].min()) if bool(own.any()) else 0
    return timed.labels[device], int(unions[device]), window_ns


def _frame(chosen: pd.DataFrame, timed: _Timed, by: By, *, total_ns: int) -> pd.DataFrame:
    spec = KERNEL_STATS[by]
    if chosen.empty:
        return spec.empty()
    shapes = group_rows([codes_of(chosen[name]) for name in _SHAPE])
    kernel = codes_of(chosen["kernel_name"])
    splits = {
        By.KERNEL: (),
        By.DEVICE: (timed.device,),
        By.STREAM: (timed.device, codes_of(chosen["stream_id"])),
        By.SHAPE: (shapes.of,),
        By.INSTRUCTION: tuple(codes_of(chosen[name]) for name in ("program_id", "instruction") if name in chosen),
    }
    rows = group_rows([kernel, *splits[by]])
    pairs = group_rows([rows.of, shapes.of])
    variants_count = np.bincount(rows.of[pairs.example], minlength=len(rows))
    examples = chosen.iloc[rows.example]
    times = _durations(rows, timed)
    values: dict[str, Any] = {
        "kernel_name": _labels(examples["kernel_name"].tolist()),
        "device": _labels([timed.labels[device] for device in timed.device[rows.example]]),
        "stream_id": examples["stream_id"].array,
        "dispatches_count": np.bincount(rows.of, minlength=len(rows)),
        "share_ratio": times["total_ns"] / total_ns if total_ns else np.full(len(rows), np.nan),
        "variants_count": variants_count,
        **times,
        **_unions(rows, timed),
        **_shape_values(examples, is_one=variants_count == 1),
        **(_link_values(chosen, examples, rows) if by is By.INSTRUCTION else {}),
    }
    frame = pd.DataFrame({name: values[name] for name in spec.names})
    ascending = [name != "total_ns" for name in spec.sort]
    return require_frame(frame.sort_values(list(spec.sort), ascending=ascending, ignore_index=True), spec)


def _durations(rows: Groups, timed: _Timed) -> dict[str, Any]:
    """Total, mean, median and extremes of each row. Integers stay integers: no bincount, whose weights are float64."""
    row = rows.of[timed.has_time]
    durations = (timed.end_ns - timed.start_ns)[timed.has_time]
    order = np.lexsort((durations, row))
    durations, row = durations[order], row[order]
    counts = np.bincount(row, minlength=len(rows))
    has_time = counts > 0
    counts = counts[has_time]
    begins = np.cumsum(counts) - counts

    def spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One value per row that has a time -> one per row."""
        result = np.zeros(len(rows), dtype=values.dtype)
        result[has_time] = values
        return result

    totals = np.add.reduceat(durations, begins) if begins.size else begins
    middles = durations[begins + (counts - 1) // 2] + durations[begins + counts // 2]
    return {
        "total_ns": spread(totals),
        "mean_ns": np.where(has_time, spread(totals / counts), np.nan),
        "median_ns": np.where(has_time, spread(middles / 2), np.nan),
        "min_ns": nullable_int64(spread(durations[begins]), ~has_time),
        "max_ns": nullable_int64(spread(durations[begins + counts - 1]), ~has_time),
    }


def _unions(rows: Groups, timed: _Timed) -> dict[str, Any]:
    """The union of each row on the device where it is largest, that device, and the number of devices."""
    pairs = group_rows([rows.of, timed.device])
    unions = timed.unions(pairs.of, len(pairs))
    row, device = rows.of[pairs.example], timed.device[pairs.example]
    order = np.lexsort((device, -unions, row))
    devices_count = np.bincount(row, minlength=len(rows))
    critical = order[np.cumsum(devices_count) - devices_count]
    return {
        "union_ns": unions[critical],
        "devices_count": devices_count,
        "critical_device": _labels([timed.labels[index] for index in device[critical]]),
    }


def _shape_values(examples: pd.DataFrame, *, is_one: BoolArray) -> dict[str, Any]:
    """Geometry and registers of one dispatch of each row, missing where the row has several variants."""
    shown = {name: examples[name].array.copy() for name in _SHAPE}
    for column in shown.values():
        column[~is_one] = pd.NA
    return {
        "grid_workitems": _labels(extent_texts([shown[name] for name in GRID])),
        "workgroup_workitems": _labels(extent_texts([shown[name] for name in WORKGROUP])),
        **{name: shown[name] for name in _RESOURCES},
    }


def _link_values(chosen: pd.DataFrame, examples: pd.DataFrame, rows: Groups) -> dict[str, Any]:
    """The instruction of each row, and the weakest way in which a dispatch of the row was linked to it."""
    values: dict[str, Any] = {}
    for name in LINK_COLUMNS:
        ranks = _WEAKEST_LAST.get(name)
        if ranks is None:
            values[name] = _labels([None if pd.isna(label) else str(label) for label in examples[name]])
            continue
        rank_of = {label: rank for rank, label in enumerate(ranks)}
        column = chosen[name].cat
        of_category = np.array([rank_of[str(label)] for label in column.categories], dtype=np.int64)
        weakest = np.zeros(len(rows), dtype=np.int64)
        np.maximum.at(weakest, rows.of, of_category[column.codes.to_numpy()])
        values[name] = pd.Categorical.from_codes(weakest, categories=list(ranks))
    return values


def _labels(texts: Sequence[str | None]) -> pd.Categorical:
    """Texts whose categories are in alphabetical order, so that sorting them sorts by the text."""
    return pd.Categorical(texts, categories=sorted({text for text in texts if text is not None}))


def _negative_durations(dispatches: pd.DataFrame, timed: _Timed) -> list[Finding]:
    without = np.flatnonzero(~timed.has_time)
    if without.size == 0:
        return []
    first = dispatches.iloc[int(without[0])]
    return [
        Finding(
            rule="negative-duration",
            severity=Severity.WARNING,
            where=f"DISPATCHES, {first['process']}, dispatch {first['dispatch_id']} is the first",
            message=f"{without.size} of {len(dispatches)} dispatches end before they start; they are counted, but give "
            "no time",
            numbers={"negative_dispatches_count": int(without.size), "dispatches_count": len(dispatches)},
        )
    ]


def _unknown_agents(timed: _Timed) -> list[Finding]:
    if not timed.unknown:
        return []
    return [
        Finding(
            rule="unknown-agent",
            severity=Severity.WARNING,
            where="AGENTS",
            message=f"{count_noun(len(timed.unknown), 'agent')} that ran dispatches are not listed, among them "
            f"{timed.unknown[0]}; each counts as a device of its own",
            numbers={"unknown_agents_count": len(timed.unknown)},
        )
    ]


def nothing_matched(dispatches: pd.DataFrame, match: str) -> list[Finding]:
    """What to say where no kernel of `dispatches` has a match; nothing where there is no dispatch."""
    if dispatches.empty:
        return []
    kernels_count = int(dispatches["kernel_name"].nunique())
    return [
        Finding(
            rule="no-kernel-matched",
            severity=Severity.WARNING,
            where="DISPATCHES",
            message=f"none of {count_noun(kernels_count, 'kernel name')} has a match of the regex {match!r}, which is "
            "case-sensitive",
            numbers={"kernels_count": kernels_count},
            advice="run it without --match to see the names, or begin it with (?i)",
        )
    ]


def _shared_stream_ids(chosen: pd.DataFrame, timed: _Timed) -> list[Finding]:
    if chosen.empty:
        return []
    streams = group_rows([timed.device, codes_of(chosen["stream_id"])])
    owners = group_rows([streams.of, codes_of(chosen["run"]), codes_of(chosen["process"])])
    shared = int((np.bincount(streams.of[owners.example]) > 1).sum())
    if shared == 0:
        return []
    return [
        Finding(
            rule="stream-id-shared",
            severity=Severity.NOTE,
            where="DISPATCHES",
            message=f"{shared} of {len(streams)} streams have a number that several processes use on one device; a row "
            "may hold a stream of each",
            numbers={"shared_streams_count": shared, "streams_count": len(streams)},
        )
    ]
