"""Two summaries -> what changed in steps, shares, buckets, operations and kinds of work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rocktools.compare.compare_operations import compare_operations, compare_regions
from rocktools.compare.comparison import (
    SCHEMA,
    BucketDelta,
    ClassDelta,
    Comparison,
    FamilyDelta,
    ShareDelta,
)
from rocktools.compare.parity import Gate, Parity, check_parity
from rocktools.compare.significance import (
    SIGNIFICANT_RATIO,
    Difference,
    Verdict,
    compare_series,
    hold_holm,
    least_probability,
)
from rocktools.compare.split import Amount, split_difference
from rocktools.compare.work import Key, SharedWork, step_flop, works_of_buckets
from rocktools.summary.document import LedgerBucket, Missing, OverlapMeans, Statistics, Steps, Summary
from rocktools.units import format_si

MATERIAL_RATIO = 0.005
"""Buckets with less of the span than this on both sides are shown, and not judged."""

_OTHER_WORK_RATIO = 0.01
_SHARES = (
    *("busy", "compute", "communication", "hidden_communication", "exposed_communication"),
    *("exposed_copy", "idle"),
)


def compare_summaries(
    before: Summary, after: Summary, *, allowed: Collection[str] = (), is_strict: bool = False
) -> Comparison:
    """Everything that can be said of two runs; where they may not be compared, only why.

    Args:
        allowed, is_strict: as `check_parity` takes them.
    """
    parity = check_parity(before, after, allowed=allowed, is_strict=is_strict)
    if parity.gate is Gate.CLOSED:
        return _of_parity(before, after, parity)
    basis, steps, tails = _steps(before, after)
    reasons = [
        f"{name} of {side}: {block.reason}"
        for name in ("steps", "ledger", "overlap", "operations", "families")
        for side, summary in (("before", before), ("after", after))
        if isinstance(block := getattr(summary, name), Missing)
    ]
    reasons += _other_work(before, after)
    span = before.overlap.mean.span_ns if not isinstance(before.overlap, Missing) else None
    return replace(
        _of_parity(before, after, parity),
        basis=basis,
        steps=steps,
        p90_before_ns=tails[0],
        p90_after_ns=tails[1],
        classes=_classes(before.steps, after.steps),
        shares=_shares(before, after),
        buckets=_buckets(before, after, span),
        operations=compare_operations(before, after),
        regions=compare_regions(before, after, span),
        families=_families(before, after),
        reasons=tuple(reasons),
    )


def _of_parity(before: Summary, after: Summary, parity: Parity) -> Comparison:
    return Comparison(
        schema=SCHEMA,
        before=before.title,
        after=after.title,
        is_simulated=before.is_simulated or after.is_simulated,
        parity=parity,
        basis="",
        steps=None,
        p90_before_ns=None,
        p90_after_ns=None,
        classes=(),
        shares=(),
        buckets=(),
        operations=(),
        regions=(),
        families=(),
        reasons=(),
    )


def _other_work(before: Summary, after: Summary) -> list[str]:
    """Whether the compiled programs calculate as much: what a changed batch looks like where no settings are known."""
    flop = [step_flop(summary) for summary in (before, after)]
    if flop[0] is None or flop[1] is None or not flop[0] or abs(flop[1] / flop[0] - 1) < _OTHER_WORK_RATIO:
        return []
    return [
        f"the compiled programs do not calculate alike: {format_si(flop[0], 'FLOP')} a step before, "
        f"{format_si(flop[1], 'FLOP')} after; is it the same batch?"
    ]


def _steps(before: Summary, after: Summary) -> tuple[str, Difference | None, tuple[float | None, float | None]]:
    """Steps of logs where both have one, else of the traces; the 90th percentiles beside them."""
    logs = (before.step_log, after.step_log)
    if not any(isinstance(log, Missing) for log in logs):
        series = [_logged(summary) for summary in (before, after)]
        if all(series):
            tails = tuple(_tail(None if isinstance(log, Missing) else log.statistics) for log in logs)
            return "unprofiled", compare_series(*series), (tails[0], tails[1])
    found = [_counted(summary.steps) for summary in (before, after)]
    tails = tuple(
        _tail(None if isinstance(steps, Missing) else steps.statistics) for steps in (before.steps, after.steps)
    )
    return "profiled", compare_series(*found), (tails[0], tails[1])


def _tail(statistics: Statistics | None) -> float | None:
    return None if statistics is None else statistics.p90_ns


def _logged(summary: Summary) -> list[float]:
    if isinstance(summary.step_log, Missing):
        return []
    return [float(step.duration_ns) for step in summary.step_log.steps if step.exclusion is None]


def _counted(steps: Steps | Missing, step_class: str | None = None) -> list[float]:
    if isinstance(steps, Missing):
        return []
    return [
        float(step.duration_ns)
        for step in steps.series
        if step.is_counted and (step_class is None or step.step_class == step_class)
    ]


def _classes(before: Steps | Missing, after: Steps | Missing) -> tuple[ClassDelta, ...]:
    names = {
        found.name
        for steps in (before, after)
        if not isinstance(steps, Missing) and len(steps.classes) > 1
        for found in steps.classes
    }
    deltas = []
    for name in sorted(names):
        one, other = _counted(before, name), _counted(after, name)
        deltas.append(
            ClassDelta(name=name, before_count=len(one), after_count=len(other), difference=compare_series(one, other))
        )
    return tuple(deltas)


def _shares(before: Summary, after: Summary) -> tuple[ShareDelta, ...]:
    if isinstance(before.overlap, Missing) or isinstance(after.overlap, Missing):
        return ()
    one, other = before.overlap.mean, after.overlap.mean
    deltas = [_share(name, one, other) for name in _SHARES] if one.span_ns > 0 and other.span_ns > 0 else []
    return tuple(sorted(deltas, key=lambda each: -abs(each.delta_ratio)))


def _share(name: str, before: OverlapMeans, after: OverlapMeans) -> ShareDelta:
    one, other = getattr(before, f"{name}_ns"), getattr(after, f"{name}_ns")
    shares = one / before.span_ns, other / after.span_ns
    return ShareDelta(
        name=name,
        before_ns=one,
        after_ns=other,
        before_ratio=shares[0],
        after_ratio=shares[1],
        delta_ratio=shares[1] - shares[0],
    )


def _buckets(before: Summary, after: Summary, span_ns: float | None) -> tuple[BucketDelta, ...]:
    if isinstance(before.ledger, Missing) or isinstance(after.ledger, Missing):
        return ()
    sides = [{_key(bucket): bucket for bucket in ledger.buckets} for ledger in (before.ledger, after.ledger)]
    places = before.ledger.places_count, after.ledger.places_count
    works = works_of_buckets(before, after)
    deltas = [
        _bucket(key, sides[0].get(key), sides[1].get(key), places, works, span_ns)
        for key in sorted(sides[0].keys() | sides[1].keys())
    ]
    judged = _judged(deltas, span_ns)
    return tuple(sorted(judged, key=lambda each: (-abs(each.delta_ns), each.label)))


def _key(bucket: LedgerBucket) -> tuple[str, str, str]:
    return bucket.activity, bucket.phase, bucket.component


def _bucket(
    key: tuple[str, str, str],
    before: LedgerBucket | None,
    after: LedgerBucket | None,
    places: tuple[int, int],
    works: Mapping[Key, SharedWork],
    span_ns: float | None,
) -> BucketDelta:
    times = [0.0 if bucket is None else bucket.sum_per_step_ns for bucket in (before, after)]
    counts = [
        0.0 if bucket is None or not place else bucket.rows_count / place
        for bucket, place in zip((before, after), places, strict=True)
    ]
    work = works.get(key)
    amounts = [
        Amount(time_ns=time, executions_count=count, work=None if work is None else side)
        for time, count, side in zip(
            times, counts, (None, None) if work is None else (work.before, work.after), strict=True
        )
    ]
    delta = times[1] - times[0]
    series = [() if bucket is None else bucket.series_ns for bucket in (before, after)]
    return BucketDelta(
        activity=key[0],
        phase=key[1],
        component=key[2],
        before_ns=times[0],
        after_ns=times[1],
        delta_ns=delta,
        delta_ratio=delta / times[0] if times[0] else None,
        delta_of_step_ratio=delta / span_ns if span_ns else None,
        before_count=counts[0],
        after_count=counts[1],
        work_unit="" if work is None else work.unit,
        split=split_difference(*amounts),
        difference=compare_series(*series),
        probability=None,
        verdict=Verdict.CANNOT_SAY,
    )


def _judged(deltas: Sequence[BucketDelta], span_ns: float | None) -> list[BucketDelta]:
    """With verdicts: each bucket that matters is asked, and the probability of each pays for all that were asked."""
    asked = [_is_asked(each, span_ns) for each in deltas]
    probabilities = [
        None if each.difference is None or not is_asked else each.difference.probability
        for each, is_asked in zip(deltas, asked, strict=True)
    ]
    questions = sum(each is not None for each in probabilities)
    return [
        replace(each, probability=probability, verdict=_verdict(each.difference, probability, questions))
        for each, probability in zip(deltas, hold_holm(probabilities), strict=True)
    ]


def _is_asked(delta: BucketDelta, span_ns: float | None) -> bool:
    return span_ns is None or max(delta.before_ns, delta.after_ns) >= MATERIAL_RATIO * span_ns


def _verdict(difference: Difference | None, probability: float | None, questions: int) -> Verdict:
    if difference is None or probability is None:
        return Verdict.CANNOT_SAY
    if probability < SIGNIFICANT_RATIO:
        return Verdict.SLOWER if difference.delta_ns > 0 else Verdict.FASTER
    least = least_probability(difference.before_count, difference.after_count)
    # So few steps that even the clearest difference of one bucket among so many could be chance.
    return Verdict.CANNOT_SAY if least * questions >= SIGNIFICANT_RATIO else Verdict.NOT_SIGNIFICANT


def _families(before: Summary, after: Summary) -> tuple[FamilyDelta, ...]:
    if isinstance(before.families, Missing) or isinstance(after.families, Missing):
        return ()
    if isinstance(before.operations, Missing) or isinstance(after.operations, Missing):
        return ()
    places = before.operations.places_count or 1, after.operations.places_count or 1
    sides = [{family.family: family for family in block.families} for block in (before.families, after.families)]
    deltas = []
    for name in sorted(sides[0].keys() | sides[1].keys()):
        found = [side.get(name) for side in sides]
        times = [None if each is None else each.exclusive_ns / place for each, place in zip(found, places, strict=True)]
        works = [
            None if each is None or each.compute_flop is None else each.compute_flop / place
            for each, place in zip(found, places, strict=True)
        ]
        time, work = _ratio(times), _ratio(works)
        deltas.append(
            FamilyDelta(
                family=name,
                before_ns=times[0],
                after_ns=times[1],
                time_ratio=time,
                work_ratio=work,
                efficiency_ratio=None if time is None or work is None or not time else work / time,
            )
        )
    return tuple(sorted(deltas, key=lambda each: -abs((each.after_ns or 0.0) - (each.before_ns or 0.0))))


def _ratio(values: Sequence[float | None]) -> float | None:
    before, after = values
    return None if before is None or after is None or before <= 0 else after / before
