"""Booked rows -> every operation with its times, and the table of operations by exclusive time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.devices.device import Level
from rocktools.errors import NothingToRead
from rocktools.evidence import Evidence
from rocktools.intervals import union_length_by
from rocktools.summary.document import Operation, OperationsBlock, RestOfOperations
from rocktools.summary.exclusive import exclusive_lengths
from rocktools.summary.gathered import Timed
from rocktools.summary.rows import plain_value, plain_values
from rocktools.timeline.activities import time_rows
from rocktools.timeline.grouping import Groups, IntArray, codes_of, group_rows, match_rows
from rocktools.workspace.estimated_work import By, estimate_work, row_names

_KERNELS_COUNT = 8
_BUCKET = ("phase", "component", "gradient")
_FACTS = (
    *("fingerprint", "opcode", "fusion_kind", "custom_call_target", "shape", "op_name"),
    *("compute_flop", "read_bytes", "written_bytes", "source_file", "source_line"),
)
ESTIMATED = dict.fromkeys(
    ("compute_flop", "read_bytes", "written_bytes", "payload_bytes", "executed_flop", "moved_bytes"),
    Evidence.COMPILER_ESTIMATE,
)
"""Fields that the compiler tells; everything else about times and counts is measured."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredOperations:
    """All operations of the rows that count.

    Attributes:
        operations: by exclusive time, the longest first.
        start_ns, end_ns, device: of each row that has a time; device is a code below `devices_count`.
        of: position in `operations` of each such row.
        kept: position in the rows of each.
    """

    operations: tuple[Operation, ...]
    start_ns: IntArray
    end_ns: IntArray
    device: IntArray
    devices_count: int
    of: IntArray
    kept: npt.NDArray[np.intp]


def measure_operations(timed: Timed) -> MeasuredOperations:
    """Every operation: an instruction in one class of work; without one, a kernel or a kind of copy."""
    rows = timed.rows
    found = time_rows(rows, ("run", "device"))
    mine = rows.iloc[found.kept].reset_index(drop=True)
    has_instruction = mine["instruction"].notna().to_numpy()
    kernels = np.where(has_instruction, 0, codes_of(mine["name"]))
    key = [codes_of(mine[name]) for name in ("run", "program_id", "instruction", "activity")]
    groups = group_rows([*key, kernels])
    device = group_rows([codes_of(mine[name]) for name in ("run", "device")])
    measures = _measure(found.start_ns, found.end_ns, groups, device)
    order = np.argsort(_tie_free(measures, mine, groups), kind="stable")
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups))
    facts = _facts(timed, mine, groups, found.end_ns - found.start_ns)
    places = timed.places_count or 1
    total, alone = int(measures.sum_ns.sum()), int(measures.exclusive_ns.sum())
    operations = tuple(_operation(facts.iloc[i], measures, int(i), places, total, alone) for i in order)
    return MeasuredOperations(
        operations=operations,
        start_ns=found.start_ns,
        end_ns=found.end_ns,
        device=device.of,
        devices_count=len(device),
        of=rank[groups.of],
        kept=found.kept,
    )


def build_operations_block(measured: MeasuredOperations, *, places_count: int, limit: int) -> OperationsBlock:
    """The longest operations, and what the others add up to."""
    operations, others = measured.operations[:limit], measured.operations[limit:]
    return OperationsBlock(
        places_count=places_count,
        operations_count=len(measured.operations),
        total_sum_ns=sum(each.sum_ns for each in measured.operations),
        total_exclusive_ns=sum(each.exclusive_ns for each in measured.operations),
        evidence=Evidence.MEASURED,
        evidence_of=ESTIMATED,
        operations=operations,
        rest=RestOfOperations(
            operations_count=len(others),
            rows_count=sum(each.rows_count for each in others),
            sum_ns=sum(each.sum_ns for each in others),
            exclusive_ns=sum(each.exclusive_ns for each in others),
        )
        if others
        else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Measures:
    """One number for each operation."""

    sum_ns: IntArray
    union_ns: IntArray
    exclusive_ns: IntArray
    shortest_ns: IntArray
    longest_ns: IntArray
    rows_count: IntArray
    devices_count: IntArray


def _measure(start_ns: IntArray, end_ns: IntArray, groups: Groups, device: Groups) -> _Measures:
    count, devices = len(groups), max(len(device), 1)
    durations = end_ns - start_ns
    sums, alone = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    np.add.at(sums, groups.of, durations)
    np.add.at(alone, groups.of, exclusive_lengths(start_ns, end_ns, device.of))
    shortest = np.full(count, np.iinfo(np.int64).max, dtype=np.int64)
    longest = np.zeros(count, dtype=np.int64)
    np.minimum.at(shortest, groups.of, durations)
    np.maximum.at(longest, groups.of, durations)
    place = groups.of * devices + device.of
    unions = union_length_by(start_ns, end_ns, place, count * devices).reshape(count, devices)
    has_rows = np.bincount(place, minlength=count * devices).reshape(count, devices)
    return _Measures(
        sum_ns=sums,
        union_ns=unions.sum(axis=1),
        exclusive_ns=alone,
        shortest_ns=shortest,
        longest_ns=longest,
        rows_count=has_rows.sum(axis=1).astype(np.int64),
        devices_count=(has_rows > 0).sum(axis=1).astype(np.int64),
    )


def _tie_free(measures: _Measures, rows: pd.DataFrame, groups: Groups) -> IntArray:
    """Position by exclusive time, then sum, then name: the same for the same rows in whatever order."""
    names = rows.iloc[groups.example]
    texts = [
        "\0".join(str(value) for value in each)
        for each in zip(
            *(names[name] for name in ("run", "program_id", "instruction", "name", "activity")), strict=True
        )
    ]
    by_name = np.empty(len(texts), dtype=np.int64)
    by_name[np.argsort(np.array(texts, dtype=object), kind="stable")] = np.arange(len(texts))
    position = np.empty(len(texts), dtype=np.int64)
    position[np.lexsort((by_name, -measures.sum_ns, -measures.exclusive_ns))] = np.arange(len(texts))
    return position


def _facts(timed: Timed, rows: pd.DataFrame, groups: Groups, durations: IntArray) -> pd.DataFrame:
    """What is known of each operation beside its times."""
    shown = rows.iloc[_longest_bucket(rows, groups, durations)].reset_index(drop=True)
    keys = ("program_id", "instruction")
    table = timed.runs.instructions
    at = match_rows(shown[list(keys)], table, keys)
    facts: dict[str, Any] = {
        name: plain_values(shown[name])
        for name in ("run", *keys, "activity", *_BUCKET, "scope", "collective", "payload_bytes")
    }
    for name in _FACTS:
        facts[name] = plain_values(pd.Series(table[name].array.take(at, allow_fill=True)))
    names = rows["name"].iloc[groups.example].astype(object)
    facts["name"] = [
        str(kernel) if instruction is None else instruction
        for kernel, instruction in zip(names, facts["instruction"], strict=True)
    ]
    facts["kernel_names"], facts["kernels_count"] = _kernels(rows, groups, durations)
    facts["executions_count"] = _executions(timed, rows, groups)
    inferred = np.zeros(len(groups), dtype=np.bool_)
    np.logical_or.at(inferred, groups.of, rows["is_inferred"].to_numpy(dtype=np.bool_))
    facts["is_inferred"] = inferred.tolist()
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in facts.items()})


