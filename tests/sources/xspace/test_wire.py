"""Fields of a message, one at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xspace_messages import field, fixed32, varint

from rocktools.sources.xspace.wire import WireError, read_field, read_varint, signed, walk_fields


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_a_number_is_read_back(value: int, behind: bytes) -> None:
    content = varint(value)
    assert read_varint(content + behind, 0, len(content) + len(behind)) == (value, len(content))


@pytest.mark.parametrize("value, expected", [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)])
def test_unsigned_numbers_have_their_signed_meaning(value: int, expected: int) -> None:
    assert signed(value) == expected


def test_fields_are_walked_in_the_order_of_the_bytes() -> None:
    content = field(1, -2) + field(2, b"text") + field(3, 1.0) + fixed32(4, 9) + field(1000, 0)
    found = list(walk_fields(content, 0, len(content)))
    assert [one.number for one in found] == [1, 2, 3, 4, 1000]
    assert found[0].signed == -2
    assert content[found[1].start : found[1].end] == b"text"
    assert [one.end - one.start for one in found[2:4]] == [8, 4]
    assert found[-1].end == len(content)
    assert found[1].is_message(2)
    assert not found[1].is_integer(2)
    assert found[0].is_integer(1)


def test_an_empty_message_has_no_field() -> None:
    assert list(walk_fields(b"abc", 1, 1)) == []


@pytest.mark.parametrize(
    "content, what, offset",
    [
        (b"\x08", "cut off", 1),
        (b"\x08\x80", "cut off", 1),
        (b"\x80", "cut off", 0),
        (b"\x80" * 11, "longer than ten bytes", 0),
        (b"\x00", "no field number 0", 0),
        (varint(2**32 | 8) + b"\x00", "no field number", 0),
        (b"\x0b", "wire type 3", 0),
        (b"\x0c", "wire type 4", 0),
        (b"\x0e", "wire type 6", 0),
        (b"\x0a\x05abcd", "claims 5 bytes where its message has 4 left", 0),
        (b"\x09abcdefg", "claims 8 bytes where its message has 7 left", 0),
        (b"\x0a" + varint(2**64 - 1), "claims 18446744073709551615 bytes", 0),
    ],
)
def test_what_is_no_field_is_refused_with_its_place(content: bytes, what: str, offset: int) -> None:
    with pytest.raises(WireError, match=what) as caught:
        read_field(content, 0, len(content))
    assert caught.value.offset == offset


def test_a_field_may_not_reach_beyond_its_message() -> None:
    content = field(2, b"text")
    with pytest.raises(WireError):
        read_field(content, 0, len(content) - 1)
