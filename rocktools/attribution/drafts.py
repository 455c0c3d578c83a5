"""What the op_names of an instruction say about its phase and component, before anything is inferred.

Its own name counts first; a fusion without one is known by the names of what it fuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rocktools.attribution.components import NO_MATCH, ComponentMap, ComponentMatch, match_scopes, names_a_call
from rocktools.attribution.phases import STACK_RULES, BookedPhase, later_phase, phase_of_path
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.program_summary import collective_kind
from rocktools.hlo.scopes import FoundName, ScopePath, op_name_of, parse_op_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A bucket in the making.

    Attributes:
        instruction: that it is about.
        collective: `all-gather`, ...; "" where it is none.
        path: its op_name; None where neither it nor what it fuses has one.
        match: its component by its scopes.
        phase: None: not decided yet.
        rule: what decided the phase; "" where nothing has.
        is_lost: whether its name may have lost its phase, so that neighbours may be asked.
        is_mixed: whether it fuses instructions of more than one phase.
        is_inferred: whether its phase comes from what encloses it or from neighbours.
        deciders: the neighbours that decided.
        trail: one line a step.
    """

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


def read_names(module: HloModule, component_map: ComponentMap, instruction: Instruction) -> Draft:
    inside = frozenset(
        phase
        for op_name in dict.fromkeys(_fused_names(module, instruction))
        if (phase := _named_phase(component_map, parse_op_name(op_name))) is not None
    )
    found = op_name_of(module, instruction)
    return draft_of(found, instruction, collective_kind(module, instruction), component_map, inside)


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


def draft_of(
    found: FoundName | None,
    instruction: Instruction,
    collective: str,
    component_map: ComponentMap,
    inside: frozenset[BookedPhase],
) -> Draft:
    """What the names say: its own first, then those of what it fuses."""
    path = parse_op_name(found.op_name) if found else None
    match = match_scopes(component_map, path) if path else NO_MATCH
    component = component_map.components.get(match.component)
    trail = [_name_line(found), *([f"collective: {collective}, so communication"] if collective else [])]
    if ".remat" in instruction.name:
        trail.append("XLA computes it a second time (.remat in its name), which its op_name does not show")
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
    return Draft(
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
