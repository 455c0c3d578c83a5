"""Who makes what an instruction reads, and who reads what it makes, with everything looked through that only passes on.

Tuples, bitcasts, the `-done` half of asynchronous instructions, and the borders of loops, calls and branches make
nothing. Through the border of a loop a value comes from before the loop and from the iteration before. Knows no phase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rocktools.hlo.module import HloModule, Instruction

Value = tuple[str, int | None]
"""An instruction, and which element of its tuple; None for all of it."""

_PASS_ON = frozenset({"bitcast", "opt-barrier", "domain", "add-dependency", "get-dimension-size"})
_NOTHING = frozenset({"constant", "after-all", "partition-id", "replica-id"})
_DONE = re.compile(r"-(done|update)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow:
    """Neighbours of instructions, by name.

    Attributes:
        producers: instruction -> those that make what it reads; parameters of the program among them.
        consumers: the other way round.
    """

    producers: Mapping[str, tuple[str, ...]]
    consumers: Mapping[str, tuple[str, ...]]


def build_dataflow(module: HloModule, instructions: Iterable[Instruction]) -> Dataflow:
    """The neighbours of `instructions` among themselves and the program's parameters.

    Args:
        instructions: those that launch something.
    """
    wanted = list(instructions)
    search = ValueSources.of(module)
    producers: dict[str, tuple[str, ...]] = {}
    consumers: dict[str, dict[str, None]] = {}
    for instruction in wanted:
        found: dict[str, None] = {}
        for operand in instruction.operands:
            found.update(dict.fromkeys(name for name, _ in search.sources_of(operand, None)))
        found.pop(instruction.name, None)
        producers[instruction.name] = tuple(found)
        for name in found:
            consumers.setdefault(name, {})[instruction.name] = None
    return Dataflow(producers=producers, consumers={name: tuple(found) for name, found in consumers.items()})


def _roots(module: HloModule) -> dict[str, Instruction]:
    roots = {name: computation.root for name, computation in module.computations.items()}
    return {name: root for name, root in roots.items() if root is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSources:
    """Where values come from; a value is an instruction, or one element of the tuple that it makes.

    Attributes:
        module: the program.
        roots: computation -> its result.
        answers: found already.
    """

    module: HloModule
    roots: Mapping[str, Instruction]
    answers: dict[Value, tuple[Value, ...]]

    @classmethod
    def of(cls, module: HloModule) -> ValueSources:
        return cls(module=module, roots=_roots(module), answers={})

    def sources_of(self, name: str, index: int | None) -> tuple[Value, ...]:
        """The values that are made by somebody and that this one is made of, in the order met."""
        start = (name, index)
        known = self.answers.get(start)
        if known is not None:
            return known
        seen = {start}
        waiting = [start]
        found: dict[Value, None] = {}
        while waiting:
            value = waiting.pop(0)
            answer = self.answers.get(value)
            if answer is not None:
                found.update(dict.fromkeys(answer))
                continue
            instruction = self.module.instructions.get(value[0])
            if instruction is None or instruction.opcode in _NOTHING:
                continue
            behind = self._behind(instruction, value[1])
            if behind is None:
                found[value] = None
            else:
                waiting += [each for each in behind if each not in seen]
                seen.update(behind)
        self.answers[start] = tuple(found)
        return self.answers[start]

    def _behind(self, instruction: Instruction, index: int | None) -> list[Value] | None:
        """The values that this one is made of; None where the instruction makes it itself."""
        operands, opcode = instruction.operands, instruction.opcode
        if opcode == "get-tuple-element":
            return [(operands[0], _index_of(instruction))] if operands else []
        if opcode == "tuple":
            chosen = operands if index is None or index >= len(operands) else operands[index : index + 1]
            return [(name, None) for name in chosen]
        if opcode in _PASS_ON or _DONE.search(opcode):
            return [(name, index) for name in operands[:1]]
        if opcode in ("while", "call", "conditional"):
            called = instruction.called[:1] if opcode == "while" else instruction.called
            return [(self.roots[name].name, index) for name in called if name in self.roots]
        if opcode == "parameter":
            return self._into(instruction, index)
        return None

    def _into(self, parameter: Instruction, index: int | None) -> list[Value] | None:
        """What callers hand over for a parameter; None for one of the program, or of a fused computation."""
        values: list[Value] = []
        number = parameter.parameter_number or 0
        callers = self.module.callers.get(parameter.computation, ())
        for caller in callers:
            if caller.opcode == "while":
                values.append((caller.operands[0], index))
                body = self.roots.get(caller.called[0]) if caller.called else None
                if body is not None:  # of the iteration before, which the condition sees, too
                    values.append((body.name, index))
            elif caller.opcode == "call" and number < len(caller.operands):
                values.append((caller.operands[number], index))
            elif caller.opcode == "conditional":
                branch = caller.called.index(parameter.computation) + 1
                values += [(name, index) for name in caller.operands[branch : branch + 1]]
            else:
                return None
        return values if callers else None


def _index_of(instruction: Instruction) -> int | None:
    text = instruction.attributes.get("index", "")
    return int(text) if text.isdecimal() else None
