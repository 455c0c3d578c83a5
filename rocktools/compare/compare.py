"""Two summaries -> what changed in steps, shares, buckets, operations and kinds of work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

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
    LEAST_SAMPLES,
    SIGNIFICANT_RATIO,
    Verdict,
    compare_series,
    compare_tails,
    joint_probabilities,
    least_probability,
)
from rocktools.compare.split import Amount, split_difference
from rocktools.compare.verdict import describe_comparison
from rocktools.compare.work import LEAST_COVERED_RATIO, Key, SharedWork, step_flop, works_of_buckets
from rocktools.summary.document import LedgerBucket, Missing, Steps, Summary
from rocktools.units import count_noun, format_duration, format_si

MATERIAL_RATIO = 0.001
"""Buckets with less of the span than this on both sides are shown, and not judged."""

_OTHER_WORK_RATIO = 0.01
_BLOCKS = ("steps", "ledger", "overlap", "operations", "regions", "families")
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
    compared = _of_parity(before, after, parity)
    if parity.gate is not Gate.CLOSED:
        compared = _compared(compared, before, after)
    return replace(compared, verdict=describe_comparison(compared))


def _compared(compared: Comparison, before: Summary, after: Summary) -> Comparison:
    basis, series = _step_series(before, after)
    reasons = [
        f"{name} of {side}: {block.reason}"
        for name in _BLOCKS
        for side, summary in (("before", before), ("after", after))
        if isinstance(block := getattr(summary, name), Missing)
    ]
    reasons += [*_other_work(before, after), *_other_programs(before, after)]
    span = before.overlap.mean.span_ns if not isinstance(before.overlap, Missing) else None
    return replace(
        compared,
        basis=basis,
        steps=compare_series(*series),
        tail=compare_tails(*series),
        between=compare_series(_between_steps(before.steps), _between_steps(after.steps)),
        classes=_classes(before.steps, after.steps),
        shares=_shares(before, after),
        buckets=_buckets(before, after, span),
        operations=compare_operations(before, after),
        regions=compare_regions(before, after, span),
        families=_families(before, after),
        reasons=tuple(reasons),
        uncovered=(*_one_sided(before, after), *_stray_steps(before.steps, after.steps)),
    )


def _one_sided(before: Summary, after: Summary) -> list[str]:
    """Blocks that one side alone has: what changed there is not known."""
    return [
        f"{name} on one side only: nothing in it was compared"
        for name in _BLOCKS
        if isinstance(getattr(before, name), Missing) != isinstance(getattr(after, name), Missing)
    ]


def _stray_steps(before: Steps | Missing, after: Steps | Missing) -> list[str]:
    """Steps in the midst of those that count, which do not: a recompilation is no warm-up of the job."""
    found = []
    for steps in (before, after):
        series = () if isinstance(steps, Missing) else steps.series
        places = [place for place, step in enumerate(series) if step.is_counted]
        midst = series[places[0] : places[-1]] if places else ()
        found.append([step for step in midst if not step.is_counted])
    if len(found[1]) <= len(found[0]):
        return []
    longest = format_duration(max(step.duration_ns for step in found[1]))
    return [
        f"{count_noun(len(found[1]), 'step')} after, and {len(found[0])} before, in the midst of the others do not "
        f"count, the longest of {longest}: is it recompilation?"
    ]


def _of_parity(before: Summary, after: Summary, parity: Parity) -> Comparison:
    return Comparison(
        schema=SCHEMA,
        verdict="",
        before=before.title,
        after=after.title,
        is_simulated=before.is_simulated or after.is_simulated,
        parity=parity,
        basis="",
        steps=None,
        tail=None,
        between=None,
        classes=(),
        shares=(),
        buckets=(),
        operations=(),
        regions=(),
        families=(),
        reasons=(),
        uncovered=(),
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


def _other_programs(before: Summary, after: Summary) -> list[str]:
    """Whether no program of one run is in the other: what another job looks like where no settings are known."""
    names = [{name.partition(" (")[0] for name in summary.metadata.programs} for summary in (before, after)]
    if not all(names) or names[0] & names[1]:
        return []
    told = [", ".join(sorted(side)[:3]) for side in names]
    return [f"no program has the same name: {told[0]} before, {told[1]} after; is it the same job?"]


def _step_series(before: Summary, after: Summary) -> tuple[str, tuple[list[float], list[float]]]:
    """Steps of logs where both have one, else of the traces."""
    logs = _logged(before), _logged(after)
    if all(logs):
        return "unprofiled", logs
    return "profiled", (_counted(before.steps), _counted(after.steps))


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


def _between_steps(steps: Steps | Missing) -> list[float]:
    """What lies between the end of a step and the start of the next, on a mean device: no step's time has it."""
    found: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for device in () if isinstance(steps, Missing) else steps.devices:
        ordered = sorted(device.samples, key=lambda sample: sample.step_index)
        for one, following in pairwise(ordered):
            if following.step_index == one.step_index + 1 and one.is_counted and following.is_counted:
                gap = following.start_ns - one.start_ns - one.duration_ns
                found[device.run, one.step_index].append(float(gap))
    return [sum(gaps) / len(gaps) for gaps in found.values()]


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
    if one.span_ns <= 0 or other.span_ns <= 0:
        return ()
    spans = one.span_ns, other.span_ns
    deltas = [_share(name, getattr(one, f"{name}_ns"), getattr(other, f"{name}_ns"), spans) for name in _SHARES]
    sides = [[device.compute_ns for device in block.devices] for block in (before.overlap, after.overlap)]
    if min(map(len, sides)) > 1:
        apart = [max(side) - min(side) for side in sides]
        deltas.append(_share("compute_spread", apart[0], apart[1], spans))
    return tuple(sorted(deltas, key=lambda each: -abs(each.delta_ratio)))


