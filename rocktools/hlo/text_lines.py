"""One line of HLO text -> one instruction, or the head of a computation. Knows nothing of the lines around it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rocktools.hlo.module import NO_METADATA, Instruction, Metadata, StackFrame
from rocktools.hlo.shapes import Shape, end_of_shape, read_shape
from rocktools.hlo.stack_frames import locate
from rocktools.hlo.text_attributes import parse_attributes, parse_metadata, plain_value, take_called
from rocktools.hlo.text_scan import UnreadableText, find_closing, split_list

_NAME = r'[^\s=,(){}\[\]"/]+'
INSTRUCTION_HEAD = re.compile(rf"\s*(ROOT\s+)?%?({_NAME})\s*=\s*")
_COMPUTATION_HEAD = re.compile(rf"\s*(ENTRY\s+)?%?({_NAME})\s*(?:\(.*\)\s*->.*)?\{{\s*$")
_OPCODE = re.compile(r"\s*([a-z][a-z0-9\-]*)\(")
_SIMPLE_OPERANDS = re.compile(r"[^()\[\]{}\"]*\)")
_OPERAND = re.compile(rf"%?({_NAME})")
_WITH_ARGUMENT = ("parameter", "constant")
_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


def match_computation_head(line: str) -> re.Match[str] | None:
    """The line that opens a computation: whether it is the entry, and its name, are groups 1 and 2."""
    return _COMPUTATION_HEAD.match(line) if line.rstrip().endswith("{") else None


@dataclass(slots=True)
class LineReader:
    """Reads instructions of one module; shapes and metadata that come again are the same objects again.

    Attributes:
        frames: the module's stack frames.
    """

    frames: Mapping[int, StackFrame]
    _shapes: dict[str, Shape] = field(default_factory=dict)
    _metadata: dict[str, Metadata] = field(default_factory=dict)

    def parse_instruction(self, line: str, *, computation: str, position: int, line_number: int) -> Instruction:
        """The instruction that stands in a line.

        Raises:
            UnreadableText: it is none, or not a whole one.
        """
        head = INSTRUCTION_HEAD.match(line)
        if head is None:
            raise UnreadableText("no instruction begins here", len(line) - len(line.lstrip()))
        shape, end = self._shape(line, head.end())
        opcode = _OPCODE.match(line, end)
        if opcode is None:
            raise UnreadableText("an opcode with operands is missing", end)
        inside = opcode.end()
        simple = _SIMPLE_OPERANDS.match(line, inside)
        closing = simple.end() - 1 if simple else find_closing(line, inside - 1)
        has_argument = opcode.group(1) in _WITH_ARGUMENT
        attributes = parse_attributes(line, closing + 1)
        metadata = attributes.pop("metadata", None)
        called = take_called(attributes)
        return Instruction(
            name=head.group(2),
            opcode=opcode.group(1),
            shape=shape,
            operands=() if has_argument else _operands(line, inside, closing),
            called=called,
            computation=computation,
            position=position,
            is_root=head.group(1) is not None,
            attributes=_plain(attributes),
            argument=line[inside:closing].strip() if has_argument else "",
            metadata=NO_METADATA if metadata is None else self._metadata_of(metadata),
            line_number=line_number,
        )

    def _shape(self, line: str, start: int) -> tuple[Shape, int]:
        end = end_of_shape(line, start)
        text = line[start:end]
        shape = self._shapes.get(text)
        if shape is None:
            shape, _ = read_shape(line, start)
            self._shapes[text] = shape
        return shape, end

    def _metadata_of(self, text: str) -> Metadata:
        found = self._metadata.get(text)
        if found is None:
            found = locate(parse_metadata(text), self.frames)
            self._metadata[text] = found
        return found


def _plain(attributes: Mapping[str, str]) -> Mapping[str, str]:
    if not attributes:
        return _NO_ATTRIBUTES
    return MappingProxyType({name: plain_value(value) for name, value in attributes.items()})


def _operands(line: str, start: int, end: int) -> tuple[str, ...]:
    """Names of the operands, each with its shape before it or not."""
    names = []
    for part in split_list(line[start:end]):
        words = part.split()
        operand = _OPERAND.fullmatch(words[-1]) if words else None
        if operand is None:
            raise UnreadableText(f"{part!r} is no operand", start)
        names.append(operand.group(1))
    return tuple(names)
