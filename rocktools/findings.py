"""Doubts about the input: returned by the library, counted and shown by the command line, never printed in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

Number = int | float


class Severity(str, Enum):
    """How much a finding takes away from the answer (the order of definition is the order of weight)."""

    NOTE = "note"  # worth knowing, the numbers stand
    WARNING = "warning"  # some numbers may mislead
    FAULT = "fault"  # what it names cannot be trusted

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One doubt, with the numbers it rests on.

    Attributes:
        rule: kebab-case name of the check, stable across releases.
        severity: how much it takes away.
        where: file, then table or row.
        message: one sentence with the numbers in it.
        numbers: the same numbers by name, units in the names.
        advice: what to do about it, or "" where nothing can be done.
    """

    rule: str
    severity: Severity
    where: str
    message: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    advice: str = ""

    def as_dict(self) -> dict[str, object]:
        """A plain dictionary for JSON."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "where": self.where,
            "message": self.message,
            "numbers": dict(self.numbers),
            "advice": self.advice,
        }

    def __str__(self) -> str:
        text = f"{self.severity.value} [{self.rule}] {self.where}: {self.message}"
        return f"{text}; {self.advice}" if self.advice else text


_WEIGHT = {severity: rank for rank, severity in enumerate(Severity)}


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Heaviest first; within one severity in the order found."""
    return sorted(findings, key=lambda finding: -_WEIGHT[finding.severity])


def has_fault(findings: Iterable[Finding]) -> bool:
    """Whether any finding is a fault."""
    return any(finding.severity is Severity.FAULT for finding in findings)
