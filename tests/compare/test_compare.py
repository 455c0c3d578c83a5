"""What is said of two runs whose ledgers and steps are known: never more than the steps show."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from summary_documents import any_record

from rocktools.compare.compare import compare_summaries
from rocktools.compare.comparison import BucketDelta, Comparison
from rocktools.compare.significance import Verdict
from rocktools.compare.track import State, Thresholds, assess
from rocktools.evidence import Absence
from rocktools.summary.document import (
    DeviceSteps,
    JobStep,
    LedgerBlock,
    LedgerBucket,
    Missing,
    OverlapBlock,
    OverlapMeans,
    Steps,
    StepSample,
    Summary,
)

_ABSENT = Missing(absence=Absence.NOT_COLLECTED, reason="not of interest here")
_SPAN_NS = 1000.0


def _summary(
    buckets: Mapping[str, Sequence[float]],
    *,
    steps: Sequence[float] = (),
    between: float = 0.0,
    classes: Sequence[str | None] = (),
) -> Summary:
    """A run of one device whose buckets took these times in its steps, and whose steps took `steps`."""
    count = len(next(iter(buckets.values()), steps))
    made = [
        any_record(
            LedgerBucket,
            Random(1),
            activity="compute",
            phase="forward",
            component=name,
            series_ns=tuple(series),
            sum_per_step_ns=sum(series) / count,
            rows_count=count,
        )
        for name, series in buckets.items()
    ]
    ledger = any_record(
        LedgerBlock,
        Random(2),
        places_count=count,
        series_steps=tuple(f"run:{index}" for index in range(count)),
        buckets=tuple(made),
    )
    durations = steps or [_SPAN_NS] * count
    starts = [index * (max(durations) + between) for index in range(len(durations))]
    ends = [start + max(durations) for start in starts]
    samples = [
        any_record(
            StepSample,
            Random(3),
            step_index=index,
            start_ns=int(end - duration),
            duration_ns=int(duration),
            is_counted=True,
        )
        for index, (end, duration) in enumerate(zip(ends, durations, strict=True))
    ]
    names = classes or [None] * len(durations)
    series = [
        any_record(
            JobStep, Random(4), run="run", step_index=i, duration_ns=int(duration), is_counted=True, step_class=name
        )
        for i, (duration, name) in enumerate(zip(durations, names, strict=True))
    ]
    mean = any_record(OverlapMeans, Random(5), span_ns=_SPAN_NS)
    summary = any_record(Summary, Random(6), is_simulated=False, step_log=_ABSENT, operations=_ABSENT)
    return dataclasses.replace(
        summary,
        provenance=dataclasses.replace(summary.provenance, inputs_sha256=None),
        families=_ABSENT,
        regions=_ABSENT,
        ledger=ledger,
        overlap=any_record(OverlapBlock, Random(7), mean=mean, devices=(mean,)),
        steps=any_record(
            Steps,
            Random(8),
            series=tuple(series),
            classes=(),
            devices=(DeviceSteps(run="run", device="gpu0", statistics=None, samples=tuple(samples)),),
        ),
    )


def _bucket(comparison: Comparison, name: str) -> BucketDelta:
    return next(each for each in comparison.buckets if each.component == name)


_STEADY = [100.0, 101, 99, 100.5, 99.5]


def test_five_steps_suffice_to_name_one_of_fifteen_components():
    random = Random(5)
    sides = [{f"part{n}": [random.gauss(100, 0.3) for _ in range(5)] for n in range(15)} for _ in range(2)]
    sides[1]["part3"] = [value * 1.08 for value in sides[1]["part3"]]
    comparison = compare_summaries(_summary(sides[0]), _summary(sides[1]))
    assert _bucket(comparison, "part3").verdict is Verdict.SLOWER
    assert {each.verdict for each in comparison.buckets if each.component != "part3"} <= {
        Verdict.NOT_SIGNIFICANT,
        Verdict.CANNOT_SAY,
    }
    assert _bucket(comparison, "part3").steady_ns == pytest.approx(8, abs=0.5)
    assert ": part3, forward +" in comparison.verdict
    assert "more time or work in each" in comparison.verdict


def test_four_steps_say_nothing_of_components():
    sides = [_summary({"part": [value * factor for value in _STEADY[:4]]}) for factor in (1, 2)]
    comparison = compare_summaries(*sides)
    assert _bucket(comparison, "part").verdict is Verdict.CANNOT_SAY
    assert "components cannot be judged" in comparison.verdict
    assert assess(comparison, Thresholds()).state is State.WARN


def test_a_mean_that_one_step_made_is_not_called_slower():
    # The mean grows by 170, the median falls: nothing may be said to have become faster, or slower.
    before, after = [100.0, 101, 102, 103, 104, 105], [90.0, 91, 92, 93, 94, 1200]
    comparison = compare_summaries(_summary({"part": before}), _summary({"part": after}))
    assert _bucket(comparison, "part").delta_ns > 0
    assert _bucket(comparison, "part").verdict in (Verdict.CANNOT_SAY, Verdict.NOT_SIGNIFICANT)
    checks = [check for check in assess(comparison, Thresholds()).checks if check.name == "component"]
    assert checks == []


def test_thresholds_are_held_against_what_most_steps_show():
    # Each step but one grew by 2; one by 1,000: the mean grew by 185 %, the median by 2 %.
    before = [100.0, 100.1, 100.2, 100.3, 100.4, 100.5]
    after = [102.0, 102.1, 102.2, 102.3, 102.4, 1100.5]
    comparison = compare_summaries(_summary({"part": before}), _summary({"part": after}))
    part = _bucket(comparison, "part")
    assert part.verdict is Verdict.SLOWER
    assert part.delta_ns == pytest.approx((5 * 2.0 + 1000) / 6, rel=0.01)
    assert part.steady_ns == pytest.approx(2.0)
    assert [check for check in assess(comparison, Thresholds()).checks if check.name == "component"] == []


def test_what_one_side_lacks_is_no_pass():
    whole = _summary({"part": _STEADY})
    checks = assess(compare_summaries(whole, dataclasses.replace(whole, ledger=_ABSENT)), Thresholds()).checks
    assert [check.message for check in checks if check.name == "coverage"] == [
        "ledger on one side only: nothing in it was compared"
    ]


def test_a_step_in_the_midst_that_does_not_count_is_no_pass():
    calm = _summary({"part": _STEADY}, steps=[1000] * 7)
    assert isinstance(calm.steps, Steps)
    series = list(calm.steps.series)
    series[3] = dataclasses.replace(series[3], is_counted=False, duration_ns=4000)
    stalled = dataclasses.replace(calm, steps=dataclasses.replace(calm.steps, series=tuple(series)))
    comparison = compare_summaries(calm, stalled)
    assert comparison.uncovered[0].startswith("1 step after, and 0 before, in the midst of the others do not count")
    assert assess(comparison, Thresholds()).state is State.WARN
    assert compare_summaries(stalled, calm).uncovered == ()


def test_a_component_that_is_new_in_every_step_is_no_chance_and_only_warns():
    comparison = compare_summaries(_summary({"old": _STEADY}), _summary({"old": _STEADY, "fresh": _STEADY}))
    fresh = _bucket(comparison, "fresh")
    assert fresh.verdict is Verdict.SLOWER
    assert fresh.delta_ratio is None
    assert fresh.split.cause == "new"
    assert assess(comparison, Thresholds()).state is State.WARN


def test_what_is_less_than_a_thousandth_of_the_step_is_not_judged():
    tiny = [0.9, 0.91, 0.89, 0.9, 0.92]
    comparison = compare_summaries(_summary({"tiny": [value / 2 for value in tiny]}), _summary({"tiny": tiny}))
    assert _bucket(comparison, "tiny").verdict is Verdict.TOO_SMALL
    assert _bucket(comparison, "tiny").probability is None


def test_time_between_steps_counts_where_steps_do_not_hold_it():
    calm = _summary({"part": _STEADY}, steps=[1000, 1001, 999, 1000, 1002, 1001, 1000], between=5)
    waiting = _summary({"part": _STEADY}, steps=[1000, 1001, 999, 1000, 1002, 1001, 1000], between=405)
    # Both have as many steps in the ledger as without; the steps themselves are alike.
    comparison = compare_summaries(calm, waiting)
    assert comparison.steps is not None
    assert comparison.steps.verdict is Verdict.NOT_SIGNIFICANT
    assert comparison.between is not None
    assert comparison.between.verdict is Verdict.SLOWER
    assert comparison.between.delta_ns == 400
    assert "time between steps changed: +400 ns" in comparison.verdict
    checks = {check.name: check for check in assess(comparison, Thresholds()).checks}
    assert checks["between_steps"].state is State.FAIL
    assert checks["between_steps"].value_ratio == pytest.approx(0.4)


def test_growth_that_scatter_hides_warns_instead_of_passing():
    before = [1000, 1300, 1001, 999, 1002]
    after = [1080, 1081, 1079, 1400, 1082]
    comparison = compare_summaries(_summary({"part": _STEADY}, steps=before), _summary({"part": _STEADY}, steps=after))
    assert comparison.steps is not None
    assert comparison.steps.verdict is Verdict.NOT_SIGNIFICANT
    check = next(each for each in assess(comparison, Thresholds()).checks if each.name == "step_median")
    assert check.state is State.WARN
    assert check.value_ratio == pytest.approx(0.08, abs=0.001)


def test_another_program_is_doubted_where_nothing_else_is_known():
    one, other = _summary({"part": _STEADY}), _summary({"part": _STEADY})
    one, other = (
        dataclasses.replace(each, metadata=dataclasses.replace(each.metadata, programs=programs))
        for each, programs in ((one, ("jit_train_step (3)",)), (other, ("jit_evaluate (9)",)))
    )
    reasons = compare_summaries(one, other).reasons
    assert any("jit_train_step before, jit_evaluate after; is it the same job?" in reason for reason in reasons)
    assert not any("same job" in reason for reason in compare_summaries(one, one).reasons)
