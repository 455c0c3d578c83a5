"""Answers on what bounds an operation, scope, component, kernel, or the whole step: from points under the roofline.

A point is FLOPs and bytes over time. The larger of the two least times (FLOPs at the peak of their formats, bytes at
the bandwidth of the level) is the roof; from 60 % of the time on that it explains, it is named as the bound. Where the
question is about several instructions, their FLOPs, bytes, least times and times are added up. Of what FLOPs and bytes
are made, the answer says: counters of the job, or only the compiler's estimates.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields

from rocktools.evidence import Absence, Evidence, weakest
from rocktools.roofline.verdict import BOUND_RATIO, Bound, Verdict, judge
from rocktools.summary.document import (
    CounterQuantity,
    Missing,
    RooflineBlock,
    RooflinePoint,
    RooflineTable,
    Summary,
)
from rocktools.summary.query_answer import Answer, AnswerFact, AnswerTable, Cell, answer_table, cannot_answer, pointer
from rocktools.summary.query_grammar import Asked
from rocktools.summary.query_subjects import Subject, SubjectKind, find_subject
from rocktools.units import NS_PER_S, count_noun, format_duration, format_ratio, format_si

QUANTITIES = ("total_flop", "fabric_bytes", "fabric_intensity", "l2_hit_ratio", "mfma_utilisation", "occupancy")
"""Quantities of counters that belong to a question of bounds."""
_METRICS = "fabric_bytes,total_flop"
_POINT_CELLS = (
    Cell(name="name", meaning="instruction, kernel or component"),
    Cell(name="union_ns", meaning="time that it covers, devices and steps added up", evidence=Evidence.MEASURED),
    Cell(name="executions_count", meaning="executions of known cost", evidence=Evidence.MEASURED),
    Cell(name="compute_flop", meaning="FLOPs of all of them"),
    Cell(name="moved_bytes", meaning="bytes through the level"),
    Cell(name="intensity_flop_per_byte", meaning="FLOPs over bytes"),
    Cell(name="ridge_flop_per_byte", meaning="where the two ceilings meet", evidence=Evidence.DECLARED),
    Cell(name="peak_ratio", meaning="share of its time that FLOPs take at their peak"),
    Cell(name="bandwidth_ratio", meaning="share of its time that bytes take at the bandwidth"),
    Cell(name="bound", meaning="what explains at least 60 % of the time"),
    Cell(name="mix", meaning="formats that it calculates in"),
    Cell(name="refusal", meaning="why there is no point"),
)
_COUNTER_CELLS = (
    Cell(name="kernel_name", meaning="kernel that was counted"),
    Cell(name="origin", meaning="the job, or a replay of one kernel"),
    Cell(name="proof", meaning="level to which the replay is proven the job's kernel"),
    Cell(name="quantity", meaning="what was counted"),
    Cell(name="value", meaning="mean of its executions"),
    Cell(name="unit", meaning="of the value"),
    Cell(name="dispatches_count", meaning="executions that were counted"),
    Cell(name="doubts", meaning="what is odd about it"),
)
_MOST_NAMED_KERNELS = 8
_PLAIN_NAME = re.compile(r"\w+")
_NAME_THE_PART = "rocktools summarize RUN --part PART -o FILE.json"
_WHOLE_RATIO = 0.95
_POINT_FIELDS = frozenset(each.name for each in fields(RooflinePoint))
_Placed = tuple[int, RooflinePoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Several points as one.

    Attributes:
        union_ns: times added up: where points overlap on a device, they take less than this together.
        compute_ns, traffic_ns: least times, added up.
        verdict: what follows.
    """

    union_ns: int
    sum_ns: int
    compute_flop: int
    moved_bytes: int
    compute_ns: float
    traffic_ns: float
    executions_count: int
    verdict: Verdict


def sum_points(points: Sequence[RooflinePoint]) -> Sum | None:
    """The points that have a verdict as one; None where none has."""
    good = [each for each in points if each.bound is not None and each.union_ns > 0]
    if not good:
        return None
    union = sum(each.union_ns for each in good)
    compute = sum(each.compute_bound_ns or 0.0 for each in good)
    traffic = sum(each.traffic_bound_ns or 0.0 for each in good)
    return Sum(
        union_ns=union,
        sum_ns=sum(each.sum_ns for each in good),
        compute_flop=sum(each.compute_flop or 0 for each in good),
        moved_bytes=sum(each.moved_bytes or 0 for each in good),
        compute_ns=compute,
        traffic_ns=traffic,
        executions_count=sum(each.executions_count for each in good),
        verdict=judge(time_ns=union, compute_ns=compute, traffic_ns=traffic),
    )


