"""The names people know things by: kernels, devices, ranks."""

from __future__ import annotations

import re
from pathlib import Path

_CLONE_SUFFIX = " [clone .kd]"
_DESCRIPTOR_SUFFIX = ".kd"
_RANK_PATTERN = re.compile(r"(?:^|[^a-zA-Z])rank[-_.]?(\d+)(?!\d)", re.IGNORECASE)


def clean_kernel_name(raw_name: str) -> str:
    """A kernel's name without the marks of its descriptor symbol: `.kd` (rocprofv3), ` [clone .kd]` (rocprof-sys)."""
    name = raw_name.rstrip()
    while name.endswith((_CLONE_SUFFIX, _DESCRIPTOR_SUFFIX)):
        name = name.removesuffix(_CLONE_SUFFIX).removesuffix(_DESCRIPTOR_SUFFIX).rstrip()
    return name.lstrip()


def choose_kernel_name(*candidates: object) -> str | None:
    """The first candidate that is a name with something in it, verbatim; None where there is none.

    An empty name is legal: kernels loaded through the module API can have one.
    """
    for candidate in candidates:
        if isinstance(candidate, str) and clean_kernel_name(candidate):
            return candidate
    return None


def device_label(host: str | None, node_id: int | None, kind: str | None, type_index: int | None, agent_id: int) -> str:
    """A label that is equal for one device seen by several processes of a node: `host0:gpu3`."""
    node = host or (f"node{node_id}" if node_id is not None else "node")
    if type_index is None:
        return f"{node}:agent{agent_id}"
    return f"{node}:{(kind or 'agent').lower()}{type_index}"


def rank_in_path(path: Path) -> int | None:
    """The rank that a path names (`rank_3/`, `trace.rank12.db`), its innermost mention first; None without one."""
    for part in reversed(path.absolute().parts):
        match = _RANK_PATTERN.search(part)
        if match:
            return int(match.group(1))
    return None
