"""Cost of custom calls whose arithmetic is in their operands and backend_config: matrix products, convolutions, top-k.

Targets: xla/service/gpu/cublas_cudnn.h. On ROCm the same names lead to hipBLASLt, rocBLAS and MIOpen. Attention and
other foreign calls say nothing about what they calculate: they have no rule, and that is not the same as no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rocktools.hlo.cost_arithmetic import Arithmetic, NoCostRule
from rocktools.hlo.cost_dot import configured_dimensions, count_product_flop, count_ragged_flop
from rocktools.hlo.cost_windows import count_convolution_flop
from rocktools.hlo.module import Instruction
from rocktools.hlo.shapes import Shape

_PRODUCTS = frozenset({"__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8"})
_GROUPED = "__cublas$lt$groupedMatmul"
_CONVOLUTIONS = frozenset(
    {"__cudnn$convForward", "__cudnn$convForwardGraph", "__cudnn$convBiasActivationForward",
     "__cudnn$convBackwardInput", "__cudnn$convBackwardFilter"}
)  # fmt: skip
_ONLY_COMPARE = frozenset({"TopK", "__gpu$TopK"})
_NOTHING = frozenset({"AllocateBuffer", "AssumeGatherIndicesInBound"})
_WITH_WORKSPACE = _PRODUCTS | _CONVOLUTIONS | {_GROUPED}
_BYTES = ("s8", "u8")


def results_of(call: Instruction) -> tuple[Shape, ...]:
    """What the call returns, without the scratch memory of a library: a last `s8[n]` or `u8[n]` beside a result."""
    leaves = tuple(call.shape.leaves())
    last = leaves[-1] if len(leaves) > 1 else None
    is_workspace = last is not None and last.dtype in _BYTES and len(last.dimensions) == 1
    return leaves[:-1] if is_workspace and call.custom_call_target in _WITH_WORKSPACE else leaves


def is_free(call: Instruction) -> bool:
    """Whether the call only marks or reserves something."""
    return call.custom_call_target in _NOTHING


def count_custom_call(call: Instruction, operands: Sequence[Shape]) -> Arithmetic:
    """What the call calculates.

    Raises:
        NoCostRule: its target has no rule, or its backend_config lacks the dimensions.
    """
    target = call.custom_call_target
    if target in _ONLY_COMPARE or target in _NOTHING:
        return Arithmetic()
    rules: dict[str, Callable[[Instruction, Sequence[Shape]], Arithmetic]] = {
        **dict.fromkeys(_PRODUCTS, _count_product),
        _GROUPED: _count_grouped,
        **dict.fromkeys(_CONVOLUTIONS, _count_convolution),
    }
    if target not in rules:
        raise NoCostRule(f"no rule for custom calls of {target or 'no target'}")
    return rules[target](call, operands)


def _configuration(call: Instruction, name: str) -> Mapping[str, object]:
    """A part of the backend_config; older XLA has it at the top."""
    whole = call.backend_config()
    found = whole.get(name, whole)
    return found if isinstance(found, Mapping) else {}


def _count_product(call: Instruction, operands: Sequence[Shape]) -> Arithmetic:
    configuration = _configuration(call, "gemm_backend_config")
    numbers = configuration.get("dot_dimension_numbers")
    contracting = configured_dimensions(numbers, "lhs_contracting_dimensions")
    if not contracting:  # of a product that sums nothing XLA makes no library call
        raise NoCostRule("its backend_config has no dimension numbers")
    result = results_of(call)[0]
    flop = count_product_flop(operands[0], result, contracting)
    return Arithmetic(flop) + _count_epilogue(configuration, result.elements_count)


def _count_epilogue(configuration: Mapping[str, object], elements: int) -> Arithmetic:
    """What is done with each element of the product: scaled, added to C, biased, activated."""
    epilogue = str(configuration.get("epilogue", "DEFAULT"))
    flop = sum(
        (
            _number(configuration, "alpha_real", 1.0) != 1.0,
            _number(configuration, "beta", 0.0) != 0.0,
            "BIAS" in epilogue,
            "RELU" in epilogue,
        )
    )
    return Arithmetic(flop * elements, elements if "GELU" in epilogue or "SILU" in epilogue else 0)


def _number(configuration: Mapping[str, object], name: str, default: float) -> float:
    found = configuration.get(name, default)
    return float(found) if isinstance(found, (int, float, str)) else default


def _count_grouped(call: Instruction, operands: Sequence[Shape]) -> Arithmetic:
    configuration = _configuration(call, "grouped_gemm_backend_config")
    ragged = configuration.get("ragged_dot_dimension_numbers")
    numbers = ragged.get("dot_dimension_numbers") if isinstance(ragged, Mapping) else None
    contracting = configured_dimensions(numbers, "lhs_contracting_dimensions")
    if not contracting or len(operands) < 3:
        raise NoCostRule("its backend_config has no ragged dimension numbers")
    ragged_dimensions = configured_dimensions(ragged, "lhs_ragged_dimensions")
    flop = count_ragged_flop(operands[0], operands[2], results_of(call)[0], contracting, ragged_dimensions)
    return Arithmetic(flop)


def _count_convolution(call: Instruction, operands: Sequence[Shape]) -> Arithmetic:
    first, second, result = operands[0], operands[1], results_of(call)[0]
    target = call.custom_call_target
    if target == "__cudnn$convBackwardInput":
        base, kernel, output = result, second, first
    elif target == "__cudnn$convBackwardFilter":
        base, kernel, output = first, result, second
    else:
        base, kernel, output = first, second, result
    arithmetic = Arithmetic(count_convolution_flop(call.attributes, base, kernel, output))
    if target == "__cudnn$convBiasActivationForward":  # result = activation(product + [side input] + bias)
        arithmetic += Arithmetic((len(operands) - 1) * output.elements_count)
    return arithmetic
