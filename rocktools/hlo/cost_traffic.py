"""Bytes that an instruction reads and writes, by how much of its operands is touched.

A slice reads as much as it returns, a broadcast the whole of its operand once, a product everything. Updates in place
write what they update. Nothing is known about caches, padding, or which elements two readers have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocktools.hlo.cost_arithmetic import NoCostRule, operand_shapes
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.shapes import DTYPE_BITS, Shape

_SLICES = frozenset({"slice", "dynamic-slice", "gather"})
# A part of the result needs, in general, everything of the operands.
_WHOLE_OPERANDS = frozenset(
    {"dot", "ragged-dot", "convolution", "sort", "scatter", "reduce-window", "select-and-scatter", "custom-call"}
)
UPDATES = frozenset({"dynamic-update-slice", "scatter"})


def size_of(shape: Shape, elements: int | None = None) -> int:
    """Bytes of `elements` of a value (None: all of them).

    Raises:
        NoCostRule: the element type is unknown.
    """
    try:
        if elements is None or elements >= shape.elements_count:
            return shape.size_bytes
        if shape.is_tuple:
            return shape.size_bytes * elements // max(1, shape.elements_count)
        return (elements * DTYPE_BITS[shape.dtype] + 7) // 8
    except KeyError as error:
        raise NoCostRule(f"element type {error.args[0]} is unknown") from None


def measure_instruction(module: HloModule, instruction: Instruction) -> tuple[int, int]:
    """Bytes that an instruction on its own reads, each operand once, and writes.

    Raises:
        NoCostRule: an operand or element type is unknown.
    """
    shapes = operand_shapes(module, instruction)
    in_place = instruction.opcode in UPDATES
    needed = list_needs(module, instruction, shapes, instruction.shape.elements_count, in_place)
    written = updated_bytes(instruction, shapes) if in_place else size_of(instruction.shape)
    return read_bytes_of(module, instruction, dict(enumerate(needed))), written


def read_bytes_of(module: HloModule, instruction: Instruction, elements: Mapping[int, int]) -> int:
    """Bytes read of operands, by the elements read of each; an operand that is given twice is read once."""
    by_name: dict[str, int] = {}
    for number, count in elements.items():
        if number >= len(instruction.operands):
            raise NoCostRule(f"parameter {number} of its computation has no operand")
        by_name[instruction.operands[number]] = by_name.get(instruction.operands[number], 0) + count
    known = module.instructions
    missing = next((name for name in by_name if name not in known), None)
    if missing is not None:
        raise NoCostRule(f"its operand {missing} is not in the module")
    return sum(size_of(known[name].shape, count) for name, count in by_name.items() if count)


def list_needs(
    module: HloModule, instruction: Instruction, shapes: list[Shape], count: int, in_place: bool
) -> Iterator[int]:
    """Elements needed of each operand to make `count` elements of the result."""
    opcode, size = instruction.opcode, max(1, instruction.shape.elements_count)
    for i, shape in enumerate(shapes):
        whole = shape.elements_count
        if (opcode in _SLICES and i == 0) or opcode == "broadcast":
            yield min(whole, count)
        elif opcode in UPDATES and i < _targets(instruction):
            yield _needed_of_target(module, instruction, shapes, count, in_place)
        elif opcode == "get-tuple-element":
            yield count
        elif opcode == "dynamic-update-slice" and i == 1:
            yield min(whole, count)
        elif opcode == "concatenate" or (opcode == "reduce" and i < len(shapes) // 2):  # then come initial values
            yield -(-whole * min(count, size) // size)
        elif (whole == size or opcode == "pad") and opcode not in _WHOLE_OPERANDS:
            yield min(whole, count)
        else:
            yield whole


def _targets(instruction: Instruction) -> int:
    """How many operands, from the first, are what is updated."""
    return 1 if instruction.opcode == "dynamic-update-slice" else (len(instruction.operands) - 1) // 2


def _needed_of_target(
    module: HloModule, instruction: Instruction, shapes: list[Shape], count: int, in_place: bool
) -> int:
    """Elements read of what is updated. In place: none, or as many as are combined with what was there."""
    update = shapes[1 if instruction.opcode == "dynamic-update-slice" else -1].elements_count
    if not in_place:
        kept = shapes[0].elements_count - (update if instruction.opcode == "dynamic-update-slice" else 0)
        return max(0, min(kept, count))
    if instruction.opcode == "dynamic-update-slice" or not _combines(module, instruction):
        return 0
    return min(update, shapes[0].elements_count)


def _combines(module: HloModule, scatter: Instruction) -> bool:
    """Whether a scatter needs what was there: its computation is more than its second argument."""
    computation = module.computations.get(scatter.called[-1]) if scatter.called else None
    root = computation.root if computation else None
    return root is None or root.opcode != "parameter"


def updated_bytes(update: Instruction, shapes: list[Shape]) -> int:
    """Bytes that an update in place writes: of a scatter that hits elements repeatedly no more than there are."""
    if update.opcode == "dynamic-update-slice":
        return size_of(shapes[1])
    targets = _targets(update)
    pairs = zip(shapes[:targets], shapes[targets + 1 :], strict=True)
    return sum(min(size_of(target), size_of(updates)) for target, updates in pairs)
