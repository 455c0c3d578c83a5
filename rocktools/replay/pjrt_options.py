"""How a module is to be compiled, as the CompileOptionsProto that a PJRT plugin takes.

For a scheduled module that must come out as it went in, `run_backend_only` leaves out every pass, and the layouts of
parameters and result are those of the module: without them XLA assumes row-major ones, and the data would be wrong in
silence. Field numbers: xla/pjrt/proto/compile_options.proto, xla/service/hlo.proto.
"""

from __future__ import annotations

from typing import Any

from rocktools.errors import DamagedFile
from rocktools.protos import Field, build_messages


def build_compile_options(module: bytes, *, devices_count: int = 1) -> bytes:
    """Serialized options for an HLO module that no pass may touch, with the layouts of its entry.

    Args:
        module: serialized HloModuleProto.
        devices_count: devices that run it together, as partitions.

    Raises:
        DamagedFile: it is no module, or has no entry.
    """
    from google.protobuf.message import DecodeError

    messages = _messages()
    try:
        shape = messages["Module"].FromString(module).program_shape
    except DecodeError as error:
        raise DamagedFile("hlo-module", "the module to compile is no HLO proto") from error
    if not shape.result:
        raise DamagedFile("hlo-module", "the module to compile does not say the shapes of its entry")
    options = messages["CompileOptions"](argument_layouts=list(shape.parameters))
    build = options.build
    build.device_ordinal = -1  # none
    build.result_layout = shape.result
    build.num_replicas, build.num_partitions = 1, devices_count
    build.run_backend_only = True
    serialized: bytes = options.SerializeToString(deterministic=True)
    return serialized


def _messages() -> dict[str, Any]:
    return build_messages(
        "rocktools.compile_options",
        {
            "Module": [Field("program_shape", 4, "ProgramShape")],
            "ProgramShape": [Field("parameters", 1, "bytes", is_repeated=True), Field("result", 2, "bytes")],
            "CompileOptions": [
                Field("argument_layouts", 1, "bytes", is_repeated=True),
                Field("build", 3, "Build"),
            ],
            "Build": [
                Field("device_ordinal", 1, "int64"),
                Field("result_layout", 2, "bytes"),
                Field("num_replicas", 4, "int64"),
                Field("num_partitions", 5, "int64"),
                Field("run_backend_only", 11, "bool"),
            ],
        },
    )
