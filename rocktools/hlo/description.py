"""One instruction of a compiled program -> text for people: what it is, whence it comes, what it costs, who uses it.

Everything said here follows from the program alone; amounts are estimates of the compiler's shapes, and say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rocktools.hlo.call_graph import count_calls
from rocktools.hlo.cost import Cost, estimate_cost
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.printing import render_computation, render_instruction, render_stack
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.scopes import inner_phases, op_name_of, parse_op_name
from rocktools.hlo.thunks import Thunk
from rocktools.units import count_noun, format_count, format_si

_LISTED_USERS = 12
_ORIGINS = {
    "instruction": "its own op_name",
    "fused_root": "the op_name of the root of its fusion",
    "fused_inner": "an op_name inside its fusion",
}


def render_description(program: CompiledProgram, instruction: Instruction) -> str:
    """Everything that the program says about an instruction, the computations it wraps included."""
    module = program.module
    sections = [
        [render_instruction(instruction)],
        list(_place(program, instruction)),
        list(_origin(module, instruction)),
        list(_cost(module, instruction)),
        _named("operands", (module.instructions[name] for name in instruction.operands if name in module.instructions)),
        _named("users", module.users.get(instruction.name, ())),
        [render_computation(module.computations[name]) for name in instruction.called if name in module.computations],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def render_callers(module: HloModule, name: str) -> str:
    """The way from an instruction or a computation up to the entry, one step a line; every way where there are several.

    Args:
        name: of an instruction, or of a computation.
    """
    if name in module.instructions:
        instruction = module.instructions[name]
        lines = [f"%{name} = {instruction.opcode} in %{instruction.computation}"]
        return "\n".join([*lines, *_ways_up(module, instruction.computation, 1, frozenset())])
    return "\n".join([f"%{name}", *_ways_up(module, name, 1, frozenset())])


def _ways_up(module: HloModule, computation: str, depth: int, passed: frozenset[str]) -> Iterator[str]:
    indent = "  " * depth
    if computation == module.entry_name:
        yield f"{indent}%{computation} is the entry of {module.name}"
        return
    if computation in passed:
        yield f"{indent}%{computation} calls itself: the program is damaged"
        return
    callers = module.callers.get(computation, ())
    if not callers:
        yield f"{indent}nothing calls %{computation}" + ("" if module.is_complete else " in the part that was read")
    for caller in callers:
        yield f"{indent}{_role(caller, computation)} %{caller.name} in %{caller.computation}"
        yield from _ways_up(module, caller.computation, depth + 1, passed | {computation})


def _role(caller: Instruction, computation: str) -> str:
    """What a computation is to its caller."""
    if caller.opcode == "while":
        if computation != caller.called[0]:
            return "condition of while"
        trips = caller.known_trip_count
        return "body of while" if trips is None else f"body of while ({count_noun(trips, 'trip')})"
    if caller.opcode == "conditional":
        return f"branch {caller.called.index(computation)} of conditional"
    return f"called by {caller.opcode}"


def _place(program: CompiledProgram, instruction: Instruction) -> Iterator[str]:
    module = program.module
    order = "in order of launch" if module.is_scheduled else "in order of the text"
    yield f"in %{instruction.computation}, position {instruction.position} {order}"
    calls = count_calls(module).get(instruction.name)
    yield (
        "executions in one run of the program: unknown (a trip count is unknown, or a branch decides)"
        if calls is None
        else f"executions in one run of the program: {format_count(calls)}"
    )
    if program.thunks is not None:
        yield from (_launch(thunk) for thunk in program.thunks.walk() if thunk.instruction == instruction.name)


def _launch(thunk: Thunk) -> str:
    text = f"thunk {thunk.thunk_id}: {thunk.kind}"
    if thunk.kernel:
        grid, block = ("x".join(map(str, sizes)) for sizes in (thunk.grid_workgroups, thunk.workgroup_workitems))
        text += f", kernel {thunk.kernel}, {grid or '?'} workgroups of {block or '?'} work-items"
    return text


def _origin(module: HloModule, instruction: Instruction) -> Iterator[str]:
    found = op_name_of(module, instruction)
    if found is None:
        yield "no op_name, here or inside"
    else:
        path = parse_op_name(found.op_name)
        phase = path.phase or "none by its path"
        yield f"scope: {path.scope or '(none)'}; phase: {phase}; by {_ORIGINS[found.origin]}"
        phases = {str(each) for each in inner_phases(module, instruction) if each is not None}
        if len(phases) > 1:
            yield f"mixed: its fusion holds instructions of {', '.join(sorted(phases))}"
    stack = render_stack(module, instruction)
    if stack:
        yield f"source, innermost call first:\n{stack}"


def _cost(module: HloModule, instruction: Instruction) -> Iterator[str]:
    cost = estimate_cost(module, instruction)
    yield f"one execution, estimated from shapes: {_amounts(cost)}"
    if cost.reason:
        yield f"  unknown: {cost.reason}"


def _amounts(cost: Cost) -> str:
    amounts = [
        f"{'?' if value is None else format_si(value, unit)} {what}"
        for value, unit, what in (
            (cost.compute_flop, "FLOP", "computed"),
            (cost.read_bytes, "B", "read"),
            (cost.written_bytes, "B", "written"),
        )
    ]
    if cost.transcendental_count:
        amounts.insert(1, f"{format_count(cost.transcendental_count)} transcendental functions")
    if cost.payload_bytes is not None:
        amounts.append(f"{format_si(cost.payload_bytes, 'B')} of payload per device")
    return ", ".join(amounts)


def _named(title: str, instructions: Iterable[Instruction]) -> list[str]:
    lines = [f"  %{each.name} = {each.shape} {each.opcode}" for each in instructions]
    if not lines:
        return []
    more = [f"  and {len(lines) - _LISTED_USERS} more"] if len(lines) > _LISTED_USERS else []
    return [f"{title}:", *lines[:_LISTED_USERS], *more]
