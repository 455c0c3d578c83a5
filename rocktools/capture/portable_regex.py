"""The regular expressions that every rocprofv3 reads in the same way.

Up to ROCm 7.0 the engine is C++ `std::regex`, from 7.1 on a home-made one (ROCm/rocprofiler-sdk,
source/lib/common/regex.cpp). That one takes what it does not know for literal text, in silence. It also tries a group
once only: after `(a|ab)` it goes on behind the first alternative that fits, and never comes back for the second, so
`^(a|ab)$` does not find `ab`. It does come back for the repeats of single characters. Both work on bytes.

So what is let through is: literals, `.`, `^`, `$`, `|`, classes, the escapes for digits, words and spaces, `* + ?
{m,n}` with their lazy forms, and groups where nothing depends on a second try: at the end of the expression, or with
one possible end wherever they begin. Stricter than need be, but alternatives can be written out at the top instead.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from rocktools.errors import UsageError

_CLASS_ESCAPES = frozenset("dDwWsS")
_QUANTIFIERS = frozenset("*+?{")
_QUANTIFIER = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_UNSUPPORTED_GROUP = {
    "(?:": "non-capturing groups",
    "(?=": "lookahead",
    "(?!": "lookahead",
    "(?<": "lookbehind and named groups",
    "(?P": "named groups",
}
_SET_OPERATORS = ("--", "&&", "~~", "||")
# std::regex copies what is repeated, and throws beyond 100,000 states; an exception there aborts the job.
_MOST_STATES = 10_000


def require_portable_regex(regex: str) -> None:
    """Let through what all engines understand.

    Raises:
        UsageError: something in it only some of them know; what and where is named.
    """
    if not regex:
        raise UsageError("bad-kernel-regex", "an empty expression would match every kernel")
    reader = _Reader(regex)
    whole = reader.read_alternatives()
    if reader.position < len(regex):
        raise _refused(regex, reader.position, "a closing parenthesis without an opening one")
    if whole.states_count > _MOST_STATES:
        raise UsageError(
            "bad-kernel-regex", f"{regex!r} repeats so much that std::regex would give up and abort the job"
        )
    try:
        re.compile(regex.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise UsageError("bad-kernel-regex", f"{regex!r} is not a regular expression: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A part of an expression.

    Attributes:
        position: where it begins.
        width: how many bytes it matches, if that is fixed.
        literal: the text, if it matches nothing else.
        groups_around_repeat: 0 if it is one quantifier and what that repeats, 1 if a group around that; else None.
        can_be_empty: whether it matches nothing at all, too.
        has_one_end: whether it can end in one place only, wherever it begins.
        states_count: how much of a machine it takes, about.
    """

    position: int
    width: int | None = None
    literal: str | None = None
    groups_around_repeat: int | None = None
    can_be_empty: bool = False
    has_one_end: bool = True
    states_count: int = 1

    @property
    def can_be_followed(self) -> bool:
        """Whether the home-made engine tries all of its ends against what comes behind it."""
        return self.has_one_end or self.groups_around_repeat is not None


