"""Instructions and computations -> HLO text for people, in the order of XLA's own printer.

What is printed is what was read: attributes that a proto holds and the reader does not know are not there.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocktools.hlo.module import Computation, HloModule, Instruction
from rocktools.hlo.text_scan import escape

_CALL_NAMES = {
    "fusion": ("calls",),
    "call": ("to_apply",),
    "while": ("body", "condition"),  # as the proto lists them; printed the other way round
    "select-and-scatter": ("select", "scatter"),
    "async-start": ("calls",),
    "async-update": ("calls",),
    "async-done": ("calls",),
}
_STRINGS = frozenset({"custom_call_target", "async_execution_thread"})
# Attributes that XLA prints behind the computations an instruction calls; the last one behind the metadata, too.
_BEHIND_CALLS = ("sharding", "frontend_attributes", "control-predecessors", "origin", "statistics", "backend_config")


def render_instruction(instruction: Instruction) -> str:
    """The instruction in one line of HLO text, without what its metadata repeats (scheduling name, frame ids)."""
    root = "ROOT " if instruction.is_root else ""
    inner = instruction.argument or ", ".join(f"%{name}" for name in instruction.operands)
    parts = [f"{root}%{instruction.name} = {instruction.shape} {instruction.opcode}({inner})"]
    written = {name: f"{name}={_value(name, value)}" for name, value in instruction.attributes.items()}
    parts += [text for name, text in written.items() if name not in _BEHIND_CALLS]
    parts += _called(instruction)
    parts += [text for name, text in written.items() if name in _BEHIND_CALLS[:-1]]
    metadata = instruction.metadata
    said = [f'op_name="{escape(metadata.op_name)}"'] if metadata.op_name else []
    if metadata.source_file:
        said.append(f'source_file="{escape(metadata.source_file)}"')
        said += [f"source_line={metadata.source_line}"] if metadata.source_line else []
    if said:
        parts.append(f"metadata={{{' '.join(said)}}}")
    parts += [text for name, text in written.items() if name == _BEHIND_CALLS[-1]]
    return ", ".join(parts)


def render_computation(computation: Computation) -> str:
    """The computation in HLO text, one instruction a line."""
    entry = "ENTRY " if computation.is_entry else ""
    parameters = ", ".join(f"{each.name}: {each.shape.without_layout()}" for each in computation.parameters)
    result = computation.root.shape.without_layout() if computation.root is not None else "?"
    lines = [f"  {render_instruction(instruction)}" for instruction in computation.instructions]
    return "\n".join([f"{entry}%{computation.name} ({parameters}) -> {result} {{", *lines, "}"])


def render_stack(module: HloModule, instruction: Instruction) -> str:
    """The lines of source code behind an instruction, innermost first; "" where the module has no stack frames."""
    lines = []
    for frame_id in _frame_ids(module, instruction.metadata.stack_frame_id):
        frame = module.stack_frames[frame_id]
        lines.append(f"  {frame.file}:{frame.line} in {frame.function}")
    return "\n".join(lines)


def _frame_ids(module: HloModule, first: int) -> Iterator[int]:
    seen: set[int] = set()
    frame_id: int | None = first
    while frame_id and frame_id in module.stack_frames and frame_id not in seen:
        seen.add(frame_id)  # a table that was cut or damaged may lead in a circle
        yield frame_id
        frame_id = module.stack_frames[frame_id].parent_id


def _called(instruction: Instruction) -> list[str]:
    names = instruction.called
    if not names:
        return []
    if instruction.opcode == "conditional":
        return [f"branch_computations={{{', '.join(f'%{name}' for name in names)}}}"]
    if instruction.opcode == "custom-call":
        return [f"called_computations={{{', '.join(f'%{name}' for name in names)}}}"]
    keys = _CALL_NAMES.get(instruction.opcode, ("to_apply",))
    if len(keys) != len(names):
        return [f"called_computations={{{', '.join(f'%{name}' for name in names)}}}"]
    written = [f"{key}=%{name}" for key, name in zip(keys, names, strict=True)]
    return written[::-1] if instruction.opcode == "while" else written


def _value(name: str, value: str) -> str:
    """A value as XLA writes it: what readers took the quotes off gets them again."""
    is_string = name in _STRINGS or (name == "backend_config" and not value.startswith("{"))
    return f'"{escape(value)}"' if is_string else value
