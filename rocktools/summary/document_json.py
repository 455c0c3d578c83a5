"""Frozen dataclasses <-> plain JSON values, by their type hints alone; knows no block.

Fields become members of the same name; tuples lists; enums their values; a missing value null. In reading, a member
that is not known is passed over, and one that is not there takes its default, so that a field with a default may be
added within a version.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rocktools.errors import ContractError, DamagedFile

_T = TypeVar("_T")
_UNIONS = (Union, types.UnionType)
_SCALARS: tuple[type, ...] = (str, int, float, bool)


def to_plain(value: Any) -> Any:
    """The value as `json.dumps` takes it; floats that are not finite are null.

    Raises:
        ContractError: something in it has no place in the document.
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (tuple, list)):
        return [to_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    raise ContractError("summary-value", f"{type(value).__name__} has no place in a summary: {value!r}")


def from_plain(kind: type[_T], value: Any, *, where: str) -> _T:
    """An object of a dataclass from what `to_plain` made of it.

    Args:
        where: file, for messages; the place in it is added.

    Raises:
        DamagedFile: a member is missing, or of another type.
    """
    found: _T = _read(kind, value, where, "")
    return found


def _read(hint: Any, value: Any, where: str, place: str) -> Any:
    origin = get_origin(hint)
    if origin in _UNIONS:
        return _read_union(get_args(hint), value, where, place)
    if origin is tuple:
        _require(isinstance(value, list), value, "a list", where, place)
        inner = get_args(hint)[0]
        return tuple(_read(inner, each, where, f"{place}[{index}]") for index, each in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        _require(isinstance(value, dict), value, "an object", where, place)
        inner = get_args(hint)[1]
        return {name: _read(inner, each, where, f"{place}.{name}") for name, each in value.items()}
    if dataclasses.is_dataclass(hint):
        return _read_object(hint, value, where, place)
    return _read_scalar(hint, value, where, place)


def _read_union(kinds: tuple[Any, ...], value: Any, where: str, place: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    others = [kind for kind in kinds if kind is not type(None)]
    if len(others) == 1:
        return _read(others[0], value, where, place)
    objects = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
    if objects and isinstance(value, dict):
        return _read(_fitting(objects, value), value, where, place)
    for kind in kinds:
        if kind in _SCALARS and _is_scalar(kind, value):
            return value
    for kind in kinds:  # a float that is whole is written as it is, and may be read as int by other tools
        if kind is float and _is_scalar(int, value):
            return float(value)
    names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
    raise _wrong(value, names, where, place)


def _fitting(kinds: list[Any], value: Mapping[str, Any]) -> Any:
    """Of several objects the one whose fields are the members, or that has most of them."""
    return max(kinds, key=lambda kind: (_names(kind) == set(value), len(_names(kind) & set(value))))


def _names(kind: Any) -> set[str]:
    return {each.name for each in dataclasses.fields(kind)}


def _read_object(kind: Any, value: Any, where: str, place: str) -> Any:
    _require(isinstance(value, dict), value, "an object", where, place)
    hints = _hints_of(kind)
    given: dict[str, Any] = {}
    for each in dataclasses.fields(kind):
        here = f"{place}.{each.name}"
        if each.name in value:
            given[each.name] = _read(hints[each.name], value[each.name], where, here)
        elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise DamagedFile("summary-member", "a member is missing", where=f"{where}: {here.lstrip('.')}")
    make: Callable[..., Any] = kind
    return make(**given)


@functools.cache
def _hints_of(kind: Any) -> dict[str, Any]:
    """Type hints of a dataclass; to find them takes longer than to read an object."""
    return get_type_hints(kind)


def _read_scalar(hint: Any, value: Any, where: str, place: str) -> Any:
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError as error:
            known = ", ".join(str(each.value) for each in hint)
            raise _wrong(value, f"one of {known}", where, place) from error
    if hint is float and _is_scalar(int, value):
        return float(value)
    _require(_is_scalar(hint, value), value, getattr(hint, "__name__", str(hint)), where, place)
    return value


def _is_scalar(kind: Any, value: Any) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _require(is_right: bool, value: Any, wanted: str, where: str, place: str) -> None:
    if not is_right:
        raise _wrong(value, wanted, where, place)


def _wrong(value: Any, wanted: str, where: str, place: str) -> DamagedFile:
    text = repr(value)
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return DamagedFile("summary-type", f"{shown} is not {wanted}", where=f"{where}: {place.lstrip('.')}")
