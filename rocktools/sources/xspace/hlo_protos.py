"""The HLO protos in a profile, by the id of their module.

In files of 2025 and before, the key of the metadata entry is the module's id; newer ones count their entries from 1. So
the id is read from the proto itself (`HloProto.hlo_module.id`); where it has none, the number in the parentheses of the
entry's name holds (`jit_train_step(36)`), and the key only where nothing else does.
"""

from __future__ import annotations

import re

from rocktools.sources.xspace.plane import Plane
from rocktools.sources.xspace.wire import WireError, walk_fields

METADATA_PLANE = "/host:metadata"
_PROTO_STAT = "Hlo Proto"
_HLO_MODULE, _MODULE_ID = 1, 5
_NUMBER_IN_NAME = re.compile(r"\((\d+)\)\s*$")


def read_hlo_protos(planes: tuple[Plane, ...]) -> dict[str, bytes]:
    """Program id in decimal -> serialised HloProto.

    Raises:
        DamagedFile: the plane that holds them is damaged.
    """
    protos = {}
    for plane in planes:
        if plane.name == METADATA_PLANE:
            for key, proto in plane.facts.metadata_bytes.get(_PROTO_STAT, {}).items():
                protos[_program_id(proto, plane.facts.event_names.get(key, ""), key)] = proto
    return protos


def has_hlo_protos(planes: tuple[Plane, ...]) -> bool:
    """Whether there is at least one.

    Raises:
        DamagedFile: the plane that holds them is damaged.
    """
    return any(plane.name == METADATA_PLANE and plane.facts.metadata_bytes.get(_PROTO_STAT) for plane in planes)


def program_id_text(value: int) -> str:
    """A program id in decimal: unsigned, as some profilers store it signed."""
    return str(value % 2**64)


def _program_id(proto: bytes, name: str, key: int) -> str:
    module_id = _module_id(proto)
    if module_id is not None:
        return program_id_text(module_id)
    match = _NUMBER_IN_NAME.search(name)
    return match.group(1) if match else program_id_text(key)


def _module_id(proto: bytes) -> int | None:
    """HloProto.hlo_module.id; None where there is none (proto3 does not write a 0), or the proto is damaged."""
    try:
        for module in walk_fields(proto, 0, len(proto)):
            if module.is_message(_HLO_MODULE):
                for found in walk_fields(proto, module.start, module.end):
                    if found.is_integer(_MODULE_ID):
                        return found.value or None
    except WireError:
        return None  # who reads the proto will say so; its bytes are handed over all the same
    return None
