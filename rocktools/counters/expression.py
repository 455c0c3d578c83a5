"""The expressions of formulas: text -> tree -> unit, or numpy array. A grammar of its own; nothing is ever `eval`ed.

    expression = term {("+" | "-") term}
    term       = factor {("*" | "/") factor}
    factor     = ["-"] atom
    atom       = number ["[" unit "]"] | name | function "(" expression {"," expression} ")" | "(" expression ")"

`sum(X)`, `max(X)`, `min(X)` with the name of one counter reduce it over its hardware instances; a bare name takes the
counter's usual reduction. With two or more arguments `max` and `min` choose between values. What a name stands for
(a counter, a fact of the device, another quantity) is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from rocktools.counters.dimensions import RATIO, Dimension, parse_dimension
from rocktools.errors import FormulaError

REDUCTIONS = ("sum", "max", "min")
_Binary = Callable[[np.ndarray, np.ndarray], np.ndarray]
_CHOICES: Mapping[str, _Binary] = {"max": np.maximum, "min": np.minimum}
_ARITHMETIC: Mapping[str, _Binary] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<unit>\[[^\[\]]*\])
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign>[-+*/(),])
    )""",
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Number:
    """A constant with its unit."""

    value: float
    dimension: Dimension = RATIO


@dataclass(frozen=True, slots=True)
class Name:
    """A name as it stands; `reduction` is "" for the usual one."""

    name: str
    reduction: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on two expressions: one of + - * /."""

    sign: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negation:
    inner: Expression


@dataclass(frozen=True, slots=True)
class Choice:
    """The largest (max) or smallest (min) of several expressions."""

    function: str
    items: tuple[Expression, ...]


Expression = Number | Name | Operation | Negation | Choice


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


def parse_expression(text: str) -> Expression:
    """The tree of an expression.

    Raises:
        FormulaError: it does not follow the grammar; the position is told.
    """
    return _Parser(text).parse()


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            at = len(text) - len(text[position:].lstrip())
            raise FormulaError("formula-syntax", f"{text[at]!r} at position {at} means nothing", where=text)
        yield _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
        position = match.end()
    yield _Token("end", "", len(text))


class _Parser:
    """Recursive descent over the tokens of one text."""

    _DEEPEST = 50

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._position = 0
        self._depth = 0

    def parse(self) -> Expression:
        tree = self._expression()
        if self._next.kind != "end":
            raise self._unexpected()
        return tree

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _take(self) -> _Token:
        token = self._next
        self._position += 1
        return token

    def _takes(self, *signs: str) -> str:
        """The sign, if one of these comes next; "" otherwise."""
        if self._next.kind == "sign" and self._next.text in signs:
            return self._take().text
        return ""

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > self._DEEPEST:
            raise FormulaError("formula-syntax", "parentheses are nested too deeply", where=self._text[:80])
        tree = self._term()
        while sign := self._takes("+", "-"):
            tree = Operation(sign, tree, self._term())
        self._depth -= 1
        return tree

    def _term(self) -> Expression:
        tree = self._factor()
        while sign := self._takes("*", "/"):
            tree = Operation(sign, tree, self._factor())
        return tree

    def _factor(self) -> Expression:
        return Negation(self._atom()) if self._takes("-") else self._atom()

    def _atom(self) -> Expression:
        if self._takes("("):
            tree = self._expression()
            self._require(")")
            return tree
        if self._next.kind == "number":
            return self._number()
        if self._next.kind == "name":
            name = self._take().text
            return self._call(name) if self._takes("(") else Name(name)
        raise self._unexpected()

    def _number(self) -> Number:
        value = float(self._take().text)
        if self._next.kind != "unit":
            return Number(value)
        return Number(value, parse_dimension(self._take().text[1:-1]))

    def _call(self, function: str) -> Expression:
        items = [self._expression()]
        while self._takes(","):
            items.append(self._expression())
        self._require(")")
        if function not in REDUCTIONS:
            known = ", ".join(REDUCTIONS)
            raise FormulaError("unknown-function", f"there is no function {function}()", where=self._text, hint=known)
        if len(items) == 1 and isinstance(items[0], Name) and not items[0].reduction:
            return Name(items[0].name, function)
        if len(items) == 1 or function not in _CHOICES:
            raise FormulaError(
                "formula-syntax",
                f"{function}() reduces one counter over its instances, and only that",
                where=self._text,
            )
        return Choice(function, tuple(items))

    def _require(self, sign: str) -> None:
        if not self._takes(sign):
            raise self._unexpected(f", where {sign!r} should be")

    def _unexpected(self, instead: str = "") -> FormulaError:
        token = self._next
        what = repr(token.text) if token.text else "the end"
        return FormulaError("formula-syntax", f"{what} at position {token.position}{instead}", where=self._text)


def names_in(tree: Expression) -> tuple[Name, ...]:
    """The names of an expression, each with each of its reductions once, in the order in which they stand."""
    if isinstance(tree, Name):
        return (tree,)
    return tuple(dict.fromkeys(name for child in _children(tree) for name in names_in(child)))


def _children(tree: Expression) -> tuple[Expression, ...]:
    if isinstance(tree, Operation):
        return (tree.left, tree.right)
    if isinstance(tree, Negation):
        return (tree.inner,)
    return tree.items if isinstance(tree, Choice) else ()


def replace_names(tree: Expression, substitute: Callable[[Name], Expression]) -> Expression:
    """The same expression with other things in the places of names."""
    if isinstance(tree, Name):
        return substitute(tree)
    if isinstance(tree, Operation):
        return Operation(tree.sign, replace_names(tree.left, substitute), replace_names(tree.right, substitute))
    if isinstance(tree, Negation):
        return Negation(replace_names(tree.inner, substitute))
    if isinstance(tree, Choice):
        return Choice(tree.function, tuple(replace_names(item, substitute) for item in tree.items))
    return tree


def dimension_of(tree: Expression, dimensions: Mapping[str, Dimension]) -> Dimension:
    """The unit of an expression's value.

    Args:
        dimensions: of every name in it.

    Raises:
        FormulaError: values of different units are added, subtracted or compared.
    """
    found = _dimension(tree, dimensions)
    return RATIO if found is None else found


def _dimension(tree: Expression, dimensions: Mapping[str, Dimension]) -> Dimension | None:
    """None for a plain 0, which has any unit."""
    if isinstance(tree, Number):
        return None if tree.value == 0 and tree.dimension == RATIO else tree.dimension
    if isinstance(tree, Name):
        return dimensions[tree.name]
    if isinstance(tree, Negation):
        return _dimension(tree.inner, dimensions)
    parts = [_dimension(child, dimensions) for child in _children(tree)]
    if isinstance(tree, Operation) and tree.sign in "*/":
        left, right = (RATIO if part is None else part for part in parts)
        return left * right if tree.sign == "*" else left / right
    known = [part for part in parts if part is not None]
    if len(set(known)) > 1:
        units = " and ".join(dict.fromkeys(map(str, known)))
        verb = "compared with" if isinstance(tree, Choice) else {"+": "added to", "-": "subtracted from"}[tree.sign]
        raise FormulaError("unit-mismatch", f"values in {units} cannot be {verb} each other", where=render(tree))
    return known[0] if known else None


def evaluate_expression(tree: Expression, values: Mapping[Name, np.ndarray]) -> np.ndarray:
    """The value of an expression, for all rows at once; NaN where a value is missing or a division is by zero.

    Args:
        values: of every name in it, arrays of float64 of one length.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = np.asarray(_value(tree, values), dtype=np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def _value(tree: Expression, values: Mapping[Name, np.ndarray]) -> np.ndarray:
    if isinstance(tree, Number):
        return np.asarray(tree.value, dtype=np.float64)
    if isinstance(tree, Name):
        return values[tree]
    if isinstance(tree, Negation):
        return _ARITHMETIC["-"](np.asarray(0.0), _value(tree.inner, values))
    if isinstance(tree, Choice):
        return reduce(_CHOICES[tree.function], [_value(item, values) for item in tree.items])
    return _ARITHMETIC[tree.sign](_value(tree.left, values), _value(tree.right, values))


def render(tree: Expression) -> str:
    """The expression as text, with all the parentheses that it needs and no more."""
    if isinstance(tree, Number):
        value = int(tree.value) if tree.value == int(tree.value) and tree.value < 1e15 else tree.value
        return f"{value}" if tree.dimension == RATIO else f"{value}[{tree.dimension}]"
    if isinstance(tree, Name):
        return f"{tree.reduction}({tree.name})" if tree.reduction else tree.name
    if isinstance(tree, Negation):
        inner = render(tree.inner)
        return f"-({inner})" if isinstance(tree.inner, Operation | Negation) else f"-{inner}"
    if isinstance(tree, Choice):
        return f"{tree.function}({', '.join(map(render, tree.items))})"
    return f"{_side(tree.left, tree.sign, is_right=False)} {tree.sign} {_side(tree.right, tree.sign, is_right=True)}"


def _side(side: Expression, sign: str, *, is_right: bool) -> str:
    text = render(side)
    if not isinstance(side, Operation):
        return text
    is_sum, in_product = side.sign in "+-", sign in "*/"
    return f"({text})" if (is_sum and in_product) or (is_right and is_sum == (not in_product)) else text
