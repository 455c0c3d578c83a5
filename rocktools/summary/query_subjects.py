"""A name in a question -> the operations, component, scope or kernel of the summary that it means.

The same word may name several things. The order is: instruction, component, named scope, kernel, phase; first as
typed, then in any case, then with blanks and hyphens as underscores. A phase may stand before or behind a name: `wi_0
forward`, `forward wi_0`, `the backward pass of attention`, `attention in backward`; or alone: `the backward pass`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from rocktools.attribution.phases import BookedPhase
from rocktools.errors import UsageError, nearest_names
from rocktools.summary.document import Missing, Operation, Summary

PHASE_WORDS = {
    **dict.fromkeys(("forward", "fwd"), BookedPhase.FORWARD.value),
    **dict.fromkeys(("backward", "bwd"), BookedPhase.BACKWARD.value),
    **dict.fromkeys(
        ("rematerialized", "rematerialised", "rematerialization", "remat", "replay", "replayed", "recomputed"),
        BookedPhase.REMATERIALIZED.value,
    ),
    "recomputation": BookedPhase.REMATERIALIZED.value,
}
_PHASE = "|".join(PHASE_WORDS)
_PHASE_ALONE = re.compile(rf"(?:the )?({_PHASE})(?: pass| phase)?", re.IGNORECASE)
_WITH_PHASE = (
    re.compile(rf"(?:the )?(?P<phase>{_PHASE})(?: pass| phase)? (?:of|in|for) (?:the )?(?P<name>.+)", re.IGNORECASE),
    re.compile(
        rf"(?P<name>.+?) (?:(?:in|of|during) )?(?:the )?\(?(?P<phase>{_PHASE})\)?(?: pass| phase)?", re.IGNORECASE
    ),
    re.compile(rf"(?:the )?(?P<phase>{_PHASE})(?: pass| phase)? (?P<name>.+)", re.IGNORECASE),
)


class SubjectKind(str, Enum):
    """What a name means."""

    INSTRUCTION = "instruction"
    COMPONENT = "component"
    SCOPE = "scope"
    KERNEL = "kernel"
    PHASE = "phase"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a name in a question means.

    Attributes:
        kind: of name; name: as the summary has it.
        phase: of the question; None for all.
        operations: places in `operations.operations`, and what is there, the longest first.
    """

    kind: SubjectKind
    name: str
    phase: str | None
    operations: tuple[tuple[int, Operation], ...]

    @property
    def title(self) -> str:
        """For people: `wi_0, forward`."""
        return self.name if self.phase is None else f"{self.name}, {self.phase}"


def find_subject(summary: Summary, text: str) -> Subject:
    """What the name means.

    Raises:
        UsageError: there is nothing of that name, or it did not run in that phase.
    """
    known = _known_names(summary)
    for name, phase in _readings(text):
        found = _match(known, name)
        if found is None:
            continue
        kind, exact = found
        operations = tuple(_operations_of(summary, kind, exact))
        phases = sorted({each.phase for _, each in operations} | _phases_of(summary, kind, exact))
        if phase is not None and phases and phase not in phases:
            raise UsageError(
                "nothing-in-phase",
                f"nothing of the {kind} {exact!r} is booked under {phase}",
                hint=f"it ran in: {', '.join(phases)}",
            )
        return Subject(
            kind=kind,
            name=exact,
            phase=phase,
            operations=tuple((at, each) for at, each in operations if phase is None or each.phase == phase),
        )
    raise unknown_name(summary, _readings(text)[-1][0])


def unknown_name(summary: Summary, name: str) -> UsageError:
    """The error for a name that means nothing, with those that look like it."""
    names = {each for names in _known_names(summary).values() for each in names}
    near = nearest_names(name, names)
    if not near:
        near = sorted((each for each in names if name.lower() in each.lower()), key=lambda each: (len(each), each))[:3]
    return UsageError(
        "unknown-subject",
        f"there is no instruction, component, scope or kernel {name!r} in this summary",
        hint=", ".join(near) if near else "rocktools query SUMMARY 'what are the top ops?' shows some names",
    )


def phase_of(text: str) -> str:
    """The phase that a word names."""
    return PHASE_WORDS[text.strip().lower()]


def _readings(text: str) -> list[tuple[str, str | None]]:
    """The whole text as a name, then names with a phase beside them."""
    plain = " ".join(text.split()).lstrip("%")
    found: list[tuple[str, str | None]] = [(plain, None)]
    alone = _PHASE_ALONE.fullmatch(plain)
    if alone is not None:
        return [*found, (phase_of(alone[1]), None)]
    for pattern in _WITH_PHASE:
        match = pattern.fullmatch(plain)
        if match is not None:
            found.append((match["name"], phase_of(match["phase"])))
    return found


_Names = dict[SubjectKind, dict[str, None]]


def _known_names(summary: Summary) -> _Names:
    """All names of each kind, in the order of the summary."""
    names: _Names = {kind: {} for kind in SubjectKind}
    if not isinstance(summary.operations, Missing):
        for each in summary.operations.operations:
            names[SubjectKind.INSTRUCTION][each.instruction or each.name] = None
            names[SubjectKind.COMPONENT][each.component] = None
            names[SubjectKind.SCOPE].update(_scopes_of(each))
            names[SubjectKind.KERNEL].update(dict.fromkeys(each.kernel_names))
            names[SubjectKind.PHASE][each.phase] = None
    if not isinstance(summary.ledger, Missing):
        names[SubjectKind.COMPONENT].update(dict.fromkeys(each.component for each in summary.ledger.buckets))
    if not isinstance(summary.counters, Missing):
        names[SubjectKind.KERNEL].update(dict.fromkeys(each.kernel_name for each in summary.counters.quantities))
    return names


def _scopes_of(operation: Operation) -> dict[str, None]:
    """The segments of a scope, and its beginnings: `a/b/c` is a, b, c, a/b and a/b/c."""
    parts = [part for part in (operation.scope or "").split("/") if part]
    return dict.fromkeys([*parts, *("/".join(parts[: end + 1]) for end in range(1, len(parts)))])


def _match(known: _Names, name: str) -> tuple[SubjectKind, str] | None:
    for likeness in (_as_typed, _in_any_case, _underscored):
        wanted = likeness(name)
        for kind, names in known.items():
            if likeness is _as_typed:
                if name in names:
                    return kind, name
                continue
            for each in names:
                if likeness(each) == wanted:
                    return kind, each
    return None


def _as_typed(name: str) -> str:
    return name


def _in_any_case(name: str) -> str:
    return name.lower()


def _underscored(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.lower())


def _operations_of(summary: Summary, kind: SubjectKind, name: str) -> Iterator[tuple[int, Operation]]:
    if isinstance(summary.operations, Missing):
        return
    is_meant: dict[SubjectKind, Callable[[Operation], bool]] = {
        SubjectKind.INSTRUCTION: lambda each: (each.instruction or each.name) == name,
        SubjectKind.COMPONENT: lambda each: each.component == name,
        SubjectKind.SCOPE: lambda each: name in _scopes_of(each),
        SubjectKind.KERNEL: lambda each: name in each.kernel_names,
        SubjectKind.PHASE: lambda each: each.phase == name,
    }
    for at, each in enumerate(summary.operations.operations):
        if is_meant[kind](each):
            yield at, each


def _phases_of(summary: Summary, kind: SubjectKind, name: str) -> set[str]:
    if kind is not SubjectKind.COMPONENT or isinstance(summary.ledger, Missing):
        return set()
    return {each.phase for each in summary.ledger.buckets if each.component == name}