def answer_bound(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """What bounds the thing that was named."""
    subject = find_subject(summary, asked.slots["name"])
    counted = _counters_of(summary, subject)
    roofline = summary.roofline
    if isinstance(roofline, Missing):
        return _nothing_known(asked, subject, roofline, counted)
    found = points_of(roofline, subject)
    if found is None:
        reason = (
            roofline.reasons.get("instruction hbm") or roofline.reasons.get("kernel hbm") or "there is no such point"
        )
        absent = Missing(absence=Absence.NOT_COLLECTED, reason=reason)
        return _nothing_known(asked, subject, absent, counted)
    number, points = found
    table = roofline.tables[number]
    whole = sum_points([point for _, point in points])
    if whole is None:
        refusals = sorted({point.refusal for _, point in points if point.refusal})
        absent = Missing(absence=Absence.NOT_COLLECTED, reason="; ".join(refusals) or "no point of it has a verdict")
        return _nothing_known(asked, subject, absent, counted)
    limit = 10 if top_count is None else top_count
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=(*_sentences(asked, subject, table, points, whole), *_replays(summary, subject)),
        facts=_facts(subject, table, number, points, whole),
        tables=(_points_table(table, number, points, limit), *counted),
        commands=tuple(_commands(subject, table)),
    )


def points_of(roofline: RooflineBlock, subject: Subject) -> tuple[int, list[_Placed]] | None:
    """The table, and the points in it that the subject is made of; None where no table has one.

    A component in all phases has a point of its own; in one phase, and for scopes, instructions are added up.
    """
    if subject.kind is SubjectKind.COMPONENT and subject.phase is None:
        choices = [("component", {subject.name}), ("instruction", _instructions(subject))]
    elif subject.kind is SubjectKind.KERNEL and subject.phase is None:
        choices = [("kernel", {subject.name}), ("instruction", _instructions(subject))]
    else:
        choices = [("instruction", _instructions(subject)), ("kernel", _kernels(subject))]
    for by, names in choices:
        for number, table in enumerate(roofline.tables):
            if (table.by, table.level) != (by, "hbm"):
                continue
            points = [(at, point) for at, point in enumerate(table.points) if point.name in names]
            if points:
                return number, points
    return None


def _instructions(subject: Subject) -> set[str]:
    return {each.instruction for _, each in subject.operations if each.instruction and each.activity == "compute"}


def _kernels(subject: Subject) -> set[str]:
    return {name for _, each in subject.operations if each.activity == "compute" for name in each.kernel_names}


