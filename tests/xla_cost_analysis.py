"""XLA's own cost analysis of one instruction at a time, and how XLA counts operations, told again from the module.

`HloCostAnalysis` (xla/service/hlo_cost_analysis.cc) gives sums over a module only; so each instruction is put into a
module of its own, with parameters for its operands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rocktools.hlo.cost_arithmetic import count_arithmetic
from rocktools.hlo.module import HloModule, Instruction

_HEAD = re.compile(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{\Z")
_NAME = re.compile(r"\s*(?:ROOT )?%?([\w.\-]+) = ")
_PREDECESSORS = re.compile(r", control-predecessors=\{[^}]*\}")
_METADATA = re.compile(r', metadata=\{(?:[^{}"]|"(?:\\.|[^"\\])*")*\}')
# Elementwise operations that XLA counts and rocktools does not, besides everything on integers.
_COUNTED_BY_XLA = frozenset(
    {"and", "or", "xor", "not", "shift-left", "shift-right-arithmetic", "shift-right-logical", "compare", "select",
     "convert", "is-finite", "popcnt", "count-leading-zeros", "reduce-precision", "add", "subtract", "multiply",
     "divide", "remainder", "maximum", "minimum", "negate", "abs", "sign", "floor", "ceil", "round-nearest-even",
     "round-nearest-afz", "clamp"}
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class XlaCost:
    flop: float
    transcendental_count: float
    total_bytes: float


@dataclass(frozen=True, kw_only=True)
class SourceText:
    """HLO text, as lines by instruction and as blocks by computation."""

    module: HloModule
    lines: Mapping[str, str]
    blocks: Mapping[str, str]

    def alone(self, instruction: Instruction) -> str:
        """A module of one instruction and what it calls."""
        attributes = self.module.attributes
        kept = (f", {name}={attributes[name]}" for name in ("num_partitions", "replica_count") if name in attributes)
        shapes = {name: self.module.instructions[name].shape for name in instruction.operands}
        line = self.lines[instruction.name].strip().removeprefix("ROOT ")
        return "\n".join(
            [
                f"HloModule alone{''.join(kept)}",
                *(self.blocks[name] for name in self._called(instruction)),
                "ENTRY %alone_entry {",
                *(f"%{name} = {shape} parameter({i})" for i, (name, shape) in enumerate(shapes.items())),
                f"ROOT {line}",
                "}",
            ]
        )

    def _called(self, instruction: Instruction) -> list[str]:
        """Computations that it calls, each behind those that it calls itself."""
        done: dict[str, None] = {}

        def visit(names: tuple[str, ...]) -> None:
            for name in names:
                if name not in done:
                    for inner in self.module.computations[name].instructions:
                        visit(inner.called)
                    done[name] = None

        visit(instruction.called)
        return list(done)


def split_source(module: HloModule, text: str) -> SourceText:
    """Of a complete dump; without metadata, whose frames the small modules would lack."""
    lines: dict[str, str] = {}
    blocks: dict[str, list[str]] = {}
    current = ""
    for line in text.splitlines():
        line = _PREDECESSORS.sub("", _METADATA.sub("", line))
        head = None if current else _HEAD.match(line)
        if head:
            current = head[1]
        if current:
            blocks.setdefault(current, []).append(line)
            found = _NAME.match(line)
            if found:
                lines[found[1]] = line
        if line == "}":
            current = ""
    return SourceText(module=module, lines=lines, blocks={name: "\n".join(block) for name, block in blocks.items()})


def analyze_alone(client: Any, source: SourceText, instruction: Instruction) -> XlaCost:
    """What XLA says; -1 for what it does not know."""
    import jaxlib._hlo
    import jaxlib.xla_client

    parsed = jaxlib._hlo.hlo_module_from_text(source.alone(instruction))
    found = jaxlib.xla_client._xla.hlo_module_cost_analysis(client, parsed)
    return XlaCost(
        flop=found.get("flops", 0),
        transcendental_count=found.get("transcendentals", 0),
        total_bytes=found.get("bytes accessed", 0),
    )


def count_as_xla(module: HloModule, instruction: Instruction) -> int:
    """Operations by XLA's conventions: every element of an elementwise result counts, whatever its type."""
    opcode = instruction.opcode
    if opcode in _COUNTED_BY_XLA:
        return instruction.shape.elements_count
    if opcode in ("dot", "convolution"):
        return count_arithmetic(module, instruction).flop
    if opcode == "fusion":
        return sum(count_as_xla(module, inner) for inner in _inner(module, instruction))
    if opcode not in ("reduce", "reduce-window", "scatter"):
        return 0
    result = next(instruction.shape.leaves()).elements_count
    first, last = (module.instructions[instruction.operands[i]].shape.elements_count for i in (0, -1))
    size = re.search(r"size=([\dx]+)", instruction.attributes.get("window", ""))
    window = math.prod(map(int, size[1].split("x"))) if size else 0
    applications = {"reduce": first - result, "reduce-window": (window - 1) * result, "scatter": last}[opcode]
    return applications * sum(count_as_xla(module, inner) for inner in _inner(module, instruction))


def _inner(module: HloModule, instruction: Instruction) -> Iterator[Instruction]:
    for name in instruction.called:
        yield from module.computations[name].instructions
