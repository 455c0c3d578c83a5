"""Compiled programs of a few instructions, written down by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocktools.hlo.module import Computation, HloModule, Instruction
from rocktools.hlo.shapes import Shape
from rocktools.hlo.thunks import Thunk, ThunkSequence


def make_instruction(name: str, opcode: str = "fusion", **fields: object) -> Instruction:
    """f32[8], in no computation yet; `size` stands for another length."""
    size = fields.pop("size", 8)
    assert isinstance(size, int)
    shape = Shape(dtype="f32", dimensions=(size,), layout="0")
    return Instruction(name=name, opcode=opcode, shape=shape, computation="", position=0, **fields)  # type: ignore[arg-type]


def make_module(
    computations: Mapping[str, Sequence[Instruction]], *, program_id: str | None = "7", name: str = "jit_step"
) -> HloModule:
    """A module; the last computation is the entry, the last instruction of each its root."""
    made = {}
    *_, entry = computations
    for label, instructions in computations.items():
        placed = tuple(
            Instruction(
                name=each.name,
                opcode=each.opcode,
                shape=each.shape,
                operands=each.operands,
                called=each.called,
                computation=label,
                position=place,
                is_root=place == len(instructions) - 1,
                attributes=each.attributes,
                argument=each.argument,
                metadata=each.metadata,
            )
            for place, each in enumerate(instructions)
        )
        made[label] = Computation(name=label, instructions=placed, is_entry=label == entry)
    return HloModule(
        name=name, program_id=program_id, source="made", computations=made, entry_name=entry, is_scheduled=True
    )


def make_flat_module(*names: str, program_id: str | None = "7") -> HloModule:
    """A module whose entry launches fusions of these names, each of a computation of its own size."""
    computations: dict[str, list[Instruction]] = {}
    launched = []
    for place, name in enumerate(names):
        computations[f"fused_{place}"] = [
            make_instruction(f"parameter.{place}", "parameter", argument="0", size=place + 1),
            make_instruction(f"negate.{place}", "negate", operands=(f"parameter.{place}",), size=place + 1),
        ]
        launched.append(make_instruction(name, called=(f"fused_{place}",), size=place + 1))
    return make_module({**computations, "main": launched}, program_id=program_id)


def make_sequence(*thunks: Thunk) -> ThunkSequence:
    return ThunkSequence(thunks=thunks, source="made")
