"""A small language for questions: a rule is a sentence with holes, and a question fits it whole or not at all.

    word            that word, in any case
    (a|b c)         one of these
    [a|b c]         one of these, or nothing
    <name>          a class of words
    {name}          a hole: one to eight words, as few as will do; names keep their case
    {name:kind}     a hole of a kind: `number` (12, twelve), or a class of words

Nothing is searched for inside a question: what a rule does not foresee is not understood, and is said to be so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"\s*([\[\]()|]|<\w+>|\{\w+(?::\w+)?\}|[^\s\[\]()|<>{}]+)")
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBERS: Mapping[str, int] = {**{word: value for value, word in enumerate(_WORDS)}, "twenty": 20, "fifty": 50}
_KINDS = {
    "name": r"\S+(?: \S+){0,7}?",
    "number": rf"#?\d{{1,9}}|(?:{'|'.join(NUMBERS)})\b",
}
_HELD_SPACE = "\ue000"  # within quotes; a character that no text has, and that is no space


class _Template:
    """The tokens of a rule, read once from the left."""

    def __init__(self, text: str, classes: Mapping[str, str]) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._classes = classes
        self._at = 0

    def whole(self) -> str:
        pattern = self._alternatives()
        assert self._at == len(self._tokens), f"rule {self._text!r} is not closed"
        return pattern

    def _alternatives(self) -> str:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        return "|".join(branches)

    def _sequence(self) -> str:
        parts: list[str] = []
        while (token := self._peek()) not in (None, "|", ")", "]"):
            assert token is not None
            self._at += 1
            parts.append(self._item(token))
        return "".join(parts)

    def _item(self, token: str) -> str:
        if token in "([":
            inner = self._alternatives()
            closing = self._peek()
            assert closing == {"(": ")", "[": "]"}[token], f"rule {self._text!r} is not closed"
            self._at += 1
            return f"(?:{inner}){'?' if token == '[' else ''}"
        if token.startswith("<"):
            return f"(?:{_Template(self._classes[token[1:-1]], self._classes).whole()})"
        if token.startswith("{"):
            name, _, kind = token[1:-1].partition(":")
            if kind in self._classes:
                return f"(?P<{name}>{_Template(self._classes[kind], self._classes).whole()})"
            return f"(?P<{name}>{_KINDS[kind or 'name']}) "
        return f"{re.escape(token)} "

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None


def compile_rule(text: str, classes: Mapping[str, str]) -> re.Pattern[str]:
    """The rule as a pattern for what `normal_form` returns.

    Args:
        classes: names of classes of words -> what they are, in the same language.
    """
    return re.compile(_Template(text, classes).whole(), flags=re.IGNORECASE)


def fit_rule(pattern: re.Pattern[str], clause: str) -> dict[str, str] | None:
    """What stands in the holes where the rule fits the whole clause, without those that are empty; else None."""
    found = pattern.fullmatch(clause)
    if found is None:
        return None
    return {name: _unquoted(text) for name, text in found.groupdict().items() if text is not None}


def number_of(text: str) -> int:
    """The value of a hole of the kind `number`."""
    plain = text.lower().lstrip("#")
    return NUMBERS[plain] if plain in NUMBERS else int(plain)


_CONTRACTIONS = (
    (re.compile(r"\b(what|which|who|where|why|how|it|there|that)['’]s\b", re.IGNORECASE), r"\1 is"),
    (re.compile(r"\b(what|which|who|where|why|how|we|they|you)['’]re\b", re.IGNORECASE), r"\1 are"),
    (re.compile(r"\bvs\.", re.IGNORECASE), "vs"),
)
_QUOTED = re.compile(r"\"([^\"]+)\"|`([^`]+)`|'([^']+)'")
_CLAUSE_ENDS = re.compile(
    r"[?!;]+(?=\s|$)|\.+(?=\s|$)|\s*\n\s*|,?\s+and\s+(?=(?:which|what|how|why|where|who|is)\b)", re.IGNORECASE
)


def clauses_of(question: str) -> list[str]:
    """The questions in a text, each in its normal form: words with one space between, and one after the last."""
    text = question
    for pattern, plain in _CONTRACTIONS:
        text = pattern.sub(plain, text)
    text = _QUOTED.sub(lambda found: _held(next(filter(None, found.groups()))), text)
    clauses = []
    for part in _CLAUSE_ENDS.split(text):
        clause = " ".join(word.strip(",:") or word for word in part.split())
        if clause:
            clauses.append(f"{clause} ")
    return clauses


def _held(text: str) -> str:
    """What was quoted is one word, and no end of a clause is found in it."""
    return f"\u201c{text.replace(' ', _HELD_SPACE)}\u201d"


def _unquoted(text: str) -> str:
    return text.replace(_HELD_SPACE, " ").replace("\u201c", "").replace("\u201d", "")
