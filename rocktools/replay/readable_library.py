"""Library calls of XLA:GPU and collectives -> the same computation in lax, as far as it has one.

Settings of products are those of `GemmBackendConfig` and `GroupedGemmBackendConfig` in XLA's `backend_configs.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocktools.errors import InputError
from rocktools.hlo.cost_dot import configured_dimensions
from rocktools.hlo.module import Instruction
from rocktools.hlo.replica_groups import parse_replica_groups, parse_source_target_pairs
from rocktools.hlo.shapes import Shape
from rocktools.replay.readable_literals import NotTranslatable, tuple_text
from rocktools.replay.readable_rules import dimensions_of, dtype_expression

# What is done with each element: of XLA's GELU the approximation is meant (hipBLASLt has no other).
_ACTIVATIONS = {
    "DEFAULT": "",
    "RELU": "jnp.maximum({}, 0)",
    "GELU": "jax.nn.gelu({}, approximate=True)",
    "SILU": "jax.nn.silu({})",
}
_REDUCTIONS = {"lax.add": "psum", "lax.max": "pmax", "lax.min": "pmin"}
AXIS = "'devices'"


def custom_call_expression(call: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    """The computation of a custom call.

    Raises:
        NotTranslatable: lax has no such computation, or this target is none that is known.
    """
    target = call.custom_call_target
    if target in ("__cublas$gemm", "__cublas$lt$matmul"):
        return _with_workspace(call, _product(call, operands, shapes))
    if target == "__cublas$lt$matmul$f8":
        return _with_workspace(call, _scaled_product(call, operands, shapes))
    if target == "__cublas$lt$groupedMatmul":
        return _with_workspace(call, _grouped_product(call, operands, shapes))
    if target in ("TopK", "__gpu$TopK"):
        return f"tuple(lax.top_k({operands[0]}, {call.shape.elements[0].dimensions[-1]}))"
    raise NotTranslatable(f"the custom call {target}")


def _settings(call: Instruction, name: str) -> Mapping[str, object]:
    whole = call.backend_config()
    found = whole.get(name, whole)
    return found if isinstance(found, Mapping) else {}


def _result(call: Instruction) -> Shape:
    return call.shape.elements[0] if call.shape.is_tuple else call.shape


def _with_workspace(call: Instruction, expression: str) -> str:
    """The result, and scratch memory that nobody reads, as the library call returns them."""
    if not call.shape.is_tuple:
        return expression
    rest = [f"jnp.zeros({tuple_text(each.dimensions)}, {dtype_expression(each)})" for each in call.shape.elements[1:]]
    return tuple_text([expression, *rest])


def _dimension_numbers(settings: Mapping[str, object]) -> str:
    numbers = settings.get("dot_dimension_numbers")
    names = ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")
    left, right, left_batch, right_batch = (
        tuple_text(configured_dimensions(numbers, f"{name}_dimensions")) for name in names
    )
    if not isinstance(numbers, Mapping):
        raise NotTranslatable("a product whose backend_config has no dimension numbers")
    return f"(({left}, {right}), ({left_batch}, {right_batch}))"


def _product(call: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    settings = _settings(call, "gemm_backend_config")
    epilogue = str(settings.get("epilogue", "DEFAULT"))
    has_bias = epilogue == "BIAS" or epilogue.startswith("BIAS_")
    activation = _ACTIVATIONS.get(epilogue.removeprefix("BIAS").removeprefix("_") or "DEFAULT")
    if activation is None:
        raise NotTranslatable(f"a product with the epilogue {epilogue}")
    alpha, alpha_imaginary, beta = (
        _number(settings, name, value) for name, value in (("alpha_real", 1.0), ("alpha_imag", 0.0), ("beta", 0.0))
    )
    if alpha_imaginary:
        raise NotTranslatable("a product scaled by a complex number")
    dtype = dtype_expression(_result(call))
    is_plain = alpha == 1.0 and beta == 0.0 and epilogue == "DEFAULT"
    kept = dtype if is_plain or _result(call).dtype not in ("bf16", "f16") else "jnp.float32"
    found = (
        f"lax.dot_general({operands[0]}, {operands[1]}, {_dimension_numbers(settings)}, preferred_element_type={kept})"
    )
    if alpha != 1.0:
        found = f"{alpha!r} * {found}"
    if beta != 0.0:
        scaled = operands[2] if beta == 1.0 else f"{beta!r} * {operands[2]}"
        found = f"{found} + {scaled}"
    if has_bias:
        found = f"{found} + {operands[3 if beta != 0.0 else 2]}"
    if activation:
        found = activation.format(found)
    return found if is_plain else f"({found}).astype({dtype})"


def _scaled_product(call: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    """Operands of eight bits with a scale each, multiplied in float32."""
    settings = _settings(call, "gemm_backend_config")
    is_plain = str(settings.get("epilogue", "DEFAULT")) == "DEFAULT" and _number(settings, "beta", 0.0) == 0.0
    if not is_plain or len(operands) != 4 or any(each.dimensions for each in shapes[2:]):
        raise NotTranslatable("a product of eight-bit operands with more than two scales")
    left, right = (f"{operands[place]}.astype(jnp.float32) * {operands[place + 2]}" for place in (0, 1))
    numbers, dtype = _dimension_numbers(settings), dtype_expression(_result(call))
    return f"lax.dot_general({left}, {right}, {numbers}, preferred_element_type=jnp.float32).astype({dtype})"


def _grouped_product(call: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    settings = _settings(call, "grouped_gemm_backend_config")
    ragged = settings.get("ragged_dot_dimension_numbers")
    if not isinstance(ragged, Mapping) or len(operands) < 3:
        raise NotTranslatable("a grouped product whose backend_config has no dimension numbers")
    numbers = _dimension_numbers(ragged)
    rows = tuple_text(configured_dimensions(ragged, "lhs_ragged_dimensions"))
    groups = tuple_text(configured_dimensions(ragged, "rhs_group_dimensions"))
    return (
        f"lax.ragged_dot_general({operands[0]}, {operands[1]}, {operands[2]}.astype(jnp.int32), "
        f"lax.RaggedDotDimensionNumbers({numbers}, {list_text(rows)}, {list_text(groups)}), "
        f"preferred_element_type={dtype_expression(_result(call))})"
    )


def ragged_dot_expression(dot: Instruction, operands: Sequence[str], shapes: Sequence[Shape]) -> str:
    """The computation of a `ragged-dot`."""
    names = ("lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims")
    left, right, left_batch, right_batch = (tuple_text(dimensions_of(dot, name)) for name in names)
    rows, groups = (list(dimensions_of(dot, name)) for name in ("lhs_ragged_dims", "rhs_group_dims"))
    return (
        f"lax.ragged_dot_general({operands[0]}, {operands[1]}, {operands[2]}.astype(jnp.int32), "
        f"lax.RaggedDotDimensionNumbers((({left}, {right}), ({left_batch}, {right_batch})), {rows}, {groups}), "
        f"preferred_element_type={dtype_expression(dot.shape)})"
    )


def list_text(text: str) -> str:
    """A tuple in Python as a list."""
    return f"[{text.strip('(),')}]"


def _number(settings: Mapping[str, object], name: str, default: float) -> float:
    found = settings.get(name, default)
    return float(found) if isinstance(found, (int, float, str)) else default


def is_collective(opcode: str) -> bool:
    """Whether `collective_expression` has a rule for it."""
    return opcode.removesuffix("-start") in (
        *("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"),
    )


def collective_expression(
    instruction: Instruction, operands: Sequence[str], reduction: str | None, devices_count: int
) -> str:
    """A collective over the axis of all devices.

    Args:
        reduction: lax's function that it reduces with; None for what is none, or does not reduce.
        devices_count: that take part in the program.

    Raises:
        NotTranslatable: lax has no such collective.
    """
    opcode = instruction.opcode.removesuffix("-start")
    if opcode == "collective-permute":
        pairs = list(parse_source_target_pairs(instruction.attributes["source_target_pairs"]))
        return _each(operands, f"lax.ppermute({{}}, {AXIS}, {pairs})")
    try:
        groups = parse_replica_groups(instruction.attributes.get("replica_groups", "{}"), devices_count=devices_count)
    except InputError as error:
        raise NotTranslatable(error.what) from error
    listed = [list(group) for group in groups] if len(groups) > 1 else None
    dimension = (dimensions_of(instruction, "dimensions") or (-1,))[0]
    if opcode == "all-gather":
        arguments = f"axis_index_groups={listed}, axis={dimension}, tiled=True"
        return _each(operands, f"lax.all_gather({{}}, {AXIS}, {arguments})")
    if opcode == "all-to-all" and len(operands) == 1 and dimension >= 0:
        arguments = f"{dimension}, {dimension}, axis_index_groups={listed}, tiled=True"
        return f"lax.all_to_all({operands[0]}, {AXIS}, {arguments})"
    if opcode == "reduce-scatter" and reduction == "lax.add":
        arguments = f"scatter_dimension={dimension}, axis_index_groups={listed}, tiled=True"
        return _each(operands, f"lax.psum_scatter({{}}, {AXIS}, {arguments})")
    if opcode == "all-reduce" and reduction in _REDUCTIONS:
        return _each(operands, f"lax.{_REDUCTIONS[reduction]}({{}}, {AXIS}, axis_index_groups={listed})")
    what = f" that reduces with {reduction or 'something of its own'}" if "reduce" in opcode else ""
    raise NotTranslatable(f"{opcode}{what} of {len(operands)} operands")


def _each(operands: Sequence[str], template: str) -> str:
    found = [template.replace("{}", operand, 1) for operand in operands]
    return found[0] if len(found) == 1 else tuple_text(found)
