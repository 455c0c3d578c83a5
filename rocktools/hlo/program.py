"""One compiled program with everything its dump says: the module, and the order in which it launches."""

from __future__ import annotations

from dataclasses import dataclass

from rocktools.hlo.module import HloModule
from rocktools.hlo.thunks import ThunkSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """A module, and its thunk sequence where the dump has one (None elsewhere)."""

    module: HloModule
    thunks: ThunkSequence | None
