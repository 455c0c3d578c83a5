"""A YAML file of thresholds -> `Thresholds`.

schema: rocktools.thresholds/1
step_median: {warn_ratio: 0.02, fail_ratio: 0.05}
component: {fail_ratio: 0.05}
components:
  expert_mlp: {fail_ratio: 0.03}
  attention/backward: {warn_ratio: 0.02}
shares:
  exposed_communication: {warn_ratio: 0.03, fail_ratio: 0.10}
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from rocktools.compare.track import Limits, Thresholds
from rocktools.yaml_file import Place, YamlFile, read_yaml_file

SCHEMA = "rocktools.thresholds/1"
_REFERENCE = "bad-thresholds"
_SINGLE = ("step_median", "step_p90", "component", "scope")
_LARGEST = 1e6
_LIMITS = tuple(each.name for each in fields(Limits))


def read_thresholds(path: Path) -> Thresholds:
    """The thresholds of a file; what it does not name keeps its default.

    Raises:
        InputError: it cannot be read, or an entry is not what it must be.
        UnsupportedVersion: it is of another version.
    """
    file = read_yaml_file(path, _REFERENCE)
    file.require_schema(_REFERENCE, SCHEMA)
    keys = (*_SINGLE, "components", "shares")
    top = file.require_mapping(_REFERENCE, (), file.value, required=("schema",), optional=keys)
    given: dict[str, Any] = {name: _limits(file, (name,), top[name]) for name in _SINGLE if name in top}
    for name in ("components", "shares"):
        if name not in top:
            continue
        if not isinstance(top[name], dict):
            raise file.complaint(_REFERENCE, (name,), "must map names to limits")
        given[name] = {str(key): _limits(file, (name, key), value) for key, value in top[name].items()}
    return Thresholds(**given)


def _limits(file: YamlFile, place: Place, value: Any) -> Limits:
    mapping = file.require_mapping(_REFERENCE, place, value, optional=_LIMITS)
    for name, limit in mapping.items():
        if limit is not None and (
            isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 <= limit < 1e6
        ):
            raise file.complaint(_REFERENCE, (*place, name), "must be a ratio, 0 or more: 0.05 for 5 %")
    return Limits(**mapping)
