"""The hottest operations of a summary with their HLO text: the instruction, and what is in it if it is a fusion."""

from __future__ import annotations

from dataclasses import replace

from rocktools.hlo.module import HloModule
from rocktools.hlo.printing import render_computation, render_instruction
from rocktools.summary.document import Operation, OperationsBlock
from rocktools.summary.gathered import Timed

OPERATIONS_COUNT = 60
_LINES = 60
_CHARACTERS = 8_000


def with_hlo_texts(block: OperationsBlock, timed: Timed) -> OperationsBlock:
    """The block; its first `OPERATIONS_COUNT` operations have their text, where their program is known."""
    modules = {
        (run, each.program_id): each.program.module for run, found in timed.runs.programs.items() for each in found
    }
    first = [
        replace(each, hlo_text=_text(each, modules.get((each.run, each.program_id or ""))))
        for each in block.operations[:OPERATIONS_COUNT]
    ]
    return replace(block, operations=(*first, *block.operations[OPERATIONS_COUNT:]))


def _text(operation: Operation, module: HloModule | None) -> str | None:
    instruction = None if module is None else module.instructions.get(operation.instruction or "")
    if module is None or instruction is None:
        return None
    lines = render_instruction(instruction).splitlines()
    for name in instruction.called if instruction.opcode == "fusion" else ():
        lines += ["", *render_computation(module.computations[name]).splitlines()]
    cut = len(lines) - _LINES
    if cut > 0:
        lines = [*lines[:_LINES], f"... {cut} more lines: rocktools hlo show"]
    return "\n".join(lines)[:_CHARACTERS]
