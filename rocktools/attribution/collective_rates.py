"""ATTRIBUTED and programs -> how fast each collective was: payload, group, algorithm and bus bandwidth per device.

Durations are those of the kernels, in which early devices wait for late ones; so the fastest device of a group is
nearest to the transfer itself, and the mean is what it cost. Telling waiting from transfer needs all devices of a group
and is done elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from rocktools.analytic.collectives import bus_factor
from rocktools.errors import RocktoolsError
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.program_summary import collective_kind
from rocktools.hlo.replica_groups import parse_replica_groups
from rocktools.timeline.activities import Activity, labels_column
from rocktools.timeline.grouping import codes_of, group_rows
from rocktools.units import NS_PER_S

_UNKNOWN = "payload, kind or group are unknown"

COLLECTIVE_RATES = FrameSpec(
    name="COLLECTIVE_RATES",
    meaning="One row per collective of a program and device: how often, how long, and how fast by its payload.",
    key=("run", "device", "program_id", "instruction"),
    sort=("run", "program_id", "instruction", "device"),
    columns=(
        Column("run", "category", "label of the run"),
        Column("device", "category", "label of the device, as in AGENTS"),
        Column("program_id", "category", "program of the instruction", "unlinked"),
        Column("instruction", "category", "HLO instruction", "unlinked"),
        Column("collective", "category", "all-gather, all-reduce, ...", "unlinked: kernels of all kinds have one name"),
        Column("phase", "category", "as in ATTRIBUTED"),
        Column("group_count", "Int64", "devices that take part together", "unknown, or groups of several sizes"),
        Column("payload_bytes", "Int64", "the larger of what the device puts in and gets out", "unknown"),
        Column("rows_count", "int64", "executions"),
        Column("sum_ns", "int64", "durations added up"),
        Column("shortest_ns", "int64", "of the shortest execution"),
        Column("algorithm_bytes_per_s", "float64", "payload over mean duration", _UNKNOWN),
        Column("bus_bytes_per_s", "float64", "the same times the factor of kind and group", _UNKNOWN),
        Column("best_bus_bytes_per_s", "float64", "bus bandwidth of the shortest execution", _UNKNOWN),
    ),
)


def measure_collectives(rows: pd.DataFrame, programs: Mapping[str, HloModule]) -> pd.DataFrame:
    """COLLECTIVE_RATES.

    Args:
        rows: ATTRIBUTED; what is no communication is left out.
        programs: program id -> program, for the groups.
    """
    mine = rows[(rows["activity"] == Activity.COMMUNICATION.value).to_numpy()].reset_index(drop=True)
    names = ("run", "device", "program_id", "instruction", "collective", "phase", "payload_bytes")
    groups = group_rows([codes_of(mine[name]) for name in names])
    durations = np.maximum((mine["end_ns"] - mine["start_ns"]).to_numpy(dtype=np.int64), 0)
    count = len(groups)
    sums, shortest = np.zeros(count, dtype=np.int64), np.full(count, np.iinfo(np.int64).max)
    np.add.at(sums, groups.of, durations)
    np.minimum.at(shortest, groups.of, durations)
    counts = np.bincount(groups.of, minlength=count).astype(np.int64)
    shown = mine.iloc[groups.example]
    sizes = {program_id: group_sizes(module) for program_id, module in programs.items()}
    facts = [_facts(sizes, *values) for values in zip(*(shown[name] for name in names[2:]), strict=True)]
    group, payload = [fact[0] for fact in facts], [fact[1] for fact in facts]
    factors = np.array([np.nan if fact[2] is None else fact[2] for fact in facts], dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        paid = np.array([np.nan if each is None else each for each in payload], dtype=np.float64) * NS_PER_S
        algorithm = np.where(sums > 0, paid * counts / sums, np.nan)
        best = np.where(shortest > 0, paid / shortest, np.nan)
    frame = pd.DataFrame(
        {
            **{name: labels_column(shown[name]) for name in names[:-1]},
            "group_count": _integers(group),
            "payload_bytes": _integers(payload),
            "rows_count": counts,
            "sum_ns": sums,
            "shortest_ns": shortest,
            "algorithm_bytes_per_s": algorithm,
            "bus_bytes_per_s": algorithm * factors,
            "best_bus_bytes_per_s": best * factors,
        }
    )
    frame = frame.sort_values(list(COLLECTIVE_RATES.sort), ignore_index=True)
    return require_frame(frame, COLLECTIVE_RATES)


def group_sizes(module: HloModule) -> dict[str, int]:
    """Collective -> devices that take part together; groups of several sizes, or unreadable ones, are left out."""
    found = {}
    for instruction in module.instructions.values():
        if not collective_kind(module, instruction):
            continue
        size = _group_size(module, _wrapped(module, instruction))
        if size is not None:
            found[instruction.name] = size
    return found


def find_replica_groups(module: HloModule) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Collective -> its groups of participants; those of one group for all, and unreadable ones, are left out."""
    found = {}
    for instruction in module.instructions.values():
        if not collective_kind(module, instruction):
            continue
        text = _wrapped(module, instruction).attributes.get("replica_groups", "")
        try:
            groups = tuple(tuple(group) for group in parse_replica_groups(text)) if text else ()
        except (RocktoolsError, ValueError):
            continue
        if len(groups) > 1:
            found[instruction.name] = groups
    return found


def _wrapped(module: HloModule, instruction: Instruction) -> Instruction:
    """The collective that an asynchronous start wraps; any other instruction itself."""
    if instruction.opcode == "async-start" and instruction.called:
        computation = module.computations.get(instruction.called[0])
        if computation is not None and computation.root is not None:
            return computation.root
    return instruction


def _group_size(module: HloModule, instruction: Instruction) -> int | None:
    text = instruction.attributes.get("replica_groups", "")
    try:
        groups = parse_replica_groups(text) if text else ()
    except (RocktoolsError, ValueError):
        return None
    sizes = {len(group) for group in groups} - {0}
    if not sizes and instruction.opcode.startswith("collective-permute"):
        return None  # pairs of a source and a target: its bandwidth needs no group
    if not sizes:  # one group of everybody
        counts = (int(module.attributes.get(name, "1")) for name in ("num_partitions", "replica_count"))
        sizes = {max(counts)}
    return sizes.pop() if len(sizes) == 1 else None


def _facts(
    sizes: Mapping[str, Mapping[str, int]], program_id: Any, instruction: Any, kind: Any, _: Any, payload: Any
) -> tuple[int | None, int | None, float | None]:
    """Group, payload, and the factor of the bus bandwidth; None for what is unknown."""
    group = None if pd.isna(instruction) else sizes.get(str(program_id), {}).get(str(instruction))
    factor = None if pd.isna(kind) else bus_factor(str(kind), group or 1)
    if group is None and factor != 1:  # 1: a permutation or broadcast, whatever the group
        factor = None
    return group, None if pd.isna(payload) else int(payload), None if factor is None else float(factor)


def _integers(values: list[int | None]) -> pd.api.extensions.ExtensionArray:
    is_missing = np.array([value is None for value in values], dtype=np.bool_)
    return nullable_int64(np.array([value or 0 for value in values], dtype=np.int64), is_missing)
