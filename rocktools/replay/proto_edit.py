"""A program's proto and one of its instructions -> a program of parameters and that instruction, unchanged.

Whatever decides which code XLA emits is kept to the byte: name, backend_config, called computations, shapes with
their layouts, fields that are not known here. Two things are added: a schedule, with which XLA:GPU skips every pass
(`GpuCompiler::RunHloPassesIfNeeded`), and aliases of results and parameters that shared a buffer in the job. Left out
is what names other parts of the program: control predecessors, shardings, original values, and stack frames.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rocktools.errors import CannotExtract, DamagedFile
from rocktools.hlo.proto_fields import hlo_messages
from rocktools.replay.buffer_slices import SharedBuffer

_MAY_ALIAS = 1
# Constants that XLA folds into code are small: larger ones live in memory and may as well be parameters.
_CONSTANT_ELEMENTS_AT_MOST = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgramProto:
    """The proto of a program, and its parts by name.

    Attributes:
        data: the HloProto or HloModuleProto as it was read.
        module: HloModuleProto.
        instructions: by name.
        computations: by id.
        owners: instruction -> the id of the computation it is in.
        fused: ids of computations that fusions call: they are never scheduled.
    """

    data: bytes
    module: Any
    instructions: Mapping[str, Any]
    computations: Mapping[int, Any]
    owners: Mapping[str, int]
    fused: frozenset[int]

    def names_by_id(self) -> dict[int, str]:
        return {instruction.id: name for name, instruction in self.instructions.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayParameter:
    """A parameter of a one-instruction program.

    Attributes:
        name: in the new program.
        origin: the instruction of the job that made it.
        operands: which operands of the instruction it is.
    """

    name: str
    origin: str
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneInstructionProgram:
    """A program of one instruction.

    Attributes:
        data: serialised HloModuleProto.
        parameters: in order.
        constants: operands of the instruction that stayed constants, by number.
        aliases: (index into the results, number of the parameter) that share a buffer.
    """

    data: bytes
    parameters: tuple[ReplayParameter, ...]
    constants: tuple[int, ...]
    aliases: tuple[tuple[tuple[int, ...], int], ...]


def parse_program_proto(data: bytes, source: str) -> ProgramProto:
    """The program of a serialised HloProto or HloModuleProto.

    Raises:
        DamagedFile: the bytes are neither.
    """
    from google.protobuf.message import DecodeError

    for name in ("HloProto", "Module"):
        message = hlo_messages()[name]()
        try:
            message.ParseFromString(data)
        except (DecodeError, RuntimeError):
            continue
        module = message.hlo_module if name == "HloProto" else message
        if module.computations and module.name:
            return ProgramProto(
                data=data,
                module=module,
                instructions={each.name: each for one in module.computations for each in one.instructions},
                computations={each.id: each for each in module.computations},
                owners={each.name: one.id for one in module.computations for each in one.instructions},
                fused=frozenset(
                    number
                    for one in module.computations
                    for each in one.instructions
                    if each.opcode == "fusion"
                    for number in each.called_computation_ids
                ),
            )
    raise DamagedFile("hlo-proto-damaged", "the bytes are no HLO proto", where=source)


def build_one_instruction_program(
    program: ProgramProto,
    instruction_name: str,
    *,
    done_name: str | None = None,
    kernel_name: str | None = None,
    shared: Sequence[SharedBuffer] = (),
) -> OneInstructionProgram:
    """The program of one instruction, scheduled, with the job's aliases.

    Args:
        program: it is from.
        instruction_name: which.
        done_name: the instruction that waits for it, where it starts something; that becomes the result.
        kernel_name: what the instruction is called in the new program; None leaves its name.
        shared: outputs that lie in the buffers of operands.

    Raises:
        CannotExtract: the proto has no such instruction.
    """
    original = program.instructions.get(instruction_name)
    if original is None:
        raise CannotExtract("instruction-missing", f"the proto of the program has no instruction {instruction_name!r}")
    building = _Building(program=program, original=original)
    operands = building.add_operands()
    root = building.add_instruction(original, operands.ids, kernel_name)
    if done_name is not None:
        root = building.add_instruction(program.instructions[done_name], [root.id], None)
    aliases = tuple(
        (each.output_index, operands.numbers[each.operand]) for each in shared if each.operand in operands.numbers
    )
    module = building.finish(root, operands.parameters, aliases, f"replay_{kernel_name or instruction_name}")
    return OneInstructionProgram(
        data=module.SerializeToString(),
        parameters=tuple(operands.parameters),
        constants=tuple(operands.constants),
        aliases=aliases,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Operands:
    """Ids of the operands, and which of them are parameters."""

    ids: list[int]
    parameters: list[ReplayParameter]
    constants: list[int]
    numbers: dict[int, int]


class _Building:
    """A new entry computation, being filled; ids of its instructions have its own id in the upper half."""

    def __init__(self, *, program: ProgramProto, original: Any) -> None:
        self._program = program
        self._original = original
        self._messages = hlo_messages()
        self._entry = self._messages["Computation"](name="main", id=max(program.computations) + 1)

    def add_operands(self) -> _Operands:
        names = _names_of_operands(self._program, self._original)
        found = _Operands(ids=[], parameters=[], constants=[], numbers={})
        ids: dict[str, int] = {}
        for name in dict.fromkeys(names):
            operand = self._program.instructions[name]
            places = tuple(place for place, each in enumerate(names) if each == name)
            if operand.opcode == "constant" and _is_small(operand.shape):
                ids[name] = self._add_constant(operand)
                found.constants.extend(places)
                continue
            number = len(found.parameters)
            parameter = ReplayParameter(name=f"p{number}.{name}", origin=name, operands=places)
            ids[name] = self._add_parameter(operand, parameter.name, number)
            found.parameters.append(parameter)
            found.numbers.update(dict.fromkeys(places, number))
        found.ids.extend(ids[name] for name in names)
        return found

    def _next_id(self) -> int:
        number: int = self._entry.id << 32 | (len(self._entry.instructions) + 1)
        return number

    def _add_parameter(self, operand: Any, name: str, number: int) -> int:
        made = self._messages["Instruction"](
            name=name, opcode="parameter", shape=operand.shape, parameter_number=number, id=self._next_id()
        )
        self._entry.instructions.append(made)
        return int(made.id)

    def _add_constant(self, operand: Any) -> int:
        made = self._messages["Instruction"](
            name=operand.name, opcode="constant", shape=operand.shape, literal=operand.literal, id=self._next_id()
        )
        self._entry.instructions.append(made)
        return int(made.id)

    def add_instruction(self, original: Any, operand_ids: Sequence[int], name: str | None) -> Any:
        made = self._messages["Instruction"]()
        made.CopyFrom(original)
        _forget_surroundings(made)
        made.ClearField("sharding")
        made.id = self._next_id()
        del made.operand_ids[:]
        made.operand_ids.extend(operand_ids)
        if name is not None:
            made.name = name
        self._entry.instructions.append(made)
        return self._entry.instructions[-1]

    def finish(
        self,
        root: Any,
        parameters: Sequence[ReplayParameter],
        aliases: Sequence[tuple[tuple[int, ...], int]],
        name: str,
    ) -> Any:
        shapes = [each.shape for each in self._entry.instructions if each.opcode == "parameter"]
        signature = self._messages["ProgramShape"](
            parameters=shapes, result=root.shape, parameter_names=[each.name for each in parameters]
        )
        self._entry.root_id = root.id
        self._entry.program_shape.CopyFrom(signature)
        module = self._messages["Module"](name=name, entry_computation_name="main", host_program_shape=signature, id=1)
        module.entry_computation_id = self._entry.id
        module.payloads.extend(self._program.module.payloads)
        kept = set(self._closure())
        # Callees first, as the deserialiser wants them: that is the order of the original.
        for computation in self._program.module.computations:
            if computation.id in kept:
                added = module.computations.add()
                added.CopyFrom(computation)
                for instruction in added.instructions:
                    _forget_surroundings(instruction)
        module.computations.append(self._entry)
        self._add_schedule(module, kept)
        for index, number in aliases:
            entry = module.input_output_alias.entries.add(parameter_number=number, kind=_MAY_ALIAS)
            entry.output_shape_index.extend(index)
        return module

    def _closure(self) -> Iterator[int]:
        waiting = list(self._original.called_computation_ids)
        for each in self._entry.instructions:
            waiting.extend(each.called_computation_ids)
        seen: set[int] = set()
        while waiting:
            number = waiting.pop()
            if number in seen or number not in self._program.computations:
                continue
            seen.add(number)
            yield number
            for instruction in self._program.computations[number].instructions:
                waiting.extend(instruction.called_computation_ids)

    def _add_schedule(self, module: Any, kept: set[int]) -> None:
        """Every computation but fused ones is scheduled: the entry, reducers, comparators, what a start wraps."""
        sequences = module.schedule.sequences
        sequences[self._entry.id].instruction_ids.extend(each.id for each in self._entry.instructions)
        for number in sorted(kept - self._program.fused):
            theirs = self._program.module.schedule.sequences
            if number in theirs:
                sequences[number].CopyFrom(theirs[number])
            else:
                sequences[number].instruction_ids.extend(_operands_first(self._program.computations[number]))


def _forget_surroundings(instruction: Any) -> None:
    for name in ("control_predecessor_ids", "original_value"):
        instruction.ClearField(name)
    if instruction.HasField("metadata"):
        instruction.metadata.ClearField("stack_frame_id")


def _names_of_operands(program: ProgramProto, instruction: Any) -> list[str]:
    """Ids of operands are those of the module, or the lower halves of those (XLA of 2025 on)."""
    computation = program.computations[program.owners[instruction.name]]
    names = {each.id: each.name for each in computation.instructions}
    lower = {each.id & 0xFFFFFFFF: each.name for each in computation.instructions}
    return [names.get(number) or lower[number & 0xFFFFFFFF] for number in instruction.operand_ids]


def _operands_first(computation: Any) -> list[int]:
    """Ids of its instructions, each behind its operands."""
    by_id = {each.id: each for each in computation.instructions}
    lower = {each.id & 0xFFFFFFFF: each.id for each in computation.instructions}
    done: dict[int, None] = {}
    for start in by_id:
        waiting = [(start, False)]
        while waiting:
            number, is_ready = waiting.pop()
            if number in done:
                continue
            if is_ready:
                done[number] = None
                continue
            waiting.append((number, True))
            ids = [each if each in by_id else lower[each & 0xFFFFFFFF] for each in by_id[number].operand_ids]
            waiting.extend((each, False) for each in reversed(ids))
    return list(done)


def _is_small(shape: Any) -> bool:
    return not shape.tuple_shapes and math.prod(shape.dimensions) <= _CONSTANT_ELEMENTS_AT_MOST


def parse_text_program(text: str, source: str) -> bytes:
    """The serialised HloModuleProto of HLO text, by XLA's own parser in jaxlib.

    Raises:
        MissingExtra: jaxlib is not installed.
        DamagedFile: XLA's parser refuses the text.
    """
    from rocktools.extras import require_extra

    client = require_extra("jaxlib.xla_client", "jax", "a replay of a program that is text")
    parser = getattr(client, "hlo", None) or client._xla  # jaxlib before 0.10 has it in `_xla`
    try:
        data: bytes = parser.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    except Exception as error:  # the class differs with the version of jaxlib
        first = str(error).strip().partition("\n")[0]
        raise DamagedFile("hlo-text-refused", f"XLA's parser refuses the text: {first}", where=source) from error
    # XLA numbers the modules of a process; without that number one text always gives the same bytes.
    module = hlo_messages()["Module"]()
    module.ParseFromString(data)
    module.ClearField("id")
    numberless: bytes = module.SerializeToString(deterministic=True)
    return numberless
