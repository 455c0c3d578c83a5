"""HLO protos (HloProto, HloModuleProto) -> HloModule. Gets bytes: profiles hold protos as well as files do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rocktools.errors import DamagedFile
from rocktools.hlo.module import NO_METADATA, Computation, HloModule, Instruction, Metadata, StackFrame
from rocktools.hlo.proto_attributes import attributes_of, frontend_attributes_text
from rocktools.hlo.proto_devices import braced
from rocktools.hlo.proto_fields import hlo_messages
from rocktools.hlo.proto_shapes import ProtoContradiction, literal_text, shape_of
from rocktools.hlo.shapes import Shape
from rocktools.hlo.stack_frames import FrameTables, locate

# Ids of instructions are unique in a module: the computation's id stands in the upper half, where the proto is new
# (2025 on); operands are then named by the lower half alone in some versions.
_LOWER_HALF = 2**32 - 1
_ALIAS_KINDS = {1: "may-alias", 2: "must-alias"}


def parse_hlo_proto(data: bytes, source: str) -> HloModule:
    """The module a proto holds.

    Args:
        data: a serialised HloProto (`*.hlo.pb`, the `Hlo Proto` of a profile) or HloModuleProto.
        source: the file it is from, for messages.

    Raises:
        DamagedFile: the bytes are no such proto, or it contradicts itself.
    """
    module = _decode(data, source)
    try:
        return _Reading(module=module, source=source).read()
    except ProtoContradiction as contradiction:
        raise _damaged(str(contradiction), source) from None


def _damaged(reason: str, source: str) -> DamagedFile:
    return DamagedFile(
        "hlo-proto-damaged",
        f"the HLO proto cannot be read: {reason}",
        where=source,
        hint="copy the file again, or name the text of the same module (*_after_optimizations.txt)",
    )


def _decode(data: bytes, source: str) -> Any:
    """The HloModuleProto, in a HloProto or bare: the one that holds a module of computations."""
    from google.protobuf.message import DecodeError

    if not data:
        raise _damaged("it is empty", source)
    messages = hlo_messages()
    for name in ("HloProto", "Module"):
        message = messages[name]()
        try:
            message.ParseFromString(data)
        except (DecodeError, RuntimeError):  # RuntimeError: text that is not UTF-8, in some versions of protobuf
            continue
        module = message.hlo_module if name == "HloProto" else message
        if module.computations and module.name:
            return module
    raise _damaged("its bytes are no module with computations", source)


@dataclass(slots=True)
class _Reading:
    """One pass over a module."""

    module: Any
    source: str
    computation_names: dict[int, str] = field(default_factory=dict)
    frames: dict[int, StackFrame] = field(default_factory=dict)
    shapes: dict[bytes, Shape] = field(default_factory=dict)

    def read(self) -> HloModule:
        module = self.module
        self.computation_names = {computation.id: computation.name for computation in module.computations}
        self.frames = _stack_frames(module.stack_frame_index)
        entry_name = self.computation_names.get(module.entry_computation_id) or module.entry_computation_name
        sequences = {number: list(each.instruction_ids) for number, each in module.schedule.sequences.items()}
        computations = {}
        for computation in module.computations:
            computations[computation.name] = self._computation(
                computation, sequences.get(computation.id), is_entry=computation.name == entry_name
            )
        if entry_name not in computations:
            raise ProtoContradiction(f"its entry computation {entry_name!r} is missing")
        return HloModule(
            name=module.name,
            program_id=str(module.id % 2**64),  # unsigned, as everything that prints one has it
            source=self.source,
            computations=MappingProxyType(computations),
            entry_name=entry_name,
            is_scheduled=module.HasField("schedule"),
            attributes=MappingProxyType(_module_attributes(module)),
            stack_frames=MappingProxyType(self.frames),
        )

    def _computation(self, computation: Any, sequence: list[int] | None, *, is_entry: bool) -> Computation:
        by_id = {instruction.id: instruction for instruction in computation.instructions}
        names = {number: instruction.name for number, instruction in by_id.items()}
        names.update({number & _LOWER_HALF: name for number, name in names.items()})
        ordered = computation.instructions if sequence is None else [by_id.get(number) for number in sequence]
        if None in ordered or len(ordered) != len(computation.instructions):
            raise ProtoContradiction(f"the schedule of {computation.name!r} is not one of its instructions")
        root_name = _name_of(computation.root_id, names, f"the root of {computation.name!r}")
        instructions = tuple(
            self._instruction(each, names, computation.name, position, is_root=each.name == root_name)
            for position, each in enumerate(ordered)
        )
        return Computation(name=computation.name, instructions=instructions, is_entry=is_entry)

    def _instruction(
        self, instruction: Any, names: Mapping[int, str], computation: str, position: int, *, is_root: bool
    ) -> Instruction:
        name = instruction.name
        return Instruction(
            name=name,
            opcode=instruction.opcode,
            shape=self._shape(instruction.shape),
            operands=_names_of(instruction.operand_ids, names, f"an operand of {name!r}"),
            called=_names_of(
                instruction.called_computation_ids, self.computation_names, f"a computation that {name!r} calls"
            ),
            computation=computation,
            position=position,
            is_root=is_root,
            attributes=attributes_of(
                instruction,
                _names_of(instruction.control_predecessor_ids, names, f"a predecessor of {name!r}"),
                self.module.payloads,
            ),
            argument=_argument(instruction),
            metadata=self._metadata(instruction.metadata) if instruction.HasField("metadata") else NO_METADATA,
        )

    def _shape(self, proto: Any) -> Shape:
        key = proto.SerializeToString()
        shape = self.shapes.get(key)
        if shape is None:
            shape = shape_of(proto)
            self.shapes[key] = shape
        return shape

    def _metadata(self, proto: Any) -> Metadata:
        metadata = Metadata(
            op_name=proto.op_name,
            op_type=proto.op_type,
            source_file=proto.source_file,
            source_line=proto.source_line,
            stack_frame_id=proto.stack_frame_id,
            scheduling_name=proto.scheduling_name,
            deduplicated_name=proto.deduplicated_name,
        )
        return NO_METADATA if metadata == NO_METADATA else locate(metadata, self.frames)


def _argument(instruction: Any) -> str:
    if instruction.opcode == "parameter":
        return str(instruction.parameter_number)
    return literal_text(instruction.literal) if instruction.opcode == "constant" else ""


def _name_of(number: int, names: Mapping[int, str], what: str) -> str:
    name = names.get(number)
    if name is None:
        name = names.get(number & _LOWER_HALF)
    if name is None:
        raise ProtoContradiction(f"{what} is missing (id {number})")
    return name


def _names_of(numbers: Iterable[int], names: Mapping[int, str], what: str) -> tuple[str, ...]:
    return tuple(_name_of(number, names, what) for number in numbers)


def _stack_frames(index: Any) -> dict[int, StackFrame]:
    tables = FrameTables(
        file_names=dict(enumerate(index.file_names, 1)),
        function_names=dict(enumerate(index.function_names, 1)),
        locations={
            number: {
                "file_name_id": location.file_name_id,
                "function_name_id": location.function_name_id,
                "line": location.line,
            }
            for number, location in enumerate(index.file_locations, 1)
        },
        frames={
            number: {"file_location_id": frame.file_location_id, "parent_frame_id": frame.parent_frame_id}
            for number, frame in enumerate(index.stack_frames, 1)
        },
    )
    return tables.stack_frames()


def _module_attributes(module: Any) -> dict[str, str]:
    """What the first line of text would say; settings that are not in the proto are missing."""
    found = {}
    if module.HasField("schedule"):
        found["is_scheduled"] = "true"
    entries = module.input_output_alias.entries
    if entries:
        aliases = ", ".join(
            f"{braced(entry.output_shape_index)}: ({entry.parameter_number}, {braced(entry.parameter_shape_index)}, "
            f"{_ALIAS_KINDS.get(entry.kind, 'may-alias')})"
            for entry in entries
        )
        found["input_output_alias"] = f"{{ {aliases} }}"
    if module.HasField("host_program_shape"):
        parameters = ", ".join(str(shape_of(shape)) for shape in module.host_program_shape.parameters)
        found["entry_computation_layout"] = f"{{({parameters})->{shape_of(module.host_program_shape.result)}}}"
    for name, count in (
        ("replica_count", module.device_assignment.replica_count),
        ("num_partitions", module.device_assignment.computation_count),
    ):
        if count > 1:
            found[name] = str(count)
    if module.frontend_attributes.map:
        found["frontend_attributes"] = frontend_attributes_text(module.frontend_attributes.map)
    return found
