"""The files of parts, architectures and network cards -> `Part`, checked entry by entry.

Shipped ones lie beside this module; a user may give a file of his own for a part that is not among them. The schemas
are `rocktools.device/1`, `rocktools.architecture/1` and `rocktools.nics/1` (device.schema.json).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocktools.devices.device import DTYPES, Bandwidth, Device, Level, Unit
from rocktools.devices.part import Architecture, Figure, Part
from rocktools.errors import UsageError, nearest_names
from rocktools.evidence import Evidence
from rocktools.yaml_file import Place, YamlFile, read_yaml_file

PART_SCHEMA = "rocktools.device/1"
ARCHITECTURE_SCHEMA = "rocktools.architecture/1"
NICS_SCHEMA = "rocktools.nics/1"
_REFERENCE = "device-file"
_FOLDER = Path(__file__).resolve().parent
_PER_CYCLE = {Level.L2: "bytes_per_channel_cycle", Level.L1: "bytes_per_cu_cycle", Level.LDS: "bytes_per_cu_cycle"}
_PART_KEYS = (
    *("schema", "part", "title", "architecture", "xcd_count", "cu_per_xcd_count", "clock_hz", "sources", "memory"),
    *("partitions", "memory_partitions"),
)
_ARCHITECTURE_COUNTS = (*("simd_per_cu_count", "lds_per_cu_bytes", "l2_per_xcd_bytes", "l2_channels_per_xcd_count"),)


def shipped_parts() -> tuple[str, ...]:
    """The names of the parts that are known."""
    return tuple(sorted(path.stem for path in (_FOLDER / "parts").glob("*.yaml")))


def read_device(name: str, *, partition: str | None = None, memory_partition: str | None = None) -> Device:
    """The device of that name, upper or lower case, or of a file.

    Args:
        name: one of `shipped_parts`, or the path of a YAML file of yours.
        partition: compute partition; None: the whole package.
        memory_partition: None: the default of the part.

    Raises:
        UsageError: there is no such part or partition.
        InputError: the file cannot be read.
    """
    return read_part(name).device(partition, memory_partition)


def read_part(name: str) -> Part:
    """The part of that name, upper or lower case, or of a file.

    Raises:
        UsageError: there is none.
        InputError: the file cannot be read.
    """
    by_name = {part.upper(): part for part in shipped_parts()}
    if name.upper() in by_name:
        return read_part_file(_FOLDER / "parts" / f"{by_name[name.upper()]}.yaml")
    path = Path(name)
    if path.suffix in (".yaml", ".yml") and path.exists():
        return read_part_file(path)
    near = nearest_names(name, shipped_parts()) or shipped_parts()
    raise UsageError("unknown-device", f"no part {name!r} is known", hint=f"{', '.join(near)}, or a YAML file of yours")


def read_nics() -> dict[str, Bandwidth]:
    """Name -> what a network card of that line rate can send."""
    file = read_yaml_file(_FOLDER / "nics.yaml", _REFERENCE)
    file.require_schema(_REFERENCE, NICS_SCHEMA)
    top = file.require_mapping(_REFERENCE, (), file.value, required=("schema", "sources", "nics"))
    sources = _sources(file, top)
    found = {}
    for name, value in top["nics"].items():
        figure = _figure(file, ("nics", name), value, sources, "bytes_per_s")
        found[name] = Bandwidth(
            level=Level.NETWORK,
            name=f"network card {name}",
            bytes_per_s=float(figure.value),
            evidence=Evidence.DECLARED,
            source=figure.source,
            note=figure.note,
        )
    return found


def read_part_file(path: Path) -> Part:
    """The part of a file.

    Raises:
        InputError: the file cannot be read, or an entry is wrong; the entry and its line are named.
        UnsupportedVersion: it keeps another schema.
    """
    file = read_yaml_file(path, _REFERENCE)
    file.require_schema(_REFERENCE, PART_SCHEMA)
    optional = ("device_ids", "fabric_cache", "peaks", "links")
    top = file.require_mapping(_REFERENCE, (), file.value, required=_PART_KEYS, optional=optional)
    sources = _sources(file, top)
    counts = {
        name: file.require_count(_REFERENCE, (name,), top[name])
        for name in ("xcd_count", "cu_per_xcd_count", "clock_hz")
    }
    memory = _memory(file, "memory", top["memory"])
    cache = _memory(file, "fabric_cache", top["fabric_cache"]) if "fabric_cache" in top else None
    part = Part(
        name=_text(file, top, "part"),
        title=_text(file, top, "title"),
        architecture=_text(file, top, "architecture"),
        rates=_read_architecture(top["architecture"]),
        device_ids=tuple(file.require_list(_REFERENCE, ("device_ids",), top.get("device_ids", []))),
        **counts,
        memory_kind=file.require_text(_REFERENCE, ("memory", "kind"), memory.get("kind", "HBM")),
        memory_bytes=file.require_count(_REFERENCE, ("memory", "capacity_bytes"), memory["capacity_bytes"]),
        memory=_figure(file, ("memory",), memory, sources, "bytes_per_s"),
        fabric_cache_bytes=None if cache is None else cache["capacity_bytes"],
        fabric_cache=None
        if cache is None or "bytes_per_s" not in cache
        else _figure(file, ("fabric_cache",), cache, sources, "bytes_per_s"),
        peaks=_by_unit(file, "peaks", top.get("peaks", {}), sources, "flop_per_s"),
        partitions=_partitions(file, "partitions", top["partitions"], counts["xcd_count"]),
        memory_partitions=_partitions(file, "memory_partitions", top["memory_partitions"], None),
        links=_links(file, top.get("links", {}), sources),
    )
    if part.rates is None and not part.peaks:
        raise file.complaint(
            _REFERENCE,
            ("architecture",),
            f"nothing is known of the architecture {part.architecture}, and the file gives no peaks",
            "`peaks:` with figures in flop_per_s",
        )
    return part


def _read_architecture(name: str) -> Architecture | None:
    path = _FOLDER / "architectures" / f"{name}.yaml"
    if not path.is_file():
        return None
    file = read_yaml_file(path, _REFERENCE)
    file.require_schema(_REFERENCE, ARCHITECTURE_SCHEMA)
    required = ("schema", "architecture", "title", "sources", "rates", "levels", *_ARCHITECTURE_COUNTS)
    top = file.require_mapping(_REFERENCE, (), file.value, required=required)
    sources = _sources(file, top)
    levels = file.require_mapping(_REFERENCE, ("levels",), top["levels"], required=tuple(map(str, _PER_CYCLE)))
    return Architecture(
        name=_text(file, top, "architecture"),
        title=_text(file, top, "title"),
        **{key: file.require_count(_REFERENCE, (key,), top[key]) for key in _ARCHITECTURE_COUNTS},
        rates=_by_unit(file, "rates", top["rates"], sources, "flop_per_cu_cycle"),
        levels={
            level: _figure(file, ("levels", str(level)), levels[str(level)], sources, key)
            for level, key in _PER_CYCLE.items()
        },
    )


def _text(file: YamlFile, top: Mapping[str, Any], key: str) -> str:
    return file.require_text(_REFERENCE, (key,), top[key])


def _sources(file: YamlFile, top: Mapping[str, Any]) -> dict[str, str]:
    """Short name -> title of the document."""
    sources = top["sources"]
    if not isinstance(sources, dict) or not sources:
        raise file.complaint(_REFERENCE, ("sources",), "must name at least one source")
    return {str(name): file.require_text(_REFERENCE, ("sources", name), title) for name, title in sources.items()}


def _figure(file: YamlFile, place: Place, value: Any, sources: Mapping[str, str], key: str) -> Figure:
    """A number with its source; one without is no figure."""
    optional = ("note", "sparse", "kind", "capacity_bytes", "links_count")
    entry = file.require_mapping(_REFERENCE, place, value, required=(key, "source"), optional=optional)
    source = file.require_text(_REFERENCE, (*place, "source"), entry["source"], choices=tuple(sources))
    return Figure(
        value=file.require_count(_REFERENCE, (*place, key), entry[key]),
        source=sources[source],
        note=str(entry.get("note", "")),
        sparse=file.require_count(_REFERENCE, (*place, "sparse"), entry.get("sparse", 1)),
    )


def _memory(file: YamlFile, name: str, value: Any) -> dict[str, Any]:
    required = ("capacity_bytes", "bytes_per_s", "source") if name == "memory" else ("capacity_bytes", "source")
    entry = file.require_mapping(
        _REFERENCE, (name,), value, required=required, optional=("kind", "note", "bytes_per_s")
    )
    file.require_count(_REFERENCE, (name, "capacity_bytes"), entry["capacity_bytes"])
    return entry


def _by_unit(
    file: YamlFile, name: str, value: Any, sources: Mapping[str, str], key: str
) -> dict[tuple[Unit, str], Figure]:
    found = {}
    units = file.require_mapping(_REFERENCE, (name,), value, optional=tuple(map(str, Unit)))
    for unit in Unit:
        place: Place = (name, str(unit))
        dtypes = file.require_mapping(_REFERENCE, place, units.get(str(unit), {}), optional=DTYPES)
        for dtype, entry in dtypes.items():
            found[unit, dtype] = _figure(file, (*place, dtype), entry, sources, key)
    return found


def _partitions(file: YamlFile, name: str, value: Any, xcd_count: int | None) -> dict[str, int]:
    if not isinstance(value, dict) or not value:
        raise file.complaint(_REFERENCE, (name,), "must name at least one partition")
    found = {str(key): file.require_count(_REFERENCE, (name, key), count) for key, count in value.items()}
    for key, count in found.items():
        if xcd_count is not None and xcd_count % count:
            raise file.complaint(_REFERENCE, (name, key), f"{count} does not divide the {xcd_count} XCDs of the part")
    return found


def _links(file: YamlFile, value: Any, sources: Mapping[str, str]) -> dict[str, tuple[int, Figure]]:
    if not isinstance(value, dict):
        raise file.complaint(_REFERENCE, ("links",), "must be a mapping")
    found = {}
    for name, entry in value.items():
        place: Place = ("links", name)
        figure = _figure(file, place, entry, sources, "bytes_per_s")
        found[str(name)] = (file.require_count(_REFERENCE, (*place, "links_count"), entry.get("links_count")), figure)
    return found
