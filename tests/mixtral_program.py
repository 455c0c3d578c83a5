"""The Mixtral-8x22B train step among the real files, as a compiled program."""

from __future__ import annotations

from pathlib import Path

from rocktools.hlo.module import Computation, HloModule, Instruction
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.shapes import Shape
from rocktools.hlo.thunk_reader import read_thunk_sequence

# Trip counts as the module's text says them (known_trip_count): microsteps, then layers forward and backward.
LOOPS = {"while.94": 2, "while.91": 56, "while.92": 56}


def mixtral_program(shared: Path, build: str) -> CompiledProgram:
    """Thunk sequence of `build` (triton, blaslt), and of the module only the loops."""
    stem = shared / "data" / "hlo" / "gfx950-mixtral-8x22b" / build / "module_0001.jit_step"
    loops = tuple(
        Instruction(
            name=name,
            opcode="while",
            shape=Shape(dtype="tuple"),
            computation="main",
            position=position,
            attributes={"backend_config": f'{{"known_trip_count":{{"n":"{trips}"}}}}'},
        )
        for position, (name, trips) in enumerate(LOOPS.items())
    )
    module = HloModule(
        name="jit_step",
        program_id=None,
        source=str(stem),
        computations={"main": Computation(name="main", instructions=loops, is_entry=True)},
        entry_name="main",
        is_scheduled=True,
    )
    return CompiledProgram(
        module=module,
        thunks=read_thunk_sequence(f"{stem}.thunk_sequence.txt", f"{stem}.thunk_metadata.txt"),
    )
