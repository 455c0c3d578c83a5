"""The dataclasses of a document -> its JSON Schema, with a sentence for each member from their docstrings.

summary.schema.json, answer.schema.json and worksheet.schema.json are what this makes, and experiment.schema.json in
compare; tests compare them, and `python tests/summary_schema.py` renews them.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from rocktools.summary.document import SCHEMA, Summary

_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_ATTRIBUTE = re.compile(r"([a-z_0-9]+(?:, (?:\.\.\.|[a-z_0-9]+))*): (.*)")


def build_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `rocktools.summary/1`."""
    return schema_of(SCHEMA, "Summary of a run", Summary)


def schema_of(schema: str, title: str, *kinds: type) -> dict[str, Any]:
    """JSON Schema of documents that are any of these dataclasses, each with a member `schema`.

    Args:
        schema: name and version, the value of that member.
    """
    definitions: dict[str, Any] = {}
    references = [_define(kind, definitions) for kind in kinds]
    for kind in kinds:
        of_schema = definitions[kind.__name__]["properties"]["schema"]
        of_schema.pop("type")
        definitions[kind.__name__]["properties"]["schema"] = {"const": schema, **of_schema}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": schema,
        "title": title,
        **(references[0] if len(references) == 1 else {"oneOf": references}),
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _define(kind: Any, definitions: dict[str, Any]) -> dict[str, str]:
    reference = {"$ref": f"#/$defs/{kind.__name__}"}
    if kind.__name__ in definitions:
        return reference
    definitions[kind.__name__] = {}  # so that a circle would end
    hints, meanings = get_type_hints(kind), _meanings(kind)
    fields = dataclasses.fields(kind)
    properties = {}
    for each in fields:
        member = dict(_shape(hints[each.name], definitions))
        if each.name in meanings:
            member["description"] = meanings[each.name]
        properties[each.name] = member
    definitions[kind.__name__] = {
        "type": "object",
        "description": " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split()),
        "properties": properties,
        "required": [each.name for each in fields],
        "additionalProperties": False,
    }
    return reference


def _shape(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        kinds = get_args(hint)
        if all(kind in _SCALARS for kind in kinds):
            return {"type": [_SCALARS[kind] for kind in kinds]}
        return {"anyOf": [_shape(kind, definitions) for kind in kinds]}
    if origin is tuple:
        return {"type": "array", "items": _shape(get_args(hint)[0], definitions)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _shape(get_args(hint)[1], definitions)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [each.value for each in hint]}
    if dataclasses.is_dataclass(hint):
        return _define(hint, definitions)
    return {"type": _SCALARS[hint]}


def _meanings(kind: Any) -> dict[str, str]:
    """Field -> its sentence in the section Attributes of the docstring."""
    _, _, section = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    entries: list[str] = []
    for line in section.splitlines():
        if line.startswith("    ") and not line.startswith("     "):
            entries.append(line.strip())
        elif entries and line.strip():
            entries[-1] += f" {line.strip()}"
    found = {}
    for entry in entries:
        match = _ATTRIBUTE.match(entry)
        if match is not None:
            found.update(dict.fromkeys(match[1].split(", "), match[2]))
    return found
