"""A compiled program in memory: module, computations, instructions. Both readers (text and proto) make these.

Attributes of an instruction are kept in the spelling of HLO text (`lhs_contracting_dims` -> `{1}`), also where they
came from a proto, so that whoever needs one reads it once and in one way. Names are without the leading `%`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from rocktools.findings import Finding
from rocktools.hlo.shapes import Shape

_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFrame:
    """One line of source code that made an instruction, and who called it."""

    file: str
    function: str
    line: int
    parent_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Where an instruction comes from, as the frontend said; "" and 0 where it said nothing.

    `source_file` and `source_line` are those of the innermost stack frame where the module has a table of frames.
    """

    op_name: str = ""
    op_type: str = ""
    source_file: str = ""
    source_line: int = 0
    stack_frame_id: int = 0
    scheduling_name: str = ""
    deduplicated_name: str = ""


NO_METADATA = Metadata()


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One HLO instruction.

    Attributes:
        name: unique within the module.
        opcode: with hyphens, as in HLO text: `dynamic-update-slice`.
        shape: of its result.
        operands: names of instructions of the same computation, in order.
        called: names of the computations it calls, in the order of the proto: a while's body, then its condition; the
            branches of a conditional in order; select, then scatter.
        computation: name of the computation it is in.
        position: its place in that computation: the schedule's where the module is scheduled, else the source's.
        is_root: whether it is the computation's result.
        attributes: everything else that is written behind the operands, but metadata and called computations:
            `custom_call_target`, `backend_config` (JSON text), `replica_groups`, `kind`, `dimensions`, `index`, ...
            Strings are without their quotes.
        argument: what stands between the parentheses instead of operands: the number of a parameter, the text of a
            constant; "" elsewhere.
        metadata: where it comes from.
        line_number: in the text that it was read from; None where it was read from a proto.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    computation: str
    position: int
    is_root: bool = False
    attributes: Mapping[str, str] = field(default_factory=lambda: _NO_ATTRIBUTES)
    argument: str = ""
    metadata: Metadata = NO_METADATA
    line_number: int | None = None

    @property
    def custom_call_target(self) -> str:
        """ "" where it is no custom call."""
        return self.attributes.get("custom_call_target", "")

    @property
    def fusion_kind(self) -> str:
        """`kLoop`, `kInput`, `kOutput`, `kCustom`; "" where it is no fusion."""
        return self.attributes.get("kind", "") if self.opcode == "fusion" else ""

    @property
    def parameter_number(self) -> int | None:
        is_number = self.opcode == "parameter" and self.argument.isdecimal() and len(self.argument) < 10
        return int(self.argument) if is_number else None

    def backend_config(self) -> dict[str, object]:
        """The backend's settings; {} where there are none, or they are no JSON object."""
        text = self.attributes.get("backend_config", "")
        try:
            found = json.loads(text) if text else {}
        except (ValueError, RecursionError):  # no JSON; numbers or nestings without an end, as only damage has them
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def known_trip_count(self) -> int | None:
        """How often the body of a while runs, where the compiler knows; None elsewhere."""
        if self.opcode != "while":
            return None
        known = self.backend_config().get("known_trip_count")
        count = known.get("n") if isinstance(known, dict) else None
        if isinstance(count, str):
            return int(count) if count.isdecimal() and len(count) < 19 else None
        return count if isinstance(count, int) and count >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """A list of instructions with one result; in the order of the schedule where the module is scheduled."""

    name: str
    instructions: tuple[Instruction, ...]
    is_entry: bool = False

    @property
    def root(self) -> Instruction | None:
        """None where the text was cut before it."""
        return next((instruction for instruction in self.instructions if instruction.is_root), None)

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """By number."""
        found = [instruction for instruction in self.instructions if instruction.parameter_number is not None]
        return tuple(sorted(found, key=lambda parameter: parameter.parameter_number or 0))


@dataclass(frozen=True, kw_only=True)
class HloModule:
    """One compiled program.

    Attributes:
        name: `jit_train_step`.
        program_id: id of the module in decimal, where the source holds it (protos do, text does not); else None.
        source: the file it was read from, for messages.
        computations: by name, in the order of the source.
        entry_name: name of the entry computation; None where the text was cut before it.
        is_scheduled: whether instructions stand in the order in which they are launched.
        attributes: of the module's first line, in its spelling: `num_partitions`, `input_output_alias`, ...
        stack_frames: by id; {} where the module has no table of them.
        findings: what could not be read, and where reading stopped.
        is_complete: whether everything was read.
    """

    name: str
    program_id: str | None
    source: str
    computations: Mapping[str, Computation]
    entry_name: str | None
    is_scheduled: bool
    attributes: Mapping[str, str] = field(default_factory=lambda: _NO_ATTRIBUTES)
    stack_frames: Mapping[int, StackFrame] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    is_complete: bool = True

    @cached_property
    def instructions(self) -> Mapping[str, Instruction]:
        """Every instruction by name, in the order of the source; of one name the first."""
        found: dict[str, Instruction] = {}
        for computation in self.computations.values():
            for instruction in computation.instructions:
                found.setdefault(instruction.name, instruction)
        return found

    @cached_property
    def callers(self) -> Mapping[str, tuple[Instruction, ...]]:
        """Computation -> the instructions that call it."""
        found: dict[str, list[Instruction]] = {name: [] for name in self.computations}
        for instruction in self.instructions.values():
            for name in dict.fromkeys(instruction.called):
                found.setdefault(name, []).append(instruction)
        return {name: tuple(instructions) for name, instructions in found.items()}

    @cached_property
    def users(self) -> Mapping[str, tuple[Instruction, ...]]:
        """Instruction -> those that take it as an operand."""
        found: dict[str, list[Instruction]] = {name: [] for name in self.instructions}
        for instruction in self.instructions.values():
            for name in dict.fromkeys(instruction.operands):
                found.setdefault(name, []).append(instruction)
        return {name: tuple(instructions) for name, instructions in found.items()}

    @property
    def entry(self) -> Computation | None:
        return None if self.entry_name is None else self.computations.get(self.entry_name)

    @property
    def label(self) -> str:
        """The value of `program_id` columns: the id, or the name of the module where the source holds no id."""
        return self.program_id or self.name
