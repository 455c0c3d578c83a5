"""A comparison -> what an engineer wants to know first, in one sentence; and the phrases that it is made of."""

from __future__ import annotations

from collections.abc import Sequence

from rocktools.compare.comparison import BucketDelta, Comparison, OperationDelta
from rocktools.compare.parity import Gate
from rocktools.compare.significance import Difference, Verdict
from rocktools.compare.split import Split
from rocktools.units import count_noun, format_duration, format_ratio

_NOTEWORTHY_RATIO = 0.002  # of the span of a step
_APART_RATIO = 0.25  # of the change of the step
_RUNS_RATIO = 0.005
_NAMED = 3
_PARTS = {"between_steps": "time between steps", "idle": "idle time in the step"}
_CAUSES = {
    "count": "more executions",
    "work": "more work in each",
    "time": "more time for the same work",
    "time or work": "more time or work in each",
}
_SMALLER_CAUSES = {
    "count": "fewer executions",
    "work": "less work in each",
    "time": "less time for the same work",
    "time or work": "less time or work in each",
}


def describe_comparison(comparison: Comparison) -> str:
    """The sentence: which way the step went and by how much, where most of it is, and why."""
    parity = comparison.parity
    if parity.gate is Gate.CLOSED:
        return f"not comparable: {'; '.join(parity.reasons)}"
    told = _step_words(comparison.steps)
    between = comparison.between
    if comparison.basis == "profiled" and between is not None and _is_noteworthy_gap(comparison):
        told += f", but time between steps changed: {signed_duration(between.delta_ns)} ({between.verdict})"
    if parity.is_same_input:
        told = f"the very same files on both sides; {told}"
    waiting = _waiting_words(comparison)
    moved = _leading(noteworthy_buckets(comparison), comparison.steps)
    if not moved:
        nothing = f"no component changed by {format_ratio(_NOTEWORTHY_RATIO)} of the step or more beyond chance"
        if not comparison.buckets:
            nothing = "components are not known on both sides"
        elif all(each.probability is None for each in comparison.buckets):
            nothing = "components cannot be judged: the traces have too few steps"
        return f"{told}: {waiting}; {nothing}" if waiting else f"{told}; {nothing}"
    first = moved[0]
    words = f"{first.label} {signed_duration(first.steady_ns)}, {cause_name(first.split, first.activity)}"
    words += where_most(first, comparison.operations)
    others = [f"{each.label} {signed_duration(each.steady_ns)}" for each in moved[1:_NAMED]]
    if others:
        rest = len(moved) - 1 - len(others)
        words += f"; also {', '.join(others)}" + (f", and {count_noun(rest, 'more component')}" if rest else "")
    return f"{told}: {f'{waiting}; ' if waiting else ''}{words}"


def _leading(moved: Sequence[BucketDelta], steps: Difference | None) -> list[BucketDelta]:
    """What went the way of the step first, for it explains it; where the step did not move, what grew."""
    sign = -1.0 if steps is not None and steps.verdict is Verdict.FASTER else 1.0
    return sorted(moved, key=lambda each: (each.steady_ns * sign < 0, -abs(each.steady_ns)))


def _waiting_words(comparison: Comparison) -> str:
    """What of the change is no kernel of compute, where that is the largest part: sums of kernels hide it."""
    steps = comparison.steps
    if steps is None or steps.verdict not in (Verdict.SLOWER, Verdict.FASTER):
        return ""
    sign = 1.0 if steps.verdict is Verdict.SLOWER else -1.0
    moved = {each.name: each.after_ns - each.before_ns for each in comparison.shares}
    # Time from step to step is made of these and nothing else.
    parts: dict[str, float] = {
        name: moved[name] for name in ("compute", "exposed_communication", "exposed_copy", "idle") if name in moved
    }
    if comparison.between is not None:
        parts["between_steps"] = comparison.between.delta_ns
    told = []
    spread = next((each for each in comparison.shares if each.name == "compute_spread"), None)
    if spread is not None and (spread.after_ns - spread.before_ns) > _APART_RATIO * abs(steps.delta_ns):
        told.append(
            f"one device computes {format_duration(spread.after_ns)} more than another "
            f"({format_duration(spread.before_ns)} before)"
        )
    name = max(parts, key=lambda part: parts[part] * sign, default="compute")
    if name != "compute" and parts[name] * sign > _APART_RATIO * abs(steps.delta_ns):
        words = _PARTS.get(name, name.replace("_", " "))
        told.append(f"the largest part is {words} ({signed_duration(parts[name])})")
    return ", ".join(told)


