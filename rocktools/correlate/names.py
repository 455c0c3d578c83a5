"""Names of kernels -> HLO instructions, by XLA's naming rules: the weakest of the methods, always flagged.

XLA names a kernel after the instruction that it is emitted for: every character but letters, digits, `_` and `$` turns
into `_`, a leading digit gets a `_` (SanitizeFunctionName), and a name that is taken is renumbered (NameUniquer, `_N`).
But instructions that fuse equal computations share one kernel, named after the first of them (KernelReuseCache), so the
instruction that has a kernel's name need not be the one that launched it. Instructions that look as if they shared a
kernel are therefore candidates, too: what this says may be ambiguous, and is never certain.

Failure case: computations that XLA takes for equal and that differ in what is compared here may share a kernel unseen;
then the link is `likely`, and wrong.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pandas as pd

from rocktools.correlate.edges import (
    UNLINKED,
    Confidence,
    Link,
    Method,
    build_dispatch_edges,
    build_link,
)
from rocktools.correlate.kernel_families import is_library_kernel
from rocktools.findings import Finding, Severity
from rocktools.hlo.module import HloModule, Instruction

_NOT_IN_SYMBOLS = re.compile(r"[^A-Za-z0-9_$]")
_NUMBER = re.compile(r"_\d+$")
_DESCRIPTOR = re.compile(r"(?: \[clone \.kd\]|\.kd)$")

_SEQUENCING = frozenset({"while", "conditional", "call", "async-start", "async-update", "async-done"})
"""Opcodes whose computations are launched instruction by instruction; those of others are inlined into a kernel."""

_NEVER_LAUNCHED = _SEQUENCING | {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency"),
    *("opt-barrier", "domain", "partition-id", "replica-id", "get-dimension-size"),
    *("all-gather-done", "all-reduce-done", "collective-permute-done", "copy-done", "send-done", "recv-done"),
}


class NameRule(str, Enum):
    """Which rule found candidates."""

    EXACT = "exact"  # the sanitised name of the instruction is the kernel's
    PREFIX = "prefix"  # it is, but for a number at the end of either
    NONE = "none"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class NameMatch:
    """What the name of a kernel says in one program.

    Attributes:
        rule: which rule found them.
        candidates: instructions, most probable first: the namesake, then those that look as if they shared its kernel.
        namesakes_count: how many of the candidates have the name itself; the others share a kernel with one of those.
    """

    rule: NameRule
    candidates: tuple[str, ...] = ()
    namesakes_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNameIndex:
    """The kernel names that instructions of one program may have led to.

    Attributes:
        program_id: as in INSTRUCTIONS.
        exact: sanitised name -> instructions.
        stems: sanitised name without the last number -> instructions.
        twins: instruction -> others of the same computation and shapes, in the order of the schedule.
    """

    program_id: str
    exact: Mapping[str, tuple[str, ...]]
    stems: Mapping[str, tuple[str, ...]]
    twins: Mapping[str, tuple[str, ...]]


def sanitise_name(name: str) -> str:
    """The symbol that XLA makes of the name of an instruction, before it is made unique."""
    symbol = _NOT_IN_SYMBOLS.sub("_", name)
    return f"_{symbol}" if symbol[:1].isdigit() else symbol


def strip_symbol(kernel_name: str) -> str:
    """A kernel's name without what toolchains add: `.kd`, ` [clone .kd]`, and Triton's `_impl`."""
    return _DESCRIPTOR.sub("", kernel_name).removesuffix("_impl")


def stem_of(symbol: str) -> str:
    """The name without one number at its end: the part that renumbering leaves alone."""
    return _NUMBER.sub("", symbol) or symbol


def find_launched(module: HloModule) -> tuple[Instruction, ...]:
    """The instructions that may launch kernels of their own: outside of fusions, reducers and comparators."""
    inlined = {
        name
        for instruction in module.instructions.values()
        if instruction.opcode not in _SEQUENCING
        for name in instruction.called
    }
    return tuple(
        instruction
        for computation in module.computations.values()
        if computation.name not in inlined
        for instruction in computation.instructions
        if instruction.opcode not in _NEVER_LAUNCHED
    )


def build_name_index(module: HloModule) -> KernelNameIndex:
    """The index of one program; building it walks the module once."""
    exact: dict[str, list[str]] = defaultdict(list)
    stems: dict[str, list[str]] = defaultdict(list)
    alike: dict[object, list[str]] = defaultdict(list)
    signatures = _Signatures(module)
    for instruction in find_launched(module):
        symbol = sanitise_name(instruction.name)
        exact[symbol].append(instruction.name)
        stems[stem_of(symbol)].append(instruction.name)
        if instruction.opcode == "fusion":
            alike[signatures.of_fusion(instruction)].append(instruction.name)
    twins = {
        name: tuple(other for other in names if other != name)
        for names in alike.values()
        if len(names) > 1
        for name in names
    }
    return KernelNameIndex(program_id=module.label, exact=_frozen(exact), stems=_frozen(stems), twins=twins)


def _frozen(lists: Mapping[str, list[str]]) -> Mapping[str, tuple[str, ...]]:
    return {name: tuple(values) for name, values in lists.items()}


class _Signatures:
    """What decides whether two fusions may share a kernel: shapes, kind, and everything that is fused."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._known: dict[str, int] = {}
        self._numbers: dict[object, int] = {}

    def of_fusion(self, fusion: Instruction) -> object:
        computations = tuple(self._of_computation(name) for name in fusion.called)
        return (str(fusion.shape), fusion.fusion_kind, computations)

    def _of_computation(self, name: str) -> int:
        """A number that equal computations share, however their instructions are numbered."""
        if name not in self._known:
            self._known[name] = -1  # a damaged module may call itself
            computation = self._module.computations.get(name)
            instructions = computation.instructions if computation is not None else ()
            places = {instruction.name: place for place, instruction in enumerate(instructions)}
            parts = tuple(self._of_inner(instruction, places) for instruction in instructions)
            self._known[name] = self._numbers.setdefault(parts or name, len(self._numbers))
        return self._known[name]

    def _of_inner(self, instruction: Instruction, places: Mapping[str, int]) -> object:
        return (
            instruction.opcode,
            str(instruction.shape),
            tuple(places.get(name, -1) for name in instruction.operands),
            instruction.argument,
            tuple(sorted(instruction.attributes.items())),
            tuple(self._of_computation(name) for name in instruction.called),
            instruction.is_root,
        )


