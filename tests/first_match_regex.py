"""A model of the home-made regular expressions of rocprofv3 (ROCm 7.1 and later), as far as kernels are chosen by it.

Written from what ROCm/rocprofiler-sdk, source/lib/common/regex.cpp does at 3bec39f5 (2025). How it differs from other
engines: a group, an alternative and a sequence have one end for each beginning, the first that is found, so nothing
behind them can make them try another; a repeat comes back for fewer repeats only if it stands in the sequence itself,
or alone in a group there; a repeat stops at a pass that matched nothing; unknown escapes are the character itself;
`(?` is a group whose first character is `?`; in a class, an escaped dash makes a range, and `\\S` is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
DIGIT = frozenset(b"0123456789")
SPACE = frozenset(b" \t\n\v\f\r")
EVERY = frozenset(range(256))
SETS = {"d": DIGIT, "D": EVERY - DIGIT, "w": WORD, "W": EVERY - WORD, "s": SPACE, "S": EVERY - SPACE}
CONTROLS = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11}
_BRACES = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")


class BadPattern(Exception):
    """It throws, which aborts the job."""


@dataclass(eq=False)
class Node:
    kind: str  # byte, begin, end, sequence, choice, repeat, group
    members: frozenset[int] = frozenset()
    parts: list[Node] = field(default_factory=list)
    least: int = 0
    most: int | None = None
    is_lazy: bool = False


class Parser:
    def __init__(self, pattern: str) -> None:
        # One character for each byte, as the engine sees it.
        self.text = pattern.encode("utf-8", "surrogateescape").decode("latin-1")
        self.at = 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        taken = self.peek()
        self.at += len(taken)
        return taken

    def eat(self, wanted: str) -> bool:
        is_there = self.peek() == wanted
        self.at += is_there
        return is_there

    def parse(self) -> Node:
        whole = self.choice()
        if self.at < len(self.text):
            raise BadPattern("rest")
        return whole

    def choice(self) -> Node:
        branches = [self.sequence()]
        while self.eat("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else Node("choice", parts=branches)

    def sequence(self) -> Node:
        parts = []
        while self.peek() and self.peek() not in ")|":
            parts.append(self.repeated(self.atom()))
        return parts[0] if len(parts) == 1 else Node("sequence", parts=parts)

    def repeated(self, atom: Node) -> Node:
        known: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self.peek() in known:
            least, most = known[self.take()]
        elif match := _BRACES.match(self.text, self.at):
            self.at = match.end()
            least = int(match[1])
            most = least if not match[2] else int(match[3]) if match[3] else None
        else:
            return atom
        return Node("repeat", parts=[atom], least=least, most=most, is_lazy=self.eat("?"))

    def atom(self) -> Node:
        taken = self.take()
        if taken == ".":
            return Node("byte", EVERY)
        if taken in ("^", "$"):
            return Node("begin" if taken == "^" else "end")
        if taken == "[":
            return self.members()
        if taken == "(":
            inner = self.choice()
            if not self.eat(")"):
                raise BadPattern("group")
            return Node("group", parts=[inner])
        if taken == "\\":
            escaped = self.take()
            return Node("byte", SETS.get(escaped) or frozenset([CONTROLS.get(escaped, ord(escaped or "\\"))]))
        return Node("byte", frozenset([ord(taken)]))

    def members(self) -> Node:
        is_negated = self.eat("^")
        found: set[int] = set()
        before: int | None = None
        is_first = True
        while self.peek() and self.peek() != "]":
            if self.eat("\\"):
                taken = self.take()
                if taken in SETS:
                    found |= SETS[taken] if taken != "S" else frozenset()
                    continue
            else:
                taken = self.take()
            if not is_first and taken == "-" and self.peek() != "]" and before is not None:
                self.eat("\\")
                first, last = sorted((before, ord(self.take())))
                found.update(range(first, last + 1))
                before = None
            else:
                if before is not None:
                    found.add(before)
                before = ord(taken)
            is_first = False
        if before is not None:
            found.add(before)
        if not self.eat("]"):
            raise BadPattern("class")
        return Node("byte", EVERY - found if is_negated else frozenset(found))


class Matcher:
    def __init__(self, text: bytes) -> None:
        self.text = text

    def end(self, node: Node, at: int) -> int | None:
        """Where it ends, if it fits at `at`; there is one answer."""
        kind = node.kind
        if kind == "byte":
            return at + 1 if at < len(self.text) and self.text[at] in node.members else None
        if kind in ("begin", "end"):
            return at if at == (0 if kind == "begin" else len(self.text)) else None
        if kind == "group":
            return self.end(node.parts[0], at)
        if kind == "choice":
            return next((end for part in node.parts if (end := self.end(part, at)) is not None), None)
        if kind == "repeat":
            return next(self.ends_of_repeat(node, at), None)
        return self.end_of_parts(node.parts, at)

    def end_of_parts(self, parts: list[Node], at: int) -> int | None:
        if not parts:
            return at
        first, *rest = parts
        inner = first.parts[0] if first.kind == "group" else first
        if inner.kind == "repeat":
            candidates = self.ends_of_repeat(inner, at)
        else:
            only = self.end(first, at)
            candidates = iter([] if only is None else [only])
        return next((end for way in candidates if (end := self.end_of_parts(rest, way)) is not None), None)

    def ends_of_repeat(self, node: Node, at: int) -> Iterator[int]:
        ends = [at]
        while node.most is None or len(ends) <= node.most:
            end = self.end(node.parts[0], ends[-1])
            if end is None or end == ends[-1]:
                break
            ends.append(end)
        allowed = ends[node.least :]
        return iter(allowed if node.is_lazy else allowed[::-1])


def is_found(pattern: str, name: str) -> bool:
    """Whether the engine finds the pattern in a name.

    Raises:
        BadPattern: the engine throws.
    """
    root = Parser(pattern).parse()
    text = name.encode("utf-8", "surrogateescape")
    matcher = Matcher(text)
    return any(matcher.end(root, at) is not None for at in range(len(text) + 1))
