"""A rule in words, as `rocktools rules show` prints it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rocktools.rules.inputs import INPUT_MEANINGS
from rocktools.rules.rule import Rule, Threshold
from rocktools.units import format_duration, format_ratio, format_si, unit_of

_WIDTH = 100


def describe_rule(rule: Rule) -> list[str]:
    """The rule, line by line."""
    lines = [f"{rule.name}: {rule.title} ({rule.group})", ""]
    lines += _paragraph("looks at", rule.looks_at)
    lines += _paragraph("signature", rule.signature)
    lines += ["confirm"] + [
        line for each in rule.confirmations for line in _item(f"{each.detail}: {each.command}")
    ] + [""]  # fmt: skip
    lines += ["fix"] + [line for each in rule.fixes for line in _item(each)] + [""]
    if rule.thresholds:
        lines += ["thresholds"] + [line for each in rule.thresholds for line in _item(threshold_text(each))] + [""]
    lines += _paragraph("needs", ", ".join(INPUT_MEANINGS[name] for name in rule.needs) or "nothing in particular")
    return lines[:-1]


def threshold_text(threshold: Threshold) -> str:
    """A threshold with its value as people read it, and its source."""
    return f"{threshold.meaning}: {value_text(threshold)} ({threshold.source})"


def value_text(threshold: Threshold) -> str:
    """The value of a threshold with its unit: a ratio above 1 as a number of times."""
    unit, value = unit_of(threshold.name), threshold.value
    if unit == "ratio":
        return format_ratio(value) if value <= 1 else f"{value:g} times"
    if unit == "ns":
        return format_duration(value)
    return f"{value:g}" if unit in (None, "count", "work-items") else format_si(value, unit)


def _paragraph(head: str, text: str) -> list[str]:
    return [head, *_wrapped([text]), ""]


def _item(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _wrapped(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")]
