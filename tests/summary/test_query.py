"""Answers of a small run against its summary, and of made summaries against arithmetic."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

import pytest
from summary_documents import any_record

from rocktools.errors import UsageError
from rocktools.evidence import Absence, Evidence
from rocktools.roofline.verdict import BOUND_RATIO
from rocktools.summary.build import build_summary
from rocktools.summary.document import (
    CounterQuantity,
    CountersBlock,
    Gap,
    GapBefore,
    JobStep,
    LedgerBucket,
    Missing,
    OverlapStep,
    RooflineBlock,
    RooflinePoint,
    RooflineTable,
    Summary,
    summary_document,
)
from rocktools.summary.gathered import SummaryOptions
from rocktools.summary.query import answer_question
from rocktools.summary.query_answer import Answer, answer_json
from rocktools.summary.query_grammar import FORMS, Intent
from rocktools.summary.query_subjects import SubjectKind, find_subject

QUESTIONS = (
    "what are the top 10 ops by exclusive time?",
    "top ops in backward",
    "top ops of attention",
    "where does the time go?",
    "is communication or compute dominating? which collective is worst?",
    "how much communication is exposed?",
    "gap before custom-call.2",
    "what are the largest gaps?",
    "show hierarchical regions",
    "show regions under wi_0",
    "show context for op gemm_fusion_dot.1",
    "show context for component attention",
    "what should we try next?",
    "is wi_0 forward memory-bound?",
    "is wi_0 memory-bound?",
    "is attention compute-bound?",
    "is the step memory-bound?",
    "why is step 1 slow?",
    "which step is slowest?",
    "which device is slow?",
    "how long is a step?",
)
NO_BLOCK = Missing(absence=Absence.NOT_COLLECTED, reason="it was left out for a test")


def ask(summary: Summary, question: str, **options: Any) -> Answer:
    (answer,) = answer_question(summary, question, **options).answers
    return answer


def value_at(document: Any, pointer: str) -> Any:
    """What a JSON pointer leads to."""
    found = document
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


# Every number leads back to the summary


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_source_leads_to_the_number_in_the_summary(scoped_summary: Summary, question: str) -> None:
    document = summary_document(scoped_summary)
    for answer in answer_question(scoped_summary, question, top_count=0).answers:
        assert answer.is_answered, answer.sentences
        for fact in answer.facts:
            if not fact.source:
                assert fact.reason, fact.name
                continue
            found = value_at(document, fact.source)
            if fact.source.endswith(f"/{fact.name}"):
                assert found == fact.value
        for table in answer.tables:
            assert len(table.sources) == len(table.rows)
            for row, source in zip(table.rows, table.sources, strict=True):
                record = value_at(document, source)
                for column, value in zip(table.columns, row, strict=True):
                    if column.name in record:
                        assert record[column.name] == value, (source, column.name)


@pytest.mark.parametrize("question", QUESTIONS)
def test_answer_is_a_document_and_the_same_each_time(scoped_summary: Summary, question: str) -> None:
    first = json.dumps(answer_json(answer_question(scoped_summary, question)), allow_nan=False)
    assert json.dumps(answer_json(answer_question(scoped_summary, question)), allow_nan=False) == first
    document = json.loads(first)
    assert document["schema"] == "rocktools.answer/1"
    assert document["inputs_sha256"] == scoped_summary.provenance.inputs_sha256
    assert document["is_simulated"] is True


@pytest.mark.parametrize("question", QUESTIONS)
def test_number_has_evidence_or_a_reason(scoped_summary: Summary, question: str) -> None:
    for answer in answer_question(scoped_summary, question).answers:
        for fact in answer.facts:
            assert (fact.value is None) == (fact.evidence is None)
            assert fact.value is not None or fact.reason


def test_missing_block_is_told_with_its_reason(scoped_summary: Summary) -> None:
    names = ("steps", "ledger", "overlap", "operations", "collectives", "gaps", "regions", "roofline", "memory")
    bare = replace(scoped_summary, **dict.fromkeys(names, NO_BLOCK), candidates=())
    for intent, form in FORMS.items():
        question = form.split(" [")[0].replace(" N ", " 1 ").replace("OP", "x").replace("NAME", "x")
        if intent in (Intent.BOUND, Intent.NEXT, Intent.CHANGES):
            continue
        answer = ask(bare, question)
        assert not answer.is_answered
        assert "left out for a test" in answer.sentences[0] or "no log of an unprofiled run" in answer.sentences[0]


# Operations, time, communication


def test_top_operations_are_those_with_most_exclusive_time(scoped_summary: Summary) -> None:
    answer = ask(scoped_summary, "top 3 ops")
    everything = sorted(scoped_summary.operations.operations, key=lambda each: -each.exclusive_ns)  # type: ignore[union-attr]
    assert [row[0] for row in answer.tables[0].rows] == [each.name for each in everything[:3]]
    assert answer.tables[0].cut_rows_count == len(everything) - 3


def test_top_operations_of_a_phase_and_of_a_name_are_those_only(scoped_summary: Summary) -> None:
    backward = ask(scoped_summary, "top ops in the backward pass", top_count=0).tables[0]
    assert {row[1] for row in backward.rows} == {"backward"}
    expected = {each.name for each in scoped_summary.operations.operations if each.component == "attention"}  # type: ignore[union-attr]
    assert {row[0] for row in ask(scoped_summary, "top ops of attention").tables[0].rows} == expected


def test_exposed_communication_is_that_of_the_overlap(scoped_summary: Summary) -> None:
    answer = ask(scoped_summary, "how much communication is exposed?")
    facts = {each.name: each.value for each in answer.facts}
    mean = scoped_summary.overlap.mean  # type: ignore[union-attr]
    assert facts["exposed_communication_ns"] == mean.exposed_communication_ns
    assert facts["communication_ns"] == pytest.approx(
        facts["hidden_communication_ns"] + facts["exposed_communication_ns"]
    )


def test_dominating_is_what_covers_more_of_the_step(scoped_summary: Summary) -> None:
    mean = scoped_summary.overlap.mean  # type: ignore[union-attr]
    word = "Compute" if mean.compute_ns >= mean.communication_ns else "Communication"
    assert ask(scoped_summary, "compute vs communication").sentences[0].startswith(f"{word} dominates")


def test_host_threads_and_cut_traces_are_told_before_any_answer(scoped_summary: Summary) -> None:
    assert answer_question(scoped_summary, "where does the time go?").caveats == ()
    overview = replace(scoped_summary.quality.overview, is_host_only=True, is_truncation_suspected=True)
    doubtful = replace(scoped_summary, quality=replace(scoped_summary.quality, overview=overview))
    caveats = answer_question(doubtful, "where does the time go?").caveats
    assert caveats[0] == "Nothing ran on a GPU in it: devices are threads of a host."
    assert "may be cut" in caveats[1]


# Names


def test_names_mean_instruction_then_component_then_scope_then_kernel(scoped_summary: Summary) -> None:
    kinds = {
        "gemm_fusion_dot.1": SubjectKind.INSTRUCTION,
        "attention": SubjectKind.COMPONENT,
        "wi_0": SubjectKind.SCOPE,
        "model/layers/wi_0": SubjectKind.SCOPE,
        "gemm_fusion_dot_1": SubjectKind.KERNEL,
        "Expert MLP": SubjectKind.COMPONENT,
        "%custom-call.2": SubjectKind.INSTRUCTION,
        "the backward pass": SubjectKind.PHASE,
        "remat": SubjectKind.PHASE,
    }
    assert {name: find_subject(scoped_summary, name).kind for name in kinds} == kinds


@pytest.mark.parametrize(
    "text",
    ["wi_0 forward", "forward wi_0", "the forward pass of wi_0", "wi_0 in forward", "wi_0 fwd", "WI_0 (forward)"],
)
def test_phase_may_stand_on_either_side(scoped_summary: Summary, text: str) -> None:
    subject = find_subject(scoped_summary, text)
    assert (subject.name, subject.phase) == ("wi_0", "forward")
    assert [each.instruction for _, each in subject.operations] == ["gemm_fusion_dot.1"]


def test_scope_in_all_phases_has_the_operations_of_all(scoped_summary: Summary) -> None:
    found = {each.instruction: each.phase for _, each in find_subject(scoped_summary, "wi_0").operations}
    assert found == {"gemm_fusion_dot.1": "forward", "loop_multiply_fusion.2": "rematerialized"}


def test_phase_alone_is_all_of_it(scoped_summary: Summary) -> None:
    found = {each.name for _, each in find_subject(scoped_summary, "backward pass").operations}
    assert found == {each.name for each in scoped_summary.operations.operations if each.phase == "backward"}  # type: ignore[union-attr]
    answer = ask(scoped_summary, "is the backward pass memory-bound?")
    expected = [
        point
        for table in scoped_summary.roofline.tables  # type: ignore[union-attr]
        if (table.by, table.level) == ("instruction", "hbm")
        for point in table.points
        if point.name in found
    ]
    assert {each.name: each.value for each in answer.facts}["union_ns"] == sum(
        point.union_ns for point in expected if point.bound is not None
    )


def test_name_that_is_not_there_gets_those_that_look_like_it(scoped_summary: Summary) -> None:
    with pytest.raises(UsageError) as caught:
        ask(scoped_summary, "is wi_00 memory-bound?")
    assert (caught.value.reference, caught.value.exit_code) == ("unknown-subject", 2)
    assert "wi_0" in str(caught.value.hint)


def test_phase_in_which_nothing_ran_is_refused_with_those_that_did(scoped_summary: Summary) -> None:
    with pytest.raises(UsageError) as caught:
        ask(scoped_summary, "is wi_0 backward memory-bound?")
    assert caught.value.reference == "nothing-in-phase"
    assert caught.value.hint == "it ran in: forward, rematerialized"


# Bounds


def _point(name: str, union_ns: int, compute_ns: float, traffic_ns: float, **others: Any) -> RooflinePoint:
    facts = {
        "run": "run",
        "name": name,
        "union_ns": union_ns,
        "sum_ns": union_ns,
        "compute_flop": int(compute_ns * 1000),  # at a peak of 1e12 FLOP/s
        "moved_bytes": int(traffic_ns * 8),  # at a bandwidth of 8e9 B/s
        "bandwidth_bytes_per_s": 8e9,
        "compute_bound_ns": compute_ns,
        "traffic_bound_ns": traffic_ns,
        "executions_count": 2,
        "bound": "neither",
        "refusal": None,
        "evidence": Evidence.COUNTER,
    }
    return any_record(RooflinePoint, Random(1), **{**facts, **others})


def _with_points(summary: Summary, *points: RooflinePoint, **table: Any) -> Summary:
    facts: dict[str, Any] = {
        "by": "instruction",
        "level": "hbm",
        "device": "D",
        "bandwidth_evidence": Evidence.DECLARED,
        "source": "FLOPs and bytes: counter",
        "flop_evidence": Evidence.COUNTER,
        "bytes_evidence": Evidence.COUNTER,
        "left_out_count": 0,
    }
    made = any_record(RooflineTable, Random(2), **{**facts, **table, "points": points})
    return replace(summary, roofline=RooflineBlock(tables=(made,), reasons={}))


@pytest.mark.parametrize(
    "compute_ns, traffic_ns, memory, compute",
    [(100.0, 600.0, "Yes", "No"), (600.0, 100.0, "No", "Yes"), (599.0, 599.9, "No", "No"), (100.0, 1100.0, "", "")],
)
def test_bound_is_named_from_six_tenths_of_the_time_on(
    scoped_summary: Summary, compute_ns: float, traffic_ns: float, memory: str, compute: str
) -> None:
    summary = _with_points(scoped_summary, _point("gemm_fusion_dot.1", 1000, compute_ns, traffic_ns))
    for word, expected in (("memory", memory), ("compute", compute)):
        answer = ask(summary, f"is wi_0 forward {word}-bound?")
        facts = {each.name: each for each in answer.facts}
        assert facts["traffic_of_time_ratio"].value == traffic_ns / 1000
        assert facts["compute_of_time_ratio"].value == compute_ns / 1000
        assert facts["roof_ratio"].threshold == BOUND_RATIO == 0.6
        if expected:
            assert answer.sentences[0].startswith(f"{expected}: wi_0, forward is ")
        else:
            assert "faster than the ceilings allow" in answer.sentences[0]


def test_points_of_several_instructions_are_added_up(scoped_summary: Summary) -> None:
    """wi_0 in all phases is two instructions: 300 + 500 of bytes in 1000 is 0.8; each by itself 0.5 and 1.25."""
    first = _point("gemm_fusion_dot.1", 600, 10.0, 300.0)
    second = _point("loop_multiply_fusion.2", 400, 20.0, 500.0)
    answer = ask(_with_points(scoped_summary, first, second), "is wi_0 memory-bound?")
    facts = {each.name: each.value for each in answer.facts}
    assert facts["union_ns"] == 1000
    assert facts["traffic_of_time_ratio"] == pytest.approx(0.8)
    assert facts["compute_of_time_ratio"] == pytest.approx(0.03)
    assert facts["intensity_flop_per_byte"] == pytest.approx(30_000 / 6400)
    assert facts["ridge_flop_per_byte"] == pytest.approx(1e12 / 8e9)
    assert facts["achieved_bytes_per_s"] == pytest.approx(6400 / 1000e-9)
    assert answer.sentences[0] == "Yes: wi_0 is memory-bound."
    assert all(not each.source and each.reason for each in answer.facts)


def test_points_of_other_instructions_do_not_count(scoped_summary: Summary) -> None:
    mine = _point("gemm_fusion_dot.1", 1000, 10.0, 700.0)
    other = _point("loop_multiply_fusion.2", 10_000, 10.0, 10.0)
    assert (
        ask(_with_points(scoped_summary, other, mine), "is forward wi_0 memory-bound?").sentences[0].startswith("Yes")
    )


def test_estimates_of_the_compiler_are_called_so_and_counters_are_offered(scoped_summary: Summary) -> None:
    answer = ask(scoped_summary, "is wi_0 forward memory-bound?")
    assert any("estimates of the compiler only" in each for each in answer.sentences)
    assert "rocktools pmc --kernel gemm_fusion_dot_1 --metrics fabric_bytes,total_flop -- CMD" in answer.commands
    evidence = {each.name: each.evidence for each in answer.facts}
    assert evidence["compute_flop"] is Evidence.COMPILER_ESTIMATE
    assert evidence["union_ns"] is Evidence.MEASURED
    counted = ask(
        _with_points(scoped_summary, _point("gemm_fusion_dot.1", 10, 1.0, 1.0)), "is wi_0 forward memory-bound?"
    )
    assert not any("estimates" in each for each in counted.sentences)
    assert not any("rocktools pmc" in each for each in counted.commands)


def test_what_nobody_knows_is_no_verdict_and_says_what_to_capture(scoped_summary: Summary) -> None:
    answer = ask(replace(scoped_summary, roofline=NO_BLOCK), "is wi_0 forward memory-bound?")
    assert not answer.is_answered
    assert answer.facts == ()
    assert answer.commands[0] == "rocktools pmc --kernel gemm_fusion_dot_1 --metrics fabric_bytes,total_flop -- CMD"
    library = ask(scoped_summary, "is custom-call.2 memory-bound?")  # a library's kernel: the compiler has no estimate
    assert not library.is_answered
    assert "neither FLOPs nor bytes are known" in library.sentences[0]


@pytest.mark.parametrize("proof, doubt", [("unproven", "it may be another kernel"), ("identical", "")])
def test_counters_of_a_replay_are_told_with_their_proof(scoped_summary: Summary, proof: str, doubt: str) -> None:
    counted = any_record(
        CounterQuantity,
        Random(3),
        origin="replay:gemm",
        proof=proof,
        kernel_name="gemm_fusion_dot_1",
        quantity="fabric_intensity",
        value=12.5,
        evidence=Evidence.COUNTER,
    )
    block = any_record(CountersBlock, Random(4), quantities=(counted,))
    answer = ask(replace(scoped_summary, counters=block), "is wi_0 forward memory-bound?")
    (sentence,) = (each for each in answer.sentences if "alone" in each)
    assert f"replay:gemm, proof: {proof}" in sentence
    assert "12.5 FLOP/B" in sentence
    assert ("it may be another kernel" in sentence) == bool(doubt)
    (table,) = (each for each in answer.tables if each.name == "counters")
    assert table.rows[0][1:3] == ("replay:gemm", proof)


def test_device_that_nobody_knows_is_to_be_named_and_not_counted(scoped_summary: Summary) -> None:
    unknown = Missing(absence=Absence.AMBIGUOUS, reason="what is recorded of the GPU fits MI300X and MI325X")
    for question in ("is wi_0 forward memory-bound?", "is the step memory-bound?"):
        answer = ask(replace(scoped_summary, roofline=unknown), question)
        assert not answer.is_answered
        assert answer.commands == ("rocktools summarize RUN --part PART -o FILE.json",)


def test_part_without_a_known_cost_is_said(scoped_summary: Summary) -> None:
    """Attention is a library's kernel and a conversion; of the first no FLOPs are known."""
    answer = ask(scoped_summary, "is attention memory-bound?")
    mine = [each for each in scoped_summary.operations.operations if each.component == "attention"]  # type: ignore[union-attr]
    known = sum(each.sum_ns for each in mine if each.instruction == "wrapped_convert.1")
    covered = next(each.value for each in answer.facts if each.name == "known_of_compute_time_ratio")
    assert covered == pytest.approx(known / sum(each.sum_ns for each in mine))
    assert any("of its compute time only" in each for each in answer.sentences)


