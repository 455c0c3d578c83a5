"""FLOPs of matrix products: two for each multiply-add, from shapes and dimension numbers. Also of integer products."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rocktools.hlo.module import Instruction
from rocktools.hlo.shapes import Shape

_MULTIPLY_ADD_FLOP = {"c64": 8, "c128": 8}  # a complex multiply-add is four real ones


def parse_dimensions(text: str) -> tuple[int, ...]:
    """`{0,2}` or `0,2` -> (0, 2); what is no number is left out."""
    return tuple(int(part) for part in text.strip("{} ").split(",") if part.strip().isdecimal())


def count_product_flop(lhs: Shape, result: Shape, contracting: Sequence[int]) -> int:
    """FLOPs of a product: every element of the result is a sum over the contracted dimensions of the left operand.

    Batch dimensions are part of the result.
    """
    terms = math.prod(lhs.dimensions[dimension] for dimension in contracting)
    return _MULTIPLY_ADD_FLOP.get(result.dtype, 2) * result.elements_count * terms


def count_ragged_flop(
    lhs: Shape, group_sizes: Shape, result: Shape, contracting: Sequence[int], ragged: Sequence[int]
) -> int:
    """FLOPs of a ragged product, if the groups cover everything (how long they are is known at run time only).

    A ragged row (or batch) meets one group, so that the product costs what it would without groups. If what is
    contracted is ragged, the groups share its length, and each gives a result of its own.
    """
    flop = count_product_flop(lhs, result, contracting)
    if set(ragged) & set(contracting):
        return flop // max(1, group_sizes.dimensions[-1] if group_sizes.dimensions else 1)
    return flop


def count_dot_flop(instruction: Instruction, operands: Sequence[Shape]) -> int:
    """FLOPs of `dot` and `ragged-dot`, from their attributes."""
    contracting = parse_dimensions(instruction.attributes.get("lhs_contracting_dims", ""))
    if instruction.opcode == "dot":
        return count_product_flop(operands[0], instruction.shape, contracting)
    ragged = parse_dimensions(instruction.attributes.get("lhs_ragged_dims", ""))
    return count_ragged_flop(operands[0], operands[2], instruction.shape, contracting, ragged)


def configured_dimensions(numbers: object, name: str) -> tuple[int, ...]:
    """A list of dimensions in a backend_config, where they are numbers or texts; () where there is none."""
    found = numbers.get(name) if isinstance(numbers, Mapping) else None
    return tuple(int(dimension) for dimension in found) if isinstance(found, Sequence) else ()