def _sentences(
    asked: Asked, subject: Subject, table: RooflineTable, points: Sequence[_Placed], whole: Sum
) -> list[str]:
    verdict = whole.verdict
    compute, traffic = whole.compute_ns / whole.union_ns, whole.traffic_ns / whole.union_ns
    wanted = wanted_bound(asked.slots.get("bound", ""))
    if verdict.bound is Bound.ABOVE_ROOF:
        first = (
            f"{subject.title}: no verdict, since it is faster than the ceilings allow; a number or a ceiling is wrong."
        )
    elif verdict.bound is Bound.NEITHER:
        word = "No: " if wanted else ""
        first = f"{word}{subject.title} is bound by neither memory nor compute."
    elif wanted is None:
        first = f"{subject.title} is {verdict.bound}-bound."
    else:
        first = f"{'Yes' if wanted is verdict.bound else 'No'}: {subject.title} is {verdict.bound}-bound."
    sentences = [
        first,
        f"Of its time its FLOPs at their peak explain {format_ratio(compute)}, its bytes at "
        f"{format_si(points[0][1].bandwidth_bytes_per_s, 'B/s')} {format_ratio(traffic)}; a bound is named from "
        f"{format_ratio(BOUND_RATIO)} on.",
    ]
    if whole.moved_bytes:
        ridge = _ridge(whole, points)
        beside = "" if ridge is None else f", the ridge of its formats is at {ridge:.4g}"
        sentences.append(f"It makes {whole.compute_flop / whole.moved_bytes:.4g} FLOP/B{beside}.")
    if verdict.bound is Bound.NEITHER:
        sentences.append("What else may: latency, occupancy, launches, waiting; shape and layout of small products.")
    sentences.append(f"{table.source[:1].upper()}{table.source[1:]}.")
    if weakest(table.flop_evidence, table.bytes_evidence) is Evidence.COMPILER_ESTIMATE:
        sentences.append(
            "These are estimates of the compiler only: what caches save, and what kernels do beyond them, is not in "
            "them. Counters would measure both."
        )
    covered = covered_ratio(subject, whole)
    if covered is not None and covered < _WHOLE_RATIO:
        sentences.append(f"FLOPs and bytes are known for {format_ratio(covered)} of its compute time only.")
    refused = [point for _, point in points if point.bound is None]
    if len(points) > 1:
        sentences.append(
            f"Added up over {count_noun(len(points) - len(refused), table.by)}; where they overlap on a device, they "
            "take less time than that."
        )
    if refused:
        sentences.append(f"{count_noun(len(refused), table.by)} of it have no point, and are not in these figures.")
    if table.left_out_count:
        sentences.append(f"{count_noun(table.left_out_count, f'shorter {table.by}')} are not in the summary.")
    return sentences


def covered_ratio(subject: Subject, whole: Sum) -> float | None:
    """Part of the compute time of the subject that the sum is of; None where its operations are not known."""
    total = sum(each.sum_ns for _, each in subject.operations if each.activity == "compute")
    return min(1.0, whole.sum_ns / total) if total else None


def wanted_bound(text: str) -> Bound | None:
    """What a question names; None where it asks which."""
    words = text.lower()
    is_memory = any(word in words for word in ("memory", "hbm", "bandwidth"))
    is_compute = any(word in words for word in ("compute", "flop", "mfma", "math"))
    if is_memory == is_compute:
        return Bound.NEITHER if "latency" in words or "launch" in words else None
    return Bound.MEMORY if is_memory else Bound.COMPUTE


def _ridge(whole: Sum, points: Sequence[_Placed]) -> float | None:
    if not whole.compute_ns:
        return None
    peak = whole.compute_flop / whole.compute_ns * NS_PER_S
    return peak / points[0][1].bandwidth_bytes_per_s


def _facts(
    subject: Subject, table: RooflineTable, number: int, points: Sequence[_Placed], whole: Sum
) -> tuple[AnswerFact, ...]:
    """Every number of the verdict."""
    work, how = weakest(table.flop_evidence, table.bytes_evidence), f"added up over {count_noun(len(points), table.by)}"
    source = pointer("roofline", "tables", number, "points", points[0][0]) if len(points) == 1 else ""

    def fact(
        name: str, value: float | int | str | None, evidence: Evidence, threshold: float | None = None
    ) -> AnswerFact:
        return AnswerFact(
            name=name,
            value=value,
            evidence=None if value is None else evidence,
            source=f"{source}/{name}" if source and name in _POINT_FIELDS else source,
            threshold=threshold,
            reason="it moves no bytes" if value is None else "" if source else how,
        )

    intensity = whole.compute_flop / whole.moved_bytes if whole.moved_bytes else None
    union_s = whole.union_ns / NS_PER_S
    return (
        fact("union_ns", whole.union_ns, Evidence.MEASURED),
        fact("executions_count", whole.executions_count, Evidence.MEASURED),
        fact("compute_flop", whole.compute_flop, table.flop_evidence),
        fact("moved_bytes", whole.moved_bytes, table.bytes_evidence),
        fact("intensity_flop_per_byte", intensity, work),
        fact("ridge_flop_per_byte", _ridge(whole, points), Evidence.DECLARED),
        fact("achieved_flop_per_s", whole.compute_flop / union_s, table.flop_evidence),
        fact("achieved_bytes_per_s", whole.moved_bytes / union_s, table.bytes_evidence),
        fact("bandwidth_bytes_per_s", points[0][1].bandwidth_bytes_per_s, table.bandwidth_evidence),
        fact("compute_bound_ns", whole.compute_ns, table.flop_evidence),
        fact("traffic_bound_ns", whole.traffic_ns, table.bytes_evidence),
        fact("compute_of_time_ratio", whole.compute_ns / whole.union_ns, table.flop_evidence, BOUND_RATIO),
        fact("traffic_of_time_ratio", whole.traffic_ns / whole.union_ns, table.bytes_evidence, BOUND_RATIO),
        fact("roof_ratio", whole.verdict.roof_ratio, work, BOUND_RATIO),
        fact("headroom_ns", whole.verdict.headroom_ns, work),
        *_coverage(subject, whole),
        fact("bound", str(whole.verdict.bound), work),
    )


