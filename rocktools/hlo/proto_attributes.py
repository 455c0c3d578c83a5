"""Attributes of an instruction in a proto -> their names and values in HLO text, so that both sources read alike.

Spelling and conditions are those of XLA's printer (`hlo_instruction.cc`, `hlo_instructions.cc`): what it leaves out
because it is the default, is left out here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rocktools.hlo.proto_devices import braced, replica_groups_text
from rocktools.hlo.proto_shapes import shape_of
from rocktools.hlo.proto_shardings import sharding_text
from rocktools.hlo.text_scan import escape

Attribute = tuple[str, str]
_COLLECTIVES = frozenset(
    {"all-gather", "all-gather-start", "all-reduce", "all-reduce-start", "all-to-all", "collective-broadcast",
     "ragged-all-to-all", "reduce-scatter"}
)  # fmt: skip
# Numbers of the enumerations of xla_data.proto and hlo.proto.
_PRECISIONS = {0: "default", 1: "high", 2: "highest"}
_ALGORITHMS = {
    1: "dot_any_f8_any_f8_f32", 2: "dot_any_f8_any_f8_f32_fast_accum", 3: "dot_f16_f16_f16", 4: "dot_f16_f16_f32",
    5: "dot_bf16_bf16_bf16", 6: "dot_bf16_bf16_f32", 7: "dot_bf16_bf16_f32_x3", 8: "dot_bf16_bf16_f32_x6",
    9: "dot_tf32_tf32_f32", 10: "dot_tf32_tf32_f32_x3", 11: "dot_f32_f32_f32", 12: "dot_f64_f64_f64",
    13: "dot_bf16_bf16_f32_x9",
}  # fmt: skip
_API_VERSIONS = {
    0: "API_VERSION_UNSPECIFIED", 2: "API_VERSION_STATUS_RETURNING", 3: "API_VERSION_STATUS_RETURNING_UNIFIED",
    4: "API_VERSION_TYPED_FFI",
}  # fmt: skip
_SCHEDULES = {1: "SCHEDULE_LATEST", 2: "SCHEDULE_EARLIEST"}
_PADDING_TYPES = {1: "PADDING_VALID", 2: "PADDING_SAME"}
_CONVOLUTIONS = {1: "fprop", 2: "dgrad", 3: "wgrad"}
_FFT_TYPES = {0: "FFT", 1: "IFFT", 2: "RFFT", 3: "IRFFT"}
_DISTRIBUTIONS = {0: "rng_invalid", 1: "rng_uniform", 2: "rng_normal"}
_RNG_ALGORITHMS = {0: "rng_default", 1: "rng_three_fry", 2: "rng_philox"}


def attributes_of(instruction: Any, predecessors: Sequence[str], payloads: Sequence[bytes]) -> Mapping[str, str]:
    """The attributes that text would have, by name.

    Args:
        instruction: HloInstructionProto.
        predecessors: names of the instructions it has to wait for.
        payloads: of the module, which instructions may name instead of having a backend_config of their own.
    """
    found = dict(_own_attributes(instruction))
    if instruction.HasField("sharding"):
        found["sharding"] = sharding_text(instruction.sharding)
    if instruction.frontend_attributes.map:
        found["frontend_attributes"] = frontend_attributes_text(instruction.frontend_attributes.map)
    if predecessors:
        found["control-predecessors"] = f"{{{', '.join(predecessors)}}}"
    config = instruction.backend_config or _payload(instruction.backend_config_payload, payloads)
    if config:
        found["backend_config"] = config.decode("utf-8", "replace")
    return MappingProxyType(found)


def _payload(payload: Any, payloads: Sequence[bytes]) -> bytes:
    is_named = payload.WhichOneof("payload_source") == "id" and 0 <= payload.id < len(payloads)
    found: bytes = payloads[payload.id] if is_named else payload.value
    return found


def frontend_attributes_text(attributes: Mapping[str, str]) -> str:
    """`{a="b",c={"d":1}}`, sorted by name."""
    items = []
    for name in sorted(attributes):
        value = attributes[name]
        items.append(f"{name}={value}" if value.startswith("{") else f'{name}="{escape(value)}"')
    return f"{{{','.join(items)}}}"


def alias_entries_text(entries: Any) -> str:
    """`{0}: (2, {})` for each pair of a result and an operand that share a buffer."""
    return ", ".join(
        f"{braced(entry.output_shape_index)}: ({entry.operand_index}, {braced(entry.operand_shape_index)})"
        for entry in entries
    )


def _own_attributes(instruction: Any) -> Iterator[Attribute]:
    opcode = instruction.opcode
    if opcode in _COLLECTIVES:
        return _collective(instruction)
    rule = _RULES.get(opcode)
    return iter(()) if rule is None else rule(instruction)


def _flags(instruction: Any, *names: str) -> Iterator[Attribute]:
    for name in names:
        if getattr(instruction, name):
            yield name, "true"


def _dimensions(instruction: Any) -> Iterator[Attribute]:
    yield "dimensions", braced(instruction.dimensions)


def _first_dimension(instruction: Any) -> str:
    return braced(instruction.dimensions[:1] or [0])


def _collective(instruction: Any) -> Iterator[Attribute]:
    opcode = instruction.opcode
    yield from _channel(instruction)
    yield "replica_groups", replica_groups_text(instruction)
    yield from _flags(instruction, "constrain_layout")
    is_gather = opcode.startswith("all-gather")
    if is_gather or opcode.startswith("reduce-scatter") or (opcode == "all-to-all" and instruction.dimensions):
        yield "dimensions", _first_dimension(instruction)
    if is_gather or "reduce" in opcode:
        yield from _flags(instruction, "use_global_device_ids")


def _channel(instruction: Any) -> Iterator[Attribute]:
    channel_id = instruction.all_reduce_id or instruction.channel_id
    if channel_id > 0:
        yield "channel_id", str(channel_id)


def _permute(instruction: Any) -> Iterator[Attribute]:
    yield from _channel(instruction)
    pairs = (braced((pair.source, pair.target)) for pair in instruction.source_target_pairs)
    yield "source_target_pairs", braced(pairs)


def _point_to_point(instruction: Any) -> Iterator[Attribute]:
    yield from _channel(instruction)
    yield from _flags(instruction, "is_host_transfer")


def _fusion(instruction: Any) -> Iterator[Attribute]:
    yield "kind", instruction.fusion_kind
    yield from _aliasing(instruction)


def _aliasing(instruction: Any) -> Iterator[Attribute]:
    if instruction.output_operand_aliasing:
        yield "output_to_operand_aliasing", f"{{{alias_entries_text(instruction.output_operand_aliasing)}}}"


def _async_start(instruction: Any) -> Iterator[Attribute]:
    if instruction.async_execution_thread not in ("", "main"):
        yield "async_execution_thread", instruction.async_execution_thread
    yield from _aliasing(instruction)


def _copy_start(instruction: Any) -> Iterator[Attribute]:
    if instruction.HasField("cross_program_prefetch_index"):
        yield "cross_program_prefetch_index", str(instruction.cross_program_prefetch_index)


def _compare(instruction: Any) -> Iterator[Attribute]:
    yield "direction", instruction.comparison_direction
    # Which type is the default, and so left out in text, hangs on the operand; only this one is never the default.
    if instruction.comparison_type == "TOTALORDER":
        yield "type", "TOTALORDER"


def _sort(instruction: Any) -> Iterator[Attribute]:
    yield from _dimensions(instruction)
    yield from _flags(instruction, "is_stable")


def _topk(instruction: Any) -> Iterator[Attribute]:
    yield "k", str(instruction.k)
    yield "largest", "true" if instruction.largest else "false"


def _reshape(instruction: Any) -> Iterator[Attribute]:
    if instruction.dimensions and instruction.dimensions[0] != -1:
        yield "inferred_dimension", str(instruction.dimensions[0])


def _slice(instruction: Any) -> Iterator[Attribute]:
    has_strides = any(each.stride != 1 for each in instruction.slice_dimensions)
    ranges = (
        f"[{each.start}:{each.limit}:{each.stride}]" if has_strides else f"[{each.start}:{each.limit}]"
        for each in instruction.slice_dimensions
    )
    yield "slice", f"{{{', '.join(ranges)}}}"


def _dynamic_slice(instruction: Any) -> Iterator[Attribute]:
    yield "dynamic_slice_sizes", braced(instruction.dynamic_slice_sizes)


def _get_tuple_element(instruction: Any) -> Iterator[Attribute]:
    yield "index", str(instruction.tuple_index)


def _iota(instruction: Any) -> Iterator[Attribute]:
    yield "iota_dimension", str(next(iter(instruction.dimensions), 0))


def _dimension_size(instruction: Any) -> Iterator[Attribute]:
    yield "dimensions", _first_dimension(instruction)


def _pad(instruction: Any) -> Iterator[Attribute]:
    dimensions = instruction.padding_config.dimensions
    has_interior = any(each.interior_padding for each in dimensions)
    yield (
        "padding",
        "x".join(
            f"{each.edge_padding_low}_{each.edge_padding_high}" + (f"_{each.interior_padding}" if has_interior else "")
            for each in dimensions
        ),
    )


def _window(instruction: Any) -> Iterator[Attribute]:
    dimensions = instruction.window.dimensions
    if not dimensions:
        return
    parts = [f"size={'x'.join(str(each.size) for each in dimensions)}"]
    if any(each.stride != 1 for each in dimensions):
        parts.append(f"stride={'x'.join(str(each.stride) for each in dimensions)}")
    if any(each.padding_low or each.padding_high for each in dimensions):
        parts.append(f"pad={'x'.join(f'{each.padding_low}_{each.padding_high}' for each in dimensions)}")
    if any(each.base_dilation != 1 for each in dimensions):
        parts.append(f"lhs_dilate={'x'.join(str(each.base_dilation) for each in dimensions)}")
    if any(each.window_dilation != 1 for each in dimensions):
        parts.append(f"rhs_dilate={'x'.join(str(each.window_dilation) for each in dimensions)}")
    if any(each.window_reversal for each in dimensions):
        parts.append(f"rhs_reversal={'x'.join(str(int(each.window_reversal)) for each in dimensions)}")
    yield "window", f"{{{' '.join(parts)}}}"


def _dot_dimensions(numbers: Any) -> Iterator[Attribute]:
    for side in ("lhs", "rhs"):
        batch = getattr(numbers, f"{side}_batch_dimensions")
        if batch:
            yield f"{side}_batch_dims", braced(batch)
        yield f"{side}_contracting_dims", braced(getattr(numbers, f"{side}_contracting_dimensions"))


def _dot(instruction: Any) -> Iterator[Attribute]:
    yield from _dot_dimensions(instruction.dot_dimension_numbers)
    yield from _precision(instruction)


def _ragged_dot(instruction: Any) -> Iterator[Attribute]:
    numbers = instruction.ragged_dot_dimension_numbers
    yield from _dot_dimensions(numbers.dot_dimension_numbers)
    if numbers.lhs_ragged_dimensions:
        yield "lhs_ragged_dims", braced(numbers.lhs_ragged_dimensions)
    if numbers.rhs_group_dimensions:
        yield "rhs_group_dims", braced(numbers.rhs_group_dimensions)
    yield from _precision(instruction)


def _precision(instruction: Any) -> Iterator[Attribute]:
    config = instruction.precision_config
    if any(config.operand_precision):
        yield "operand_precision", braced(_PRECISIONS.get(each, str(each)) for each in config.operand_precision)
    if config.algorithm:
        yield "algorithm", _ALGORITHMS.get(config.algorithm, str(config.algorithm))


def _gather(instruction: Any) -> Iterator[Attribute]:
    numbers = instruction.gather_dimension_numbers
    for name in ("offset_dims", "collapsed_slice_dims", "start_index_map"):
        yield name, braced(getattr(numbers, name))
    for name in ("operand_batching_dims", "start_indices_batching_dims"):
        if getattr(numbers, name):
            yield name, braced(getattr(numbers, name))
    yield "index_vector_dim", str(numbers.index_vector_dim)
    yield "slice_sizes", braced(instruction.gather_slice_sizes)
    yield from _flags(instruction, "indices_are_sorted")


def _scatter(instruction: Any) -> Iterator[Attribute]:
    numbers = instruction.scatter_dimension_numbers
    for name in ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"):
        yield name, braced(getattr(numbers, name))
    for name in ("input_batching_dims", "scatter_indices_batching_dims"):
        if getattr(numbers, name):
            yield name, braced(getattr(numbers, name))
    yield "index_vector_dim", str(numbers.index_vector_dim)
    yield from _flags(instruction, "indices_are_sorted", "unique_indices")


def _group_counts(instruction: Any) -> Iterator[Attribute]:
    for name in ("feature_group_count", "batch_group_count"):
        if getattr(instruction, name) > 1:
            yield name, str(getattr(instruction, name))


def _convolution(instruction: Any) -> Iterator[Attribute]:
    yield from _window(instruction)
    yield "dim_labels", _dim_labels(instruction.convolution_dimension_numbers)
    yield from _group_counts(instruction)
    if instruction.conv_kind in _CONVOLUTIONS:
        yield "convolution_kind", _CONVOLUTIONS[instruction.conv_kind]
    yield from _precision(instruction)


def _dim_labels(numbers: Any) -> str:
    """`bf01_io01->bf01`"""

    def labels(named: dict[str, int], spatial: Any) -> str:
        places = {place: letter for letter, place in named.items()}
        places.update({place: str(index) for index, place in enumerate(spatial)})
        return "".join(places[place] for place in sorted(places))

    lhs = {"b": numbers.input_batch_dimension, "f": numbers.input_feature_dimension}
    rhs = {"i": numbers.kernel_input_feature_dimension, "o": numbers.kernel_output_feature_dimension}
    result = {"b": numbers.output_batch_dimension, "f": numbers.output_feature_dimension}
    return (
        f"{labels(lhs, numbers.input_spatial_dimensions)}_{labels(rhs, numbers.kernel_spatial_dimensions)}"
        f"->{labels(result, numbers.output_spatial_dimensions)}"
    )


def _custom_call(instruction: Any) -> Iterator[Attribute]:
    if instruction.HasField("window"):
        yield from _window(instruction)
    if instruction.HasField("convolution_dimension_numbers"):
        yield "dim_labels", _dim_labels(instruction.convolution_dimension_numbers)
    yield from _group_counts(instruction)
    yield from _precision(instruction)
    if instruction.padding_type in _PADDING_TYPES:
        yield "padding_type", _PADDING_TYPES[instruction.padding_type]
    yield "custom_call_target", instruction.custom_call_target
    if instruction.constrain_layout:
        shapes = ", ".join(str(shape_of(shape)) for shape in instruction.operand_shapes_with_layout)
        yield "operand_layout_constraints", f"{{{shapes}}}"
    yield from _flags(instruction, "custom_call_has_side_effect")
    yield from _aliasing(instruction)
    if instruction.custom_call_schedule in _SCHEDULES:
        yield "schedule", _SCHEDULES[instruction.custom_call_schedule]
    if instruction.custom_call_api_version in _API_VERSIONS:
        yield "api_version", _API_VERSIONS[instruction.custom_call_api_version]


def _fft(instruction: Any) -> Iterator[Attribute]:
    yield "fft_type", _FFT_TYPES.get(instruction.fft_type, str(instruction.fft_type))
    yield "fft_length", braced(instruction.fft_length)


def _reduce_precision(instruction: Any) -> Iterator[Attribute]:
    yield "exponent_bits", str(instruction.exponent_bits)
    yield "mantissa_bits", str(instruction.mantissa_bits)


def _rng(instruction: Any) -> Iterator[Attribute]:
    yield "distribution", _DISTRIBUTIONS.get(instruction.distribution, str(instruction.distribution))


def _rng_bits(instruction: Any) -> Iterator[Attribute]:
    yield "algorithm", _RNG_ALGORITHMS.get(instruction.rng_algorithm, str(instruction.rng_algorithm))


def _rng_state(instruction: Any) -> Iterator[Attribute]:
    yield "delta", str(instruction.delta)


def _batch_norm(instruction: Any) -> Iterator[Attribute]:
    yield "epsilon", f"{instruction.epsilon:g}"
    yield "feature_index", str(instruction.feature_index)


def _call(instruction: Any) -> Iterator[Attribute]:
    yield from _aliasing(instruction)
    yield from _flags(instruction, "is_composite")


_RULES: Mapping[str, Callable[[Any], Iterator[Attribute]]] = {
    **dict.fromkeys(("broadcast", "concatenate", "map", "reduce", "reverse", "transpose"), _dimensions),
    **dict.fromkeys(("collective-permute", "collective-permute-start"), _permute),
    **dict.fromkeys(("send", "send-done", "recv", "recv-done"), _point_to_point),
    **dict.fromkeys(("reduce-window", "select-and-scatter"), _window),
    **dict.fromkeys(("dot", "scaled-dot"), _dot),
    **dict.fromkeys(("get-dimension-size", "set-dimension-size"), _dimension_size),
    **dict.fromkeys(("batch-norm-grad", "batch-norm-inference", "batch-norm-training"), _batch_norm),
    "async-start": _async_start,
    "async-update": _aliasing,
    "call": _call,
    "compare": _compare,
    "convolution": _convolution,
    "copy-start": _copy_start,
    "custom-call": _custom_call,
    "dynamic-slice": _dynamic_slice,
    "fft": _fft,
    "fusion": _fusion,
    "gather": _gather,
    "get-tuple-element": _get_tuple_element,
    "iota": _iota,
    "pad": _pad,
    "ragged-dot": _ragged_dot,
    "reduce-precision": _reduce_precision,
    "reshape": _reshape,
    "rng": _rng,
    "rng-bit-generator": _rng_bits,
    "rng-get-and-update-state": _rng_state,
    "scatter": _scatter,
    "slice": _slice,
    "sort": _sort,
    "topk": _topk,
}
