"""Answers on steps and devices: why one step is slow, which device is, how long a step takes, how many tokens a second.

A step is compared with the others of its class that count. On its critical device the difference is made of time in
which compute ran, exposed communication, exposed copies and idle time: the four add up to the span, so that their
differences to the mean of the other steps add up to that of the span. Buckets of the ledger, which are sums and may
overlap, then say what ran longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean, median

from rocktools.errors import UsageError
from rocktools.evidence import Absence, Evidence
from rocktools.summary.candidates import SPREAD_RATIO
from rocktools.summary.document import Gap, JobStep, LedgerBucket, Missing, OverlapStep, Steps, Summary
from rocktools.summary.query_answer import (
    Answer,
    AnswerColumn,
    AnswerFact,
    AnswerTable,
    Cell,
    answer_table,
    cannot_answer,
    pointer,
)
from rocktools.summary.query_grammar import Asked
from rocktools.summary.query_pattern import number_of
from rocktools.summary.query_time import measured_fact
from rocktools.units import count_noun, format_duration, format_ratio

SLOW_RATIO = 0.01
"""A step is called slow from this much over the median of the others on, if it is also longer than all of them."""

_GAP_CELLS = (
    Cell(name="device", meaning="device that did nothing"),
    Cell(name="duration_ns", meaning="how long"),
    Cell(name="cause", meaning="host_wait or kernel_wait"),
    Cell(name="is_between_steps", meaning="whether it lies before the step's first work"),
    Cell(name="previous_name", meaning="what ran before it"),
    Cell(name="payload_name", meaning="useful work that followed"),
)
_DEFAULT_COUNT = 10


def _outside(each: OverlapStep) -> float:
    """The window of a step minus the span of its work."""
    return 0.0 if each.step_ns is None else float(each.step_ns - each.span_ns)


_PARTS: tuple[tuple[Callable[[OverlapStep], float], str], ...] = (
    (attrgetter("compute_ns"), "compute"),
    (attrgetter("exposed_communication_ns"), "exposed communication"),
    (attrgetter("exposed_copy_ns"), "exposed copies"),
    (attrgetter("idle_ns"), "idle time"),
    (_outside, "outside of its work"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """A step beside the others of its class.

    Attributes:
        step: the one that was asked about; others: those that it is compared with.
        median_ns: of the others; share_ratio: difference over it.
        is_slow: longer than every other one, and by more than `SLOW_RATIO`.
    """

    step: JobStep
    others: tuple[JobStep, ...]
    median_ns: float
    difference_ns: float
    is_slow: bool


def answer_slow_step(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """What is different about one step; the longest that counts where none was named."""
    steps = summary.steps
    if isinstance(steps, Missing):
        return cannot_answer(asked.intent, steps, asked.slots)
    step, how = _step_named(steps, asked)
    others = _others(steps, step)
    label = _label(step)
    if not others:
        reason = f"there is no other step to compare {label} with; it took {format_duration(step.duration_ns)}"
        absent = Missing(absence=Absence.NOT_COLLECTED, reason=reason)
        return cannot_answer(asked.intent, absent, asked.slots, ("rocktools ledger RUN --part steps",))
    if not step.is_counted:
        return _answer_uncounted(summary, steps, step, asked, _DEFAULT_COUNT if top_count is None else top_count)
    middle = median(each.duration_ns for each in others)
    difference = step.duration_ns - middle
    longest = max(each.duration_ns for each in others)
    compared = _Compared(
        step=step,
        others=others,
        median_ns=middle,
        difference_ns=difference,
        is_slow=step.duration_ns > longest and difference > SLOW_RATIO * middle,
    )
    parts, sentences = _parts(summary, compared)
    limit = _DEFAULT_COUNT if top_count is None else top_count
    tables = [each for each in (parts, _buckets(summary, compared, limit), _gaps(summary, step, limit)) if each]
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=(*how, _verdict(compared, longest), *sentences, *_host(summary, compared), *_late(summary, step)),
        facts=_facts(steps, compared),
        tables=tuple(tables),
        commands=(
            f"rocktools ledger RUN --step {step.step_index}",
            "rocktools gaps RUN --by gap",
            "rocktools rules check RUN",
        ),
    )


def _answer_uncounted(summary: Summary, steps: Steps, step: JobStep, asked: Asked, limit: int) -> Answer:
    """A step that no number is made of: why not, how long it took, and the host's waits around it."""
    counted = tuple(each for each in steps.series if each.is_counted and each is not step)
    middle = median(each.duration_ns for each in counted)
    compared = _Compared(
        step=step,
        others=counted,
        median_ns=middle,
        difference_ns=step.duration_ns - middle,
        is_slow=step.duration_ns > max(each.duration_ns for each in counted)
        and step.duration_ns - middle > SLOW_RATIO * middle,
    )
    is_first = not any(each.run == step.run and each.step_index < step.step_index for each in counted)
    if not step.is_warmup:
        why = "the trace holds only a part of it"
    elif is_first:
        why = "it is warm-up: compilation, autotuning, or the first runs of a program"
    else:
        why = (
            "during it the host compiled, autotuned or loaded an executable, though steps that count came before: "
            "a recompilation, as an input of another shape brings about"
        )
    waits = _waits_around(summary, step)
    sentences = [
        f"{_label(step).capitalize()} does not count: {why}.",
        _verdict(compared, max(each.duration_ns for each in counted)),
        "What ran in it is not in the summary, which is of the steps that count.",
    ]
    if waits:
        longest = max(each.duration_ns for _, each in waits)
        sentences.append(
            f"In it and up to the next step devices waited for the host for up to {format_duration(longest)}."
        )
    tables = (
        () if not waits else (_gap_table(summary, waits, "waits around it, of those that the summary keeps", limit),)
    )
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=tuple(sentences),
        facts=_facts(steps, compared),
        tables=tables,
        commands=(f"rocktools ledger RUN --step {step.step_index}", "rocktools rules check RUN"),
    )


