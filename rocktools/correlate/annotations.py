"""Events of a JAX profile -> HLO instructions, through what the profiler wrote on each: (program id, instruction).

That is exact where it is written. Four kinds of event have nothing of the sort: those without an annotation, and those
whose annotation names a command buffer, an instruction under another name, or a program without HLO in the profile.
What helps out within the program at hand is the kernel: the annotations of its other executions in the profile, or its
name. Both are flagged as methods by name, and each kind of event is counted in a finding.
Frames and programs are handed in: nothing here knows the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pandas as pd

from rocktools.correlate.edges import (
    UNLINKED,
    BoolArray,
    Confidence,
    IntArray,
    Link,
    Method,
    build_event_edges,
    build_link,
    group_rows,
)
from rocktools.correlate.kernel_families import BLIT_FAMILIES, KernelFamily, family_of
from rocktools.correlate.names import KernelNameIndex, build_name_index, find_link_by_name
from rocktools.findings import Finding, Severity
from rocktools.frames import GRID, WORKGROUP
from rocktools.hlo.module import HloModule
from rocktools.units import count_noun

_LINKABLE_KINDS = ("kernel", "copy", "memset")
_LINE = ("run", "host", "device", "line")
_DEVICE = ("run", "host", "device")
_FOR_ANYBODY = BLIT_FAMILIES | {KernelFamily.RCCL}

_NONE, _OTHER = -1, -2
"""Instead of the place of a program: there is no annotation; the program is not at hand."""

# XLA names the annotation of a command buffer after its thunk; the suffix is on what it launches one by one instead.
_COMMAND_BUFFER = re.compile(r"command_buffer(?:_\d+)?$")
_DISABLED = " (disabled for profiling)"
_CLONE = re.compile(r"\.clone(?:\.\d+)?$")


class _Case(Enum):
    """What an event's annotation is."""

    EXACT = "exact"
    RENAMED = "renamed"
    COMMAND_BUFFER = "command-buffer"
    UNKNOWN_INSTRUCTION = "unknown-instruction"
    UNKNOWN_PROGRAM = "unknown-program"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What events have in common that have one answer.

    Attributes:
        program_id: as annotated; None where it is not. So are the next two.
        hlo_module: name of the program.
        hlo_op: name of the instruction, supposedly.
        kernel_name: None for events of a host.
        near: programs of the annotated events around it, the one before first; () where it is annotated itself.
        siblings: (program id, instruction) that events of the same kernel and geometry are annotated with.
    """

    program_id: str | None
    hlo_module: str | None
    hlo_op: str | None
    kernel_name: str | None
    near: tuple[str, ...]
    siblings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    case: _Case
    link: Link


def link_annotated(events: pd.DataFrame, programs: Mapping[str, HloModule]) -> tuple[pd.DataFrame, list[Finding]]:
    """The instruction of each event.

    Args:
        events: DEVICE_EVENTS or HOST_EVENTS, all columns. Of the former, kernels, copies and memsets are linked; of the
            latter, what is annotated: HLO that ran on the CPU, and the HIP calls that launched annotated kernels.
        programs: those whose HLO is at hand, by their id as in `program_id`.

    Returns:
        EVENT_EDGES: method `annotation` and certain where the annotation names an instruction of the program, likely
        where it does under another name; method `name`, never certain, where only the name of the kernel was left. And
        findings that count each kind of event without an exact annotation.
    """
    is_device = "kernel_name" in events.columns
    is_kept = events["kind"].isin(_LINKABLE_KINDS) if is_device else events["hlo_op"].notna()
    rows = events[is_kept.to_numpy(dtype=np.bool_)].reset_index(drop=True)
    kernels = _Kernels.of(rows) if is_device else _Kernels(np.full(len(rows), _NONE), {})
    places = _near_programs(rows, list(programs))
    columns = [rows["program_id"], rows["hlo_module"], rows["hlo_op"], *map(pd.Series, (kernels.of_row, *places))]
    of, example = group_rows(columns)
    asked = list(_questions(rows.iloc[example], [place[example] for place in places], list(programs)))
    asked = [
        replace(question, siblings=kernels.siblings.get(int(kernel), ()))
        for question, kernel in zip(asked, kernels.of_row[example], strict=True)
    ]
    answering = _Answering(programs)
    answers = [answering.answer(question) for question in asked]
    edges = build_event_edges(rows, [answer.link for answer in answers], of)
    where = "DEVICE_EVENTS" if is_device else "HOST_EVENTS"
    return edges, _check_answers(answers, asked, np.bincount(of, minlength=len(answers)), where=where)


@dataclass(frozen=True, slots=True, eq=False)
class _Kernels:
    """Which kernel each event is of, and what the annotated events of those kernels say that have events without.

    Attributes:
        of_row: kernel of each row: one number for each name and geometry.
        siblings: kernel -> (program id, instruction) as annotated. Not of kernels that run for anybody: of the runtime,
            and of collectives.
    """

    of_row: IntArray
    siblings: Mapping[int, tuple[tuple[str, str], ...]]

    @classmethod
    def of(cls, rows: pd.DataFrame) -> _Kernels:
        geometry = [rows[name].fillna(0).astype("int64") for name in (*GRID, *WORKGROUP)]
        of_row, example = group_rows([rows["kernel_name"], *geometry])
        is_annotated = rows["hlo_op"].notna().to_numpy(dtype=np.bool_) & rows["program_id"].notna().to_numpy()
        is_asked = np.isin(of_row, np.unique(of_row[~is_annotated])) & is_annotated
        pairs = rows.loc[is_asked, ["program_id", "hlo_op"]].assign(kernel=of_row[is_asked]).drop_duplicates()
        siblings: dict[int, list[tuple[str, str]]] = {}
        for program_id, hlo_op, kernel in pairs.itertuples(index=False):
            if family_of(str(rows["kernel_name"].iloc[example[kernel]])) not in _FOR_ANYBODY:
                siblings.setdefault(int(kernel), []).append((str(program_id), str(hlo_op)))
        return cls(of_row, {kernel: tuple(found) for kernel, found in siblings.items()})


def _questions(rows: pd.DataFrame, places: Sequence[IntArray], labels: Sequence[str]) -> Iterator[_Question]:
    nothing = pd.Series([None] * len(rows))
    names = ("program_id", "hlo_module", "hlo_op", "kernel_name")
    columns = (rows[name].astype("object") if name in rows.columns else nothing for name in names)
    texts = [[value if isinstance(value, str) else None for value in column] for column in columns]
    before, after = (place.tolist() for place in places)
    for program_id, hlo_module, hlo_op, kernel_name, first, last in zip(*texts, before, after, strict=True):
        yield _Question(
            program_id=program_id,
            hlo_module=hlo_module,
            hlo_op=hlo_op,
            kernel_name=kernel_name,
            near=tuple(dict.fromkeys(labels[place] for place in (first, last) if place >= 0)),
            siblings=(),
        )


def _near_programs(rows: pd.DataFrame, labels: Sequence[str]) -> tuple[IntArray, IntArray]:
    """For rows without annotation: places in `labels` of the programs of the nearest annotated rows before and after.

    Those of the same line, or of the same device where the line has none. Negative where there is none, or its program
    is not at hand.
    """
    nowhere = np.full(len(rows), _NONE, dtype=np.int64)
    unannotated = rows["hlo_op"].isna().to_numpy(dtype=np.bool_)
    if not bool(unannotated.any()):
        return nowhere, nowhere
    numbers = {label: place for place, label in enumerate(labels)}
    ids = rows["program_id"].cat
    of_category = np.array([numbers.get(str(label), _OTHER) for label in ids.categories] + [_OTHER], dtype=np.int64)
    program = np.where(unannotated, _NONE, of_category[ids.codes.to_numpy()])
    before, after = _around(rows, _LINE, program)
    of_device = _around(rows, _DEVICE, program)
    is_alone = (before == _NONE) & (after == _NONE)
    before, after = np.where(is_alone, of_device[0], before), np.where(is_alone, of_device[1], after)
    return np.where(unannotated, before, _NONE), np.where(unannotated, after, _NONE)


def _around(rows: pd.DataFrame, place: Sequence[str], values: IntArray) -> tuple[IntArray, IntArray]:
    """For each row, the last value before it and the first after it that is not `_NONE`, of the same place."""
    of, _ = group_rows([rows[name] for name in place])
    order = np.lexsort((rows["event_index"].to_numpy(), rows["start_ns"].to_numpy(), of))
    before, after = np.empty_like(values), np.empty_like(values)
    before[order] = _fill_forward(values[order], of[order])
    backward = order[::-1]
    after[backward] = _fill_forward(values[backward], of[backward])
    return before, after


def _fill_forward(values: IntArray, of: IntArray) -> IntArray:
    last = np.maximum.accumulate(np.where(values != _NONE, np.arange(values.size), -1))
    is_found = (last >= 0) & (of[last] == of)
    return np.where(is_found, values[last], _NONE)


class _Answering:
    """Answers questions; the index of names of a program is built when it is first needed."""

    def __init__(self, programs: Mapping[str, HloModule]) -> None:
        self._programs = programs
        self._indices: dict[str, KernelNameIndex] = {}
        self._by_name: dict[str, list[str]] = {}
        for program_id, module in programs.items():
            self._by_name.setdefault(module.name, []).append(program_id)

    def answer(self, question: _Question) -> _Answer:
        if question.hlo_op is None:
            return _Answer(_Case.MISSING, self._link_by_kernel(question, question.near))
        program_id, is_sure = self._program(question)
        if program_id is None:
            return _Answer(_Case.UNKNOWN_PROGRAM, UNLINKED)
        case, instruction = self._instruction(self._programs[program_id], question.hlo_op)
        if instruction is None:
            return _Answer(case, self._link_by_kernel(question, (program_id,)))
        is_certain = is_sure and case is _Case.EXACT
        confidence = Confidence.CERTAIN if is_certain else Confidence.LIKELY
        return _Answer(case, build_link([(program_id, instruction)], method=Method.ANNOTATION, confidence=confidence))

    def _program(self, question: _Question) -> tuple[str | None, bool]:
        """The program, and whether its id says so; without an id, a name that only one program has."""
        if question.program_id is not None:
            return (question.program_id, True) if question.program_id in self._programs else (None, False)
        namesakes = self._by_name.get(question.hlo_module or "", [])
        return (namesakes[0], False) if len(namesakes) == 1 else (None, False)

    def _instruction(self, module: HloModule, hlo_op: str) -> tuple[_Case, str | None]:
        instructions = module.instructions
        if hlo_op in instructions:
            return _Case.EXACT, hlo_op
        name = hlo_op.removesuffix(_DISABLED)
        if _COMMAND_BUFFER.match(name) and name not in instructions:
            return _Case.COMMAND_BUFFER, None
        for other in (name, _CLONE.sub("", name), f"{name}.clone"):
            if other in instructions:
                return _Case.RENAMED, other
        return _Case.UNKNOWN_INSTRUCTION, None

    def _link_by_kernel(self, question: _Question, program_ids: Sequence[str]) -> Link:
        if question.kernel_name is None:
            return UNLINKED
        siblings = [
            (program_id, name)
            for program_id, name in question.siblings
            if program_id in program_ids and name in self._programs[program_id].instructions
        ]
        if siblings:
            return build_link(siblings, method=Method.NAME, confidence=Confidence.LIKELY)
        return find_link_by_name(question.kernel_name, [self._index(program_id) for program_id in program_ids])

    def _index(self, program_id: str) -> KernelNameIndex:
        if program_id not in self._indices:
            self._indices[program_id] = build_name_index(self._programs[program_id])
        return self._indices[program_id]


_MEANINGS: Mapping[_Case, tuple[str, Severity, str, str]] = {
    _Case.MISSING: (
        "annotation-missing",
        Severity.NOTE,
        "have no annotation",
        "",
    ),
    _Case.RENAMED: (
        "annotation-renamed",
        Severity.NOTE,
        "name an instruction under another name (a clone, or a command buffer that was launched one by one)",
        "",
    ),
    _Case.COMMAND_BUFFER: (
        "annotation-command-buffer",
        Severity.WARNING,
        "name a command buffer (HIP graph), not an instruction",
        "profile with XLA_FLAGS=--xla_gpu_enable_command_buffer= to have an annotation on each kernel",
    ),
    _Case.UNKNOWN_INSTRUCTION: (
        "annotation-not-in-program",
        Severity.WARNING,
        "name an instruction that their program does not have",
        "",
    ),
    _Case.UNKNOWN_PROGRAM: (
        "program-not-in-profile",
        Severity.WARNING,
        "are of a program whose HLO is not at hand",
        "the profile holds the HLO of programs that are alive while it is taken; hand in the dump of the others",
    ),
}
"""Case -> rule, severity, what the events do, advice."""


def _check_answers(
    answers: Sequence[_Answer], asked: Sequence[_Question], counts: IntArray, *, where: str
) -> list[Finding]:
    findings = []
    rows_count = int(counts.sum())
    is_case = np.array([list(_Case).index(answer.case) for answer in answers], dtype=np.int64)
    is_linked: BoolArray = np.array([answer.link.instruction is not None for answer in answers], dtype=np.bool_)
    for case, (rule, severity, meaning, advice) in _MEANINGS.items():
        own = is_case == list(_Case).index(case)
        count, linked_count = int(counts[own].sum()), int(counts[own & is_linked].sum())
        if count == 0:
            continue
        example = asked[int(np.flatnonzero(own)[0])]
        shown = " of ".join(text for text in (example.hlo_op, example.hlo_module) if text) or example.kernel_name
        findings.append(
            Finding(
                rule=rule,
                severity=severity,
                where=where,
                message=f"{count:,} of {count_noun(rows_count, 'event')} {meaning}, {shown} for one; {linked_count:,} "
                "of them are linked all the same, none for certain",
                numbers={"events_count": count, "linked_count": linked_count, "all_events_count": rows_count},
                advice=advice,
            )
        )
    return findings
