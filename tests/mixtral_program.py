"""The Mixtral-8x22B train step among the real files, as a compiled program."""

from __future__ import annotations

from pathlib import Path

from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.hlo.thunk_reader import read_thunk_sequence

# Trip counts as the text says them (known_trip_count): microsteps, then layers forward and backward.
LOOPS = {"while.94": 2, "while.91": 56, "while.92": 56}


def mixtral_program(shared: Path, build: str) -> CompiledProgram:
    """`build` is triton or blaslt."""
    stem = shared / "data" / "hlo" / "gfx950-mixtral-8x22b" / build / "module_0001.jit_step"
    path = Path(f"{stem}.gfx950_gpu_after_optimizations.txt")
    return CompiledProgram(
        module=parse_hlo_text(path.read_text(encoding="utf-8"), str(path)),
        thunks=read_thunk_sequence(f"{stem}.thunk_sequence.txt", f"{stem}.thunk_metadata.txt"),
    )
