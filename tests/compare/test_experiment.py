"""An attempt is recorded only as an experiment: one change, a prediction judged by what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from experiment_summaries import made_summary

from rocktools.compare.experiment import Attempt, Refusal, advice_of, build_plan, build_record
from rocktools.compare.experiment_change import changes_of
from rocktools.compare.experiment_document import Correctness, Decision, Experiment, Judgement, Record
from rocktools.compare.experiment_prediction import parse_prediction
from rocktools.compare.parity import check_parity
from rocktools.errors import UsageError
from rocktools.summary.document import Summary

SLOW = [1000, 1001, 1002, 1003, 1004, 1005]
FAST = [950, 951, 952, 953, 954, 955]
BEFORE = made_summary(SLOW, sha256="a")


def experiment(before: Summary = BEFORE, *, predict: str = "-5%", metric: str = "step", change: str = "") -> Experiment:
    plan = build_plan(
        before,
        "before.json",
        experiment_id="E1",
        created_utc="2026-01-01T00:00:00+00:00",
        hypothesis="less exposed communication",
        change=change,
        prediction=parse_prediction(predict, metric),
    )
    return Experiment(plan=plan, records=())


def attempt(**changed: Any) -> Attempt:
    facts: dict[str, Any] = {
        "before_path": "before.json",
        "after_path": "after.json",
        "change": "",
        "allowed": (),
        "correctness": Correctness.PASSED,
        "correctness_note": "",
        "decision": Decision.KEEP,
        "note": "",
        "recorded_utc": "2026-01-02T00:00:00+00:00",
    }
    return Attempt(**{**facts, **changed})


def recorded(after: Summary, given: Experiment | None = None, **changed: Any) -> Record:
    found = build_record(given or experiment(), BEFORE, after, attempt(**changed))
    assert isinstance(found, Record), found
    return found


def refused(after: Summary, given: Experiment | None = None, **changed: Any) -> Refusal:
    found = build_record(given or experiment(), BEFORE, after, attempt(**changed))
    assert isinstance(found, Refusal), found
    return found


# One change


def test_one_changed_fact_is_the_change() -> None:
    before = made_summary(SLOW, sha256="a", remat_policy="minimal")
    after = made_summary(FAST, sha256="b", remat_policy="full")
    one = build_record(experiment(before), before, after, attempt())
    assert isinstance(one, Record)
    assert [(each.name, each.before, each.after) for each in one.changes] == [("remat_policy", "minimal", "full")]


def test_fact_that_one_side_alone_knows_is_no_recorded_change() -> None:
    assert refused(made_summary(FAST, sha256="b", remat_policy="full")).is_usage


def test_one_flag_is_one_change_and_two_are_two() -> None:
    one = recorded(made_summary(FAST, sha256="b", xla_flags="--b=2 --a=3"))
    assert [(each.name, each.before, each.after) for each in one.changes] == [("xla_flags --a", "1", "3")]
    two = refused(made_summary(FAST, sha256="b", xla_flags="--a=3"))
    assert not two.is_usage
    assert two.reasons[0].startswith("2 changes at once")
    assert "xla_flags --a, xla_flags --b" in two.reasons[0]


def test_flags_in_another_order_are_no_change() -> None:
    assert refused(made_summary(FAST, sha256="b", xla_flags="--b=2 --a=1")).is_usage


def test_two_facts_are_refused_by_name() -> None:
    before = made_summary(SLOW, sha256="a", remat_policy="minimal", rocm_version="7.0")
    after = made_summary(FAST, sha256="b", remat_policy="full", rocm_version="7.1")
    found = build_record(experiment(before), before, after, attempt())
    assert isinstance(found, Refusal)
    assert "remat_policy" in found.reasons[0]
    assert "rocm_version" in found.reasons[0]


@pytest.mark.parametrize(
    "before, after, name, also",
    [
        (
            {"jax_version": "0.10.1", "jaxlib_version": "0.10.1"},
            {"jax_version": "0.10.2", "jaxlib_version": "0.10.2"},
            "jax_version",
            ("jaxlib_version",),
        ),
        (
            {"attention": "dot_product", "config_sha256": "1"},
            {"attention": "cudnn_flash_te", "config_sha256": "2"},
            "attention",
            ("config_sha256",),
        ),
        ({"config_sha256": "1"}, {"config_sha256": "2"}, "config_sha256", ()),
    ],
)
def test_facts_that_change_together_are_one_change(
    before: dict[str, str], after: dict[str, str], name: str, also: tuple[str, ...]
) -> None:
    parity = check_parity(made_summary(SLOW, sha256="a", **before), made_summary(FAST, sha256="b", **after))
    (change,) = changes_of(parity)
    assert (change.name, change.also) == (name, also)


def test_no_recorded_change_needs_words() -> None:
    after = made_summary(FAST, sha256="b")
    without = refused(after)
    assert without.is_usage
    assert "say what did" in without.reasons[0]
    assert recorded(after, change="another kernel").change == "another kernel"
    assert recorded(after, experiment(change="planned words")).change == "planned words"


def test_other_work_is_refused_unless_it_is_the_change() -> None:
    after = made_summary(FAST, sha256="b", mesh="(2, 4)")
    found = refused(after, change="x")
    assert "mesh differs" in found.reasons[0]
    allowed = recorded(after, allowed=("mesh",))
    assert [each.name for each in allowed.changes] == ["mesh"]
    assert any("times are of different work" in each for each in allowed.gate_reasons)


def test_batch_in_several_facts_is_one_change() -> None:
    before = made_summary(SLOW, sha256="a", tokens_per_step_count=262_144)
    after = made_summary(FAST, sha256="b", global_batch_sequences_count=32, tokens_per_step_count=131_072)
    names = ("global_batch_sequences_count", "tokens_per_step_count")
    found = build_record(experiment(before), before, after, attempt(allowed=names))
    assert isinstance(found, Record)
    assert [(each.name, each.also) for each in found.changes] == [
        ("global_batch_sequences_count", ("tokens_per_step_count",))
    ]


def test_same_files_and_another_before_are_refused() -> None:
    assert refused(made_summary(FAST, sha256="a"), change="x").reasons == (
        "both sides are made from the very same files",
    )
    other = build_record(
        experiment(), made_summary(SLOW, sha256="c"), made_summary(FAST, sha256="b"), attempt(change="x")
    )
    assert isinstance(other, Refusal)
    assert "not that of the plan" in other.reasons[0]


@pytest.mark.parametrize("correctness", [Correctness.NOT_CHECKED, Correctness.FAILED])
def test_nothing_is_kept_with_outputs_unchecked(correctness: Correctness) -> None:
    after = made_summary(FAST, sha256="b")
    assert "outputs were found right" in refused(after, change="x", correctness=correctness).reasons[0]
    assert recorded(after, change="x", correctness=correctness, decision=Decision.REVERT).decision is Decision.REVERT


# What was measured


def test_result_is_the_median_with_its_interval_and_the_prediction_is_judged() -> None:
    """Medians 1002.5 and 952.5: -50/1002.5 = -4.99 %."""
    found = recorded(made_summary(FAST, sha256="b"), experiment(predict="-4..-6%"), change="x")
    assert (found.measured.before_ns, found.measured.after_ns) == (1002.5, 952.5)
    assert found.measured.delta_ratio == pytest.approx(-50 / 1002.5)
    assert found.measured.verdict == "faster"
    assert found.judgement is Judgement.CONFIRMED
    assert advice_of(found) == ""


def test_parts_of_the_path_add_up_to_the_span() -> None:
    after = made_summary(FAST, sha256="b", compute_ns=[500] * 6)
    found = recorded(after, change="x")
    deltas = {each.name: each.delta_ns for each in found.critical_path}
    assert sum(deltas.values()) == pytest.approx(sum(FAST) / 6 - sum(SLOW) / 6)
    assert found.critical_path[0].name == "exposed_communication"


def test_component_and_part_can_be_predicted() -> None:
    after = made_summary(SLOW, sha256="b", attention_ns=[80.0, 81.0, 80.0, 81.0, 80.0, 81.0], compute_ns=[400] * 6)
    forward = recorded(after, experiment(predict="-20%", metric="attention/forward"), change="x")
    assert forward.measured.before_ns == pytest.approx(100.25)
    assert forward.judgement is Judgement.CONFIRMED
    both = recorded(after, experiment(predict="-20%", metric="attention"), change="x")
    assert both.measured.before_ns == pytest.approx(3 * 100.25)  # backward is twice forward
    exposed = recorded(after, experiment(predict="+20%", metric="exposed_communication"), change="x")
    assert exposed.measured.delta_ratio == pytest.approx(602.5 / 501.5 - 1, rel=1e-3)
    assert exposed.measured.verdict == "slower"


def test_few_steps_say_nothing_and_are_recorded_so() -> None:
    before = made_summary(SLOW[:3], sha256="a")
    found = build_record(
        experiment(before), before, made_summary(FAST[:3], sha256="b"), attempt(change="x", decision=Decision.AGAIN)
    )
    assert isinstance(found, Record)
    assert found.judgement is Judgement.CANNOT_SAY
    assert found.measured.verdict == "cannot say"


def test_unknown_quantity_is_refused_before_it_is_planned() -> None:
    with pytest.raises(UsageError) as caught:
        experiment(metric="atention")
    assert caught.value.reference == "unknown-metric"
    assert "attention" in str(caught.value.hint)


def test_losses_of_the_same_steps_are_held_against_each_other() -> None:
    before = made_summary(SLOW, sha256="a", losses={0: 10.0, 1: 8.0, 2: 5.0})
    after = made_summary(FAST, sha256="b", losses={1: 8.4, 2: 5.0, 7: 1.0})
    found = build_record(experiment(before), before, after, attempt(change="x"))
    assert isinstance(found, Record)
    assert found.losses is not None
    assert found.losses.steps_count == 2
    assert found.losses.largest_ratio == pytest.approx(0.05)
    assert found.measured.basis == "unprofiled"


def test_attempts_are_numbered_and_advice_speaks_against_the_numbers() -> None:
    first = recorded(made_summary(FAST, sha256="b"), change="x", decision=Decision.REVERT)
    assert first.attempt == 1
    assert advice_of(first) == "the numbers suggest: keep (step is faster)"
    later = recorded(made_summary(FAST, sha256="c"), replace(experiment(), records=(first,)), change="x")
    assert later.attempt == 2
    slower = [duration + 100 for duration in SLOW]
    kept = recorded(made_summary(slower, sha256="b"), change="x")
    assert kept.judgement is Judgement.REFUTED
    assert advice_of(kept) == "the numbers suggest: revert (step is slower)"
