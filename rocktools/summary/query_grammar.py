"""A question -> what it asks for (`Intent`) and about what (slots).

The rules are sentences with holes (query_rules.py), tried in their order; the first that fits a whole clause is taken.
What fits none is not understood: `parse_question` then says what can be asked, and guesses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import MappingProxyType

from rocktools.errors import UsageError, nearest_names
from rocktools.summary.query_pattern import clauses_of, compile_rule, fit_rule
from rocktools.summary.query_rules import CLASSES_TEXT, RULES_TEXT

_LONGEST_QUESTION = 1000
_RULE_INDENT = 4


class Intent(str, Enum):
    """What can be asked for."""

    TOP_OPERATIONS = "top_operations"
    TIME = "time"
    COMPUTE_OR_COMMUNICATION = "compute_or_communication"
    COLLECTIVES = "collectives"
    EXPOSED_COMMUNICATION = "exposed_communication"
    GAP_BEFORE = "gap_before"
    GAPS = "gaps"
    REGIONS = "regions"
    CONTEXT = "context"
    NEXT = "next"
    BOUND = "bound"
    BOUND_OF_STEP = "bound_of_step"
    SLOW_STEP = "slow_step"
    SLOW_DEVICE = "slow_device"
    STEP_TIME = "step_time"
    THROUGHPUT = "throughput"
    MEMORY = "memory"
    CHANGES = "changes"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One thing that was asked for.

    Attributes:
        intent: what.
        slots: hole of the rule -> what stands there, as it was typed.
    """

    intent: Intent
    slots: Mapping[str, str]


FORMS: Mapping[Intent, str] = MappingProxyType(
    {
        Intent.TOP_OPERATIONS: "what are the top 10 ops by exclusive time [in backward] [of attention]?",
        Intent.TIME: "where does the time go?",
        Intent.COMPUTE_OR_COMMUNICATION: "is communication or compute dominating?",
        Intent.COLLECTIVES: "which collective is worst?",
        Intent.EXPOSED_COMMUNICATION: "how much communication is exposed?",
        Intent.GAP_BEFORE: "gap before OP",
        Intent.GAPS: "what are the largest gaps?",
        Intent.REGIONS: "show hierarchical regions [under SCOPE]",
        Intent.CONTEXT: "show context for op NAME",
        Intent.NEXT: "what should we try next?",
        Intent.BOUND: "is NAME [forward|backward] memory-bound?",
        Intent.BOUND_OF_STEP: "is the step memory-bound?",
        Intent.SLOW_STEP: "why is step N slow?",
        Intent.SLOW_DEVICE: "which device is slow?",
        Intent.STEP_TIME: "how long is a step?",
        Intent.THROUGHPUT: "how many tokens per second?",
        Intent.MEMORY: "how much memory is used?",
        Intent.CHANGES: "what changed?",
    }
)
"""One way to ask for each."""

_LEADING = re.compile(
    r"(?:(?:please|hey|hello|hi|so|ok|okay|now|and|then|but|can you|could you|would you|tell me|i want to know|"
    r"do you know|i wonder)\s+)+",
    re.IGNORECASE,
)
_TRAILING = re.compile(
    r"(?:(?:please|thanks|thank you|here|overall|exactly|actually|in this (?:run|job|trace|profile|summary)|"
    r"in the (?:run|job|trace|profile|summary))\s+)+$",
    re.IGNORECASE,
)


def parse_question(question: str) -> tuple[Asked, ...]:
    """What a question asks for, in its order.

    Raises:
        UsageError: it is empty, too long, or a part of it is not understood; what can be asked is said.
    """
    clauses = clauses_of(question) if len(question) <= _LONGEST_QUESTION else []
    if not clauses:
        what = (
            "the question is empty"
            if not question.strip()
            else f"a question has {_LONGEST_QUESTION} characters at most"
        )
        raise UsageError("no-question", what, hint=_forms())
    found: list[Asked] = []
    for clause in clauses:
        asked = _parse_clause(clause)
        if asked is None:
            raise UsageError(
                "unknown-question", f"this is not understood: {' '.join(clause.split())!r}", hint=_forms(clause)
            )
        if asked not in found:
            found.append(asked)
    return tuple(found)


def _parse_clause(clause: str) -> Asked | None:
    bare = _TRAILING.sub("", _LEADING.sub("", clause, count=1) if _LEADING.match(clause) else clause)
    for text in dict.fromkeys((clause, bare)):
        for intent, pattern in _patterns():
            slots = fit_rule(pattern, text)
            if slots is not None:
                return Asked(intent=intent, slots={name: value.strip() for name, value in slots.items()})
    return None


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[Intent, re.Pattern[str]], ...]:
    """Compiled when the first question is asked: it takes longer than the rest of a start."""
    classes = {name: "".join(lines) for name, lines in read_sections(CLASSES_TEXT)}
    return tuple(
        (Intent(name), compile_rule(rule, classes)) for name, rules in read_sections(RULES_TEXT) for rule in rules
    )


def read_sections(text: str) -> list[tuple[str, list[str]]]:
    """The sections of a text of rules: the name, and the lines below it with what goes on with them."""
    sections: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if indent == 0:
            sections.append((line, []))
        elif indent > _RULE_INDENT:
            # Alternatives are broken behind a bar, words between blanks.
            lines = sections[-1][1]
            lines[-1] += line.strip() if lines[-1].endswith("|") else f" {line.strip()}"
        else:
            sections[-1][1].append(line.strip())
    return sections


def _forms(clause: str = "") -> str:
    """What can be asked, what looks most like the question first."""
    forms = list(FORMS.values())
    near = nearest_names(clause, forms, at_most=2) if clause else []
    return "\n       ".join([*near, *(form for form in forms if form not in near)])