def _waits_around(summary: Summary, step: JobStep) -> list[tuple[str, Gap]]:
    """Gaps in a step, and in front of the next one, that the host made; the longest first."""
    if isinstance(summary.gaps, Missing):
        return []
    return [
        (pointer("gaps", "longest", at), each)
        for at, each in enumerate(summary.gaps.longest)
        if each.run == step.run
        and each.cause == "host_wait"
        and (each.step_index == step.step_index or (each.step_index == step.step_index + 1 and each.is_between_steps))
    ]


def _step_named(steps: Steps, asked: Asked) -> tuple[JobStep, list[str]]:
    """The step by the job's own number, else by its index."""
    if not steps.series:
        raise UsageError(
            "unknown-step", "the summary has no step", hint="--steps, --step-pattern of rocktools summarize"
        )
    if "step" not in asked.slots:
        counted = [each for each in steps.series if each.is_counted] or list(steps.series)
        longest = max(counted, key=lambda each: each.duration_ns)
        return longest, [
            f"The longest step that counts is {_label(longest)}, {format_duration(longest.duration_ns)}.",
            *_longer_uncounted(steps, longest),
        ]
    wanted = number_of(asked.slots["step"])
    numbered = [each for each in steps.series if each.step_number == wanted]
    if numbered:
        return numbered[0], []
    indexed = [each for each in steps.series if each.step_index == wanted]
    if not indexed:
        numbers = [each.step_number if each.step_number is not None else each.step_index for each in steps.series]
        raise UsageError(
            "unknown-step", f"there is no step {wanted} in the summary", hint=f"steps: {numbers[0]} to {numbers[-1]}"
        )
    has_numbers = any(each.step_number is not None for each in steps.series)
    return indexed[0], [f"No step has the number {wanted}; this is the one of index {wanted}."] if has_numbers else []


def _longer_uncounted(steps: Steps, longest: JobStep) -> list[str]:
    """Steps that do not count and took longer than any that does."""
    longer = [
        each
        for each in steps.series
        if not each.is_counted and each.is_complete and each.duration_ns > longest.duration_ns
    ]
    return [
        f"{_label(each).capitalize()} took {format_duration(each.duration_ns)}, and does not count." for each in longer
    ]


def _label(step: JobStep) -> str:
    return f"step {step.step_index if step.step_number is None else step.step_number}"


def _others(steps: Steps, step: JobStep) -> tuple[JobStep, ...]:
    """Steps of the same class; of all, where it is alone in its class."""
    counted = [each for each in steps.series if each.is_counted and each is not step]
    alike = [each for each in counted if each.step_class == step.step_class]
    return tuple(alike or counted)


