"""The op_name of an instruction taken apart: which program, which phase, which named scopes, which primitive.

An op_name is JAX's name stack, joined with `/`: `jit(step)/while/body/closed_call/transpose(jvp(loss))/checkpoint/mul`.
Sources: jax `_src/source_info_util.py` (transforms wrap the scope behind them: `jvp(loss)`, or `jvp()` where there is
none; a scope of several parts is wrapped whole: `jvp(a/b)`), XLA `MergeMetadata` (`prefix/(a:b)` on combined
collectives), XLA's MLIR locations (`a;b` on what was fused while it was lowered). JAX up to 0.7 puts `jit(main)` behind
the name of the program. Nothing here knows model scopes, components, or a profile.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from rocktools.hlo.module import HloModule, Instruction


class Phase(str, Enum):
    """What an op_name says about differentiation. No phase (None) is what it says outside of it."""

    FORWARD = "forward"
    BACKWARD = "backward"
    REMATERIALIZED = "rematerialized"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopePath:
    """One op_name.

    Attributes:
        text: as recorded.
        tokens: its parts; joined with `/` they are the text.
        module: name of the jitted function, `step` of `jit(step)`; "" where the text does not begin with one.
        transforms: `jit(f)`, `jvp`, `transpose`, `vmap`, `checkpoint`, `shard_map`, ... from outside in.
        phase: None where it says none, or where merged paths disagree.
        scopes: what `jax.named_scope` and layers left, from outside in; of merged paths what they share.
        loops: `while/body`, `while/cond`, `cond/branch_1_fun` from outside in.
        primitive: the last token, if it is no transform; of a parameter the name of the argument.
        members: the paths that were merged into one, whole; () where there is one only.
    """

    text: str
    tokens: tuple[str, ...]
    module: str = ""
    transforms: tuple[str, ...] = ()
    phase: Phase | None = None
    scopes: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    primitive: str = ""
    members: tuple[ScopePath, ...] = ()

    @property
    def scope(self) -> str:
        """The named scopes as one text; "" where there are none."""
        return "/".join(self.scopes)

    @property
    def phases(self) -> frozenset[Phase | None]:
        """The phases of the merged paths, or its own."""
        return frozenset(path.phase for path in self.members or (self,))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundName:
    """An op_name, and whose it is: `instruction`, `fused_root` or `fused_inner`."""

    op_name: str
    origin: str


# Transforms of the name stack: the scope behind them stands in their parentheses.
_WRAPPING = frozenset({"jvp", "transpose", "vmap"})
# Calls: the name of a function stands in their parentheses.
_CALLING = frozenset(
    {"jit", "pjit", "pmap", "xla_pmap", "xla_call", "core_call", "closed_call", "checkpoint", "remat", "remat2",
     "custom_jvp", "custom_vjp", "custom_jvp_call", "custom_vjp_call", "shard_map"}
)  # fmt: skip
_BARE = frozenset({*_CALLING, "rematted_computation", "custom_vjp_call_jaxpr", "custom_lin"} - {"jit"})
_PROGRAM = re.compile(r"(?:jit|pjit|pmap|xla_pmap)\((.*)\)\Z", re.DOTALL)
_WRAPPED = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)\(")
_BRANCH = re.compile(r"branch_\d+_fun\Z")
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_PAIRS.values())
_DEEPEST_MERGE = 8  # merged paths within merged paths; XLA was seen to nest one level
_DEEPEST_WRAP = 64  # transforms around one scope; a gradient of a gradient of a checkpoint has 10


def split_path(text: str, separator: str = "/") -> tuple[str, ...]:
    """The parts of `text` between separators outside of brackets and quoted keys (`['a/b']`).

    Joined again they are the text. Where brackets do not match, every separator counts.
    """
    if not _PAIRS.keys() & set(text) and not _CLOSING & set(text):
        return tuple(text.split(separator))
    parts: list[str] = []
    open_brackets: list[str] = []
    start = i = 0
    while i < len(text):
        letter = text[i]
        if letter == separator and not open_brackets:
            parts.append(text[start:i])
            start = i + 1
        elif letter in _PAIRS:
            open_brackets.append(_PAIRS[letter])
            key_end = _key_end(text, i) if letter == "[" else 0
            i = key_end or i
        elif letter in _CLOSING and (not open_brackets or open_brackets.pop() != letter):
            return tuple(text.split(separator))
        i += 1
    return tuple(text.split(separator)) if open_brackets else (*parts, text[start:])


def _key_end(text: str, bracket: int) -> int:
    """Where the quoted key behind `[` ends (its closing quote); 0 where there is none."""
    quote = text[bracket + 1 : bracket + 2]
    if quote not in ("'", '"') or not quote:
        return 0
    end = text.find(f"{quote}]", bracket + 2)
    return max(end, 0)


def parse_op_name(op_name: str) -> ScopePath:
    """What `op_name` says. Every text has an answer: what is not understood is a scope.

    Merged paths (`prefix/(a:b)` and `a;b`) become `members`. A path behind `;` that does not begin with a program
    stands below the first one: it is attached where its first token last occurs there.
    """
    return _parse(op_name, 0)


def _parse(text: str, depth: int) -> ScopePath:
    tokens = split_path(text)
    if depth < _DEEPEST_MERGE:
        if ";" in text and len(joined := split_path(text, ";")) > 1:
            return _merge(text, tokens, [_parse(path, depth + 1) for path in _absolute(joined)], ())
        last = tokens[-1]
        if last.startswith("(") and last.endswith(")") and len(merged := split_path(last[1:-1], ":")) > 1:
            prefix = "".join(f"{token}/" for token in tokens[:-1])
            return _merge(text, tokens, [_parse(prefix + path, depth + 1) for path in merged], tokens[:-1])
    return _parse_one(text, tokens)


def _absolute(joined: Sequence[str]) -> Iterator[str]:
    first = split_path(joined[0])
    yield joined[0]
    for path in joined[1:]:
        start = split_path(path)[0]
        if _PROGRAM.match(start) or start not in first:
            yield path
        else:
            place = len(first) - 1 - first[::-1].index(start)
            yield "".join(f"{token}/" for token in first[:place]) + path


def _merge(text: str, tokens: tuple[str, ...], paths: Sequence[ScopePath], prefix: Sequence[str]) -> ScopePath:
    """The merged path: of everything what its members share; their phase, or that of the prefix if they disagree."""
    members = tuple(member for path in paths for member in (path.members or (path,)))
    phases = {member.phase for member in members}
    primitives = {member.primitive for member in members}
    return ScopePath(
        text=text,
        tokens=tokens,
        module=members[0].module if len({member.module for member in members}) == 1 else "",
        transforms=_shared([member.transforms for member in members]),
        phase=phases.pop() if len(phases) == 1 else _parse_one("", (*prefix, "")).phase,
        scopes=_shared([member.scopes for member in members]),
        loops=_shared([member.loops for member in members]),
        primitive=primitives.pop() if len(primitives) == 1 else "",
        members=members,
    )


def _shared(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The longest beginning that all have."""
    lowest, highest = min(paths), max(paths)
    length = next((i for i, (a, b) in enumerate(zip(lowest, highest, strict=False)) if a != b), None)
    return lowest if length is None else lowest[:length]


