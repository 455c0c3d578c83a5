"""Which kernels and which of their executions are counted: regular expressions and ranges as the library reads them.

Two engines for regular expressions. Old releases have std::regex (ECMAScript). Later ones have a home-made engine that
knows neither groups with `?` nor `\\b` nor named classes nor back references, and does not say so: it takes them
literally. Here both become a Python pattern, character by character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from standins.versions import OWN_REGEX_ENGINE, SdkVersion

_CLASSES = "dDwWsS"
_POSIX = {"alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "space": r"\s", "upper": "A-Z", "lower": "a-z"}
_COUNTED = re.compile(r"\{\d+(,\d*)?\}")


class BadRegex(Exception):
    """The engine throws, inside a callback of the runtime: the process aborts."""


class BadRange(Exception):
    """The library aborts at start-up; the text is its message."""


def compile_regex(pattern: str, version: SdkVersion) -> re.Pattern[str]:
    """A pattern that finds what the release's engine would find.

    Raises:
        BadRegex: the engine refuses it.
    """
    if version < OWN_REGEX_ENGINE:
        if re.search(r"\(\?(?![:=!])", pattern):
            raise BadRegex("std::regex_error")
        translated = re.sub(r"\[:(\w+):\]", lambda found: _POSIX.get(found[1], ""), pattern)
        translated = _end_anchors(translated)
    else:
        _require_balance(pattern)
        translated = _translate(pattern)
    try:
        return re.compile(translated, re.ASCII)
    except re.error as error:
        raise BadRegex(str(error)) from error


def _end_anchors(pattern: str) -> str:
    """`$` is the end and nothing else; Python's also stands before a last newline."""
    return re.sub(r"(\\.)|\$", lambda found: found[1] or r"\Z", pattern)


def _require_balance(pattern: str) -> None:
    plain = re.sub(r"\\.", "", pattern)
    without_classes = re.sub(r"\[\^?\]?[^]]*\]", "", plain)
    if without_classes.count("(") != without_classes.count(")") or "[" in without_classes:
        raise BadRegex("std::runtime_error")


def _translate(pattern: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        width = 1
        if char == "\\" and at + 1 < len(pattern):
            width = 2
            following = pattern[at + 1]
            parts.append(f"\\{following}" if following in _CLASSES else re.escape(following))
        elif char == "[":
            width, text = _translate_class(pattern[at:])
            parts.append(text)
        elif char == "(" and pattern[at + 1 : at + 2] == "?":
            width = 2
            parts.append(r"(\?")
        elif char == "{":
            counted = _COUNTED.match(pattern, at)
            width = len(counted[0]) if counted else 1
            parts.append(counted[0] if counted else r"\{")
        elif char == "$":
            parts.append(r"\Z")
        else:
            parts.append(char if char in ".^()|*+?" else re.escape(char))
        at += width
    return "".join(parts)


def _translate_class(text: str) -> tuple[int, str]:
    """How much of `text` a class takes (it ends at its first `]`), and the class."""
    end = text.index("]", 2 if text[1:2] in ("]", "^") else 1)
    inner = text[1:end]
    return end + 1, "[" + inner.replace("[", r"\[") + "]"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFilter:
    """Include and exclude patterns; either may be missing."""

    include: re.Pattern[str] | None
    exclude: re.Pattern[str] | None

    def selects(self, name: str) -> bool:
        """Whether a kernel of this formatted name is counted."""
        if self.include is not None and not self.include.search(name):
            return False
        return self.exclude is None or not self.exclude.search(name)


def parse_iterations(text: str) -> frozenset[int]:
    """Iterations that are counted, from 1; an empty set means all of them.

    `[1,5]` is 1 and 5. `5-1` adds nothing, so alone it means all.

    Raises:
        BadRange: a token is neither a number nor two of them.
    """
    found: set[int] = set()
    for token in re.split(r"[\[\],\s]+", text):
        if not token:
            continue
        first, dash, last = token.partition("-")
        if not dash:
            if not token.isdigit():
                raise BadRange(f"expected integer for {token}")
            found.add(int(token))
        elif first.isdigit() and last.isdigit():
            found.update(range(int(first), int(last) + 1))
        else:
            raise BadRange(f"bad range format for '{token}'. Expected [A-B] where A and B are integers")
    return frozenset(found)


def parse_ranks(text: str) -> frozenset[int]:
    """Ranks of `--profile-mpi-ranks`: `0-3,8`."""
    return parse_iterations(text)
