"""Buffer assignment and program -> how much of it is live when, in program order; the peak, and what is live there.

A value lives from the instruction that makes it to the last one that reads it, in the order of the schedule, bodies of
loops once. What a loop reads from outside lives to its end; what one iteration hands to the next lives through all of
it. Values share addresses where the compiler lets them, so live bytes are a union of addresses, never a sum of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rocktools.hlo.dataflow import Value, ValueSources
from rocktools.hlo.memory_reports import Allocation, AllocationKind, BufferAssignment, BufferValue
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.scopes import op_name_of, parse_op_name
from rocktools.intervals import union_length

_CONTROL = ("while", "call", "conditional")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBuffer:
    """A value that holds memory, and where it comes from.

    Attributes:
        instruction, element: that make it, as in the assignment.
        allocation_number: where it lives.
        kind: of that allocation.
        size_bytes: of the value.
        shape: with layout.
        op_name: of the instruction; None where it has none.
        scope: its named scopes; None where it has no op_name.
    """

    instruction: str
    element: str
    allocation_number: int
    kind: AllocationKind
    size_bytes: int
    shape: str
    op_name: str | None
    scope: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeak:
    """The instant at which most of the temporaries is live.

    Attributes:
        instruction: that runs then.
        computation: it is in.
        live_bytes: addresses of temporaries that are live then.
        held_bytes: those, and all arguments, outputs and constants, which are there all the time.
        reserved_bytes: what is allocated for temporaries; more than `live_bytes` by what lies between live values.
        buffers: live temporaries then, the largest first; of values at one address one.
    """

    instruction: str
    computation: str
    live_bytes: int
    held_bytes: int
    reserved_bytes: int
    buffers: tuple[LiveBuffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """Instructions in the order in which they run.

    Attributes:
        names: by place.
        places: instruction -> place.
        loops: loop -> places of the first and last instruction of its body and condition.
        around: computation -> loops around it, outermost first.
    """

    names: Sequence[str]
    places: Mapping[str, int]
    loops: Mapping[str, tuple[int, int]]
    around: Mapping[str, tuple[str, ...]]


def find_memory_peak(module: HloModule, assignment: BufferAssignment) -> MemoryPeak | None:
    """When most is live; None where the program has no entry, or no temporaries.

    Args:
        module: the program that the assignment is of, scheduled.
    """
    temporaries = [each for each in assignment.allocations if each.kind is AllocationKind.TEMPORARY]
    values = [(each, value) for each in temporaries for value in each.values if not value.is_merged]
    if module.entry is None or not values:
        return None
    order = _run_order(module)
    lives = _lifetimes(module, order)
    wrappers = _wrappers(module)
    found = [(each, value, life) for each, value in values if (life := _life_of(lives, value, wrappers)) is not None]
    if not found:
        return None
    starts = np.array([life[0] for _, _, life in found], dtype=np.int64)
    ends = np.array([life[1] for _, _, life in found], dtype=np.int64)
    base = _bases(temporaries)
    low = np.array([base[each.number] + value.offset_bytes for each, value, _ in found], dtype=np.int64)
    high = low + np.array([value.size_bytes for _, value, _ in found], dtype=np.int64)
    best, live_bytes = 0, -1
    for place in np.unique(starts).tolist():  # what is live only grows where something begins
        is_live = (starts <= place) & (ends >= place)
        length = union_length(low[is_live], high[is_live])
        if length > live_bytes:
            best, live_bytes = place, length
    at_peak = [(each, value) for each, value, life in found if life[0] <= best <= life[1]]
    reserved = sum(each.size_bytes for each in temporaries)
    name = order.names[best]
    return MemoryPeak(
        instruction=name,
        computation=module.instructions[name].computation,
        live_bytes=live_bytes,
        held_bytes=live_bytes + assignment.total_bytes - reserved,
        reserved_bytes=reserved,
        buffers=tuple(list_buffers(module, at_peak)),
    )


def list_largest_buffers(module: HloModule, assignment: BufferAssignment, count: int = 20) -> list[LiveBuffer]:
    """The largest values of all allocations, of those at one address the first; they are not live at one time."""
    values = [(each, value) for each in assignment.allocations for value in each.values if not value.is_merged]
    return list_buffers(module, values)[:count]


def list_buffers(module: HloModule, values: Sequence[tuple[Allocation, BufferValue]]) -> list[LiveBuffer]:
    """The values with their scopes, the largest first; of those at one address only the first that is listed."""
    seen: set[tuple[int, int, int]] = set()
    buffers = []
    for allocation, value in values:
        address = (allocation.number, value.offset_bytes, value.size_bytes)
        if address in seen:
            continue
        seen.add(address)
        instruction = module.instructions.get(value.instruction)
        found = op_name_of(module, instruction) if instruction is not None else None
        buffers.append(
            LiveBuffer(
                instruction=value.instruction,
                element=value.element,
                allocation_number=allocation.number,
                kind=allocation.kind,
                size_bytes=value.size_bytes,
                shape=value.shape,
                op_name=found.op_name if found else None,
                scope=parse_op_name(found.op_name).scope if found else None,
            )
        )
    return sorted(buffers, key=lambda each: (-each.size_bytes, each.instruction, each.element))


def _bases(allocations: Sequence[Allocation]) -> dict[int, int]:
    """A stretch of the address axis of its own for each allocation."""
    bases, end = {}, 0
    for each in allocations:
        bases[each.number] = end
        end += each.size_bytes + 1
    return bases


def _wrappers(module: HloModule) -> dict[str, str]:
    """What an asynchronous start wraps -> the start, which is what runs."""
    found = {}
    for start in module.instructions.values():
        if start.opcode == "async-start":
            for name in start.called:
                computation = module.computations.get(name)
                found.update({inner.name: start.name for inner in (computation.instructions if computation else ())})
    return found


def _life_of(
    lives: Mapping[Value, tuple[int, int]], value: BufferValue, wrappers: Mapping[str, str]
) -> tuple[int, int] | None:
    """The life of a value; who reads a whole tuple, as a `-done` does, reads each element. None: it does not run."""
    maker = wrappers.get(value.instruction, value.instruction)
    first = value.element.strip("{}").partition(",")[0]
    found = [lives[key] for key in ((maker, int(first) if first else None), (maker, None)) if key in lives]
    return (min(life[0] for life in found), max(life[1] for life in found)) if found else None


def _run_order(module: HloModule) -> _Order:
    names: list[str] = []
    loops: dict[str, tuple[int, int]] = {}
    around: dict[str, tuple[str, ...]] = {}

    def walk(computation: str, inside: tuple[str, ...]) -> None:
        if computation in around or computation not in module.computations:
            return
        around[computation] = inside
        for instruction in module.computations[computation].instructions:
            if instruction.opcode in _CONTROL:
                first = len(names)
                deeper = (*inside, instruction.name) if instruction.opcode == "while" else inside
                for called in _called_in_order(instruction):
                    walk(called, deeper)
                loops[instruction.name] = (first, len(names))
            names.append(instruction.name)

    assert module.entry_name is not None
    walk(module.entry_name, ())
    return _Order(names=names, places={name: i for i, name in enumerate(names)}, loops=loops, around=around)


def _called_in_order(instruction: Instruction) -> tuple[str, ...]:
    return tuple(reversed(instruction.called)) if instruction.opcode == "while" else instruction.called


def _lifetimes(module: HloModule, order: _Order) -> dict[Value, tuple[int, int]]:
    """Value -> place where it is made, place where it is read last."""
    sources = ValueSources.of(module)
    lives: dict[Value, tuple[int, int]] = {}
    for name in order.names:
        instruction = module.instructions[name]
        if instruction.opcode in ("tuple", "get-tuple-element", "bitcast", "parameter", *_CONTROL):
            continue
        reads = {value for operand in instruction.operands for value in sources.sources_of(operand, None)}
        for value in reads:
            _extend(lives, value, _last_half(module, name), module, order)
    for name, computation in module.computations.items():
        root = computation.root
        if name not in order.around or root is None:
            continue
        # A result lives to the end of its computation; in a loop the next iteration reads it.
        for value in sources.sources_of(root.name, None):
            _extend(lives, value, root.name, module, order)
    for name in order.names:  # what nobody reads is there while it is made
        for index in (None, *range(len(module.instructions[name].shape.elements))):
            lives.setdefault((name, index), (order.places[name], order.places[name]))
    return lives


def _last_half(module: HloModule, name: str) -> str:
    """The `-done` of a start, until which it reads its operands; any other instruction itself."""
    users = module.users.get(name, ()) if module.instructions[name].opcode.endswith("-start") else ()
    return next((user.name for user in users if user.opcode.endswith("-done")), name)


def _extend(lives: dict[Value, tuple[int, int]], value: Value, reader: str, module: HloModule, order: _Order) -> None:
    maker = value[0]
    if maker not in order.places:
        return
    made, read = order.places[maker], order.places[reader]
    makers = order.around[module.instructions[maker].computation]
    readers = order.around[module.instructions[reader].computation]
    outside = [loop for loop in readers if loop not in makers]
    if outside:  # read by a loop that it is made outside of: every iteration reads it
        read = max(read, order.loops[outside[0]][1])
    shared = [loop for loop in readers if loop in makers]
    first = made
    if read < made and shared:  # handed to the next iteration
        first, read = order.loops[shared[-1]]
    known = lives.get(value, (made, made))
    lives[value] = (min(known[0], first), max(known[1], read))
