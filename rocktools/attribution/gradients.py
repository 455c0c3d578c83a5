"""Backward matrix products -> gradients of activations (dgrad) and of weights (wgrad), where shapes tell.

The forward product below the same scope has an activation and a weight as operands. A backward product whose result is
as large as that weight makes its gradient; one whose result is as large as the activation makes the activation's. An
operand is a weight where it comes from arguments of the program through nothing but moves: slices, gathers,
conversions, transposes. Products without weights (scores of an attention) have gradients of activations only. What is
equally large, or has no forward product, stays unsplit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from rocktools.hlo.dataflow import Value, ValueSources
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.program_summary import collective_kind, is_launched, launched_computations
from rocktools.hlo.scopes import Phase, op_name_of, parse_op_name
from rocktools.hlo.shapes import Shape


class Gradient(str, Enum):
    """What a backward product is the gradient of."""

    ACTIVATION = "dgrad"
    WEIGHT = "wgrad"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """A matrix product that is launched, alone or in a fusion.

    Attributes:
        launched: the instruction that is launched.
        scope: of its op_name.
        phase: of its op_name.
        result: shape of the product itself.
        operands: shape of each operand of the product, and which operand of what is launched it comes from.
    """

    launched: Instruction
    scope: str
    phase: Phase | None
    result: Shape
    operands: tuple[tuple[Shape, int], ...]


_MATMUL_TARGETS = ("__cublas$", "__cudnn$blockScaledDot")
_SAME_VALUE = frozenset({"bitcast", "copy", "transpose", "reshape", "convert"})
_MOVES = frozenset(
    {"bitcast", "copy", "transpose", "reshape", "convert", "slice", "dynamic-slice", "concatenate", "broadcast", "pad",
     "parameter", "constant", "tuple", "get-tuple-element", "reverse", "iota"}
)  # fmt: skip


def split_gradients(module: HloModule) -> Mapping[str, Gradient]:
    """Instruction -> what it is the gradient of; what is no backward product, or cannot be told, is left out."""
    products = list(_products(module))
    sources = ValueSources.of(module)
    weights: dict[str, list[tuple[Shape | None, Shape | None]]] = {}
    for product in products:
        if product.phase is not Phase.BACKWARD and product.phase is not None and len(product.operands) == 2:
            weights.setdefault(product.scope, []).append(_activation_and_weight(module, sources, product))
    found = {}
    for product in products:
        if product.phase is Phase.BACKWARD:
            gradient = _gradient_of(product, weights.get(product.scope, []))
            if gradient is not None:
                found[product.launched.name] = gradient
    return found


def _gradient_of(product: _Product, forward: list[tuple[Shape | None, Shape | None]]) -> Gradient | None:
    """By the forward products of its scope; None where they disagree or none fits.

    A replayed product whose weight is not recognised, beside a forward one whose weight is, says nothing.
    """
    with_weight = [(activation, weight) for activation, weight in forward if weight is not None]
    answers = {Gradient.ACTIVATION} if forward and not with_weight else set()
    for activation, weight in with_weight:
        is_weight = _is_as_large(product.result, weight)
        is_activation = activation is not None and _is_as_large(product.result, activation)
        if is_weight != is_activation:
            answers.add(Gradient.WEIGHT if is_weight else Gradient.ACTIVATION)
    return answers.pop() if len(answers) == 1 else None


def _is_as_large(result: Shape, shape: Shape) -> bool:
    """Whether they have equally many elements; a product in parts that are added up later has one dimension more."""
    size = shape.elements_count
    parts = (result.elements_count // length for length in result.dimensions[:1] if length > 1)
    return size in (result.elements_count, *parts)


def _activation_and_weight(
    module: HloModule, sources: ValueSources, product: _Product
) -> tuple[Shape | None, Shape | None]:
    """The operands of a forward product by what they are; (None, None) where both or none are weights."""
    are_weights = [
        _is_weight(module, sources, (product.launched.operands[place], None))
        if place < len(product.launched.operands)
        else False
        for _, place in product.operands
    ]
    shapes = [shape for shape, _ in product.operands]
    if are_weights == [True, False]:
        return shapes[1], shapes[0]
    if are_weights == [False, True]:
        return shapes[0], shapes[1]
    return None, None


def _is_weight(module: HloModule, sources: ValueSources, value: Value) -> bool:
    """Whether a value comes from floating-point arguments of the program through nothing but moves."""
    waiting, seen, has_argument = [value], {value}, False
    while waiting:
        name, index = waiting.pop()
        for found in sources.sources_of(name, index):
            instruction = module.instructions[found[0]]
            if instruction.opcode == "parameter":
                has_argument = has_argument or _is_floating(_element(instruction.shape, found[1]))
            elif not _moves(module, instruction):
                return False
            else:
                operands = [(operand, None) for operand in instruction.operands]
                waiting += [each for each in operands if each not in seen and _may_matter(module, each[0])]
                seen.update(operands)
    return has_argument


def _may_matter(module: HloModule, name: str) -> bool:
    """Indices and counters are followed by nobody: only floating-point values are moved."""
    instruction = module.instructions.get(name)
    return instruction is not None and any(_is_floating(shape) for shape in instruction.shape.leaves())


def _element(shape: Shape, index: int | None) -> Shape:
    return shape if index is None or index >= len(shape.elements) else shape.elements[index]


def _is_floating(shape: Shape) -> bool:
    return any(leaf.dtype.startswith(("f", "bf", "c")) for leaf in shape.leaves())


def _moves(module: HloModule, instruction: Instruction) -> bool:
    """Whether it only moves its floating-point operands."""
    if collective_kind(module, instruction) == "all-gather":
        return True
    if instruction.opcode == "fusion":
        inner = [each for name in instruction.called for each in module.computations[name].instructions]
        return all(each.opcode in _MOVES or not _is_floating(each.shape) for each in inner)
    return instruction.opcode in _MOVES


def _products(module: HloModule) -> Iterator[_Product]:
    launched = launched_computations(module)
    for instruction in module.instructions.values():
        if not is_launched(instruction, launched):
            continue
        found = op_name_of(module, instruction)
        dot = _dot_of(module, instruction)
        if found is None or dot is None:
            continue
        path = parse_op_name(found.op_name)
        if path.scope:
            result, operands = dot
            yield _Product(launched=instruction, scope=path.scope, phase=path.phase, result=result, operands=operands)


def _dot_of(module: HloModule, instruction: Instruction) -> tuple[Shape, tuple[tuple[Shape, int], ...]] | None:
    """The product in an instruction: its result, and its operands with their place; None where it is not just one."""
    if instruction.opcode == "dot" or instruction.custom_call_target.startswith(_MATMUL_TARGETS):
        operands = [module.instructions[name].shape for name in instruction.operands[:2] if name in module.instructions]
        if len(operands) != 2:
            return None
        result = instruction.shape.elements[0] if instruction.shape.is_tuple else instruction.shape
        return result, tuple(zip(operands, range(2), strict=True))
    if instruction.opcode != "fusion" or not instruction.called:
        return None
    computation = module.computations.get(instruction.called[0])
    dots = [each for each in computation.instructions if each.opcode == "dot"] if computation else []
    if len(dots) != 1:
        return None
    placed = []
    for name in dots[0].operands[:2]:
        inner = module.instructions.get(name)
        shape = inner.shape if inner is not None else None
        while inner is not None and inner.opcode in _SAME_VALUE and inner.operands:
            inner = module.instructions.get(inner.operands[0])
        if inner is None or shape is None or inner.parameter_number is None:
            return None
        placed.append((shape, inner.parameter_number))
    return dots[0].shape, tuple(placed)
