"""Computations of a program -> Python functions of lax, one line for each instruction, with its shape and source line.

For reading, editing and experiments, and, with every value recorded, for running a whole program on a CPU. XLA compiles
what is written here anew: it is no proof of anything about the job's kernel.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rocktools.hlo.module import Computation, HloModule, Instruction
from rocktools.hlo.shapes import Shape
from rocktools.replay.readable_calls import apply_expression
from rocktools.replay.readable_library import (
    collective_expression,
    custom_call_expression,
    is_collective,
    ragged_dot_expression,
)
from rocktools.replay.readable_literals import NotTranslatable, literal_expression, read_literal
from rocktools.replay.readable_rules import RULES, monoid_of

_RESERVED = {"jnp", "lax", "np", "jax", "functools", "record", "run_loop", "run_fusion", "run_branch", "constants"}
_SHORTENED = 110
_WITH_FUNCTIONS = frozenset(
    {"reduce", "reduce-window", "scatter", "sort", "while", "conditional", "call", "fusion", "map", "async-start"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableProgram:
    """Functions in Python.

    Attributes:
        text: of the functions, those that are called before those that call.
        function: name of the one that stands for the computation that was asked for.
        devices_count: that a collective in it needs; 1 where there is none.
        constants: that are too large for text, by the name under which the functions look them up in `constants`.
    """

    text: str
    function: str
    devices_count: int = 1
    constants: Mapping[str, Any] = field(default_factory=dict)


def render_readable(
    module: HloModule,
    literals: Mapping[str, Any],
    *,
    origins: HloModule | None = None,
    devices_count: int = 1,
    is_recording: bool = False,
) -> ReadableProgram:
    """The entry computation as a function, and everything that it calls.

    Args:
        module: a program.
        literals: LiteralProto of constants, by the name of the instruction.
        origins: the job's program, for source lines.
        devices_count: devices that collectives join.
        is_recording: each value outside of fusions is handed to `record(name, value)`, loops run through `run_loop`,
            branches through `run_branch`, fusions through `run_fusion`.

    Raises:
        NotTranslatable: an instruction has no form in lax; it is named.
    """
    entry = module.entry
    if entry is None:
        raise NotTranslatable("a program without an entry")
    writer = _Writer(
        module=module,
        literals=literals,
        origins=origins or module,
        devices_count=devices_count,
        is_recording=is_recording,
    )
    function = writer.function_of(entry.name, is_fused=False)
    return ReadableProgram(
        text="\n\n".join(writer.texts), function=function, devices_count=writer.joined, constants=writer.constants
    )


def identifier(name: str) -> str:
    """A name of HLO as one of Python."""
    made = re.sub(r"\W", "_", name)
    is_taken = made[:1].isdigit() or keyword.iskeyword(made) or made in _RESERVED or made.startswith("__")
    return f"v_{made}" if is_taken else made


class _Writer:
    """Functions as they are written; each computation once."""

    def __init__(
        self,
        *,
        module: HloModule,
        literals: Mapping[str, Any],
        origins: HloModule,
        devices_count: int,
        is_recording: bool,
    ) -> None:
        self.module = module
        self.texts: list[str] = []
        self.constants: dict[str, Any] = {}
        self.joined = 1
        self._literals = literals
        self._origins = origins
        self._devices_count = devices_count
        self._is_recording = is_recording
        self._functions: dict[str, str] = {}

    def function_of(self, computation_name: str, *, is_fused: bool = True) -> str:
        """The name of the function of a computation, which is written now if it was not."""
        known = self._functions.get(computation_name)
        if known is not None:
            return known
        computation = self.module.computations.get(computation_name)
        if computation is None or computation.root is None:
            raise NotTranslatable(f"the computation {computation_name} is missing")
        name = f"f_{identifier(computation_name)}"
        while name in self._functions.values():
            name += "_"
        self._functions[computation_name] = name
        names = _names(computation)
        lines = []
        for instruction in _operands_first(computation):
            lines += self._lines(instruction, names, is_recorded=self._is_recording and not is_fused)
        parameters = ", ".join(names[each.name] for each in computation.parameters)
        body = "\n".join(f"    {line}" for line in [*lines, f"return {names[computation.root.name]}"])
        self.texts.append(f"def {name}({parameters}):\n{body}\n")
        return name

    def _lines(self, instruction: Instruction, names: Mapping[str, str], *, is_recorded: bool) -> list[str]:
        name = names[instruction.name]
        found = []
        if instruction.opcode != "parameter":
            try:
                expression = self._expression(instruction, [names[each] for each in instruction.operands])
            except NotTranslatable as reason:
                text = str(reason)
                where = "" if text.startswith("%") else f"%{instruction.name} ({instruction.opcode}): "
                raise NotTranslatable(f"{where}{text}") from None
            except (KeyError, IndexError, ValueError) as error:
                raise NotTranslatable(
                    f"%{instruction.name} ({instruction.opcode}): an attribute is missing or strange ({error})"
                ) from error
            found.append(f"{name} = {expression}{self._comment(instruction, is_recorded=is_recorded)}")
        if is_recorded:
            found.append(f"record({instruction.name!r}, {name})")
        return found

    def _comment(self, instruction: Instruction, *, is_recorded: bool) -> str:
        if is_recorded:
            return ""
        metadata = self._origins.instructions.get(instruction.name, instruction).metadata
        source = f"{metadata.source_file.rpartition('/')[2]}:{metadata.source_line}" if metadata.source_file else ""
        scope = metadata.op_name
        shape = str(instruction.shape)
        if len(shape) > _SHORTENED:
            shape = f"{shape[:_SHORTENED]}..."
        return "  # " + "  ".join(part.replace("\n", " ") for part in (shape, source, scope) if part)

    def _expression(self, instruction: Instruction, operands: Sequence[str]) -> str:
        opcode = instruction.opcode
        if opcode == "constant":
            return self._constant(instruction)
        shapes = [self._shape(name) for name in instruction.operands]
        if opcode == "custom-call":
            return custom_call_expression(instruction, operands, shapes)
        if opcode == "ragged-dot":
            return ragged_dot_expression(instruction, operands, shapes)
        if is_collective(opcode):
            return self._collective(instruction, operands)
        if opcode in _WITH_FUNCTIONS:
            return apply_expression(self, instruction, operands, shapes)
        rule = RULES.get(opcode)
        if rule is None:
            raise NotTranslatable("lax has no such instruction")
        return rule(instruction, operands, shapes)

    @property
    def literals(self) -> Mapping[str, Any]:
        return self._literals

    @property
    def is_recording(self) -> bool:
        return self._is_recording

    def _shape(self, name: str) -> Shape:
        return self.module.instructions[name].shape

    def _collective(self, instruction: Instruction, operands: Sequence[str]) -> str:
        reduction = None
        for called in instruction.called:
            root = self.module.computations[called].root
            reduction = None if root is None else monoid_of(root.opcode)
        self.joined = self._devices_count
        return collective_expression(instruction, operands, reduction, self._devices_count)

    def _constant(self, instruction: Instruction) -> str:
        literal = self._literals.get(instruction.name)
        if literal is None:
            raise NotTranslatable("a constant without its values")
        values = read_literal(literal)
        if not self._is_recording:
            return literal_expression(values, instruction.shape.dtype)
        self.constants[instruction.name] = values
        return f"constants[{instruction.name!r}]"


def _names(computation: Computation) -> dict[str, str]:
    found: dict[str, str] = {}
    taken: set[str] = set()
    for instruction in computation.instructions:
        name = identifier(instruction.name)
        while name in taken:
            name += "_"
        taken.add(name)
        found[instruction.name] = name
    return found


def _operands_first(computation: Computation) -> list[Instruction]:
    """Its instructions, each behind its operands, otherwise in their order."""
    by_name = {each.name: each for each in computation.instructions}
    done: dict[str, None] = {}
    for start in by_name:
        waiting = [(start, False)]
        while waiting:
            name, is_ready = waiting.pop()
            if name in done:
                continue
            if is_ready:
                done[name] = None
                continue
            waiting.append((name, True))
            waiting.extend((each, False) for each in reversed(by_name[name].operands))
    return [by_name[name] for name in done]