def test_step_is_bound_by_shares_of_its_kernels(scoped_summary: Summary) -> None:
    points = (
        _point("a", 600, 1.0, 500.0, bound="memory"),
        _point("b", 300, 200.0, 1.0, bound="compute"),
        _point("c", 100, 1.0, 1.0),
        _point("d", 999, 1.0, 1.0, bound=None, refusal="FLOPs are not known"),
    )
    answer = ask(_with_points(scoped_summary, *points), "is the step memory-bound?")
    facts = {each.name: each.value for each in answer.facts}
    assert facts == {
        "memory_of_time_ratio": 0.6,
        "compute_of_time_ratio": 0.3,
        "neither_of_time_ratio": 0.1,
    }


# Idle time


def test_gap_is_found_by_payload_by_marker_and_by_a_part_of_the_name(scoped_summary: Summary) -> None:
    def row(payload: str, marker: str | None, total_ns: int) -> GapBefore:
        return any_record(
            GapBefore,
            Random(3),
            payload_name=payload,
            marker_name=marker,
            cause="host_wait",
            total_ns=total_ns,
            gaps_count=1,
            longest_ns=total_ns,
        )

    gaps = replace(
        scoped_summary.gaps,
        before=(row("gemm.1", "iota.3", 100), row("gemm.12", None, 30), row("copy.1", None, 5)),
        longest=(any_record(Gap, Random(4), payload_name="gemm.12", duration_ns=30),),
        total_ns=200,
    )
    summary = replace(scoped_summary, gaps=gaps)
    found = {
        name: [each[5 - 1] for each in ask(summary, f"gap before {name}").tables[0].rows]
        for name in ("gemm.1", "iota.3", "gemm")
    }
    assert found == {"gemm.1": [100], "iota.3": [100], "gemm": [100, 30]}
    answer = ask(summary, "gap before gemm")
    assert "130 ns in 2 gaps" in answer.sentences[0]
    assert "65.0 % of all idle time" in answer.sentences[0]
    assert any("marker (iota.3)" in each for each in answer.sentences)


