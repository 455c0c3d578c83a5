"""Component maps as files: YAML -> `ComponentMap`, checked entry by entry; and the maps that travel with rocktools.

The schema is `rocktools.components/1`; the file `template.yaml` beside the maps explains every key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rocktools.attribution.components import (
    UNATTRIBUTED,
    Component,
    ComponentMap,
    FallbackRule,
    LoopPlace,
    RowState,
    ScopeRule,
    TableRow,
)
from rocktools.attribution.phases import OUTSIDE_PHASES, BookedPhase
from rocktools.errors import UsageError, nearest_names
from rocktools.yaml_file import Place, YamlFile, parse_yaml, read_yaml_file

SCHEMA = "rocktools.components/1"
DEFAULT_MAP = "maxtext"
_REFERENCE = "component-map"
_FOLDER = Path(__file__).resolve().parent / "component_maps"
_TABLE_PHASES = (BookedPhase.FORWARD, BookedPhase.BACKWARD, BookedPhase.REMATERIALIZED)


def shipped_maps() -> tuple[str, ...]:
    """The names of the maps that travel with rocktools."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def read_shipped_map(name: str = DEFAULT_MAP) -> ComponentMap:
    """The map of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in shipped_maps():
        near = nearest_names(name, shipped_maps()) or shipped_maps()
        raise UsageError("unknown-component-map", f"there is no component map {name!r}", hint=f"{', '.join(near)}")
    return read_component_map(_FOLDER / f"{name}.yaml")


def read_component_map(path: Path) -> ComponentMap:
    """The map in a file.

    Raises:
        InputError: the file cannot be read, or an entry is wrong; the entry and its line are named.
        UnsupportedVersion: it keeps another schema.
    """
    return _build(read_yaml_file(path, _REFERENCE))


def parse_component_map(text: str, *, source: str) -> ComponentMap:
    """The map in a text; raises as `read_component_map`."""
    return _build(parse_yaml(text, source=source, reference=_REFERENCE))


def _build(file: YamlFile) -> ComponentMap:
    file.require_schema(_REFERENCE, SCHEMA)
    top = file.require_mapping(
        _REFERENCE,
        (),
        file.value,
        required=("schema", "name", "components", "rules"),
        optional=("title", "source", "fallbacks", "tables"),
    )
    for key in ("title", "source"):
        if key in top:
            file.require_text(_REFERENCE, (key,), top[key])
    components = _components(file, top["components"])
    rules = file.require_list(_REFERENCE, ("rules",), top["rules"])
    fallbacks = file.require_list(_REFERENCE, ("fallbacks",), top.get("fallbacks", []))
    return ComponentMap(
        name=file.require_text(_REFERENCE, ("name",), top["name"]),
        source=file.source,
        components=components,
        rules=tuple(_scope_rule(file, i, value, tuple(components)) for i, value in enumerate(rules)),
        fallbacks=tuple(_fallback_rule(file, i, value, tuple(components)) for i, value in enumerate(fallbacks)),
        tables=_tables(file, top.get("tables", {}), tuple(components)),
    )


def _components(file: YamlFile, value: Any) -> dict[str, Component]:
    if not isinstance(value, dict) or not value:
        raise file.complaint(_REFERENCE, ("components",), "must be a mapping with at least one component")
    found = {}
    for name, facts in value.items():
        place: Place = ("components", name)
        if not isinstance(name, str) or name == UNATTRIBUTED:
            raise file.complaint(_REFERENCE, place, f"{name!r} cannot be the name of a component")
        given = file.require_mapping(_REFERENCE, place, facts or {}, required=("title",), optional=("group", "outside"))
        outside = given.get("outside")
        if outside is not None:
            choices = [phase.value for phase in OUTSIDE_PHASES]
            outside = BookedPhase(file.require_text(_REFERENCE, (*place, "outside"), outside, choices=choices))
        found[name] = Component(
            name=name,
            title=file.require_text(_REFERENCE, (*place, "title"), given["title"]),
            group=file.require_text(_REFERENCE, (*place, "group"), given.get("group", name)),
            outside=outside,
        )
    return found


def _scope_rule(file: YamlFile, index: int, value: Any, components: Sequence[str]) -> ScopeRule:
    place: Place = ("rules", index)
    keys = ("segments", "pattern", "within", "primitives")
    given = file.require_mapping(_REFERENCE, place, value, required=("component",), optional=keys)
    if not {"segments", "pattern"} & set(given):
        raise file.complaint(_REFERENCE, place, "a rule needs `segments` or `pattern`")
    texts = {key: _texts(file, place, given, key) for key in ("segments", "within", "primitives")}
    return ScopeRule(
        component=_component(file, place, given["component"], components),
        pattern=_pattern(file, (*place, "pattern"), given["pattern"]) if "pattern" in given else None,
        label=f"rule {index + 1} (line {file.lines[place]}) of {_map_name(file)}",
        **texts,
    )


def _fallback_rule(file: YamlFile, index: int, value: Any, components: Sequence[str]) -> FallbackRule:
    place: Place = ("fallbacks", index)
    keys = ("loop", "primitives", "opcodes", "phases", "scopeless")
    given = file.require_mapping(_REFERENCE, place, value, required=("component",), optional=keys)
    if len(given) == 1:
        raise file.complaint(_REFERENCE, place, f"a fallback needs at least one of {', '.join(keys)}")
    scopeless = given.get("scopeless", False)
    if not isinstance(scopeless, bool):
        raise file.complaint(_REFERENCE, (*place, "scopeless"), "must be true or false")
    choices = [each.value for each in LoopPlace]
    phases = [each.value for each in BookedPhase]
    loop = given.get("loop")
    return FallbackRule(
        component=_component(file, place, given["component"], components),
        loop=None
        if loop is None
        else LoopPlace(file.require_text(_REFERENCE, (*place, "loop"), loop, choices=choices)),
        primitives=_texts(file, place, given, "primitives"),
        opcodes=_texts(file, place, given, "opcodes"),
        phases=tuple(BookedPhase(each) for each in _texts(file, place, given, "phases", choices=phases)),
        is_scopeless=scopeless,
        label=f"fallback {index + 1} (line {file.lines[place]}) of {_map_name(file)}",
    )


def _tables(file: YamlFile, value: Any, components: Sequence[str]) -> dict[BookedPhase, tuple[TableRow, ...]]:
    names = [phase.value for phase in _TABLE_PHASES]
    given = file.require_mapping(_REFERENCE, ("tables",), value, optional=names)
    tables = {}
    for name, rows in given.items():
        rows = file.require_list(_REFERENCE, ("tables", name), rows)
        table = tuple(_table_row(file, ("tables", name, i), row, components) for i, row in enumerate(rows))
        seen: set[str] = set()
        for i, row in enumerate(table):
            if twice := seen & set(row.components):
                raise file.complaint(_REFERENCE, ("tables", name, i), f"{', '.join(sorted(twice))}: in two rows")
            seen |= set(row.components)
        tables[BookedPhase(name)] = table
    return tables


def _table_row(file: YamlFile, place: Place, value: Any, components: Sequence[str]) -> TableRow:
    keys = ("components", "state", "absent", "note")
    given = file.require_mapping(_REFERENCE, place, value, required=("title",), optional=keys)
    if ("components" in given) == ("state" in given):
        raise file.complaint(_REFERENCE, place, "a row has either `components` or a `state`")
    states = [state.value for state in RowState]
    found = {
        key: RowState(file.require_text(_REFERENCE, (*place, key), given[key], choices=states))
        for key in ("state", "absent")
        if key in given
    }
    return TableRow(
        title=file.require_text(_REFERENCE, (*place, "title"), given["title"]),
        components=_texts(file, place, given, "components", choices=components),
        state=found.get("state"),
        absent=found.get("absent", RowState.NO_OPERATION),
        note=file.require_text(_REFERENCE, (*place, "note"), given["note"]) if "note" in given else "",
    )


def _texts(
    file: YamlFile, place: Place, given: dict[str, Any], key: str, choices: Sequence[str] = ()
) -> tuple[str, ...]:
    return file.require_texts(_REFERENCE, (*place, key), given[key], choices=choices) if key in given else ()


def _component(file: YamlFile, place: Place, value: Any, components: Sequence[str]) -> str:
    name = file.require_text(_REFERENCE, (*place, "component"), value)
    if name not in components:
        near = nearest_names(name, components) or components
        what = f"{name!r} is no component of this map"
        raise file.complaint(_REFERENCE, (*place, "component"), what, f"one of: {', '.join(near)}")
    return name


def _pattern(file: YamlFile, place: Place, value: Any) -> re.Pattern[str]:
    text = file.require_text(_REFERENCE, place, value)
    try:
        return re.compile(text)
    except re.error as error:
        raise file.complaint(_REFERENCE, place, f"no regular expression: {error}") from error


def _map_name(file: YamlFile) -> str:
    name = file.value.get("name") if isinstance(file.value, dict) else None
    return str(name or Path(file.source).stem)
