"""What the user calls a kernel -> a regular expression that every rocprofv3 understands in the same way.

rocprofv3 searches its expression in the demangled name without `.kd`. Up to ROCm 7.0 the engine is C++ `std::regex`,
from 7.1 on a home-made one that takes what it does not know for literal text, in silence. Only what both know and agree
on is let through: literals, `.`, `^`, `$`, groups, `|`, classes, the six escapes for digits, words and spaces, and the
quantifiers `* + ? {m,n}` with their lazy forms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rocktools.errors import UsageError

# Kernels that wait for another rank: a counter pass runs one kernel at a time per device, and they would never end.
COLLECTIVE_KERNELS = "nccl|rccl|mscclpp"

_CLASS_ESCAPES = frozenset("dDwWsS")
_QUANTIFIER = re.compile(r"\{\d+(,\d*)?\}")
_UNSUPPORTED_GROUP = {
    "(?:": "non-capturing groups",
    "(?=": "lookahead",
    "(?!": "lookahead",
    "(?<": "lookbehind and named groups",
    "(?P": "named groups",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFilter:
    """Which kernels a counter pass counts.

    Attributes:
        include: expression for rocprofv3; a kernel is counted if it matches somewhere.
        exclude: expression for kernels that are left out all the same; None for none.
        meaning: the filter in words, for manifests and messages.
    """

    include: str
    exclude: str | None
    meaning: str

    def matches(self, kernel_name: str) -> bool:
        """Whether a kernel of this clean name is counted."""
        if self.exclude is not None and re.search(self.exclude, kernel_name):
            return False
        return re.search(self.include, kernel_name) is not None


def filter_names(names: Sequence[str], *, exclude: str | None = COLLECTIVE_KERNELS) -> KernelFilter:
    """Kernels with exactly these names.

    Raises:
        UsageError: no name is given, or one is empty.
    """
    if not names or not all(names):
        raise UsageError("kernel-name-empty", "a kernel's name cannot be empty")
    escaped = [re.escape(name) for name in names]
    include = f"^{escaped[0]}$" if len(escaped) == 1 else f"^({'|'.join(escaped)})$"
    return _checked(include, exclude, meaning=f"kernels named {', '.join(names)}", names=names)


def filter_prefix(prefix: str, *, exclude: str | None = COLLECTIVE_KERNELS) -> KernelFilter:
    """Kernels whose names begin with `prefix`, as the kernels of one HLO instruction do.

    Raises:
        UsageError: the prefix is empty.
    """
    if not prefix:
        raise UsageError("kernel-prefix-empty", "an empty prefix would match every kernel")
    return _checked(f"^{re.escape(prefix)}", exclude, meaning=f"kernels that begin with {prefix}", names=[prefix])


def filter_regex(regex: str, *, exclude: str | None = COLLECTIVE_KERNELS) -> KernelFilter:
    """Kernels that match an expression of the user's, somewhere in the name.

    Raises:
        UsageError: the expression is not one that both engines understand; the reason is named.
    """
    require_portable_regex(regex)
    return _checked(regex, exclude, meaning=f"kernels that match /{regex}/", names=[])


def _checked(include: str, exclude: str | None, *, meaning: str, names: Sequence[str]) -> KernelFilter:
    if exclude is not None:
        require_portable_regex(exclude)
        excluded = [name for name in names if re.search(exclude, name)]
        if excluded:
            raise UsageError(
                "kernel-is-excluded",
                f"{excluded[0]} is asked for and excluded by /{exclude}/ (a counter pass runs one kernel at a time; "
                "a collective would wait for the other ranks for ever)",
                hint="leave collectives to traces; or give --exclude '' if this kernel waits for nobody",
            )
    return KernelFilter(include=include, exclude=exclude, meaning=meaning)


def require_portable_regex(regex: str) -> None:
    """Let through what both engines understand.

    Raises:
        UsageError: something in it only one of them knows; what and where is named.
    """
    position = depth = 0
    can_repeat = False
    while position < len(regex):
        character = regex[position]
        if character == "\\":
            _check_escape(regex, position)
            position, can_repeat = position + 2, True
        elif character == "[":
            position, can_repeat = _class_end(regex, position), True
        elif character == "(":
            _check_group(regex, position)
            depth, position, can_repeat = depth + 1, position + 1, False
        elif character == ")":
            depth, position, can_repeat = depth - 1, position + 1, True
            if depth < 0:
                raise _refused(regex, position - 1, "a closing parenthesis without an opening one")
        elif character in "*+?{":
            if not can_repeat:
                raise _refused(regex, position, f"nothing to repeat before {character!r}")
            position, can_repeat = _quantifier_end(regex, position), False
        elif character in "]}":
            raise _refused(regex, position, f"an unescaped {character!r}")
        else:
            can_repeat = character not in "|^"
            position += 1
    if depth:
        raise _refused(regex, len(regex), "an opening parenthesis without a closing one")
    if not regex:
        raise UsageError("bad-kernel-regex", "an empty expression would match every kernel")
    try:
        re.compile(regex)
    except re.error as error:
        raise UsageError("bad-kernel-regex", f"{regex!r} is not a regular expression: {error}") from error


def _check_escape(regex: str, position: int) -> None:
    following = regex[position + 1 : position + 2]
    if not following:
        raise _refused(regex, position, "a backslash at the end")
    if following.isalnum() and following not in _CLASS_ESCAPES:
        what = "a back-reference" if following.isdigit() else f"the escape \\{following}"
        raise _refused(regex, position, what)


def _check_group(regex: str, position: int) -> None:
    if regex[position + 1 : position + 2] == "?":
        opening = regex[position : position + 3]
        raise _refused(regex, position, _UNSUPPORTED_GROUP.get(opening, f"{opening!r} (inline flags or extensions)"))


def _class_end(regex: str, start: int) -> int:
    position = start + 1
    if regex[position : position + 1] == "^":
        position += 1
    first = position
    while position < len(regex):
        character = regex[position]
        if character == "]" and position > first:
            return position + 1
        if character == "[" and regex[position + 1 : position + 2] in (":", ".", "="):
            raise _refused(regex, position, "named character classes")
        if character == "]":
            raise _refused(regex, position, "an empty character class")
        if character == "\\":
            _check_escape(regex, position)
            position += 1
        position += 1
    raise _refused(regex, start, "a character class that is not closed")


def _quantifier_end(regex: str, position: int) -> int:
    if regex[position] == "{":
        match = _QUANTIFIER.match(regex, position)
        if match is None:
            raise _refused(regex, position, "an unescaped '{' that is no {m,n}")
        position = match.end()
    else:
        position += 1
    following = regex[position : position + 1]
    if following == "+":
        raise _refused(regex, position, "a possessive quantifier")
    if following == "?":  # the lazy form
        position += 1
    if regex[position : position + 1] in ("*", "+", "?", "{"):
        raise _refused(regex, position, "a quantifier of a quantifier")
    return position


def _refused(regex: str, position: int, what: str) -> UsageError:
    return UsageError(
        "bad-kernel-regex",
        f"{what} at position {position + 1} of {regex!r}: not every rocprofv3 understands it, and some take it for "
        "literal text without a word",
        hint="write it with literals, . ^ $ ( ) | [ ] \\d \\w \\s * + ? {m,n}; or name kernels with --kernel or "
        "--kernel-prefix",
    )
