"""The buffer assignment in an HloProto -> where each value of a program lies, and what of an instruction shares.

XLA decides where values lie when it assigns buffers; whether an output of a kernel may lie in the buffer of an
operand changes the arguments of the kernel, and so its code. Field numbers are those of `BufferAssignmentProto` in
XLA's `hlo.proto`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rocktools.hlo.module import HloModule, Instruction
from rocktools.protos import Field, build_messages

_PACKAGE = "rocktools.replay.buffers"
_PASS_ON = frozenset({"bitcast", "opt-barrier", "add-dependency", "while", "copy-done", "async-done"})
_STEPS_AT_MOST = 1000

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece of an allocation, by the number of that, in bytes."""

    allocation: int
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """An output of an instruction that lies where one of its operands lies.

    Attributes:
        output_index: into the tuple of its results; () where it is no tuple.
        operand: its number.
    """

    output_index: Index
    operand: int


Slices = Mapping[tuple[str, Index], Slice]
"""(instruction, index into the tuple it makes) -> where that lies."""


@functools.cache
def _messages() -> dict[str, Any]:
    fields = {
        "Location": [
            Field("instruction_name", 2, "string"),
            Field("shape_index", 3, "int64", is_repeated=True),
            Field("instruction_id", 4, "int64"),
        ],
        "LogicalBuffer": [Field("id", 1, "int64"), Field("defined_at", 3, "Location")],
        "Alias": [Field("source_buffer_id", 1, "int64"), Field("location", 2, "Location")],
        "Assigned": [
            Field("logical_buffer_id", 1, "int64"),
            Field("offset", 2, "int64"),
            Field("size", 3, "int64"),
        ],
        "Allocation": [Field("index", 1, "int64"), Field("assigned", 9, "Assigned", is_repeated=True)],
        "Assignment": [
            Field("logical_buffers", 1, "LogicalBuffer", is_repeated=True),
            Field("buffer_aliases", 2, "Alias", is_repeated=True),
            Field("buffer_allocations", 3, "Allocation", is_repeated=True),
        ],
        "HloProto": [Field("buffer_assignment", 3, "Assignment")],
    }
    return dict(build_messages(_PACKAGE, fields))


def parse_buffer_slices(hlo_proto: bytes, names: Mapping[int, str]) -> Slices:
    """Where the values of a program lie; {} where the proto has no buffer assignment.

    Args:
        hlo_proto: a serialised HloProto.
        names: of instructions, by their ids.
    """
    from google.protobuf.message import DecodeError

    message = _messages()["HloProto"]()
    try:
        message.ParseFromString(hlo_proto)
    except (DecodeError, RuntimeError):  # a bare module has other things under these numbers
        return {}
    assignment = message.buffer_assignment
    where = {
        each.logical_buffer_id: Slice(allocation.index, each.offset, each.size)
        for allocation in assignment.buffer_allocations
        for each in allocation.assigned
    }
    found: dict[tuple[str, Index], Slice] = {}
    defined = [(each.id, each.defined_at) for each in assignment.logical_buffers]
    aliased = [(each.source_buffer_id, each.location) for each in assignment.buffer_aliases]
    for number, location in (*defined, *aliased):
        name = location.instruction_name or names.get(location.instruction_id, "")
        if name and number in where:
            found.setdefault((name, tuple(location.shape_index)), where[number])
    return found


def find_shared_buffers(
    module: HloModule, instruction: Instruction, slices: Slices, *, done: Instruction | None = None
) -> tuple[SharedBuffer, ...]:
    """The outputs of an instruction that lie in the buffer of an operand, each operand once.

    Args:
        done: what waits for the instruction where it starts something: its outputs are meant then.
    """
    result = done or instruction
    outputs: list[Index] = [()]
    if result.shape.is_tuple:
        outputs = [(index,) for index in range(len(result.shape.elements))]
    shared: list[SharedBuffer] = []
    taken: set[str] = set()
    for output in outputs:
        place = slices.get((result.name, output))
        if place is None and done is not None:  # a done makes nothing: the results are in what the start makes
            inside = (1, *output) if instruction.shape.is_tuple else output
            place = slices.get((instruction.name, inside))
        for number, name in enumerate(instruction.operands):
            operand = module.instructions.get(name)
            if place is None or operand is None or operand.opcode == "constant" or name in taken:
                continue
            if _slice_of(module, operand, slices) == place:
                shared.append(SharedBuffer(output, number))
                taken.add(name)
                break
    return tuple(shared)