def _coverage(subject: Subject, whole: Sum) -> tuple[AnswerFact, ...]:
    covered = covered_ratio(subject, whole)
    if covered is None:
        return ()
    how = "durations of known cost over those of its compute operations"
    fact = AnswerFact(
        name="known_of_compute_time_ratio",
        value=covered,
        evidence=Evidence.MEASURED,
        source="",
        threshold=_WHOLE_RATIO,
        reason=how,
    )
    return (fact,)


def _points_table(table: RooflineTable, number: int, points: Sequence[_Placed], limit: int) -> AnswerTable:
    return answer_table(
        "points",
        f"points by {table.by} at the level {table.level}, {table.device}",
        _POINT_CELLS,
        [(pointer("roofline", "tables", number, "points", at), point) for at, point in points],
        evidence=weakest(table.flop_evidence, table.bytes_evidence),
        evidence_of={"compute_flop": table.flop_evidence, "moved_bytes": table.bytes_evidence},
        top_count=limit,
    )


def _counters_of(summary: Summary, subject: Subject) -> tuple[AnswerTable, ...]:
    """What was counted of its kernels, in the job and in replays."""
    if isinstance(summary.counters, Missing):
        return ()
    names = {subject.name} if subject.kind is SubjectKind.KERNEL else _kernels(subject)
    records: list[tuple[str, CounterQuantity]] = [
        (pointer("counters", "quantities", at), each)
        for at, each in enumerate(summary.counters.quantities)
        if each.kernel_name in names and each.quantity in QUANTITIES and each.value is not None
    ]
    if not records:
        return ()
    table = answer_table(
        "counters",
        "what was counted of its kernels, one execution",
        _COUNTER_CELLS,
        records,
        evidence=weakest(*(each.evidence for _, each in records if each.evidence is not None)),
        top_count=24,
    )
    return (table,)


def _replays(summary: Summary, subject: Subject) -> list[str]:
    """What replays of its kernels counted, and how far they are proven to be its kernels."""
    if isinstance(summary.counters, Missing):
        return []
    names = {subject.name} if subject.kind is SubjectKind.KERNEL else _kernels(subject)
    found = []
    for each in summary.counters.quantities:
        if each.kernel_name not in names or each.quantity != "fabric_intensity" or each.value is None:
            continue
        if each.origin.startswith("replay:"):
            proof = each.proof or "unproven"
            doubt = ": it may be another kernel than the job's" if proof == "unproven" else ""
            found.append(
                f"Counters of {each.kernel_name} alone ({each.origin}, proof: {proof}{doubt}) "
                f"give {each.value:.4g} FLOP/B."
            )
    return found


def capture_command(subject: Subject) -> str:
    """What would count the kernels of a subject; all kernels, where they are many or have names of C++."""
    names = sorted(_kernels(subject)) or ([subject.name] if subject.kind is SubjectKind.KERNEL else [])
    which = ""
    if len(names) == 1:
        which = f" --kernel {shlex.quote(names[0])}"
    elif 1 < len(names) <= _MOST_NAMED_KERNELS and all(_PLAIN_NAME.fullmatch(name) for name in names):
        which = f" --regex '^({'|'.join(names)})$'"
    return f"rocktools pmc{which} --metrics {_METRICS} -- CMD"


def _of_unknown_device(why: Missing) -> bool:
    """Whether only the ceilings are missing, for nobody knows which part it was."""
    return why.absence is Absence.AMBIGUOUS or "which GPU" in why.reason


