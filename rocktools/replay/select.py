"""A name of a kernel or an instruction -> the instruction to take out, what launches it, and who shares its kernel.

XLA compiles equal fusions once, so that one kernel has several instructions (twins): the first of them in the schedule
gave the kernel its name. The thunk sequence says which; without it, names and equal computations do, less surely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocktools.correlate.names import (
    KernelNameIndex,
    NameRule,
    build_name_index,
    candidates_by_name,
    find_launched,
    strip_symbol,
)
from rocktools.errors import UsageError, nearest_names
from rocktools.findings import Finding, Severity
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.thunks import Thunk, ThunkSequence
from rocktools.units import count_noun

_LISTED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """An instruction of a program, chosen to be replayed.

    Attributes:
        instruction: which.
        kernel_name: symbol of the kernel that the job launches for it; "" where it is not known, or none is launched.
        thunks: what the job launches for it, in order; () where the program has no thunk sequence.
        twins: other instructions that launch the same kernel, in the order of the schedule.
        is_sure: whether the thunk sequence says so; else names and equal computations do.
    """

    instruction: Instruction
    kernel_name: str = ""
    thunks: tuple[Thunk, ...] = ()
    twins: tuple[str, ...] = ()
    is_sure: bool = False


def select_instruction(program: CompiledProgram, name: str) -> Selection:
    """The instruction of that name.

    Raises:
        UsageError: the program has none.
    """
    module = program.module
    instruction = module.instructions.get(name.removeprefix("%"))
    if instruction is None:
        near = nearest_names(name, [each.name for each in find_launched(module)])
        raise UsageError(
            "unknown-instruction",
            f"the program {module.name} has no instruction {name!r}",
            where=module.source,
            hint=", ".join(near) if near else "rocktools hlo list names them",
        )
    return _selected(program, instruction)


def select_kernel(program: CompiledProgram, kernel_name: str) -> Selection:
    """The first instruction in the schedule that launches a kernel; the others are its twins.

    Args:
        kernel_name: as profilers show it, with or without `.kd`.

    Raises:
        UsageError: nothing in the program launches it, or several kernels may be meant.
    """
    module = program.module
    symbol = strip_symbol(kernel_name)
    if program.thunks is not None:
        launching = _instructions_of(program.thunks).get(symbol, ())
        found = [module.instructions[name] for name in launching if name in module.instructions]
        if not found:  # the sequence has every kernel of the program: a name that is like one is another one's
            raise _unknown_kernel(program, kernel_name)
        return _selected(program, found[0])
    match = candidates_by_name(symbol, build_name_index(module))
    if match.rule is NameRule.EXACT or match.namesakes_count == 1:
        first, *others = match.candidates
        return Selection(instruction=module.instructions[first], kernel_name=symbol, twins=tuple(others))
    if match.candidates:
        listed = ", ".join(match.candidates[:_LISTED])
        raise UsageError(
            "several-instructions",
            f"{len(match.candidates)} instructions may launch {kernel_name!r}: {listed}",
            where=module.source,
            hint=f"--instruction {match.candidates[0]}",
        )
    raise _unknown_kernel(program, kernel_name)


def select_all(program: CompiledProgram) -> tuple[Selection, ...]:
    """Every instruction that may launch something, or start it, in the order of the source."""
    module = program.module
    started = {name for each in module.instructions.values() if each.opcode == "async-start" for name in each.called}
    launched = {each.name for each in find_launched(module) if each.computation not in started}
    index = build_name_index(module) if program.thunks is None else None
    return tuple(
        _selected(program, each, index)
        for each in module.instructions.values()
        if each.name in launched or each.opcode == "async-start"
    )


def check_selection(selection: Selection, module: HloModule) -> list[Finding]:
    """What the user ought to know about who shares the kernel, and how sure that is."""
    findings = []
    instruction = selection.instruction
    if selection.twins:
        listed = ", ".join(selection.twins[:_LISTED]) + (", ..." if len(selection.twins) > _LISTED else "")
        what = f"kernel {selection.kernel_name}" if selection.kernel_name else "kernel"
        findings.append(
            Finding(
                rule="kernel-has-twins",
                severity=Severity.NOTE,
                where=instruction.name,
                message=f"its {what} is launched for {count_noun(len(selection.twins), 'instruction')} more: {listed}",
                numbers={"twins_count": len(selection.twins)},
                advice="equal code, other operands: --instruction NAME takes another one",
            )
        )
    if not selection.is_sure and instruction.opcode == "fusion":
        findings.append(
            Finding(
                rule="kernel-name-not-known",
                severity=Severity.NOTE,
                where=module.source,
                message=f"there is no thunk sequence, so that the name of {instruction.name}'s kernel is inferred: "
                f"{selection.kernel_name or 'its own'}",
                advice="extract from the dump (--xla_dump_to), which has thunk_sequence.txt beside the program",
            )
        )
    return findings


def _unknown_kernel(program: CompiledProgram, kernel_name: str) -> UsageError:
    known = [] if program.thunks is None else list(_instructions_of(program.thunks))
    known += [each.name for each in find_launched(program.module)]
    near = nearest_names(kernel_name, known)
    return UsageError(
        "unknown-kernel",
        f"nothing in {program.module.name} launches a kernel {kernel_name!r}",
        where=program.module.source,
        hint=", ".join(near) if near else "a library's kernel has no HLO name: --instruction NAME of its custom call",
    )


def _selected(program: CompiledProgram, instruction: Instruction, index: KernelNameIndex | None = None) -> Selection:
    """Without a thunk sequence: equal computations share a kernel, and nobody knows how it was numbered.

    Args:
        index: of the program's names, where it was made already.
    """
    if program.thunks is None:
        found = build_name_index(program.module) if index is None else index
        return Selection(instruction=instruction, twins=found.twins.get(instruction.name, ()))
    thunks = _thunks_of(program, instruction)
    kernels = list(dict.fromkeys(thunk.kernel for thunk in thunks if thunk.kernel))
    kernel = kernels[-1] if len(kernels) == 1 else ""
    twins = [name for name in _instructions_of(program.thunks).get(kernel, ()) if name != instruction.name]
    return Selection(
        instruction=instruction, kernel_name=kernel, thunks=thunks, twins=tuple(twins) if kernel else (), is_sure=True
    )


def _thunks_of(program: CompiledProgram, instruction: Instruction) -> tuple[Thunk, ...]:
    """Those of the instruction, and of what it starts."""
    assert program.thunks is not None
    names = {instruction.name}
    if instruction.opcode == "async-start":
        for called in instruction.called:
            computation = program.module.computations.get(called)
            if computation is not None:
                names.update(each.name for each in computation.instructions)
    return tuple(thunk for thunk in program.thunks.walk() if thunk.instruction in names)


def _instructions_of(thunks: ThunkSequence) -> dict[str, Sequence[str]]:
    """Kernel -> the instructions that launch it, in the order of the sequence."""
    found: dict[str, dict[str, None]] = {}
    for thunk in thunks.walk():
        if thunk.kernel and thunk.instruction:
            found.setdefault(thunk.kernel, {})[thunk.instruction] = None
    return {kernel: tuple(names) for kernel, names in found.items()}
