"""Groups of devices and shardings of HLO protos -> the text XLA prints for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

# Numbers of xla.OpSharding.Type.
_REPLICATED, _MAXIMAL, _TUPLE, _OTHER = 0, 1, 2, 3
_SHARDING_WORDS = {0: "replicated", 1: "maximal", 4: "manual", 5: "unknown", 6: "unreduced"}


def braced(numbers: Iterable[object]) -> str:
    """`{0,1}`"""
    return f"{{{','.join(map(str, numbers))}}}"


def replica_groups_text(instruction: Any) -> str:
    """`{{0,1},{2,3}}`, `[4,2]<=[8]` or `mesh['x'=8] {'x'}`, as the proto holds them; `{}` where it has none."""
    if instruction.HasField("mesh_axes_replica_group_list"):
        return _mesh_groups(instruction.mesh_axes_replica_group_list)
    iota = instruction.iota_replica_group_list
    devices = instruction.collective_device_list
    if not iota.num_replica_groups and devices.HasField("iota_replica_group_list"):
        iota = devices.iota_replica_group_list
    if iota.num_replica_groups:
        sizes = [iota.num_replica_groups, iota.num_devices_per_group]
        return _iota(sizes, iota.iota_reshape_dims, iota.iota_transpose_perm)
    groups = instruction.replica_groups or devices.replica_groups
    return braced(braced(group.replica_ids) for group in groups)


def sharding_text(sharding: Any) -> str:
    """`{devices=[8,1]<=[8]}`, `{replicated}`, ...; tuples within braces of their own."""
    if sharding.type == _TUPLE:
        return f"{{{', '.join(sharding_text(each) for each in sharding.tuple_shardings)}}}"
    if sharding.type == _MAXIMAL:
        return f"{{maximal device={next(iter(sharding.tile_assignment_devices), 0)}}}"
    if sharding.type != _OTHER:
        return f"{{{_SHARDING_WORDS.get(sharding.type, 'unknown')}}}"
    sizes = sharding.tile_assignment_dimensions
    if sharding.iota_reshape_dims:
        text = _iota(sizes, sharding.iota_reshape_dims, sharding.iota_transpose_perm)
    else:
        text = f"[{_joined(sizes)}]{_joined(sharding.tile_assignment_devices)}"
    if sharding.replicate_on_last_tile_dim:
        text += " last_tile_dim_replicate"
    if sharding.last_tile_dims:
        words = (_SHARDING_WORDS.get(kind, "unknown") for kind in sharding.last_tile_dims)
        text += f" last_tile_dims={{{', '.join(words)}}}"
    return f"{{devices={text}}}"


def _mesh_groups(groups: Any) -> str:
    axes = groups.mesh.axes
    named = ",".join(f"'{axis.name}'={axis.size}" for axis in axes)
    ids = _joined(groups.mesh.device_ids)
    if not ids and len(groups.mesh.order.reshape_dims) > 1:
        ids = f"[{_joined(groups.mesh.order.reshape_dims)}]T({_joined(groups.mesh.order.transpose_perm)})"
    devices = f", device_ids=({ids})" if ids else ""
    used = []
    for reference in groups.axes:
        index = reference.mesh_axis_index
        name = f"'{axes[index].name}'" if 0 <= index < len(axes) else str(index)
        sub = reference.sub_axis_info
        used.append(f"{name}:({sub.pre_size}){sub.size}" if reference.HasField("sub_axis_info") else name)
    return f"mesh[{named}]{devices} {{{','.join(used)}}}"


def _iota(sizes: Sequence[int], reshape: Sequence[int], permutation: Sequence[int]) -> str:
    text = f"[{_joined(sizes)}]<=[{_joined(reshape)}]"
    return f"{text}T({_joined(permutation)})" if len(reshape) > 1 else text


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
