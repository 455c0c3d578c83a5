"""Answers on where the time went: operations, phases, scopes, communication."""

from __future__ import annotations

from dataclasses import replace

from rocktools.evidence import Evidence
from rocktools.summary.document import Collective, CollectiveKind, LedgerBucket, Missing, Operation, Region, Summary
from rocktools.summary.query_answer import Answer, AnswerFact, AnswerTable, Cell, answer_table, cannot_answer, pointer
from rocktools.summary.query_grammar import Asked, Intent
from rocktools.summary.query_pattern import number_of
from rocktools.summary.query_subjects import find_subject, phase_of
from rocktools.units import count_noun, format_duration, format_ratio

OPERATION_CELLS = (
    Cell(name="name", meaning="instruction; or kernel or kind of copy without one"),
    Cell(name="phase", meaning="phase of the ledger", evidence=Evidence.DECLARED),
    Cell(name="component", meaning="component by the component map", evidence=Evidence.DECLARED),
    Cell(name="activity", meaning="compute, communication or copy", evidence=Evidence.DECLARED),
    Cell(name="exclusive_per_step_ns", meaning="time in which nothing else ran there, per device and step"),
    Cell(name="exclusive_share_ratio", meaning="share of all exclusive time"),
    Cell(name="sum_per_step_ns", meaning="durations, per device and step"),
    Cell(name="rows_count", meaning="executions on all devices"),
    Cell(name="scope", meaning="named scopes", evidence=Evidence.DECLARED),
)
_REGION_CELLS = (
    Cell(name="region", meaning="named scope, below that of its parent", get=lambda each: _indented(each)),
    Cell(name="phase", meaning="phase of the ledger", evidence=Evidence.DECLARED),
    Cell(name="inclusive_per_step_ns", meaning="durations in it, per device and step"),
    Cell(name="exclusive_per_step_ns", meaning="durations in no scope inside of it"),
    Cell(name="inclusive_of_phase_ratio", meaning="inclusive, of all durations of the phase"),
    Cell(name="communication_ns", meaning="part of all inclusive durations that is communication"),
    Cell(name="rows_count", meaning="kernels and copies"),
)
_BUCKET_CELLS = (
    Cell(name="activity", meaning="compute, communication or copy", evidence=Evidence.DECLARED),
    Cell(name="phase", meaning="phase of the ledger", evidence=Evidence.DECLARED),
    Cell(name="component", meaning="component by the component map", evidence=Evidence.DECLARED),
    Cell(name="sum_per_step_ns", meaning="durations, per device and step"),
    Cell(name="union_per_step_ns", meaning="the same, overlaps counted once"),
    Cell(name="share_ratio", meaning="share of all durations"),
    Cell(name="rows_count", meaning="kernels and copies on all devices and steps"),
)
_COLLECTIVE_CELLS = (
    Cell(name="instruction", meaning="HLO instruction"),
    Cell(name="collective", meaning="kind"),
    Cell(name="phase", meaning="phase of its name stack", evidence=Evidence.DECLARED),
    Cell(name="sum_ns", meaning="durations on all devices and steps"),
    Cell(name="mean_ns", meaning="of one execution"),
    Cell(name="wait_ns", meaning="of a mean execution: waiting for the last device"),
    Cell(name="payload_bytes", meaning="of one execution and device"),
    Cell(name="bus_bytes_per_s", meaning="payload over time, by the factor of its kind and group"),
)
_KIND_CELLS = (
    Cell(name="collective", meaning="kind"),
    Cell(name="phase", meaning="phase of its name stack", evidence=Evidence.DECLARED),
    Cell(name="sum_ns", meaning="durations on all devices and steps"),
    Cell(name="share_ratio", meaning="share of all durations"),
    Cell(name="rows_count", meaning="executions"),
)
_DEFAULT_COUNT = 10


def measured_fact(
    name: str,
    value: float | int | str | None,
    *place: str | int,
    evidence: Evidence,
    threshold: float | None = None,
) -> AnswerFact:
    """A number of the summary; None says that it is not known."""
    source = pointer(*place)
    if value is None:
        return AnswerFact(name=name, value=None, evidence=None, source=source, reason="the summary has no value")
    return AnswerFact(name=name, value=value, evidence=evidence, source=source, threshold=threshold)


