"""A YAML file of the user's, with the line of every entry, so that a complaint can say where.

Knows YAML and nothing of what is in the files: who reads one says which keys it may have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rocktools.errors import InputError, UnsupportedVersion, nearest_names

Place = tuple[str | int, ...]

_LARGEST_COUNT = 10**18


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlFile:
    """The content of a file, and where each entry stands.

    Attributes:
        source: the file, for messages.
        value: what `yaml.safe_load` makes of it.
        lines: place of an entry (keys and indices from the top) -> line, from 1.
    """

    source: str
    value: Any
    lines: Mapping[Place, int]

    def complaint(self, reference: str, place: Place, what: str, hint: str | None = None) -> InputError:
        """The error to raise about the entry at `place`: it names the file, the line and the entry."""
        known = next((self.lines[place[:n]] for n in range(len(place), -1, -1) if place[:n] in self.lines), 1)
        entry = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
        return InputError(reference, what, where=f"{self.source}:{known}: {entry or 'top'}", hint=hint)

    def require_mapping(
        self, reference: str, place: Place, value: Any, *, required: Sequence[str] = (), optional: Sequence[str] = ()
    ) -> dict[str, Any]:
        """`value` as a mapping with these keys and no others.

        Raises:
            InputError: it is none, or a key is missing or unknown.
        """
        if not isinstance(value, dict):
            raise self.complaint(reference, place, f"must be a mapping, but is {_kind(value)}")
        allowed = (*required, *optional)
        for key in value:
            if key not in allowed:
                near = nearest_names(str(key), allowed) or allowed
                raise self.complaint(reference, (*place, key), f"unknown key {key!r}", f"one of: {', '.join(near)}")
        for key in required:
            if key not in value:
                raise self.complaint(reference, place, f"the key {key!r} is missing")
        return value

    def require_text(self, reference: str, place: Place, value: Any, *, choices: Sequence[str] = ()) -> str:
        """`value` as a text that is not empty, one of `choices` where there are any.

        Raises:
            InputError: it is none.
        """
        if not isinstance(value, str) or not value.strip():
            raise self.complaint(reference, place, f"must be a text, but is {_kind(value)}")
        if choices and value not in choices:
            raise self.complaint(reference, place, f"{value!r} is not known here", f"one of: {', '.join(choices)}")
        return value

    def require_texts(
        self, reference: str, place: Place, value: Any, *, choices: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """`value` as a list of texts, not empty.

        Raises:
            InputError: it is none, or one of them is none.
        """
        if not isinstance(value, list) or not value:
            raise self.complaint(reference, place, f"must be a list of texts, but is {_kind(value)}")
        return tuple(self.require_text(reference, (*place, i), each, choices=choices) for i, each in enumerate(value))

    def require_count(self, reference: str, place: Place, value: Any, *, at_least: int = 1) -> int:
        """`value` as an integer that a column can hold.

        Raises:
            InputError: it is none, less than `at_least`, or more than anything that is counted.
        """
        if isinstance(value, int) and abs(value) > _LARGEST_COUNT:  # as text it may have more digits than Python writes
            raise self.complaint(reference, place, f"must be an integer of at most {_LARGEST_COUNT:,}")
        if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
            shown = value if isinstance(value, (int, float)) else _kind(value)
            raise self.complaint(reference, place, f"must be an integer of at least {at_least}, but is {shown}")
        return value

    def require_list(self, reference: str, place: Place, value: Any) -> list[Any]:
        """`value` as a list.

        Raises:
            InputError: it is none.
        """
        if not isinstance(value, list):
            raise self.complaint(reference, place, f"must be a list, but is {_kind(value)}")
        return value

    def require_schema(self, reference: str, schema: str) -> None:
        """That the file says it keeps `schema`.

        Raises:
            InputError: it says nothing.
            UnsupportedVersion: it says another.
        """
        found = self.value.get("schema") if isinstance(self.value, dict) else None
        if found is None:
            raise self.complaint(reference, (), f"the first entry must be `schema: {schema}`")
        if found != schema:
            line = self.lines.get(("schema",), 1)
            raise UnsupportedVersion(
                reference, f"the file keeps {found}, and {schema} is read", where=f"{self.source}:{line}: schema"
            )


def read_yaml_file(path: Path, reference: str) -> YamlFile:
    """The content of the file.

    Raises:
        InputError: it cannot be read, is no text, or no YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(reference, "there is no such file", where=str(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(reference, f"the file cannot be read: {error}", where=str(path)) from error
    return parse_yaml(text, source=str(path), reference=reference)


def parse_yaml(text: str, *, source: str, reference: str) -> YamlFile:
    """The content of a YAML text.

    Raises:
        InputError: it is no YAML, or gives one key twice.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else source
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(reference, f"the file is no YAML: {problem}", where=where) from error
    lines: dict[Place, int] = {}
    if node is not None:
        _collect(node, (), lines, source, reference)
    return YamlFile(source=source, value=value, lines=lines)


def _collect(node: yaml.Node, place: Place, lines: dict[Place, int], source: str, reference: str) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*place, str(key.value))
            if inner in lines:
                where = f"{source}:{key.start_mark.line + 1}"
                raise InputError(reference, f"the key {key.value!r} is there twice", where=where)
            lines[inner] = key.start_mark.line + 1
            _collect(value, inner, lines, source, reference)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _collect(value, (*place, i), lines, source, reference)


def _kind(value: Any) -> str:
    if value is None:
        return "empty"
    return {dict: "a mapping", list: "a list", str: "a text", bool: "yes or no"}.get(type(value), repr(value))
