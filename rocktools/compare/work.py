"""How much work an operation, or a bucket of the ledger, does by the compiled program: FLOPs, else bytes.

Both sides must be counted in one unit, and nearly all of the time must be that of operations whose work is known;
otherwise the work is not known, and a difference cannot be told from one in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rocktools.compare.split import Amount
from rocktools.summary.document import Missing, Operation, OperationsBlock, Summary

LEAST_COVERED_RATIO = 0.9

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedWork:
    """Work of one bucket or scope in a mean step of a mean device, on both sides, in `unit` (FLOP or B)."""

    unit: str
    before: float
    after: float


def amounts_of(before: Operation | None, after: Operation | None, places: tuple[int, int]) -> tuple[Amount, Amount]:
    """One operation in a mean step of a mean device, on both sides, with work in one unit."""
    works: tuple[int | None, int | None] = None, None
    if before is not None and after is not None:
        flop, moved = (before.compute_flop, after.compute_flop), (_bytes_of(before), _bytes_of(after))
        works = flop if all(flop) else moved if all(moved) else works
    return _amount(before, works[0], places[0]), _amount(after, works[1], places[1])


def _amount(operation: Operation | None, work: int | None, places: int) -> Amount:
    if operation is None or not places:
        return Amount(time_ns=0.0, executions_count=0.0, work=None)
    return Amount(
        time_ns=operation.sum_per_step_ns,
        executions_count=operation.rows_count / places,
        work=None if not work else work * operation.rows_count / places,
    )


def works_of_buckets(before: Summary, after: Summary) -> Mapping[Key, SharedWork]:
    """Activity, phase and component -> work; without those whose work is not known on both sides."""
    times: list[dict[Key, float]] = [
        {}
        if isinstance(ledger, Missing)
        else {(each.activity, each.phase, each.component): each.sum_per_step_ns for each in ledger.buckets}
        for ledger in (before.ledger, after.ledger)
    ]
    return _shared_works(before, after, times, lambda each: (each.activity, each.phase, each.component))


def works_of_regions(before: Summary, after: Summary) -> Mapping[Key, SharedWork]:
    """Phase and path of a scope -> work; without those whose work is not known on both sides."""
    times: list[dict[Key, float]] = [
        {}
        if isinstance(block, Missing)
        else {(each.phase, *each.path): each.exclusive_per_step_ns for each in block.regions}
        for block in (before.regions, after.regions)
    ]
    return _shared_works(before, after, times, lambda each: (each.phase, *(each.scope or "").split("/")))


def _shared_works(
    before: Summary,
    after: Summary,
    times: Sequence[Mapping[Key, float]],
    key_of: Callable[[Operation], Key],
) -> dict[Key, SharedWork]:
    if isinstance(before.operations, Missing) or isinstance(after.operations, Missing):
        return {}
    found: dict[Key, SharedWork] = {}
    for unit in ("FLOP", "B"):
        blocks = before.operations, after.operations
        sides = [_works(block, unit, of, key_of) for block, of in zip(blocks, times, strict=True)]
        for key in sides[0].keys() & sides[1].keys():
            found.setdefault(key, SharedWork(unit=unit, before=sides[0][key], after=sides[1][key]))
    return found


def _works(
    block: OperationsBlock, unit: str, times: Mapping[Key, float], key_of: Callable[[Operation], Key]
) -> dict[Key, float]:
    """Work by key, where it is known for nearly all of its time."""
    works: defaultdict[Key, float] = defaultdict(float)
    covered: defaultdict[Key, float] = defaultdict(float)
    for operation in block.operations:
        work = operation.compute_flop if unit == "FLOP" else _bytes_of(operation)
        if not work or not block.places_count:
            continue
        key = key_of(operation)
        works[key] += work * operation.rows_count / block.places_count
        covered[key] += operation.sum_per_step_ns
    return {key: work for key, work in works.items() if covered[key] >= LEAST_COVERED_RATIO * times.get(key, 0.0) > 0}


def _bytes_of(operation: Operation) -> int | None:
    if operation.read_bytes is not None and operation.written_bytes is not None:
        return operation.read_bytes + operation.written_bytes
    return operation.payload_bytes


def step_flop(summary: Summary) -> float | None:
    """FLOPs of a mean step of a mean device by the compiler; None where they are not known for nearly all compute."""
    block = summary.operations
    if isinstance(block, Missing) or not block.places_count:
        return None
    compute = [each for each in block.operations if each.activity == "compute"]
    known = [each for each in compute if each.compute_flop is not None]
    if sum(each.sum_ns for each in known) < LEAST_COVERED_RATIO * sum(each.sum_ns for each in compute) or not known:
        return None
    return sum((each.compute_flop or 0) * each.rows_count for each in known) / block.places_count
