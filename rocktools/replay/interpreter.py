"""A whole optimized program, run on the CPU as lax code: the real operands of any instruction, in any loop iteration.

Loops and branches run in Python, so that every value outside of fusions passes by. It is for small jobs: nothing is
fused beyond the program's own fusions, and everything is computed on this machine's CPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rocktools.errors import CannotExtract, InputError, UsageError
from rocktools.hlo.module import HloModule, Instruction
from rocktools.replay.bundled_inputs import make_input, unpack_saved
from rocktools.replay.proto_edit import ProgramProto
from rocktools.replay.readable import render_readable
from rocktools.replay.readable_literals import NotTranslatable
from rocktools.replay.readable_texts import FUNCTIONS, IMPORTS
from rocktools.replay.roles import find_meaning

OPERANDS_SCHEMA = "rocktools.operands/1"
# Conversions that are left in an optimized program are meant: XLA is not to drop them.
_EXACT = {"xla_allow_excess_precision": False}
_ARGUMENT_BYTES_AT_MOST = 8 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CapturedOperands:
    """What an instruction read and made, once.

    Attributes:
        instruction: which.
        iterations: of the enclosing loops, from outside in; () outside of loops.
        executions_count: how often it ran in the whole program.
        operands: in order.
        results: the leaves of what it made.
    """

    instruction: Instruction
    iterations: tuple[int, ...]
    executions_count: int
    operands: tuple[np.ndarray[Any, Any], ...]
    results: tuple[np.ndarray[Any, Any], ...]


@dataclass(slots=True, kw_only=True)
class _Recorder:
    """Sees every value, and keeps those of one instruction."""

    instruction: Instruction
    wanted: tuple[int, ...] | None
    loops: list[int] = field(default_factory=list)
    latest: dict[str, Any] = field(default_factory=dict)
    executions_count: int = 0
    kept: tuple[tuple[int, ...], list[Any], Any] | None = None
    compiled: dict[Callable[..., Any], Any] = field(default_factory=dict)

    def record(self, name: str, value: Any) -> None:
        if name in self.instruction.operands:
            self.latest[name] = value
        if name != self.instruction.name:
            return
        self.executions_count += 1
        is_wanted = self.wanted is None or tuple(self.loops) == self.wanted
        if is_wanted and self.kept is None:
            self.kept = (tuple(self.loops), [self.latest[each] for each in self.instruction.operands], value)

    def run_loop(self, condition: Callable[[Any], Any], body: Callable[[Any], Any], value: Any) -> Any:
        self.loops.append(0)
        while bool(condition(value)):
            value = body(value)
            self.loops[-1] += 1
        self.loops.pop()
        return value

    def run_branch(self, index: Any, branches: Sequence[Callable[[Any], Any]], operands: Any) -> Any:
        number = int(index)
        # An index out of bounds means the last branch.
        return branches[number if 0 <= number < len(branches) else -1](operands)

    def run_fusion(self, function: Callable[..., Any], *operands: Any) -> Any:
        import jax

        if function not in self.compiled:
            self.compiled[function] = jax.jit(function, compiler_options=_EXACT)
        return self.compiled[function](*operands)


def capture_operands(
    module: HloModule,
    proto: ProgramProto,
    instruction_name: str,
    arguments: Sequence[np.ndarray[Any, Any]],
    *,
    iterations: tuple[int, ...] | None = None,
) -> CapturedOperands:
    """The operands and results of an instruction, from a run of the whole program on the CPU.

    Args:
        module: the optimized program, of one device.
        proto: of the same program, for the values of its constants.
        instruction_name: which instruction; outside of fusions.
        arguments: of the program, in order, row-major.
        iterations: of the enclosing loops, from outside in; None for the first execution.

    Raises:
        CannotExtract: the program, or an instruction in it, cannot be run as lax code; it is named.
        UsageError: the instruction does not exist, or never ran in that iteration.
        MissingExtra: jax is not installed.
    """
    instruction = _require_instruction(module, instruction_name)
    results, recorder = _run(module, proto, instruction, arguments, iterations)
    del results
    if recorder.kept is None:
        ran = f"it ran {recorder.executions_count} times" if recorder.executions_count else "it never ran"
        path = "" if iterations is None else f" in iteration {'/'.join(map(str, iterations))}"
        raise UsageError(
            "instruction-not-run", f"{instruction_name} was not run{path}: {ran}", hint="--iteration, from 0"
        )
    path_of_loops, operands, made = recorder.kept
    return CapturedOperands(
        instruction=instruction,
        iterations=path_of_loops,
        executions_count=recorder.executions_count,
        operands=tuple(np.asarray(each) for each in operands),
        results=tuple(np.asarray(each) for each in _leaves(made)),
    )


def interpret_program(
    module: HloModule, proto: ProgramProto, arguments: Sequence[np.ndarray[Any, Any]]
) -> tuple[np.ndarray[Any, Any], ...]:
    """The results of a whole program of one device, run as lax code on the CPU.

    Raises:
        CannotExtract: an instruction in it has no form in lax; it is named.
    """
    entry = module.entry
    assert entry is not None
    assert entry.root is not None
    results, _ = _run(module, proto, entry.root, arguments, None)
    return tuple(np.asarray(each) for each in _leaves(results))


def _run(
    module: HloModule,
    proto: ProgramProto,
    instruction: Instruction,
    arguments: Sequence[np.ndarray[Any, Any]],
    iterations: tuple[int, ...] | None,
) -> tuple[Any, _Recorder]:
    from rocktools.extras import require_extra

    jax = require_extra("jax", "jax", "running a program as lax code")
    literals = {name: each.literal for name, each in proto.instructions.items() if each.opcode == "constant"}
    _require_one_device(module)
    try:
        program = render_readable(module, literals, is_recording=True)
    except NotTranslatable as reason:
        raise CannotExtract(
            "program-not-translatable", f"{module.name} cannot be run as lax code: {reason}", where=module.source
        ) from reason
    recorder = _Recorder(instruction=instruction, wanted=iterations)
    names: dict[str, Any] = {
        "record": recorder.record,
        "run_loop": recorder.run_loop,
        "run_branch": recorder.run_branch,
        "run_fusion": recorder.run_fusion,
    }
    enable = getattr(jax, "enable_x64", None)
    if enable is None:
        enable = require_extra("jax.experimental", "jax", "running a program as lax code").enable_x64
    with enable(True), jax.default_device(jax.devices("cpu")[0]):
        exec(compile(f"{IMPORTS}{FUNCTIONS}\n\n{program.text}", f"<{module.name}>", "exec"), names)
        # numpy's: jax compares where a window starts from with 0 as it traces, and cannot with an array of its own.
        names["constants"] = program.constants
        results = names[program.function](*(jax.numpy.asarray(each) for each in arguments))
    return results, recorder


def _leaves(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, tuple) else [value]


def _require_instruction(module: HloModule, name: str) -> Instruction:
    instruction = module.instructions.get(name.removeprefix("%"))
    if instruction is None:
        raise UsageError(
            "unknown-instruction", f"{module.name} has no instruction {name!r}", hint="rocktools hlo list names them"
        )
    inner = [each for each in module.callers.get(instruction.computation, ()) if each.opcode == "fusion"]
    if inner:
        what = f"{name} is a part of {inner[0].name}, whose inner values are not seen"
        raise CannotExtract("inside-another-instruction", what, hint=f"--instruction {inner[0].name}")
    return instruction


def _require_one_device(module: HloModule) -> None:
    for attribute in ("num_partitions", "replica_count"):
        count = module.attributes.get(attribute, "1")
        if count != "1":
            what = f"{module.name} is a program of {count} devices, and one CPU runs only programs of one"
            raise CannotExtract(
                "program-of-several-devices", what, hint="compile the job for one device, with small sizes"
            )


def make_arguments(module: HloModule, folder: Path | None, seed: str) -> list[np.ndarray[Any, Any]]:
    """The arguments of a program: `argument0.npy`, ... of a folder; made up by what they mean where there is none.

    Raises:
        InputError: a file is of another shape or type, or cannot be read.
        CannotExtract: the program has no entry, or arguments that no array is, or that are too large for this.
    """
    entry = module.entry
    if entry is None:
        raise CannotExtract("entry-missing", f"{module.name} has no entry: the file was cut", where=module.source)
    total = 0
    for parameter in entry.parameters:
        if parameter.shape.is_tuple:
            raise CannotExtract("tuple-parameter", f"argument {parameter.argument} of {module.name} is a tuple")
        total += parameter.shape.size_bytes
    if total > _ARGUMENT_BYTES_AT_MOST:
        what = f"the arguments of {module.name} take {total:,} bytes, more than {_ARGUMENT_BYTES_AT_MOST:,}"
        raise CannotExtract("program-too-large", what, hint="compile the same job with small sizes, and capture there")
    found = []
    for number, parameter in enumerate(entry.parameters):
        path = None if folder is None else folder / f"argument{number}.npy"
        if path is not None and path.exists():
            found.append(_load(path, parameter))
            continue
        meaning = find_meaning(module, entry, parameter)
        description: dict[str, Any] = {
            "name": parameter.name,
            "dtype": parameter.shape.dtype,
            "dimensions": list(parameter.shape.dimensions),
            "role": str(meaning.role),
            "is_sorted": meaning.is_sorted,
            "is_unique": meaning.is_unique,
        }
        if meaning.bound is not None:
            description["bound"] = meaning.bound
        found.append(make_input(description, seed))
    return found


def _load(path: Path, parameter: Instruction) -> np.ndarray[Any, Any]:
    try:
        values = unpack_saved(np.load(path, allow_pickle=False), parameter.shape.dtype)
    except (OSError, ValueError, TypeError) as error:
        raise InputError("argument-unreadable", f"the array cannot be used: {error}", where=str(path)) from error
    if values.shape != parameter.shape.dimensions:
        what = f"the array has the shape {list(values.shape)}, the program needs {list(parameter.shape.dimensions)}"
        raise InputError("argument-of-another-shape", what, where=str(path))
    return values


def write_operands(captured: CapturedOperands, folder: Path) -> Path:
    """The folder that `--inputs` of a replay takes: one .npy for each operand and result, and operands.json.

    Raises:
        InputError: the folder holds something, or cannot be written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError("folder-in-use", "the folder for the operands holds something", where=str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        listing: dict[str, Any] = {
            "schema": OPERANDS_SCHEMA,
            "instruction": captured.instruction.name,
            "iterations": list(captured.iterations),
            "executions_count": captured.executions_count,
            "operands": [],
            "results": [],
        }
        for kind, arrays in (("operand", captured.operands), ("result", captured.results)):
            for number, values in enumerate(arrays):
                name = f"{kind}{number}.npy"
                np.save(folder / name, values, allow_pickle=False)
                listing[f"{kind}s"].append(_described(kind, number, name, values))
        target = folder / "operands.json"
        target.write_text(json.dumps(listing, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError("cannot-write", f"the operands cannot be written: {error}", where=str(folder)) from error
    return target


def _described(kind: str, number: int, name: str, values: np.ndarray[Any, Any]) -> Mapping[str, Any]:
    return {kind: number, "file": name, "dtype": str(values.dtype), "dimensions": list(values.shape)}
