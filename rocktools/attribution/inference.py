"""The phase of what lost its name: from the loop around it, and from who makes what it reads and reads what it makes.

The data flow is a guess with a known failure: work between two phases (a copy of a forward result for the backward
pass) is booked under the phase of its operands, even where XLA made it for its users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rocktools.attribution.drafts import Draft
from rocktools.attribution.phases import BookedPhase, earlier_phase, later_phase, phase_of_path
from rocktools.hlo.dataflow import Dataflow
from rocktools.hlo.module import HloModule
from rocktools.hlo.scopes import parse_op_name

_BACKWARD_LOOP = (BookedPhase.REMATERIALIZED, BookedPhase.BACKWARD)
_ROUNDS = 16  # longest chain of nameless instructions that the data flow is followed through


def enclosing_phases(module: HloModule, launched: frozenset[str]) -> dict[str, BookedPhase | None]:
    """Computation -> phase that the name of the loop, call or branch around it says, or of the one around that."""
    found: dict[str, BookedPhase | None] = {}
    for name in launched:
        phase, place, seen = None, name, {name}
        while phase is None:
            caller = next(iter(module.callers.get(place, ())), None)
            if caller is None or caller.computation in seen:
                break
            phase = phase_of_path(parse_op_name(caller.metadata.op_name))
            place = caller.computation
            seen.add(place)
        found[name] = phase
    return found


def look_around(draft: Draft, enclosing: Mapping[str, BookedPhase | None]) -> Draft:
    """The phase of the loop around it, where its own name says none: in a forward loop everything is forward.

    A backward loop holds replayed work too: there the data flow decides between the two.
    """
    phase = enclosing.get(draft.instruction.computation)
    if draft.phase is not None or phase is None or phase in _BACKWARD_LOOP:
        return draft
    return _decide(draft, phase, "enclosing-loop", (), f"phase {phase}: enclosing-loop (its loop is {phase})")


def _decide(draft: Draft, phase: BookedPhase, rule: str, deciders: tuple[str, ...], line: str) -> Draft:
    trail = (*draft.trail, f"{line}; inferred")
    return replace(draft, phase=phase, rule=rule, is_inferred=True, deciders=deciders, trail=trail)


def follow_data(
    drafts: Mapping[str, Draft], flow: Dataflow, enclosing: Mapping[str, BookedPhase | None]
) -> dict[str, Draft]:
    """The phases of what lost its own: of its operands the latest, or, where they say none, of its users the earliest.

    In rounds, each on what the one before knew, so that the order of instructions does not matter. Users are asked
    only when no operand can say more.
    """
    current = dict(drafts)
    waiting = [name for name, draft in current.items() if draft.phase is None]
    for _ in range(_ROUNDS):
        for from_operands in (True, False):
            found = {name: _follow_one(current, name, flow, enclosing, from_operands) for name in waiting}
            new = {name: draft for name, draft in found.items() if draft is not None}
            if new:
                break
        else:
            break
        current.update(new)
        waiting = [name for name in waiting if name not in new]
    for name in waiting:
        phase = enclosing.get(current[name].instruction.computation)
        if phase is not None:
            line = f"phase {phase}: enclosing-loop (its loop is {phase}, and no neighbour says more)"
            current[name] = _decide(current[name], phase, "enclosing-loop", (), line)
    return current


def _follow_one(
    drafts: Mapping[str, Draft],
    name: str,
    flow: Dataflow,
    enclosing: Mapping[str, BookedPhase | None],
    from_operands: bool,
) -> Draft | None:
    draft = drafts[name]
    is_in_loop = enclosing.get(draft.instruction.computation) is not None
    if not (draft.is_lost or is_in_loop):
        return None
    allowed = _BACKWARD_LOOP if is_in_loop else tuple(BookedPhase)
    operands = _phases_of(drafts, flow.producers.get(name, ()), allowed)
    users = _phases_of(drafts, flow.consumers.get(name, ()), allowed)
    lowest, highest = later_phase(operands.values()), earlier_phase(users.values())
    phase, label, neighbours = (lowest, "operands", operands) if from_operands else (highest, "users", users)
    if phase is None:
        return None
    if highest is not None and earlier_phase((phase, highest)) is not phase:
        # What replayed work reads is no gradient work, whatever it reads itself.
        phase, label, neighbours = highest, "users", users
    deciders = tuple(other for other, theirs in neighbours.items() if theirs is phase)
    return _decide(draft, phase, "data-flow", deciders, f"phase {phase}: data-flow ({label}: {few_names(deciders)})")


def _phases_of(
    drafts: Mapping[str, Draft], names: Sequence[str], allowed: Sequence[BookedPhase]
) -> dict[str, BookedPhase]:
    """The phases of neighbours that have an allowed one."""
    found = {name: drafts[name].phase for name in names if name in drafts}
    return {name: phase for name, phase in found.items() if phase is not None and phase in allowed}


def few_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
