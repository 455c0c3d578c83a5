"""What a sort's comparator orders by: found by trying it on pairs of values, since XLA writes one order in many ways.

Each operand of the sort gets a smaller and a larger value, and the comparator is evaluated on every combination of
smaller, equal and larger. An order by keys, each up or down, must explain every answer. Failure case: a comparator that
treats special values (NaN, a negative zero) in a way of its own is not told apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rocktools.hlo.module import Computation, Instruction
from rocktools.replay.bundled_inputs import numpy_dtype
from rocktools.replay.readable_literals import NotTranslatable, read_literal

_OPERANDS_AT_MOST = 4
_DIRECTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "subtract": np.subtract,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of an order: the operand's number, and whether large values come first."""

    operand: int
    is_descending: bool


def find_sort_keys(comparator: Computation, literals: Mapping[str, Any]) -> tuple[SortKey, ...]:
    """The keys that a comparator orders by, the first one first.

    Args:
        literals: LiteralProto of constants, by name.

    Raises:
        NotTranslatable: it is no order by keys, or has an instruction that is not known here.
    """
    parameters = comparator.parameters
    count = len(parameters) // 2
    if not 1 <= count <= _OPERANDS_AT_MOST or comparator.root is None:
        raise NotTranslatable(f"a comparator of {len(parameters)} values")
    pairs = [_probes(parameters[2 * place].shape.dtype) for place in range(count)]
    answers = {}
    for relations in itertools.product((-1, 0, 1), repeat=count):
        values: list[Any] = []
        for (low, high), relation in zip(pairs, relations, strict=True):
            values += {-1: [low, high], 0: [low, low], 1: [high, low]}[relation]
        answers[relations] = bool(_evaluate(comparator, values, literals))
    for length in range(1, count + 1):
        for places in itertools.permutations(range(count), length):
            for signs in itertools.product((1, -1), repeat=length):
                if all(_says(relations, places, signs) == answer for relations, answer in answers.items()):
                    return tuple(SortKey(place, sign < 0) for place, sign in zip(places, signs, strict=True))
    raise NotTranslatable("a comparator that is no order by keys")


def _says(relations: Sequence[int], places: Sequence[int], signs: Sequence[int]) -> bool:
    """Whether the left one comes first in the order by these keys."""
    for place, sign in zip(places, signs, strict=True):
        if relations[place]:
            return relations[place] * sign < 0
    return False


def _probes(dtype: str) -> tuple[Any, Any]:
    if dtype == "pred":
        return np.bool_(False), np.bool_(True)
    try:
        kind = numpy_dtype(dtype)
    except TypeError as error:
        raise NotTranslatable(str(error)) from error
    low, high = (3, 5) if dtype[0] == "u" else (-3, 5)
    return np.array(low).astype(kind)[()], np.array(high).astype(kind)[()]


def _evaluate(comparator: Computation, values: Sequence[Any], literals: Mapping[str, Any]) -> Any:
    by_name = {each.name: each for each in comparator.instructions}
    known: dict[str, Any] = {}

    def value_of(name: str) -> Any:
        if name not in known:
            instruction = by_name[name]
            if instruction.parameter_number is not None:
                known[name] = values[instruction.parameter_number]
            elif instruction.opcode == "constant" and name in literals:
                known[name] = read_literal(literals[name])[()]
            else:
                known[name] = _apply(instruction, [value_of(each) for each in instruction.operands])
        return known[name]

    assert comparator.root is not None
    return value_of(comparator.root.name)


def _apply(instruction: Instruction, operands: Sequence[Any]) -> Any:
    opcode = instruction.opcode
    if opcode == "compare":
        return _DIRECTIONS[instruction.attributes["direction"]](*operands)
    if opcode == "select":
        return operands[1] if operands[0] else operands[2]
    if opcode in _BINARY:
        return _BINARY[opcode](*operands)
    if opcode == "not":
        return np.logical_not(operands[0]) if instruction.shape.dtype == "pred" else np.bitwise_not(operands[0])
    if opcode in ("bitcast", "bitcast-convert"):
        return np.asarray(operands[0]).view(numpy_dtype(instruction.shape.dtype))[()]
    if opcode == "convert":
        return np.asarray(operands[0]).astype(numpy_dtype(instruction.shape.dtype))[()]
    if opcode in ("negate", "abs"):
        return {"negate": np.negative, "abs": np.abs}[opcode](operands[0])
    if opcode == "copy":
        return operands[0]
    raise NotTranslatable(f"a comparator with the instruction {opcode}")