def test_operation_without_a_gap_is_no_error_and_one_that_is_not_there_is(scoped_summary: Summary) -> None:
    gaps = replace(scoped_summary.gaps, before=(), before_total_count=0)
    answer = ask(replace(scoped_summary, gaps=gaps), "gap before custom-call.2")
    assert answer.sentences == ("No device was idle before custom-call.2.",)
    with pytest.raises(UsageError, match="unknown-subject"):
        ask(scoped_summary, "gap before nothing_of_that_name")


# Steps


def _steps(summary: Summary, durations: list[int], **changed: Any) -> Summary:
    """The summary with steps of these durations on two devices; on `slow` the extra time of step 2 is idle."""
    series = tuple(
        any_record(
            JobStep,
            Random(5),
            run="run",
            step_index=at,
            step_number=10 + at,
            duration_ns=duration,
            critical_device="slow",
            is_counted=True,
            is_warmup=False,
            step_class=None,
        )
        for at, duration in enumerate(durations)
    )
    steps = replace(summary.steps, series=series, **changed)
    places = []
    for at, duration in enumerate(durations):
        for device, compute in (("quick", 500), ("slow", 550)):
            exposed, copies = 200 + at, 3
            places.append(
                any_record(
                    OverlapStep,
                    Random(6),
                    run="run",
                    device=device,
                    step_index=at,
                    compute_ns=compute,
                    exposed_communication_ns=exposed,
                    exposed_copy_ns=copies,
                    idle_ns=duration - 7 - compute - exposed - copies,
                    span_ns=duration - 7,
                    step_ns=duration,
                )
            )
    bucket = any_record(
        LedgerBucket, Random(8), activity="compute", phase="forward", component="a", series_ns=(1.0, 2.0, 30.0, 4.0)
    )
    even = replace(bucket, component="b", series_ns=(5.0, 5.0, 5.0, 5.0))
    return replace(
        summary,
        steps=steps,
        overlap=replace(summary.overlap, steps=tuple(places)),
        ledger=replace(
            summary.ledger, series_steps=tuple(f"run:{at}" for at in range(len(durations))), buckets=(even, bucket)
        ),
    )


