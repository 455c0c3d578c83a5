"""Questions as people ask them, what they are understood as, and what is not understood at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.errors import UsageError
from rocktools.summary.query_grammar import FORMS, Intent, parse_question, read_sections
from rocktools.summary.query_pattern import clauses_of, compile_rule, fit_rule, number_of

UNDERSTOOD = (
    # The six forms of the source document.
    ("What are the top 10 ops by exclusive time?", "top_operations", {"count": "10"}),
    ("Is comm or compute dominating?", "compute_or_communication", {}),
    ("Which collective is worst?", "collectives", {}),
    ("gap before _linear_softmax_bwd_pallas.1", "gap_before", {"name": "_linear_softmax_bwd_pallas.1"}),
    ("show hierarchical regions", "regions", {}),
    ("show context for op copy.564", "context", {"name": "copy.564"}),
    ("What should we try next?", "next", {}),
    # Ours.
    ("is wi_0 forward memory-bound?", "bound", {"name": "wi_0 forward", "bound": "memory-bound"}),
    ("why is step 12 slow?", "slow_step", {"step": "12"}),
    ("which device is slow?", "slow_device", {}),
    ("how much communication is exposed?", "exposed_communication", {}),
    ("what changed?", "changes", {}),
    # Other ways to ask for operations.
    ("top ops", "top_operations", {}),
    ("top five kernels in the backward pass", "top_operations", {"count": "five", "phase": "backward"}),
    ("show me the 3 slowest operations of attention", "top_operations", {"count": "3", "within": "attention"}),
    ("what is the most expensive kernel", "top_operations", {}),
    ("which ops take the most time in forward?", "top_operations", {"phase": "forward"}),
    ("list the hottest backward ops", "top_operations", {"phase": "backward"}),
    ("which 5 kernels take the most time?", "top_operations", {"count": "5"}),
    # Time.
    ("Where does the time go?", "time", {}),
    ("where is the step time spent", "time", {}),
    ("which component takes the most time?", "time", {}),
    ("show the time breakdown by phase", "time", {}),
    # Communication.
    ("does compute dominate?", "compute_or_communication", {}),
    ("compute vs. communication", "compute_or_communication", {}),
    ("is the step communication-bound?", "compute_or_communication", {}),
    ("what dominates, compute or communication?", "compute_or_communication", {}),
    ("which collectives take the longest?", "collectives", {}),
    ("top 3 collectives", "collectives", {"count": "3"}),
    ("how much of the communication is hidden by compute?", "exposed_communication", {}),
    ("is communication well overlapped with compute?", "exposed_communication", {}),
    ("which collectives are exposed?", "exposed_communication", {}),
    # Idle time.
    ("what are the largest gaps", "gaps", {}),
    ("why is the gpu idle?", "gaps", {}),
    ("how long is the gap before the op fusion.60?", "gap_before", {"name": "fusion.60"}),
    ("why does the device wait before wi_0", "gap_before", {"name": "wi_0"}),
    ("what happens before all-reduce.3?", "gap_before", {"name": "all-reduce.3"}),
    # Regions and context.
    ("show regions under attention/core", "regions", {"name": "attention/core"}),
    ("what scopes are there?", "regions", {}),
    ("tell me about gemm_fusion_dot.81", "context", {"name": "gemm_fusion_dot.81"}),
    ("where does fusion.60 come from?", "context", {"name": "fusion.60"}),
    ("describe kernel gemm_fusion_dot_66", "context", {"name": "gemm_fusion_dot_66"}),
    # What to do.
    ("what's next?", "next", {}),
    ("how can we make it faster?", "next", {}),
    ("any suggestions?", "next", {}),
    ("what is the main bottleneck?", "next", {}),
    # Bounds.
    ("Is the backward pass of attention compute bound?", "bound", {"name": "backward pass of attention"}),
    ("what limits fusion.12?", "bound", {"name": "fusion.12"}),
    ("is expert mlp memory or compute bound?", "bound", {"name": "expert mlp", "bound": "memory or compute bound"}),
    ("why is wi_0 so slow?", "bound", {"name": "wi_0"}),
    ("roofline of lm_head", "bound", {"name": "lm_head"}),
    ("how close is wo backward to the roof?", "bound", {"name": "wo backward"}),
    ("is the step memory-bound?", "bound_of_step", {}),
    # Steps and devices.
    ("why did step 7 take so long?", "slow_step", {"step": "7"}),
    ("tell me why step 3 is slow", "slow_step", {"step": "3"}),
    ("what happened in step 5", "slow_step", {"step": "5"}),
    ("which step is the slowest?", "slow_step", {}),
    ("why are some steps slow?", "slow_step", {}),
    ("is there a straggler?", "slow_device", {}),
    ("which rank is late?", "slow_device", {}),
    ("which gpu is holding the others up", "slow_device", {}),
    ("are the devices balanced?", "slow_device", {}),
    ("how long does a step take?", "step_time", {}),
    ("how many tokens per second?", "throughput", {}),
    ("how much memory is used", "memory", {}),
    # Two summaries.
    ("what regressed since before.json?", "changes", {"name": "before.json"}),
    ("why is it slower than yesterday.json", "changes", {"name": "yesterday.json"}),
    ("did it get slower?", "changes", {}),
    # Politeness, case, quotes.
    ("Please, can you tell me which device is slow", "slow_device", {}),
    ("IS WI_0 MEMORY-BOUND", "bound", {"name": "WI_0"}),
    ('context for "my op"', "context", {"name": "my op"}),
    ("gap before `copy.1`", "gap_before", {"name": "copy.1"}),
)


@pytest.mark.parametrize("question, intent, slots", UNDERSTOOD, ids=[each[0] for each in UNDERSTOOD])
def test_question_is_understood(question: str, intent: str, slots: dict[str, str]) -> None:
    (asked,) = parse_question(question)
    assert asked.intent is Intent(intent)
    assert {name: asked.slots.get(name) for name in slots} == slots


NOT_UNDERSTOOD = (
    "hello world",
    "what is the weather like?",
    "memory communication compute gap op",  # words of rules do not make a question
    "top",
    "gap before",
    "is memory-bound?",
    "why is step slow 12?",
    "which device is blue?",
    "how much communication?!? fish",
    "is the collective op compute gap region slow next?",
    "make it faster",
    "what should the cat try next?",
    "delete everything",
    "show",
    "is step 3 memory-bound or what do you think about this",
)


@pytest.mark.parametrize("question", NOT_UNDERSTOOD)
def test_question_that_no_rule_fits_is_refused_and_told_what_can_be_asked(question: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_question(question)
    assert caught.value.reference == "unknown-question"
    assert caught.value.exit_code == 2
    assert caught.value.hint is not None
    assert all(form in caught.value.hint for form in FORMS.values())


@pytest.mark.parametrize("question", ["", "  ", "???", "x" * 1001])
def test_empty_and_endless_questions_are_refused(question: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_question(question)
    assert caught.value.reference == "no-question"


def test_several_questions_are_answered_in_order_each_once() -> None:
    asked = parse_question("Is comm or compute dominating? Which collective is worst? which collective is worst")
    assert [each.intent for each in asked] == [Intent.COMPUTE_OR_COMMUNICATION, Intent.COLLECTIVES]
    both = parse_question("which device is slow and how much communication is exposed?")
    assert [each.intent for each in both] == [Intent.SLOW_DEVICE, Intent.EXPOSED_COMMUNICATION]


def test_one_part_that_is_not_understood_refuses_the_whole() -> None:
    with pytest.raises(UsageError, match="what is love"):
        parse_question("which device is slow? what is love?")


def test_what_looks_like_the_question_is_offered_first() -> None:
    with pytest.raises(UsageError) as caught:
        parse_question("how much comunication is exposed?")
    assert str(caught.value.hint).startswith(FORMS[Intent.EXPOSED_COMMUNICATION])


@pytest.mark.parametrize("intent", list(Intent))
def test_every_intent_has_a_form_that_is_understood(intent: Intent) -> None:
    form = FORMS[intent].split(" [")[0].replace("OP", "fusion.1").replace("NAME", "wi_0").replace(" N ", " 3 ")
    if intent is Intent.BOUND:
        form = "is wi_0 forward memory-bound?"
    assert parse_question(form)[0].intent is intent


def test_a_rule_fits_the_whole_clause_and_in_any_case() -> None:
    rule = compile_rule("(is|are) [the] {name} <big>", {"big": "big|very big"})
    assert fit_rule(rule, "is the A_b very big ") == {"name": "A_b"}
    assert fit_rule(rule, "IS x BIG ") == {"name": "x"}
    assert fit_rule(rule, "is x big now ") is None
    assert fit_rule(rule, "well is x big ") is None


def test_numbers_are_words_or_digits() -> None:
    assert [number_of(text) for text in ("12", "twelve", "#3", "Ten")] == [12, 12, 3, 10]


def test_clauses_end_where_sentences_do_and_not_within_names() -> None:
    assert clauses_of("what about copy.564? and a/b,c; x") == ["what about copy.564 ", "and a/b,c ", "x "]
    assert clauses_of('show "a. b?"') == ["show \u201ca.\ue000b?\u201d "]


def test_sections_go_on_where_they_are_indented_deeper() -> None:
    assert read_sections("one\n    a|\n        b\n    c\n        d\ntwo\n    e") == [
        ("one", ["a|b", "c d"]),
        ("two", ["e"]),
    ]


@given(st.text(max_size=200))
def test_any_text_is_understood_or_refused_by_name(text: str) -> None:
    refusals = []
    try:
        assert parse_question(text)
    except UsageError as error:
        refusals.append(error.reference)
    assert set(refusals) <= {"unknown-question", "no-question"}


@given(
    st.text("abcdefghijklmnopqrstuvwxyz_0123456789./-", min_size=1, max_size=30).filter(
        lambda text: text.strip(".,:") == text
    )
)
def test_any_name_without_blanks_comes_through_as_it_is(name: str) -> None:
    (asked,) = parse_question(f"show context for op {name}")
    assert asked.intent is Intent.CONTEXT
    assert asked.slots["name"] == name