class _Reader:
    """Reads an expression, and refuses what is not portable on the way."""

    def __init__(self, regex: str) -> None:
        self._regex = regex
        self.position = 0

    def read_alternatives(self) -> _Piece:
        begin = self.position
        branches = [self._read_sequence()]
        while self._next() == "|":
            self.position += 1
            branches.append(self._read_sequence())
        if len(branches) == 1:
            return branches[0]
        widths = {branch.width for branch in branches}
        width = branches[0].width if len(widths) == 1 else None
        return _Piece(
            position=begin,
            width=width,
            can_be_empty=any(branch.can_be_empty for branch in branches),
            has_one_end=all(branch.has_one_end for branch in branches)
            and (width is not None or _are_told_apart([branch.literal for branch in branches])),
            states_count=sum(branch.states_count + 1 for branch in branches),
        )

    def _read_sequence(self) -> _Piece:
        begin = self.position
        pieces: list[_Piece] = []
        while self._next() not in ("", "|", ")"):
            piece = self._read_piece()
            if pieces and not pieces[-1].can_be_followed:
                what = "a group that can end in several places, with something behind it,"
                raise self._refused(pieces[-1].position, what)
            pieces.append(piece)
        if not pieces:
            raise self._refused(begin, "an empty alternative or group (it matches every name)")
        if len(pieces) == 1:
            return pieces[0]
        widths = [piece.width for piece in pieces]
        literals = [piece.literal for piece in pieces]
        return _Piece(
            position=begin,
            width=None if None in widths else sum(width or 0 for width in widths),
            literal=None if None in literals else "".join(literal or "" for literal in literals),
            can_be_empty=all(piece.can_be_empty for piece in pieces),
            has_one_end=all(piece.has_one_end for piece in pieces),
            states_count=sum(piece.states_count for piece in pieces),
        )

    def _read_piece(self) -> _Piece:
        begin, character = self.position, self._next()
        if character in _QUANTIFIERS:
            raise self._refused(begin, f"nothing to repeat before {character!r}")
        if character in "]}":
            raise self._refused(begin, f"an unescaped {character!r}")
        if character in "^$":
            self.position += 1
            if self._next() in _QUANTIFIERS:
                raise self._refused(self.position, f"nothing to repeat before {self._next()!r}")
            return _Piece(position=begin, width=0, can_be_empty=True)
        if character == "(":
            atom = self._read_group()
        elif character == "[":
            self._read_class()
            atom = _Piece(position=begin, width=1)
        elif character == "\\":
            atom = self._read_escape()
        else:
            self.position += 1
            literal = None if character == "." else character
            atom = _Piece(position=begin, width=len(character.encode("utf-8", "surrogateescape")), literal=literal)
        return self._read_quantifier(atom) if self._next() in _QUANTIFIERS else atom

    def _read_group(self) -> _Piece:
        begin = self.position
        if self._regex[begin + 1 : begin + 2] == "?":
            opening = self._regex[begin : begin + 3]
            raise self._refused(begin, _UNSUPPORTED_GROUP.get(opening, f"{opening!r} (inline flags or extensions)"))
        self.position += 1
        inner = self.read_alternatives()
        if self._next() != ")":
            raise self._refused(len(self._regex), "an opening parenthesis without a closing one")
        self.position += 1
        return _Piece(
            position=begin,
            width=inner.width,
            literal=inner.literal,
            groups_around_repeat=1 if inner.groups_around_repeat == 0 else None,  # a second one is not looked through
            can_be_empty=inner.can_be_empty,
            has_one_end=inner.has_one_end,
            states_count=inner.states_count,
        )

    def _read_escape(self) -> _Piece:
        begin = self.position
        following = self._check_escape()
        self.position += 2
        literal = None if following in _CLASS_ESCAPES else following
        return _Piece(position=begin, width=len(following.encode("utf-8", "surrogateescape")), literal=literal)

    def _read_quantifier(self, atom: _Piece) -> _Piece:
        begin = self.position
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._next(), (0, 0))
        if self._next() == "{":
            match = _QUANTIFIER.match(self._regex, begin)
            if match is None:
                raise self._refused(begin, "an unescaped '{' that is no {m,n}")
            least = _number(match[1])
            most = least if match[2] is None else _number(match[3]) if match[3] else None
            self.position = match.end()
        else:
            self.position += 1
        if self._next() == "+":
            raise self._refused(self.position, "a possessive quantifier")
        if self._next() == "?":  # the lazy form
            self.position += 1
        if self._next() in _QUANTIFIERS:
            raise self._refused(self.position, "a quantifier of a quantifier")
        self._check_repeatable(atom)
        return _Piece(
            position=atom.position,
            width=None if atom.width is None or least != most else atom.width * least,
            groups_around_repeat=0,
            can_be_empty=least == 0,
            has_one_end=least == most,
            states_count=atom.states_count * max(least, most or 0, 1) + 1,
        )

    def _check_repeatable(self, atom: _Piece) -> None:
        is_group = self._regex[atom.position] == "("
        if not is_group and (atom.width or 1) > 1:
            raise self._refused(atom.position, "a repeated character outside ASCII (only its last byte would repeat)")
        if atom.can_be_empty:
            raise self._refused(atom.position, "a repeated group that can be empty")
        if not atom.has_one_end:
            raise self._refused(atom.position, "a repeated group that can end in several places")

    def _read_class(self) -> None:
        start = self.position
        self.position += 1
        if self._next() == "^":
            self.position += 1
        first = self.position
        can_begin_range = False
        while self._next() != "]":
            character, at = self._next(), self.position
            if not character:
                raise self._refused(start, "a character class that is not closed")
            if self._regex[at : at + 2] in _SET_OPERATORS:
                what = f"{self._regex[at : at + 2]!r} in a class, a set operator in some engines,"
                raise self._refused(at, what)
            if character == "-" and at > first and self._regex[at + 1 : at + 2] != "]":
                if not can_begin_range:
                    raise self._refused(at, "a dash in a class that is neither first nor last nor between two")
                self.position += 1
                if self._read_class_item(first):
                    raise self._refused(at, "a range in a class that ends in a set")
                can_begin_range = False
            else:
                can_begin_range = not self._read_class_item(first)
        if self.position == first:
            raise self._refused(first, "an empty character class")
        self.position += 1

    def _read_class_item(self, first: int) -> bool:
        """One member of a class; whether it is a set of its own, such as `\\d`."""
        at, character = self.position, self._next()
        if not self._regex[at : at + 2].isascii() and (character == "\\" or not character.isascii()):
            raise self._refused(at, "a character outside ASCII in a class (its bytes would be members)")
        if character == "[":
            named = self._regex[at + 1 : at + 2] in tuple(":.=")
            raise self._refused(at, "named character classes" if named else "an unescaped '[' in a class")
        if character != "\\":
            self.position += 1
            return False
        following = self._check_escape()
        if following == "S":
            raise self._refused(at, "the escape \\S in a class")
        if following == "-" and at > first and self._regex[at + 2 : at + 3] != "]":
            raise self._refused(at, "an escaped dash inside a class (put it first or last)")
        self.position += 2
        return following in _CLASS_ESCAPES

    def _check_escape(self) -> str:
        following = self._regex[self.position + 1 : self.position + 2]
        if not following:
            raise self._refused(self.position, "a backslash at the end")
        if following.isalnum() and following not in _CLASS_ESCAPES:
            what = "a back-reference" if following.isdigit() else f"the escape \\{following}"
            raise self._refused(self.position, what)
        return following

    def _next(self) -> str:
        return self._regex[self.position : self.position + 1]

    def _refused(self, position: int, what: str) -> UsageError:
        return _refused(self._regex, position, what)


def _are_told_apart(literals: list[str | None]) -> bool:
    """Whether all are literals of which none begins with another: then at most one fits at any place."""
    known = sorted(literal for literal in literals if literal is not None)
    pairs = itertools.pairwise(known)
    return len(known) == len(literals) and not any(longer.startswith(shorter) for shorter, longer in pairs)


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 7 else _MOST_STATES + 1


def _refused(regex: str, position: int, what: str) -> UsageError:
    return UsageError(
        "bad-kernel-regex",
        f"{what} at position {position + 1} of {regex!r}: not every rocprofv3 understands it, and some take it for "
        "something else without a word",
        hint="write it with literals, . ^ $ | [ ] \\d \\w \\s * + ? {m,n}, and alternatives at the top (^a$|^b$); or "
        "name kernels with --kernel or --kernel-prefix",
    )
