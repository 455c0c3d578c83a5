"""A program of one instruction -> its inputs: shape, layout and meaning of each, as they are written into spec.json."""

from __future__ import annotations

from dataclasses import dataclass

from rocktools.hlo.module import HloModule
from rocktools.hlo.shapes import Shape
from rocktools.replay.proto_edit import ReplayParameter
from rocktools.replay.roles import Meaning, Role, find_meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayInput:
    """One input of a replay.

    Attributes:
        name: of the parameter.
        origin: the instruction of the job whose value it stands for.
        operands: which operands of the replayed instruction it is.
        shape: with the layout it has in the job.
        meaning: what its values mean.
    """

    name: str
    origin: str
    operands: tuple[int, ...]
    shape: Shape
    meaning: Meaning

    @property
    def is_data_dependent(self) -> bool:
        """Whether the time of the kernel hangs on its values."""
        return self.meaning.role in (Role.INDEX, Role.GROUP_SIZES, Role.SORT_KEY)

    def as_dict(self) -> dict[str, object]:
        meaning = self.meaning
        found: dict[str, object] = {
            "name": self.name,
            "origin": self.origin,
            "operands": list(self.operands),
            "shape": str(self.shape),
            "dtype": self.shape.dtype,
            "dimensions": list(self.shape.dimensions),
            "minor_to_major": list(self.shape.minor_to_major),
            "role": str(meaning.role),
        }
        if meaning.bound is not None:
            found["bound"] = meaning.bound
        if meaning.role in (Role.INDEX, Role.START):
            found |= {"is_sorted": meaning.is_sorted, "is_unique": meaning.is_unique, "uses": list(meaning.uses)}
        return found


def build_inputs(
    program: HloModule, parameters: tuple[ReplayParameter, ...], job: HloModule
) -> tuple[ReplayInput, ...]:
    """The inputs of a program of one instruction, in order.

    Args:
        program: of one instruction.
        parameters: of it, and where they are from.
        job: the program that they are from.
    """
    entry = program.entry
    assert entry is not None
    found = []
    for parameter, made in zip(entry.parameters, parameters, strict=True):
        origin = job.instructions.get(made.origin)
        if origin is not None and origin.opcode in ("partition-id", "replica-id"):
            meaning = Meaning(role=Role.DEVICE_NUMBER)
        else:
            meaning = find_meaning(program, entry, parameter)
        found.append(
            ReplayInput(
                name=made.name, origin=made.origin, operands=made.operands, shape=parameter.shape, meaning=meaning
            )
        )
    return tuple(found)