def candidates_by_name(kernel_name: str, index: KernelNameIndex) -> NameMatch:
    """The instructions of one program that a kernel of this name may belong to.

    First the exact sanitised name, then the stable prefix: a number at the end of either name is dropped. A library's
    kernel has no candidates.

    Args:
        kernel_name: with or without `.kd`.
        index: of the program.
    """
    if is_library_kernel(kernel_name):
        return NameMatch(rule=NameRule.NONE)
    symbol = strip_symbol(kernel_name)
    found, rule = index.exact.get(symbol, ()), NameRule.EXACT
    if not found:
        rule = NameRule.PREFIX
        stem = stem_of(symbol)
        found = tuple(dict.fromkeys((*index.exact.get(stem, ()), *index.stems.get(stem, ()))))
    if not found:
        return NameMatch(rule=NameRule.NONE)
    twins = (twin for name in found for twin in index.twins.get(name, ()))
    return NameMatch(rule=rule, candidates=tuple(dict.fromkeys((*found, *twins))), namesakes_count=len(found))


def find_link_by_name(
    kernel_name: str, indices: Iterable[KernelNameIndex], *, at_most: Confidence = Confidence.LIKELY
) -> Link:
    """What the name says over several programs; exact matches in any of them outdo prefixes in all.

    A single exact candidate is likely, or `at_most`. Everything else is ambiguous, also a single candidate by its
    prefix: a kernel of a program that is not at hand would find one, too.
    """
    matches = [(index.program_id, candidates_by_name(kernel_name, index)) for index in indices]
    for rule, confidence in ((NameRule.EXACT, at_most), (NameRule.PREFIX, Confidence.AMBIGUOUS)):
        found = [(program_id, name) for program_id, match in matches if match.rule is rule for name in match.candidates]
        if found:
            return build_link(list(dict.fromkeys(found)), method=Method.NAME, confidence=confidence)
    return UNLINKED


def link_by_name(
    dispatches: pd.DataFrame, modules: Sequence[HloModule], *, at_most: Confidence = Confidence.LIKELY
) -> tuple[pd.DataFrame, list[Finding]]:
    """What the names of kernels alone say.

    Args:
        dispatches: DISPATCHES or COUNTED_DISPATCHES, at least with the key of DISPATCHES and `kernel_name`.
        modules: the programs that the dispatches may belong to.
        at_most: likely, or ambiguous where there is reason to doubt that they do.

    Returns:
        DISPATCH_EDGES, one row per dispatch; none is certain. And a warning that counts what rests on names.
    """
    names = dispatches["kernel_name"].cat
    indices = [build_name_index(module) for module in modules]
    links = [find_link_by_name(str(name), indices, at_most=at_most) for name in names.categories]
    codes = names.codes.to_numpy().astype(np.int64)
    edges = build_dispatch_edges(dispatches, [*links, UNLINKED], np.where(codes < 0, len(links), codes))
    return edges, check_name_links(edges, where="DISPATCHES")


def check_name_links(edges: pd.DataFrame, *, where: str) -> list[Finding]:
    """How much rests on a name alone: a warning where links do, a note where names gave nothing but candidates.

    Args:
        edges: DISPATCH_EDGES or EVENT_EDGES.
        where: what to name as the place.
    """
    is_named = (edges["method"] == Method.NAME.value).to_numpy()
    is_ambiguous = is_named & (edges["confidence"] == Confidence.AMBIGUOUS.value).to_numpy()
    named_count, ambiguous_count = int(is_named.sum()), int(is_ambiguous.sum())
    numbers = {"named_count": named_count, "ambiguous_count": ambiguous_count, "rows_count": len(edges)}
    if named_count == 0:
        return []
    if ambiguous_count == named_count:
        return [
            Finding(
                rule="candidates-by-name",
                severity=Severity.NOTE,
                where=where,
                message=f"{named_count:,} of {len(edges):,} are not linked, but have candidates by their kernel's name",
                numbers=numbers,
            )
        ]
    return [
        Finding(
            rule="linked-by-name",
            severity=Severity.WARNING,
            where=where,
            message=f"{named_count - ambiguous_count:,} of {len(edges):,} are linked by their kernel's name alone, "
            f"{ambiguous_count:,} have candidates by it; kernels are shared, so the namesake may be another one",
            numbers=numbers,
            advice="hand in the thunk sequence of the dump (--xla_dump_to), or a JAX profile of the same program",
        )
    ]
