"""Sets of slots into as few passes as possible: the search, without names, findings or architectures.

Each need (the slots of one counter, or of one ratio group) has to be whole in at least one pass; a slot may be taken in
several. Without needs of several slots the blocks are independent and filling up reaches the bound at once. With them
this is a bin packing in which the pieces overlap, which no simple rule solves: a depth-first search that tries the pass
with the fewest new slots first, and gives up on a number of passes after a fixed number of steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rocktools.counters.expansions import Slot

STEPS = 4_000  # taken back, per number of passes; all counters of an architecture at once need none or a few hundred


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPlan:
    """Passes that hold every need.

    Attributes:
        passes: the slots of each.
        is_least: whether fewer passes are proven impossible.
    """

    passes: tuple[frozenset[Slot], ...]
    is_least: bool


def capacity_bound(needs: Iterable[frozenset[Slot]], limits: Mapping[str, int]) -> int:
    """The passes that the number of different slots makes necessary: max over blocks of ceil(slots / limit)."""
    taken = frozenset().union(*needs)
    return max((_ceil(sum(slot.block == block for slot in taken), limit) for block, limit in limits.items()), default=0)


def find_passes(needs: Sequence[frozenset[Slot]], limits: Mapping[str, int], *, steps: int = STEPS) -> PassPlan:
    """The fewest passes found that hold every need.

    The answer depends on nothing but the sets: not on their order, not on the order within sets.

    Args:
        needs: none of them larger than a pass.
        limits: slots of each block in one pass.
        steps: after so many placements taken back a number of passes is given up. (Only those count: where there are
            as many passes as needs the first way down succeeds, so that the search ends with any number of steps.)
    """
    slots = sorted(frozenset().union(*needs))
    index = {slot: bit for bit, slot in enumerate(slots)}
    blocks = tuple(
        (sum(1 << index[slot] for slot in slots if slot.block == block), limit) for block, limit in limits.items()
    )
    masks = _maximal({sum(1 << index[slot] for slot in need) for need in needs})
    search = _Search(blocks=blocks, all_slots=(1 << len(slots)) - 1, needs=_ordered(masks, blocks), steps_left=steps)
    count = _overlap_bound(masks, blocks)
    is_least = True
    while (found := search.run(count, steps)) is None:
        is_least = is_least and search.steps_left > 0
        count += 1
    passes = tuple(frozenset(slot for slot, bit in index.items() if mask >> bit & 1) for mask in found)
    return PassPlan(passes=passes, is_least=is_least)


def _maximal(masks: Iterable[int]) -> list[int]:
    """Those that no other one contains."""
    kept: list[int] = []
    for mask in sorted(masks, key=lambda mask: (-mask.bit_count(), mask)):
        if not any(mask & larger == mask for larger in kept):
            kept.append(mask)
    return [mask for mask in kept if mask]


def _ordered(masks: Iterable[int], blocks: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Needs of several slots in the order in which they are placed: what is scarce first, what hangs together together.

    A block is the scarcer the more passes it would need for itself. After the scarcest need come those that share slots
    with it, then those that share slots with these, so that they meet in one pass while it has room.
    """
    waiting = sorted(mask for mask in masks if mask.bit_count() > 1)
    every = 0
    for mask in masks:
        every |= mask
    scarcity = {block: (every & block).bit_count() / limit for block, limit in blocks if every & block}
    ordered: list[int] = []
    placed = 0
    while waiting:
        weights = [(_weight(mask & placed, scarcity), _weight(mask, scarcity)) for mask in waiting]
        chosen = waiting.pop(weights.index(max(weights)))
        ordered.append(chosen)
        placed |= chosen
    return tuple(ordered)


def _weight(mask: int, scarcity: Mapping[int, float]) -> float:
    return sum((mask & block).bit_count() * weight for block, weight in scarcity.items())


def _overlap_bound(masks: Sequence[int], blocks: Sequence[tuple[int, int]]) -> int:
    """A bound that counts slots as often as they have to be repeated to meet all their partners.

    A slot that has to be together with n others of a block with room for m beside it is in at least ceil(n / m) passes.
    """
    partners: dict[int, int] = {}
    for mask in masks:
        for bit in _bits(mask):
            partners[bit] = partners.get(bit, 0) | mask & ~bit
    copies = {bit: _least_copies(bit, others, blocks) for bit, others in partners.items()}
    return max(
        (_ceil(sum(count for bit, count in copies.items() if bit & block), limit) for block, limit in blocks), default=0
    )


def _least_copies(bit: int, others: int, blocks: Sequence[tuple[int, int]]) -> int:
    """The passes that one slot has to be in."""
    needed = [1]
    for block, limit in blocks:
        if others & block:
            needed.append(_ceil((others & block).bit_count(), limit - (1 if bit & block else 0)))
    return max(needed)


@dataclass(slots=True)
class _Search:
    """One search; `passes` are the slots taken so far."""

    blocks: tuple[tuple[int, int], ...]
    all_slots: int
    needs: tuple[int, ...]
    steps_left: int
    passes: list[int] = field(default_factory=list)

    def run(self, count: int, steps: int) -> list[int] | None:
        """`count` passes that hold everything, or None: there are none, or there are no steps left."""
        self.passes = [0] * count
        self.steps_left = steps
        return self._filled() if self._has_room() and self._place(0) else None

    def _place(self, position: int) -> bool:
        """Find a pass for every need from `position` on."""
        while position < len(self.needs) and self._is_held(self.needs[position]):
            position += 1
        if position == len(self.needs):
            return True
        need = self.needs[position]
        for number in self._candidates(need):
            before = self.passes[number]
            self.passes[number] = before | need
            if self._has_room() and self._place(position + 1):
                return True
            self.passes[number] = before
            if self.steps_left == 0:
                return False
            self.steps_left -= 1
        return False

    def _is_held(self, need: int) -> bool:
        return any(need & taken == need for taken in self.passes)

    def _candidates(self, need: int) -> list[int]:
        """Passes with room for it, the fewest new slots first; of equal ones only the first."""
        different = {taken: number for number, taken in reversed(list(enumerate(self.passes)))}
        fitting = [
            ((need & ~taken).bit_count(), number)
            for taken, number in different.items()
            if all(((taken | need) & block).bit_count() <= limit for block, limit in self.blocks)
        ]
        return [number for _, number in sorted(fitting)]

    def _has_room(self) -> bool:
        """Whether what is in no pass yet still fits, block by block."""
        missing = self._missing()
        return all(self._free(block, limit) >= (missing & block).bit_count() for block, limit in self.blocks)

    def _missing(self) -> int:
        held = 0
        for taken in self.passes:
            held |= taken
        return self.all_slots & ~held

    def _free(self, block: int, limit: int) -> int:
        return limit * len(self.passes) - sum((taken & block).bit_count() for taken in self.passes)

    def _filled(self) -> list[int]:
        """The passes with everything else in the first one with room: what sorts together stays together."""
        missing = self._missing()
        filled = list(self.passes)
        for block, limit in self.blocks:
            waiting = _bits(missing & block)
            for number, taken in enumerate(filled):
                room = limit - (taken & block).bit_count()
                filled[number] = taken | sum(waiting[:room])
                del waiting[:room]
        return filled


def _bits(mask: int) -> list[int]:
    """Its single bits, the lowest first."""
    bits = []
    while mask:
        bits.append(mask & -mask)
        mask &= mask - 1
    return bits


def _ceil(count: int, limit: int) -> int:
    return -(-count // limit)
