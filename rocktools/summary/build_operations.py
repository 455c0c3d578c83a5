"""Measured operations -> families, and the hierarchy of scopes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rocktools.evidence import Evidence
from rocktools.intervals import union_length_by
from rocktools.summary.document import FamiliesBlock, Family, Operation, Region, RegionsBlock
from rocktools.summary.families import FamilyOf, tell_family
from rocktools.summary.gathered import Timed
from rocktools.summary.measured_operations import MeasuredOperations
from rocktools.timeline.activities import Activity
from rocktools.timeline.grouping import codes_of, group_rows
from rocktools.units import NS_PER_S

_FLOP_PER_GFLOP = 1_000_000_000
_ESTIMATED = dict.fromkeys(("compute_flop", "moved_bytes", "flop_per_s", "ns_per_gflop"), Evidence.COMPILER_ESTIMATE)


def family_of(operation: Operation) -> FamilyOf:
    """The kind of work of an operation."""
    return tell_family(
        activity=operation.activity,
        phase=operation.phase,
        component=operation.component,
        opcode=operation.opcode,
        words=(operation.scope, operation.op_name, operation.instruction, *operation.kernel_names),
    )


def build_families(measured: MeasuredOperations) -> FamiliesBlock:
    """All operations by kind of work, the longest in all first."""
    told = [family_of(each) for each in measured.operations]
    names = sorted({each.family for each in told})
    code = {name: place for place, name in enumerate(names)}
    of_operation = np.array([code[each.family] for each in told], dtype=np.int64)
    devices = max(measured.devices_count, 1)
    place = of_operation[measured.of] * devices + measured.device if len(told) else measured.device
    unions = union_length_by(measured.start_ns, measured.end_ns, place, len(names) * devices)
    union_ns = unions.reshape(len(names), devices).sum(axis=1)
    members: dict[str, list[Operation]] = defaultdict(list)
    for operation, family in zip(measured.operations, told, strict=True):
        members[family.family].append(operation)
    total = sum(each.sum_ns for each in measured.operations)
    found = [
        _family(name, members[name], [each for each in told if each.family == name], int(union_ns[code[name]]), total)
        for name in names
    ]
    families = tuple(sorted(found, key=lambda each: (-each.sum_ns, each.family)))
    return FamiliesBlock(evidence=Evidence.MEASURED, evidence_of=_ESTIMATED, families=families)


def _family(name: str, operations: Sequence[Operation], told: Sequence[FamilyOf], union_ns: int, total: int) -> Family:
    """One family; its operations come the longest exclusive time first."""
    by_rule: dict[str, int] = defaultdict(int)
    for operation, family in zip(operations, told, strict=True):
        by_rule[family.rule] += operation.sum_ns
    sum_ns = sum(each.sum_ns for each in operations)
    priced = [each for each in operations if each.executed_flop is not None]
    priced_ns = sum(each.sum_ns for each in priced)
    flop = sum(each.executed_flop or 0 for each in priced) if priced else None
    moved = [each.moved_bytes for each in operations if each.moved_bytes is not None]
    longest = max(operations, key=lambda each: each.sum_ns)
    return Family(
        family=name,
        rule=max(sorted(by_rule), key=lambda rule: by_rule[rule]),
        operations_count=len(operations),
        rows_count=sum(each.rows_count for each in operations),
        sum_ns=sum_ns,
        union_ns=union_ns,
        exclusive_ns=sum(each.exclusive_ns for each in operations),
        share_ratio=sum_ns / total if total else 0.0,
        compute_flop=flop,
        moved_bytes=sum(moved) if moved else None,
        work_covered_ratio=priced_ns / sum_ns if sum_ns else 0.0,
        flop_per_s=flop / priced_ns * NS_PER_S if flop is not None and priced_ns else None,
        ns_per_gflop=priced_ns / (flop / _FLOP_PER_GFLOP) if flop else None,
        example_operation=operations[0].name,
        dominant_shape=longest.shape,
    )


@dataclass(slots=True)
class _Node:
    """Sums of a scope while the hierarchy is built."""

    inclusive_ns: int = 0
    exclusive_ns: int = 0
    communication_ns: int = 0
    rows_count: int = 0
    is_inferred: bool = False


def build_regions(timed: Timed, *, limit: int) -> RegionsBlock:
    """Scopes of every phase, each with what is inside of it; deepest ones are left out first where there are many."""
    rows = timed.rows
    durations = np.maximum((rows["end_ns"] - rows["start_ns"]).to_numpy(dtype=np.int64), 0)
    groups = group_rows([codes_of(rows[name]) for name in ("phase", "scope", "activity")])
    sums, counts = np.zeros(len(groups), dtype=np.int64), np.bincount(groups.of, minlength=len(groups))
    np.add.at(sums, groups.of, durations)
    inferred = np.zeros(len(groups), dtype=np.bool_)
    np.logical_or.at(inferred, groups.of, rows["is_inferred"].to_numpy(dtype=np.bool_))
    nodes: dict[tuple[str, tuple[str, ...]], _Node] = {}
    shown = rows.iloc[groups.example]
    scopes = shown["scope"].astype(object).where(shown["scope"].notna(), "")
    keys = zip(shown["phase"].astype(str), scopes, shown["activity"].astype(str), strict=True)
    for (phase, scope, activity), total, count, is_inferred in zip(
        keys, sums.tolist(), counts.tolist(), inferred.tolist(), strict=True
    ):
        path = tuple(part for part in str(scope).split("/") if part)
        for depth in range(len(path) + 1):
            node = nodes.setdefault((phase, path[:depth]), _Node())
            node.inclusive_ns += total
            node.rows_count += count
            node.is_inferred |= is_inferred
            node.communication_ns += total if activity == Activity.COMMUNICATION.value else 0
            node.exclusive_ns += total if depth == len(path) else 0
    places = timed.places_count or 1
    kept = sorted(nodes, key=lambda key: (len(key[1]), -nodes[key].inclusive_ns, key))[:limit]
    ordered = sorted(kept, key=lambda key: _order(key, nodes))
    return RegionsBlock(
        evidence=Evidence.MEASURED,
        total_sum_ns=int(durations.sum()),
        regions=tuple(_region(key, nodes[key], places) for key in ordered),
        left_out_count=len(nodes) - len(kept),
    )


def _order(
    key: tuple[str, tuple[str, ...]], nodes: dict[tuple[str, tuple[str, ...]], _Node]
) -> tuple[tuple[int, str], ...]:
    """Parents before children, siblings by inclusive time."""
    phase, path = key
    above = [(phase, path[:depth]) for depth in range(len(path) + 1)]
    return tuple((-nodes[each].inclusive_ns, each[1][-1] if each[1] else phase) for each in above)


def _region(key: tuple[str, tuple[str, ...]], node: _Node, places: int) -> Region:
    return Region(
        phase=key[0],
        path=key[1],
        depth_count=len(key[1]),
        rows_count=node.rows_count,
        inclusive_ns=node.inclusive_ns,
        exclusive_ns=node.exclusive_ns,
        inclusive_per_step_ns=node.inclusive_ns / places,
        exclusive_per_step_ns=node.exclusive_ns / places,
        communication_ns=node.communication_ns,
        is_inferred=node.is_inferred,
    )
