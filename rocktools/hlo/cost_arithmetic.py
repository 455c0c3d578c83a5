"""Arithmetic of one instruction: floating-point operations and transcendental ones, from opcode, shapes and attributes.

Conventions (docs/decisions/0010-cost-from-the-module.md): a FLOP is an operation on floating-point numbers. Comparing,
selecting, converting, moving, and integer work are none, but integer matrix products are counted as if they were, since
devices state peaks for them. A transcendental operation (exponential, division aside) is counted on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocktools.hlo.cost_dot import count_dot_flop
from rocktools.hlo.cost_windows import count_convolution_flop, count_window_terms, parse_window
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.shapes import DTYPE_BITS, Shape


class NoCostRule(Exception):
    """Nothing can be said about an instruction, for the reason in the message. Never leaves `estimate_costs`."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Floating-point operations, and transcendental operations, which are not among them."""

    flop: int = 0
    transcendental_count: int = 0

    def __add__(self, other: Arithmetic) -> Arithmetic:
        return Arithmetic(self.flop + other.flop, self.transcendental_count + other.transcendental_count)

    def times(self, count: int) -> Arithmetic:
        return Arithmetic(self.flop * count, self.transcendental_count * count)

    def share(self, part: int, whole: int) -> Arithmetic:
        """What `part` of `whole` equal pieces cost."""
        if part >= whole:
            return self
        return Arithmetic(self.flop * part // whole, self.transcendental_count * part // whole)


_NOTHING = Arithmetic()
_ONE_FLOP = frozenset(
    {"add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "negate", "abs", "sign", "floor",
     "ceil", "round-nearest-even", "round-nearest-afz", "clamp"}
)  # fmt: skip
_TRANSCENDENTAL = frozenset(
    {"exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "sqrt", "rsqrt", "cbrt",
     "sine", "cosine", "tan", "tanh", "atan2", "erf", "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"}
)  # fmt: skip
_NO_FLOP = frozenset(
    {"add-dependency", "after-all", "and", "bitcast", "bitcast-convert", "broadcast", "compare", "complex",
     "concatenate", "constant", "convert", "copy", "copy-start", "count-leading-zeros", "domain", "dynamic-reshape",
     "dynamic-slice", "dynamic-update-slice", "gather", "get-dimension-size", "get-tuple-element", "imag", "infeed",
     "iota", "is-finite", "not", "optimization-barrier", "opt-barrier", "or", "outfeed", "pad", "parameter",
     "partition-id", "popcnt", "real", "recv", "reduce-precision", "replica-id", "reshape", "reverse", "rng",
     "rng-bit-generator", "rng-get-and-update-state", "select", "send", "set-dimension-size", "shift-left",
     "shift-right-arithmetic", "shift-right-logical", "slice", "sort", "stochastic-convert", "topk", "transpose",
     "tuple", "xor"}
)  # fmt: skip
_DEEPEST = 8  # computations that apply computations; a damaged module may call in a circle


def operand_shapes(module: HloModule, instruction: Instruction) -> list[Shape]:
    """Shapes of its operands, in order.

    Raises:
        NoCostRule: one is not in the module, because the text was cut.
    """
    known = module.instructions
    missing = next((name for name in instruction.operands if name not in known), None)
    if missing is not None:
        raise NoCostRule(f"its operand {missing} is not in the module")
    return [known[name].shape for name in instruction.operands]


def is_floating(dtype: str) -> bool:
    return dtype[:1] in ("f", "b", "c") and dtype in DTYPE_BITS


def count_arithmetic(module: HloModule, instruction: Instruction, depth: int = 0) -> Arithmetic:
    """What one execution of `instruction` calculates; for what calls computations, all of their applications.

    Fusions, calls, loops, custom calls and collectives have rules elsewhere.

    Raises:
        NoCostRule: the opcode has no rule, or something it needs is not in the module.
    """
    opcode, shape = instruction.opcode, instruction.shape
    if opcode in _NO_FLOP:
        return _NOTHING
    if opcode in _ONE_FLOP:
        return Arithmetic(_flop_per_element(opcode, shape.dtype) * shape.elements_count)
    if opcode in _TRANSCENDENTAL:
        return Arithmetic(0, shape.elements_count if is_floating(shape.dtype) else 0)
    operands = operand_shapes(module, instruction)
    if opcode in ("dot", "ragged-dot"):
        return Arithmetic(count_dot_flop(instruction, operands))
    if opcode == "convolution":
        return Arithmetic(count_convolution_flop(instruction.attributes, operands[0], operands[1], shape))
    if opcode in ("cholesky", "triangular-solve"):
        return Arithmetic(_count_solver_flop(opcode, operands))
    count = _count_applications(instruction, operands)
    if depth >= _DEEPEST:
        raise NoCostRule("computations are nested too deeply, or in a circle")
    return count_computation(module, instruction.called[-1], depth + 1).times(count)


def count_computation(module: HloModule, name: str, depth: int = 0) -> Arithmetic:
    """What one application of a scalar computation calculates: a reduction's, a scatter's.

    Raises:
        NoCostRule: it is not in the module, or holds something without a rule.
    """
    computation = module.computations.get(name)
    if computation is None:
        raise NoCostRule(f"computation {name} is not in the module")
    return sum((count_arithmetic(module, inner, depth) for inner in computation.instructions), _NOTHING)


def _flop_per_element(opcode: str, dtype: str) -> int:
    """0 for integers; complex numbers take two additions, or four products and two additions."""
    if dtype.startswith("c"):
        return 6 if opcode in ("multiply", "divide") else 2
    return 1 if is_floating(dtype) else 0


def _count_solver_flop(opcode: str, operands: Sequence[Shape]) -> int:
    """n^3 / 3 for each matrix factorised, n^2 for each right-hand side solved (leading terms)."""
    matrix = operands[0]
    order = matrix.dimensions[-1]
    return matrix.elements_count * order // 3 if opcode == "cholesky" else operands[1].elements_count * order


def _count_applications(instruction: Instruction, operands: Sequence[Shape]) -> int:
    """How often the computation that it calls last is applied to elements."""
    opcode, shape = instruction.opcode, next(iter(instruction.shape.leaves()), instruction.shape)
    if not instruction.called:
        raise NoCostRule(f"no rule for opcode {opcode}")
    if opcode == "reduce":  # of n elements n - 1 are added to the first; the neutral element is not counted
        return max(0, operands[0].elements_count - shape.elements_count)
    if opcode == "reduce-window":
        window = parse_window(instruction.attributes.get("window", ""))
        return max(0, count_window_terms(window, operands[0], shape) - shape.elements_count)
    if opcode == "scatter":
        return operands[-1].elements_count
    if opcode == "select-and-scatter":
        return operands[1].elements_count
    if opcode == "map":
        return shape.elements_count
    raise NoCostRule(f"no rule for opcode {opcode}")
