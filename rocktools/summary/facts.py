"""Facts with and without a value, made in one line."""

from __future__ import annotations

from rocktools.evidence import Absence, Evidence
from rocktools.summary.document import Fact, Missing, Value


def known(value: Value, evidence: Evidence, source: str) -> Fact:
    """A value with its origin."""
    return Fact(value=value, evidence=evidence, source=source)


def unknown(reason: str, absence: Absence = Absence.NOT_COLLECTED) -> Fact:
    """No value, and why."""
    return Fact(value=None, missing=Missing(absence=absence, reason=reason))


def known_or(value: Value, evidence: Evidence, source: str, reason: str) -> Fact:
    """The value where there is one, else why there is none."""
    return unknown(reason) if value is None or value == "" else known(value, evidence, source)
