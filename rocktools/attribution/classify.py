"""Compiled program -> the bucket of every instruction: activity, phase, component, and why.

First what the op_names say (of the instruction, or of what it fuses), then what encloses it, then the data flow. What
comes from the last two is marked as inferred. Each bucket keeps its trail, so that a row can be explained. Nothing here
knows dispatches or times.

The data flow is a guess with a known failure: work between two phases (a copy of a forward result for the backward
pass) is booked under the phase of its operands, even where XLA made it for its users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rocktools.attribution.components import (
    NO_MATCH,
    UNATTRIBUTED,
    ComponentMap,
    ComponentMatch,
    match_fallbacks,
    match_scopes,
    names_a_call,
)
from rocktools.attribution.gradients import split_gradients
from rocktools.attribution.phases import (
    STACK_RULES,
    BookedPhase,
    earlier_phase,
    later_phase,
    phase_of_path,
)
from rocktools.hlo.dataflow import Dataflow, build_dataflow
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.program_summary import collective_kind, is_launched, launched_computations
from rocktools.hlo.scopes import FoundName, ScopePath, op_name_of, parse_op_name
from rocktools.hlo.shapes import Shape
from rocktools.timeline.activities import Activity

_BACKWARD_LOOP = (BookedPhase.REMATERIALIZED, BookedPhase.BACKWARD)
_Side = tuple[str, Mapping[str, tuple[str, ...]], Callable[[Iterable[BookedPhase]], BookedPhase | None]]
_NO_SHAPE = Shape(dtype="opaque")
_ROUNDS = 16  # longest chain of nameless instructions that the data flow is followed through


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Where the time of one instruction is booked, and why.

    Attributes:
        activity: compute or communication; whether a kernel copies is seen at its dispatch.
        phase, component: as in ATTRIBUTED.
        rule: what decided the phase and, where a map did, the component.
        scope: named scopes of its op_name; None where it has none.
        collective: `all-gather`, ...; None elsewhere.
        opcode: of the instruction.
        gradient: `dgrad` or `wgrad` of a backward product, where shapes tell.
        is_mixed: whether it fuses instructions of more than one phase.
        is_inferred: whether phase or component come from what encloses it or the data flow.
        trail: the path from the name to the bucket, one line a step.
    """

    activity: Activity
    phase: BookedPhase
    component: str
    rule: str
    scope: str | None = None
    collective: str | None = None
    opcode: str = ""
    gradient: str | None = None
    is_mixed: bool = False
    is_inferred: bool = False
    trail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A bucket in the making; phase None: not decided yet."""

    instruction: Instruction
    collective: str
    path: ScopePath | None
    match: ComponentMatch
    phase: BookedPhase | None
    rule: str
    is_lost: bool
    is_mixed: bool
    is_inferred: bool
    deciders: tuple[str, ...]
    trail: tuple[str, ...]


def classify_instructions(module: HloModule, component_map: ComponentMap) -> dict[str, Bucket]:
    """The bucket of every instruction outside of fused computations, by its name.

    Args:
        module: a compiled program.
        component_map: which scope is which component.
    """
    launched = launched_computations(module)
    instructions = [each for each in module.instructions.values() if each.computation in launched]
    enclosing = _enclosing_phases(module, launched)
    drafts = {each.name: _read_name(module, component_map, each) for each in instructions}
    drafts = {name: _look_around(draft, enclosing) for name, draft in drafts.items()}
    flow = build_dataflow(module, [each for each in instructions if is_launched(each, launched)])
    drafts = _follow_data(drafts, flow, enclosing)
    matches = _components(drafts, flow, component_map)
    buckets = {name: _bucket(draft, matches[name], component_map) for name, draft in drafts.items()}
    for name, gradient in split_gradients(module).items():
        if name in buckets and buckets[name].phase is BookedPhase.BACKWARD:
            trail = (*buckets[name].trail, f"gradient {gradient}: by the shapes of the forward product in its scope")
            buckets[name] = replace(buckets[name], gradient=gradient.value, trail=trail)
    return buckets


def classify_op_name(op_name: str, component_map: ComponentMap, *, opcode: str = "", collective: str = "") -> Bucket:
    """The bucket of an op_name alone, where there is no program: a table of HLO operations, or of kernels.

    Args:
        op_name: as recorded; "" where there is none.
        opcode: of the instruction, where it is known.
        collective: kind of collective; "" where it is none.
    """
    found = FoundName(op_name=op_name, origin="instruction") if op_name else None
    instruction = Instruction(name="", opcode=opcode, shape=_NO_SHAPE, computation="", position=0)
    draft = _draft_of(found, instruction, collective, component_map, frozenset())
    return _bucket(draft, _own_component(draft, component_map), component_map)


def _read_name(module: HloModule, component_map: ComponentMap, instruction: Instruction) -> _Draft:
    inside = frozenset(
        phase
        for op_name in dict.fromkeys(_fused_names(module, instruction))
        if (phase := _named_phase(component_map, parse_op_name(op_name))) is not None
    )
    found = op_name_of(module, instruction)
    return _draft_of(found, instruction, collective_kind(module, instruction), component_map, inside)


def _fused_names(module: HloModule, instruction: Instruction) -> Iterator[str]:
    """The op_names of what a fusion computes, those of its parameters and constants left out."""
    if instruction.opcode != "fusion":
        return
    for name in instruction.called:
        computation = module.computations.get(name)
        for inner in computation.instructions if computation else ():
            if inner.opcode not in ("parameter", "constant") and inner.metadata.op_name:
                yield inner.metadata.op_name
            yield from _fused_names(module, inner)


def _named_phase(component_map: ComponentMap, path: ScopePath) -> BookedPhase | None:
    """The phase that a name says, by its stack or by a component outside of differentiation."""
    phase = phase_of_path(path)
    component = None if phase else component_map.components.get(match_scopes(component_map, path).component)
    return component.outside if component else phase


def _draft_of(
    found: FoundName | None,
    instruction: Instruction,
    collective: str,
    component_map: ComponentMap,
    inside: frozenset[BookedPhase],
) -> _Draft:
    """What the names say: its own first, then those of what it fuses."""
    path = parse_op_name(found.op_name) if found else None
    match = match_scopes(component_map, path) if path else NO_MATCH
    component = component_map.components.get(match.component)
    trail = [_name_line(found), *([f"collective: {collective}, so communication"] if collective else [])]
    phase, rule = phase_of_path(path) if path else None, ""
    if phase is not None:
        rule = STACK_RULES[phase]
    elif component is not None and component.outside is not None:
        phase, rule = component.outside, "outside-scope"
    elif inside:
        phase, rule = later_phase(inside), "fused-instructions"
    if phase is not None:
        detail = {"outside-scope": f" ({match.rule})", "fused-instructions": f" ({_listed(inside)} inside)"}
        trail.append(f"phase {phase}: {rule}{detail.get(rule, '')}")
    if len(inside) > 1:
        trail.append(f"mixed: it fuses {_listed(inside)}")
    members = {member.phase for member in path.members} if path else set()
    return _Draft(
        instruction=instruction,
        collective=collective,
        path=path,
        match=match,
        phase=phase,
        rule=rule,
        is_lost=path is None or not path.module or component is not None or names_a_call(path),
        is_mixed=len(inside) > 1 or len(members - {None}) > 1,
        is_inferred=False,
        deciders=(),
        trail=tuple(trail),
    )


def _name_line(found: FoundName | None) -> str:
    if found is None:
        return "op_name: none, neither its own nor in what it fuses"
    whose = {"fused_root": "of the root of its fusion", "fused_inner": "of an instruction in its fusion"}
    return f"op_name ({whose.get(found.origin, 'its own')}): {found.op_name}"


def _listed(phases: Iterable[BookedPhase]) -> str:
    return " and ".join(phase.value for phase in BookedPhase if phase in set(phases))


def _enclosing_phases(module: HloModule, launched: frozenset[str]) -> dict[str, BookedPhase | None]:
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


def _look_around(draft: _Draft, enclosing: Mapping[str, BookedPhase | None]) -> _Draft:
    """The phase of the loop around it, where its own name says none: in a forward loop everything is forward.

    A backward loop holds replayed work too: there the data flow decides between the two.
    """
    phase = enclosing.get(draft.instruction.computation)
    if draft.phase is not None or phase is None or phase in _BACKWARD_LOOP:
        return draft
    return _decide(draft, phase, "enclosing-loop", (), f"phase {phase}: enclosing-loop (its loop is {phase})")


def _decide(draft: _Draft, phase: BookedPhase, rule: str, deciders: tuple[str, ...], line: str) -> _Draft:
    trail = (*draft.trail, f"{line}; inferred")
    return replace(draft, phase=phase, rule=rule, is_inferred=True, deciders=deciders, trail=trail)


def _follow_data(
    drafts: Mapping[str, _Draft], flow: Dataflow, enclosing: Mapping[str, BookedPhase | None]
) -> dict[str, _Draft]:
    """The phases of what lost its own: of its operands the latest, or, where they say none, of its users the earliest.

    In rounds, each on what the one before knew, so that the order of instructions does not matter. Users are asked
    only when no operand can say more.
    """
    current = dict(drafts)
    waiting = [name for name, draft in current.items() if draft.phase is None]
    sides = (("operands", flow.producers, later_phase), ("users", flow.consumers, earlier_phase))
    for _ in range(_ROUNDS):
        for side in sides:
            found = {name: _follow_one(current, name, side, enclosing) for name in waiting}
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
    drafts: Mapping[str, _Draft], name: str, side: _Side, enclosing: Mapping[str, BookedPhase | None]
) -> _Draft | None:
    draft = drafts[name]
    is_in_loop = enclosing.get(draft.instruction.computation) is not None
    if not (draft.is_lost or is_in_loop):
        return None
    label, neighbours, choose = side
    phases = {other: drafts[other].phase for other in neighbours.get(name, ()) if other in drafts}
    phase = choose(phase for phase in phases.values() if phase and (not is_in_loop or phase in _BACKWARD_LOOP))
    if phase is None:
        return None
    deciders = tuple(other for other, theirs in phases.items() if theirs is phase)
    return _decide(draft, phase, "data-flow", deciders, f"phase {phase}: data-flow ({label}: {_few(deciders)})")


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Component:
    """A component, and the line of the trail that says where it is from; `rule` is "" where no rule of the map fits."""

    name: str
    rule: str
    line: str
    is_inferred: bool = False


def _own_component(draft: _Draft, component_map: ComponentMap) -> _Component:
    """By the scopes, or by a fallback rule of the map."""
    match = draft.match
    if match is NO_MATCH:
        phase = draft.phase or BookedPhase.UNATTRIBUTED
        match = match_fallbacks(component_map, draft.path, phase=phase, opcode=draft.instruction.opcode)
    if match is NO_MATCH:
        line = f"component {UNATTRIBUTED}: no rule of {component_map.name} fits"
        return _Component(name=UNATTRIBUTED, rule="", line=line)
    where = f" by the scope {match.scope}" if match.scope else ""
    return _Component(name=match.component, rule=match.rule, line=f"component {match.component}: {match.rule}{where}")


def _components(drafts: Mapping[str, _Draft], flow: Dataflow, component_map: ComponentMap) -> dict[str, _Component]:
    """The component of each; what has an inferred phase and no component gets that of its neighbours, if it is one."""
    found = {name: _own_component(draft, component_map) for name, draft in drafts.items()}
    waiting = [name for name, draft in drafts.items() if draft.is_inferred and found[name].name == UNATTRIBUTED]
    for _ in range(_ROUNDS):
        new = {name: agreed for name in waiting if (agreed := _agreed(drafts, name, flow, found)) is not None}
        if not new:
            break
        found.update(new)
        waiting = [name for name in waiting if name not in new]
    return found


def _agreed(
    drafts: Mapping[str, _Draft], name: str, flow: Dataflow, components: Mapping[str, _Component]
) -> _Component | None:
    draft = drafts[name]
    sides = (draft.deciders,) if draft.deciders else (flow.producers.get(name, ()), flow.consumers.get(name, ()))
    for side in sides:
        same = [other for other in side if other in drafts and drafts[other].phase is draft.phase]
        names = {components[other].name for other in same}
        if len(names) == 1 and UNATTRIBUTED not in names:
            component = names.pop()
            line = f"component {component}: that of {_few(same)}; inferred"
            return _Component(name=component, rule="component of neighbours", line=line, is_inferred=True)
    return None


def _bucket(draft: _Draft, component: _Component, component_map: ComponentMap) -> Bucket:
    phase = draft.phase or BookedPhase.UNATTRIBUTED
    undecided = () if draft.phase else (f"phase {phase}: no rule fits",)
    return Bucket(
        activity=Activity.COMMUNICATION if draft.collective else Activity.COMPUTE,
        phase=phase,
        component=component.name,
        rule="; ".join([draft.rule or "no-phase", *([component.rule] if component.rule else [])]),
        scope=draft.path.scope if draft.path else None,
        collective=draft.collective or None,
        opcode=draft.instruction.opcode,
        is_mixed=draft.is_mixed,
        is_inferred=draft.is_inferred or component.is_inferred,
        trail=(*draft.trail, *undecided, component.line),
    )
