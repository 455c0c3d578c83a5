"""One HLO instruction -> one expression of lax: elementwise, shapes, slices, products. Knows no control flow.

Attributes are in the spelling of HLO text. What lax cannot say is `NotTranslatable`, by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from rocktools.hlo.cost_dot import parse_dimensions
from rocktools.hlo.module import Instruction
from rocktools.hlo.shapes import DTYPE_BITS, Shape
from rocktools.replay.readable_literals import JAX_DTYPES, NotTranslatable, tuple_text

Rule = Callable[[Instruction, Sequence[str], Sequence[Shape]], str]
"""(instruction, names of its operands' values, their shapes) -> expression."""

_UNARY = {
    "abs": "abs", "cbrt": "cbrt", "ceil": "ceil", "cosine": "cos", "count-leading-zeros": "clz", "erf": "erf",
    "exponential": "exp", "exponential-minus-one": "expm1", "floor": "floor", "imag": "imag",
    "is-finite": "is_finite", "log": "log", "log-plus-one": "log1p", "logistic": "logistic", "negate": "neg",
    "not": "bitwise_not", "popcnt": "population_count", "real": "real", "rsqrt": "rsqrt", "sign": "sign",
    "sine": "sin", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}  # fmt: skip
_BINARY = {
    "add": "add", "and": "bitwise_and", "atan2": "atan2", "complex": "complex", "divide": "div", "maximum": "max",
    "minimum": "min", "multiply": "mul", "or": "bitwise_or", "power": "pow", "remainder": "rem",
    "shift-left": "shift_left", "shift-right-arithmetic": "shift_right_arithmetic",
    "shift-right-logical": "shift_right_logical", "subtract": "sub", "xor": "bitwise_xor",
}  # fmt: skip
_ROUNDING = {"round-nearest-afz": "AWAY_FROM_ZERO", "round-nearest-even": "TO_NEAREST_EVEN"}
_SLICE = re.compile(r"\[(\d+):(\d+)(?::(\d+))?\]")
_WINDOW_FIELD = re.compile(r"(\w+)=([^\s}]+)")
PASSED_ON = frozenset(
    {
        *("copy", "copy-start", "copy-done", "add-dependency", "domain", "async-done", "async-update"),
        *("all-gather-done", "all-reduce-done", "collective-permute-done"),
    }
)


def dtype_expression(shape: Shape) -> str:
    """jax's name of an element type.

    Raises:
        NotTranslatable: it has none.
    """
    if shape.dtype not in JAX_DTYPES:
        raise NotTranslatable(f"jax has no type for {shape.dtype}")
    return JAX_DTYPES[shape.dtype]


def monoid_of(opcode: str) -> str | None:
    """lax's function for what a reduction applies; None for what is no simple one."""
    names = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min", "and": "bitwise_and"}
    return f"lax.{({**names, 'or': 'bitwise_or'})[opcode]}" if opcode in (*names, "or") else None


def _named(name: str) -> Rule:
    return lambda instruction, operands, shapes: f"lax.{name}({', '.join(operands)})"


def _convert(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    if instruction.shape.dtype == "pred":
        return f"lax.ne({operands[0]}, jnp.zeros((), {operands[0]}.dtype))"
    return f"lax.convert_element_type({operands[0]}, {dtype_expression(instruction.shape)})"


def _bitcast_convert(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return f"lax.bitcast_convert_type({operands[0]}, {dtype_expression(instruction.shape)})"


def _bitcast(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    """Same bytes, another logical shape: through the order of elements in memory."""
    source, shape, value = shapes[0], instruction.shape, operands[0]
    if source.is_tuple or shape.is_tuple:
        raise NotTranslatable("a bitcast of a tuple")
    if source.dtype != shape.dtype:
        if DTYPE_BITS[source.dtype] != DTYPE_BITS[shape.dtype]:
            raise NotTranslatable(f"a bitcast of {source.dtype} to {shape.dtype}, which differ in width")
        value = f"lax.bitcast_convert_type({value}, {dtype_expression(shape)})"
    before, after = source.minor_to_major, shape.minor_to_major
    if source.dimensions == shape.dimensions and before == after:
        return value
    is_plain = all(order == tuple(reversed(range(len(order)))) for order in (before, after))
    if is_plain:
        return f"lax.reshape({value}, {tuple_text(shape.dimensions)})"
    return f"_bitcast({value}, {tuple_text(before)}, {tuple_text(shape.dimensions)}, {tuple_text(after)})"


def _pass(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return operands[0]


def _round(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return f"lax.round({operands[0]}, lax.RoundingMethod.{_ROUNDING[instruction.opcode]})"


def _reduce_precision(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    bits = (instruction.attributes[name] for name in ("exponent_bits", "mantissa_bits"))
    return f"lax.reduce_precision({operands[0]}, {', '.join(bits)})"


def _compare(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    if instruction.attributes.get("type") == "TOTALORDER" and shapes[0].dtype[0] in "fb":
        raise NotTranslatable("a comparison of floating-point numbers by total order")
    return f"lax.{instruction.attributes['direction'].lower()}({operands[0]}, {operands[1]})"


def _broadcast(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    dimensions = dimensions_of(instruction, "dimensions")
    return f"lax.broadcast_in_dim({operands[0]}, {tuple_text(instruction.shape.dimensions)}, {tuple_text(dimensions)})"


def _reshape(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return f"lax.reshape({operands[0]}, {tuple_text(instruction.shape.dimensions)})"


def _transpose(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return f"lax.transpose({operands[0]}, {tuple_text(dimensions_of(instruction, 'dimensions'))})"


def _reverse(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return f"lax.rev({operands[0]}, {tuple_text(dimensions_of(instruction, 'dimensions'))})"


def _concatenate(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return f"lax.concatenate({tuple_text(operands)}, {dimensions_of(instruction, 'dimensions')[0]})"


def _iota(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    dimension = instruction.attributes.get("iota_dimension", "0")
    dtype, sizes = dtype_expression(instruction.shape), tuple_text(instruction.shape.dimensions)
    return f"lax.broadcasted_iota({dtype}, {sizes}, {dimension})"


def _slice(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    ranges = _SLICE.findall(instruction.attributes.get("slice", ""))
    if not ranges:
        return operands[0]
    starts, limits = ([each[place] for each in ranges] for place in (0, 1))
    strides = [each[2] or "1" for each in ranges]
    more = f", {tuple_text(strides)}" if set(strides) != {"1"} else ""
    return f"lax.slice({operands[0]}, {tuple_text(starts)}, {tuple_text(limits)}{more})"


def _dynamic_slice(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    sizes = dimensions_of(instruction, "dynamic_slice_sizes")
    return f"lax.dynamic_slice({operands[0]}, {tuple_text(operands[1:])}, {tuple_text(sizes)})"


def _dynamic_update_slice(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return f"lax.dynamic_update_slice({operands[0]}, {operands[1]}, {tuple_text(operands[2:])})"


def _pad(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    paddings = []
    for part in instruction.attributes.get("padding", "").split("x") if shapes[0].dimensions else ():
        low, high, *interior = part.split("_")
        paddings.append(tuple_text([low, high, interior[0] if interior else "0"]))
    return f"lax.pad({operands[0]}, {operands[1]}, {tuple_text(paddings)})"


def _dot(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    names = ("lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims")
    left, right, left_batch, right_batch = (tuple_text(dimensions_of(instruction, name)) for name in names)
    precisions = [
        each.strip().upper() for each in instruction.attributes.get("operand_precision", "").strip("{}").split(",")
    ]
    precision = ""
    if set(precisions) - {"DEFAULT", ""}:
        precision = f", precision=({', '.join(f'lax.Precision.{each}' for each in precisions)})"
    return (
        f"lax.dot_general({operands[0]}, {operands[1]}, (({left}, {right}), ({left_batch}, {right_batch})){precision}, "
        f"preferred_element_type={dtype_expression(instruction.shape)})"
    )


def window_fields(instruction: Instruction) -> dict[str, tuple[str, ...]]:
    """`size`, `stride`, `pad` (as tuples of text), `lhs_dilate`, `rhs_dilate` of a window, one for each dimension.

    Raises:
        NotTranslatable: the window is reversed.
    """
    fields = dict(_WINDOW_FIELD.findall(instruction.attributes.get("window", "")))
    if "1" in fields.get("rhs_reversal", ""):
        raise NotTranslatable("a window that is reversed")
    sizes = fields["size"].split("x") if "size" in fields else []
    ones = ["1"] * len(sizes)
    pads = fields["pad"].split("x") if "pad" in fields else ["0_0"] * len(sizes)
    return {
        "size": tuple(sizes),
        "stride": tuple(fields["stride"].split("x") if "stride" in fields else ones),
        "pad": tuple(tuple_text(pad.split("_")) for pad in pads),
        "lhs_dilate": tuple(fields["lhs_dilate"].split("x") if "lhs_dilate" in fields else ones),
        "rhs_dilate": tuple(fields["rhs_dilate"].split("x") if "rhs_dilate" in fields else ones),
    }


def _convolution(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    labels = re.fullmatch(r"(\w+)_(\w+)->(\w+)", instruction.attributes.get("dim_labels", ""))
    if labels is None:
        raise NotTranslatable("a convolution without labels of its dimensions")
    window = window_fields(instruction)
    numbers = [
        tuple_text([text.index(first), text.index(second), *(text.index(str(i)) for i in range(len(text) - 2))])
        for text, first, second in zip(labels.groups(), ("b", "o", "b"), ("f", "i", "f"), strict=True)
    ]
    groups = [instruction.attributes.get(f"{name}_group_count", "1") for name in ("feature", "batch")]
    return (
        f"lax.conv_general_dilated({operands[0]}, {operands[1]}, {tuple_text(window['stride'])}, "
        f"{tuple_text(window['pad'])}, {tuple_text(window['lhs_dilate'])}, {tuple_text(window['rhs_dilate'])}, "
        f"lax.ConvDimensionNumbers({', '.join(numbers)}), {groups[0]}, {groups[1]}, "
        f"preferred_element_type={dtype_expression(instruction.shape)})"
    )


def _gather(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    names = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims")
    numbers = [tuple_text(dimensions_of(instruction, name)) for name in (*names, "start_indices_batching_dims")]
    return (
        f"_gather({operands[0]}, {operands[1]}, lax.GatherDimensionNumbers({', '.join(numbers)}), "
        f"{tuple_text(dimensions_of(instruction, 'slice_sizes'))}, {instruction.attributes['index_vector_dim']}, "
        f"is_sorted={instruction.attributes.get('indices_are_sorted') == 'true'})"
    )


def _tuple(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return tuple_text(operands)


def _get_tuple_element(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return f"{operands[0]}[{instruction.attributes['index']}]"


def _rng_bits(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    if not instruction.shape.is_tuple or len(instruction.shape.elements) != 2:
        raise NotTranslatable("random bits without the state behind them")
    bits = instruction.shape.elements[1]
    algorithm = instruction.attributes.get("algorithm", "rng_default").upper()
    return (
        f"tuple(lax.rng_bit_generator({operands[0]}, {tuple_text(bits.dimensions)}, {dtype_expression(bits)}, "
        f"algorithm=lax.RandomAlgorithm.{algorithm}))"
    )


def _top_k(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    if instruction.attributes.get("largest") == "false":
        raise NotTranslatable("the smallest values of a top-k")
    return f"tuple(lax.top_k({operands[0]}, {instruction.shape.elements[0].dimensions[-1]}))"


def _barrier(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return f"lax.optimization_barrier({operands[0]})"


def _device_number(instruction: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    return "jnp.uint32(0)"


def dimensions_of(instruction: Instruction, name: str) -> tuple[int, ...]:
    """A list of dimensions among the attributes; () where it is missing."""
    return parse_dimensions(instruction.attributes.get(name, ""))


RULES: Mapping[str, Rule] = {
    **{opcode: _named(name) for opcode, name in {**_UNARY, **_BINARY}.items()},
    **dict.fromkeys(_ROUNDING, _round),
    **dict.fromkeys(PASSED_ON, _pass),
    **dict.fromkeys(("partition-id", "replica-id"), _device_number),
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast_convert,
    "broadcast": _broadcast,
    "clamp": _named("clamp"),
    "compare": _compare,
    "concatenate": _concatenate,
    "convert": _convert,
    "convolution": _convolution,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "get-tuple-element": _get_tuple_element,
    "iota": _iota,
    "opt-barrier": _barrier,
    "pad": _pad,
    "reduce-precision": _reduce_precision,
    "reshape": _reshape,
    "reverse": _reverse,
    "rng-bit-generator": _rng_bits,
    "select": _named("select"),
    "slice": _slice,
    "topk": _top_k,
    "transpose": _transpose,
    "tuple": _tuple,
}
