"""Writes small serialized executables, by the messages that the reader knows, with a code object for each kernel."""

from __future__ import annotations

from typing import Any

from elf_files import write_code_object
from riegeli_files import records_chunk, varint, write_riegeli

from rocktools.replay.executable_proto import executable_messages

FACTS = {".vgpr_count": 40, ".agpr_count": 0, ".sgpr_count": 16, ".group_segment_fixed_size": 512,
         ".private_segment_fixed_size": 0, ".vgpr_spill_count": 0, ".sgpr_spill_count": 0}  # fmt: skip


def make_executable(kernels: dict[str, bytes], *, matmuls: int = 0) -> Any:
    """The message: one launch for each kernel (instruction -> machine code), then matrix products of the library."""
    messages = executable_messages()
    executable = messages["Executable"](module_name="jit_step")
    executable.capability.rocm.gcn_arch_name = "gfx950:sramecc+:xnack-"
    for number, (instruction, code) in enumerate(kernels.items(), start=1):
        thunk = executable.thunks.add()
        thunk.info.profile_annotation, thunk.info.thunk_id = instruction, number
        spec = thunk.kCustomKernel_36.kernel
        name = instruction.replace(".", "_")
        spec.name, spec.loader.kernel_name = name, name
        spec.loader.in_memory.content = write_code_object({name: (code, FACTS)})
        for sizes, x in ((spec.grid.other_inner, 12), (spec.workgroup.inner, 256)):
            sizes.x, sizes.y, sizes.z = x, 1, 1
        spec.shmem_bytes = 64
    for number in range(matmuls):
        thunk = executable.thunks.add()
        thunk.info.profile_annotation = f"custom-call.{number}"
        thunk.kCublasLtMatmul_22.config = b"\x08\x01"
    return executable


def serialize(executable: Any, *, is_split: bool = False, has_ifrt_header: bool = False) -> bytes:
    """The bytes as PJRT writes them; split into records as since 0.10, and with the header of JAX."""
    messages = executable_messages()
    content = executable.SerializeToString()
    if is_split:
        rest = messages["Executable"].FromString(content)  # classes of another call are other classes
        rest.ClearField("module_name")
        manifest = messages["Manifest"](message_type="xla.gpu.GpuExecutableProto")
        manifest.records.add().field.path.add(field_number=8)
        manifest.records.add().merged = b""
        records = [manifest.SerializeToString(), executable.module_name.encode(), rest.SerializeToString()]
        content = write_riegeli([records_chunk(records, is_packed=True)])
    outer = messages["ExecutableAndOptions"](serialized_executable=[content]).SerializeToString()
    if has_ifrt_header:
        header = b"\x08\x03\x12\x09pjrt_ifrt" + bytes(130)
        outer = varint(len(header)) + header + outer
    return outer
