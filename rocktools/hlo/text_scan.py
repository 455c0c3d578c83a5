"""Brackets, strings and commas of HLO text: where a group ends, where a list is to be cut. Knows no instruction."""

from __future__ import annotations

import re

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_BRACKET = re.compile(_STRING + r'|/\*.*?\*/|[()\[\]{}"]', re.DOTALL)
_BRACKET_OR_COMMA = re.compile(_STRING + r'|/\*.*?\*/|[()\[\]{}",]', re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class UnreadableText(ValueError):
    """Text that does not go on as HLO text does.

    Args:
        reason: what is wrong, without the place.
        offset: of the character, in the text that was handed over.
        is_open: whether the text ended inside a bracket or a string, so that more of it could help.
    """

    def __init__(self, reason: str, offset: int, *, is_open: bool = False) -> None:
        super().__init__(reason, offset)
        self.reason = reason
        self.offset = offset
        self.is_open = is_open


def find_closing(text: str, start: int) -> int:
    """Offset of the bracket that closes the one at `start`; strings and comments in between are skipped.

    Raises:
        UnreadableText: the text ends before it.
    """
    depth = 0
    for found in _BRACKET.finditer(text, start):
        first = text[found.start()]
        if first in "([{":
            depth += 1
        elif first in ")]}":
            depth -= 1
            if depth <= 0:
                return found.start()
        elif first == '"' and found.end() == found.start() + 1:
            break
    raise UnreadableText(f"'{text[start]}' is never closed", start, is_open=True)


def split_list(text: str) -> list[str]:
    """The parts between the commas that are in no bracket and no string; comments dropped, [] for empty text."""
    text = without_comments(text)
    if not text.strip():
        return []
    if not any(mark in text for mark in '([{"'):
        return [part.strip() for part in text.split(",")]
    parts: list[str] = []
    depth, begin = 0, 0
    for found in _BRACKET_OR_COMMA.finditer(text):
        mark = text[found.start()]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif mark == "," and depth == 0:
            parts.append(text[begin : found.start()].strip())
            begin = found.end()
    parts.append(text[begin:].strip())
    return parts


def without_comments(text: str) -> str:
    """The text without what is between `/*` and `*/`; only for text without strings."""
    return _COMMENT.sub("", text) if "/*" in text else text


def end_of_value(text: str, start: int) -> int:
    """Offset of the next comma that is in no bracket and no string, or of the end of the text.

    Raises:
        UnreadableText: a bracket or a string is left open, or closed without having been opened.
    """
    depth, opened = 0, start
    for found in _BRACKET_OR_COMMA.finditer(text, start):
        mark = text[found.start()]
        if mark in "([{":
            opened = opened if depth else found.start()
            depth += 1
        elif mark in ")]}":
            depth -= 1
            if depth < 0:
                raise UnreadableText(f"'{mark}' closes nothing", found.start())
        elif mark == "," and depth == 0:
            return found.start()
        elif mark == '"' and found.end() == found.start() + 1:
            raise UnreadableText("a string is never closed", found.start(), is_open=True)
    if depth:
        raise UnreadableText(f"'{text[opened]}' is never closed", opened, is_open=True)
    return len(text)


def unescape(text: str) -> str:
    """What a quoted string stands for, given what is between its quotes (escapes of C)."""
    if "\\" not in text:
        return text

    def replace(found: re.Match[str]) -> str:
        code = found.group(1)
        if code[0] in "01234567":
            return chr(int(code, 8) % 256)
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        return _ESCAPED.get(code, code)

    plain = _ESCAPE.sub(replace, text)
    if plain.isascii():
        return plain
    # XLA escapes text byte by byte, so that one letter may be several escapes: `\303\251` is é.
    try:
        return plain.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return plain


def escape(text: str) -> str:
    """The text as it stands between the quotes of a string of HLO text."""
    found = []
    for byte in text.encode("utf-8", "replace"):
        letter = chr(byte)
        if letter in _ESCAPES:
            found.append(_ESCAPES[letter])
        else:
            found.append(letter if 32 <= byte < 127 else f"\\{byte:03o}")
    return "".join(found)
