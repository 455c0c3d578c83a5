"""How a module is to be compiled, as the CompileOptionsProto that a PJRT plugin takes.

For a scheduled module that must come out as it went in, `run_backend_only` leaves out every pass, and the layouts of
parameters and result are those of the module: without them XLA assumes row-major ones, and the data would be wrong in
silence. Field numbers: xla/pjrt/proto/compile_options.proto, xla/service/hlo.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocktools.errors import DamagedFile
from rocktools.protos import Field, build_messages

OptionValue = bool | int | float | str


def build_compile_options(
    module: bytes,
    *,
    partitions_count: int = 1,
    replicas_count: int = 1,
    is_backend_only: bool = True,
    overrides: Mapping[str, OptionValue] | None = None,
) -> bytes:
    """Serialized options for an HLO module, with the layouts of its entry.

    Args:
        module: serialized HloModuleProto.
        partitions_count: devices that share the work.
        replicas_count: devices that repeat it.
        is_backend_only: whether the passes over the module are left out.
        overrides: XLA flags without their dashes -> value, for this module alone.

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
    build.num_replicas, build.num_partitions = replicas_count, partitions_count
    build.run_backend_only = is_backend_only
    for name, value in (overrides or {}).items():
        _set(options.overrides[name], value)
    serialized: bytes = options.SerializeToString(deterministic=True)
    return serialized


def _set(override: Any, value: OptionValue) -> None:
    if isinstance(value, bool):
        override.bool_field = value
    elif isinstance(value, int):
        override.int_field = value
    elif isinstance(value, float):
        override.double_field = value
    else:
        override.string_field = value


def _messages() -> dict[str, Any]:
    return build_messages(
        "rocktools.compile_options",
        {
            "Module": [Field("program_shape", 4, "ProgramShape")],
            "ProgramShape": [Field("parameters", 1, "bytes", is_repeated=True), Field("result", 2, "bytes")],
            "CompileOptions": [
                Field("argument_layouts", 1, "bytes", is_repeated=True),
                Field("build", 3, "Build"),
                Field("overrides", 7, "map<string,Override>"),
            ],
            "Build": [
                Field("device_ordinal", 1, "int64"),
                Field("result_layout", 2, "bytes"),
                Field("num_replicas", 4, "int64"),
                Field("num_partitions", 5, "int64"),
                Field("run_backend_only", 11, "bool"),
            ],
            "Override": [
                Field("string_field", 1, "string", oneof="value"),
                Field("bool_field", 2, "bool", oneof="value"),
                Field("int_field", 3, "int64", oneof="value"),
                Field("double_field", 4, "double", oneof="value"),
            ],
        },
    )
