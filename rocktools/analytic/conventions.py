"""Records of conventions -> what each one is set to, and the same record with some of them changed.

A convention is a field of a frozen dataclass: its name is its public name, its default is what is taken where nobody
says otherwise, and its metadata has one sentence that says what it decides. A result names all of them, so that two
numbers which differ can be told apart from two which were counted differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from typing import Any, TypeVar

from rocktools.errors import UsageError, nearest_names

_Record = TypeVar("_Record")
_LARGEST = 1_000_000  # more is a slip, and would leave the range of floats
MEANING = "meaning"
"""Key of the sentence in the metadata of a field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """One convention of a result.

    Attributes:
        name: of the field.
        value, default: as texts, in the form in which `change_conventions` takes them.
        meaning: what it decides.
    """

    name: str
    value: str
    default: str
    meaning: str

    @property
    def is_changed(self) -> bool:
        return self.value != self.default


def describe_conventions(record: Any) -> tuple[Convention, ...]:
    """All conventions of a record, in the order in which it declares them."""
    return tuple(
        Convention(
            name=each.name,
            value=_text(getattr(record, each.name)),
            default=_text(each.default),
            meaning=each.metadata[MEANING],
        )
        for each in fields(record)
    )


def change_conventions(record: _Record, settings: Mapping[str, str]) -> _Record:
    """The record with these conventions instead of its own.

    Args:
        settings: name -> value as text: a number from 0 on (2.5 or 5/2), true or false, or one of the choices.

    Raises:
        UsageError: there is no such convention, or the value does not fit it.
    """
    known = {each.name: getattr(record, each.name) for each in describe_conventions(record)}
    for name in settings:
        if name not in known:
            near = nearest_names(name, known) or known
            raise UsageError("unknown-convention", f"there is no convention {name!r}", hint=", ".join(near))
    changed = {name: _parsed(name, text, known[name]) for name, text in settings.items()}
    return replace(record, **changed)  # type: ignore[type-var]  # a frozen dataclass, which no type says


def _parsed(name: str, text: str, like: Any) -> Any:
    """The value that the text stands for, of the kind that the convention has."""
    if isinstance(like, bool):
        if text.lower() not in ("true", "false"):
            raise _misfit(name, text, "true or false")
        return text.lower() == "true"
    if isinstance(like, Enum):
        choices = [str(member.value) for member in type(like)]
        if text not in choices:
            raise _misfit(name, text, ", ".join(choices))
        return type(like)(text)
    try:
        number = Fraction(text)
    except (ValueError, ZeroDivisionError):
        number = Fraction(-1)
    if not 0 <= number <= _LARGEST:
        raise _misfit(name, text, f"a number from 0 to {_LARGEST:,}")
    return number


def _misfit(name: str, text: str, wanted: str) -> UsageError:
    return UsageError("convention-value", f"{name} cannot be {text!r}", hint=f"{name}=VALUE with {wanted}")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Fraction):
        return f"{float(value):g}" if Fraction(f"{float(value):g}") == value else str(value)
    return str(value)