def test_slow_step_is_one_that_is_longer_than_all_others_and_than_their_median(scoped_summary: Summary) -> None:
    durations = [1000, 1010, 2000, 1005]
    answer = ask(_steps(scoped_summary, durations), "why is step 12 slow?")
    facts = {each.name: each.value for each in answer.facts}
    others = [1000, 1010, 1005]
    assert facts["duration_ns"] == 2000
    assert facts["others_median_ns"] == median(others)
    assert facts["difference_ns"] == 2000 - 1005
    assert answer.sentences[0].startswith(
        "Step 12 is slow: 2 µs, 995 ns (99.0 %) longer than the median of the 3 other"
    )


def test_parts_of_a_slow_step_add_up_to_its_difference(scoped_summary: Summary) -> None:
    durations = [1000, 1010, 2000, 1005]
    answer = ask(_steps(scoped_summary, durations), "why is step 12 slow?")
    parts = {row[0]: row for row in answer.tables[0].rows}
    assert sum(row[3] for row in parts.values()) == pytest.approx(2000 - fmean([1000, 1010, 1005]))
    # Idle is what is left: 2000-7-550-202-3 = 1238 against the mean of 240, 249 and 242.
    assert parts["idle time"][1:] == pytest.approx((1238, fmean([240, 249, 242]), 1238 - fmean([240, 249, 242])))
    assert parts["outside of its work"][1:] == (7, 7, 0)
    assert "the largest difference is idle time" in answer.sentences[1]


