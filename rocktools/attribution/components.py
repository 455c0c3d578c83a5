"""A component map in memory, and the component that one name stack gets by it.

Rules are tried on one scope after another, from the deepest outward, in the order of the map: the deepest scope that
any rule knows wins. What no scope decides goes to the fallback rules, which look at the loop, the primitive and the
opcode. The names of models stand in the maps, not here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rocktools.attribution.phases import BookedPhase
from rocktools.hlo.scopes import ScopePath

UNATTRIBUTED = "unattributed"


class LoopPlace(str, Enum):
    """Where an instruction stands, seen from the innermost loop behind the tokens of differentiation."""

    OUTSIDE = "outside"  # of every loop
    INSIDE = "inside"  # of what the body calls
    CODE = "code"  # of the loop itself: counters, slices of its operands, results written back

    def __str__(self) -> str:
        return self.value


class RowState(str, Enum):
    """Why a row of a table has no number."""

    NO_OPERATION = "no standalone operation"
    FUSED = "fused into adjacent work"
    NOT_MEASURABLE = "not separately measurable"
    BOUNDARY = "attribution boundary"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One component of a map.

    Attributes:
        name: as in the column `component`.
        title: for people.
        group: what it is part of: `moe`; its own name where the map gives none.
        outside: the phase of its work where the name stack says none; None where that must come from elsewhere.
    """

    name: str
    title: str
    group: str
    outside: BookedPhase | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRule:
    """Gives a component to what stands below one scope.

    Attributes:
        segments: names of the scope, exactly; () for any.
        pattern: of the scope, all of it; None for any.
        within: one of these must be among the scopes outside of it; () for none needed.
        primitives: the last part of the name must be one of these; () for any.
        label: `rule 3 (line 12)`.
    """

    component: str
    segments: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    within: tuple[str, ...] = ()
    primitives: tuple[str, ...] = ()
    label: str

    def matches(self, scopes: tuple[str, ...], depth: int, primitive: str) -> bool:
        """Whether `scopes[depth]` is a scope of this rule."""
        segment = scopes[depth]
        if self.segments and segment not in self.segments:
            return False
        if self.pattern is not None and self.pattern.fullmatch(segment) is None:
            return False
        if self.primitives and primitive not in self.primitives:
            return False
        return not self.within or bool(set(self.within) & set(scopes[:depth]))


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackRule:
    """Gives a component to what no scope decides.

    Attributes:
        loop: where it must stand; None for anywhere.
        primitives, opcodes: one of these, or any where ().
        phases: its phase must be one of these; () for any.
        is_scopeless: whether it must be without any scope.
        label: `fallback 2 (line 40)`.
    """

    component: str
    loop: LoopPlace | None = None
    primitives: tuple[str, ...] = ()
    opcodes: tuple[str, ...] = ()
    phases: tuple[BookedPhase, ...] = ()
    is_scopeless: bool = False
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row of a component table.

    Attributes:
        title: for people.
        components: what it adds up; () where it is a row of words only.
        state: what stands there instead of a number; None where its components decide.
        absent: the same, where none of its components has any time.
        note: what it includes, or where it is anchored; "" for nothing.
    """

    title: str
    components: tuple[str, ...] = ()
    state: RowState | None = None
    absent: RowState = RowState.NO_OPERATION
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentMap:
    """One map: scopes -> components, and the rows of the tables.

    Attributes:
        name: `maxtext`, or what the user calls it.
        source: the file it was read from.
        components: by name, in the order of the file.
        rules, fallbacks: tried in this order.
        tables: of forward, backward and rematerialized work; what a table does not name is added at its end.
    """

    name: str
    source: str
    components: Mapping[str, Component]
    rules: tuple[ScopeRule, ...]
    fallbacks: tuple[FallbackRule, ...]
    tables: Mapping[BookedPhase, tuple[TableRow, ...]]

    def title_of(self, component: str) -> str:
        """For people; of what is not in the map its name."""
        known = self.components.get(component)
        return known.title if known else component


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentMatch:
    """The component of one name stack, and what decided.

    Attributes:
        component: as in the map, or `unattributed`.
        rule: label of the rule; "" where none fits.
        scope: the scope that it was found by; "" where a fallback rule decided, or none.
    """

    component: str
    rule: str = ""
    scope: str = ""


NO_MATCH = ComponentMatch(component=UNATTRIBUTED)
_KEYS = re.compile(r"\['([^']*)'\]|\.([A-Za-z_]\w*)")
_CALLS = frozenset({"closed_call", "checkpoint", "remat", "remat2", "rematted_computation", "jit", "pjit", "core_call"})
_LOOP_BODIES = ("body", "cond")


def match_scopes(component_map: ComponentMap, path: ScopePath) -> ComponentMatch:
    """The component by the scopes of `path`; of merged paths that of all of them, if it is one, or by what they share.

    An op_name that is the name of an argument (`params['layers']['wo']`) is read as if its keys were scopes.
    """
    if path.members:
        found = {match_scopes(component_map, member).component for member in path.members}
        if len(found) == 1:
            return match_scopes(component_map, path.members[0])
    scopes = path.scopes or argument_keys(path)
    for depth in range(len(scopes) - 1, -1, -1):
        for rule in component_map.rules:
            if rule.matches(scopes, depth, path.primitive):
                return ComponentMatch(component=rule.component, rule=rule.label, scope="/".join(scopes[: depth + 1]))
    return NO_MATCH


def match_fallbacks(
    component_map: ComponentMap, path: ScopePath | None, *, phase: BookedPhase, opcode: str
) -> ComponentMatch:
    """The component by the first fallback rule that fits.

    Args:
        path: None where the instruction has no op_name.
        phase: the phase it was given.
        opcode: of the instruction.
    """
    place = LoopPlace.OUTSIDE if path is None else loop_place(path)
    for rule in component_map.fallbacks:
        if rule.is_scopeless and path is not None and (path.scopes or argument_keys(path)):
            continue
        if rule.loop is not None and (path is None or rule.loop is not place):
            continue
        if rule.primitives and (path is None or path.primitive not in rule.primitives):
            continue
        if (rule.opcodes and opcode not in rule.opcodes) or (rule.phases and phase not in rule.phases):
            continue
        return ComponentMatch(component=rule.component, rule=rule.label)
    return NO_MATCH


def loop_place(path: ScopePath) -> LoopPlace:
    """Where `path` stands in the innermost loop behind its last token of differentiation.

    JAX calls the body of a scan `while/body/closed_call`; what stands in the body outside of that call, and names no
    scope, is the scan's own: slices of what it scans over, its counter, its results written back. Copies that XLA adds
    are named after the call, or the loop, as a whole.
    """
    tokens = path.tokens
    last_jvp = max((i for i, token in enumerate(tokens) if "jvp(" in token), default=-1)
    tail = tokens[last_jvp + 1 :]
    if tail and tail[-1] == "while":
        return LoopPlace.CODE
    begins = [i for i in range(len(tail) - 1) if tail[i] == "while" and tail[i + 1] in _LOOP_BODIES]
    if not begins:
        return LoopPlace.OUTSIDE
    rest = tail[begins[-1] + 2 :]
    calls_whole = all(token in _CALLS for token in rest)
    is_called = any(token in _CALLS for token in rest[:-1])
    has_scope = any(token not in _CALLS and "(" not in token for token in rest[:-1])
    return LoopPlace.CODE if calls_whole or not (is_called or has_scope) else LoopPlace.INSIDE


def names_a_call(path: ScopePath) -> bool:
    """Whether the name is that of a loop or call as a whole: XLA gives it to what it adds around or inside of one."""
    return path.tokens[-1] == "while" or path.tokens[-1] in _CALLS


def argument_keys(path: ScopePath) -> tuple[str, ...]:
    """`layers`, `wo` of the argument name `params['layers']['wo']`; () where the op_name is none."""
    if "['" not in path.primitive:
        return ()
    return tuple(key or attribute for key, attribute in _KEYS.findall(path.primitive))
