"""Cost of a fusion: what its computation calculates, and what it touches of its parameters.

The computation is walked from its result to its parameters. Every instruction is asked for a number of elements, and
asks its operands for what it needs to make them. What a parameter was asked for is what is read of it, never more than
it has. Values between the instructions stay in registers, constants and iotas are made there: no bytes. Each element is
calculated once, also where a kernel calculates it again for each of several readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rocktools.hlo.cost_arithmetic import Arithmetic, NoCostRule, count_arithmetic
from rocktools.hlo.cost_collectives import count_collective, find_collective, measure_collective
from rocktools.hlo.cost_custom_calls import count_custom_call, results_of
from rocktools.hlo.cost_traffic import UPDATES, list_needs, size_of, updated_bytes
from rocktools.hlo.module import Computation, HloModule, Instruction

_VIEWS = frozenset({"bitcast", "reshape"})
_NESTED = frozenset({"fusion", "async-start", "call"})
_DEEPEST = 8  # fusions within fusions; XLA was seen to nest two levels


@dataclass(slots=True, kw_only=True)
class Touched:
    """What running a computation takes.

    Attributes:
        arithmetic: everything it calculates, each element once.
        parameters: elements read, by number of the parameter.
        written_bytes: of its results.
        payload_bytes: of the collectives in it; None where there are none.
    """

    arithmetic: Arithmetic = field(default_factory=Arithmetic)
    parameters: dict[int, int] = field(default_factory=dict)
    written_bytes: int = 0
    payload_bytes: int | None = None


def walk_computation(module: HloModule, name: str, asked: int | None = None, depth: int = 0) -> Touched:
    """What a fused computation touches and calculates if `asked` elements of its result are wanted (None: all).

    Raises:
        NoCostRule: it is not in the module, or holds something without a rule.
    """
    computation = module.computations.get(name)
    root = computation.root if computation else None
    if computation is None or root is None:
        raise NoCostRule(f"computation {name} is not in the module, or was cut before its result")
    if depth > _DEEPEST:
        raise NoCostRule("computations are nested too deeply, or in a circle")
    local = {instruction.name: instruction for instruction in computation.instructions}
    in_place = _updates_in_place(computation, root, local)
    walk = _Walk(module=module, local=local, in_place=in_place, depth=depth)
    walk.touched.written_bytes = _written(root, local, in_place)
    wanted = {name: local[name].shape.elements_count for name in in_place}
    wanted[root.name] = root.shape.elements_count if asked is None else asked
    for instruction in reversed(computation.instructions):
        count = min(wanted.get(instruction.name, 0), max(1, instruction.shape.elements_count))
        if not count:
            continue
        if instruction.parameter_number is not None:
            walk.touched.parameters[instruction.parameter_number] = count
            continue
        if instruction.shape.is_tuple:  # one of its values asks for all of them
            count = instruction.shape.elements_count
        for operand, needed in walk.ask(instruction, count):
            wanted[operand] = wanted.get(operand, 0) + needed
    return walk.touched


@dataclass(slots=True, kw_only=True)
class _Walk:
    """A walk through one computation: its instructions by name, which of them update in place, what was found."""

    module: HloModule
    local: Mapping[str, Instruction]
    in_place: frozenset[str]
    depth: int
    touched: Touched = field(default_factory=Touched)

    def ask(self, instruction: Instruction, count: int) -> Iterator[tuple[str, int]]:
        """Operands of an instruction and what it needs of each for `count` elements; adds what it calculates."""
        missing = next((name for name in instruction.operands if name not in self.local), None)
        if missing is not None:
            raise NoCostRule(f"operand {missing} of {instruction.name} inside of it is not in the module")
        if instruction.opcode in _NESTED:
            yield from self._ask_nested(instruction, count)
            return
        arithmetic = _count(self.module, instruction, self.touched)
        self.touched.arithmetic += arithmetic.share(count, max(1, instruction.shape.elements_count))
        shapes = [self.local[name].shape for name in instruction.operands]
        needs = list_needs(self.module, instruction, shapes, count, instruction.name in self.in_place)
        yield from zip(instruction.operands, needs, strict=True)

    def _ask_nested(self, instruction: Instruction, count: int) -> Iterator[tuple[str, int]]:
        if not instruction.called:
            raise NoCostRule(f"{instruction.name} inside of it calls nothing")
        asked = None if instruction.shape.is_tuple else count
        inner = walk_computation(self.module, instruction.called[0], asked, self.depth + 1)
        self.touched.arithmetic += inner.arithmetic
        if inner.payload_bytes is not None:
            self.touched.payload_bytes = inner.payload_bytes + (self.touched.payload_bytes or 0)
        for number, needed in inner.parameters.items():
            yield instruction.operands[number], needed


def _count(module: HloModule, instruction: Instruction, touched: Touched) -> Arithmetic:
    """What an inner instruction calculates; library calls and collectives stand in fusions that slice for them."""
    if instruction.opcode == "custom-call":
        return count_custom_call(instruction, [module.instructions[name].shape for name in instruction.operands])
    if find_collective(instruction) is None:
        return count_arithmetic(module, instruction)
    payload = measure_collective(module, instruction)[2]
    touched.payload_bytes = payload + (touched.payload_bytes or 0)
    return count_collective(module, instruction)


def _results(root: Instruction, local: Mapping[str, Instruction]) -> list[Instruction]:
    """The instructions whose values leave the computation."""
    if root.opcode != "tuple":
        return [root]
    return [local[name] for name in dict.fromkeys(root.operands) if name in local]


def _behind_views(instruction: Instruction, local: Mapping[str, Instruction]) -> Instruction:
    for _ in local:  # not for ever: a damaged module may have a view of itself
        if instruction.opcode not in _VIEWS or not instruction.operands or instruction.operands[0] not in local:
            break
        instruction = local[instruction.operands[0]]
    return instruction


def _updates_in_place(computation: Computation, root: Instruction, local: Mapping[str, Instruction]) -> frozenset[str]:
    """Updates whose target is a parameter that is otherwise only sliced, and whose value leaves the computation.

    XLA gives such a result the buffer of the parameter, or copies it before, in an instruction of its own
    (its `CanEmitFusedDynamicUpdateSliceInPlaceForGpu`). One on top of the other counts, too.
    """
    found: set[str] = set()
    for result in _results(root, local):
        chain: list[str] = []
        below = _behind_views(result, local)
        while below.opcode in UPDATES and below.operands and below.operands[0] in local and below.name not in chain:
            chain.append(below.name)
            below = _behind_views(local[below.operands[0]], local)
        if chain and below.opcode == "parameter" and _only_updated(below.name, computation, frozenset(chain)):
            found.update(chain)
    return frozenset(found)


def _only_updated(parameter: str, computation: Computation, chain: frozenset[str]) -> bool:
    """Whether, views aside, only slices and the updates of `chain` use the parameter."""
    names = {parameter}
    for instruction in computation.instructions:
        if not names.isdisjoint(instruction.operands):
            if instruction.opcode in _VIEWS:
                names.add(instruction.name)
            elif instruction.name not in chain and instruction.opcode not in ("slice", "dynamic-slice"):
                return False
    return True


def _written(root: Instruction, local: Mapping[str, Instruction], in_place: frozenset[str]) -> int:
    written = 0
    for result in _results(root, local):
        below = _behind_views(result, local)
        if below.name not in in_place:
            written += 0 if _is_workspace(result, local) else size_of(result.shape)
            continue
        while below.name in in_place:
            written += updated_bytes(below, [local[name].shape for name in below.operands])
            below = _behind_views(local[below.operands[0]], local)
    return written


def _is_workspace(result: Instruction, local: Mapping[str, Instruction]) -> bool:
    """Whether it is the scratch memory of a library call."""
    call = local.get(result.operands[0]) if result.opcode == "get-tuple-element" and result.operands else None
    if call is None or call.opcode != "custom-call":
        return False
    return int(result.attributes.get("index", "0")) >= len(results_of(call))
