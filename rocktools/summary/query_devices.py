"""Answers on devices, on how long a step takes, and on how many tokens a second that makes."""

from __future__ import annotations

from rocktools.evidence import Absence, Evidence
from rocktools.summary.candidates import SPREAD_RATIO
from rocktools.summary.document import ArrivalSkew, Missing, Summary
from rocktools.summary.query_answer import Answer, AnswerFact, AnswerTable, Cell, answer_table, cannot_answer, pointer
from rocktools.summary.query_grammar import Asked
from rocktools.summary.query_time import measured_fact
from rocktools.units import count_noun, format_duration, format_ratio

_ARRIVAL_CELLS = (
    Cell(name="device", meaning="device"),
    Cell(name="collectives_count", meaning="matched collectives"),
    Cell(name="last_count", meaning="how often it was the last to arrive", evidence=Evidence.INFERRED),
    Cell(name="wait_ns", meaning="waiting for others, all steps", evidence=Evidence.INFERRED),
    Cell(name="transfer_ns", meaning="the rest of their time", evidence=Evidence.INFERRED),
)


def answer_slow_device(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """The device that computes longest, and the one that is last at collectives."""
    block = summary.overlap
    if isinstance(block, Missing):
        return cannot_answer(asked.intent, block, asked.slots)
    found = [(at, each) for at, each in enumerate(block.spread) if each.quantity == "compute"]
    if not found or found[0][1].devices_count < 2:
        one = ", ".join(each.device for each in block.devices) or "none"
        absent = Missing(absence=Absence.NOT_COLLECTED, reason=f"only one device was recorded ({one})")
        return cannot_answer(asked.intent, absent, asked.slots)
    at, spread = max(found, key=lambda each: each[1].spread_ns)
    above = (spread.max_ns - spread.median_ns) / spread.median_ns if spread.median_ns else 0.0
    sentences = [
        f"{spread.critical_device} computes longest: {format_duration(spread.max_ns)} a step, {format_ratio(above)} "
        f"over the median of {count_noun(spread.devices_count, 'device')}, {spread.least_device} shortest with "
        f"{format_duration(spread.min_ns)}."
    ]
    if above < SPREAD_RATIO:
        sentences.insert(0, f"No device is slow: none computes {format_ratio(SPREAD_RATIO)} longer than the median.")
    else:
        sentences.insert(0, f"{spread.critical_device} is slow.")
    place = ("overlap", "spread", at)
    facts = [
        measured_fact(name, getattr(spread, name), *place, name, evidence=block.evidence)
        for name in ("critical_device", "max_ns", "median_ns", "min_ns", "spread_ratio")
    ]
    facts.append(
        AnswerFact(
            name="above_median_ratio",
            value=above,
            evidence=block.evidence,
            source=pointer(*place),
            threshold=SPREAD_RATIO,
            reason="max_ns over median_ns, minus one",
        )
    )
    tables, more = _arrivals(summary, top_count)
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=(*sentences, *more),
        facts=tuple(facts),
        tables=(_devices(summary, top_count), *tables),
        commands=("rocktools ranks RUN",),
    )


def _devices(summary: Summary, top_count: int | None) -> AnswerTable:
    block = summary.overlap
    assert not isinstance(block, Missing)
    names = ("compute_ns", "communication_ns", "exposed_communication_ns", "idle_ns", "span_ns")
    cells = (
        Cell(name="device", meaning="device"),
        *(Cell(name=name, meaning="mean of its steps, overlaps counted once") for name in names),
    )
    records = sorted(enumerate(block.devices), key=lambda each: -each[1].compute_ns)
    return answer_table(
        "devices",
        "devices by compute time, mean of their steps",
        cells,
        [(pointer("overlap", "devices", at), each) for at, each in records],
        evidence=block.evidence,
        top_count=16 if top_count is None else top_count,
    )


def _arrivals(summary: Summary, top_count: int | None) -> tuple[tuple[AnswerTable, ...], list[str]]:
    """Who was last at collectives."""
    block = summary.collectives
    if isinstance(block, Missing):
        return (), []
    if not block.arrivals:
        return (), [
            f"Who is last at collectives cannot be told: {block.arrivals_reason}."
        ] if block.arrivals_reason else []
    records: list[tuple[str, ArrivalSkew]] = [
        (pointer("collectives", "arrivals", at), each)
        for at, each in sorted(enumerate(block.arrivals), key=lambda each: -each[1].last_count)
    ]
    last = records[0][1]
    count = last.collectives_count or 1
    table = answer_table(
        "arrivals",
        "devices at collectives, the one that is last most often first",
        _ARRIVAL_CELLS,
        records,
        evidence=block.evidence,
        top_count=16 if top_count is None else top_count,
    )
    return (table,), [
        f"{last.device} is last at {format_ratio(last.last_count / count)} of {count_noun(count, 'collective')}, and "
        f"waits for {format_duration(last.wait_ns / count)} at a mean one."
    ]


