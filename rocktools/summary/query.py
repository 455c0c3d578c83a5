"""A summary and a question -> the answer, as `rocktools query` gives it.

Nothing is calculated that the summary does not hold; what it lacks is said, with what to capture. The same summary and
question give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocktools.evidence import Evidence
from rocktools.findings import Severity
from rocktools.summary.document import Candidate, Missing, Summary
from rocktools.summary.query_answer import (
    SCHEMA,
    Answer,
    AnswerDocument,
    Cell,
    answer_table,
    cannot_answer,
    pointer,
)
from rocktools.summary.query_bound import answer_bound, answer_bound_of_step
from rocktools.summary.query_context import answer_context, answer_gap_before, answer_gaps
from rocktools.summary.query_devices import answer_slow_device, answer_step_time, answer_throughput
from rocktools.summary.query_grammar import Asked, Intent, parse_question
from rocktools.summary.query_steps import answer_slow_step
from rocktools.summary.query_time import (
    answer_collectives,
    answer_compute_or_communication,
    answer_exposed,
    answer_regions,
    answer_time,
    answer_top_operations,
    measured_fact,
)
from rocktools.units import format_duration, format_si

_CANDIDATE_CELLS = (
    Cell(name="candidate_id", meaning="name of the candidate"),
    Cell(name="subject", meaning="operation, component, collective or device that it is about"),
    Cell(name="most_saved_ns", meaning="what a step would gain at most, if the cause vanished"),
    Cell(name="title", meaning="what to try"),
    Cell(name="because", meaning="the numbers that say so", get=lambda each: _because(each)),
    Cell(name="first_step", meaning="the cheapest thing to do", get=lambda each: each.suggestions[0]),
)
_Answering = Callable[[Summary, Asked, int | None], Answer]


def answer_question(summary: Summary, question: str, *, top_count: int | None = None) -> AnswerDocument:
    """The answers to everything that a question asks for.

    Args:
        top_count: rows of each table; 0: all; None: as many as are read at a glance.

    Raises:
        UsageError: the question is not understood, or something in it has a name that the summary does not know.
    """
    return AnswerDocument(
        schema=SCHEMA,
        question=" ".join(question.split()),
        title=summary.title,
        inputs_sha256=summary.provenance.inputs_sha256,
        is_simulated=summary.is_simulated,
        caveats=_caveats(summary),
        answers=tuple(_ANSWERS[asked.intent](summary, asked, top_count) for asked in parse_question(question)),
    )


def _caveats(summary: Summary) -> tuple[str, ...]:
    """What a reader must know before any number."""
    found = []
    if summary.quality.overview.is_host_only:
        found.append("Nothing ran on a GPU in it: devices are threads of a host.")
    if summary.quality.overview.is_truncation_suspected:
        found.append("The trace may be cut: its exporter stops at the number of events that it has.")
    faults = [each for each in summary.quality.findings if each.severity is Severity.FAULT]
    found += [f"A fault of the files: {each.message} ({each.where})." for each in faults[:3]]
    return tuple(found)


def _answer_next(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """The candidates of the summary, those that may gain most first."""
    found: list[tuple[str, Candidate]] = [
        (pointer("candidates", at), each) for at, each in enumerate(summary.candidates)
    ]
    if not found:
        reason = (
            "no device ran anything that was recorded"
            if summary.quality.overview.is_host_only
            else "none of its numbers reaches a threshold: no bottleneck stands out"
        )
        return Answer(
            intent=asked.intent,
            slots=asked.slots,
            is_answered=True,
            sentences=(f"There is nothing to suggest: {reason}.",),
            commands=("rocktools rules check RUN", "rocktools roofline RUN"),
        )
    first = found[0][1]
    gain = "" if first.most_saved_ns is None else f" At most {format_duration(first.most_saved_ns)} of a step."
    about = f" ({first.subject})" if first.subject else ""
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=(
            f"{first.title}{about}. {first.rationale}{gain}",
            f"First: {first.suggestions[0]}.",
            "Gains overlap and do not add up; one change at a time: rocktools experiment new.",
        ),
        facts=tuple(
            measured_fact(
                each.name,
                each.value,
                *("candidates", 0, "evidence", at, "value"),
                evidence=each.evidence,
                threshold=each.threshold,
            )
            for at, each in enumerate(first.evidence)
        ),
        tables=(
            answer_table(
                "candidates",
                "what to try, what may gain most first",
                _CANDIDATE_CELLS,
                found,
                evidence=Evidence.INFERRED,
                top_count=10 if top_count is None else top_count,
            ),
        ),
        commands=("rocktools rules check RUN",),
    )


def _because(candidate: Candidate) -> str:
    parts = []
    for each in candidate.evidence:
        value = f"{each.value:.4g}" if isinstance(each.value, float) else f"{each.value}"
        threshold = "" if each.threshold is None else f" (from {each.threshold:g})"
        parts.append(f"{each.name} {value}{threshold}")
    return ", ".join(parts)


def _answer_changes(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """One summary cannot tell what changed."""
    other = asked.slots.get("name", "BEFORE.json")
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=False,
        sentences=(
            "One summary cannot tell what changed: two are compared, after a gate has asked whether they may be.",
            "What has to be the same for that is in `provenance` and `metadata.job` of both.",
        ),
        commands=(f"rocktools compare {other} THIS.json",),
    )


def _answer_memory(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """The device with most; never the sum of devices."""
    block = summary.memory
    if isinstance(block, Missing):
        return cannot_answer(asked.intent, block, asked.slots, ("rocktools memory RUN",))
    sentences, facts = [], []
    if block.highest_bytes is not None:
        sentences.append(
            f"At most {format_si(block.highest_bytes, 'B')} were allocated at once on {block.critical_device}."
        )
        facts.append(
            measured_fact("highest_bytes", block.highest_bytes, "memory", "highest_bytes", evidence=block.evidence)
        )
    programs = sorted(enumerate(block.programs), key=lambda each: -each[1].total_bytes)
    if programs:
        at, largest = programs[0]
        sentences.append(
            f"The program {largest.program} reserves {format_si(largest.total_bytes, 'B')} on each device, "
            f"{format_si(largest.temporary_bytes, 'B')} of it temporary."
        )
        facts += [
            measured_fact(
                name,
                getattr(largest, name),
                *("memory", "programs", at, name),
                evidence=block.evidence_of.get(name, block.evidence),
            )
            for name in ("total_bytes", "argument_bytes", "output_bytes", "alias_bytes", "temporary_bytes")
        ]
    for at, each in enumerate(block.allocators[:1]):
        sentences.append(f"XLA's allocator on {each.host} says {format_si(each.peak_bytes, 'B')} at its peak.")
        facts.append(
            measured_fact(
                "peak_bytes", each.peak_bytes, "memory", "allocators", at, "peak_bytes", evidence=block.evidence
            )
        )
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=bool(sentences),
        sentences=tuple(sentences) or ("The summary has no figure of memory.",),
        facts=tuple(facts),
        commands=("rocktools memory RUN",),
    )


_ANSWERS: Mapping[Intent, _Answering] = {
    Intent.TOP_OPERATIONS: answer_top_operations,
    Intent.TIME: answer_time,
    Intent.COMPUTE_OR_COMMUNICATION: answer_compute_or_communication,
    Intent.COLLECTIVES: answer_collectives,
    Intent.EXPOSED_COMMUNICATION: answer_exposed,
    Intent.GAP_BEFORE: answer_gap_before,
    Intent.GAPS: answer_gaps,
    Intent.REGIONS: answer_regions,
    Intent.CONTEXT: answer_context,
    Intent.NEXT: _answer_next,
    Intent.BOUND: answer_bound,
    Intent.BOUND_OF_STEP: answer_bound_of_step,
    Intent.SLOW_STEP: answer_slow_step,
    Intent.SLOW_DEVICE: answer_slow_device,
    Intent.STEP_TIME: answer_step_time,
    Intent.THROUGHPUT: answer_throughput,
    Intent.MEMORY: _answer_memory,
    Intent.CHANGES: _answer_changes,
}
