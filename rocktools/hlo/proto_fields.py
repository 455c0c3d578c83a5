"""The fields of HLO protos that are read, by their numbers in XLA's `hlo.proto` and `xla_data.proto`.

Numbers there are never used again for something else, with one exception that was met: 92 was
`collective_op_group_mode` (an integer) for some weeks of 2025 before it became the list of groups it is here; protobuf
takes an integer under a number declared as a message for an unknown field, so that both are read right.
"""

from __future__ import annotations

import functools
from typing import Any

from rocktools.protos import Field, build_messages

_PACKAGE = "rocktools.hlo"


def _int64s(*fields: tuple[str, int]) -> list[Field]:
    return [Field(name, number, "int64") for name, number in fields]


def _int64_lists(*fields: tuple[str, int]) -> list[Field]:
    return [Field(name, number, "int64", is_repeated=True) for name, number in fields]


def _bools(*fields: tuple[str, int]) -> list[Field]:
    return [Field(name, number, "bool") for name, number in fields]


def _strings(*fields: tuple[str, int]) -> list[Field]:
    return [Field(name, number, "string") for name, number in fields]


_SHAPES = {
    "Tile": _int64_lists(("dimensions", 1)),
    "SplitConfig": [*_int64s(("dimension", 1)), *_int64_lists(("split_indices", 2))],
    "Layout": [
        *_int64_lists(("minor_to_major", 1)),
        Field("tiles", 6, "Tile", is_repeated=True),
        *_int64s(("element_size_in_bits", 7), ("memory_space", 8), ("dynamic_shape_metadata_prefix_bytes", 15)),
        *_int64s(("tail_padding_alignment_in_elements", 16)),
        Field("split_configs", 17, "SplitConfig", is_repeated=True),
    ],
    "Shape": [
        Field("element_type", 2, "int32"),
        *_int64_lists(("dimensions", 3)),
        Field("tuple_shapes", 4, "Shape", is_repeated=True),
        Field("layout", 5, "Layout"),
        Field("is_dynamic_dimension", 6, "bool", is_repeated=True),
    ],
    "ProgramShape": [
        Field("parameters", 1, "Shape", is_repeated=True),
        Field("result", 2, "Shape"),
        Field("parameter_names", 3, "string", is_repeated=True),
    ],
    "Literal": [
        Field("shape", 1, "Shape"),
        Field("preds", 2, "bool", is_repeated=True),
        Field("u8s", 3, "bytes"),
        Field("s32s", 4, "int32", is_repeated=True),
        Field("s64s", 5, "int64", is_repeated=True),
        Field("u32s", 6, "uint32", is_repeated=True),
        Field("u64s", 7, "uint64", is_repeated=True),
        Field("f32s", 8, "float", is_repeated=True),
        Field("f64s", 9, "double", is_repeated=True),
        Field("f16s", 11, "bytes"),
        Field("bf16s", 13, "bytes"),
        Field("s8s", 15, "bytes"),
        Field("u16s", 16, "bytes"),
        Field("s16s", 17, "bytes"),
        Field("f8e5m2s", 19, "bytes"),
        Field("f8e4m3fns", 20, "bytes"),
        Field("s4s", 21, "bytes"),
        Field("u4s", 22, "bytes"),
        Field("f8e5m2fnuzs", 24, "bytes"),
        Field("f8e4m3fnuzs", 25, "bytes"),
    ],
}
_NUMBERS = {
    "SliceDimensions": _int64s(("start", 1), ("limit", 2), ("stride", 3)),
    "WindowDimension": [
        *_int64s(("size", 1), ("stride", 2), ("padding_low", 3), ("padding_high", 4), ("window_dilation", 5)),
        *_int64s(("base_dilation", 6)),
        *_bools(("window_reversal", 7)),
    ],
    "Window": [Field("dimensions", 1, "WindowDimension", is_repeated=True)],
    "PaddingDimension": _int64s(("edge_padding_low", 1), ("edge_padding_high", 2), ("interior_padding", 3)),
    "Padding": [Field("dimensions", 1, "PaddingDimension", is_repeated=True)],
    "DotNumbers": _int64_lists(
        *(("lhs_contracting_dimensions", 1), ("rhs_contracting_dimensions", 2)),
        *(("lhs_batch_dimensions", 3), ("rhs_batch_dimensions", 4)),
    ),
    "RaggedDotNumbers": [
        Field("dot_dimension_numbers", 1, "DotNumbers"),
        *_int64_lists(("lhs_ragged_dimensions", 2), ("rhs_group_dimensions", 3)),
    ],
    "GatherNumbers": [
        *_int64_lists(("offset_dims", 1), ("collapsed_slice_dims", 2), ("start_index_map", 3)),
        *_int64s(("index_vector_dim", 4)),
        *_int64_lists(("operand_batching_dims", 5), ("start_indices_batching_dims", 6)),
    ],
    "ScatterNumbers": [
        *_int64_lists(("update_window_dims", 1), ("inserted_window_dims", 2), ("scatter_dims_to_operand_dims", 3)),
        *_int64s(("index_vector_dim", 4)),
        *_int64_lists(("input_batching_dims", 5), ("scatter_indices_batching_dims", 6)),
    ],
    "ConvolutionNumbers": [
        *_int64s(("kernel_input_feature_dimension", 3), ("kernel_output_feature_dimension", 4)),
        *_int64_lists(("kernel_spatial_dimensions", 6)),
        *_int64s(("input_batch_dimension", 7), ("input_feature_dimension", 8)),
        *_int64s(("output_batch_dimension", 9), ("output_feature_dimension", 10)),
        *_int64_lists(("input_spatial_dimensions", 11), ("output_spatial_dimensions", 12)),
    ],
    "Precision": [Field("operand_precision", 1, "int32", is_repeated=True), Field("algorithm", 2, "int32")],
    "OutputOperandAliasing": [
        *_int64_lists(("output_shape_index", 1), ("operand_shape_index", 3)),
        *_int64s(("operand_index", 2)),
    ],
}
_DEVICES = {
    "ReplicaGroup": _int64_lists(("replica_ids", 1)),
    "IotaGroups": [
        *_int64s(("num_replica_groups", 1), ("num_devices_per_group", 2)),
        *_int64_lists(("iota_reshape_dims", 3)),
        Field("iota_transpose_perm", 4, "int32", is_repeated=True),
    ],
    "DeviceList": [
        Field("replica_groups", 1, "ReplicaGroup", is_repeated=True),
        Field("iota_replica_group_list", 2, "IotaGroups"),
    ],
    "MeshAxis": [*_strings(("name", 1)), *_int64s(("size", 2))],
    "MeshTransform": _int64_lists(("reshape_dims", 1), ("transpose_perm", 2)),
    "Mesh": [
        Field("axes", 1, "MeshAxis", is_repeated=True),
        *_int64_lists(("device_ids", 2)),
        Field("iota_transform", 3, "MeshTransform"),
    ],
    "SubAxis": _int64s(("pre_size", 1), ("size", 2)),
    "AxisReference": [*_int64s(("mesh_axis_index", 1)), Field("sub_axis_info", 2, "SubAxis")],
    "MeshGroups": [Field("mesh", 1, "Mesh"), Field("axes", 2, "AxisReference", is_repeated=True)],
    "SourceTarget": _int64s(("source", 1), ("target", 2)),
    "DimensionSharding": [Field("axes", 1, "AxisReference", is_repeated=True), *_bools(("is_closed", 2))],
    "NamedSharding": [
        Field("mesh", 2, "Mesh"),
        Field("dim_shardings", 3, "DimensionSharding", is_repeated=True),
        Field("replicated_axes", 4, "AxisReference", is_repeated=True),
        Field("unreduced_axes", 5, "AxisReference", is_repeated=True),
        Field("manual_axes", 7, "AxisReference", is_repeated=True),
    ],
    "Sharding": [
        Field("type", 1, "int32"),
        *_int64_lists(("tile_assignment_dimensions", 3), ("tile_assignment_devices", 4)),
        Field("tuple_shardings", 5, "Sharding", is_repeated=True),
        *_bools(("replicate_on_last_tile_dim", 6)),
        Field("last_tile_dims", 8, "int32", is_repeated=True),
        *_bools(("is_shard_group", 11)),
        *_int64s(("shard_group_id", 12)),
        Field("shard_group_type", 13, "int32"),
        Field("named_sharding", 14, "NamedSharding"),
        *_int64_lists(("iota_reshape_dims", 9)),
        Field("iota_transpose_perm", 10, "int32", is_repeated=True),
    ],
}
_INSTRUCTION = {
    "OpMetadata": [
        *_strings(("op_type", 1), ("op_name", 2), ("source_file", 3), ("deduplicated_name", 12)),
        *_strings(("scheduling_name", 16)),
        Field("source_line", 4, "int32"),
        Field("stack_frame_id", 15, "int32"),
    ],
    "Payload": [Field("value", 1, "bytes", oneof="payload_source"), Field("id", 2, "int64", oneof="payload_source")],
    "FrontendAttributes": [Field("map", 1, "map<string,string>")],
    "OriginalValue": [],  # which value of the program before optimization this is: only ever dropped
    "Instruction": [
        Field("backend_config_payload", 99, "Payload"),
        *_strings(("name", 1), ("opcode", 2), ("fusion_kind", 11), ("custom_call_target", 28)),
        *_strings(("comparison_direction", 63), ("comparison_type", 72), ("async_execution_thread", 79)),
        Field("shape", 3, "Shape"),
        Field("metadata", 7, "OpMetadata"),
        Field("literal", 8, "Literal"),
        *_int64s(("parameter_number", 9), ("tuple_index", 13), ("channel_id", 26), ("id", 35), ("all_reduce_id", 45)),
        *_int64s(("feature_group_count", 50), ("batch_group_count", 58), ("delta", 66), ("k", 81)),
        *_int64_lists(("dimensions", 14), ("dynamic_slice_sizes", 20), ("fft_length", 32), ("gather_slice_sizes", 34)),
        *_int64_lists(("operand_ids", 36), ("control_predecessor_ids", 37), ("called_computation_ids", 38)),
        Field("window", 15, "Window"),
        Field("original_value", 88, "OriginalValue"),
        Field("convolution_dimension_numbers", 16, "ConvolutionNumbers"),
        Field("slice_dimensions", 17, "SliceDimensions", is_repeated=True),
        Field("exponent_bits", 18, "int32"),
        Field("mantissa_bits", 19, "int32"),
        Field("padding_config", 21, "Padding"),
        Field("distribution", 23, "int32"),
        Field("epsilon", 24, "float"),
        *_int64s(("feature_index", 25)),
        Field("dot_dimension_numbers", 30, "DotNumbers"),
        Field("fft_type", 31, "int32"),
        Field("gather_dimension_numbers", 33, "GatherNumbers"),
        Field("sharding", 40, "Sharding"),
        Field("backend_config", 43, "bytes"),
        *_bools(("is_host_transfer", 47), ("constrain_layout", 56), ("is_stable", 60), ("largest", 85)),
        *_bools(("custom_call_has_side_effect", 65), ("indices_are_sorted", 67), ("unique_indices", 69)),
        *_bools(("use_global_device_ids", 71), ("is_composite", 89)),
        Field("scatter_dimension_numbers", 48, "ScatterNumbers"),
        Field("replica_groups", 49, "ReplicaGroup", is_repeated=True),
        Field("precision_config", 51, "Precision"),
        Field("source_target_pairs", 52, "SourceTarget", is_repeated=True),
        Field("operand_shapes_with_layout", 57, "Shape", is_repeated=True),
        Field("frontend_attributes", 68, "FrontendAttributes"),
        Field("rng_algorithm", 70, "int32"),
        Field("output_operand_aliasing", 74, "OutputOperandAliasing", is_repeated=True),
        Field("conv_kind", 97, "int32"),
        Field("padding_type", 75, "int32"),
        Field("custom_call_schedule", 76, "int32"),
        Field("custom_call_api_version", 77, "int32"),
        Field("cross_program_prefetch_index", 80, "int32", oneof="optional_cross_program_prefetch_index"),
        Field("collective_device_list", 87, "DeviceList"),
        Field("ragged_dot_dimension_numbers", 90, "RaggedDotNumbers"),
        Field("iota_collective_device_list", 92, "IotaGroups"),
        Field("mesh_axes_replica_group_list", 93, "MeshGroups"),
    ],
}
_MODULE = {
    "Computation": [
        *_strings(("name", 1), ("execution_thread", 8)),
        Field("instructions", 2, "Instruction", is_repeated=True),
        Field("program_shape", 4, "ProgramShape"),
        *_int64s(("id", 5), ("root_id", 6)),
    ],
    "InstructionSequence": _int64_lists(("instruction_ids", 1)),
    "Schedule": [Field("sequences", 1, "map<int64,InstructionSequence>")],
    "AliasEntry": [
        *_int64_lists(("output_shape_index", 1), ("parameter_shape_index", 3)),
        *_int64s(("parameter_number", 2)),
        Field("kind", 4, "int32"),
    ],
    "InputOutputAlias": [Field("entries", 1, "AliasEntry", is_repeated=True)],
    "DeviceAssignment": [Field("replica_count", 1, "int32"), Field("computation_count", 2, "int32")],
    "FileLocation": [
        Field("file_name_id", 1, "int32"),
        Field("function_name_id", 2, "int32"),
        Field("line", 3, "int32"),
    ],
    "Frame": [Field("file_location_id", 1, "int32"), Field("parent_frame_id", 2, "int32")],
    "FrameIndex": [
        Field("file_names", 1, "string", is_repeated=True),
        Field("function_names", 2, "string", is_repeated=True),
        Field("file_locations", 3, "FileLocation", is_repeated=True),
        Field("stack_frames", 4, "Frame", is_repeated=True),
    ],
    "Module": [
        *_strings(("name", 1), ("entry_computation_name", 2)),
        Field("computations", 3, "Computation", is_repeated=True),
        Field("host_program_shape", 4, "ProgramShape"),
        *_int64s(("id", 5), ("entry_computation_id", 6)),
        Field("schedule", 7, "Schedule"),
        Field("input_output_alias", 8, "InputOutputAlias"),
        Field("payloads", 22, "bytes", is_repeated=True),
        Field("device_assignment", 15, "DeviceAssignment"),
        Field("stack_frame_index", 17, "FrameIndex"),
        Field("frontend_attributes", 19, "FrontendAttributes"),
    ],
    "HloProto": [Field("hlo_module", 1, "Module")],
}


@functools.cache
def hlo_messages() -> dict[str, Any]:
    """Name -> message class. Made once for a process: a pool of descriptors takes milliseconds and never differs."""
    return dict(build_messages(_PACKAGE, {**_SHAPES, **_NUMBERS, **_DEVICES, **_INSTRUCTION, **_MODULE}))
