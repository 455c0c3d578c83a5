"""Shardings of HLO protos -> the text XLA prints for them: tiles of devices, and (from 2026) axes of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rocktools.hlo.proto_devices import axis_text, iota_text, joined, mesh_text

# Numbers of xla.OpSharding.Type.
_MAXIMAL, _TUPLE, _OTHER = 1, 2, 3
_WORDS = {0: "replicated", 1: "maximal", 4: "manual", 5: "unknown", 6: "unreduced"}


def sharding_text(sharding: Any) -> str:
    """`{devices=[8,1]<=[8]}`, `{replicated}`, `{mesh['x'=8], [{'x'}, {}]}`, ...; of tuples one for each part."""
    if sharding.HasField("named_sharding"):
        return _named(sharding.named_sharding)
    if sharding.type == _TUPLE:
        return f"{{{', '.join(sharding_text(each) for each in sharding.tuple_shardings)}}}"
    group = f" {'shard_like' if sharding.shard_group_type else 'shard_as'} {sharding.shard_group_id}"
    return f"{{{_placement(sharding)}{group if sharding.is_shard_group else ''}}}"


def _placement(sharding: Any) -> str:
    if sharding.type == _MAXIMAL:
        return f"maximal device={next(iter(sharding.tile_assignment_devices), 0)}"
    if sharding.type != _OTHER:
        return _WORDS.get(sharding.type, "unknown")
    sizes = sharding.tile_assignment_dimensions
    if sharding.iota_reshape_dims:
        text = iota_text(sizes, sharding.iota_reshape_dims, sharding.iota_transpose_perm)
    else:
        text = f"[{joined(sizes)}]{joined(sharding.tile_assignment_devices)}"
    if sharding.replicate_on_last_tile_dim:
        text += " last_tile_dim_replicate"
    if sharding.last_tile_dims:
        words = (_WORDS.get(kind, "unknown") for kind in sharding.last_tile_dims)
        text += f" last_tile_dims={{{', '.join(words)}}}"
    return f"devices={text}"


def _named(sharding: Any) -> str:
    mesh = sharding.mesh
    if not mesh.axes and mesh.device_ids:
        return f"{{maximal_mesh[device_id={mesh.device_ids[0]}]}}"
    return f"{{{mesh_text(mesh)}, {_axes_of_dimensions(sharding)}}}"


def _axes_of_dimensions(sharding: Any) -> str:
    lists = {name: getattr(sharding, f"{name}_axes") for name in ("replicated", "unreduced", "manual")}
    if not sharding.dim_shardings:
        if not any(lists.values()):
            return "replicated"
        for word in ("unreduced", "manual"):
            if _are_all(lists[word], sharding.mesh):
                return word
    parts = [f"[{', '.join(_dimension(each, sharding.mesh) for each in sharding.dim_shardings)}]"]
    parts += [f"{word}={{{_axes(axes, sharding.mesh)}}}" for word, axes in lists.items() if axes]
    return ", ".join(parts)


def _dimension(dimension: Any, mesh: Any) -> str:
    open_mark = "" if dimension.is_closed else "?"
    return f"{{{', '.join(filter(None, [_axes(dimension.axes, mesh), open_mark]))}}}"


def _axes(references: Sequence[Any], mesh: Any) -> str:
    return ", ".join(axis_text(reference, mesh) for reference in references)


def _are_all(references: Sequence[Any], mesh: Any) -> bool:
    """Whether they are the axes of the mesh, whole and in order."""
    return [axis_text(each, mesh) for each in references] == [f"'{axis.name}'" for axis in mesh.axes]
