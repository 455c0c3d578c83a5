"""How much work an operation, or a bucket of the ledger, does by the compiled program: FLOPs, else bytes.

Both sides must be counted in one unit, and nearly all of the time must be that of operations whose work is known;
otherwise the work is not known, and a difference cannot be told from one in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rocktools.compare.split import Amount
from rocktools.summary.document import Missing, Operation, OperationsBlock, Summary

LEAST_COVERED_RATIO = 0.9

_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOfBuckets:
    """Work of one bucket in a mean step of a mean device, on both sides, in `unit` (FLOP or B)."""

    unit: str
    before: float
    after: float


def amount_of(operation: Operation | None, places: int) -> Amount:
    """One operation in a mean step of a mean device."""
    if operation is None or not places:
        return Amount(time_ns=0.0, executions_count=0.0, work=None)
    work = operation.compute_flop or _bytes_of(operation)
    return Amount(
        time_ns=operation.sum_per_step_ns,
        executions_count=operation.rows_count / places,
        work=None if not work else work * operation.rows_count / places,
    )


def works_of_buckets(before: Summary, after: Summary) -> Mapping[_Key, WorkOfBuckets]:
    """Activity, phase and component -> work; without those whose work is not known on both sides."""
    if isinstance(before.operations, Missing) or isinstance(after.operations, Missing):
        return {}
    found: dict[_Key, WorkOfBuckets] = {}
    times = [_times(summary) for summary in (before, after)]
    for unit in ("FLOP", "B"):
        sides = [
            _works(block, unit, of) for block, of in zip((before.operations, after.operations), times, strict=True)
        ]
        for key in sides[0].keys() & sides[1].keys():
            found.setdefault(key, WorkOfBuckets(unit=unit, before=sides[0][key], after=sides[1][key]))
    return found


def _times(summary: Summary) -> dict[_Key, float]:
    if isinstance(summary.ledger, Missing):
        return {}
    return {
        (bucket.activity, bucket.phase, bucket.component): bucket.sum_per_step_ns for bucket in summary.ledger.buckets
    }


def _works(block: OperationsBlock, unit: str, times: Mapping[_Key, float]) -> dict[_Key, float]:
    """Work of each bucket, where it is known for nearly all of its time."""
    works: defaultdict[_Key, float] = defaultdict(float)
    covered: defaultdict[_Key, float] = defaultdict(float)
    for operation in block.operations:
        work = operation.compute_flop if unit == "FLOP" else _bytes_of(operation)
        if not work or not block.places_count:
            continue
        key = operation.activity, operation.phase, operation.component
        works[key] += work * operation.rows_count / block.places_count
        covered[key] += operation.sum_per_step_ns
    return {key: work for key, work in works.items() if covered[key] >= LEAST_COVERED_RATIO * times.get(key, 0.0) > 0}


def _bytes_of(operation: Operation) -> int | None:
    if operation.read_bytes is not None and operation.written_bytes is not None:
        return operation.read_bytes + operation.written_bytes
    return operation.payload_bytes
