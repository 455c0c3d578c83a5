"""Which devices a collective joins: every spelling of `replica_groups` -> the groups, member by member.

XLA prints three forms: lists, an array of ids reshaped and transposed (`[2,4]<=[4,2]T(1,0)`, since 2023), and a mesh
with the axes that are joined (since 2026). What they mean is defined in XLA's `replica_group.cc` and
`tile_assignment.cc`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from rocktools.errors import InputError

Group = tuple[int, ...]
_Ids = npt.NDArray[np.int64]
# More devices than any machine has: a number beyond it is damage, and would only fill the memory.
_DEVICES_AT_MOST = 1 << 22
_NUMBERS = r"\d{1,12}(?:\s*,\s*\d{1,12})*"
_INNER = re.compile(rf"\{{\s*((?:{_NUMBERS})?)\s*\}}")
_LIST = re.compile(rf"\{{\s*(?:{_INNER.pattern}(?:\s*,\s*{_INNER.pattern})*)?\s*\}}")
_IOTA = re.compile(rf"\[\s*({_NUMBERS})\s*\]\s*<=\s*\[\s*({_NUMBERS})\s*\](?:\s*T\(\s*({_NUMBERS})\s*\))?")
_MESH = re.compile(r"mesh\[(?P<axes>[^\]]*)\](?:\s*,\s*device_ids=\((?P<ids>.*?)\)(?=\s*\{))?\s*\{(?P<joined>[^{}]*)\}")
_AXIS = re.compile(r"'([^']*)'\s*=\s*(\d{1,12})")
_REORDERED = re.compile(rf"\[\s*({_NUMBERS})\s*\]\s*T\(\s*({_NUMBERS})\s*\)")
_JOINED = re.compile(r"'([^']*)'(?::\((\d{1,12})\)(\d{1,12}))?")


class GroupsForm(str, Enum):
    """How the groups were written."""

    EVERYBODY = "everybody"  # `{}`: one group of all, however many there are
    LISTS = "lists"
    IOTA = "iota"
    MESH = "mesh"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroups:
    """The groups of a collective; iterating gives one group of ids after the other.

    Attributes:
        groups: ids of the members; () where everybody is in one group and nobody said how many that is.
        text: as it was written.
        form: how it was written.
    """

    groups: tuple[Group, ...]
    text: str
    form: GroupsForm

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def group_size(self) -> int | None:
        """Members of each group; None where groups differ, or it is not known."""
        sizes = {len(group) for group in self.groups}
        return sizes.pop() if len(sizes) == 1 else None

    def group_of(self, device: int) -> Group | None:
        """The group that a device is in; None where it is in none."""
        return next((group for group in self.groups if device in group), None)

    def __str__(self) -> str:
        """As lists, whatever form it had."""
        return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in self.groups) + "}"


def parse_replica_groups(text: str, *, devices_count: int | None = None) -> ReplicaGroups:
    """The groups that a value of `replica_groups` stands for.

    Args:
        text: `{{0,1},{2,3}}`, `{}`, `[4,2]<=[2,4]T(1,0)`, `mesh['x'=4,'y'=2] {'x'}`.
        devices_count: members of the one group of everybody that `{}` stands for.

    Raises:
        InputError: it is written otherwise, or sizes do not fit each other.
    """
    stripped = text.strip()
    if stripped == "{}":
        groups = () if devices_count is None else (tuple(range(devices_count)),)
        return ReplicaGroups(groups=groups, text=text, form=GroupsForm.EVERYBODY)
    if _LIST.fullmatch(stripped):
        return ReplicaGroups(groups=_lists(stripped), text=text, form=GroupsForm.LISTS)
    iota = _IOTA.fullmatch(stripped)
    if iota:
        return ReplicaGroups(groups=_iota(iota, text), text=text, form=GroupsForm.IOTA)
    mesh = _MESH.fullmatch(stripped)
    if mesh:
        return ReplicaGroups(groups=_mesh(mesh, text), text=text, form=GroupsForm.MESH)
    raise _unreadable(text, "it is no list of groups, no array of ids and no mesh")


def parse_source_target_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """The (source, target) pairs of a collective-permute: `{{0,1},{1,0}}`.

    Raises:
        InputError: it is written otherwise.
    """
    if not _LIST.fullmatch(text.strip()):
        raise _unreadable(text, "it is no list of pairs")
    groups = _lists(text.strip())
    if any(len(group) != 2 for group in groups):
        raise _unreadable(text, "not every group in it is a pair")
    return tuple((group[0], group[1]) for group in groups)


def _unreadable(text: str, reason: str) -> InputError:
    shortened = text if len(text) <= 120 else f"{text[:117]}..."
    return InputError("replica-groups-unreadable", f"the groups of devices {shortened!r} cannot be read: {reason}")


def _lists(text: str) -> tuple[Group, ...]:
    return tuple(tuple(_numbers(inner)) for inner in _INNER.findall(text[1:-1]))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number.strip()]


def _iota(found: re.Match[str], text: str) -> tuple[Group, ...]:
    shape = _numbers(found.group(1))
    if len(shape) != 2:
        raise _unreadable(text, f"it has {len(shape)} dimensions, not groups and members")
    ids = _reordered_ids(_numbers(found.group(2)), _numbers(found.group(3) or ""), text)
    if ids.size != math.prod(shape):
        raise _unreadable(text, f"{ids.size} ids do not fill {shape[0]} groups of {shape[1]}")
    return _rows(ids.reshape(shape))


def _reordered_ids(shape: Sequence[int], permutation: Sequence[int], text: str) -> _Ids:
    """0, 1, 2, ... in that shape, transposed."""
    count = math.prod(shape)
    if count > _DEVICES_AT_MOST:
        raise _unreadable(text, f"it names {count} devices")
    order = list(permutation) or list(range(len(shape)))
    if sorted(order) != list(range(len(shape))):
        raise _unreadable(text, f"T({','.join(map(str, order))}) is no order of {len(shape)} dimensions")
    ids: _Ids = np.arange(count, dtype=np.int64).reshape(shape).transpose(order).reshape(-1)
    return ids


def _mesh(found: re.Match[str], text: str) -> tuple[Group, ...]:
    axes = {name: int(size) for name, size in _AXIS.findall(found["axes"])}
    count = math.prod(axes.values())
    ids = _mesh_ids(found["ids"], count, text)
    if ids.size != count:
        raise _unreadable(text, f"the axes make {count} devices, {ids.size} are listed")
    shape, joined = _split_axes(axes, _JOINED.findall(found["joined"]), text)
    # Axes that are not joined tell groups apart; joined ones run within a group, in the order of the mesh.
    apart = [place for place in range(len(shape)) if place not in joined]
    members = math.prod(shape[place] for place in joined)
    return _rows(ids.reshape(shape).transpose([*apart, *joined]).reshape(-1, max(members, 1)))


def _mesh_ids(written: str | None, count: int, text: str) -> _Ids:
    if count > _DEVICES_AT_MOST:
        raise _unreadable(text, f"it names {count} devices")
    if written is None:
        return np.arange(count, dtype=np.int64)
    reordered = _REORDERED.fullmatch(written.strip())
    if reordered:
        return _reordered_ids(_numbers(reordered.group(1)), _numbers(reordered.group(2)), text)
    if not re.fullmatch(rf"\s*{_NUMBERS}\s*", written):
        raise _unreadable(text, f"the ids of its devices are {written!r}")
    return np.array(_numbers(written), dtype=np.int64)


def _split_axes(
    axes: dict[str, int], references: Sequence[tuple[str, str, str]], text: str
) -> tuple[list[int], list[int]]:
    """The shape of the mesh with axes cut where only a part of one is joined, and the places of the joined parts.

    `'x':(2)4` is the part of x of size 4 behind parts that multiply to 2.
    """
    parts: dict[str, list[tuple[int, int]]] = {}
    for name, written_before, written_size in references:
        if name not in axes:
            raise _unreadable(text, f"there is no axis {name!r}")
        part = (int(written_before), int(written_size)) if written_before else (1, axes[name])
        parts.setdefault(name, []).append(part)
    shape: list[int] = []
    joined: list[int] = []
    for name, axis_size in axes.items():
        done = 1
        places: dict[tuple[int, int], int] = {}
        for before, size in sorted(parts.get(name, [])):
            if before < done or before % done or not size:
                raise _unreadable(text, f"the parts of axis {name!r} overlap")
            shape += [before // done, size]
            places[before, size] = len(shape) - 1
            done = before * size
        if axis_size % done:
            raise _unreadable(text, f"parts of axis {name!r} do not divide its size {axis_size}")
        shape.append(axis_size // done)
        joined += [places[part] for part in parts.get(name, [])]
    return shape, joined


def _rows(array: _Ids) -> tuple[Group, ...]:
    return tuple(tuple(row) for row in array.tolist())
