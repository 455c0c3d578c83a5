"""A comparison and thresholds -> pass, warn or fail, with the check that says so.

A time fails where it grew by more than its threshold and the growth is no chance. What would fail warns where that is
not shown: too few steps were recorded, they scatter too much, or a component is too small to be judged. What got faster
passes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum

from rocktools.compare.comparison import BucketDelta, Comparison
from rocktools.compare.parity import Gate
from rocktools.compare.significance import Difference, Verdict
from rocktools.compare.verdict import cause_words, interval_words, signed_ratio, where_most
from rocktools.units import format_duration, format_ratio

SCHEMA = "rocktools.track/1"
_STEADY_RATIO = 0.5  # of the change of the mean: with less in the median, single steps made it
_MATERIAL_RATIO = 0.002  # of the span: changes below this in one component are not worth a check of their own


class State(str, Enum):
    """What a check came to."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"

    def __str__(self) -> str:
        return self.value


_ORDER = (State.PASS, State.WARN, State.FAIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """From where on a growth warns and fails; None: never."""

    warn_ratio: float | None = None
    fail_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What is held against a comparison. Ratios are of the value before; those of shares are differences of shares.

    Attributes:
        step_median, step_p90: of the steps; the former also of what lies between them, over the step.
        component: of every class, phase and component that has no limits of its own.
        components: `COMPONENT` or `COMPONENT/PHASE` -> its limits.
        scope: of every named scope in a component that slowed down beyond chance.
        shares: name of a share of the span -> its limits.
    """

    step_median: Limits = Limits(warn_ratio=0.02, fail_ratio=0.05)
    step_p90: Limits = Limits(warn_ratio=0.05, fail_ratio=0.10)
    component: Limits = Limits(warn_ratio=0.03, fail_ratio=0.05)
    components: Mapping[str, Limits] = field(default_factory=dict)
    scope: Limits = Limits(warn_ratio=0.03, fail_ratio=0.05)
    shares: Mapping[str, Limits] = field(
        default_factory=lambda: {
            "exposed_communication": Limits(warn_ratio=0.05),
            "idle": Limits(warn_ratio=0.05),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was held against its limits.

    Attributes:
        name: step_median, step_p90, between_steps, component, scope, share, coverage, parity.
        subject: which component or share; "" for the step.
        value_ratio: growth, or difference of shares; None where it could not be told.
        warn_ratio, fail_ratio: the limits.
        verdict: whether chance may have made it; "" where that was not asked.
        cause: count, work or time; "" where nothing grew.
        state: what follows.
        message: the same in a sentence, with the numbers.
    """

    name: str
    subject: str
    value_ratio: float | None
    warn_ratio: float | None
    fail_ratio: float | None
    verdict: str
    cause: str
    state: State
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Everything that was checked.

    Attributes:
        schema: `SCHEMA`.
        state: the worst of all checks.
        label: what the user calls this comparison.
        before, after: titles.
        is_simulated: whether either side is.
        checks: the worst first.
    """

    schema: str
    state: State
    label: str
    before: str
    after: str
    is_simulated: bool
    checks: tuple[Check, ...]


def assess(comparison: Comparison, thresholds: Thresholds, *, label: str = "") -> Assessment:
    """Hold a comparison against thresholds; a closed gate fails, for nothing was shown to be as fast."""
    if comparison.parity.gate is Gate.CLOSED:
        checks = [
            _plain_check("parity", f"not comparable: {reason}", State.FAIL) for reason in comparison.parity.reasons
        ]
    else:
        checks = [*_step_checks(comparison, thresholds), *_component_checks(comparison, thresholds)]
        checks += [*_scope_checks(comparison, thresholds), *_share_checks(comparison, thresholds)]
        checks += [_plain_check("coverage", text, State.WARN) for text in comparison.uncovered]
    worst = sorted(checks, key=lambda check: -_ORDER.index(check.state))
    return Assessment(
        schema=SCHEMA,
        state=worst[0].state if worst else State.WARN,
        label=label,
        before=comparison.before,
        after=comparison.after,
        is_simulated=comparison.is_simulated,
        checks=tuple(worst),
    )


def render_assessment(assessment: Assessment) -> str:
    """The document as JSON text."""
    return json.dumps(asdict(assessment), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain_check(name: str, message: str, state: State) -> Check:
    return Check(
        name=name,
        subject="",
        value_ratio=None,
        warn_ratio=None,
        fail_ratio=None,
        verdict="",
        cause="",
        state=state,
        message=message,
    )


def _step_checks(comparison: Comparison, thresholds: Thresholds) -> list[Check]:
    steps = comparison.steps
    if steps is None:
        return [
            Check(
                name="step_median",
                subject="",
                value_ratio=None,
                warn_ratio=thresholds.step_median.warn_ratio,
                fail_ratio=thresholds.step_median.fail_ratio,
                verdict=str(Verdict.CANNOT_SAY),
                cause="",
                state=State.WARN,
                message="no step time on both sides: nothing was shown",
            )
        ]
    reason = f"; {steps.reason}" if steps.reason else ""
    message = f"{comparison.basis} step: {_difference_words(steps)}{reason}"
    checks = [_check("step_median", "", steps.delta_ratio, thresholds.step_median, steps.verdict, "", message)]
    if comparison.tail is not None:
        tail = comparison.tail
        message = f"90th percentile: {_difference_words(tail)}"
        checks.append(_check("step_p90", "", tail.delta_ratio, thresholds.step_p90, tail.verdict, "", message))
    between = comparison.between
    # Steps of a log have it in them already.
    if between is not None and comparison.basis == "profiled" and steps.before_ns > 0:
        ratio = between.delta_ns / steps.before_ns
        message = (
            f"between steps: {format_duration(between.before_ns)} to {format_duration(between.after_ns)}, "
            f"{signed_ratio(ratio)} of a step: {between.verdict}"
        )
        checks.append(_check("between_steps", "", ratio, thresholds.step_median, between.verdict, "", message))
    return checks


def _difference_words(found: Difference) -> str:
    times = f"{format_duration(found.before_ns)} to {format_duration(found.after_ns)}"
    interval = "" if found.low_ratio is None else f" ({interval_words(found)})"
    return f"{times}, {signed_ratio(found.delta_ratio)}{interval}: {found.verdict}"


def _component_checks(comparison: Comparison, thresholds: Thresholds) -> list[Check]:
    checks = []
    for bucket in comparison.buckets:
        limits = _limits_of(bucket, thresholds)
        if bucket.steady_ns <= 0 or not _is_material(bucket, limits is not thresholds.component):
            continue
        is_new = bucket.delta_ratio is None
        # What one slow step adds to a mean is no growth of the others.
        ratio = float("inf") if is_new else bucket.steady_ns / bucket.before_ns
        grown = "it is new" if is_new else f"{signed_ratio(ratio)} in the median"
        # What is new may have had another name: it has not grown, and nothing is held against it but a warning.
        limits = replace(limits, fail_ratio=None) if is_new else limits
        where = where_most(bucket, comparison.operations)
        message = (
            f"{bucket.label}: {format_duration(bucket.before_ns)} to {format_duration(bucket.after_ns)} a step, "
            f"{grown}, by {cause_words(bucket.split, bucket.activity)}: {bucket.verdict}{where}"
        )
        check = _check("component", bucket.label, ratio, limits, bucket.verdict, bucket.split.cause, message)
        if check.state is not State.PASS:
            checks.append(check)
    return checks


def _limits_of(bucket: BucketDelta, thresholds: Thresholds) -> Limits:
    for name in (f"{bucket.component}/{bucket.phase}", bucket.component):
        if name in thresholds.components:
            return thresholds.components[name]
    return thresholds.component


def _is_material(bucket: BucketDelta, is_named: bool) -> bool:
    """Small components are checked where somebody named them."""
    return is_named or bucket.steady_of_step_ratio is None or bucket.steady_of_step_ratio >= _MATERIAL_RATIO


def _scope_checks(comparison: Comparison, thresholds: Thresholds) -> list[Check]:
    """Scopes that grew, in components of which it is known that they did: scopes have no series of their own."""
    slower, unsure = set(), set()
    for each in comparison.buckets:
        is_steady = each.steady_ns >= _STEADY_RATIO * each.delta_ns
        if each.verdict is Verdict.SLOWER and is_steady:
            slower.add((each.component, each.phase))
        elif each.verdict in (Verdict.SLOWER, Verdict.CANNOT_SAY):
            unsure.add((each.component, each.phase))
    checks = []
    for region in comparison.regions:
        share = region.delta_of_step_ratio
        if region.delta_ratio is None or not region.path or (share is not None and share < _MATERIAL_RATIO):
            continue
        places = {(component, region.phase) for component in region.components}
        verdict = Verdict.SLOWER if places & slower else Verdict.CANNOT_SAY if places & unsure else None
        if verdict is None or region.delta_ns <= 0:
            continue
        message = (
            f"{region.label}: {format_duration(region.before_ns)} to {format_duration(region.after_ns)} a step, "
            f"{signed_ratio(region.delta_ratio)}, by {cause_words(region.split)}; its component is judged: {verdict}"
        )
        check = _check(
            "scope", region.label, region.delta_ratio, thresholds.scope, verdict, region.split.cause, message
        )
        if check.state is not State.PASS:
            checks.append(check)
    return checks


def _share_checks(comparison: Comparison, thresholds: Thresholds) -> list[Check]:
    checks = []
    for share in comparison.shares:
        limits = thresholds.shares.get(share.name)
        if limits is None:
            continue
        message = (
            f"{share.name.replace('_', ' ')}: {format_ratio(share.before_ratio)} to {format_ratio(share.after_ratio)} "
            "of the span"
        )
        checks.append(_check("share", share.name, share.delta_ratio, limits, None, "", message))
    return checks


def _check(
    name: str, subject: str, value: float | None, limits: Limits, verdict: Verdict | None, cause: str, message: str
) -> Check:
    state = State.PASS
    for wanted, limit in ((State.WARN, limits.warn_ratio), (State.FAIL, limits.fail_ratio)):
        if value is not None and limit is not None and value > limit:
            state = wanted
    if verdict is Verdict.FASTER or (verdict is Verdict.NOT_SIGNIFICANT and state is State.WARN):
        state = State.PASS
    if verdict is not Verdict.SLOWER and verdict is not None and state is State.FAIL:
        state = State.WARN
    finite = value if value is None or abs(value) != float("inf") else None
    return Check(
        name=name,
        subject=subject,
        value_ratio=finite,
        warn_ratio=limits.warn_ratio,
        fail_ratio=limits.fail_ratio,
        verdict="" if verdict is None else str(verdict),
        cause=cause if state is not State.PASS else "",
        state=state,
        message=message,
    )
