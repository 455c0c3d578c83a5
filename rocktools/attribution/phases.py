"""The phases of the ledger, and the phase that a name stack says.

The order of the rules is that of the design: rematerialized before backward, backward before forward. Collectives are
taken out before any of them, but keep the phase of their name stack. Nothing here knows components.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from rocktools.hlo.scopes import Phase, ScopePath


class BookedPhase(str, Enum):
    """The phase that time is booked under, in the order of the phase table."""

    FORWARD = "forward"
    BACKWARD = "backward"
    REMATERIALIZED = "rematerialized"
    LOSS = "loss"
    ACCUMULATION = "accumulation"
    OPTIMIZER = "optimizer"
    INPUT = "input"
    UNATTRIBUTED = "unattributed"

    def __str__(self) -> str:
        return self.value


OUTSIDE_PHASES = (BookedPhase.LOSS, BookedPhase.ACCUMULATION, BookedPhase.OPTIMIZER, BookedPhase.INPUT)
"""Phases of what is outside of the differentiated function: a component of the map says which."""

STACK_PHASES = {
    Phase.FORWARD: BookedPhase.FORWARD,
    Phase.BACKWARD: BookedPhase.BACKWARD,
    Phase.REMATERIALIZED: BookedPhase.REMATERIALIZED,
}
_STACK_ORDER = (Phase.REMATERIALIZED, Phase.BACKWARD, Phase.FORWARD)
STACK_RULES = {
    BookedPhase.REMATERIALIZED: "rematted-computation",
    BookedPhase.BACKWARD: "transpose-jvp",
    BookedPhase.FORWARD: "jvp",
}
"""Phase -> name of the rule that takes it from the name stack."""

# Which phases may wait for which within one step; what lost its phase lies between those of its operands and its users.
_FLOW = (
    *(BookedPhase.INPUT, BookedPhase.FORWARD, BookedPhase.LOSS, BookedPhase.REMATERIALIZED),
    *(BookedPhase.BACKWARD, BookedPhase.ACCUMULATION, BookedPhase.OPTIMIZER),
)


def phase_of_path(path: ScopePath) -> BookedPhase | None:
    """The phase that the name stack says; of merged paths that of the first rule which any of them meets.

    So a merged collective with one replayed member is rematerialized. None: no path has a token of a phase.
    """
    found = path.phases
    return next((STACK_PHASES[phase] for phase in _STACK_ORDER if phase in found), None)


def later_phase(phases: Iterable[BookedPhase]) -> BookedPhase | None:
    """The last of them, in the order of a step: of operands, where their user is at the earliest. None: no phase."""
    known = [phase for phase in phases if phase in _FLOW]
    return max(known, key=_FLOW.index) if known else None


def earlier_phase(phases: Iterable[BookedPhase]) -> BookedPhase | None:
    """The first of them, in the order of a step: of users, where their operand is at the latest. None: no phase."""
    known = [phase for phase in phases if phase in _FLOW]
    return min(known, key=_FLOW.index) if known else None
