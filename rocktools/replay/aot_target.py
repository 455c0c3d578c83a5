"""The files in `targets/` -> the description of a device that XLA compiles for without having one.

XLA takes it as a text proto (`GpuTargetConfigProto`, its compile-only topologies). What a compilation does with it:
`gcn_arch_name` decides the machine code; launch limits, shared memory and the number of compute units decide tiles
and fusions; the size of the memory decides what is computed again instead of being kept. XLA writes the description
that it compiled for beside its dumps (`*.gpu_target_config.pbtxt`), and such a file is a target too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocktools.errors import InputError, UsageError, nearest_names
from rocktools.yaml_file import YamlFile, read_yaml_file

TARGET_SCHEMA = "rocktools.target/1"
_REFERENCE = "target-file"
_FOLDER = Path(__file__).resolve().parent / "targets"
_INTEGERS = (
    "threads_per_block_limit", "threads_per_warp", "shared_memory_per_block", "shared_memory_per_block_optin",
    "shared_memory_per_core", "threads_per_core_limit", "core_count", "fpus_per_core", "block_dim_limit_x",
    "block_dim_limit_y", "block_dim_limit_z", "memory_bandwidth", "l2_cache_size", "device_memory_size",
    "registers_per_core_limit", "registers_per_block_limit",
)  # fmt: skip
_CLOCK = "clock_rate_ghz"
_DUMPED_SUFFIXES = (".pbtxt", ".txtpb", ".textproto")
_DUMPED_ARCHITECTURE = re.compile(r'\bgcn_arch_name:\s*"(gfx[0-9a-f]+)')
_DUMPED_TITLE = re.compile(r'\bdevice_description_str:\s*"([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device to compile for.

    Attributes:
        name: as on the command line.
        title: as the vendor calls it.
        architecture: `gfx950`.
        configuration: the text proto for XLA.
        path: the file it was read from.
        place: among the descriptions of its architecture, the likeliest first.
    """

    name: str
    title: str
    architecture: str
    configuration: str
    path: Path
    place: int = 1


def shipped_targets() -> tuple[str, ...]:
    """The names of the devices that are known."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def read_target(name: str) -> Target:
    """The device of that name, upper or lower case, of a YAML file, or of a description that XLA dumped.

    Raises:
        UsageError: there is none.
        InputError: the file cannot be read, or lacks something.
        UnsupportedVersion: the file keeps another schema.
    """
    if name.lower() in shipped_targets():
        return _read(_FOLDER / f"{name.lower()}.yaml")
    path = Path(name)
    if path.suffix in (".yaml", ".yml") and path.exists():
        return _read(path)
    if path.suffix in _DUMPED_SUFFIXES and path.exists():
        return _read_dumped(path)
    near = nearest_names(name, shipped_targets()) or shipped_targets()
    raise UsageError(
        "unknown-target", f"no target {name!r} is known", hint=f"{', '.join(near)}, or a YAML file of yours"
    )


def targets_of(architecture: str) -> tuple[Target, ...]:
    """The shipped descriptions of devices of an architecture, such as `gfx950`, the likeliest first."""
    targets = [read_target(name) for name in shipped_targets()]
    return tuple(sorted((each for each in targets if each.architecture == architecture), key=lambda each: each.place))


def _read_dumped(path: Path) -> Target:
    """A text proto that goes to XLA as it is."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(_REFERENCE, f"the file cannot be read: {error}", where=str(path)) from error
    architecture, title = _DUMPED_ARCHITECTURE.search(text), _DUMPED_TITLE.search(text)
    if architecture is None:
        raise InputError(_REFERENCE, "the description names no AMD architecture (gcn_arch_name)", where=str(path))
    return Target(
        name=path.name,
        title=title[1] if title else architecture[1],
        architecture=architecture[1],
        configuration=text,
        path=path,
    )


def _read(path: Path) -> Target:
    file = read_yaml_file(path, _REFERENCE)
    file.require_schema(_REFERENCE, TARGET_SCHEMA)
    required = (
        "schema",
        "target",
        "title",
        "architecture",
        "sources",
        "device",
        "gcn_arch_name",
        "dnn_version",
        "place",
    )
    top = file.require_mapping(_REFERENCE, (), file.value, required=required)
    for key in ("target", "title", "architecture"):
        file.require_text(_REFERENCE, (key,), top[key])
    sources = file.require_mapping(_REFERENCE, ("sources",), top["sources"], optional=tuple(top["sources"] or ()))
    device = file.require_mapping(_REFERENCE, ("device",), top["device"], required=(*_INTEGERS, _CLOCK))
    lines = [f"{key}: {_integer(file, key, device[key], sources)}" for key in _INTEGERS]
    clock = _figure(file, ("device", _CLOCK), device[_CLOCK], sources)
    if not isinstance(clock, (int, float)) or isinstance(clock, bool) or clock <= 0:
        raise file.complaint(_REFERENCE, ("device", _CLOCK), f"must be a positive number, but is {clock!r}")
    arch_name = file.require_text(
        _REFERENCE, ("gcn_arch_name",), _figure(file, ("gcn_arch_name",), top["gcn_arch_name"], sources)
    )
    if not arch_name.startswith(top["architecture"]):
        what = f"{arch_name!r} is not of the architecture {top['architecture']}"
        raise file.complaint(_REFERENCE, ("gcn_arch_name",), what)
    version = str(_figure(file, ("dnn_version",), top["dnn_version"], sources)).split(".")
    if len(version) != 3 or not all(part.isdecimal() for part in version):
        raise file.complaint(_REFERENCE, ("dnn_version",), "must be three numbers with dots between them")
    return Target(
        name=top["target"],
        title=top["title"],
        architecture=top["architecture"],
        configuration=_text_proto([*lines, f"{_CLOCK}: {clock}"], arch_name, version, top["title"]),
        path=path,
        place=file.require_count(_REFERENCE, ("place",), top["place"]),
    )


def _text_proto(lines: list[str], arch_name: str, version: list[str], title: str) -> str:
    fields = "\n".join(f"  {line}" for line in lines)
    return (
        f"gpu_device_info {{\n{fields}\n"
        f'  rocm_compute_capability {{ gcn_arch_name: "{arch_name}" }}\n}}\n'
        'platform_name: "ROCM"\n'
        f"dnn_version_info {{ major: {version[0]} minor: {version[1]} patch: {version[2]} }}\n"
        f'device_description_str: "{title}"\n'
    )


def _integer(file: YamlFile, key: str, value: Any, sources: dict[str, Any]) -> int:
    place = ("device", key)
    return file.require_count(_REFERENCE, (*place, "value"), _figure(file, place, value, sources))


def _figure(file: YamlFile, place: tuple[str, ...], value: Any, sources: dict[str, Any]) -> Any:
    """The value of `{value: ..., source: ...}`; the source must be one of the file's."""
    entry = file.require_mapping(_REFERENCE, place, value, required=("value", "source"))
    file.require_text(_REFERENCE, (*place, "source"), entry["source"], choices=tuple(sources))
    return entry["value"]
