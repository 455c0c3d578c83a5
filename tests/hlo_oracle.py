"""What two readings of one module differ in, and XLA's own parser as the judge of both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

import pytest

from rocktools.hlo.module import HloModule, Instruction

_COMMENT = re.compile(r"/\*.*?\*/")
_FIELDS = ("opcode", "shape", "operands", "called", "computation", "position", "is_root")
# Settings of the compilation, which are in the first line of text, and in no proto that XLA writes after parsing text.
_TEXT_ONLY = {
    *("num_partitions", "replica_count"),
    *("allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output"),
}


def require_xla() -> ModuleType:
    """XLA's HLO classes in jaxlib; the test is skipped where there are none."""
    hlo: ModuleType = pytest.importorskip("jaxlib._hlo")
    return hlo


def list_differences(left: HloModule, right: HloModule, *, but: frozenset[str] = frozenset()) -> list[str]:
    """One line for each thing that two readings do not agree in.

    Args:
        but: names of attributes, and of fields of metadata, that may differ.
    """
    return [line for line, what in _differences(left, right) if what not in but]


def _differences(left: HloModule, right: HloModule) -> Iterator[tuple[str, str]]:
    if set(left.computations) != set(right.computations):
        yield f"computations: {set(left.computations) ^ set(right.computations)}", "computations"
    if set(left.instructions) != set(right.instructions):
        yield f"instructions: {set(left.instructions) ^ set(right.instructions)}", "instructions"
    if left.entry_name != right.entry_name:
        yield f"entry: {left.entry_name} {right.entry_name}", "entry"
    for name in (set(left.attributes) | set(right.attributes)) - _TEXT_ONLY:
        if left.attributes.get(name) != right.attributes.get(name):
            yield f"module {name}: {left.attributes.get(name)} {right.attributes.get(name)}", name
    for name, one in left.instructions.items():
        other = right.instructions.get(name)
        if other is not None:
            yield from _instruction_differences(one, other)


def _instruction_differences(left: Instruction, right: Instruction) -> Iterator[tuple[str, str]]:
    for what in _FIELDS:
        if getattr(left, what) != getattr(right, what):
            yield f"{left.name} {what}: {getattr(left, what)} {getattr(right, what)}", what
    if _COMMENT.sub("", left.argument) != _COMMENT.sub("", right.argument):
        yield f"{left.name} argument: {left.argument} {right.argument}", "argument"
    for what in sorted(set(left.attributes) | set(right.attributes)):
        if what == "backend_config" and _settings(left) == _settings(right) is not None:
            continue
        if left.attributes.get(what) != right.attributes.get(what):
            yield f"{left.name} {what}: {left.attributes.get(what)} {right.attributes.get(what)}", what
    for what in left.metadata.__slots__:
        # Text numbers the frames anew, so that ids differ while file and line are the same.
        if what != "stack_frame_id" and getattr(left.metadata, what) != getattr(right.metadata, what):
            yield f"{left.name} {what}: {getattr(left.metadata, what)} {getattr(right.metadata, what)}", what


def _settings(instruction: Instruction) -> dict[str, object] | None:
    """The backend's settings as XLA of 2026 writes them anew: an empty list that older versions wrote is left out."""
    found = instruction.backend_config()
    if found.get("wait_on_operation_queues") == []:
        del found["wait_on_operation_queues"]
    return found or None
