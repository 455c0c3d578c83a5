"""An instruction of a program -> everything a replay of it consists of, in memory: program, inputs, texts, description.

Nothing is compiled here; nothing is written. What the job launches is taken from its thunk sequence, where there is
one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rocktools.errors import CannotExtract
from rocktools.findings import Finding, Severity
from rocktools.hlo.call_graph import walk_fused
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.hlo.thunks import Thunk
from rocktools.replay.buffer_slices import (
    Slices,
    find_shared_buffers,
    guess_shared_buffers,
    parse_buffer_slices,
)
from rocktools.replay.inputs import ReplayInput, build_inputs
from rocktools.replay.proto_edit import (
    OneInstructionProgram,
    ProgramProto,
    build_one_instruction_program,
    parse_program_proto,
)
from rocktools.replay.readable import ReadableProgram, render_readable
from rocktools.replay.readable_literals import NotTranslatable
from rocktools.replay.refusals import Classification, ReplayKind, classify_instruction, find_done
from rocktools.replay.select import Selection, check_selection

PROGRAM_FILE = "replay.hlo.pb"
SPEC_SCHEMA = "rocktools.replay/1"
_LEFT_OUT = "{...}"
_COPY_THUNKS = frozenset({"kCopy", "kDynamicSliceCopy", "kMemcpy", "kDynamicMemcpy"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobProgram:
    """A program of a job, ready to take instructions out of.

    Attributes:
        program: module and thunks.
        proto: the same module as a proto.
        slices: where its values lie; {} where nobody knows.
        path: the file it is from, as the user knows it.
        versions: of jax and the plugin that made it, by package; {} where not known.
        xla_flags: that the job ran with; None where not known.
    """

    program: CompiledProgram
    proto: ProgramProto
    slices: Slices
    path: str
    versions: Mapping[str, str] = field(default_factory=dict)
    xla_flags: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """One instruction, ready to be written as a bundle.

    Attributes:
        selection: the instruction, and who shares its kernel.
        classification: what kind of replay it is.
        program: of that instruction.
        inputs: of the program.
        readable: as lax; None where `refusal` says why not.
        refusal: why there is no readable form; "" where there is one.
        warnings: what a replay cannot know.
        findings: about the selection.
        spec: spec.json.
    """

    selection: Selection
    classification: Classification
    program: OneInstructionProgram
    inputs: tuple[ReplayInput, ...]
    readable: ReadableProgram | None
    refusal: str
    warnings: tuple[str, ...]
    findings: tuple[Finding, ...]
    spec: Mapping[str, Any]


def build_job_program(
    program: CompiledProgram,
    data: bytes,
    path: str,
    *,
    versions: Mapping[str, str] | None = None,
    xla_flags: str | None = None,
) -> JobProgram:
    """A program of a job.

    Args:
        program: module and thunks.
        data: a serialised HloProto (or HloModuleProto) of the same module.
        path: where it is from.
        versions: of the packages that made it.
        xla_flags: that the job ran with.

    Raises:
        DamagedFile: the bytes are no HLO proto.
    """
    proto = parse_program_proto(data, path)
    return JobProgram(
        program=program,
        proto=proto,
        slices=parse_buffer_slices(data, proto.names_by_id()),
        path=path,
        versions=dict(versions or {}),
        xla_flags=xla_flags,
    )


def build_replay(
    job: JobProgram, selection: Selection, *, rocktools_version: str, modules: Sequence[str] = ()
) -> Replay:
    """The replay of one instruction.

    Args:
        job: the program it is from.
        selection: which instruction.
        rocktools_version: for spec.json.
        modules: Python modules that register the target of a custom call, as the user says.

    Raises:
        CannotExtract: it has none; what to extract instead is said.
    """
    module, instruction = job.program.module, selection.instruction
    classification = _classify(module, selection, modules)
    done = find_done(module, instruction) if classification.has_done else None
    if classification.has_done and done is None:
        what = f"{instruction.name} ({instruction.opcode}) has no replay: what waits for it is missing"
        raise CannotExtract("done-missing", what, hint="name the whole program: *.hlo.pb of the dump")
    if job.slices:
        shared = find_shared_buffers(module, instruction, job.slices, done=done)
    else:
        shared = guess_shared_buffers(module, instruction)
    program = build_one_instruction_program(
        job.proto,
        instruction.name,
        done_name=None if done is None else done.name,
        kernel_name=_program_name(selection),
        shared=shared,
    )
    alone = parse_hlo_proto(program.data, f"replay of {instruction.name}")
    inputs = build_inputs(alone, program.parameters, module)
    readable, refusal = _readable(job, program, alone, classification)
    warnings = (
        *classification.warnings,
        *_input_warnings(inputs),
        *_alias_warnings(job, instruction),
        *_constant_warnings(job, instruction),
    )
    spec = _spec(job, selection, classification, program, inputs, warnings, alone, readable, refusal)
    return Replay(
        selection=selection,
        classification=classification,
        program=program,
        inputs=inputs,
        readable=readable,
        refusal=refusal,
        warnings=warnings,
        findings=(*check_selection(selection, module), *_warning_findings(instruction, warnings)),
        spec={"schema": SPEC_SCHEMA, "rocktools_version": rocktools_version, **spec},
    )


def _program_name(selection: Selection) -> str | None:
    """The job's kernel, so that profilers show the same name; None leaves the instruction its own."""
    return selection.kernel_name or None