def _slice_of(module: HloModule, instruction: Instruction, slices: Slices) -> Slice | None:
    """Where a value lies: tuples, bitcasts and what loops carry have no place of their own."""
    index: Index = ()
    current: Instruction | None = instruction
    for _ in range(_STEPS_AT_MOST):
        if current is None:
            return None
        place = slices.get((current.name, index))
        if place is not None:
            return place
        behind = _behind(module, current, index)
        if behind is None:
            return None
        current, index = behind
    return None


def _behind(module: HloModule, instruction: Instruction, index: Index) -> tuple[Instruction | None, Index] | None:
    opcode, operands = instruction.opcode, instruction.operands
    if opcode == "get-tuple-element" and operands:
        element = instruction.attributes.get("index", "")
        return module.instructions.get(operands[0]), ((int(element) if element.isdecimal() else 0), *index)
    if opcode == "tuple" and index and index[0] < len(operands):
        return module.instructions.get(operands[index[0]]), index[1:]
    if opcode in _PASS_ON and operands:
        return module.instructions.get(operands[0]), index
    if opcode == "parameter":
        for caller in module.callers.get(instruction.computation, ()):
            number = instruction.parameter_number or 0
            if caller.opcode == "while":
                return module.instructions.get(caller.operands[0]), index
            if caller.opcode in ("call", "async-start") and number < len(caller.operands):
                return module.instructions.get(caller.operands[number]), index
            break
    return None


def guess_shared_buffers(module: HloModule, instruction: Instruction) -> tuple[SharedBuffer, ...]:
    """What XLA would have to share, for programs without a buffer assignment (text): updates in place.

    Declared aliases, and results that are a `dynamic-update-slice` or `scatter` into a whole operand of the same shape.
    Failure case: XLA may also have put a loop fusion's output into an operand that dies there; that is not seen here,
    and the replay's kernel then has one argument more than the job's.
    """
    if instruction.opcode in ("dynamic-update-slice", "scatter"):
        return (SharedBuffer((), 0),)
    declared = _declared(instruction)
    if declared or instruction.opcode != "fusion" or not instruction.called:
        return declared
    computation = module.computations.get(instruction.called[0])
    root = None if computation is None else computation.root
    if computation is None or root is None:
        return ()
    inner = {each.name: each for each in computation.instructions}
    results: list[tuple[Index, Instruction]] = [((), root)]
    if root.opcode == "tuple":
        results = [((index,), inner[name]) for index, name in enumerate(root.operands) if name in inner]
    found = []
    for index, result in results:
        updated = _through_bitcasts(inner, result)
        if updated.opcode not in ("dynamic-update-slice", "scatter") or not updated.operands:
            continue
        base = _through_bitcasts(inner, inner[updated.operands[0]])
        number = base.parameter_number
        if number is not None and number < len(instruction.operands):
            output = instruction.shape.elements[index[0]] if index else instruction.shape
            operand = module.instructions.get(instruction.operands[number])
            if operand is not None and str(operand.shape) == str(output):
                found.append(SharedBuffer(index, number))
    return tuple(found)


def _through_bitcasts(inner: Mapping[str, Instruction], instruction: Instruction) -> Instruction:
    for _ in range(_STEPS_AT_MOST):
        if instruction.opcode not in ("bitcast", "copy") or not instruction.operands:
            break
        instruction = inner[instruction.operands[0]]
    return instruction


def _declared(instruction: Instruction) -> tuple[SharedBuffer, ...]:
    """`output_to_operand_aliasing={{0}: (2, {}), {}: (0, {})}`; only whole operands."""
    text = instruction.attributes.get("output_to_operand_aliasing", "")
    found = []
    for part in text.strip("{} ").split("),") if text else ():
        output, _, operand = part.partition(":")
        numbers = [int(number) for number in output.strip(" {}").split(",") if number.strip().isdecimal()]
        number = operand.strip(" (").partition(",")[0].strip()
        if number.isdecimal():
            found.append(SharedBuffer(tuple(numbers), int(number)))
    return tuple(found)