def test_buckets_of_a_slow_step_are_ranked_by_how_far_they_are_off(scoped_summary: Summary) -> None:
    answer = ask(_steps(scoped_summary, [1000, 1010, 2000, 1005]), "why is step 12 slow?")
    buckets = next(each for each in answer.tables if each.name == "buckets")
    assert buckets.rows == (
        ("compute", "forward", "a", 30.0, 2.0, 28.0),  # median of 1, 2 and 4
        ("compute", "forward", "b", 5.0, 5.0, 0.0),
    )
    assert buckets.sources == ("/ledger/buckets/1", "/ledger/buckets/0")


def test_step_that_is_like_the_others_is_not_called_slow(scoped_summary: Summary) -> None:
    summary = _steps(scoped_summary, [1000, 1010, 1012, 1005])
    assert ask(summary, "why is step 11 slow?").sentences[0].startswith("Step 11 is not slow")
    # Longer than all others, but by less than a hundredth of their median.
    assert ask(summary, "why is step 12 slow?").sentences[0].startswith("Step 12 is not slow")


def test_step_is_named_by_the_number_of_the_job_else_by_its_index(scoped_summary: Summary) -> None:
    summary = _steps(scoped_summary, [1000, 1010, 2000, 1005])
    assert ask(summary, "why is step 2 slow?").sentences[0] == "No step has the number 2; this is the one of index 2."
    assert ask(summary, "which step is slowest?").sentences[0] == "The longest step that counts is step 12, 2 µs."
    with pytest.raises(UsageError) as caught:
        ask(summary, "why is step 99 slow?")
    assert (caught.value.reference, caught.value.hint) == ("unknown-step", "steps: 10 to 13")