def _commands(subject: Subject, table: RooflineTable) -> list[str]:
    found = []
    if weakest(table.flop_evidence, table.bytes_evidence) is not Evidence.COUNTER:
        found.append(capture_command(subject))
    return [*found, f"rocktools roofline RUN --by {table.by}"]


def _nothing_known(asked: Asked, subject: Subject, why: Missing, counted: tuple[AnswerTable, ...]) -> Answer:
    """What to capture, where neither counters nor the program tell enough."""
    base = cannot_answer(asked.intent, why, asked.slots)
    sentences = [f"What bounds {subject.title} is not known. {base.sentences[0]}"]
    if any(each.activity == "communication" for _, each in subject.operations) and not _instructions(subject):
        sentences.append("It is communication: its limit is the network, see `rocktools roofline --level network`.")
        return Answer(
            intent=asked.intent,
            slots=asked.slots,
            is_answered=False,
            sentences=tuple(sentences),
            tables=counted,
            commands=("rocktools roofline RUN --level network", "rocktools collectives RUN"),
        )
    if _of_unknown_device(why):
        return Answer(
            intent=asked.intent,
            slots=asked.slots,
            is_answered=False,
            sentences=(*sentences, "Its ceilings are those of a part: name it."),
            tables=counted,
            commands=(_NAME_THE_PART,),
        )
    sentences.append("Counters of its kernels would tell; they are collected in a run of their own.")
    if not subject.operations or all(each.instruction is None for _, each in subject.operations):
        sentences.append("With the compiled program beside the trace its estimates of FLOPs and bytes would be there.")
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=False,
        sentences=tuple(sentences),
        tables=counted,
        commands=(capture_command(subject), "rocktools summarize RUN --counters PMC_FOLDER -o FILE.json"),
    )


def answer_bound_of_step(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """How much of the time of all kernels is bound by what: a step has no bound of its own."""
    roofline = summary.roofline
    if isinstance(roofline, Missing):
        command = _NAME_THE_PART if _of_unknown_device(roofline) else f"rocktools pmc --metrics {_METRICS} -- CMD"
        return cannot_answer(asked.intent, roofline, asked.slots, (command,))
    for by in ("instruction", "kernel", "component"):
        for number, table in enumerate(roofline.tables):
            if (table.by, table.level) == (by, "hbm") and any(point.bound for point in table.points):
                return _bound_of_step(asked, table, number, top_count)
    absent = Missing(absence=Absence.NOT_COLLECTED, reason="no point has a verdict")
    return cannot_answer(asked.intent, absent, asked.slots)


def _bound_of_step(asked: Asked, table: RooflineTable, number: int, top_count: int | None) -> Answer:
    total = sum(point.union_ns for point in table.points if point.bound)
    by_bound: dict[str, int] = {}
    for point in table.points:
        if point.bound:
            by_bound[point.bound] = by_bound.get(point.bound, 0) + point.union_ns
    evidence = weakest(table.flop_evidence, table.bytes_evidence)
    order = sorted(by_bound, key=lambda name: -by_bound[name])
    parts = ", ".join(
        f"{name.replace('_', ' ')} {format_ratio(by_bound[name] / total)} ({format_duration(by_bound[name])})"
        for name in order
    )
    whole = sum_points(table.points)
    assert whole is not None
    sentences = [
        f"A step has no bound of its own; of the time of compute kernels on all devices and steps "
        f"({format_duration(total)}): {parts}.",
        f"All of it together: FLOPs at their peaks explain {format_ratio(whole.compute_ns / whole.union_ns)}, bytes "
        f"{format_ratio(whole.traffic_ns / whole.union_ns)}.",
        f"{table.source[:1].upper()}{table.source[1:]}.",
    ]
    facts = tuple(
        AnswerFact(
            name=f"{name}_of_time_ratio",
            value=by_bound[name] / total,
            evidence=evidence,
            source=pointer("roofline", "tables", number),
            threshold=BOUND_RATIO,
            reason=f"time of points whose bound is {name}, over that of all",
        )
        for name in order
    )
    points = list(enumerate(table.points))
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=tuple(sentences),
        facts=facts,
        tables=(_points_table(table, number, points, 10 if top_count is None else top_count),),
        commands=("rocktools roofline RUN", "rocktools overlap RUN"),
    )