def answer_step_time(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """How long steps take: without a profiler where a log says so, and in the trace."""
    sentences, facts = [], []
    if not isinstance(summary.step_log, Missing) and summary.step_log.statistics is not None:
        log, found = summary.step_log, summary.step_log.statistics
        what = (
            "one sample, which says nothing of the spread"
            if log.is_single_sample
            else f"median of {found.samples_count}"
        )
        left = f"{log.warmup_steps_count} warm-up and {log.profiled_steps_count} profiled steps left out"
        spread = "" if found.spread_ratio is None else f", IQR {format_ratio(found.spread_ratio)} of it"
        sentences.append(f"Unprofiled: {format_duration(found.median_ns)} ({what}{spread}; {left}).")
        facts += [
            measured_fact(name, getattr(found, name), "step_log", "statistics", name, evidence=log.evidence)
            for name in ("median_ns", "iqr_ns", "samples_count")
        ]
    steps = summary.steps
    if not isinstance(steps, Missing) and steps.statistics is not None:
        stats = steps.statistics
        what = "one sample" if stats.samples_count == 1 else f"median of {stats.samples_count}"
        sentences.append(
            f"Profiled: {format_duration(stats.median_ns)} ({what}), {format_duration(stats.min_ns)} to "
            f"{format_duration(stats.max_ns)}; {steps.warmup_steps_count} warm-up and {steps.cut_steps_count} cut "
            "steps left out."
        )
        facts += [
            measured_fact(name, getattr(stats, name), "steps", "statistics", name, evidence=steps.evidence)
            for name in ("median_ns", "iqr_ns", "p90_ns", "min_ns", "max_ns", "samples_count")
        ]
    if not sentences:
        reason = steps.reason if isinstance(steps, Missing) else "no step counts"
        return cannot_answer(asked.intent, Missing(absence=Absence.NOT_COLLECTED, reason=reason), asked.slots)
    if isinstance(summary.step_log, Missing):
        sentences.append("A profiler costs time of its own; --step-log of rocktools summarize takes an unprofiled log.")
    return Answer(
        intent=asked.intent, slots=asked.slots, is_answered=True, sentences=tuple(sentences), facts=tuple(facts)
    )


def answer_throughput(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """Tokens over unprofiled time; never over that of a profiled step."""
    block = summary.throughput
    hint = ("rocktools summarize RUN --step-log LOG -o FILE.json",)
    if isinstance(block, Missing):
        return cannot_answer(asked.intent, block, asked.slots, hint)
    whole, each = block.tokens_per_s, block.tokens_per_device_per_s
    if not isinstance(whole.value, (int, float)) and not isinstance(each.value, (int, float)):
        missing = whole.missing or Missing(absence=Absence.NOT_COLLECTED, reason="tokens of a step are not known")
        return cannot_answer(asked.intent, missing, asked.slots, hint)
    shown = [
        f"{fact.value:,.1f} tokens/s {where}"
        for fact, where in ((whole, "in all"), (each, "on each device"))
        if isinstance(fact.value, (int, float))
    ]
    spread = "" if block.relative_spread_ratio is None else f", IQR {format_ratio(block.relative_spread_ratio)}"
    sentence = (
        f"{', '.join(shown)}: {block.statistic} of {count_noun(block.samples_count, 'sample')} of "
        f"{format_duration(block.step_ns)} without a profiler{spread}."
    )
    tokens = block.tokens_per_step_count
    of_what = "As the job printed it: tokens of an update are not known."
    if isinstance(tokens.value, (int, float)):
        source = f"({tokens.source}), padding included unless that says otherwise"
        of_what = f"Tokens of an update: {tokens.value:,} {source}."
    facts = [
        AnswerFact(
            name=name,
            value=fact.value,
            evidence=fact.evidence,
            source=pointer("throughput", name, "value"),
            reason="" if fact.missing is None else fact.missing.reason,
        )
        for name, fact in (
            ("tokens_per_s", whole),
            ("tokens_per_device_per_s", each),
            ("tokens_per_step_count", block.tokens_per_step_count),
        )
    ]
    return Answer(
        intent=asked.intent, slots=asked.slots, is_answered=True, sentences=(sentence, of_what), facts=tuple(facts)
    )
