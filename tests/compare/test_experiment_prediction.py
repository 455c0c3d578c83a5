"""Predictions as people write them, and how they stand to what was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.compare.experiment_document import Judgement, Measured, Prediction
from rocktools.compare.experiment_prediction import judge_prediction, parse_prediction
from rocktools.errors import UsageError

PARSED = (
    ("-5%", -0.05, -0.05),
    ("+2.5 %", 0.025, 0.025),
    ("-3..-6%", -0.06, -0.03),
    ("-3%..6%", -0.06, -0.03),
    ("faster by 3 to 6%", -0.06, -0.03),
    ("Faster 5", -0.05, -0.05),
    ("slower 2-4%", 0.02, 0.04),
    ("same", -0.01, 0.01),
    ("no change", -0.01, 0.01),
    ("same within 2%", -0.02, 0.02),
    ("0%", -0.01, 0.01),
)


@pytest.mark.parametrize("text, low, high", PARSED)
def test_prediction_is_a_range(text: str, low: float, high: float) -> None:
    found = parse_prediction(text)
    assert (found.low_ratio, found.high_ratio) == pytest.approx((low, high))
    assert found.metric == "step"


@pytest.mark.parametrize("text", ["faster", "5%", "", "-5..+5%", "-0%", "a lot", "-100%", "faster by five percent"])
def test_prediction_without_direction_or_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_prediction(text)
    assert caught.value.reference == "no-prediction"


def _measured(delta: float | None, low: float | None, high: float | None, verdict: str) -> Measured:
    return Measured(
        metric="step", basis="profiled", before_ns=1000.0, after_ns=1000.0 * (1 + (delta or 0.0)), delta_ratio=delta,
        low_ratio=low, high_ratio=high, probability=0.01, before_count=6, after_count=6, verdict=verdict, reason="few",
    )  # fmt: skip


JUDGED = (
    # Predicted -6..-3 %.
    ("-3..-6%", -0.05, -0.06, -0.04, "faster", Judgement.CONFIRMED),
    ("-3..-6%", -0.02, -0.031, -0.01, "faster", Judgement.CONFIRMED),  # the interval reaches into the range
    ("-3..-6%", -0.02, -0.025, -0.01, "faster", Judgement.SMALLER),
    ("-3..-6%", -0.10, -0.12, -0.08, "faster", Judgement.LARGER),
    ("-3..-6%", 0.05, 0.04, 0.06, "slower", Judgement.REFUTED),
    ("-3..-6%", -0.04, -0.09, 0.01, "not significant", Judgement.NOT_CONFIRMED),
    ("-3..-6%", -0.04, None, None, "cannot say", Judgement.CANNOT_SAY),
    ("-3..-6%", None, None, None, "cannot say", Judgement.CANNOT_SAY),
    # Predicted no change: a lack of significance is not enough.
    ("same within 2%", 0.001, -0.01, 0.012, "not significant", Judgement.CONFIRMED),
    ("same within 2%", 0.001, -0.05, 0.05, "not significant", Judgement.NOT_CONFIRMED),
    ("same within 2%", 0.005, 0.002, 0.008, "slower", Judgement.CONFIRMED),
    ("same within 2%", 0.05, 0.04, 0.06, "slower", Judgement.REFUTED),
)


@pytest.mark.parametrize("text, delta, low, high, verdict, expected", JUDGED)
def test_prediction_is_judged_by_direction_size_and_chance(
    text: str, delta: float | None, low: float | None, high: float | None, verdict: str, expected: Judgement
) -> None:
    judgement, sentence = judge_prediction(parse_prediction(text), _measured(delta, low, high, verdict))
    assert judgement is expected
    assert "was predicted" in sentence


_RATIOS = st.floats(0.001, 0.5)


@given(low=_RATIOS, width=_RATIOS, delta=st.floats(-0.5, 0.5).filter(bool), half=st.floats(0.0, 0.2))
def test_judgement_is_the_same_with_the_sign_turned(low: float, width: float, delta: float, half: float) -> None:
    up = Prediction(metric="step", low_ratio=low, high_ratio=low + width, text="")
    down = Prediction(metric="step", low_ratio=-low - width, high_ratio=-low, text="")
    verdicts = ("slower", "faster") if delta > 0 else ("faster", "slower")
    one = judge_prediction(up, _measured(delta, delta - half, delta + half, verdicts[0]))[0]
    other = judge_prediction(down, _measured(-delta, -delta - half, -delta + half, verdicts[1]))[0]
    assert one is other


@given(low=_RATIOS, width=_RATIOS, part=st.floats(0.0, 1.0))
def test_what_lies_in_the_range_confirms_it(low: float, width: float, part: float) -> None:
    prediction = Prediction(metric="step", low_ratio=low, high_ratio=low + width, text="")
    delta = min(low + part * width, low + width)
    assert judge_prediction(prediction, _measured(delta, delta, delta, "slower"))[0] is Judgement.CONFIRMED