def test_step_is_compared_within_its_class(scoped_summary: Summary) -> None:
    """A heavy step beside a heavy one is not slow, though it takes twice as long as the light ones."""
    summary = _steps(scoped_summary, [1000, 2010, 2000, 1005])
    steps = summary.steps
    classes = ("light", "heavy", "heavy", "light")
    series = tuple(replace(each, step_class=name) for each, name in zip(steps.series, classes, strict=True))  # type: ignore[union-attr]
    answer = ask(replace(summary, steps=replace(steps, series=series)), "why is step 12 slow?")
    assert answer.sentences[0].startswith("Step 12 is not slow")
    assert "of class heavy" in answer.sentences[0]


@pytest.mark.parametrize(
    "number, why",
    [(10, "it is warm-up: compilation, autotuning"), (12, "a recompilation, as an input of another shape")],
)
def test_step_that_does_not_count_says_why_and_how_long_it_took(scoped_summary: Summary, number: int, why: str) -> None:
    """Warm-up at the beginning is one thing, and behind steps that count another: the host compiled again."""
    summary = _steps(scoped_summary, [1000, 1010, 2000, 1005])
    steps = summary.steps
    series = tuple(
        replace(each, is_counted=each.step_number != number, is_warmup=each.step_number == number)
        for each in steps.series  # type: ignore[union-attr]
    )
    wait = any_record(
        Gap, Random(9), run="run", step_index=3, is_between_steps=True, cause="host_wait", duration_ns=777_000
    )
    gaps = replace(summary.gaps, longest=(wait, replace(wait, step_index=2, is_between_steps=True, duration_ns=5)))
    answer = ask(replace(summary, steps=replace(steps, series=series), gaps=gaps), f"why is step {number} slow?")
    assert answer.is_answered
    assert answer.sentences[0].startswith(f"Step {number} does not count: ")
    assert why in answer.sentences[0]
    facts = {each.name: each.value for each in answer.facts}
    others = [duration for at, duration in enumerate([1000, 1010, 2000, 1005]) if 10 + at != number]
    assert facts["others_median_ns"] == median(others)
    assert any("up to 777 µs" in each for each in answer.sentences) == (number == 12)