def _verdict(compared: _Compared, longest: int) -> str:
    step, size = compared.step, abs(compared.difference_ns)
    is_of_class = step.step_class is not None and step.step_class == compared.others[0].step_class
    beside = (
        f"{format_duration(size)} ({format_ratio(size / compared.median_ns)}) "
        f"{'longer' if compared.difference_ns >= 0 else 'shorter'} than the "
        f"{f'median of the {len(compared.others)} other steps' if len(compared.others) > 1 else 'one other step'}"
        f"{f' of class {step.step_class}' if is_of_class else ''}"
    )
    head = (
        f"{_label(step).capitalize()} is{'' if compared.is_slow else ' not'} slow: {format_duration(step.duration_ns)}"
    )
    if compared.is_slow:
        return f"{head}, {beside}, and longer than any of them."
    return (
        f"{head}, {beside}; slow is longer than all others (up to {format_duration(longest)}) and more than "
        f"{format_ratio(SLOW_RATIO)} over their median."
    )


def _facts(steps: Steps, compared: _Compared) -> tuple[AnswerFact, ...]:
    at = steps.series.index(compared.step)
    evidence = steps.evidence

    def derived(name: str, value: float | int, threshold: float | None = None) -> AnswerFact:
        return AnswerFact(
            name=name,
            value=value,
            evidence=evidence,
            source=pointer("steps", "series"),
            threshold=threshold,
            reason=f"of the {len(compared.others)} other steps",
        )

    return (
        measured_fact(
            "duration_ns", compared.step.duration_ns, "steps", "series", at, "duration_ns", evidence=evidence
        ),
        measured_fact(
            "critical_device",
            compared.step.critical_device,
            "steps",
            "series",
            at,
            "critical_device",
            evidence=evidence,
        ),
        derived("others_median_ns", compared.median_ns),
        derived("difference_ns", compared.difference_ns),
        derived("difference_ratio", compared.difference_ns / compared.median_ns, SLOW_RATIO),
    )


def _parts(summary: Summary, compared: _Compared) -> tuple[AnswerTable | None, list[str]]:
    """The difference on the critical device, as what adds up to it."""
    if isinstance(summary.overlap, Missing):
        return None, []
    device, run = compared.step.critical_device, compared.step.run
    mine = [each for each in summary.overlap.steps if (each.run, each.device) == (run, device)]
    this = [each for each in mine if each.step_index == compared.step.step_index]
    indexes = {each.step_index for each in compared.others}
    others = [each for each in mine if each.step_index in indexes]
    if not this or not others:
        return None, ["What ran at once in it is not in the summary."]
    at = summary.overlap.steps.index(this[0])
    rows: list[tuple[str, float, float, float]] = []
    for value, title in _PARTS:
        mine_ns, others_ns = value(this[0]), fmean(map(value, others))
        rows.append((title, mine_ns, others_ns, mine_ns - others_ns))
    rows.sort(key=lambda row: -abs(row[3]))
    total = sum(row[3] for row in rows)
    columns = (
        AnswerColumn(name="part", meaning="what the device did", evidence=summary.overlap.evidence),
        AnswerColumn(name="this_ns", meaning="in this step", evidence=summary.overlap.evidence),
        AnswerColumn(name="others_mean_ns", meaning="mean of the other steps", evidence=summary.overlap.evidence),
        AnswerColumn(name="difference_ns", meaning="this minus the others", evidence=summary.overlap.evidence),
    )
    table = AnswerTable(
        name="parts",
        title=f"what {device} did, against the mean of the others: differences add up to {format_duration(total)}",
        columns=columns,
        rows=tuple(rows),
        sources=tuple(pointer("overlap", "steps", at) for _ in rows),
        cut_rows_count=0,
    )
    first = rows[0]
    sentence = (
        f"On its critical device, {device}, the largest difference is {first[0]}: {format_duration(first[1])} instead "
        f"of {format_duration(first[2])}."
    )
    return table, [sentence]


