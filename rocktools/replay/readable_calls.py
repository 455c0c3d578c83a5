"""Instructions that apply computations -> lax: reductions, scatters, sorts, loops, branches, fusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rocktools.hlo.module import Computation, HloModule, Instruction
from rocktools.hlo.shapes import Shape
from rocktools.replay.comparators import find_sort_keys
from rocktools.replay.readable_literals import NotTranslatable, tuple_text
from rocktools.replay.readable_rules import dimensions_of, monoid_of, window_fields

_WIDENED = {"bf16": ("f32", "f64"), "f16": ("f32", "f64"), "f32": ("f64",)}
_SCATTERS = {
    "lax.add": "lax.scatter_add",
    "lax.mul": "lax.scatter_mul",
    "lax.min": "lax.scatter_min",
    "lax.max": "lax.scatter_max",
}


class FunctionSource(Protocol):
    """What writes the function of a computation."""

    @property
    def module(self) -> HloModule: ...

    @property
    def literals(self) -> Mapping[str, Any]: ...

    @property
    def is_recording(self) -> bool: ...

    def function_of(self, computation_name: str, *, is_fused: bool = True) -> str: ...


def apply_expression(
    source: FunctionSource, instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]
) -> str:
    """The expression of an instruction that calls computations.

    Raises:
        NotTranslatable: lax has no such form.
    """
    opcode = instruction.opcode
    if opcode in ("fusion", "call", "async-start"):
        function = source.function_of(instruction.called[0], is_fused=opcode == "fusion")
        if source.is_recording and opcode == "fusion":
            return f"run_fusion({', '.join([function, *operands])})"
        return f"{function}({', '.join(operands)})"
    if opcode == "while":
        body, condition = (source.function_of(name, is_fused=False) for name in instruction.called)
        loop = "run_loop" if source.is_recording else "lax.while_loop"
        return f"{loop}({condition}, {body}, {operands[0]})"
    if opcode == "conditional":
        return _conditional(source, instruction, operands, shapes)
    if opcode == "reduce":
        return _reduce(source, instruction, operands)
    if opcode == "reduce-window":
        return _reduce_window(source, instruction, operands)
    if opcode == "scatter":
        return _scatter(source, instruction, operands)
    if opcode == "sort":
        return _sort(source, instruction, operands, shapes)
    raise NotTranslatable("lax has no such instruction")


def _conditional(
    source: FunctionSource, instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]
) -> str:
    functions = [source.function_of(name, is_fused=False) for name in instruction.called]
    # The true branch is the first called computation of a predicate, and number 0 of an index.
    chosen = f"jnp.where({operands[0]}, 0, 1)" if shapes[0].dtype == "pred" else operands[0]
    branches = [f"lambda _operands, _f={function}: _f(_operands[{place}])" for place, function in enumerate(functions)]
    switch = "run_branch" if source.is_recording else "lax.switch"
    return f"{switch}({chosen}, [{', '.join(branches)}], {tuple_text(operands[1:])})"


def _reduce(source: FunctionSource, instruction: Instruction, operands: Sequence[str]) -> str:
    half = len(operands) // 2
    computation = source.module.computations[instruction.called[0]]
    dimensions = tuple_text(dimensions_of(instruction, "dimensions"))
    if half == 1:
        function = exact_monoid(computation) or source.function_of(computation.name)
        return f"lax.reduce({operands[0]}, {operands[1]}, {function}, {dimensions})"
    function = source.function_of(computation.name)
    values, inits = tuple_text(operands[:half]), tuple_text(operands[half:])
    return f"tuple(lax.reduce({values}, {inits}, lambda _x, _y: {function}(*_x, *_y), {dimensions}))"


def _reduce_window(source: FunctionSource, instruction: Instruction, operands: Sequence[str]) -> str:
    half = len(operands) // 2
    computation = source.module.computations[instruction.called[0]]
    window = window_fields(instruction)
    names = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate")
    settings = ", ".join(tuple_text(window[name]) for name in names)
    if half == 1:
        function = exact_monoid(computation) or source.function_of(computation.name)
        return f"lax.reduce_window({operands[0]}, {operands[1]}, {function}, {settings})"
    function = source.function_of(computation.name)
    values, inits = tuple_text(operands[:half]), tuple_text(operands[half:])
    return f"tuple(lax.reduce_window({values}, {inits}, lambda _x, _y: {function}(*_x, *_y), {settings}))"


def exact_monoid(computation: Computation) -> str | None:
    """lax's function that the computation is, to the last bit; None for all else.

    Conversions are looked through only where they change nothing: a sum of two bfloat16 that is made in float32 and
    rounded once is the sum in bfloat16. Values that are float32 and rounded to bfloat16 on the way are not.
    """
    by_name = {each.name: each for each in computation.instructions}
    root = computation.root
    parameters = computation.parameters
    if root is None or len(parameters) != 2:
        return None
    outer = root.shape.dtype
    if any(each.shape.dtype != outer for each in parameters):
        return None
    if root.opcode == "convert":
        root = by_name[root.operands[0]]
        if root.shape.dtype not in _WIDENED.get(outer, ()):
            return None
    found = []
    for name in root.operands:
        operand = by_name[name]
        if operand.opcode == "convert" and operand.shape.dtype == root.shape.dtype:
            operand = by_name[operand.operands[0]]
        found.append(operand)
    is_simple = len(found) == 2 and {each.name for each in found} == {each.name for each in parameters}
    return monoid_of(root.opcode) if is_simple else None


def _scatter(source: FunctionSource, instruction: Instruction, operands: Sequence[str]) -> str:
    if len(operands) != 3:
        raise NotTranslatable("a scatter of several arrays")
    computation = source.module.computations[instruction.called[0]]
    function = _SCATTERS.get(exact_monoid(computation) or "")
    root = computation.root
    if function is None and root is not None and root.parameter_number == 1:
        function = "lax.scatter"
    helper = "_scatter"
    if function is None:  # lax has no name for it: applied update by update
        helper, function = "_scatter_one_by_one", source.function_of(computation.name)
    names = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims")
    numbers = [tuple_text(dimensions_of(instruction, name)) for name in (*names, "scatter_indices_batching_dims")]
    flags = [instruction.attributes.get(name) == "true" for name in ("indices_are_sorted", "unique_indices")]
    return (
        f"{helper}({function}, {operands[0]}, {operands[1]}, {operands[2]}, "
        f"lax.ScatterDimensionNumbers({', '.join(numbers)}), {instruction.attributes['index_vector_dim']}, "
        f"is_sorted={flags[0]}, is_unique={flags[1]})"
    )


def _sort(source: FunctionSource, instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    keys = find_sort_keys(source.module.computations[instruction.called[0]], source.literals)
    order = [key.operand for key in keys]
    order += [place for place in range(len(operands)) if place not in order]
    # lax sorts upwards: what is sorted downwards is turned round before and after.
    flips = {
        key.operand: "lax.bitwise_not" if shapes[key.operand].dtype[0] in "sup" else "lax.neg"
        for key in keys
        if key.is_descending
    }
    turned = [f"{flips[place]}({operands[place]})" if place in flips else operands[place] for place in order]
    dimension = dimensions_of(instruction, "dimensions")[0]
    is_stable = instruction.attributes.get("is_stable") == "true"
    call = f"lax.sort({tuple_text(turned)}, dimension={dimension}, is_stable={is_stable}, num_keys={len(keys)})"
    picked = [f"_s[{order.index(place)}]" for place in range(len(operands))]
    picked = [f"{flips[place]}({one})" if place in flips else one for place, one in enumerate(picked)]
    result = picked[0] if len(picked) == 1 else tuple_text(picked)
    return f"(lambda _s: {result})({call})"