def test_one_step_alone_is_compared_with_nothing(scoped_summary: Summary) -> None:
    answer = ask(_steps(scoped_summary, [1000]), "why is step 10 slow?")
    assert not answer.is_answered
    assert "no other step to compare step 10 with; it took 1 µs" in answer.sentences[0]


# Devices


def test_device_is_slow_from_a_twentieth_over_the_median_on(scoped_summary: Summary) -> None:
    overlap = scoped_summary.overlap
    for longest, is_slow in ((1040, False), (1060, True)):
        spread = tuple(
            replace(
                each, devices_count=8, critical_device="gpu3", max_ns=float(longest), median_ns=1000.0, min_ns=990.0
            )
            for each in overlap.spread  # type: ignore[union-attr]
        )
        answer = ask(replace(scoped_summary, overlap=replace(overlap, spread=spread)), "which device is slow?")
        assert answer.sentences[0].startswith("gpu3 is slow" if is_slow else "No device is slow")
        facts = {each.name: each for each in answer.facts}
        assert facts["above_median_ratio"].value == pytest.approx(longest / 1000 - 1)
        assert facts["above_median_ratio"].threshold == 0.05


def test_one_summary_does_not_tell_what_changed(scoped_summary: Summary) -> None:
    answer = ask(scoped_summary, "what regressed since before.json?")
    assert not answer.is_answered
    assert answer.commands == ("rocktools compare before.json THIS.json",)


