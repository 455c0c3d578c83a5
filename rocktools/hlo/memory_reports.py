"""What XLA says about device memory: `-buffer-assignment.txt` and `-memory-usage-report.txt` of a dump.

The assignment lists every allocation with its exact size, what it is for, and the values that live in it at which
offset. The usage report has the same total, and sizes rounded for people: it serves as a check. All of it is of one
device, and static: what the compiler reserved, not what the allocator of the job held. The text has no times of life;
those come from the program (`buffer_liveness`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rocktools.errors import DamagedFile, InputError, UnknownFormat
from rocktools.findings import Finding, Severity

_HEAD = "BufferAssignment:"
_ALLOCATION = re.compile(r"allocation (\d+): size (\d+)(?:, (.*?))?:?\s*\Z")
_VALUE = re.compile(r" value: <(\d+) (.+?)(\{[\d,]*\})?( \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\): (.*)\Z")
_PARAMETER = re.compile(r"parameter (\d+)")
_TOTAL = re.compile(r"Total bytes: (\d+)")
_SPACE = re.compile(r"Memory Space: .*\(color=(\d+)\)")


class AllocationKind(str, Enum):
    """What an allocation is for."""

    ARGUMENT = "argument"
    OUTPUT = "output"
    CONSTANT = "constant"
    TEMPORARY = "temporary"
    THREAD_LOCAL = "thread-local"
    OTHER = "other"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferValue:
    """A value that lives in an allocation.

    Attributes:
        value_id: number of the value in the file.
        instruction: that makes it.
        element: which element of its tuple: `{0}`; "" where it is no tuple.
        is_merged: whether it stands for what several instructions make (a phi: the state of a loop).
        size_bytes, offset_bytes: where in the allocation.
        shape: with layout.
    """

    value_id: int
    instruction: str
    element: str
    is_merged: bool
    size_bytes: int
    offset_bytes: int
    shape: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One allocation.

    Attributes:
        number: as in the file.
        size_bytes: exact.
        kind: what it is for.
        parameter_number: of an argument; None elsewhere.
        is_live_out: whether it may hold a result when the program ends; an argument that does is an alias.
        values: what lives in it, as listed.
    """

    number: int
    size_bytes: int
    kind: AllocationKind
    parameter_number: int | None
    is_live_out: bool
    values: tuple[BufferValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferAssignment:
    """All allocations of one program on one device.

    Attributes:
        source: the file.
        allocations: as listed.
        is_complete: whether every line was understood.
        findings: what was not.
    """

    source: str
    allocations: tuple[Allocation, ...]
    is_complete: bool = True
    findings: tuple[Finding, ...] = ()

    @property
    def argument_bytes(self) -> int:
        """Arguments, those that are reused for results too."""
        return self.bytes_of(AllocationKind.ARGUMENT)

    @property
    def output_bytes(self) -> int:
        """Results, those that reuse an argument too."""
        return sum(each.size_bytes for each in self.allocations if each.is_live_out)

    @property
    def alias_bytes(self) -> int:
        """Arguments that are reused for results: part of both of the above."""
        found = (each for each in self.allocations if each.is_live_out and each.kind is AllocationKind.ARGUMENT)
        return sum(each.size_bytes for each in found)

    @property
    def temporary_bytes(self) -> int:
        return self.bytes_of(AllocationKind.TEMPORARY)

    @property
    def total_bytes(self) -> int:
        """All allocations: arguments + outputs - aliases + temporaries + constants + thread-local and other ones."""
        return sum(each.size_bytes for each in self.allocations)

    def bytes_of(self, kind: AllocationKind) -> int:
        """The allocations of one kind added up."""
        return sum(each.size_bytes for each in self.allocations if each.kind is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUsage:
    """The totals of a memory-usage report.

    Attributes:
        source: the file.
        total_bytes: memory space (0: device memory) -> bytes.
    """

    source: str
    total_bytes: Mapping[int, int]


def read_buffer_assignment(path: Path | str) -> BufferAssignment:
    """The assignment in a file.

    Raises:
        InputError: it cannot be read.
        UnknownFormat: it is something else.
        DamagedFile: it holds no allocation.
    """
    return parse_buffer_assignment(_text_of(path), str(path))


def read_memory_usage(path: Path | str) -> MemoryUsage:
    """The totals in a file; raises as `read_buffer_assignment`."""
    return parse_memory_usage(_text_of(path), str(path))


def _text_of(path: Path | str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError("memory-report-unreadable", f"the file cannot be read: {error}", where=str(path)) from error


def parse_buffer_assignment(text: str, source: str) -> BufferAssignment:
    """The assignment in a text.

    Raises:
        UnknownFormat: it does not begin as one does.
        DamagedFile: it holds no allocation.
    """
    lines = text.splitlines()
    if not lines or lines[0].strip() != _HEAD:
        raise UnknownFormat("buffer-assignment", f"the file does not begin with {_HEAD!r}", where=source)
    allocations: list[Allocation] = []
    values: list[BufferValue] = []
    head: re.Match[str] | None = None
    unread: list[int] = []
    for number, line in enumerate(lines[1:], start=2):
        found = _ALLOCATION.match(line)
        if found is not None:
            allocations += _allocation(head, values)
            head, values = found, []
        elif (value := _value(line)) is not None and head is not None:
            values.append(value)
        elif line.startswith((" ", "allocation")):
            unread.append(number)
        elif line.strip():
            # Later versions append used values and live ranges below headings of their own: not of an allocation.
            break
    allocations += _allocation(head, values)
    if not allocations:
        raise DamagedFile(
            "buffer-assignment", "the file holds no allocation: it was cut, or not yet written", where=source
        )
    return BufferAssignment(
        source=source,
        allocations=tuple(allocations),
        is_complete=not unread,
        findings=tuple(_unread_finding(source, unread)),
    )


def _allocation(head: re.Match[str] | None, values: Iterable[BufferValue]) -> list[Allocation]:
    if head is None:
        return []
    text = head[3] or ""
    parameter = _PARAMETER.match(text)
    is_live_out = "maybe-live-out" in text
    if parameter:
        kind = AllocationKind.ARGUMENT
    elif text.startswith("constant"):
        kind = AllocationKind.CONSTANT
    elif text.startswith("thread-local"):
        kind = AllocationKind.THREAD_LOCAL
    elif "preallocated-temp" in text:
        kind = AllocationKind.TEMPORARY
    elif is_live_out or text.startswith("output"):
        kind = AllocationKind.OUTPUT
    else:
        kind = AllocationKind.OTHER
    return [
        Allocation(
            number=int(head[1]),
            size_bytes=int(head[2]),
            kind=kind,
            parameter_number=int(parameter[1]) if parameter else None,
            is_live_out=is_live_out or kind is AllocationKind.OUTPUT,
            values=tuple(values),
        )
    ]


def _value(line: str) -> BufferValue | None:
    found = _VALUE.match(line)
    if found is None:
        return None
    return BufferValue(
        value_id=int(found[1]),
        instruction=found[2],
        element="" if found[3] in (None, "{}") else found[3],
        is_merged=found[4] is not None,
        size_bytes=int(found[5]),
        offset_bytes=int(found[6]),
        shape=found[7],
    )


def _unread_finding(source: str, unread: list[int]) -> list[Finding]:
    if not unread:
        return []
    return [
        Finding(
            rule="buffer-assignment-lines",
            severity=Severity.WARNING,
            where=f"{source}:{unread[0]}",
            message=f"{len(unread)} lines could not be read; what they say is missing from the sums",
            numbers={"lines_count": len(unread)},
        )
    ]


def parse_memory_usage(text: str, source: str) -> MemoryUsage:
    """The totals in a text.

    Raises:
        UnknownFormat: it has none.
    """
    totals: dict[int, int] = {}
    space = 0
    for line in text.splitlines():
        if found := _SPACE.match(line):
            space = int(found[1])
        elif found := _TOTAL.match(line):
            totals[space] = totals.get(space, 0) + int(found[1])
    if not totals:
        raise UnknownFormat("memory-usage-report", "the file has no line `Total bytes: N`", where=source)
    return MemoryUsage(source=source, total_bytes=totals)


def check_memory_usage(assignment: BufferAssignment, usage: MemoryUsage) -> list[Finding]:
    """A finding where the two reports disagree about the total: they are then of two compilations, or one was cut."""
    reported = sum(usage.total_bytes.values())
    if reported == assignment.total_bytes:
        return []
    return [
        Finding(
            rule="memory-reports-disagree",
            severity=Severity.WARNING,
            where=usage.source,
            message=f"it says {reported:,} B, but the allocations of {Path(assignment.source).name} add up to "
            f"{assignment.total_bytes:,} B",
            numbers={"reported_bytes": reported, "assigned_bytes": assignment.total_bytes},
            advice="take both files from one dump",
        )
    ]
