"""Groups of devices and meshes of HLO protos -> the text XLA prints for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def braced(numbers: Iterable[object]) -> str:
    """`{0,1}`"""
    return f"{{{','.join(map(str, numbers))}}}"


def replica_groups_text(instruction: Any) -> str:
    """`{{0,1},{2,3}}`, `[4,2]<=[8]` or `mesh['x'=8] {'x'}`, as the proto holds them; `{}` where it has none."""
    if instruction.HasField("mesh_axes_replica_group_list"):
        return _mesh_groups(instruction.mesh_axes_replica_group_list)
    iota = instruction.iota_collective_device_list
    devices = instruction.collective_device_list
    if not iota.num_replica_groups and devices.HasField("iota_replica_group_list"):
        iota = devices.iota_replica_group_list
    if iota.num_replica_groups:
        sizes = [iota.num_replica_groups, iota.num_devices_per_group]
        return iota_text(sizes, iota.iota_reshape_dims, iota.iota_transpose_perm)
    groups = instruction.replica_groups or devices.replica_groups
    return braced(braced(group.replica_ids) for group in groups)


def mesh_text(mesh: Any) -> str:
    """`mesh['x'=4,'y'=2]`, with the order of its devices behind it where that is not 0, 1, 2, ..."""
    named = ",".join(f"'{axis.name}'={axis.size}" for axis in mesh.axes)
    ids = joined(mesh.device_ids)
    order = mesh.iota_transform
    if not ids and len(order.reshape_dims) > 1:
        ids = f"[{joined(order.reshape_dims)}]T({joined(order.transpose_perm)})"
    return f"mesh[{named}], device_ids=({ids})" if ids else f"mesh[{named}]"


def axis_text(reference: Any, mesh: Any) -> str:
    """`'x'`, or `'x':(2)4` for a part of it."""
    index = reference.mesh_axis_index
    name = f"'{mesh.axes[index].name}'" if 0 <= index < len(mesh.axes) else str(index)
    if not reference.HasField("sub_axis_info"):
        return name
    return f"{name}:({reference.sub_axis_info.pre_size}){reference.sub_axis_info.size}"


def iota_text(sizes: Sequence[int], reshape: Sequence[int], permutation: Sequence[int]) -> str:
    """`[2,4]<=[4,2]T(1,0)`"""
    text = f"[{joined(sizes)}]<=[{joined(reshape)}]"
    return f"{text}T({joined(permutation)})" if len(reshape) > 1 else text


def joined(numbers: Iterable[int]) -> str:
    """`1,2,3`"""
    return ",".join(map(str, numbers))


def _mesh_groups(groups: Any) -> str:
    axes = ",".join(axis_text(reference, groups.mesh) for reference in groups.axes)
    return f"{mesh_text(groups.mesh)} {{{axes}}}"
