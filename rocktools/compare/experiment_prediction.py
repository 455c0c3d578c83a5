"""A prediction as people write it -> a range; the quantity in two summaries -> whether it came true."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from rocktools.compare.comparison import Comparison
from rocktools.compare.experiment_document import Judgement, Measured, Prediction
from rocktools.compare.significance import Difference, Verdict, compare_series
from rocktools.errors import UsageError, nearest_names
from rocktools.summary.document import Missing, Summary
from rocktools.units import format_duration, format_ratio

STEP = "step"
PARTS = ("busy", "compute", "communication", "exposed_communication", "hidden_communication", "exposed_copy", "idle")
SAME_RATIO = 0.01
"""What `same` means: within this of no change."""

_NUMBER = r"\d+(?:\.\d+)?"
_SIGNED = re.compile(rf"([+-])({_NUMBER})\s*%?(?:\s*\.\.\s*([+-]?)({_NUMBER})\s*%?)?")
_WORDED = re.compile(
    rf"(faster|less|shorter|slower|more|longer)(?:\s+by)?\s+({_NUMBER})\s*%?(?:\s*(?:-|to|\.\.)\s*({_NUMBER})\s*%?)?",
    re.IGNORECASE,
)
_SAME = re.compile(rf"(?:same|no change|unchanged|0\s*%?)(?:\s+within\s+({_NUMBER})\s*%?)?", re.IGNORECASE)
_LESS = ("faster", "less", "shorter")


def parse_prediction(text: str, metric: str = STEP) -> Prediction:
    """A prediction: `-5%`, `-3..-6%`, `faster by 3 to 6%`, `slower 2%`, `same`, `same within 2%`.

    Raises:
        UsageError: it names no direction with a size.
    """
    plain = " ".join(text.split())
    if found := _SAME.fullmatch(plain):
        within = SAME_RATIO if found[1] is None else float(found[1]) / 100
        return Prediction(metric=metric, low_ratio=-within, high_ratio=within, text=plain)
    ends: list[float] = []
    if found := _WORDED.fullmatch(plain):
        sign = -1.0 if found[1].lower() in _LESS else 1.0
        ends = [sign * float(each) / 100 for each in (found[2], found[3]) if each is not None]
    elif found := _SIGNED.fullmatch(plain):
        first = float(f"{found[1]}{found[2]}") / 100
        ends = [first]
        if found[4] is not None:
            ends.append(float(f"{found[3] or found[1]}{found[4]}") / 100)
    if not ends or min(ends) * max(ends) <= 0 or min(ends) <= -1:
        raise UsageError(
            "no-prediction",
            f"a prediction has a direction and a size; {text!r} has not",
            hint="-5%  or  -3..-6%  or  faster by 3 to 6%  or  slower 2%  or  same within 1%",
        )
    return Prediction(metric=metric, low_ratio=min(ends), high_ratio=max(ends), text=plain)


def require_metric(summary: Summary, metric: str) -> None:
    """That the summary has the quantity.

    Raises:
        UsageError: it has not.
    """
    if metric == STEP or metric in PARTS or _places(summary, metric):
        return
    known = [STEP, *PARTS]
    if not isinstance(summary.ledger, Missing):
        known += sorted({f"{each.component}/{each.phase}" for each in summary.ledger.buckets})
        known += sorted({each.component for each in summary.ledger.buckets})
    near = nearest_names(metric, known) or [STEP, *PARTS, "COMPONENT/PHASE"]
    raise UsageError("unknown-metric", f"the summary has no quantity {metric!r}", hint=", ".join(near))


def measure(before: Summary, after: Summary, comparison: Comparison, metric: str) -> Measured:
    """The quantity on both sides."""
    if metric == STEP:
        return _measured(metric, comparison.basis or "profiled", comparison.steps)
    series = [_series(summary, metric) for summary in (before, after)]
    return _measured(metric, "profiled", compare_series(*series))


def _measured(metric: str, basis: str, difference: Difference | None) -> Measured:
    if difference is None:
        return Measured(
            metric=metric,
            basis=basis,
            before_ns=None,
            after_ns=None,
            delta_ratio=None,
            low_ratio=None,
            high_ratio=None,
            probability=None,
            before_count=0,
            after_count=0,
            verdict=str(Verdict.CANNOT_SAY),
            reason="one side has no step that counts, or nothing of it",
        )
    return Measured(
        metric=metric,
        basis=basis,
        before_ns=difference.before_ns,
        after_ns=difference.after_ns,
        delta_ratio=difference.delta_ratio,
        low_ratio=difference.low_ratio,
        high_ratio=difference.high_ratio,
        probability=difference.probability,
        before_count=difference.before_count,
        after_count=difference.after_count,
        verdict=str(difference.verdict),
        reason=difference.reason,
    )


def _series(summary: Summary, metric: str) -> list[float]:
    """The quantity in each step that counts: mean of devices."""
    if metric in PARTS:
        if isinstance(summary.overlap, Missing):
            return []
        steps: defaultdict[tuple[str, int | None], list[float]] = defaultdict(list)
        for each in summary.overlap.steps:
            steps[each.run, each.step_index].append(float(getattr(each, f"{metric}_ns")))
        return [sum(values) / len(values) for _, values in sorted(steps.items(), key=lambda item: str(item[0]))]
    return _places(summary, metric)


def _places(summary: Summary, metric: str) -> list[float]:
    """Series of the buckets of `component[/phase[/activity]]`, added up; [] where there is none."""
    if isinstance(summary.ledger, Missing):
        return []
    wanted = metric.split("/")
    found: list[Sequence[float]] = [
        each.series_ns
        for each in summary.ledger.buckets
        if [each.component, each.phase, each.activity][: len(wanted)] == wanted
    ]
    return [sum(values) for values in zip(*found, strict=True)] if found else []


def judge_prediction(prediction: Prediction, measured: Measured) -> tuple[Judgement, str]:
    """Whether the prediction came true, and the sentence that says so."""
    expected = _range_text(prediction)
    if measured.verdict == str(Verdict.CANNOT_SAY) or measured.delta_ratio is None:
        return Judgement.CANNOT_SAY, f"{expected} was predicted; nothing can be said: {measured.reason}"
    got = _got_text(measured)
    low = measured.delta_ratio if measured.low_ratio is None else measured.low_ratio
    high = measured.delta_ratio if measured.high_ratio is None else measured.high_ratio
    if prediction.low_ratio < 0 < prediction.high_ratio:
        return _judge_same(prediction, (low, high), f"{expected} was predicted; {got}")
    if measured.verdict == str(Verdict.NOT_SIGNIFICANT):
        return Judgement.NOT_CONFIRMED, f"{expected} was predicted; {got}, which may be chance"
    if (measured.delta_ratio < 0) != (prediction.high_ratio < 0):
        return Judgement.REFUTED, f"{expected} was predicted; {got}, the other way"
    if low <= prediction.high_ratio and high >= prediction.low_ratio:
        return Judgement.CONFIRMED, f"{expected} was predicted; {got}"
    is_larger = abs(measured.delta_ratio) > max(abs(prediction.low_ratio), abs(prediction.high_ratio))
    judgement = Judgement.LARGER if is_larger else Judgement.SMALLER
    return judgement, f"{expected} was predicted; {got}: the direction is right, the effect is {_size(is_larger)}"


def _size(is_larger: bool) -> str:
    return "larger" if is_larger else "smaller"


def _judge_same(prediction: Prediction, interval: tuple[float, float], text: str) -> tuple[Judgement, str]:
    """No change is confirmed by an interval within the range, and not by a lack of significance."""
    low, high = interval
    if prediction.low_ratio <= low and high <= prediction.high_ratio:
        return Judgement.CONFIRMED, text
    if high < prediction.low_ratio or low > prediction.high_ratio:
        return Judgement.REFUTED, text
    return Judgement.NOT_CONFIRMED, f"{text}; the interval reaches beyond it, more steps would narrow it"


def _range_text(prediction: Prediction) -> str:
    low, high = prediction.low_ratio, prediction.high_ratio
    if low < 0 < high:
        return f"no change of {prediction.metric} (within {format_ratio(high)})"
    if low == high:
        return f"{prediction.metric} {low:+.1%}"
    return f"{prediction.metric} {low:+.1%} to {high:+.1%}"


def _got_text(measured: Measured) -> str:
    assert measured.before_ns is not None
    assert measured.after_ns is not None
    assert measured.delta_ratio is not None
    interval = ""
    if measured.low_ratio is not None and measured.high_ratio is not None:
        interval = f", 95 % of resamples from {measured.low_ratio:+.1%} to {measured.high_ratio:+.1%}"
    return (
        f"measured {measured.delta_ratio:+.1%} ({format_duration(measured.before_ns)} to "
        f"{format_duration(measured.after_ns)}, {measured.basis}{interval})"
    )
