"""Answers on idle time, and on what is around one operation."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.summary.document import Gap, GapBefore, GapsBlock, Missing, Operation, Region, RooflinePoint, Summary
from rocktools.summary.query_answer import Answer, AnswerFact, AnswerTable, Cell, answer_table, cannot_answer, pointer
from rocktools.summary.query_grammar import Asked
from rocktools.summary.query_pattern import number_of
from rocktools.summary.query_subjects import SubjectKind, find_subject
from rocktools.summary.query_time import measured_fact
from rocktools.units import count_noun, format_duration, format_ratio

_BEFORE_CELLS = (
    Cell(name="payload_name", meaning="what useful work began with after the gap"),
    Cell(name="marker_name", meaning="tiny operation in front of it, which ended the gap"),
    Cell(name="cause", meaning="host_wait: it was launched too late; kernel_wait: launched in time"),
    Cell(name="gaps_count", meaning="gaps on all devices and steps"),
    Cell(name="total_ns", meaning="all of them together"),
    Cell(name="mean_ns", meaning="of one"),
    Cell(name="longest_ns", meaning="the longest"),
    Cell(name="phase", meaning="phase of the payload", evidence=Evidence.DECLARED),
    Cell(name="scope", meaning="named scopes of the payload", evidence=Evidence.DECLARED),
)
_GAP_CELLS = (
    Cell(name="device", meaning="device that did nothing"),
    Cell(name="step_index", meaning="step it is in"),
    Cell(name="duration_ns", meaning="how long"),
    Cell(name="cause", meaning="host_wait or kernel_wait"),
    Cell(name="previous_name", meaning="what ran before it"),
    Cell(name="marker_name", meaning="tiny operation that ended it"),
    Cell(name="payload_name", meaning="useful work that followed"),
)
_CONTEXT_CELLS = (
    Cell(name="phase", meaning="phase of the ledger", evidence=Evidence.DECLARED),
    Cell(name="scope", meaning="named scope", get=lambda each: "/".join(each.path), evidence=Evidence.DECLARED),
    Cell(name="inclusive_per_step_ns", meaning="durations in the scope, per device and step"),
    Cell(name="exclusive_per_step_ns", meaning="of it in no scope inside"),
    Cell(name="communication_ns", meaning="part of all its durations that is communication"),
)
_SIBLING_CELLS = (
    Cell(name="name", meaning="operation in the same scope"),
    Cell(name="phase", meaning="phase of the ledger", evidence=Evidence.DECLARED),
    Cell(name="exclusive_per_step_ns", meaning="time in which nothing else ran there, per device and step"),
    Cell(name="rows_count", meaning="executions on all devices"),
    Cell(name="shape", meaning="of its result", evidence=Evidence.DECLARED),
)
_DEFAULT_COUNT = 10


def answer_gap_before(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """Idle time that ended with one operation, as payload or as marker."""
    block = summary.gaps
    if isinstance(block, Missing):
        return cannot_answer(asked.intent, block, asked.slots)
    name = asked.slots["name"].lstrip("%")
    found = _gaps_named(block, name)
    limit = _DEFAULT_COUNT if top_count is None else top_count
    if not found:
        subject = find_subject(summary, name)  # raises where there is no such name at all
        names = {each.name for _, each in subject.operations} | {each.instruction for _, each in subject.operations}
        found = [(at, each) for at, each in enumerate(block.before) if each.payload_name in names]
    total = sum(each.total_ns for _, each in found)
    if not found:
        known = "" if block.before_total_count <= len(block.before) else ", of those that the summary keeps"
        sentences = [f"No device was idle before {name}{known}."]
    else:
        longest = max(each.longest_ns for _, each in found)
        count = sum(each.gaps_count for _, each in found)
        share = format_ratio(total / block.total_ns) if block.total_ns else "no part"
        sentences = [
            f"Before {name} devices were idle for {format_duration(total)} in {count_noun(count, 'gap')} over all "
            f"devices and steps, the longest {format_duration(longest)}; {share} of all idle time.",
            *_why(found),
        ]
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=tuple(sentences),
        facts=(measured_fact("total_ns", block.total_ns, "gaps", "total_ns", evidence=block.evidence),),
        tables=_gap_tables(block, found, limit),
        commands=("rocktools gaps RUN --by gap",),
    )


def _gaps_named(block: GapsBlock, name: str) -> list[tuple[int, GapBefore]]:
    """Exactly that name as payload or marker; else those that it is part of."""
    rows = list(enumerate(block.before))
    exact = [(at, each) for at, each in rows if name in (each.payload_name, each.marker_name)]
    if exact:
        return exact
    part = name.lower()
    return [
        (at, each)
        for at, each in rows
        if part in (each.payload_name or "").lower() or part in (each.marker_name or "").lower()
    ]


def _why(found: list[tuple[int, GapBefore]]) -> list[str]:
    """What the causes say."""
    by_cause: dict[str, int] = {}
    for _, each in found:
        by_cause[each.cause] = by_cause.get(each.cause, 0) + each.total_ns
    cause = max(by_cause, key=lambda name: by_cause[name])
    meaning = {
        "host_wait": "the host launched it only after the device had gone idle: input, compilation, Python, a wait",
        "kernel_wait": "it had been launched in time and waited for other work, or for its turn",
    }
    text = meaning.get(cause, "host calls were not recorded, so the cause is unknown")
    markers = sorted({each.marker_name for _, each in found if each.marker_name})
    sentences = [f"Mostly {cause}: {text}."]
    if markers:
        sentences.append(
            f"What ended the gap first was a marker ({', '.join(markers[:3])}), the payload came behind it."
        )
    return sentences


def _gap_tables(block: GapsBlock, found: list[tuple[int, GapBefore]], limit: int) -> tuple[AnswerTable, ...]:
    names = {each.payload_name for _, each in found} | {each.marker_name for _, each in found} - {None}
    single: list[tuple[str, Gap]] = [
        (pointer("gaps", "longest", at), each)
        for at, each in enumerate(block.longest)
        if found and (each.payload_name in names or (each.marker_name and each.marker_name in names))
    ]
    tables = []
    if found:
        tables.append(
            answer_table(
                "gaps_before",
                "idle time before it, by payload, marker and cause",
                _BEFORE_CELLS,
                [(pointer("gaps", "before", at), each) for at, each in found],
                evidence=block.evidence,
                top_count=limit,
            )
        )
    if single:
        tables.append(
            answer_table(
                "longest_gaps",
                "single gaps, the longest first",
                _GAP_CELLS,
                single,
                evidence=block.evidence,
                top_count=limit,
            )
        )
    return tuple(tables)


def answer_gaps(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """Where devices were idle longest."""
    block = summary.gaps
    if isinstance(block, Missing):
        return cannot_answer(asked.intent, block, asked.slots)
    limit = number_of(asked.slots["count"]) if "count" in asked.slots else top_count
    limit = _DEFAULT_COUNT if limit is None else limit
    sentences = [
        f"Devices were idle for {format_duration(block.total_ns)} in {count_noun(block.gaps_count, 'gap')} over all "
        f"devices and steps; {format_duration(block.between_steps_ns)} of it lies between steps."
    ]
    facts = [measured_fact("total_ns", block.total_ns, "gaps", "total_ns", evidence=block.evidence)]
    if not isinstance(summary.overlap, Missing) and summary.overlap.idle_ratio is not None:
        sentences.append(
            f"Within a mean step a device is idle for {format_duration(summary.overlap.mean.idle_ns)}, "
            f"{format_ratio(summary.overlap.idle_ratio)} of its span."
        )
        facts.append(
            measured_fact(
                "idle_ratio", summary.overlap.idle_ratio, "overlap", "idle_ratio", evidence=summary.overlap.evidence
            )
        )
    found = list(enumerate(block.before))
    if found:
        sentences += _why(found)[:1]
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=tuple(sentences),
        facts=tuple(facts),
        tables=_gap_tables(block, found, limit),
        commands=("rocktools gaps RUN",),
    )


def answer_context(summary: Summary, asked: Asked, top_count: int | None) -> Answer:
    """What an operation, scope or component is, where it comes from, and what is around it."""
    if isinstance(summary.operations, Missing):
        return cannot_answer(asked.intent, summary.operations, asked.slots)
    subject = find_subject(summary, asked.slots["name"])
    if not subject.operations:
        return Answer(
            intent=asked.intent,
            slots=asked.slots,
            is_answered=False,
            sentences=(f"{subject.title} is a {subject.kind} without an operation in the summary.",),
        )
    at, first = max(subject.operations, key=lambda each: each[1].sum_ns)
    is_one = subject.kind is SubjectKind.INSTRUCTION
    exclusive = sum(each.exclusive_per_step_ns for _, each in subject.operations)
    count = len(subject.operations)
    head = _described(first) if is_one else f"{count_noun(count, 'operation')}, the longest of them {_described(first)}"
    source = (
        f" It comes from {first.source_file}:{first.source_line}."
        if first.source_file and first.source_line is not None
        else ""
    )
    sentences = [
        f"{subject.title} is {'an instruction' if is_one else f'a {subject.kind}'}: {head}.{source}",
        f"It has {format_duration(exclusive)} of exclusive time a step on each device.",
        *_neighbours(summary, first),
    ]
    limit = _DEFAULT_COUNT if top_count is None else top_count
    return Answer(
        intent=asked.intent,
        slots=asked.slots,
        is_answered=True,
        sentences=tuple(sentences),
        facts=_facts(summary, at, first),
        tables=tuple(filter(None, (_around(summary, first), _siblings(summary, first, limit)))),
        commands=(f"rocktools explain RUN --instruction {first.instruction}",) if first.instruction else (),
    )


def _described(operation: Operation) -> str:
    """One operation in a few words."""
    what = operation.custom_call_target or operation.fusion_kind or operation.opcode or "no instruction is known"
    kernels = f", kernel {operation.kernel_names[0]}" if operation.kernel_names else ""
    where = f" in scope {operation.scope}" if operation.scope else ""
    return f"{operation.name} ({what}{kernels}){where}, {operation.phase}, component {operation.component}"


def _neighbours(summary: Summary, operation: Operation) -> list[str]:
    """What ran before the gaps in front of it."""
    if isinstance(summary.gaps, Missing):
        return []
    mine = [each for each in summary.gaps.before if operation.name in (each.payload_name, each.marker_name)]
    if not mine:
        return []
    total, count = sum(each.total_ns for each in mine), sum(each.gaps_count for each in mine)
    behind = sorted({each.previous_name for each in summary.gaps.longest if each.payload_name == operation.name})
    after = f", behind {', '.join(behind[:3])}" if behind else ""
    return [f"Before it devices were idle for {format_duration(total)} in {count_noun(count, 'gap')}{after}."]


def _facts(summary: Summary, at: int, operation: Operation) -> tuple[AnswerFact, ...]:
    """The figures of the operation, and its point under the roofline."""
    block = summary.operations
    assert not isinstance(block, Missing)
    names = (
        *("exclusive_per_step_ns", "sum_per_step_ns", "mean_ns", "rows_count", "shape", "opcode"),
        *("compute_flop", "read_bytes", "written_bytes", "payload_bytes", "fingerprint", "op_name"),
    )
    facts = [
        measured_fact(
            name,
            getattr(operation, name),
            *("operations", "operations", at, name),
            evidence=block.evidence_of.get(name, Evidence.DECLARED if _is_text(operation, name) else block.evidence),
        )
        for name in names
        if getattr(operation, name) is not None
    ]
    found = _point(summary, operation)
    if found is not None:
        place, point, evidence = found
        facts += [
            measured_fact(name, getattr(point, name), *place, name, evidence=evidence)
            for name in ("bound", "roof_ratio")
        ]
    return tuple(facts)


def _is_text(operation: Operation, name: str) -> bool:
    return isinstance(getattr(operation, name), str)


def _point(summary: Summary, operation: Operation) -> tuple[tuple[str | int, ...], RooflinePoint, Evidence] | None:
    if isinstance(summary.roofline, Missing):
        return None
    for number, table in enumerate(summary.roofline.tables):
        if (table.by, table.level) != ("instruction", "hbm"):
            continue
        for at, point in enumerate(table.points):
            if point.name == operation.instruction and point.run == operation.run and point.evidence is not None:
                return ("roofline", "tables", number, "points", at), point, point.evidence
    return None


def _around(summary: Summary, operation: Operation) -> AnswerTable | None:
    """The scopes that enclose it."""
    if isinstance(summary.regions, Missing):
        return None
    parts = tuple(part for part in (operation.scope or "").split("/") if part)
    wanted = {parts[:end] for end in range(len(parts) + 1)}
    records: list[tuple[str, Region]] = [
        (pointer("regions", "regions", at), each)
        for at, each in enumerate(summary.regions.regions)
        if each.phase == operation.phase and each.path in wanted
    ]
    if not records:
        return None
    return answer_table(
        "enclosing_scopes",
        "scopes around it, from the outermost",
        _CONTEXT_CELLS,
        records,
        evidence=summary.regions.evidence,
        top_count=0,
    )


def _siblings(summary: Summary, operation: Operation, limit: int) -> AnswerTable | None:
    """Other operations in the same scope and phase."""
    block = summary.operations
    assert not isinstance(block, Missing)
    records: list[tuple[str, Operation]] = [
        (pointer("operations", "operations", at), each)
        for at, each in enumerate(block.operations)
        if each.scope == operation.scope and each.phase == operation.phase and each is not operation
    ]
    if not records or not operation.scope:
        return None
    return answer_table(
        "same_scope",
        f"other operations in {operation.scope}, {operation.phase}",
        _SIBLING_CELLS,
        records,
        evidence=block.evidence,
        top_count=limit,
    )