def _is_noteworthy_gap(comparison: Comparison) -> bool:
    between, steps = comparison.between, comparison.steps
    if between is None or steps is None or between.verdict not in (Verdict.SLOWER, Verdict.FASTER):
        return False
    return abs(between.delta_ns) >= _NOTEWORTHY_RATIO * steps.before_ns


def noteworthy_buckets(comparison: Comparison) -> list[BucketDelta]:
    """Buckets that changed beyond chance by an amount that a step shows; the largest first."""
    return [
        each
        for each in comparison.buckets
        if each.verdict in (Verdict.SLOWER, Verdict.FASTER)
        and (each.steady_of_step_ratio is None or abs(each.steady_of_step_ratio) >= _NOTEWORTHY_RATIO)
    ]


def _step_words(steps: Difference | None) -> str:
    if steps is None:
        return "no step time on both sides"
    if steps.verdict is Verdict.CANNOT_SAY:
        return f"cannot say whether the step changed ({signed_ratio(steps.delta_ratio)}; {steps.reason})"
    if steps.verdict is Verdict.NOT_SIGNIFICANT:
        return f"no difference of the step beyond chance ({interval_words(steps)})"
    size = "" if steps.delta_ratio is None else f" by {format_ratio(abs(steps.delta_ratio))}"
    small = ", no more than two runs of one job may differ by" if abs(steps.delta_ratio or 1.0) < _RUNS_RATIO else ""
    return f"{steps.verdict}{size} ({interval_words(steps)}{small})"


def interval_words(difference: Difference) -> str:
    """`+0.7 % to +1.1 % with 95 %`."""
    if difference.low_ratio is None or difference.high_ratio is None:
        return signed_ratio(difference.delta_ratio)
    return f"{signed_ratio(difference.low_ratio)} to {signed_ratio(difference.high_ratio)} with 95 %"


def cause_name(split: Split, activity: str = "compute") -> str:
    """`more work in each`."""
    if split.is_divided:
        return "the same work in more executions" if split.count_ns > 0 else "the same work in fewer executions"
    is_growth = split.count_ns + (split.work_ns or 0.0) + split.rate_ns > 0
    name = (_CAUSES if is_growth else _SMALLER_CAUSES).get(split.cause, split.cause)
    return f"{name}, waiting included" if activity == "communication" and split.cause == "time" else name


def cause_words(split: Split, activity: str = "compute") -> str:
    """`more work in each (work +51.22 ms, time -2.211 ms)`."""
    parts = {"count": split.count_ns, "work": split.work_ns, "time": split.rate_ns}
    told = ", ".join(f"{name} {signed_duration(value)}" for name, value in parts.items() if value)
    name = cause_name(split, activity)
    return f"{name} ({told})" if told else name


def where_most(bucket: BucketDelta, operations: Sequence[OperationDelta]) -> str:
    """In which operation most of the change of a bucket is: `, most in fusion.3 (+1 ms)`; "" where none is known."""
    sign = 1.0 if bucket.delta_ns >= 0 else -1.0
    moved = [
        each
        for each in operations
        if (each.activity, each.component, each.phase) == (bucket.activity, bucket.component, bucket.phase)
        and (each.delta_ns or 0.0) * sign > 0
    ]
    if not moved:
        return ""
    first = max(moved, key=lambda each: abs(each.delta_ns or 0.0))
    return f", most in {first.name_after or first.name_before} ({signed_duration(first.delta_ns or 0.0)})"


def signed_ratio(ratio: float | None) -> str:
    """`+0.7 %`; what came from nothing has no ratio."""
    if ratio is None:
        return "from nothing"
    return f"{'+' if ratio >= 0 else '-'}{format_ratio(abs(ratio))}"


def signed_duration(value_ns: float) -> str:
    """`+1.2 ms`."""
    return f"{'+' if value_ns >= 0 else '-'}{format_duration(abs(value_ns))}"
