"""Bytes of a protocol-buffer message -> its fields, one at a time and without copying; the walk over a profile's frame.

Only what the profile's few outer messages need: who has millions of fields uses event_decoder. A group (wire types 3
and 4) is refused: no message of a profile has one, and a damaged file has many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

Content = bytes | mmap

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
_LONGEST_VARINT_BYTES = 10
LARGEST_TAG = 2**32 - 1
_UINT64 = 2**64 - 1


class WireError(Exception):
    """Bytes that are no message.

    Args:
        offset: first byte of what cannot be read, from the start of the content.
        what: why, as the end of a sentence.
    """

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(offset, what)
        self.offset = offset
        self.what = what


@dataclass(frozen=True, slots=True)
class WireField:
    """One field.

    Attributes:
        number: of the interface.
        wire_type: `VARINT`, `FIXED64`, `LENGTH` or `FIXED32`.
        value: of a varint, as unsigned 64 bits; 0 for the others.
        start, end: the bytes of the content, without tag and length.
    """

    number: int
    wire_type: int
    value: int
    start: int
    end: int

    @property
    def signed(self) -> int:
        """The varint as int64."""
        return signed(self.value)

    def is_message(self, number: int) -> bool:
        """Whether it is the field of that number, and holds a message, a text or bytes."""
        return self.number == number and self.wire_type == LENGTH

    def is_integer(self, number: int) -> bool:
        """Whether it is the field of that number, and holds a varint."""
        return self.number == number and self.wire_type == VARINT


def signed(value: int) -> int:
    """An unsigned 64-bit integer as int64."""
    return value - 2**64 if value >= 2**63 else value


def read_varint(content: Content, position: int, end: int) -> tuple[int, int]:
    """The unsigned value at `position`, and the position behind it.

    Raises:
        WireError: it reaches beyond `end`, or is longer than ten bytes.
    """
    value = 0
    for length in range(_LONGEST_VARINT_BYTES):
        if position + length >= end:
            raise WireError(position, "a number is cut off by the end of its message")
        byte = content[position + length]
        value |= (byte & 0x7F) << (7 * length)
        if byte < 0x80:
            return value & _UINT64, position + length + 1
    raise WireError(position, "a number is longer than ten bytes")


def read_field(content: Content, position: int, end: int) -> WireField:
    """The field whose tag is at `position`, in a message that ends at `end`.

    Raises:
        WireError: there is none, or it reaches beyond `end`.
    """
    tag, after = read_varint(content, position, end)
    number, wire_type = tag >> 3, tag & 7
    if number == 0 or tag > LARGEST_TAG:
        raise WireError(position, f"there is no field number {number}")
    if wire_type == VARINT:
        value, stop = read_varint(content, after, end)
        return WireField(number, wire_type, value, after, stop)
    if wire_type == LENGTH:
        size, after = read_varint(content, after, end)
    elif wire_type in _FIXED_BYTES:
        size = _FIXED_BYTES[wire_type]
    else:
        raise WireError(position, f"field {number} has the wire type {wire_type}, which no profile uses")
    if size > end - after:
        raise WireError(position, f"field {number} claims {size} bytes where its message has {end - after} left")
    return WireField(number, wire_type, 0, after, after + size)


def walk_fields(content: Content, start: int, end: int) -> Iterator[WireField]:
    """The fields of the message in `start`..`end`, in the order of the bytes.

    Raises:
        WireError: as `read_field`, when the walk gets there.
    """
    position = start
    while position < end:
        field = read_field(content, position, end)
        yield field
        position = field.end
