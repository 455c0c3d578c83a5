"""HLO text, as XLA prints modules -> HloModule. Reads on where a line cannot be read, and says what it left out.

The forms read are those of XLA from 2024 to 2026; the grammar is that of XLA's `hlo_parser.cc`. It opens no file.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rocktools.errors import DamagedFile, UnknownFormat
from rocktools.findings import Finding, Severity
from rocktools.hlo.module import Computation, HloModule, Instruction, StackFrame
from rocktools.hlo.stack_frames import TABLE_NAMES, FrameTables
from rocktools.hlo.text_attributes import parse_attributes, plain_value
from rocktools.hlo.text_lines import INSTRUCTION_HEAD, LineReader, match_computation_head
from rocktools.hlo.text_scan import UnreadableText

_MODULE_HEAD = re.compile(r"HloModule\s+([^\s,]+)")
_CLOSING = re.compile(r"\s*\}\s*(?:,.*)?$")
_ELISION_WORD = re.compile(r"\b(?:omitted|truncated|elided|skipped|cut)\b", re.IGNORECASE)
_ELISION_MARKS = " \t\r.…-#/<>[]()"
_COMMENT_LINE = re.compile(r"\s*(?://|/\*.*\*/\s*$)")
_EXAMPLES_AT_MOST = 20
_HEAD_ENDS_AT_MOST = 20


def parse_hlo_text(text: str, source: str) -> HloModule:
    """The module a text holds.

    Args:
        text: from the line `HloModule` on; lines before it are skipped.
        source: the file it is from, for messages.

    Returns:
        Everything that could be read. Where something could not, `is_complete` is false and `findings` say where.

    Raises:
        DamagedFile: there is nothing in it.
        UnknownFormat: no line begins a module.
    """
    if not text.strip():
        raise DamagedFile("hlo-text-empty", "the file is empty where HLO text was expected", where=source)
    lines = text.split("\n")
    first = next((index for index, line in enumerate(lines) if _MODULE_HEAD.match(line)), None)
    if first is None:
        raise UnknownFormat(
            "hlo-text-without-module",
            "no line begins with 'HloModule', as the text of every compiled program does",
            where=source,
            hint="name a file *_after_optimizations.txt that XLA wrote into the folder of --xla_dump_to",
        )
    return _Reading(lines=lines, source=source).read(first)


@dataclass(slots=True)
class _Reading:
    """One pass over the lines of a module."""

    lines: list[str]
    source: str
    line_reader: LineReader = field(default_factory=lambda: LineReader(frames={}))
    tables: FrameTables = field(default_factory=FrameTables)
    computations: dict[str, Computation] = field(default_factory=dict)
    entry_name: str | None = None
    findings: list[Finding] = field(default_factory=list)
    unread_count: int = 0
    is_complete: bool = True
    # The computation that is open: its name, what has been read of it, whether it is the entry.
    open_name: str | None = None
    open_instructions: list[Instruction] = field(default_factory=list)
    is_entry_open: bool = False

    def read(self, first: int) -> HloModule:
        name, attributes, behind = self._module_head(first)
        index = self._read_tables(behind)
        frames = self.tables.stack_frames_of_text()
        self.line_reader = LineReader(frames=frames)
        while index < len(self.lines):
            if _MODULE_HEAD.match(self.lines[index]):
                self._note("hlo-text-second-module", index, 0, "a second module begins here; it was not read")
                break
            index = self._read_line(index)
        self._end()
        return self._module(name, attributes, frames)

    def _module(self, name: str, attributes: Mapping[str, str], frames: Mapping[int, StackFrame]) -> HloModule:
        more_count = self.unread_count - _EXAMPLES_AT_MOST
        if more_count > 0:
            self._find("hlo-text-more-unread", self.source, f"{more_count} more lines could not be read", more_count)
        return HloModule(
            name=name,
            program_id=None,
            source=self.source,
            computations=MappingProxyType(self.computations),
            entry_name=self.entry_name,
            is_scheduled=attributes.get("is_scheduled") == "true",
            attributes=MappingProxyType(dict(attributes)),
            stack_frames=MappingProxyType(dict(frames)),
            findings=tuple(self.findings),
            is_complete=self.is_complete,
        )

    def _module_head(self, index: int) -> tuple[str, dict[str, str], int]:
        """Name and attributes of the module, and the line behind them.

        They take one line, but for tables that XLA of 2026 may append (origin_recovery_table, debug_attributes), which
        end in lines that begin with a brace.
        """
        line = self.lines[index]
        head = _MODULE_HEAD.match(line)
        assert head is not None
        behind = index + 1
        try:
            attributes = parse_attributes(line, head.end())
        except UnreadableText as unreadable:
            longer = self._longer_head(index, head.end()) if unreadable.is_open else None
            if longer is None:
                self._unread(index, unreadable, "the first line of the module")
                return head.group(1), {}, behind
            attributes, behind = longer
        return head.group(1), {name: plain_value(value) for name, value in attributes.items()}, behind

    def _longer_head(self, index: int, start: int) -> tuple[dict[str, str], int] | None:
        ends = (at for at in range(index + 1, len(self.lines)) if self.lines[at].startswith("}"))
        for end in itertools.islice(ends, _HEAD_ENDS_AT_MOST):
            try:
                return parse_attributes("\n".join(self.lines[index : end + 1]), start), end + 1
            except UnreadableText:
                continue
        return None

    def _read_tables(self, index: int) -> int:
        """Read the tables of stack frames, where there are any; the line behind them."""
        table = ""
        while index < len(self.lines):
            line = self.lines[index]
            if line.strip() in TABLE_NAMES:
                table = line.strip()
            elif not line.strip():
                table = ""
            elif not table or not self.tables.add_row(table, line):
                break
            index += 1
        return index

    def _read_line(self, index: int) -> int:
        """Read what begins in a line; the line behind it."""
        line = self.lines[index]
        is_last = index == len(self.lines) - 1
        if not line.strip() or _COMMENT_LINE.match(line):
            return index + 1
        if is_last:
            # No line end behind it: it may have been cut anywhere, and a name that was cut is a wrong name.
            if self.open_name is None or not _CLOSING.match(line):
                self._stop(index, len(line), "the text ends inside of a line")
            else:
                self._close()
        elif INSTRUCTION_HEAD.match(line) and self.open_name is not None:
            return self._read_instruction(index)
        elif match_computation_head(line):
            self._open(index, line)
        elif _CLOSING.match(line) and self.open_name is not None:
            self._close()
        elif not line.strip(_ELISION_MARKS) or _ELISION_WORD.search(line):
            self.is_complete = False
            self._note("hlo-text-elided", index, 0, f"lines were left out here: {_shorten(line.strip())!r}")
        else:
            offset = len(line) - len(line.lstrip())
            self._unread(index, UnreadableText("no instruction and no computation begins here", offset), "a line")
        return index + 1

    def _read_instruction(self, index: int) -> int:
        try:
            self._add_instruction(index, index + 1)
        except UnreadableText as unreadable:
            behind = self._end_of_instruction(index + 1) if unreadable.is_open else index + 1
            if behind > index + 1:
                try:
                    self._add_instruction(index, behind)
                except UnreadableText:
                    pass
                else:
                    return behind
            self._unread(index, unreadable, "an instruction")
            return behind
        return index + 1

    def _add_instruction(self, index: int, behind: int) -> None:
        assert self.open_name is not None
        line = self.lines[index] if behind == index + 1 else "\n".join(self.lines[index:behind])
        self.open_instructions.append(
            self.line_reader.parse_instruction(
                line, computation=self.open_name, position=len(self.open_instructions), line_number=index + 1
            )
        )

    def _end_of_instruction(self, index: int) -> int:
        """The line behind those that can be the rest of an instruction that was left open (literals may be long)."""
        while index < len(self.lines) - 1:
            line = self.lines[index]
            begins_another = INSTRUCTION_HEAD.match(line) or match_computation_head(line) or _CLOSING.match(line)
            if begins_another or not line.strip():
                break
            index += 1
        return index

    def _open(self, index: int, line: str) -> None:
        if self.open_name is not None:
            self._note("hlo-text-unclosed", index, 0, f"the computation {self.open_name!r} is not closed before this")
            self.is_complete = False
            self._close()
        head = match_computation_head(line)
        assert head is not None
        self.open_name, self.is_entry_open = head.group(2), head.group(1) is not None
        self.open_instructions = []

    def _close(self) -> None:
        assert self.open_name is not None
        name = self.open_name
        self.computations[name] = Computation(
            name=name, instructions=tuple(self.open_instructions), is_entry=self.is_entry_open
        )
        if self.is_entry_open:
            self.entry_name = name
        self.open_name = None

    def _end(self) -> None:
        """What the end of the text leaves open."""
        if self.open_name is not None:
            if not any(finding.rule == "hlo-text-truncated" for finding in self.findings):
                self._stop(len(self.lines) - 1, 0, f"the text ends inside of the computation {self.open_name!r}")
            self._close()
        elif self.entry_name is None and self.is_complete:
            self._stop(len(self.lines) - 1, 0, "the text ends before the entry computation")

    def _stop(self, index: int, offset: int, what: str) -> None:
        self.is_complete = False
        read_count = sum(len(each.instructions) for each in self.computations.values()) + len(self.open_instructions)
        where = f"{self.source}, line {index + 1}, column {offset + 1}"
        self._find("hlo-text-truncated", where, f"{what}; {read_count} instructions before it were read", read_count)

    def _unread(self, index: int, unreadable: UnreadableText, what: str) -> None:
        self.is_complete = False
        self.unread_count += 1
        if self.unread_count > _EXAMPLES_AT_MOST:
            return
        line = self.lines[index]
        message = f"{what} was skipped: {unreadable.reason}, in {_shorten(line.strip())!r}"
        self._note("hlo-text-unreadable-line", index, unreadable.offset, message)

    def _note(self, rule: str, index: int, offset: int, message: str) -> None:
        self.findings.append(
            Finding(
                rule=rule,
                severity=Severity.WARNING,
                where=f"{self.source}, line {index + 1}, column {offset + 1}",
                message=message,
                numbers={"line": index + 1, "column": offset + 1},
            )
        )

    def _find(self, rule: str, where: str, message: str, count: int) -> None:
        self.findings.append(
            Finding(rule=rule, severity=Severity.WARNING, where=where, message=message, numbers={"count": count})
        )


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
