"""Who calls whom in a module, and how often each instruction runs in one run of the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from rocktools.hlo.module import Computation, HloModule, Instruction

_PATHS_AT_MOST = 1000


def count_computation_calls(module: HloModule) -> Mapping[str, int | None]:
    """Computation -> how often it runs in one run of the program; None where that is not known.

    Trip counts of enclosing loops are multiplied, calls from several places are added. It is not known behind a trip
    count that the compiler did not know, in the branches of a conditional, and, in a text that was cut, of what nothing
    that was read calls. The condition of a loop with a known trip count counts 0: XLA:GPU runs such loops without it
    (on other backends it runs once more than the body). What a reduction, a sort or a scatter applies to elements
    counts once for each execution of the instruction that applies it.
    """
    reached, order = _reached_callers_first(module)
    counts: dict[str, int | None] = {}
    for name in order:
        if name == module.entry_name:
            counts[name] = 1
            continue
        total: int | None = 0
        for caller in module.callers.get(name, ()):
            if caller.computation in reached:
                called = _calls_of(caller, name, counts.get(caller.computation))
                total = None if total is None or called is None else total + called
        counts[name] = total
    # Never called in a whole module: dead code. In one that was cut, the caller may be in the missing part.
    unreached = 0 if module.is_complete and module.entry is not None else None
    for name in module.computations:
        counts.setdefault(name, None if name in reached else unreached)
    return MappingProxyType(counts)


def count_calls(module: HloModule) -> Mapping[str, int | None]:
    """Instruction -> how often it runs in one run of the program, as `count_computation_calls` says of where it is."""
    counts = count_computation_calls(module)
    return MappingProxyType({each.name: counts.get(each.computation) for each in module.instructions.values()})


def find_call_paths(module: HloModule, computation: str) -> list[tuple[Instruction, ...]]:
    """The ways from the entry to a computation: the calling instructions, outermost first.

    Returns:
        [()] for the entry and for what nothing calls; at most a thousand ways.
    """
    found: list[tuple[Instruction, ...]] = []
    waiting: list[tuple[str, tuple[Instruction, ...]]] = [(computation, ())]
    while waiting and len(found) < _PATHS_AT_MOST:
        name, path = waiting.pop()
        on_path = {caller.computation for caller in path}
        callers = [each for each in module.callers.get(name, ()) if each.computation not in on_path]
        if not callers or name == module.entry_name:
            found.append(path)
        waiting += [(caller.computation, (caller, *path)) for caller in reversed(callers)]
    return found


def find_enclosing_loops(module: HloModule, instruction: Instruction) -> tuple[Instruction, ...]:
    """The whiles in whose bodies or conditions it is, outermost first; where it is called from several places, those of
    the first."""
    path = find_call_paths(module, instruction.computation)[0]
    return tuple(caller for caller in path if caller.opcode == "while")


def find_fused_computation(module: HloModule, instruction: Instruction) -> Computation | None:
    """What a fusion computes; None for what is no fusion, and where the text was cut before it."""
    if instruction.opcode != "fusion" or not instruction.called:
        return None
    return module.computations.get(instruction.called[0])


def walk_fused(module: HloModule, instruction: Instruction) -> Iterator[Instruction]:
    """Everything in a fusion, fusions in it and what is in those, too; parameters included."""
    waiting = [instruction]
    seen: set[str] = set()
    while waiting:
        computation = find_fused_computation(module, waiting.pop())
        if computation is not None and computation.name not in seen:
            seen.add(computation.name)
            yield from computation.instructions
            waiting += [inner for inner in reversed(computation.instructions) if inner.opcode == "fusion"]


def _calls_of(caller: Instruction, computation: str, count: int | None) -> int | None:
    """How often `caller`, which runs `count` times, calls a computation."""
    if count == 0:
        return 0
    if caller.opcode == "conditional" or count is None:
        return None
    times = caller.called.count(computation)
    if caller.opcode != "while":
        return count * times
    trips_count = caller.known_trip_count
    if trips_count is None:
        return None
    return count * trips_count if computation == caller.called[0] else 0


def _reached_callers_first(module: HloModule) -> tuple[set[str], list[str]]:
    """What the entry calls, directly or not; and the same in order, each behind all its callers.

    What calls itself in a circle, as in a damaged module, is missing in the order.
    """
    if module.entry is None:
        return set(), []
    called = {
        name: {each for instruction in computation.instructions for each in instruction.called}
        for name, computation in module.computations.items()
    }
    reached = {module.entry.name}
    waiting = [module.entry.name]
    while waiting:
        new = {name for name in called[waiting.pop()] if name in module.computations} - reached
        reached |= new
        waiting += new
    callers_count = dict.fromkeys(reached, 0)
    for name in reached:
        for inner in called[name] & reached:
            callers_count[inner] += 1
    ready = [name for name in reached if not callers_count[name]]
    order = []
    while ready:
        name = ready.pop()
        order.append(name)
        for inner in called[name] & reached:
            callers_count[inner] -= 1
            if not callers_count[inner]:
                ready.append(inner)
    return reached, order