def test_throughput_is_never_made_of_profiled_steps(scoped_summary: Summary) -> None:
    answer = ask(scoped_summary, "how many tokens per second?")
    assert not answer.is_answered
    assert "--step-log" in answer.commands[0]


def test_candidates_are_those_of_the_summary_in_their_order(scoped_summary: Summary) -> None:
    answer = ask(scoped_summary, "what should we try next?", top_count=0)
    assert scoped_summary.candidates
    assert [row[0] for row in answer.tables[0].rows] == [each.candidate_id for each in scoped_summary.candidates]
    bare = ask(replace(scoped_summary, candidates=()), "what should we try next?")
    assert bare.is_answered
    assert "nothing to suggest" in bare.sentences[0]


def test_scopes_have_their_share_of_the_phase(scoped_summary: Summary) -> None:
    (table,) = ask(scoped_summary, "show hierarchical regions", top_count=0).tables
    names = [column.name for column in table.columns]
    at, phase, inclusive = (
        names.index(name) for name in ("inclusive_of_phase_ratio", "phase", "inclusive_per_step_ns")
    )
    whole = {row[phase]: row[inclusive] for row in table.rows if str(row[0]).startswith("(")}
    for row in table.rows:
        assert row[at] == pytest.approx(row[inclusive] / whole[row[phase]])  # type: ignore[operator]


def test_step_time_says_what_was_left_out_and_how_far_samples_differ(
    scoped_run: Path, options: SummaryOptions, tmp_path: Path
) -> None:
    log = tmp_path / "steps.csv"
    log.write_text("step,seconds\n0,9\n1,2.0\n2,2.2\n3,2.1\n", encoding="utf-8")
    summary = build_summary([scoped_run], replace(options, step_log=log, log_warmup_steps_count=1))
    answer = ask(summary, "how long is a step?")
    assert answer.sentences[0] == (
        "Unprofiled: 2.100 s (median of 3, IQR 4.8 % of it; 1 warm-up and 0 profiled steps left out)."
    )
    assert answer.sentences[1].startswith("Profiled: ")
    one = build_summary([scoped_run], replace(options, step_log=log, log_warmup_steps_count=3))
    assert "one sample, which says nothing of the spread" in ask(one, "how long is a step?").sentences[0]


def test_regions_below_a_scope_are_all_that_are_below_it(scoped_summary: Summary) -> None:
    answer = ask(scoped_summary, "show regions under layers", top_count=0)
    expected = [each for each in scoped_summary.regions.regions if "layers" in each.path]  # type: ignore[union-attr]
    assert len(answer.tables[0].rows) == len(expected)
    assert Counter(row[1] for row in answer.tables[0].rows) == Counter(each.phase for each in expected)
