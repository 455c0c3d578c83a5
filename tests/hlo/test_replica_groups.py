"""Groups of devices: each spelling against a plain enumeration, and against XLA's own where it gives one."""

from __future__ import annotations

import contextlib
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.errors import InputError
from rocktools.hlo.replica_groups import GroupsForm, parse_replica_groups, parse_source_target_pairs


def test_lists_are_read_as_they_stand():
    found = parse_replica_groups("{{0,2},{1,3}}")
    assert (found.groups, found.form, found.group_size, len(found)) == (((0, 2), (1, 3)), GroupsForm.LISTS, 2, 2)
    assert found.group_of(3) == (1, 3)
    assert found.group_of(9) is None
    assert str(found) == "{{0,2},{1,3}}"


def test_groups_of_different_sizes_have_no_common_size():
    assert parse_replica_groups("{{0,1},{2}}").group_size is None


def test_empty_braces_are_everybody_however_many_they_are():
    assert parse_replica_groups("{}").groups == ()
    assert parse_replica_groups("{}").group_size is None
    assert parse_replica_groups("{}", devices_count=3).groups == ((0, 1, 2),)
    assert parse_replica_groups("{}").form is GroupsForm.EVERYBODY


# By hand: 0..7 in rows of the first shape, read along the transposed axes.
BY_HAND = [
    ("[2,4]<=[8]", "{{0,1,2,3},{4,5,6,7}}"),
    ("[2,4]<=[4,2]T(1,0)", "{{0,2,4,6},{1,3,5,7}}"),
    ("[8,2]<=[4,2,2]T(1,0,2)", "{{0,1},{4,5},{8,9},{12,13},{2,3},{6,7},{10,11},{14,15}}"),
    ("mesh['mesh'=8] {'mesh'}", "{{0,1,2,3,4,5,6,7}}"),
    ("mesh['a'=4,'b'=2] {'a'}", "{{0,2,4,6},{1,3,5,7}}"),
    ("mesh['a'=4,'b'=2] {'b'}", "{{0,1},{2,3},{4,5},{6,7}}"),
    ("mesh['a'=4,'b'=2], device_ids=(0,4,1,5,2,6,3,7) {'a'}", "{{0,1,2,3},{4,5,6,7}}"),
    ("mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'a'}", "{{0,1,2,3},{4,5,6,7}}"),
    # Parts of an axis of 8: the outer 2 of 2 x 4; the 2 in the middle of 2 x 2 x 2; outer and inner of these.
    ("mesh['a'=8] {'a':(1)2}", "{{0,4},{1,5},{2,6},{3,7}}"),
    ("mesh['a'=8] {'a':(2)2}", "{{0,2},{1,3},{4,6},{5,7}}"),
    ("mesh['a'=8] {'a':(1)2,'a':(4)2}", "{{0,1,4,5},{2,3,6,7}}"),
]


@pytest.mark.parametrize("text, lists", BY_HAND)
def test_arrays_and_meshes_mean_these_lists(text, lists):
    assert str(parse_replica_groups(text)) == lists
    assert parse_replica_groups(text).groups == parse_replica_groups(lists).groups


REFUSED = [
    *("", "odd", "{{0,1}", "{0,1}", "[2,4]", "[2,4]<=[9]", "[2,4]<=[8]T(0,1)", "[2,4]<=[4,2]T(1,1)", "[2,2,2]<=[8]"),
    *("[1,99999999999]<=[99999999999]", "mesh['a'=4] {'b'}", "mesh['a'=4], device_ids=(0,1) {'a'}"),
    *("mesh['a'=4], device_ids=(x) {'a'}", "mesh['a'=8] {'a':(1)4,'a':(2)2}", "mesh['a'=8] {'a':(1)3}"),
    *("mesh['a'=99999999999] {'a'}", "{{1\n2}}", "{{" + "9" * 6000 + "}}", "[2,4]<=[" + "9" * 6000 + "]"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_means_no_groups_is_refused(text):
    with pytest.raises(InputError) as caught:
        parse_replica_groups(text)
    assert caught.value.reference == "replica-groups-unreadable"


@st.composite
def iotas(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    count = math.prod(shape)
    groups_count = draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
    return groups_count, shape, list(draw(st.permutations(range(len(shape)))))


def enumerate_transposed(shape: list[int], permutation: list[int]) -> list[int]:
    """0, 1, 2, ... of an array of that shape in the order of the transposed one, index by index."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    indices = itertools.product(*(range(shape[axis]) for axis in permutation))
    return [sum(i * strides[axis] for i, axis in zip(index, permutation, strict=True)) for index in indices]


def iota_text(groups_count: int, shape: list[int], permutation: list[int]) -> str:
    transposed = f"T({','.join(map(str, permutation))})" if len(shape) > 1 else ""
    return f"[{groups_count},{math.prod(shape) // groups_count}]<=[{','.join(map(str, shape))}]{transposed}"


@given(iotas())
def test_an_array_of_ids_is_transposed_as_an_enumeration_of_its_indices_says(iota):
    groups_count, shape, permutation = iota
    ids = enumerate_transposed(shape, permutation)
    size = len(ids) // groups_count
    expected = tuple(tuple(ids[first : first + size]) for first in range(0, len(ids), size))
    assert parse_replica_groups(iota_text(*iota)).groups == expected


@given(iotas())
def test_an_array_of_ids_is_transposed_as_in_xla(iota):
    hlo = pytest.importorskip("jaxlib._hlo")
    sharding = hlo.HloSharding.from_string(f"{{devices={iota_text(*iota)}}}")
    found = [device for group in parse_replica_groups(iota_text(*iota)) for device in group]
    if sharding.is_tiled():  # XLA makes `replicated` of one device
        assert found == list(sharding.tile_assignment_devices())


@given(st.data())
def test_a_mesh_joins_those_who_differ_only_in_the_joined_axes(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    joined = data.draw(st.sets(st.sampled_from(range(len(sizes))), min_size=1))
    ids = data.draw(st.permutations(range(math.prod(sizes))))
    axes = ",".join(f"'x{axis}'={size}" for axis, size in enumerate(sizes))
    used = ",".join(f"'x{axis}'" for axis in sorted(joined))
    found = parse_replica_groups(f"mesh[{axes}], device_ids=({','.join(map(str, ids))}) {{{used}}}")
    expected: dict[tuple[int, ...], list[int]] = {}
    for device, index in zip(ids, itertools.product(*map(range, sizes)), strict=True):
        expected.setdefault(tuple(i for axis, i in enumerate(index) if axis not in joined), []).append(device)
    assert list(found) == [tuple(group) for group in expected.values()]


@given(st.text(alphabet="{}[]()<=T,'ab0128: mesh", max_size=30))
def test_any_text_means_groups_or_an_input_error(text):
    with contextlib.suppress(InputError):
        assert all(device >= 0 for group in parse_replica_groups(text) for device in group)


def test_pairs_of_a_permutation_are_read():
    assert parse_source_target_pairs("{{0,1},{1,2},{2,0}}") == ((0, 1), (1, 2), (2, 0))
    assert parse_source_target_pairs("{}") == ()
    with pytest.raises(InputError, match="pair"):
        parse_source_target_pairs("{{0,1,2}}")
    with pytest.raises(InputError, match="pairs"):
        parse_source_target_pairs("[2,2]<=[4]")