def _classify(module: HloModule, selection: Selection, modules: Sequence[str]) -> Classification:
    found = classify_instruction(module, selection.instruction, modules)
    kinds = {thunk.kind for thunk in selection.thunks}
    if kinds and found.kind in (ReplayKind.KERNEL, ReplayKind.COPY):
        return replace(found, kind=ReplayKind.COPY if kinds <= _COPY_THUNKS else ReplayKind.KERNEL)
    return found


def _readable(
    job: JobProgram, program: OneInstructionProgram, alone: HloModule, classification: Classification
) -> tuple[ReadableProgram | None, str]:
    proto = parse_program_proto(program.data, "replay")
    literals = {name: each.literal for name, each in proto.instructions.items() if each.opcode == "constant"}
    try:
        found = render_readable(alone, literals, origins=job.program.module, devices_count=classification.devices_count)
    except NotTranslatable as reason:
        return None, str(reason)
    return found, ""


def _input_warnings(inputs: Sequence[ReplayInput]) -> list[str]:
    names = [each.name for each in inputs if each.is_data_dependent]
    if not names:
        return []
    return [f"how fast it is hangs on the values of {', '.join(names)}: --inputs DIR takes captured ones"]


def _alias_warnings(job: JobProgram, instruction: Instruction) -> list[str]:
    if job.slices or instruction.opcode != "fusion":
        return []
    return [
        "the source has no buffer assignment, so that which results overwrite which operands is inferred: the kernel "
        "may have one argument more than the job's; *.hlo.pb of the dump has it"
    ]


def _constant_warnings(job: JobProgram, instruction: Instruction) -> list[str]:
    """Text leaves the values of large constants out, and XLA's parser makes some up."""
    module = job.program.module
    operands = (module.instructions[name] for name in instruction.operands if name in module.instructions)
    inner = (*walk_fused(module, instruction), *operands)
    left_out = [each.name for each in inner if each.argument == _LEFT_OUT and each.line_number is not None]
    if not left_out:
        return []
    return [f"the text leaves out the values of {', '.join(left_out)}: others are used; *.hlo.pb of the dump has them"]


def _warning_findings(instruction: Instruction, warnings: Sequence[str]) -> list[Finding]:
    return [
        Finding(rule="replay-limits", severity=Severity.NOTE, where=instruction.name, message=warning)
        for warning in warnings
    ]


def _spec(
    job: JobProgram,
    selection: Selection,
    classification: Classification,
    program: OneInstructionProgram,
    inputs: Sequence[ReplayInput],
    warnings: Sequence[str],
    alone: HloModule,
    readable: ReadableProgram | None,
    refusal: str,
) -> dict[str, Any]:
    instruction = selection.instruction
    registration = classification.registration
    entry = alone.entry
    assert entry is not None
    assert entry.root is not None
    return {
        "instruction": instruction.name,
        "opcode": instruction.opcode,
        "kernel": selection.kernel_name or None,
        "kind": str(classification.kind),
        "origin": _origin(job, instruction),
        "program": {"file": PROGRAM_FILE, "sha256": hashlib.sha256(program.data).hexdigest(), "module": alone.name},
        "devices_count": classification.devices_count,
        "registration": None
        if registration is None
        else {"target": registration.target, "module": registration.module, "package": registration.package},
        "launches": [_launch(thunk) for thunk in selection.thunks],
        "is_kernel_known": selection.is_sure,
        "twins": list(selection.twins),
        "seed": instruction.name,
        "inputs": [each.as_dict() for each in inputs],
        "constant_operands": list(program.constants),
        "outputs": [{"shape": str(leaf), "dtype": leaf.dtype} for leaf in entry.root.shape.leaves()],
        "aliases": {
            "origin": "buffer-assignment" if job.slices else "inferred",
            "pairs": [{"output_index": list(index), "input": number} for index, number in program.aliases],
        },
        "readable": {"file": None if readable is None else "replay_jax.py", "refusal": refusal or None},
        "warnings": list(warnings),
    }


def _origin(job: JobProgram, instruction: Instruction) -> dict[str, Any]:
    module, metadata = job.program.module, instruction.metadata
    return {
        "module": module.name,
        "program_id": module.program_id,
        "path": job.path,
        "sha256": hashlib.sha256(job.proto.data).hexdigest(),
        "op_name": metadata.op_name,
        "source_file": metadata.source_file,
        "source_line": metadata.source_line,
        "versions": dict(job.versions),
        "xla_flags": job.xla_flags,
    }


def _launch(thunk: Thunk) -> dict[str, Any]:
    return {
        "kind": thunk.kind,
        "kernel": thunk.kernel or None,
        "grid_workgroups": list(thunk.grid_workgroups) or None,
        "workgroup_workitems": list(thunk.workgroup_workitems) or None,
        "lds_bytes": thunk.lds_bytes,
    }