def _share(name: str, one: float, other: float, spans: tuple[float, float]) -> ShareDelta:
    shares = one / spans[0], other / spans[1]
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
    counts = len(before.ledger.series_steps), len(after.ledger.series_steps)
    works = works_of_buckets(before, after)
    deltas = [
        _bucket(key, (sides[0].get(key), sides[1].get(key)), places, counts, works, span_ns)
        for key in sorted(sides[0].keys() | sides[1].keys())
    ]
    judged = _judged(deltas, sides, counts, span_ns)
    return tuple(sorted(judged, key=lambda each: (-abs(each.delta_ns), each.label)))


def _key(bucket: LedgerBucket | BucketDelta) -> tuple[str, str, str]:
    return bucket.activity, bucket.phase, bucket.component


def _bucket(
    key: tuple[str, str, str],
    buckets: tuple[LedgerBucket | None, LedgerBucket | None],
    places: tuple[int, int],
    steps_counts: tuple[int, int],
    works: Mapping[Key, SharedWork],
    span_ns: float | None,
) -> BucketDelta:
    times = [0.0 if bucket is None else bucket.sum_per_step_ns for bucket in buckets]
    counts = [
        0.0 if bucket is None or not place else bucket.rows_count / place
        for bucket, place in zip(buckets, places, strict=True)
    ]
    work = works.get(key)
    amounts = [
        Amount(time_ns=time, executions_count=count, work=None if work is None else side)
        for time, count, side in zip(
            times, counts, (None, None) if work is None else (work.before, work.after), strict=True
        )
    ]
    delta = times[1] - times[0]
    series = [_bucket_series(bucket, count) for bucket, count in zip(buckets, steps_counts, strict=True)]
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


def _bucket_series(bucket: LedgerBucket | None, steps_count: int) -> tuple[float, ...]:
    """Everything that ran is in a bucket: where a run has none of this kind, it took no time in any step."""
    return (0.0,) * steps_count if bucket is None else bucket.series_ns


def _judged(
    deltas: Sequence[BucketDelta],
    sides: Sequence[Mapping[tuple[str, str, str], LedgerBucket]],
    counts: tuple[int, int],
    span_ns: float | None,
) -> list[BucketDelta]:
    """With verdicts: all buckets that matter are asked at once, and what is said of one allows for the others."""
    made = {}
    for delta in deltas:
        series = [_bucket_series(side.get(_key(delta)), count) for side, count in zip(sides, counts, strict=True)]
        if _is_asked(delta, span_ns) and tuple(map(len, series)) == counts:
            made[_key(delta)] = series
    probabilities: dict[Key, float] = {}
    if min(counts) >= LEAST_SAMPLES:
        joint = joint_probabilities([each[0] for each in made.values()], [each[1] for each in made.values()])
        probabilities = dict(zip(made, joint, strict=True))
    return [
        replace(each, probability=probabilities.get(_key(each)), verdict=_verdict(each, probabilities, span_ns))
        for each in deltas
    ]


def _is_asked(delta: BucketDelta, span_ns: float | None) -> bool:
    return span_ns is None or max(delta.before_ns, delta.after_ns) >= MATERIAL_RATIO * span_ns


def _verdict(delta: BucketDelta, probabilities: Mapping[Key, float], span_ns: float | None) -> Verdict:
    if not _is_asked(delta, span_ns):
        return Verdict.TOO_SMALL
    probability, alone = probabilities.get(_key(delta)), delta.difference
    if probability is None or alone is None:
        return Verdict.CANNOT_SAY
    if probability >= SIGNIFICANT_RATIO:
        # Parted as far as so few steps can be, and so are others by chance: more steps would tell.
        is_parted = alone.probability is not None and alone.probability <= least_probability(
            alone.before_count, alone.after_count
        )
        return Verdict.CANNOT_SAY if is_parted else Verdict.NOT_SIGNIFICANT
    # As the median went, as for steps: the mean may go the other way where single steps are far off.
    return Verdict.SLOWER if alone.delta_ns > 0 else Verdict.FASTER if alone.delta_ns < 0 else Verdict.NOT_SIGNIFICANT


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
            None
            if each is None or each.compute_flop is None or each.work_covered_ratio < LEAST_COVERED_RATIO
            else each.compute_flop / place
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
