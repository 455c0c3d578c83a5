"""Compiled program -> the bucket of every instruction: activity, phase, component, and why.

First what the op_names say (of the instruction, or of what it fuses), then what encloses it, then the data flow. What
comes from the last two is marked as inferred. Each bucket keeps its trail, so that a row can be explained. Nothing here
knows dispatches or times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rocktools.attribution.components import NO_MATCH, UNATTRIBUTED, ComponentMap, match_fallbacks
from rocktools.attribution.drafts import Draft, draft_of, read_names
from rocktools.attribution.gradients import split_gradients
from rocktools.attribution.inference import enclosing_phases, few_names, follow_data, look_around
from rocktools.attribution.phases import BookedPhase
from rocktools.hlo.cost_collectives import find_collective
from rocktools.hlo.dataflow import Dataflow, build_dataflow
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.program_summary import is_launched, launched_computations
from rocktools.hlo.scopes import FoundName
from rocktools.hlo.shapes import Shape
from rocktools.timeline.activities import Activity

_NO_SHAPE = Shape(dtype="opaque")
_ROUNDS = 16  # longest chain of instructions without a component that is followed


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
        wrapped_by: the asynchronous start that does nothing but this; None elsewhere.
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
    wrapped_by: str | None = None
    trail: tuple[str, ...] = ()


def classify_instructions(module: HloModule, component_map: ComponentMap) -> dict[str, Bucket]:
    """The bucket of every instruction that may be launched, by its name; what is fused is not.

    Args:
        module: a compiled program.
        component_map: which scope is which component.
    """
    launched = launched_computations(module)
    instructions = [each for each in module.instructions.values() if each.computation in launched]
    enclosing = enclosing_phases(module, launched)
    drafts = {each.name: read_names(module, component_map, each) for each in instructions}
    drafts = {name: look_around(draft, enclosing) for name, draft in drafts.items()}
    flow = build_dataflow(module, [each for each in instructions if is_launched(each, launched)])
    drafts = follow_data(drafts, flow, enclosing)
    matches = _components(drafts, flow, component_map)
    buckets = {name: _bucket(draft, matches[name], component_map) for name, draft in drafts.items()}
    for name, gradient in split_gradients(module).items():
        if name in buckets and buckets[name].phase is BookedPhase.BACKWARD:
            trail = (*buckets[name].trail, f"gradient {gradient}: by the shapes of the forward product in its scope")
            buckets[name] = replace(buckets[name], gradient=gradient.value, trail=trail)
    return buckets | _wrapped_buckets(module, buckets)


def _wrapped_buckets(module: HloModule, buckets: Mapping[str, Bucket]) -> dict[str, Bucket]:
    """What asynchronous starts wrap is booked as they are: thunks are named after the one or the other."""
    found = {}
    for name, bucket in buckets.items():
        if bucket.opcode != "async-start":
            continue
        line = f"wrapped by {name}, and booked as it is"
        for called in module.instructions[name].called:
            computation = module.computations.get(called)
            inside = computation.instructions if computation else ()
            only = name if len([each for each in inside if find_collective(each)]) == 1 else None
            for inner in inside:
                found[inner.name] = replace(bucket, opcode=inner.opcode, wrapped_by=only, trail=(line, *bucket.trail))
    return found


def classify_op_name(op_name: str, component_map: ComponentMap, *, opcode: str = "", collective: str = "") -> Bucket:
    """The bucket of an op_name alone, where there is no program: a table of HLO operations, or of kernels.

    Args:
        op_name: as recorded; "" where there is none.
        opcode: of the instruction, where it is known.
        collective: kind of collective; "" where it is none.
    """
    found = FoundName(op_name=op_name, origin="instruction") if op_name else None
    instruction = Instruction(name="", opcode=opcode, shape=_NO_SHAPE, computation="", position=0)
    draft = draft_of(found, instruction, collective, component_map, frozenset())
    return _bucket(draft, _own_component(draft, component_map), component_map)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Component:
    """A component, and the line of the trail that says where it is from; `rule` is "" where no rule of the map fits."""

    name: str
    rule: str
    line: str
    is_inferred: bool = False


def _own_component(draft: Draft, component_map: ComponentMap) -> _Component:
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


def _components(drafts: Mapping[str, Draft], flow: Dataflow, component_map: ComponentMap) -> dict[str, _Component]:
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
    drafts: Mapping[str, Draft], name: str, flow: Dataflow, components: Mapping[str, _Component]
) -> _Component | None:
    draft = drafts[name]
    sides = (draft.deciders,) if draft.deciders else (flow.producers.get(name, ()), flow.consumers.get(name, ()))
    for side in sides:
        same = [other for other in side if other in drafts and drafts[other].phase is draft.phase]
        names = {components[other].name for other in same}
        if len(names) == 1 and UNATTRIBUTED not in names:
            component = names.pop()
            line = f"component {component}: that of {few_names(same)}; inferred"
            return _Component(name=component, rule="component of neighbours", line=line, is_inferred=True)
    return None


def _bucket(draft: Draft, component: _Component, component_map: ComponentMap) -> Bucket:
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