def answer_top_operations(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """The operations with most exclusive time, of one phase or below one name where it was said."""
    block = summary.operations
    if isinstance(block, Missing):
        return cannot_answer(asked.intent, block, asked.slots)
    wanted = number_of(asked.slots["count"]) if "count" in asked.slots else top_count
    limit = _DEFAULT_COUNT if wanted is None else wanted
    found: list[tuple[int, Operation]] = list(enumerate(block.operations))
    where = ""
    if "within" in asked.slots:
        subject = find_subject(summary, asked.slots["within"])
        found, where = list(subject.operations), f" of {subject.title}"
    if "phase" in asked.slots:
        phase = phase_of(asked.slots["phase"])
        found, where = [each for each in found if each[1].phase == phase], f"{where}, {phase}"
    found.sort(key=lambda each: -each[1].exclusive_ns)
    table = answer_table(
        "operations",
        f"operations{where} by exclusive time",
        OPERATION_CELLS,
        [(pointer("operations", "operations", at), each) for at, each in found],
        evidence=block.evidence,
        evidence_of=block.evidence_of,
        top_count=limit,
    )
    shown = found[:limit] if limit else found
    total = sum(each.exclusive_ns for _, each in shown)
    sentences = []
    if not shown:
        sentences.append(f"No operation{where} is in the summary.")
    else:
        first = shown[0][1]
        share = format_ratio(total / block.total_exclusive_ns) if block.total_exclusive_ns else "no part"
        sentences.append(
            f"{first.name} ({first.phase}, {first.component}) has most exclusive time{where}: "
            f"{format_duration(first.exclusive_per_step_ns)} a step on each device; the {len(shown)} shown have "
            f"{share} of all exclusive time."
        )
    if block.rest is not None:
        sentences.append(f"{count_noun(block.rest.operations_count, 'shorter operation')} are not in the summary.")
    facts = (
        measured_fact(
            "total_exclusive_ns", block.total_exclusive_ns, "operations", "total_exclusive_ns", evidence=block.evidence
        ),
    )
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=tuple(sentences),
        facts=facts,
        tables=(table,),
    )


def answer_time(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """The buckets of the ledger with most time."""
    block = summary.ledger
    if isinstance(block, Missing):
        return cannot_answer(asked.intent, block, asked.slots)
    named = [each for each in block.buckets if each.sum_per_step_ns > 0]
    sentences = [
        f"A device sums up {format_duration(block.total_per_step_ns)} of kernels and copies in a step, in "
        f"{count_noun(len(named), 'bucket')}; sums count overlaps more than once."
    ]
    if named:
        first = named[0]
        sentences.append(
            f"Most goes to {first.component}, {first.phase} ({first.activity}): "
            f"{format_duration(first.sum_per_step_ns)}, {format_ratio(first.share_ratio)} of it."
        )
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=tuple(sentences),
        facts=(
            measured_fact(
                "total_per_step_ns",
                block.total_per_step_ns,
                "ledger",
                "total_per_step_ns",
                evidence=Evidence.MEASURED,
            ),
        ),
        tables=(buckets_table(block.buckets, _DEFAULT_COUNT if top_count is None else top_count),),
        commands=("rocktools ledger RUN",),
    )


def buckets_table(buckets: tuple[LedgerBucket, ...], top_count: int) -> AnswerTable:
    """Buckets of the ledger as a table."""
    records = [(pointer("ledger", "buckets", at), each) for at, each in enumerate(buckets)]
    return answer_table(
        "buckets",
        "buckets of the ledger, the longest first",
        _BUCKET_CELLS,
        records,
        evidence=Evidence.MEASURED,
        top_count=top_count,
    )


