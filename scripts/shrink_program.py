"""A program of one instruction -> the same program with small dimensions, so that a CPU can run it.

Every dimension is a product of factors. Instructions say which dimensions are the same (the operands of a sum), which
are made of the same factors (a reshape), and which share a factor (a slice of a half). Factors that nothing fixes get a
small size, equal ones the same; the others stay what they are. What a dimension counts, or which number stands in a
constant, is not looked at: the small program computes something else, but with the same instructions in the same order,
and is checked by XLA like any other. A dimension that no rule covers keeps its size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rocktools.hlo.proto_fields import hlo_messages

# Sizes that free factors get, in turn, so that dimensions that are not the same do not look alike.
SIZES = (3, 4, 5, 2, 6, 7)
_TUPLE = 13
_ELEMENTWISE = frozenset(
    {
        *("abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "compare", "complex", "convert", "copy", "cosine"),
        *("count-leading-zeros", "divide", "erf", "exponential", "exponential-minus-one", "floor", "imag"),
        *("is-finite", "log", "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "or"),
        *("popcnt", "power", "real", "reduce-precision", "remainder", "reverse", "round-nearest-afz"),
        *("round-nearest-even", "rsqrt", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical"),
        *("sign", "sine", "sort", "sqrt", "subtract", "tan", "tanh", "xor", "opt-barrier"),
    }
)


@dataclass(eq=False, slots=True)
class Factor:
    """A factor of dimensions. It may turn out to be another one, or a product."""

    size: int
    is_fixed: bool = False
    same: Factor | None = None
    parts: tuple[Factor, ...] = ()
    small: int = 0


Dimension = list[Factor]
"""The factors of a dimension, the most major one first; none where its size is 1."""


@dataclass(slots=True)
class Shrunken:
    """A smaller program.

    Attributes:
        data: serialised HloModuleProto.
        elements_before: of the largest array that is a parameter, a result or between them.
        elements_after: the same of the smaller program.
    """

    data: bytes
    elements_before: int
    elements_after: int


def shrink_program(data: bytes) -> Shrunken:
    """The program with small dimensions.

    Args:
        data: serialised HloModuleProto, as `replay.hlo.pb` holds it.
    """
    module = hlo_messages()["Module"].FromString(data)
    before = _largest(module)
    _Shrinking(module=module).run()
    return Shrunken(data=module.SerializeToString(), elements_before=before, elements_after=_largest(module))


def _largest(module: Any) -> int:
    shapes = (leaf for each in module.computations for one in each.instructions for leaf in _leaves(one.shape))
    return max(math.prod(leaf.dimensions) for leaf in shapes)


def _leaves(shape: Any) -> Iterator[Any]:
    if shape.element_type != _TUPLE:
        yield shape
    for each in shape.tuple_shapes:
        yield from _leaves(each)


def _expand(dimension: Sequence[Factor]) -> Dimension:
    found: Dimension = []
    for factor in dimension:
        while factor.same is not None:
            factor = factor.same
        found += _expand(factor.parts) if factor.parts else [factor]
    return found


def _product(factors: Sequence[Factor]) -> int:
    return math.prod(each.size for each in factors)


def _fix(dimension: Sequence[Factor]) -> None:
    for factor in _expand(dimension):
        factor.is_fixed = True


def equate(left: Sequence[Factor], right: Sequence[Factor]) -> None:
    """Two dimensions, or two rows of dimensions, have the same factors; where they have no such, all stay."""
    one, other = _expand(left), _expand(right)
    assert _product(one) == _product(other)
    while one and other:
        first, second = one[0], other[0]
        if first is second:
            del one[0], other[0]
        elif first.size == second.size:
            second.same = first
            first.is_fixed |= second.is_fixed
            one, other = _expand(one[1:]), _expand(other[1:])
        elif max(first.size, second.size) % min(first.size, second.size) == 0:
            large, small = (first, second) if first.size > second.size else (second, first)
            large.parts = tuple(Factor(size, large.is_fixed) for size in (small.size, large.size // small.size))
            one, other = _expand(one), _expand(other)
        else:
            _match_anywhere(one, other)
            return


def _match_anywhere(one: Dimension, other: Dimension) -> None:
    """The same for rows whose boundaries lie across each other: largest common divisors first, wherever they stand.

    Only how many elements there are must be equal, so that the order of factors is free.
    """
    while one and other:
        pairs = itertools.product(range(len(one)), range(len(other)))
        left, right = max(pairs, key=lambda pair: math.gcd(one[pair[0]].size, other[pair[1]].size))
        divisor = math.gcd(one[left].size, other[right].size)
        for factor in (one[left], other[right]):
            if factor.size > divisor:
                factor.parts = (Factor(divisor, factor.is_fixed), Factor(factor.size // divisor, factor.is_fixed))
        one, other = _expand(one), _expand(other)
        first = next(each for each in one if each.size == divisor)
        second = next(each for each in other if each.size == divisor)
        if first is not second:
            second.same = first
            first.is_fixed |= second.is_fixed
        one = _expand(one)
        other = _expand(other)
        one.remove(first)
        other.remove(first)


@dataclass(slots=True)
class _Value:
    """What an instruction makes: the dimensions of each array in it."""

    leaves: list[list[Dimension]]

    @property
    def dimensions(self) -> list[Dimension]:
        return self.leaves[0]


@dataclass(slots=True)
class _Shrinking:
    """A module whose dimensions are being related to each other."""

    module: Any
    values: dict[tuple[int, int], _Value] = field(default_factory=dict)
    changes: list[Callable[[], None]] = field(default_factory=list)

    def run(self) -> None:
        computations = {each.id: each for each in self.module.computations}
        for computation in self.module.computations:
            for each in computation.instructions:
                self.values[computation.id, each.id] = _Value([_factors(leaf) for leaf in _leaves(each.shape)])
        for computation in self.module.computations:
            ids = {each.id & 0xFFFFFFFF: each.id for each in computation.instructions}
            for each in computation.instructions:
                operands = [self.values[computation.id, ids[number & 0xFFFFFFFF]] for number in each.operand_ids]
                self._relate(each, self.values[computation.id, each.id], operands, computations)
        self._choose()
        self._write(computations)

    def _relate(self, each: Any, made: _Value, operands: list[_Value], computations: dict[int, Any]) -> None:
        opcode = each.opcode
        if opcode in ("parameter", "iota"):
            return
        if opcode in _ELEMENTWISE:
            arrays = [leaf for value in (made, *operands) for leaf in value.leaves if leaf]
            for leaf in arrays[1:]:
                _equate_all(arrays[0], leaf)
        elif opcode in ("fusion", "call"):
            self._relate_call(each, made, operands, computations[each.called_computation_ids[0]])
        elif opcode == "tuple":
            for leaf, other in zip(made.leaves, [leaf for value in operands for leaf in value.leaves], strict=True):
                _equate_all(leaf, other)
        elif opcode in _RELATIONS:
            _RELATIONS[opcode](self, each, made, operands)
        else:  # constants of several elements, and whatever no rule is for
            for value in (made, *operands):
                for leaf in value.leaves:
                    _fix([factor for dimension in leaf for factor in dimension])

    def _relate_call(self, each: Any, made: _Value, operands: list[_Value], called: Any) -> None:
        parameters = sorted((one for one in called.instructions if one.opcode == "parameter"), key=_number)
        root = next(one for one in called.instructions if one.id & 0xFFFFFFFF == called.root_id & 0xFFFFFFFF)
        pairs = [(operand, self.values[called.id, one.id]) for operand, one in zip(operands, parameters, strict=True)]
        for outer, inner in (*pairs, (made, self.values[called.id, root.id])):
            for leaf, other in zip(outer.leaves, inner.leaves, strict=True):
                _equate_all(leaf, other)

    def _choose(self) -> None:
        sizes = itertools.cycle(SIZES)
        for value in self.values.values():
            for factor in _expand([one for leaf in value.leaves for dimension in leaf for one in dimension]):
                if not factor.small:
                    factor.small = factor.size if factor.is_fixed else min(factor.size, next(sizes))

    def _write(self, computations: dict[int, Any]) -> None:
        for change in self.changes:
            change()
        for (computation_id, instruction_id), value in self.values.items():
            each = next(one for one in computations[computation_id].instructions if one.id == instruction_id)
            for leaf, dimensions in zip(_leaves(each.shape), value.leaves, strict=True):
                leaf.dimensions[:] = [small(dimension) for dimension in dimensions]
            each.ClearField("operand_shapes_with_layout")
        for computation in self.module.computations:
            parameters = sorted((one for one in computation.instructions if one.opcode == "parameter"), key=_number)
            root = next(
                one for one in computation.instructions if one.id & 0xFFFFFFFF == computation.root_id & 0xFFFFFFFF
            )
            for signature in (computation.program_shape, self.module.host_program_shape):
                if signature is computation.program_shape or computation.id == self.module.entry_computation_id:
                    del signature.parameters[:]
                    signature.parameters.extend(one.shape for one in parameters)
                    signature.result.CopyFrom(root.shape)


def _number(parameter: Any) -> int:
    return int(parameter.parameter_number)


def _factors(shape: Any) -> list[Dimension]:
    return [
        [Factor(size)] if size > 1 else [] if size == 1 else [Factor(0, is_fixed=True)] for size in shape.dimensions
    ]


def small(dimension: Sequence[Factor]) -> int:
    """The size that a dimension gets."""
    return math.prod(each.small for each in _expand(dimension))


def _equate_all(left: Sequence[Dimension], right: Sequence[Dimension]) -> None:
    for one, other in zip(left, right, strict=True):
        equate(one, other)


def _share(dimensions: Sequence[Dimension], divisor: int) -> Factor:
    """The factor `divisor` in each dimension, innermost; what is left of them stays as it is."""
    shared = Factor(divisor, is_fixed=divisor == 1, small=int(divisor == 1))
    for dimension in dimensions:
        equate(dimension, [Factor(_product(_expand(dimension)) // divisor, is_fixed=True), shared])
    return shared


def _size(dimension: Dimension) -> int:
    return _product(_expand(dimension))


def _window(whole: Dimension, part: Dimension) -> None:
    """A part whose place in the whole is known only when it runs."""
    if _size(whole) == _size(part):
        equate(whole, part)
    elif _size(part) > 1:
        _share((whole, part), math.gcd(_size(whole), _size(part)))


def _broadcast(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    for dimension, place in zip(operands[0].dimensions, each.dimensions, strict=True):
        equate(dimension, made.dimensions[place])


def _transpose(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    for dimension, place in zip(made.dimensions, each.dimensions, strict=True):
        equate(dimension, operands[0].dimensions[place])


def _reshape(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    equate(*([one for dimension in value.dimensions for one in dimension] for value in (operands[0], made)))


def _bitcast(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    """Elements in the order in which they lie in memory; the layout of the operand is that of its instruction."""
    operand = next(one for one in _instructions(shrinking) if shrinking.values.get(one[0]) is operands[0])[1]
    rows = []
    for value, shape in ((operands[0], operand.shape), (made, each.shape)):
        order = list(reversed(shape.layout.minor_to_major)) or range(len(value.dimensions))
        rows.append([one for place in order for one in value.dimensions[place]])
    if _product(_expand(rows[0])) == _product(_expand(rows[1])):
        equate(*rows)
    else:  # types of another width
        _fix([*rows[0], *rows[1]])


def _instructions(shrinking: _Shrinking) -> Iterator[tuple[tuple[int, int], Any]]:
    for computation in shrinking.module.computations:
        for each in computation.instructions:
            yield (computation.id, each.id), each


def _slice(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    for whole, part, limits in zip(operands[0].dimensions, made.dimensions, each.slice_dimensions, strict=True):
        if _size(whole) == _size(part):
            equate(whole, part)
            shrinking.changes.append(lambda limits=limits, whole=whole: setattr(limits, "limit", small(whole)))
        elif limits.stride > 1:
            _fix([*whole, *part])
        elif _size(part) == 1 and not limits.start:  # the first one
            continue
        elif _size(part) == 1 and limits.limit == _size(whole):  # the last one
            shrinking.changes.append(lambda limits=limits, whole=whole: _set_last(limits, small(whole)))
        else:
            divisor = math.gcd(_size(whole), limits.start, limits.limit)
            shared = _share((whole, part), divisor)
            shrinking.changes.append(lambda limits=limits, shared=shared: _scale(limits, ("start", "limit"), shared))


def _set_last(limits: Any, size: int) -> None:
    limits.start, limits.limit = size - 1, size


def _scale(message: Any, names: Sequence[str], shared: Factor) -> None:
    for name in names:
        setattr(message, name, getattr(message, name) // shared.size * small([shared]))


def _pad(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    for before, after, edges in zip(
        operands[0].dimensions, made.dimensions, each.padding_config.dimensions, strict=True
    ):
        names = ("edge_padding_low", "edge_padding_high")
        if edges.interior_padding:
            _fix([*before, *after])
        elif not edges.edge_padding_low and not edges.edge_padding_high:
            equate(before, after)
        else:
            divisor = math.gcd(_size(before), *(abs(getattr(edges, name)) for name in names))
            shared = _share((before, after), divisor)
            shrinking.changes.append(lambda edges=edges, shared=shared, names=names: _scale(edges, names, shared))


def _concatenate(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    [joined] = each.dimensions
    for place in range(len(made.dimensions)):
        along = [value.dimensions[place] for value in (made, *operands)]
        if place == joined:
            _share(along, math.gcd(*map(_size, along)))
        else:
            for other in along[1:]:
                equate(along[0], other)


def _reduce(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    arrays = operands[: len(operands) // 2]
    for value in arrays[1:]:
        _equate_all(arrays[0].dimensions, value.dimensions)
    kept = [one for place, one in enumerate(arrays[0].dimensions) if place not in each.dimensions]
    for leaf in made.leaves:
        _equate_all(kept, leaf)


def _reduce_window(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    arrays = [value.dimensions for value in operands[: len(operands) // 2]]
    for leaf in (*arrays[1:], *made.leaves[1:]):
        _equate_all(arrays[0] if leaf in arrays else made.leaves[0], leaf)
    for before, after, window in zip(arrays[0], made.leaves[0], each.window.dimensions, strict=True):
        size, pads = window.size, sorted((window.padding_low, window.padding_high))
        is_dilated = max(window.base_dilation, window.window_dilation) > 1
        if size == 1 and window.stride <= 1 and pads == [0, 0] and not is_dilated:
            equate(before, after)
        elif size == _size(before) and window.stride <= 1 and pads == [0, size - 1] and not is_dilated:
            equate(before, after)
            shrinking.changes.append(lambda window=window, before=before: _set_scan(window, small(before)))
        elif size == window.stride and pads == [0, 0] and not is_dilated and _size(before) % size == 0:
            inner = Factor(size)
            equate(before, [*after, inner])
            shrinking.changes.append(lambda window=window, inner=inner: _set_tile(window, small([inner])))
        else:
            _fix([*before, *after])


def _set_scan(window: Any, size: int) -> None:
    """A window over all that came before (or comes behind)."""
    name = "padding_low" if window.padding_low else "padding_high"
    window.size = size
    setattr(window, name, size - 1)


def _set_tile(window: Any, size: int) -> None:
    window.size = window.stride = size


def _dot(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    left, right = (value.dimensions for value in operands)
    numbers = each.dot_dimension_numbers
    for one, other in (
        *zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True),
        *zip(numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions, strict=True),
    ):
        equate(left[one], right[other])
    bound_left = {*numbers.lhs_contracting_dimensions, *numbers.lhs_batch_dimensions}
    bound_right = {*numbers.rhs_contracting_dimensions, *numbers.rhs_batch_dimensions}
    kept = [left[place] for place in numbers.lhs_batch_dimensions]
    kept += [one for place, one in enumerate(left) if place not in bound_left]
    kept += [one for place, one in enumerate(right) if place not in bound_right]
    _equate_all(kept, made.dimensions)


def _dynamic_slice(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    for whole, part in zip(operands[0].dimensions, made.dimensions, strict=True):
        _window(whole, part)
    shrinking.changes.append(lambda: _set_list(each.dynamic_slice_sizes, made.dimensions))


def _set_list(sizes: Any, dimensions: Sequence[Dimension]) -> None:
    sizes[:] = [small(dimension) for dimension in dimensions]


def _dynamic_update_slice(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    _equate_all(operands[0].dimensions, made.dimensions)
    for whole, part in zip(operands[0].dimensions, operands[1].dimensions, strict=True):
        _window(whole, part)


def _gather(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    numbers, whole, indices = each.gather_dimension_numbers, operands[0].dimensions, operands[1].dimensions
    sizes: list[Dimension] = []
    for place, size in enumerate(each.gather_slice_sizes):
        part: Dimension = [Factor(size)] if size > 1 else []
        _window(whole[place], part)
        sizes.append(part)
    left_out = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    windows = [one for place, one in enumerate(sizes) if place not in left_out]
    for part, place in zip(windows, numbers.offset_dims, strict=True):
        equate(part, made.dimensions[place])
    _relate_indices(indices, numbers.index_vector_dim, made.dimensions, numbers.offset_dims)
    for one, other in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
        equate(whole[one], indices[other])
    shrinking.changes.append(lambda: _set_list(each.gather_slice_sizes, sizes))


def _scatter(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    numbers, count = each.scatter_dimension_numbers, len(operands) // 2
    indices = operands[count].dimensions
    left_out = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    for place in range(count):
        whole, updates = operands[place].dimensions, operands[count + 1 + place].dimensions
        _equate_all(whole, made.leaves[place])
        windows = [one for number, one in enumerate(whole) if number not in left_out]
        for one, number in zip(windows, numbers.update_window_dims, strict=True):
            _window(one, updates[number])
        _relate_indices(indices, numbers.index_vector_dim, updates, numbers.update_window_dims)
        for one, other in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
            equate(whole[one], indices[other])


def _relate_indices(indices: list[Dimension], vector: int, others: list[Dimension], windows: Sequence[int]) -> None:
    """The places that are gathered from, or scattered to, are dimensions of both."""
    if vector < len(indices):
        _fix(indices[vector])
    places = [one for number, one in enumerate(indices) if number != vector]
    _equate_all(places, [one for number, one in enumerate(others) if number not in windows])


def _get_tuple_element(shrinking: _Shrinking, each: Any, made: _Value, operands: list[_Value]) -> None:
    for leaf, other in zip(made.leaves, operands[0].leaves[each.tuple_index :], strict=False):
        _equate_all(leaf, other)


_RELATIONS: dict[str, Callable[[_Shrinking, Any, _Value, list[_Value]], None]] = {
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast,
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "get-tuple-element": _get_tuple_element,
    "pad": _pad,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "reshape": _reshape,
    "scatter": _scatter,
    "slice": _slice,
    "transpose": _transpose,
}
