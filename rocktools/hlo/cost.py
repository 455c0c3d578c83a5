"""What one execution of each instruction costs, as the compiled program says: FLOPs, bytes, payload of collectives.

Everything is a compiler estimate: computed from shapes and attributes, with no knowledge of caches, of what a library
really does, or of run-time sizes. The conventions, and where XLA's own cost analysis differs, are in
docs/decisions/0010-cost-from-the-module.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocktools.evidence import Evidence
from rocktools.hlo.cost_arithmetic import NoCostRule, count_arithmetic, operand_shapes
from rocktools.hlo.cost_collectives import count_collective, find_collective, measure_collective
from rocktools.hlo.cost_custom_calls import count_custom_call, is_free, results_of
from rocktools.hlo.cost_fusion import walk_computation
from rocktools.hlo.cost_traffic import measure_instruction, read_bytes_of, size_of
from rocktools.hlo.module import HloModule, Instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of one execution of an instruction on one device. None where nothing can be said; `reason` says why.

    Attributes:
        compute_flop: floating-point operations, transcendental ones aside.
        transcendental_count: exponentials, logarithms, roots, ...
        read_bytes: each operand once, as much of it as is touched.
        written_bytes: of the result; of an update in place, the update.
        payload_bytes: of a collective, per device, the larger of input and result; None for everything else.
        reason: why a value is None; "" where none is, the payload aside.
    """

    compute_flop: int | None
    transcendental_count: int | None
    read_bytes: int | None
    written_bytes: int | None
    payload_bytes: int | None = None
    reason: str = ""

    @property
    def evidence(self) -> Evidence:
        return Evidence.COMPILER_ESTIMATE


FREE = Cost(compute_flop=0, transcendental_count=0, read_bytes=0, written_bytes=0)

_FREE = frozenset(
    {"add-dependency", "after-all", "async-update", "bitcast", "constant", "domain", "get-tuple-element",
     "opt-barrier", "optimization-barrier", "parameter", "tuple"}
)  # fmt: skip
_DONE = "-done"
# They run other computations, whose instructions have costs of their own.
_RUNNING = frozenset({"while", "conditional", "call"})


def estimate_costs(module: HloModule) -> Mapping[str, Cost]:
    """Instruction -> cost of one execution, for every instruction of the module.

    An instruction within a fusion, a reduction or an asynchronous computation is counted in the instruction that calls
    this, and has no cost of its own, so that costs can be added up: over all instructions, each times its calls.
    """
    inside = _find_inside(module)
    return {
        instruction.name: _absent(f"counted in its caller {inside[instruction.computation]}")
        if instruction.computation in inside
        else estimate_cost(module, instruction)
        for instruction in module.instructions.values()
    }


def estimate_cost(module: HloModule, instruction: Instruction) -> Cost:
    """Cost of one execution of `instruction`, as if it stood in no fusion."""
    if instruction.opcode in _RUNNING:
        return _absent(f"counted inside: the instructions that a {instruction.opcode} runs have costs of their own")
    try:
        return _estimate(module, instruction)
    except NoCostRule as error:
        return _absent(str(error))
    except (ValueError, IndexError, KeyError, ZeroDivisionError):
        return _absent("its attributes do not fit its shapes, or cannot be read")


def _estimate(module: HloModule, instruction: Instruction) -> Cost:
    opcode = instruction.opcode
    if opcode in _FREE or opcode.endswith(_DONE):
        return FREE
    if opcode == "fusion":
        return _estimate_fusion(module, instruction)
    if opcode == "async-start":
        return _estimate_async(module, instruction)
    if find_collective(instruction) is not None:
        return _estimate_collective(module, instruction)
    if opcode == "custom-call":
        return _estimate_custom_call(module, instruction)
    arithmetic = count_arithmetic(module, instruction)
    read, written = measure_instruction(module, instruction)
    if opcode in ("copy-start", "send"):  # they return their operand, too
        written = size_of(instruction.shape.elements[0])
    return Cost(
        compute_flop=arithmetic.flop,
        transcendental_count=arithmetic.transcendental_count,
        read_bytes=read,
        written_bytes=written,
    )


def _estimate_fusion(module: HloModule, fusion: Instruction) -> Cost:
    if not fusion.called:
        raise NoCostRule("its computation is not in the module")
    touched = walk_computation(module, fusion.called[0])
    return Cost(
        compute_flop=touched.arithmetic.flop,
        transcendental_count=touched.arithmetic.transcendental_count,
        read_bytes=read_bytes_of(module, fusion, touched.parameters),
        written_bytes=touched.written_bytes,
        payload_bytes=touched.payload_bytes,
    )


def _estimate_async(module: HloModule, start: Instruction) -> Cost:
    """The cost of everything that the start launches."""
    computation = module.computations.get(start.called[0]) if start.called else None
    if computation is None:
        raise NoCostRule("its computation is not in the module")
    total = FREE
    for instruction in computation.instructions:
        if instruction.opcode == "async-start":
            raise NoCostRule("it launches another asynchronous start")
        total = _add(total, estimate_cost(module, instruction))
    return total


def _estimate_collective(module: HloModule, instruction: Instruction) -> Cost:
    read, written, payload = measure_collective(module, instruction)
    try:
        arithmetic, reason = count_collective(module, instruction), ""
    except NoCostRule as error:  # its bytes are known all the same
        arithmetic, reason = None, str(error)
    return Cost(
        compute_flop=None if arithmetic is None else arithmetic.flop,
        transcendental_count=None if arithmetic is None else arithmetic.transcendental_count,
        read_bytes=read,
        written_bytes=written,
        payload_bytes=payload,
        reason=reason,
    )


def _estimate_custom_call(module: HloModule, call: Instruction) -> Cost:
    if is_free(call):
        return FREE
    operands = operand_shapes(module, call)
    arithmetic = count_custom_call(call, operands)
    return Cost(
        compute_flop=arithmetic.flop,
        transcendental_count=arithmetic.transcendental_count,
        read_bytes=read_bytes_of(module, call, {i: shape.elements_count for i, shape in enumerate(operands)}),
        written_bytes=sum(size_of(shape) for shape in results_of(call)),
    )


def _find_inside(module: HloModule) -> dict[str, str]:
    """Computations that are not run instruction by instruction -> the instruction that they are counted in."""
    inside: dict[str, str] = {}
    waiting = [
        (name, caller.name)
        for caller in module.instructions.values()
        if caller.opcode not in _RUNNING
        for name in caller.called
    ]
    while waiting:
        name, caller = waiting.pop()
        if name in inside or name not in module.computations:
            continue
        inside[name] = caller
        waiting += [(inner, caller) for below in module.computations[name].instructions for inner in below.called]
    return inside


def _add(first: Cost, second: Cost) -> Cost:
    return Cost(
        compute_flop=_sum(first.compute_flop, second.compute_flop),
        transcendental_count=_sum(first.transcendental_count, second.transcendental_count),
        read_bytes=_sum(first.read_bytes, second.read_bytes),
        written_bytes=_sum(first.written_bytes, second.written_bytes),
        payload_bytes=first.payload_bytes
        if second.payload_bytes is None
        else (first.payload_bytes or 0) + second.payload_bytes,
        reason=first.reason or second.reason,
    )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _absent(reason: str) -> Cost:
    return Cost(compute_flop=None, transcendental_count=None, read_bytes=None, written_bytes=None, reason=reason)