def _parse_one(text: str, tokens: tuple[str, ...]) -> ScopePath:
    program = _PROGRAM.match(tokens[0])
    transforms: list[str] = []
    scopes: list[str] = []
    loops: list[str] = []
    phase: Phase | None = None
    names = tokens[1:] if program else tokens
    last = names[-1] if names else ""
    has_primitive = bool(last) and not _is_wrapped(last)
    inner = list(names[:-1] if has_primitive else names)
    for i, token in enumerate(inner):
        if _loop_follows(inner, i, last if has_primitive else ""):
            continue
        if i and _loop_follows(inner, i - 1, ""):
            loops.append(f"{inner[i - 1]}/{token}")
            continue
        found = _unwrap(token, scopes)
        transforms += found
        phase = _later(phase, _phase_of(found))
    return ScopePath(
        text=text,
        tokens=tokens,
        module=program[1] if program else "",
        transforms=tuple(transforms),
        phase=phase,
        scopes=tuple(scopes),
        loops=tuple(loops),
        primitive=last if has_primitive else "",
    )


def _loop_follows(tokens: Sequence[str], i: int, last: str) -> bool:
    """Whether token `i` begins `while/body`, `while/cond` or `cond/branch_N_fun`."""
    following = tokens[i + 1] if i + 1 < len(tokens) else last
    if tokens[i] == "while":
        return following in ("body", "cond")
    return tokens[i] == "cond" and _BRANCH.match(following) is not None


def _is_wrapped(token: str) -> bool:
    found = _WRAPPED.match(token)
    return found is not None and token.endswith(")") and found[1] in (_WRAPPING | _CALLING)


def _unwrap(token: str, scopes: list[str]) -> list[str]:
    """The transforms of one token, from outside in; the scopes that are left are added to `scopes`."""
    transforms: list[str] = []
    waiting = [token]
    while waiting:
        name = waiting.pop()
        wrapped = _WRAPPED.match(name) if name.endswith(")") and len(transforms) < _DEEPEST_WRAP else None
        if name in _BARE or (wrapped and wrapped[1] in _CALLING):
            transforms.append(name)
        elif wrapped and wrapped[1] in _WRAPPING:
            transforms.append(wrapped[1])
            waiting += reversed(split_path(name[wrapped.end() : -1]))
        elif name:
            scopes.append(name)
    return transforms


