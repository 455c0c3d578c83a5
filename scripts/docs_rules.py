"""The rules of the fault catalogue -> docs/reference/rules.md and a page for each rule below docs/reference/rules/."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from docs_markdown import code, page, prose, table

from rocktools.rules.catalog import RULES
from rocktools.rules.description import value_text
from rocktools.rules.inputs import INPUT_MEANINGS
from rocktools.rules.rule import Rule, RuleGroup

_GROUPS = {
    RuleGroup.FAULT: ("Faults", "Something costs time or memory that need not be spent."),
    RuleGroup.TRACE_PATTERN: ("Trace patterns", "What the shape of the timeline says, whether it is wrong or not."),
    RuleGroup.CAPTURE_QUALITY: ("Quality of the capture", "The recording itself misleads."),
    RuleGroup.LINT: ("Lints", "A statement about a result says more than its numbers allow."),
}


def rule_pages() -> dict[str, Callable[[], str]]:
    """Page below docs/reference/ -> what writes it: the index, and every rule."""
    pages: dict[str, Callable[[], str]] = {"rules.md": render_index}
    return pages | {f"rules/{rule.name}.md": partial(render_rule, rule) for rule in RULES}


def render_index() -> str:
    """The page with every rule in a line."""
    introduction = (
        "The fault catalogue. `rocktools rules check RUN` holds every rule against what a run left behind; findings\n"
        "come by the time of a step that they explain, warnings before notes. A rule that lacks an input says so and\n"
        "does not fire. Lints look at declared results as well (`--claims FILE`, schema `rocktools.claims/1`)."
    )
    lines: list[str] = []
    for group, (title, meaning) in _GROUPS.items():
        rows = [
            (f"[{rule.name}](rules/{rule.name}.md)", prose(rule.title), prose(_first_sentence(rule.signature)))
            for rule in RULES
            if rule.group is group
        ]
        lines += ["", f"## {title}", "", meaning, *table(("rule", "what is wrong", "signature"), rows)]
    return page("Rules", introduction, lines)


def render_rule(rule: Rule) -> str:
    """The page of one rule."""
    introduction = (
        f"{prose(rule.title)}. A rule of the group {code(str(rule.group))}; all are in [the list](../rules.md)."
    )
    lines = ["", "## What it looks at", "", prose(rule.looks_at)]
    lines += ["", "## Signature", "", prose(rule.signature)]
    lines += ["", "## What confirms it", ""]
    lines += [f"- {prose(each.detail)}: {code(each.command)}" for each in rule.confirmations]
    lines += ["", "## What to do", "", *(f"- {prose(each)}" for each in rule.fixes)]
    if rule.thresholds:
        rows = [
            (code(each.name), value_text(each), prose(each.meaning), prose(each.source)) for each in rule.thresholds
        ]
        lines += ["", "## Thresholds", *table(("name", "value", "what is compared", "source"), rows)]
    needs = ", ".join(INPUT_MEANINGS[name] for name in rule.needs) or "nothing in particular; it says what it lacks"
    lines += ["", "## What it needs", "", prose(f"{needs[0].upper()}{needs[1:]}.")]
    lines += ["", f"Findings bear the name {code(rule.name)}: [their messages](../findings.md#{rule.name})."]
    return page(rule.name, introduction, lines)


def _first_sentence(text: str) -> str:
    return text.split(". ")[0].rstrip(".;") + "."
