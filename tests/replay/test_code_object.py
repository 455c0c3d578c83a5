"""Code objects: machine code and resources, against the msgpack library and made ELF files."""

from __future__ import annotations

import contextlib
import hashlib

import pytest
from elf_files import write_code_object
from hypothesis import given
from hypothesis import strategies as st

from rocktools.errors import DamagedFile, InputError, UnknownFormat
from rocktools.replay.code_object import read_code_object, unpack_msgpack

FACTS = {
    ".vgpr_count": 242, ".agpr_count": 128, ".sgpr_count": 25, ".group_segment_fixed_size": 16640,
    ".private_segment_fixed_size": 0, ".vgpr_spill_count": 3, ".sgpr_spill_count": 0, ".kernarg_segment_size": 24,
    ".wavefront_size": 64,
}  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner, max_size=20),
    max_leaves=30,
)


def test_kernels_have_their_code_and_resources():
    codes = {"one": b"\x01\x02\x03\x04", "two": b"\xff" * 100}
    read = read_code_object(write_code_object({name: (code, FACTS) for name, code in codes.items()}), "made")
    assert list(read) == ["one", "two"]
    for name, code in codes.items():
        assert read[name].sha256 == hashlib.sha256(code).hexdigest()
        assert read[name].code_bytes == len(code)
    one = read["one"]
    assert (one.vgpr_count, one.agpr_count, one.sgpr_count, one.lds_bytes) == (242, 128, 25, 16640)
    assert (one.scratch_bytes, one.vgpr_spills_count, one.sgpr_spills_count) == (0, 3, 0)
    assert (one.kernarg_bytes, one.wavefront_workitems) == (24, 64)


def test_what_the_note_does_not_say_is_missing_and_not_zero():
    read = read_code_object(write_code_object({"one": (b"\x01", {})}), "made")
    assert read["one"].vgpr_count is None
    assert read["one"].lds_bytes is None


def test_kernel_without_code_is_damage():
    content = write_code_object({"one": (b"\x01", FACTS)}).replace(b"\0one\0", b"\0oen\0", 1)
    with pytest.raises(DamagedFile, match="has no code"):
        read_code_object(content, "made")


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF\x01\x01" + bytes(80)])
def test_other_files_are_no_code_objects(content):
    with pytest.raises(UnknownFormat):
        read_code_object(content, "made")


@given(data=st.data())
def test_every_prefix_and_every_broken_byte_ends_in_kernels_or_an_error(data):
    content = bytearray(write_code_object({"one": (b"\x01\x02", FACTS)}))
    for _ in range(data.draw(st.integers(0, 2))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InputError):
        read_code_object(bytes(content[: data.draw(st.integers(0, len(content)))]), "broken")


@given(value=VALUES)
def test_msgpack_of_the_library_is_read(value):
    msgpack = pytest.importorskip("msgpack")
    assert unpack_msgpack(msgpack.packb(value, use_bin_type=True), "made") == value


@given(data=st.binary(max_size=60))
def test_any_bytes_are_msgpack_or_damage(data):
    with contextlib.suppress(DamagedFile):
        unpack_msgpack(data, "anything")
