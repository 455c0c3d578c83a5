"""What a rule is: a description that the manual is written from, thresholds with their source, and a pure check.

A check answers with what it found, each finding with the time that it explains; or that it cannot say, and why. An
empty answer means that it looked and found nothing: that is not the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from rocktools.evidence import Evidence
from rocktools.findings import Finding
from rocktools.rules.inputs import RuleInputs


class RuleGroup(str, Enum):
    """What kind of statement a rule makes."""

    FAULT = "fault"  # something costs time or memory that need not be spent
    TRACE_PATTERN = "trace-pattern"  # what the shape of the timeline says, without a verdict that it is wrong
    CAPTURE_QUALITY = "capture-quality"  # the recording itself misleads
    LINT = "lint"  # a declared result says more than its numbers allow

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A limit of a check.

    Attributes:
        name: ends in its unit.
        value: the limit.
        meaning: what is compared with it.
        source: who says so; `rocktools` where it is a choice of ours.
    """

    name: str
    value: float
    meaning: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A detail that confirms the finding, and the command that shows it; `RUN` stands for the paths that were given."""

    detail: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFinding:
    """What a check found.

    Attributes:
        finding: the doubt with its numbers.
        explained_ns: time of a step, mean over devices and steps, that would go if the fault went, at most; None where
            it costs no time, or none that can be told.
        evidence: of that time.
    """

    finding: Finding
    explained_ns: float | None = None
    evidence: Evidence = Evidence.INFERRED


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotSay:
    """Nothing can be decided, and why."""

    reason: str


Outcome = list[RuleFinding] | CannotSay
Check = Callable[[RuleInputs], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        name: kebab-case; the findings of its check bear it.
        title: what is wrong, in a few words.
        group: what kind of statement it makes.
        looks_at: what it compares, and what the terms mean on AMD hardware.
        signature: what the timeline or the program looks like then.
        confirmations: what confirms it.
        fixes: directions, the most usual one first.
        thresholds: limits of the check.
        needs: attributes of `RuleInputs` without which it cannot say anything.
        check: the check; it is called with everything in `needs`.
    """

    name: str
    title: str
    group: RuleGroup
    looks_at: str
    signature: str
    confirmations: tuple[Confirmation, ...]
    fixes: tuple[str, ...]
    thresholds: tuple[Threshold, ...] = ()
    needs: tuple[str, ...]
    check: Check

    def judge(self, inputs: RuleInputs) -> Outcome:
        """What the check says; that it cannot say anything where an input is missing."""
        for name in self.needs:
            if getattr(inputs, name) is None:
                return CannotSay(reason=inputs.reason_for(name))
        return self.check(inputs)
