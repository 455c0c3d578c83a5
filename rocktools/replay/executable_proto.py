"""The messages of a serialized XLA:GPU executable, with the fields that are read.

Field numbers: xla/service/gpu/gpu_executable.proto, xla/backends/gpu/runtime/thunk.proto, xla/stream_executor/
kernel_spec.proto and xla/pjrt/proto/compile_options.proto of openxla/xla (2025 and 2026); numbers are never used again.
The members of a thunk are called as XLA prints their kinds in thunk_sequence.txt.
"""

from __future__ import annotations

from typing import Any

from rocktools.protos import Field, build_messages

# Number of the member in ThunkProto -> kind as printed. A thunk of another number is called by it.
_OPAQUE_KINDS = {
    3: "kCopy", 4: "kCopy", 5: "kCopy", 11: "kTriangularSolve", 12: "kReplicaId", 14: "kPartitionId",
    15: "kCuDnn", 16: "kHostExecuteStart", 17: "kHostExecuteDone", 19: "kMemzero", 20: "kSelectK", 21: "kInfeed",
    23: "kOutfeed", 24: "kNorm", 26: "kConvolutionReorder", 27: "kFft", 28: "kMemset32BitValue", 32: "kHostSend",
    33: "kHostSendDone", 34: "kHostRecv", 35: "kHostRecvDone", 37: "kCollectiveDone", 38: "kAllGather",
    39: "kAllReduce", 40: "kReduceScatter", 41: "kAllToAll", 42: "kRaggedAllToAll", 43: "kCollectivePermute",
    44: "kSend", 45: "kRecv", 46: "kCollectiveBroadcast", 48: "kDynamicMemcpy", 49: "kCopyDone",
    52: "kNvshmemAllReduce", 53: "kNvshmemCollectivePermute", 54: "kNvshmemSend", 55: "kNvshmemRecv",
    58: "kAsyncDone",
}  # fmt: skip
_CONFIGURED_KINDS = {9: ("kGemm", "Gemm"), 13: ("kCopy", "DeviceCopy"), 22: ("kCublasLtMatmul", "Matmul"),
                     25: ("kConvolution", "Convolution"), 30: ("kCustomCall", "CustomCall")}  # fmt: skip
_STRUCTURED_KINDS = {2: ("kSequential", "ThunkSequence"), 6: ("kConditional", "Conditional"), 7: ("kWhile", "While"),
                     8: ("kKernel", "Kernel"), 18: ("kDynamicSlice", "DynamicSlice"),
                     36: ("kCustomKernel", "CustomKernel"), 47: ("kGroup", "Group"),
                     57: ("kAsyncStart", "AsyncStart")}  # fmt: skip
CONFIGURED_MEMBERS = frozenset(f"{kind}_{number}" for number, (kind, _) in _CONFIGURED_KINDS.items())
"""Members that hold what decides which code runs, though not the code."""


def kind_of(member: str) -> str:
    """The kind that a member of a thunk stands for; "" for none. Several numbers have one kind."""
    return member.rpartition("_")[0]


def _members() -> list[Field]:
    typed = {
        **_CONFIGURED_KINDS,
        **_STRUCTURED_KINDS,
        **{number: (kind, "bytes") for number, kind in _OPAQUE_KINDS.items()},
    }
    return [
        Field(f"{kind}_{number}", number, type_name, oneof="impl")
        for number, (kind, type_name) in sorted(typed.items())
    ]


def executable_messages() -> dict[str, Any]:
    """Message name -> class."""
    return build_messages("rocktools.executable", {**_executable_fields(), **_thunk_fields()})


def _executable_fields() -> dict[str, list[Field]]:
    """What is around thunks: the executable, what PJRT and the splitting of large messages put around it."""
    return {
        "ExecutableAndOptions": [
            Field("serialized_executable", 1, "bytes", is_repeated=True),
            Field("older_executable", 2, "bytes", is_repeated=True),
        ],
        "Executable": [
            Field("binary", 4, "bytes"),
            Field("capability", 6, "Capability"),
            Field("module_name", 8, "string"),
            Field("thunks", 13, "Thunk", is_repeated=True),
        ],
        "Capability": [Field("rocm", 2, "RocmCapability")],
        "RocmCapability": [Field("gcn_arch_name", 1, "string")],
        "Manifest": [Field("message_type", 1, "string"), Field("records", 2, "ManifestRecord", is_repeated=True)],
        "ManifestRecord": [
            Field("merged", 2, "bytes", oneof="kind"),
            Field("field", 3, "FieldRecord", oneof="kind"),
        ],
        "FieldRecord": [Field("path", 1, "PathStep", is_repeated=True), Field("value_kind", 2, "int64")],
        "PathStep": [Field("field_number", 1, "int64"), Field("index", 2, "bytes"), Field("key", 3, "bytes")],
    }


def _thunk_fields() -> dict[str, list[Field]]:
    """Thunks; of library calls and copies what decides what is run, not where the buffers are."""
    sequence = "ThunkSequence"
    return {
        "Thunk": [Field("info", 1, "ThunkInfo"), *_members()],
        "ThunkInfo": [Field("profile_annotation", 1, "string"), Field("thunk_id", 3, "int64")],
        "ThunkSequence": [Field("thunks", 1, "Thunk", is_repeated=True)],
        "Conditional": [Field("branches", 2, sequence, is_repeated=True)],
        "While": [Field("condition", 2, sequence), Field("body", 3, sequence)],
        "AsyncStart": [Field("thunks", 3, sequence)],
        "DynamicSlice": [Field("embedded", 1, sequence)],
        "Group": [Field("thunks", 2, "Thunk", is_repeated=True)],
        "Kernel": [
            Field("kernel_name", 3, "string"),
            Field("launch", 4, "Launch"),
            Field("shmem_bytes", 6, "int64"),
        ],
        "Launch": [Field("grid", 1, "Dim3"), Field("workgroup", 2, "Dim3")],
        "Dim3": [Field("inner", 1, "Sizes"), Field("other_inner", 2, "Sizes")],
        "Sizes": [Field("x", 1, "int64"), Field("y", 2, "int64"), Field("z", 3, "int64")],
        "CustomKernel": [Field("kernel", 3, "KernelSpec")],
        "KernelSpec": [
            Field("name", 1, "string"),
            Field("loader", 2, "Loader"),
            Field("grid", 3, "Dim3"),
            Field("workgroup", 4, "Dim3"),
            Field("shmem_bytes", 6, "int64"),
        ],
        "Loader": [Field("in_memory", 2, "Binary"), Field("kernel_name", 4, "string")],
        "Binary": [Field("content", 1, "bytes")],
        "DeviceCopy": [Field("copy", 1, "Copy")],
        "Copy": [Field("size_bytes", 3, "int64")],
        "Gemm": [Field("config", 1, "bytes"), Field("deterministic", 6, "bool")],
        "Matmul": [
            Field("config", 1, "bytes"),
            Field("epilogue", 2, "uint64"),
            Field("algorithm", 3, "int64"),
            Field("workspace_bytes", 17, "int64"),
            Field("grouped_config", 19, "bytes"),
        ],
        "Convolution": [Field("descriptor", 1, "bytes")],
        "CustomCall": [Field("target", 1, "string"), Field("opaque", 4, "bytes"), Field("attributes", 6, "bytes")],
    }
