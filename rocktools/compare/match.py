"""Operations of two summaries -> pairs that are the same operation, although fusions were renumbered in between.

Four keys are tried, the surest first; a key counts where it is unique on both sides among what is still unmatched:

    fingerprint   what the instruction computes, with its scope and phase
    scope         scope, phase, opcode and shape
    kernel        kernel name and phase, for what has no instruction
    name          the instruction's own name, opcode, phase and component, whatever its shape

Of operations with equal fingerprint, scope and phase (unrolled layers) as many as both sides have are paired in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rocktools.summary.document import Operation

_Key = tuple[object, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One operation on both sides, or on one.

    Attributes:
        before, after: None where that side has none, or does not list it.
        method: the key that matched; "" for what stands alone.
    """

    before: Operation | None
    after: Operation | None
    method: str


def match_operations(before: Sequence[Operation], after: Sequence[Operation]) -> tuple[Pair, ...]:
    """Every operation of either side, once."""
    left, right = dict(enumerate(before)), dict(enumerate(after))
    pairs: list[Pair] = []
    for method, key, takes_several in _METHODS:
        mine, theirs = _by_key(left, key), _by_key(right, key)
        for value, places in mine.items():
            others = theirs.get(value, [])
            if len(places) != len(others) or (len(places) > 1 and not takes_several):
                continue
            for place, other in zip(places, others, strict=True):
                pairs.append(Pair(before=left.pop(place), after=right.pop(other), method=method))
    pairs += [Pair(before=each, after=None, method="") for each in left.values()]
    pairs += [Pair(before=None, after=each, method="") for each in right.values()]
    return tuple(pairs)


def _by_key(operations: dict[int, Operation], key: Callable[[Operation], _Key]) -> dict[_Key, list[int]]:
    found: defaultdict[_Key, list[int]] = defaultdict(list)
    for place, operation in operations.items():
        value = key(operation)
        if value is not None:
            found[value].append(place)
    return found


def _fingerprint(operation: Operation) -> _Key:
    if operation.fingerprint is None:
        return None
    return operation.fingerprint, operation.scope, operation.phase


def _scope(operation: Operation) -> _Key:
    if operation.scope is None or operation.opcode is None:
        return None
    return operation.scope, operation.phase, operation.opcode, operation.shape


def _kernel(operation: Operation) -> _Key:
    return None if operation.instruction is not None else (operation.name, operation.activity, operation.phase)


def _name(operation: Operation) -> _Key:
    # Numbers in names mean nothing to the next compilation; what is in another component is another operation.
    if operation.instruction is None:
        return None
    return operation.instruction, operation.opcode, operation.phase, operation.component


_METHODS: tuple[tuple[str, Callable[[Operation], _Key], bool], ...] = (
    ("fingerprint", _fingerprint, True),
    ("scope", _scope, False),
    ("kernel", _kernel, False),
    ("name", _name, False),
)
