"""A fingerprint of each instruction: the same for the same work in another compilation of the program.

What counts: opcode, shapes with layouts, attributes that change the result, the structure of called computations, which
operands are the same value, and the scope. What does not: names, ids, channels, source lines, schedules, and what
autotuning chose (algorithms, tiles, workspaces). Twins, that is, instructions that do the same in the same scope, share
a fingerprint, and that is meant: nothing but their place tells them apart.

Large constants are elided in HLO text and whole in protos, so that fingerprints of computations with such a constant
differ between the two; compare text with text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rocktools.errors import RocktoolsError
from rocktools.hlo.cost_custom_calls import results_of
from rocktools.hlo.module import Computation, HloModule, Instruction
from rocktools.hlo.replica_groups import parse_replica_groups
from rocktools.hlo.scopes import op_name_of, parse_op_name

# Attributes that name, place or describe, and change no result.
_IDLE_ATTRIBUTES = frozenset(
    {"backend_config", "channel_id", "control-predecessors", "cross_program_prefetch_index", "frontend_attributes",
     "metadata", "origin", "parameter_replication", "schedule", "sharding", "statistics"}
)  # fmt: skip
# Keys of a backend_config that scheduling or autotuning wrote, at any depth.
_TUNED_KEYS = frozenset(
    {"algorithm", "autotune_workspace_size", "block_level_fusion_config", "collective_backend_config", "cost_model",
     "device_type", "force_earliest_schedule", "native_emitter_backend_config", "operation_queue_id",
     "outer_dimension_partitions", "reification_cost", "scoped_memory_configs", "selected_algorithm", "sizes",
     "triton_gemm_config", "wait_on_operation_queues", "window_config", "workspace_size"}
)  # fmt: skip
_NUMBERING = re.compile(r"(?:\.\d+)+\Z")
_DIGEST_BYTES = 8  # 16 hexadecimal digits: two of a million instructions collide with a probability of 3e-8
_CIRCLE = "circle"


def fingerprint_instructions(module: HloModule) -> Mapping[str, str]:
    """Instruction -> fingerprint, 16 hexadecimal digits, for every instruction of the module."""
    structure = _Structure(module=module)
    for name in _called_first(module):  # so that no chain of calls, however long, is followed by recursion
        structure.of_computation(name)
    return {
        instruction.name: _digest(
            structure.of_instruction(instruction),
            *_operands(module, instruction),
            _scope(module, instruction),
        )
        for instruction in module.instructions.values()
    }


@dataclass(slots=True, kw_only=True)
class _Structure:
    """Digests of instructions without their operands, and of computations with everything, each made once."""

    module: HloModule
    instructions: dict[str, str] = field(default_factory=dict)
    computations: dict[str, str] = field(default_factory=dict)

    def of_instruction(self, instruction: Instruction) -> str:
        found = self.instructions.get(instruction.name)
        if found is None:
            found = self.instructions[instruction.name] = _digest(
                instruction.opcode,
                _shape(instruction),
                instruction.argument if instruction.opcode in ("parameter", "constant") else "",
                *(
                    f"{name}={_value(name, text)}"
                    for name, text in sorted(instruction.attributes.items())
                    if _counts(name)
                ),
                json.dumps(_without_tuning(instruction.backend_config()), sort_keys=True),
                *(self.of_computation(name) for name in instruction.called),
            )
        return found

    def of_computation(self, name: str) -> str:
        """Of everything in it that nothing else in it uses, in no order: the result is one of these."""
        found = self.computations.get(name)
        if found is not None:
            return found
        self.computations[name] = _CIRCLE  # what a computation that calls itself finds; only a damaged module does
        computation = self.module.computations.get(name)
        deep: dict[str, str] = {}
        used: set[str] = set()
        for instruction in _operands_first(computation) if computation else ():
            used.update(instruction.operands)
            operands = (deep.get(operand, "") for operand in instruction.operands)
            deep[instruction.name] = _digest(self.of_instruction(instruction), str(instruction.is_root), *operands)
        found = _digest(*sorted(digest for instruction, digest in deep.items() if instruction not in used))
        self.computations[name] = found
        return found


def _called_first(module: HloModule) -> Iterator[str]:
    """Computations, each behind those that it calls."""
    done: set[str] = set()
    for name in module.computations:
        waiting = [name]
        asked: set[str] = set()
        while waiting:
            current = waiting[-1]
            if current not in asked and current not in done and current in module.computations:
                asked.add(current)
                instructions = module.computations[current].instructions
                waiting += [called for instruction in instructions for called in instruction.called]
                continue
            waiting.pop()
            if current not in done and current in module.computations:
                done.add(current)
                yield current


def _operands_first(computation: Computation) -> Iterator[Instruction]:
    """Instructions, each behind its operands; in the order of the computation where that is so already."""
    local = {instruction.name: instruction for instruction in computation.instructions}
    done: set[str] = set()
    for instruction in computation.instructions:
        waiting = [instruction]
        asked: set[str] = set()
        while waiting:
            current = waiting[-1]
            missing = [local[name] for name in current.operands if name in local and name not in done]
            if missing and current.name not in asked:
                asked.add(current.name)  # asked twice: operands go in a circle, which only a damaged module has
                waiting += missing
                continue
            waiting.pop()
            if current.name not in done:
                done.add(current.name)
                yield current


def _digest(*parts: str) -> str:
    joined = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(joined, digest_size=_DIGEST_BYTES).hexdigest()


def _shape(instruction: Instruction) -> str:
    """The shape; of a library call without its workspace, whose size is the autotuner's choice."""
    if instruction.opcode == "custom-call" and instruction.shape.is_tuple:
        return ", ".join(map(str, results_of(instruction)))
    return str(instruction.shape)


def _operands(module: HloModule, instruction: Instruction) -> Iterator[str]:
    """Of each operand its shape, and which operand it is the same as; not what made it."""
    first: dict[str, int] = {}
    for i, name in enumerate(instruction.operands):
        operand = module.instructions.get(name)
        yield f"{first.setdefault(name, i)} {_shape(operand) if operand else ''}"


def _value(attribute: str, text: str) -> str:
    """The value of an attribute; replica groups, which are printed in several ways, as their members."""
    if attribute != "replica_groups":
        return text
    try:
        return str(parse_replica_groups(text))
    except (RocktoolsError, ValueError):
        return text


def _counts(attribute: str) -> bool:
    return attribute not in _IDLE_ATTRIBUTES


def _without_tuning(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_tuning(inner) for key, inner in value.items() if key not in _TUNED_KEYS}
    return [_without_tuning(inner) for inner in value] if isinstance(value, list) else value


def _scope(module: HloModule, instruction: Instruction) -> str:
    """Phase, scopes and primitive, numbers that XLA appends (`broadcast.61`) left out.

    A name that was found somewhere inside of a fusion is not used: which one is found depends on the order.
    """
    found = op_name_of(module, instruction)
    if found is None or found.origin == "fused_inner":
        return ""
    path = parse_op_name(found.op_name)
    tokens = (*path.scopes, path.primitive)
    return "/".join((str(path.phase), *(_NUMBERING.sub("", token) for token in tokens)))
