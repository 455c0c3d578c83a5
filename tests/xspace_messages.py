"""Profiles for tests: message classes of a third, independent table, and bytes of fields in any order."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

from rocktools.protos import Field, build_messages

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


@cache
def message_classes() -> dict[str, Any]:
    """XLine, XEvent and XStat; texts are bytes, so that any of them is accepted."""
    tables = {
        "XLine": [("id", 1, "int64", ""), ("events", 4, "XEvent", "")],
        "XEvent": [
            ("metadata_id", 1, "int64", ""),
            ("offset_ps", 2, "int64", "data"),
            ("duration_ps", 3, "int64", ""),
            ("stats", 4, "XStat", ""),
            ("num_occurrences", 5, "int64", "data"),
        ],
        "XStat": [
            ("metadata_id", 1, "int64", ""),
            ("double_value", 2, "double", "value"),
            ("uint64_value", 3, "uint64", "value"),
            ("int64_value", 4, "int64", "value"),
            ("str_value", 5, "bytes", "value"),
            ("bytes_value", 6, "bytes", "value"),
            ("ref_value", 7, "uint64", "value"),
        ],
    }
    return dict(
        build_messages(
            "rocktools.tests.xspace",
            {
                name: [
                    Field(field, number, kind, is_repeated=field in ("events", "stats"), oneof=oneof)
                    for field, number, kind, oneof in fields
                ]
                for name, fields in tables.items()
            },
        )
    )


def varint(value: int) -> bytes:
    """A number as protocol buffers write it; negative ones take ten bytes."""
    value %= 2**64
    octets = []
    while value >= 0x80:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*octets, value])


def field(number: int, value: int | float | bytes) -> bytes:
    """A field: a varint, a double, or bytes with their length."""
    if isinstance(value, float):
        return varint(number << 3 | FIXED64) + struct.pack("<d", value)
    if isinstance(value, bytes):
        return varint(number << 3 | LENGTH) + varint(len(value)) + value
    return varint(number << 3 | VARINT) + varint(value)


def fixed32(number: int, value: int) -> bytes:
    return varint(number << 3 | FIXED32) + struct.pack("<I", value)
