"""The rules of the fault catalogue -> docs/reference/rules.md and a page for each rule below docs/reference/rules/."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial

from docs_markdown import code, page, prose, table

from rocktools.rules.catalog import RULES
from rocktools.rules.claims import SECTIONS
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
    return page("Rules", introduction, [*lines, *_claims_section()])


def _claims_section() -> list[str]:
    """The entries of a file of claims, from the docstrings of its sections."""
    lines = [
        "",
        "## Claims",
        "",
        "A YAML file for `--claims`; every section and every entry may be left out. It begins with",
        "`schema: rocktools.claims/1` and a `name`.",
    ]
    for section, kind in SECTIONS.items():
        text = inspect.cleandoc(kind.__doc__ or "")
        meanings = dict(_attributes(text))
        rows = [(code(f"{section}.{field.name}"), prose(meanings[field.name])) for field in fields(kind)]
        lines += ["", f"### {section}", "", prose(text.split("\n\n")[0]), *table(("entry", "meaning"), rows)]
    return lines


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    """Name and meaning of each attribute in a docstring; several names may share a meaning."""
    entries: list[list[str]] = []
    for line in text.partition("Attributes:")[2].splitlines():
        if found := re.fullmatch(r" {4}((?:\w+, )*\w+): (.*)", line):
            entries.append([found[1], found[2]])
        elif entries and line.strip():
            entries[-1][1] += f" {line.strip()}"
    for names, meaning in entries:
        yield from ((name, meaning) for name in names.split(", "))


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