def _buckets(summary: Summary, compared: _Compared, limit: int) -> AnswerTable | None:
    """Buckets of the ledger whose time in this step differs most from the others."""
    if isinstance(summary.ledger, Missing):
        return None
    keys = {key: at for at, key in enumerate(summary.ledger.series_steps)}
    mine = keys.get(f"{compared.step.run}:{compared.step.step_index}")
    places = [keys[key] for each in compared.others if (key := f"{each.run}:{each.step_index}") in keys]
    if mine is None or not places:
        return None
    rows = [
        (pointer("ledger", "buckets", at), _of_bucket(bucket, mine, places))
        for at, bucket in enumerate(summary.ledger.buckets)
        if len(bucket.series_ns) == len(keys)
    ]
    rows.sort(key=lambda row: -abs(row[1][-1]))
    shown = rows[:limit] if limit else rows
    columns = [
        ("activity", "compute, communication or copy", Evidence.DECLARED),
        ("phase", "phase of the ledger", Evidence.DECLARED),
        ("component", "component by the component map", Evidence.DECLARED),
        ("this_ns", "durations in this step, mean of devices", Evidence.MEASURED),
        ("others_median_ns", "median of the other steps", Evidence.MEASURED),
        ("difference_ns", "this minus the others", Evidence.MEASURED),
    ]
    return AnswerTable(
        name="buckets",
        title="buckets of the ledger that differ most: durations, mean of devices",
        columns=tuple(AnswerColumn(name=name, meaning=text, evidence=how) for name, text, how in columns),
        rows=tuple(row for _, row in shown),
        sources=tuple(source for source, _ in shown),
        cut_rows_count=len(rows) - len(shown),
    )


def _of_bucket(bucket: LedgerBucket, mine: int, places: Sequence[int]) -> tuple[str, str, str, float, float, float]:
    others = median(bucket.series_ns[place] for place in places)
    this = bucket.series_ns[mine]
    return bucket.activity, bucket.phase, bucket.component, this, others, this - others


def _gaps(summary: Summary, step: JobStep, limit: int) -> AnswerTable | None:
    """The longest gaps of the step."""
    if isinstance(summary.gaps, Missing):
        return None
    records: list[tuple[str, Gap]] = [
        (pointer("gaps", "longest", at), each)
        for at, each in enumerate(summary.gaps.longest)
        if each.run == step.run and each.step_index == step.step_index
    ]
    if not records:
        return None
    return _gap_table(summary, records, "its longest gaps, of those that the summary keeps", limit)


def _gap_table(summary: Summary, records: Sequence[tuple[str, Gap]], title: str, limit: int) -> AnswerTable:
    assert not isinstance(summary.gaps, Missing)
    return answer_table("gaps", title, _GAP_CELLS, records, evidence=summary.gaps.evidence, top_count=limit)


def _host(summary: Summary, compared: _Compared) -> list[str]:
    """Whether it looks like compilation: another program ran, or the trace says so."""
    sentences = []
    if len(summary.metadata.programs) > 1:
        names = ", ".join(summary.metadata.programs[:3])
        count = count_noun(len(summary.metadata.programs), "program")
        sentences.append(f"{count} ran ({names}, ...): a step of another shape is compiled when it first runs.")
    named = [each for each in summary.quality.findings if "compil" in each.rule or "compil" in each.message.lower()]
    sentences += [f"A finding speaks of compilation: {each.message}." for each in named[:2]]
    return sentences


def _late(summary: Summary, step: JobStep) -> list[str]:
    """The device that computed longest in the step."""
    if isinstance(summary.overlap, Missing):
        return []
    mine = [each for each in summary.overlap.steps if (each.run, each.step_index) == (step.run, step.step_index)]
    if len(mine) < 2:
        return []
    most = max(mine, key=lambda each: each.compute_ns)
    middle = median(each.compute_ns for each in mine)
    ratio = (most.compute_ns - middle) / middle if middle else 0.0
    if ratio < SPREAD_RATIO:
        return [
            f"No device was late: the one that computed longest, {most.device}, took {format_ratio(ratio)} more than "
            f"the median of {count_noun(len(mine), 'device')} (late is {format_ratio(SPREAD_RATIO)})."
        ]
    return [
        f"{most.device} was late: it computed for {format_duration(most.compute_ns)}, {format_ratio(ratio)} more than "
        f"the median of {count_noun(len(mine), 'device')}, and collectives made the others wait."
    ]
