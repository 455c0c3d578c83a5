"""What kind of arithmetic an instruction does: on matrix or vector units, and in which format. For roofline ceilings.

The kind of a fusion is that of the part with most FLOPs: a product with an epilogue is matrix work. Matrix units take
the format of the operands, not of the sum: a product of two bf16 with a result in f32 is bf16. Which units a compiler
really uses is not in the module; a small product may run on vector units all the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rocktools.hlo.cost_arithmetic import NoCostRule, count_arithmetic, is_floating
from rocktools.hlo.cost_custom_calls import count_custom_call
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.shapes import Shape

_PRODUCTS = frozenset({"dot", "ragged-dot", "convolution", "custom-call", "cholesky", "triangular-solve"})
_REAL = {"c64": "f32", "c128": "f64"}
_DEEPEST = 8


@dataclass(frozen=True, slots=True, order=True)
class ArithmeticKind:
    """Units and format.

    Attributes:
        unit: `matrix` or `vector`.
        dtype: as HLO names it; of products, that of the operands.
    """

    unit: str
    dtype: str


def find_arithmetic_kinds(module: HloModule) -> Mapping[str, ArithmeticKind]:
    """Instruction -> kind of most of its FLOPs. What calculates nothing, or has no rule, is left out."""
    found = {}
    for instruction in module.instructions.values():
        totals: dict[ArithmeticKind, int] = defaultdict(int)
        for kind, flop in _parts(module, instruction, 0):
            totals[kind] += flop
        if totals:
            found[instruction.name] = max(totals, key=lambda kind: (totals[kind], kind))
    return found


def _parts(module: HloModule, instruction: Instruction, depth: int) -> Iterator[tuple[ArithmeticKind, int]]:
    """Kinds and FLOPs of everything that one execution calculates."""
    if instruction.opcode in ("fusion", "async-start"):
        computation = module.computations.get(instruction.called[0]) if instruction.called else None
        if computation is not None and depth < _DEEPEST:
            for inner in computation.instructions:
                yield from _parts(module, inner, depth + 1)
        return
    operands = [module.instructions[name].shape for name in instruction.operands if name in module.instructions]
    try:
        if instruction.opcode == "custom-call":
            flop = count_custom_call(instruction, operands).flop
        else:
            flop = count_arithmetic(module, instruction).flop
    except (NoCostRule, ValueError, IndexError, KeyError, ZeroDivisionError):
        return
    if flop:
        yield _kind(instruction, operands), flop


def _kind(instruction: Instruction, operands: Sequence[Shape]) -> ArithmeticKind:
    """The kind of one instruction that is no fusion."""
    dtypes = [leaf.dtype for shape in operands for leaf in shape.leaves()]
    if instruction.opcode in _PRODUCTS:
        return ArithmeticKind("matrix", _by_algorithm(instruction) or _common(dtypes[:2]) or "f32")
    dtype = next((leaf.dtype for leaf in instruction.shape.leaves() if is_floating(leaf.dtype)), None)
    dtype = dtype or next(filter(is_floating, dtypes), "f32")
    return ArithmeticKind("vector", _REAL.get(dtype, dtype))


def _by_algorithm(instruction: Instruction) -> str | None:
    """`algorithm=dot_bf16_bf16_f32_x3` multiplies in bf16 whatever its operands are; `dot_any_f8_...` says nothing."""
    parts = instruction.attributes.get("algorithm", "").split("_")
    return parts[1] if len(parts) > 2 and parts[0] == "dot" and parts[1] != "any" else None


def _common(dtypes: Sequence[str]) -> str | None:
    """The format of the operands; of two formats the wider one, in which both can be multiplied."""
    known = [_REAL.get(dtype, dtype) for dtype in dtypes]
    return max(known, key=lambda dtype: (_bits(dtype), dtype)) if known else None


def _bits(dtype: str) -> int:
    digits = "".join(character for character in dtype.split("e")[0] if character.isdigit())
    return int(digits) if digits else 0