def _phase_of(transforms: Sequence[str]) -> Phase | None:
    """The phase that one token says. `transpose` counts around `jvp` only: alone it is a linear function's."""
    if "rematted_computation" in transforms:
        return Phase.REMATERIALIZED
    if "transpose" in transforms and "jvp" in transforms[transforms.index("transpose") :]:
        return Phase.BACKWARD
    return Phase.FORWARD if "jvp" in transforms else None


_ORDER = (None, Phase.FORWARD, Phase.BACKWARD, Phase.REMATERIALIZED)


def _later(first: Phase | None, second: Phase | None) -> Phase | None:
    """Replayed work is inside of the backward interval, and the backward pass of an inner function in a forward one."""
    return max(first, second, key=_ORDER.index)


# Instructions whose called computation is their own work, done at once.
_WRAPPERS = frozenset({"fusion", "async-start"})
_NAMES_OF_OTHERS = frozenset({"parameter", "constant"})


def op_name_of(module: HloModule, instruction: Instruction) -> FoundName | None:
    """The op_name of an instruction, its own or, of a fusion without one, of its fused computation.

    Order: its own; the root's; of what the root is made of the nearest that is named; among the others that of the most
    frequent phase, and of these the last. Parameters and constants are left out everywhere: they carry the names of
    arguments and of whoever was there first. Fusions within fusions are looked into. None where nothing is named.
    """
    if instruction.metadata.op_name:
        return FoundName(op_name=instruction.metadata.op_name, origin="instruction")
    if instruction.opcode not in _WRAPPERS:
        return None
    for root in _fused_roots(module, instruction):
        if root.metadata.op_name:
            return FoundName(op_name=root.metadata.op_name, origin="fused_root")
    nearest = _nearest_name(module, instruction)
    if nearest:
        return FoundName(op_name=nearest, origin="fused_inner")
    named = [inner.metadata.op_name for inner in _inner(module, instruction) if inner.metadata.op_name]
    if not named:
        return None
    phases = [parse_op_name(name).phase for name in named]
    most_frequent = Counter(reversed(phases)).most_common(1)[0][0]  # of equally many, the phase nearest to the root
    last = max(i for i, phase in enumerate(phases) if phase == most_frequent)
    return FoundName(op_name=named[last], origin="fused_inner")


# A gradient needs replayed work, and that needs forward work; never the other way round.
_NEEDED_BY = (None, Phase.FORWARD, Phase.REMATERIALIZED, Phase.BACKWARD)


def _nearest_name(module: HloModule, instruction: Instruction) -> str:
    """The first name on the way from the nameless result to what it is made of; "" where there is none.

    A fusion of gradients repeats the replayed work that it needs, so most of its names may be of that. Where several
    are equally near, as of several results, that of the phase which needs the others.
    """
    *_, root = (None, *_fused_roots(module, instruction))
    waiting, seen, names = [root.name] if root else [], set[str](), []
    while waiting:
        inner = module.instructions.get(waiting.pop(0))
        if inner is None or inner.name in seen or inner.opcode in _NAMES_OF_OTHERS:
            continue
        seen.add(inner.name)
        if inner.metadata.op_name:
            names.append(inner.metadata.op_name)
        else:
            waiting += inner.operands
    return max(names, key=lambda name: _NEEDED_BY.index(parse_op_name(name).phase), default="")


def inner_phases(module: HloModule, instruction: Instruction) -> frozenset[Phase | None]:
    """The phases inside of a fusion; more than one: its time cannot be booked on one phase without a loss.

    None stands for inner instructions whose op_name says no phase. Of what is no fusion: the phase of its op_name.
    """
    inner = list(_inner(module, instruction)) if instruction.opcode in _WRAPPERS else []
    names = {found.metadata.op_name for found in (inner or [instruction])} - {""}
    return frozenset(phase for name in names for phase in parse_op_name(name).phases)


def _fused_roots(module: HloModule, instruction: Instruction) -> Iterator[Instruction]:
    """The root of its computation, then, while that is a fusion itself, the root of that one's."""
    seen: set[str] = set()  # a damaged module may call in a circle
    while instruction.opcode in _WRAPPERS and instruction.called and instruction.called[0] not in seen:
        seen.add(instruction.called[0])
        computation = module.computations.get(instruction.called[0])
        root = computation.root if computation else None
        if root is None:
            return
        yield root
        instruction = root


def _inner(module: HloModule, instruction: Instruction) -> Iterator[Instruction]:
    """What is computed inside, fusions within it looked into, in order; parameters and constants left out."""
    seen: set[str] = set()
    waiting = [instruction]
    while waiting:
        inner = waiting.pop()
        if inner.opcode in _WRAPPERS:
            called = [name for name in inner.called if name not in seen and name in module.computations]
            seen.update(called)
            for name in reversed(called):
                waiting += reversed(module.computations[name].instructions)
        elif inner.opcode not in _NAMES_OF_OTHERS:
            yield inner