def answer_compute_or_communication(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """Which of the two covers more of a step, what of communication a step pays, and its kinds."""
    block = summary.overlap
    if isinstance(block, Missing):
        return cannot_answer(asked.intent, block, asked.slots)
    mean = block.mean
    is_compute = mean.compute_ns >= mean.communication_ns
    longer, shorter = ("compute", "communication") if is_compute else ("communication", "compute")
    times = {"compute": mean.compute_ns, "communication": mean.communication_ns}
    span = mean.span_ns or 1.0
    hidden = "" if block.hidden_ratio is None else f"; {format_ratio(block.hidden_ratio)} of all of it is hidden"
    sentences = [
        f"{longer.capitalize()} dominates: it runs for {format_duration(times[longer])} of a step of "
        f"{format_duration(mean.span_ns)} ({format_ratio(times[longer] / span)}), {shorter} for "
        f"{format_duration(times[shorter])} ({format_ratio(times[shorter] / span)}), mean of devices, overlaps counted "
        "once.",
        f"Communication that a step pays for, since no compute runs: {format_duration(mean.exposed_communication_ns)}"
        f"{hidden}.",
    ]
    facts = [
        measured_fact(name, getattr(mean, name), "overlap", "mean", name, evidence=block.evidence)
        for name in ("span_ns", "compute_ns", "communication_ns", "exposed_communication_ns", "idle_ns")
    ]
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=tuple(sentences),
        facts=tuple(facts),
        tables=_kinds(summary, top_count),
        commands=("rocktools overlap RUN",),
    )


def _kinds(summary: Summary, top_count: int | None) -> tuple[AnswerTable, ...]:
    block = summary.collectives
    if isinstance(block, Missing):
        return ()
    records: list[tuple[str, CollectiveKind]] = [
        (pointer("collectives", "kinds", at), each) for at, each in enumerate(block.kinds)
    ]
    return (
        answer_table(
            "collective_kinds",
            "kinds of collectives, the longest first",
            _KIND_CELLS,
            records,
            evidence=block.evidence,
            evidence_of=block.evidence_of,
            top_count=_DEFAULT_COUNT if top_count is None else top_count,
        ),
    )


def answer_collectives(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """The collectives with most time, and which of them shows most of it."""
    block = summary.collectives
    if isinstance(block, Missing):
        return cannot_answer(asked.intent, block, asked.slots)
    wanted = number_of(asked.slots["count"]) if "count" in asked.slots else top_count
    records: list[tuple[str, Collective]] = [
        (pointer("collectives", "operations", at), each) for at, each in enumerate(block.operations)
    ]
    table = answer_table(
        "collectives",
        "collectives, the longest first",
        _COLLECTIVE_CELLS,
        records,
        evidence=block.evidence,
        evidence_of=block.evidence_of,
        top_count=_DEFAULT_COUNT if wanted is None else wanted,
    )
    worst = block.operations[0]
    share = worst.sum_ns / block.total_sum_ns if block.total_sum_ns else 0.0
    sentences = [
        f"{worst.instruction or worst.collective or 'an unnamed collective'} ({worst.collective or 'kind unknown'}, "
        f"{worst.phase}) takes most: {format_duration(worst.mean_ns)} each of {count_noun(worst.rows_count, 'time')}, "
        f"{format_ratio(share)} of all time of collectives."
    ]
    exposed = exposed_operations(summary)
    facts = [measured_fact("total_sum_ns", block.total_sum_ns, "collectives", "total_sum_ns", evidence=block.evidence)]
    if exposed:
        at, most = exposed[0]
        sentences.append(
            f"Most of what a step pays is {most.name}: {format_duration(most.exclusive_per_step_ns)} a step on each "
            "device with nothing else running."
        )
        facts.append(
            measured_fact(
                "exclusive_per_step_ns",
                most.exclusive_per_step_ns,
                *("operations", "operations", at, "exclusive_per_step_ns"),
                evidence=Evidence.MEASURED,
            )
        )
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=tuple(sentences),
        facts=tuple(facts),
        tables=(table,),
        commands=("rocktools collectives RUN",),
    )


def exposed_operations(summary: Summary) -> list[tuple[int, Operation]]:
    """Communication by exclusive time, the longest first."""
    if isinstance(summary.operations, Missing):
        return []
    found = [
        (at, each)
        for at, each in enumerate(summary.operations.operations)
        if each.activity == "communication" and each.exclusive_ns > 0
    ]
    return sorted(found, key=lambda each: -each[1].exclusive_ns)