def _longest_bucket(rows: pd.DataFrame, groups: Groups, durations: IntArray) -> IntArray:
    """For each operation a row of the bucket that has most of its time."""
    buckets = group_rows([groups.of, *(codes_of(rows[name]) for name in _BUCKET)])
    sums = np.zeros(len(buckets), dtype=np.int64)
    np.add.at(sums, buckets.of, durations)
    first = np.full(len(buckets), len(rows), dtype=np.int64)
    np.minimum.at(first, buckets.of, np.arange(len(rows)))
    order = np.lexsort((first, -sums, groups.of[buckets.example]))
    owner = groups.of[buckets.example][order]
    chosen: IntArray = first[order[np.unique(owner, return_index=True)[1]]]
    return chosen


def _kernels(rows: pd.DataFrame, groups: Groups, durations: IntArray) -> tuple[list[tuple[str, ...]], list[int]]:
    """The kernels of each operation, the longest in all first, and how many there are."""
    is_dispatch = (rows["kind"] == "dispatch").to_numpy()
    pairs = group_rows([groups.of[is_dispatch], codes_of(rows["name"])[is_dispatch]])
    sums = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(sums, pairs.of, durations[is_dispatch])
    owners = groups.of[is_dispatch][pairs.example]
    names = rows["name"].astype(object).to_numpy()[is_dispatch][pairs.example]
    found: list[list[tuple[int, str]]] = [[] for _ in range(len(groups))]
    for owner, name, total in zip(owners.tolist(), names.tolist(), sums.tolist(), strict=True):
        found[owner].append((-total, str(name)))
    listed = [tuple(name for _, name in sorted(each)[:_KERNELS_COUNT]) for each in found]
    return listed, [len(each) for each in found]


def _executions(timed: Timed, rows: pd.DataFrame, groups: Groups) -> list[int | None]:
    """How often the instruction of each operation ran, where its cost is known."""
    try:
        work, _ = estimate_work(timed.runs, timed.rows, level=Level.HBM, by=By.INSTRUCTION)
    except NothingToRead:
        return [None] * len(groups)
    has_cost = work["compute_flop"].notna() | work["moved_bytes"].notna()
    costly = work[has_cost.to_numpy()].astype({"run": str, "name": str})
    counts = {key: len(each) for key, each in costly.groupby(["run", "name"]).groups.items()}
    is_priced = ((rows["kind"] == "dispatch") & (rows["activity"] == "compute")).to_numpy()
    found: list[int | None] = [None] * len(groups)
    at = np.flatnonzero(is_priced[groups.example])
    priced = rows[is_priced]
    examples = (np.cumsum(is_priced) - 1)[groups.example[at]]
    names = row_names(priced, By.INSTRUCTION).iloc[examples]
    for group, run, name in zip(at.tolist(), priced["run"].iloc[examples], names, strict=True):
        found[group] = counts.get((str(run), str(name)))
    return found


def _operation(facts: pd.Series, measures: _Measures, at: int, places: int, total: int, alone: int) -> Operation:
    known = {name: plain_value(value) for name, value in facts.items() if name != "kernel_names"}
    sum_ns, exclusive_ns = int(measures.sum_ns[at]), int(measures.exclusive_ns[at])
    count, flop = known["executions_count"], known["compute_flop"]
    traffic = None if known["read_bytes"] is None else known["read_bytes"] + (known["written_bytes"] or 0)
    given: dict[str, Any] = {
        **known,
        **{each.name: int(getattr(measures, each.name)[at]) for each in fields(measures)},
        "kernel_names": facts["kernel_names"],
        "sum_per_step_ns": sum_ns / places,
        "exclusive_per_step_ns": exclusive_ns / places,
        "share_ratio": sum_ns / total if total else 0.0,
        "exclusive_share_ratio": exclusive_ns / alone if alone else 0.0,
        "mean_ns": sum_ns / int(measures.rows_count[at]),
        "executed_flop": None if count is None or flop is None else count * flop,
        "moved_bytes": None if count is None or traffic is None else count * traffic,
    }
    return Operation(**given)
