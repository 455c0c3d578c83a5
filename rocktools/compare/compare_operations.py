"""Operations and named scopes of two summaries -> what changed in each, and what only one side has."""

from __future__ import annotations

from collections import defaultdict

from rocktools.compare.comparison import OperationDelta, RegionDelta
from rocktools.compare.match import Pair, match_operations
from rocktools.compare.split import Amount, split_difference
from rocktools.compare.work import SharedWork, amounts_of, works_of_regions
from rocktools.summary.document import Missing, Operation, Region, Summary


def compare_operations(before: Summary, after: Summary) -> tuple[OperationDelta, ...]:
    """Every operation of either side, the largest change first."""
    if isinstance(before.operations, Missing) or isinstance(after.operations, Missing):
        return ()
    pairs = match_operations(before.operations.operations, after.operations.operations)
    places = before.operations.places_count, after.operations.places_count
    is_cut = before.operations.rest is not None, after.operations.rest is not None
    deltas = [_operation(pair, places, is_cut) for pair in pairs]
    return tuple(sorted(deltas, key=_size))


def _size(delta: OperationDelta) -> tuple[float, str]:
    known = [abs(each) for each in (delta.delta_ns, delta.after_ns, delta.before_ns) if each is not None]
    return -known[0] if known else 0.0, str(delta.name_after or delta.name_before)


def _operation(pair: Pair, places: tuple[int, int], is_cut: tuple[bool, bool]) -> OperationDelta:
    before, after = pair.before, pair.after
    shown = after or before
    assert shown is not None
    state = "matched" if before and after else _alone(before is None, is_cut)
    # What the other side does not list may be there, only shorter: its time is not known, and not 0.
    is_listed = not state.startswith("not listed")
    times = [_exclusive(each, is_listed=is_listed) for each in (before, after)]
    counts = [
        _executions(each, place, is_listed=is_listed) for each, place in zip((before, after), places, strict=True)
    ]
    delta = None if times[0] is None or times[1] is None else times[1] - times[0]
    amounts = amounts_of(before, after, places)
    return OperationDelta(
        name_before=None if before is None else before.name,
        name_after=None if after is None else after.name,
        state=state,
        matched_by=pair.method,
        activity=shown.activity,
        scope=shown.scope,
        phase=shown.phase,
        component=shown.component,
        before_ns=times[0],
        after_ns=times[1],
        delta_ns=delta,
        delta_ratio=delta / times[0] if delta is not None and times[0] else None,
        before_count=counts[0],
        after_count=counts[1],
        split=split_difference(*amounts) if is_listed else None,
    )


def _alone(is_missing_before: bool, is_cut: tuple[bool, bool]) -> str:
    if is_missing_before:
        return "not listed before" if is_cut[0] else "new"
    return "not listed after" if is_cut[1] else "gone"


def _exclusive(operation: Operation | None, *, is_listed: bool) -> float | None:
    if operation is None:
        return 0.0 if is_listed else None
    return operation.exclusive_per_step_ns


def _executions(operation: Operation | None, places: int, *, is_listed: bool) -> float | None:
    if operation is None:
        return 0.0 if is_listed else None
    return operation.rows_count / places if places else None


def compare_regions(before: Summary, after: Summary, span_ns: float | None) -> tuple[RegionDelta, ...]:
    """Every named scope with time of its own on either side, the largest change first.

    Args:
        span_ns: mean span of a step before; None where it is not known.
    """
    if isinstance(before.regions, Missing) or isinstance(after.regions, Missing):
        return ()
    sides = [{(each.phase, each.path): each for each in block.regions} for block in (before.regions, after.regions)]
    places = [1 if isinstance(each.ledger, Missing) else each.ledger.places_count for each in (before, after)]
    works = works_of_regions(before, after)
    components = _components(before, after)
    deltas = [
        _region(
            (sides[0].get(key), sides[1].get(key)),
            (places[0], places[1]),
            works.get((key[0], *key[1])),
            components.get((key[0], *key[1]), set()),
            span_ns,
        )
        for key in sides[0].keys() | sides[1].keys()
    ]
    with_time = [each for each in deltas if each.before_ns or each.after_ns]
    return tuple(sorted(with_time, key=lambda each: (-abs(each.delta_ns), each.label)))


def _region(
    sides: tuple[Region | None, Region | None],
    places: tuple[int, int],
    work: SharedWork | None,
    components: set[str],
    span_ns: float | None,
) -> RegionDelta:
    shown = sides[1] or sides[0]
    assert shown is not None
    times = [0.0 if each is None else each.exclusive_per_step_ns for each in sides]
    counts = [
        0.0 if each is None else each.rows_count / (place or 1) for each, place in zip(sides, places, strict=True)
    ]
    works = (None, None) if work is None else (work.before, work.after)
    amounts = [
        Amount(time_ns=time, executions_count=count, work=amount)
        for time, count, amount in zip(times, counts, works, strict=True)
    ]
    delta = times[1] - times[0]
    return RegionDelta(
        phase=shown.phase,
        path=shown.path,
        before_ns=times[0],
        after_ns=times[1],
        delta_ns=delta,
        delta_ratio=delta / times[0] if times[0] else None,
        delta_of_step_ratio=delta / span_ns if span_ns else None,
        before_count=counts[0],
        after_count=counts[1],
        work_unit="" if work is None else work.unit,
        split=split_difference(*amounts),
        components=tuple(sorted(components)),
    )


def _components(before: Summary, after: Summary) -> dict[tuple[str, ...], set[str]]:
    """Phase and path -> components of the operations there."""
    found: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for block in (before.operations, after.operations):
        for operation in () if isinstance(block, Missing) else block.operations:
            key = (operation.phase, *(operation.scope or "").split("/"))
            found[key].add(operation.component)
    return found