def answer_exposed(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """Communication that no compute covers, and the collectives that it is made of."""
    block = summary.overlap
    if isinstance(block, Missing):
        return cannot_answer(asked.intent, block, asked.slots)
    mean = block.mean
    if not mean.communication_ns:
        sentences = ["Nothing was communicated in the steps that count."]
    else:
        of_span = "" if block.exposed_ratio is None else f", {format_ratio(block.exposed_ratio)} of its span"
        hidden = mean.hidden_communication_ns
        sentences = [
            f"{format_duration(mean.exposed_communication_ns)} of {format_duration(mean.communication_ns)} of "
            f"communication is exposed, mean of devices and steps{of_span}; {format_duration(hidden)} "
            f"({format_ratio(hidden / mean.communication_ns)}) runs under compute.",
            "Exposed is time in which a collective runs and no compute kernel does: what a step would gain at most.",
        ]
    facts = [
        measured_fact(name, getattr(mean, name), "overlap", "mean", name, evidence=block.evidence)
        for name in ("communication_ns", "hidden_communication_ns", "exposed_communication_ns", "span_ns")
    ]
    facts += [
        measured_fact(name, getattr(block, name), "overlap", name, evidence=block.evidence)
        for name in ("exposed_ratio", "hidden_ratio")
    ]
    tables: list[AnswerTable] = []
    exposed = exposed_operations(summary)
    if exposed:
        tables.append(
            answer_table(
                "exposed_collectives",
                "communication by time in which nothing else ran",
                OPERATION_CELLS,
                [(pointer("operations", "operations", at), each) for at, each in exposed],
                evidence=Evidence.MEASURED,
                top_count=_DEFAULT_COUNT if top_count is None else top_count,
            )
        )
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=tuple(sentences),
        facts=tuple(facts),
        tables=tuple(tables),
        commands=("rocktools overlap RUN",),
    )


def answer_regions(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """The hierarchy of scopes in each phase; below one scope where it was named."""
    block = summary.regions
    if isinstance(block, Missing):
        return cannot_answer(asked.intent, block, asked.slots)
    found: list[tuple[int, Region]] = list(enumerate(block.regions))
    where = ""
    if "name" in asked.slots:
        subject = find_subject(summary, asked.slots["name"])
        parts = subject.name.split("/")
        found = [(at, each) for at, each in found if _is_below(each.path, parts)]
        where = f" under {subject.name}"
        if subject.phase is not None:
            found = [(at, each) for at, each in found if each.phase == subject.phase]
    whole = {each.phase: each.inclusive_ns for each in block.regions if not each.path}
    cells = [
        replace(cell, get=lambda each: each.inclusive_ns / whole[each.phase] if whole.get(each.phase) else None)
        if cell.name == "inclusive_of_phase_ratio"
        else cell
        for cell in _REGION_CELLS
    ]
    table = answer_table(
        "regions",
        f"scopes{where}, parents before children",
        cells,
        [(pointer("regions", "regions", at), each) for at, each in found],
        evidence=block.evidence,
        top_count=40 if top_count is None else top_count,
    )
    sentences = [f"{count_noun(len(found), 'scope')}{where}, each phase by itself."]
    if not found:
        sentences = [f"No region is called so{where}; a component may have no scope of its name."]
    if block.left_out_count:
        sentences.append(f"{count_noun(block.left_out_count, 'more scope')} are not in the summary.")
    return Answer(
        intent=Intent.REGIONS,
        slots=asked.slots,
        is_answered=bool(found),
        sentences=tuple(sentences),
        tables=(table,) if found else (),
    )


def _is_below(path: tuple[str, ...], parts: list[str]) -> bool:
    return any(list(path[start : start + len(parts)]) == parts for start in range(len(path) - len(parts) + 1))


def _indented(region: Region) -> str:
    if not region.path:
        return f"({region.phase})"
    return f"{'. ' * region.depth_count}{region.path[-1]}"
